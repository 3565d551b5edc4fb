//! The first model: a source partition, a lane, a consuming partition, and the store between them.
//!
//! A job is known by a small number; the protocol's own types are built from it wherever something
//! is decided. What is in flight is a set from which any member may be next. Steps that commute are taken
//! together; docs/design/model.md says which, and why nothing is lost by it.

use arrayvec::ArrayVec;
use onceward_protocol::chain::own_commit;
use onceward_protocol::resume::{Progress, ResumePoint};
use onceward_protocol::{
    Branch, CommitPermit, Fenced, Frontier, Generation, Head, LaneKey, LanePoint, Mutant, Mutants,
    PartitionHead, Position, Session, SessionGate, Verdict,
};

use crate::search::Model;

/// A rule that can be switched off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// A commit is accepted on top of anything.
    Chain,
    /// The store does not ask who owns the partition.
    OwnerCompare,
    /// A restarted job takes over its predecessor's generation.
    GenerationPerJob,
    /// State is read before the grant; only the predecessor comes with the grant.
    LoadAfterGrant,
    /// `Unknown` is taken for committed.
    OwnCommit,
    /// The session of a batch is not compared.
    SessionBound,
    /// A gap is taken for the next batch.
    DenseSequence,
    /// An epoch takes any message of the lane, not a prefix.
    LanePrefix,
    /// The taken frontier is acknowledged.
    AckCommitted,
    /// Repeats are dropped by the committed frontier.
    DropTaken,
    /// An epoch is acknowledged when it is closed.
    AckImpliesDurable,
    /// Epochs leave the frontier out.
    FrontierPersisted,
    /// Progress follows the highest position that was read.
    ContiguousProgress,
    /// A switch that engine and simulator share.
    Shared(Mutant),
}

/// How large the model is.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Messages of the source.
    pub messages: u8,
    /// Jobs that the producing partition is granted to, one after the other.
    pub producers: usize,
    /// Jobs that the consuming partition is granted to.
    pub consumers: usize,
    /// Packets in flight between the jobs at once, at most [`NET`].
    pub net: usize,
    /// Disturbances: a packet is lost, a batch overtakes another of its session, a greeting is repeated.
    pub disturbances: u8,
    /// Accepted messages that may wait to be taken; with 0 they are taken at once.
    pub queue: usize,
}

const NET: usize = 4;
const COMMITS: usize = 4;
const JOBS: usize = 2;
const MESSAGES: usize = 4;
const OPEN_EPOCHS: usize = 2;
const LANE: LaneKey = LaneKey { producer: 1, stream: 0, consumer: 2 };

/// A session: the producing job, the consuming job, and what tells it apart from their others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Talk {
    producer: u8,
    consumer: u8,
    nonce: u8,
}

/// What travels between the jobs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Packet {
    Open { talk: Talk, frontier: u8 },
    Batch { talk: Talk, sequence: u8, message: u8 },
}

