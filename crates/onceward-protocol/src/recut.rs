//! Re-cutting key ranges: which steps there are (RECUT-ATOMIC), and what children take over from their parents
//! (SUBRANGE-FRONTIER).

use crate::codec::{Reader, put_varint};
use crate::frontier::Frontier;
use crate::keyrange::KeyRange;
use crate::message::LanePoint;
use crate::mutants::{Mutant, Mutants};
use crate::watermark::Watermark;

pub use crate::routing::Routing;

/// How far a part of the key range was already taken by the parent that owned it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubFrontier {
    /// The part.
    pub range: KeyRange,
    /// Everything of the lane that belongs to the part is done up to here.
    pub frontier: Frontier,
}

/// One lane as its consumer knows it: the in-order frontier, and for parts that a merge brought along how far each
/// was taken beyond it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaneState {
    /// Everything of the lane up to here is done, whatever its key.
    pub taken: Frontier,
    /// The lane's watermark as of `taken`.
    pub watermark: Watermark,
    /// Parts that are ahead of `taken`.
    pub subs: Vec<SubFrontier>,
}

impl Default for LaneState {
    fn default() -> Self {
        LaneState { taken: Frontier::START, watermark: Watermark::NONE, subs: Vec::new() }
    }
}

impl LaneState {
    /// What a child that owns `child` starts with, from all parents that overlap it. A parent without an entry has
    /// seen nothing; its sibling's value is never taken for it. The same holds for hashes that no parent owned.
    ///
    /// The lane is sent again from the smallest frontier on, and its watermarks with it; what is above that and an
    /// ancestor has taken is [covered](LaneState::covered). Parts that touch and are equally far become one, so that a
    /// lane on which nothing comes does not collect parts while its ranges are cut and joined.
    pub fn inherit(
        child: KeyRange,
        parents: &[(KeyRange, Option<&LaneState>)],
        mutants: Mutants,
    ) -> LaneState {
        if mutants.has(Mutant::ChildForgetsFrontier) {
            return LaneState::default();
        }
        let unseen = LaneState::default();
        let overlapping: Vec<(KeyRange, &LaneState)> = parents
            .iter()
            .filter_map(|(range, state)| Some((range.intersect(child)?, state.unwrap_or(&unseen))))
            .collect();
        let taken = overlapping.iter().map(|(_, state)| state.taken);
        if mutants.has(Mutant::FrontiersMergedByMaximum) {
            let watermark = overlapping.iter().map(|(_, state)| state.watermark).max();
            let taken = taken.max().unwrap_or_default();
            return LaneState { taken, watermark: watermark.unwrap_or(Watermark::NONE), subs: Vec::new() };
        }
        let owned: u128 = overlapping.iter().map(|(range, _)| range.width()).sum();
        let nobody = (owned < child.width()).then_some(&unseen);
        let taken = taken.chain(nobody.map(|state| state.taken)).min().unwrap_or_default();
        let watermark = overlapping.iter().map(|(_, state)| state.watermark);
        let watermark = watermark.chain(nobody.map(|state| state.watermark)).min();
        let mut subs = Vec::new();
        for (range, state) in &overlapping {
            if state.taken > taken {
                subs.push(SubFrontier { range: *range, frontier: state.taken });
            }
            for sub in &state.subs {
                if let Some(range) = sub.range.intersect(*range).filter(|_| sub.frontier > state.taken) {
                    subs.push(SubFrontier { range, frontier: sub.frontier });
                }
            }
        }
        LaneState { taken, watermark: watermark.unwrap_or(Watermark::NONE), subs: joined(subs) }
    }
    /// Whether an ancestor has already taken the message at `point` whose key hashes to `hash`.
    pub fn covered(&self, hash: u64, point: LanePoint) -> bool {
        self.subs.iter().any(|sub| sub.frontier.covers(point) && sub.range.contains(hash))
    }
    /// Drops the parts that the in-order frontier has reached: coalescing by maximum only after an in-order accept.
    pub fn coalesce(&mut self) {
        if !self.subs.is_empty() && self.subs.iter().all(|sub| sub.frontier <= self.taken) {
            self.subs.clear();
        }
    }
    /// Bytes of [`LaneState::subs`] as persisted.
    pub fn encode_subs(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(2 + 33 * self.subs.len());
        put_varint(&mut out, self.subs.len() as u64);
        for sub in &self.subs {
            out.extend_from_slice(&sub.range.encode());
            sub.frontier.encode(&mut out);
        }
        out
    }
    /// The inverse of [`LaneState::encode_subs`]; `None` for bytes it did not write.
    pub fn decode_subs(bytes: &[u8]) -> Option<Vec<SubFrontier>> {
        let mut input = Reader::new(bytes);
        let count = input.varint()?;
        let mut subs = Vec::new();
        for _ in 0..count {
            let range = KeyRange::decode(input.array()?)?;
            subs.push(SubFrontier { range, frontier: Frontier::decode(&mut input)? });
        }
        input.is_empty().then_some(subs)
    }
}

