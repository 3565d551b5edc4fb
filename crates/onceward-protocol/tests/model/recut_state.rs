//! What the model of re-cutting consists of, and what stands for the protocol's own types in it.

use arrayvec::ArrayVec;
use onceward_protocol::recut::{LaneState, SubFrontier};
use onceward_protocol::{
    Branch, Frontier, Generation, Head, KeyRange, LanePoint, PartitionHead, Position, Watermark,
};

pub const MESSAGES: usize = 4;
pub const KEYS: usize = 3;
pub const PARTS: usize = 7;
pub const JOBS: usize = 12;
pub const COMMITS: usize = 4;
pub const LEADERS: usize = 2;
pub const CONSUMERS: usize = 3;
pub const SUBS: usize = 4;

/// (generation, epoch) of a commit; (0, 0) for none.
pub type Commit = (u8, u8);

/// A range by its first and last key.
pub type Keys = (u8, u8);

/// [`LaneState`] in small numbers.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Debug)]
pub struct Lane {
    pub taken: u8,
    pub subs: ArrayVec<(Keys, u8), SUBS>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Life {
    Live,
    /// Re-cut, and its outbox is not known to be empty.
    Retired,
    Gone,
}

/// A range as the store has it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Part {
    pub life: Life,
    pub keys: Keys,
    /// The layout version that created it.
    pub version: u8,
    /// By number, a bit each.
    pub parents: u8,
    pub granted: u8,
    pub last_number: u8,
    pub head: Commit,
    pub lane: Lane,
    /// Messages applied, by key: the state that moves with the key.
    pub applied: [u8; KEYS],
    pub outbox: ArrayVec<u8, MESSAGES>,
    /// So much of the outbox is recorded as acknowledged.
    pub acked: u8,
}

/// A job of a range, until the store has fenced it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Job {
    pub part: u8,
    pub generation: u8,
    pub last: Commit,
    /// Only sends what is in the outbox.
    pub drains: bool,
    pub lane: Lane,
    /// The part of the outbox that it can send: what was there, and what it committed.
    pub owes: (u8, u8),
    pub submitted: bool,
}

/// An epoch on its way to the store.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Submitted {
    pub part: u8,
    pub generation: u8,
    pub epoch: u8,
    pub predecessor: Commit,
    pub message: Option<u8>,
    pub lane: Lane,
}

/// What a leader has decided: the layout version it saw, the parents, and the cut (none for a merge).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Decision {
    pub version: u8,
    pub parents: ArrayVec<u8, 2>,
    pub cut: Option<u8>,
    /// What it read of them (only with `ReadInside` off).
    pub seen: ArrayVec<(Lane, [u8; KEYS]), 2>,
}

/// A consuming partition as the store has it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Consumer {
    pub live: bool,
    pub keys: Keys,
    /// The layout version whose lanes it accepts.
    pub version: u8,
    /// By producing range.
    pub lanes: ArrayVec<Option<Lane>, PARTS>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    /// The layout's version.
    pub version: u8,
    /// What the source has forgotten, because every range has it.
    pub finished: u8,
    pub parts: ArrayVec<Part, PARTS>,
    pub jobs: ArrayVec<Job, JOBS>,
    pub commits: ArrayVec<Submitted, COMMITS>,
    pub decisions: ArrayVec<Decision, LEADERS>,
    /// Decisions that may still be taken.
    pub leaders: u8,
    /// Re-cuts that may still be done.
    pub recuts: u8,
    pub consumers: ArrayVec<Consumer, CONSUMERS>,
    /// Messages that arrived at their consumers, by key.
    pub arrived: [u8; KEYS],
    pub broken: Option<&'static str>,
}

/// One step; ranges by number, jobs by range and generation.
#[derive(Clone, Debug)]
#[expect(dead_code, reason = "the fields are read by people, in traces")]
pub enum Action {
    Grant { part: u8, generation: u8 },
    ZombieEnds { part: u8, generation: u8 },
    TakeAndSubmit { part: u8, generation: u8, message: Option<u8>, taken: u8 },
    StoreAccepts(Submitted),
    StoreRefuses(Submitted),
    Decide(Decision),
    Recut { parents: ArrayVec<u8, 2>, children: ArrayVec<Keys, 2>, layout: u8 },
    DropDecision,
    Send { part: u8, generation: u8, consumer: u8, message: u8 },
    SendInVain { part: u8, message: u8 },
    RecordDrained { part: u8, acked: u8 },
    Forget { part: u8, layout: u8 },
    Adopt { consumer: u8, layout: u8 },
    MergeConsumers { layout: u8 },
}

pub fn hash_of(key: u8) -> u64 {
    u64::from(key) << 60
}
pub fn range(keys: Keys) -> KeyRange {
    KeyRange { first: hash_of(keys.0), last: hash_of(keys.1) | ((1 << 60) - 1) }
}
pub fn keys_of(range: KeyRange) -> Keys {
    ((range.first >> 60) as u8, (range.last >> 60) as u8)
}
pub fn point(at: u8) -> LanePoint {
    LanePoint::new(Position::at(at.into()), 0)
}
pub fn frontier(at: u8) -> Frontier {
    if at == 0 { Frontier::START } else { Frontier::at(point(at)) }
}
pub fn number(frontier: Frontier) -> u8 {
    frontier.point().map_or(0, |point| point.position.major as u8)
}
pub fn generation(part: u8, number: u8) -> Generation {
    Generation { number: number.into(), nonce: 100 * u64::from(part) + u64::from(number), branch: Branch(0) }
}

impl Lane {
    pub fn real(&self) -> LaneState {
        let sub = |(keys, at): &(Keys, u8)| SubFrontier { range: range(*keys), frontier: frontier(*at) };
        LaneState {
            taken: frontier(self.taken),
            watermark: Watermark::NONE,
            subs: self.subs.iter().map(sub).collect(),
        }
    }
    pub fn of(real: &LaneState) -> Self {
        let subs = real.subs.iter().map(|sub| (keys_of(sub.range), number(sub.frontier)));
        Lane { taken: number(real.taken), subs: subs.collect() }
    }
    pub fn is_covered(&self, key: u8, at: u8) -> bool {
        self.real().covered(hash_of(key), point(at))
    }
    pub fn take(&mut self, at: u8) {
        let mut real = self.real();
        real.taken = frontier(at);
        real.coalesce();
        *self = Lane::of(&real);
    }
}

impl Part {
    pub fn owns(&self, key: u8) -> bool {
        range(self.keys).contains(hash_of(key))
    }
    pub fn head(&self, own: u8) -> PartitionHead {
        PartitionHead {
            granted: (self.granted != 0).then(|| generation(own, self.granted)),
            last_number: self.last_number.into(),
            head: head(own, self.head),
        }
    }
}

pub fn head(part: u8, commit: Commit) -> Option<Head> {
    (commit.0 != 0).then(|| Head { generation: generation(part, commit.0), epoch: commit.1.into() })
}

impl State {
    /// What all consumers have of a range's outbox.
    pub fn arrived_of(&self, part: usize) -> u8 {
        let live = self.consumers.iter().filter(|consumer| consumer.live);
        live.map(|consumer| consumer.lanes[part].as_ref().map_or(0, |lane| lane.taken)).min().unwrap_or(0)
    }
    pub fn is_listed(&self, part: usize) -> bool {
        self.parts.get(part).is_some_and(|part| part.life != Life::Gone)
    }
    pub fn sort(&mut self) {
        self.jobs.sort_unstable();
        self.commits.sort_unstable();
        self.decisions.sort_unstable();
    }
}