impl Packet {
    fn talk(self) -> Talk {
        match self {
            Packet::Open { talk, .. } | Packet::Batch { talk, .. } => talk,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Life {
    /// Read its state before the grant (only with LOAD-AFTER-GRANT off).
    Early,
    /// Owns the partition and has not read its state yet.
    Granted,
    Running,
    Ended,
}

/// (generation, epoch) of a commit; (0, 0) for none.
type Commit = (u8, u8);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Producer {
    life: Life,
    last: Commit,
    /// What its own record proves to be finished.
    finished: u8,
    read: u8,
    talk: Option<Talk>,
    sent: u8,
    sequence: u8,
    acked: u8,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Epoch {
    number: u8,
    frontier: u8,
    /// Whether the store has accepted it; the job does not know yet.
    accepted: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Consumer {
    life: Life,
    last: Commit,
    committed: u8,
    taken: u8,
    talk: Option<Talk>,
    next: u8,
    queue: ArrayVec<u8, 2>,
    gathered: ArrayVec<u8, MESSAGES>,
    open: ArrayVec<Epoch, OPEN_EPOCHS>,
}

/// An epoch on its way to the store.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Submitted {
    job: u8,
    generation: u8,
    epoch: u8,
    predecessor: Commit,
    messages: ArrayVec<u8, MESSAGES>,
    frontier: u8,
}

/// What the store keeps for a partition.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
struct Stored {
    granted: u8,
    head: Commit,
    frontier: u8,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    source: Stored,
    target: Stored,
    /// The consumer's state: the messages that were applied, in order.
    applied: ArrayVec<u8, MESSAGES>,
    producers: ArrayVec<Producer, JOBS>,
    consumers: ArrayVec<Consumer, JOBS>,
    net: ArrayVec<Packet, NET>,
    commits: ArrayVec<Submitted, COMMITS>,
    disturbances: u8,
    broken: Option<&'static str>,
}

/// One step, with job numbers as in the state.
#[derive(Clone, Debug)]
#[expect(dead_code, reason = "the fields are read by people, in traces")]
pub enum Action {
    GrantProducer(u8),
    GrantConsumer(u8),
    LoadBeforeGrant(u8),
    LoadConsumer(u8),
    CrashProducer(u8),
    CrashConsumer(u8),
    Handshake { producer: u8, consumer: u8, needed: bool },
    Deliver(Packet, u8),
    DeliverOutOfOrder(Packet, u8),
    Lose(Packet),
    SendBatch { producer: u8, message: u8 },
    Take { consumer: u8, message: u8 },
    CloseEpoch { consumer: u8, epoch: u8, frontier: u8 },
    StoreAccepts(Submitted),
    StoreRefuses(Submitted),
    CommitAnswered { consumer: u8, epoch: u8 },
    CommitUnknown { consumer: u8, epoch: u8, own: bool },
    Acknowledge { consumer: u8, producer: u8, frontier: u8 },
    CommitProgress { producer: u8, finished: u8 },
}

/// The model with at most one rule switched off.
pub struct Lanes {
    pub bounds: Bounds,
    pub without: Option<Rule>,
}

fn generation(number: u8) -> Generation {
    Generation { number: number.into(), nonce: 100 + u64::from(number), branch: Branch(0) }
}
fn head(commit: Commit) -> Option<Head> {
    (commit.0 != 0).then(|| Head { generation: generation(commit.0), epoch: commit.1.into() })
}
fn session(talk: Talk) -> Session {
    Session {
        lane: LANE,
        producer: generation(talk.producer),
        consumer: generation(talk.consumer),
        nonce: talk.nonce.into(),
    }
}
fn frontier(position: u8) -> Frontier {
    if position == 0 { Frontier::START } else { Frontier::through(Position::at(position.into())) }
}
fn point(position: u8) -> ResumePoint {
    ResumePoint { position: Position::at(position.into()), ..ResumePoint::start() }
}
fn progress(finished: u8, read: u8) -> Progress {
    let mut progress = Progress::new(point(finished));
    (finished + 1..=read).for_each(|position| progress.read_to(point(position)));
    progress
}

impl Producer {
    fn ended() -> Self {
        Producer {
            life: Life::Ended,
            last: (0, 0),
            finished: 0,
            read: 0,
            talk: None,
            sent: 0,
            sequence: 0,
            acked: 0,
        }
    }
    fn load(&mut self, stored: &Stored) {
        let known = stored.frontier;
        *self = Producer {
            life: Life::Running,
            last: stored.head,
            finished: known,
            read: known,
            sent: known,
            acked: known,
            ..Producer::ended()
        };
    }
    /// A consumer opens a session. Older consumers are zombies, and so is one whose frontier is behind
    /// what was acknowledged.
    fn open(&mut self, talk: Talk, from: u8, own: u8) -> Result<(), &'static str> {
        let older = self.talk.is_some_and(|known| known.consumer > talk.consumer);
        if talk.producer != own || older || frontier(from) < frontier(self.acked) {
            return Ok(());
        }
        if progress(self.finished, self.read).at_or_before(frontier(from)).is_none() {
            return Err("a consumer needs messages that are finished for the source");
        }
        self.talk = Some(talk);
        self.sequence = 0;
        self.sent = from;
        self.acked = self.acked.max(from);
        self.read = self.read.max(from);
        Ok(())
    }
}

impl Consumer {
    fn ended() -> Self {
        Consumer {
            life: Life::Ended,
            last: (0, 0),
            committed: 0,
            taken: 0,
            talk: None,
            next: 0,
            queue: ArrayVec::new(),
            gathered: ArrayVec::new(),
            open: ArrayVec::new(),
        }
    }
    fn load(&mut self, stored: &Stored, life: Life) {
        let (committed, taken) = (stored.frontier, stored.frontier);
        *self = Consumer { life, last: stored.head, committed, taken, ..Consumer::ended() };
    }
    fn gate(&self) -> SessionGate {
        let mut gate = SessionGate::default();
        if let Some(talk) = self.talk {
            gate.open(session(talk));
            for sequence in 0..self.next {
                let verdict = gate.judge(session(talk), sequence.into(), Mutants::NONE);
                debug_assert_eq!(verdict, Verdict::Accept);
            }
        }
        gate
    }
}

impl State {
    fn send(&mut self, packet: Packet) {
        self.net.push(packet);
        self.net.sort_unstable();
    }
    /// A session nonce that nothing in sight remembers: as good as one never used before.
    fn fresh(&self, producer: u8, consumer: u8) -> u8 {
        let packets = self.net.iter().map(|packet| packet.talk());
        let jobs = self.producers.iter().map(|job| job.talk).chain(self.consumers.iter().map(|job| job.talk));
        let used: ArrayVec<Talk, { NET + 2 * JOBS }> = packets.chain(jobs.flatten()).collect();
        (0..).find(|nonce| !used.contains(&Talk { producer, consumer, nonce: *nonce })).unwrap_or(u8::MAX)
    }
    /// How far the consuming job has the lane, taken or not.
    fn known(&self, consumer: u8) -> u8 {
        let job = &self.consumers[consumer as usize - 1];
        job.queue.iter().copied().fold(job.taken, u8::max)
    }
    fn carries_batch(&self, of: Talk) -> bool {
        self.net.iter().any(|packet| matches!(packet, Packet::Batch { talk, .. } if *talk == of))
    }
    /// The consuming job opens a session that starts at what it has committed.
    fn open_session(&mut self, producer: u8, consumer: u8) {
        let job = &self.consumers[consumer as usize - 1];
        if job.talk.is_some_and(|known| known.producer > producer) {
            return;
        }
        let talk = Talk { producer, consumer, nonce: self.fresh(producer, consumer) };
        let job = &mut self.consumers[consumer as usize - 1];
        job.talk = Some(talk);
        job.next = 0;
        job.queue.clear();
        let frontier = job.committed;
        self.send(Packet::Open { talk, frontier });
    }
}

impl Lanes {
    fn off(&self, rule: Rule) -> bool {
        self.without == Some(rule)
    }
    fn mutants(&self) -> Mutants {
        match self.without {
            Some(Rule::Shared(mutant)) => Mutants::only(mutant),
            _ => Mutants::NONE,
        }
    }
    fn permit(
        &self,
        stored: &Stored,
        owner: u8,
        epoch: u8,
        predecessor: Commit,
    ) -> Result<CommitPermit, Fenced> {
        let asking = generation(owner);
        let mut partition = PartitionHead::default().grant(generation(stored.granted));
        partition.head = head(stored.head);
        let mut predecessor = head(predecessor);
        if self.off(Rule::OwnerCompare) {
            partition.granted = Some(asking);
        }
        if self.off(Rule::Chain) {
            (partition.head, predecessor) = (None, None);
        }
        partition.permit(asking, epoch.into(), predecessor, self.mutants())
    }
    /// The generation that a consuming job was given.
    fn generation_of(&self, consumer: u8) -> u8 {
        if self.off(Rule::GenerationPerJob) { 1 } else { consumer }
    }

    fn take(&self, job: &mut Consumer, message: u8) {
        let seen = if self.off(Rule::DropTaken) { job.committed } else { job.taken };
        if frontier(seen).covers(LanePoint::new(Position::at(message.into()), 0)) {
            return;
        }
        // Only without the rules can more be gathered than there are messages.
        if job.gathered.try_push(message).is_ok() {
            job.taken = job.taken.max(message);
        }
    }

    /// A batch arrives at a consuming job.
    fn receive(&self, state: &mut State, consumer: u8, talk: Talk, sequence: u8, message: u8) {
        let job = &mut state.consumers[consumer as usize - 1];
        let mut gate = job.gate();
        let carried = match (self.off(Rule::SessionBound), gate.session()) {
            (true, Some(open)) => open,
            _ => session(talk),
        };
        let mut verdict = gate.judge(carried, sequence.into(), self.mutants());
        if verdict == Verdict::Gap && self.off(Rule::DenseSequence) {
            job.next = sequence;
            verdict = Verdict::Accept;
        }
        match verdict {
            Verdict::Accept => {
                if sequence == job.next {
                    job.next += 1;
                }
                if self.bounds.queue == 0 {
                    self.take(job, message);
                } else {
                    job.queue.push(message);
                }
            }
            Verdict::Discard => {}
            Verdict::Gap => state.open_session(talk.producer, consumer),
        }
    }

    /// A packet arrives at one of the living jobs of its side, which need not be the one it was meant for.
    fn deliver(&self, state: &State, index: usize, job: u8) -> Option<State> {
        let mut next = state.clone();
        let packet = next.net.remove(index);
        match packet {
            Packet::Batch { talk, sequence, message } => {
                if self.bounds.queue > 0 && state.consumers[job as usize - 1].queue.len() >= self.bounds.queue
                {
                    return None;
                }
                self.receive(&mut next, job, talk, sequence, message);
            }
            Packet::Open { talk, frontier } => {
                next.broken = next.producers[job as usize - 1].open(talk, frontier, job).err();
            }
        }
        Some(next)
    }

    /// What may become of a packet. It goes to the job it names; if that one is gone, whoever lives at
    /// its address gets it, as over a connection that outlives a job.
    fn travel(&self, state: &State, index: usize, out: &mut Vec<(Action, State)>) {
        let packet = state.net[index];
        if index > 0 && state.net[index - 1] == packet {
            return;
        }
        let (named, lives): (u8, ArrayVec<Life, JOBS>) = match packet {
            Packet::Batch { talk, .. } => {
                (talk.consumer, state.consumers.iter().map(|job| job.life).collect())
            }
            Packet::Open { talk, .. } => {
                (talk.producer, state.producers.iter().map(|job| job.life).collect())
            }
        };
        let disturb = state.disturbances < self.bounds.disturbances;
        let overtakes = state.net[..index].iter().any(|other| {
            matches!((packet, *other), (Packet::Batch { talk, .. }, Packet::Batch { talk: earlier, .. }) if talk == earlier)
        });
        if lives[named as usize - 1] == Life::Running {
            if !overtakes {
                out.extend(
                    self.deliver(state, index, named).map(|next| (Action::Deliver(packet, named), next)),
                );
            } else if disturb && let Some(mut next) = self.deliver(state, index, named) {
                next.disturbances += 1;
                out.push((Action::DeliverOutOfOrder(packet, named), next));
            }
            if disturb {
                let mut next = state.clone();
                next.net.remove(index);
                next.disturbances += 1;
                out.push((Action::Lose(packet), next));
            }
            return;
        }
        for job in (1..=lives.len() as u8).filter(|job| lives[*job as usize - 1] == Life::Running) {
            out.extend(self.deliver(state, index, job).map(|next| (Action::Deliver(packet, job), next)));
        }
    }

    fn grants(&self, state: &State, out: &mut Vec<(Action, State)>) {
        if state.producers.len() < self.bounds.producers {
            let mut next = state.clone();
            let mut job = Producer::ended();
            job.load(&state.source);
            next.producers.push(job);
            next.source.granted = next.producers.len() as u8;
            out.push((Action::GrantProducer(next.source.granted), next));
        }
        let early = state.consumers.last().is_some_and(|job| job.life == Life::Early);
        if early {
            let mut next = state.clone();
            let number = next.consumers.len() as u8;
            next.target.granted = number;
            if let Some(job) = next.consumers.last_mut() {
                job.life = Life::Running;
                job.last = state.target.head;
            }
            out.push((Action::GrantConsumer(number), next));
        } else if state.consumers.len() < self.bounds.consumers {
            let mut next = state.clone();
            let mut job = Consumer { life: Life::Granted, ..Consumer::ended() };
            let number = next.consumers.len() as u8 + 1;
            if self.off(Rule::LoadAfterGrant) {
                job.load(&state.target, Life::Early);
                next.consumers.push(job);
                out.push((Action::LoadBeforeGrant(number), next));
            } else {
                next.consumers.push(job);
                next.target.granted = self.generation_of(number);
                out.push((Action::GrantConsumer(number), next));
            }
        }
    }

    fn producer(&self, state: &State, index: usize, out: &mut Vec<(Action, State)>) {
        let job = &state.producers[index];
        let number = index as u8 + 1;
        let with = |change: &dyn Fn(&mut State)| {
            let mut next = state.clone();
            change(&mut next);
            next
        };
        if job.life != Life::Running {
            return;
        }
        // A crash shows only once somebody takes over.
        if index + 1 < state.producers.len() {
            let next = with(&|next| next.producers[index] = Producer::ended());
            out.push((Action::CrashProducer(number), next));
        }
        let room = state.net.len() < self.bounds.net;
        for consumer in 1..=state.consumers.len() as u8 {
            let open = state.consumers[consumer as usize - 1].talk;
            let under_way = |talk| {
                state.net.iter().any(|packet| matches!(packet, Packet::Open { talk: t, .. } if *t == talk))
            };
            let lost =
                |talk| job.talk == open && job.sent > state.known(consumer) && !state.carries_batch(talk);
            let needed = open.is_none_or(|talk| {
                talk.producer < number || (job.talk != open && !under_way(talk)) || lost(talk)
            });
            let running = state.consumers[consumer as usize - 1].life == Life::Running;
            if room && running && (needed || state.disturbances < self.bounds.disturbances) {
                let next = with(&|next| {
                    next.disturbances += u8::from(!needed);
                    next.open_session(number, consumer);
                });
                out.push((Action::Handshake { producer: number, consumer, needed }, next));
            }
        }
        if let Some(talk) = job.talk
            && room
            && job.sent < self.bounds.messages
        {
            let message = job.sent + 1;
            let next = with(&|next| {
                next.send(Packet::Batch { talk, sequence: job.sequence, message });
                let job = &mut next.producers[index];
                job.sequence += 1;
                job.sent = message;
                job.read = job.read.max(message);
            });
            out.push((Action::SendBatch { producer: number, message }, next));
        }
        // The store decides at once: what a late commit carries is never more than a later one.
        let mut places = progress(job.finished, job.read);
        places.finish(frontier(if self.off(Rule::ContiguousProgress) { job.read } else { job.acked }));
        let finished = places.finished().map_or(0, |place| place.position.major as u8);
        if finished > job.finished {
            let epoch = job.last.1 + 1;
            let next = with(&|next| match self.permit(&state.source, number, epoch, job.last) {
                Ok(_) => {
                    if state.source.granted != number {
                        next.broken = Some("a job committed after its lease was revoked");
                    }
                    next.source = Stored { head: (number, epoch), frontier: finished, ..state.source };
                    next.producers[index].last = (number, epoch);
                    next.producers[index].finished = finished;
                }
                Err(_) => next.producers[index] = Producer::ended(),
            });
            out.push((Action::CommitProgress { producer: number, finished }, next));
        }
    }

    fn consumer(&self, state: &State, index: usize, out: &mut Vec<(Action, State)>) {
        let job = &state.consumers[index];
        let number = index as u8 + 1;
        let with = |change: &dyn Fn(&mut State)| {
            let mut next = state.clone();
            change(&mut next);
            next
        };
        if job.life != Life::Ended && index + 1 < state.consumers.len() {
            let next = with(&|next| next.consumers[index] = Consumer::ended());
            out.push((Action::CrashConsumer(number), next));
        }
        if job.life == Life::Granted {
            let next = with(&|next| next.consumers[index].load(&state.target, Life::Running));
            out.push((Action::LoadConsumer(number), next));
        }
        if job.life != Life::Running {
            return;
        }
        let prefix = if self.off(Rule::LanePrefix) { job.queue.len() } else { job.queue.len().min(1) };
        for at in 0..prefix {
            let message = job.queue[at];
            let next = with(&|next| {
                let job = &mut next.consumers[index];
                job.queue.remove(at);
                self.take(job, message);
            });
            out.push((Action::Take { consumer: number, message }, next));
        }
        if !job.gathered.is_empty() && !job.open.is_full() && !state.commits.is_full() {
            let epoch = job.last.1 + 1;
            let next = with(&|next| self.close(next, index, epoch));
            out.push((Action::CloseEpoch { consumer: number, epoch, frontier: job.taken }, next));
        }
        if let Some(front) = job.open.first() {
            if front.accepted {
                let next = with(&|next| settle(&mut next.consumers[index], true));
                out.push((Action::CommitAnswered { consumer: number, epoch: front.number }, next));
            }
            let generation = generation(self.generation_of(number));
            let own = self.off(Rule::OwnCommit)
                || own_commit(head(state.target.head), generation, front.number.into());
            // The last job that the bounds allow does not fail, so that somebody can finish.
            if own || number as usize != self.bounds.consumers {
                let next = with(&|next| settle(&mut next.consumers[index], own));
                out.push((Action::CommitUnknown { consumer: number, epoch: front.number, own }, next));
            }
        }
        self.acknowledge(state, index, out);
    }

    fn close(&self, next: &mut State, index: usize, epoch: u8) {
        let generation = self.generation_of(index as u8 + 1);
        let job = &mut next.consumers[index];
        next.commits.push(Submitted {
            job: index as u8 + 1,
            generation,
            epoch,
            predecessor: job.last,
            messages: job.gathered.take(),
            frontier: job.taken,
        });
        next.commits.sort_unstable();
        job.open.push(Epoch { number: epoch, frontier: job.taken, accepted: false });
        job.last = (generation, epoch);
    }

    /// An acknowledgement may be repeated until it has arrived.
    fn acknowledge(&self, state: &State, index: usize, out: &mut Vec<(Action, State)>) {
        let job = &state.consumers[index];
        let closed = job.open.last().map_or(job.committed, |epoch| epoch.frontier);
        let frontier = match self.without {
            Some(Rule::AckCommitted) => job.taken,
            Some(Rule::AckImpliesDurable) => closed,
            _ => job.committed,
        };
        let Some(talk) = job.talk else { return };
        let mut next = state.clone();
        let producer = &mut next.producers[talk.producer as usize - 1];
        if producer.talk == Some(talk) && producer.acked < frontier {
            producer.acked = frontier;
            producer.sent = producer.sent.max(frontier);
            producer.read = producer.read.max(frontier);
            out.push((
                Action::Acknowledge { consumer: index as u8 + 1, producer: talk.producer, frontier },
                next,
            ));
        }
    }

    /// The store decides about an epoch on its way to it, whether or not its job is still there.
    fn decide(&self, state: &State, index: usize) -> (Action, State) {
        let mut next = state.clone();
        let commit = next.commits.remove(index);
        let owner = state.target.granted;
        let permit = self.permit(&state.target, commit.generation, commit.epoch, commit.predecessor);
        let accepted = permit.is_ok();
        if accepted {
            if owner != commit.generation {
                next.broken = Some("a job committed after its lease was revoked");
            }
            next.target.head = (commit.generation, commit.epoch);
            for message in &commit.messages {
                if next.applied.try_push(*message).is_err() {
                    next.broken = Some("more was applied than there is");
                }
            }
            if !self.off(Rule::FrontierPersisted) {
                next.target.frontier = commit.frontier;
            }
        }
        let job = &mut next.consumers[commit.job as usize - 1];
        let open = job.open.iter_mut().find(|epoch| epoch.number == commit.epoch);
        match open {
            Some(epoch) if accepted => epoch.accepted = true,
            // `Fenced` ends the job. To hear of it late is to be judged late.
            Some(_) => *job = Consumer::ended(),
            None => {}
        }
        (if accepted { Action::StoreAccepts(commit) } else { Action::StoreRefuses(commit) }, next)
    }
}

/// The verdict on the oldest open epoch. Anything but `Committed` ends the job.
fn settle(job: &mut Consumer, committed: bool) {
    if committed {
        let epoch = job.open.remove(0);
        job.committed = job.committed.max(epoch.frontier);
    } else {
        *job = Consumer::ended();
    }
}

impl Model for Lanes {
    type State = State;
    type Action = Action;

    fn initial(&self) -> State {
        State {
            source: Stored::default(),
            target: Stored::default(),
            applied: ArrayVec::new(),
            producers: ArrayVec::new(),
            consumers: ArrayVec::new(),
            net: ArrayVec::new(),
            commits: ArrayVec::new(),
            disturbances: 0,
            broken: None,
        }
    }

    fn steps(&self, state: &State, out: &mut Vec<(Action, State)>) {
        self.grants(state, out);
        (0..state.producers.len()).for_each(|index| self.producer(state, index, out));
        (0..state.consumers.len()).for_each(|index| self.consumer(state, index, out));
        (0..state.net.len()).for_each(|index| self.travel(state, index, out));
        for index in 0..state.commits.len() {
            let commit = &state.commits[index];
            // The epochs of the last job do not overtake each other, so that somebody can finish.
            let last = commit.job as usize == self.bounds.consumers;
            if !(last && state.commits[..index].iter().any(|earlier| earlier.job == commit.job)) {
                out.push(self.decide(state, index));
            }
        }
    }

    fn violation(&self, state: &State) -> Option<String> {
        if let Some(broken) = state.broken {
            return Some(broken.to_owned());
        }
        if !state.applied.iter().copied().eq(1..=state.applied.len() as u8) {
            return Some(format!("applied {:?}: not each exactly once and in order", state.applied));
        }
        let applied = state.applied.len() as u8;
        let opens = state.net.iter().filter_map(|packet| match packet {
            Packet::Open { frontier, .. } => Some(*frontier),
            Packet::Batch { .. } => None,
        });
        let heard = state.producers.iter().map(|job| job.acked);
        if let Some(ack) = opens.chain(heard).find(|ack| *ack > applied) {
            return Some(format!("{ack} is acknowledged, but only {applied} is committed"));
        }
        if state.source.frontier > applied {
            return Some(format!(
                "the source is finished up to {}, the consumer has {applied}",
                state.source.frontier
            ));
        }
        None
    }

    fn is_settled(&self, state: &State) -> bool {
        state.applied.len() == self.bounds.messages as usize && state.source.frontier == self.bounds.messages
    }
}