/// The same parts in order, those that touch and are equally far as one.
fn joined(mut subs: Vec<SubFrontier>) -> Vec<SubFrontier> {
    subs.sort_unstable_by_key(|sub| (sub.frontier, sub.range));
    subs.dedup_by(|next, last| {
        let joins = next.frontier == last.frontier && last.range.is_followed_by(next.range);
        if joins {
            last.range.last = next.range.last;
        }
        joins
    });
    subs
}

/// One step of re-cutting: the children tile exactly what the parents owned. One transaction of the store takes it
/// whole (RECUT-ATOMIC).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recut {
    /// Ranges that are retired, neighbours in order of key.
    pub parents: Vec<KeyRange>,
    /// Ranges that take over, in order of key.
    pub children: Vec<KeyRange>,
}

impl Recut {
    /// Cuts `range` in two; the second part begins at `at`.
    pub fn split(range: KeyRange, at: u64) -> Option<Recut> {
        let cuts = at > range.first && at <= range.last;
        cuts.then(|| Recut {
            parents: vec![range],
            children: vec![
                KeyRange { first: range.first, last: at - 1 },
                KeyRange { first: at, last: range.last },
            ],
        })
    }
    /// Cuts `range` in two halves.
    pub fn split_even(range: KeyRange) -> Option<Recut> {
        Recut::split(range, (range.first + (range.last - range.first) / 2).checked_add(1)?)
    }
    /// Makes one of two neighbours.
    pub fn merge(left: KeyRange, right: KeyRange) -> Option<Recut> {
        left.is_followed_by(right).then(|| Recut {
            parents: vec![left, right],
            children: vec![KeyRange { first: left.first, last: right.last }],
        })
    }
    /// Whether it may be done: otherwise keys would lose their owner, or get a second one.
    pub fn check(&self) -> Result<(), RecutError> {
        let parents = span(&self.parents)?;
        let children = span(&self.children)?;
        if parents != children {
            return Err(RecutError::OtherKeys { parents, children });
        }
        match self.parents.iter().find(|range| self.children.contains(range)) {
            Some(range) => Err(RecutError::Untouched(*range)),
            None => Ok(()),
        }
    }
}

/// What neighbouring ranges own together.
fn span(ranges: &[KeyRange]) -> Result<KeyRange, RecutError> {
    let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return Err(RecutError::Empty) };
    if let Some(range) = ranges.iter().find(|range| range.last < range.first) {
        return Err(RecutError::Backwards(*range));
    }
    match ranges.windows(2).find(|pair| !pair[0].is_followed_by(pair[1])) {
        Some(pair) => Err(RecutError::NotNeighbours(pair[0], pair[1])),
        None => Ok(KeyRange { first: first.first, last: last.last }),
    }
}

/// Why a step of re-cutting may not be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecutError {
    /// There is no parent, or no child.
    #[error("a re-cut without parents or without children; name at least one of each")]
    Empty,
    /// A range ends before it begins.
    #[error("{0:?} ends before it begins")]
    Backwards(KeyRange),
    /// Two that follow each other leave a gap, overlap, or are out of order.
    #[error("{0:?} is not followed by {1:?}; parents and children must each be neighbours in order of key")]
    NotNeighbours(KeyRange, KeyRange),
    /// The children own other keys than the parents.
    #[error("the children own {children:?}, the parents {parents:?}; they must own the same keys")]
    OtherKeys {
        /// What the parents own together.
        parents: KeyRange,
        /// What the children would own together.
        children: KeyRange,
    },
    /// A range is parent and child: it need not be touched.
    #[error("{0:?} is both parent and child; leave ranges out that stay as they are")]
    Untouched(KeyRange),
}
