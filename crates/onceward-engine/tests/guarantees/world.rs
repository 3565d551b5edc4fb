//! The hand-stepped driver: everything that jobs ask for waits in one queue and is carried out in order,
//! unless the test holds it back.

use std::collections::{BTreeMap, VecDeque};

use onceward_connector::{ConnectorError, Read, ReadLimits, Record, RecordBatch, TargetError};
use onceward_engine::delivery::Borders;
use onceward_engine::job::SinkStats;
use onceward_engine::layout::Role;
use onceward_engine::stored::{IDS, lane_key};
use onceward_engine::{
    EngineError, Event, Job, JobEnd, JobStats, LaneMessage, LayoutPartition, Plan, Request, TargetCall,
};
use onceward_protocol::resume::ResumePoint;
use onceward_protocol::{Branch, Cursor, Frontier, Generation, LaneKey, Mutants, Position};
use onceward_store::{EpochCommit, TableId, WriteBatch};

pub use crate::manifest::row;
use crate::manifest::{Manifest, SECOND};
use crate::shelf::Shelf;
use crate::target::{Target, kind, text};

/// Steps after which a run counts as stuck.
const MAX_STEPS: usize = 200_000;
/// Steps in which nothing but idle reading happened, after which a run counts as quiet.
const QUIET_STEPS: usize = 60;
/// Wake-ups later than this are for an idle job; a run does not wait for them.
const FAR: i64 = 20 * SECOND;

/// What a job asked for, in order.
#[derive(Clone, Debug)]
pub enum Seen {
    /// An epoch became durable.
    Committed {
        by: u32,
    },
    /// A target was called; the cursor is the one stored at that moment.
    Call {
        call: TargetCall,
        cursor: Cursor,
    },
    Lane {
        to: u32,
        message: LaneMessage,
    },
    Read {
        by: u32,
        after: Option<Position>,
    },
}

/// What waits to be carried out.
#[derive(Debug)]
enum Pending {
    Lane { to: u32, message: LaneMessage },
    Read { uid: u64, by: u32, tag: u32, seek: Option<ResumePoint>, limits: ReadLimits },
    Commit { uid: u64, by: u32, commit: EpochCommit },
    Call { uid: u64, by: u32, sink: u32, call: TargetCall },
}

/// How the next call of a kind goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Not applied, no answer.
    LostBefore,
    /// Applied, no answer.
    LostAfter,
    /// Refused: somebody else holds the target.
    Fenced,
    /// Refused for good.
    Definite,
}

struct Slot {
    uid: u64,
    generation: Generation,
    job: Job,
    wake: i64,
    next_row: usize,
    end: Option<JobEnd>,
}

/// What is not carried out for now, by partition.
#[derive(Debug, Default)]
pub struct Held {
    pub commits: Vec<u32>,
    pub reads: Vec<u32>,
    pub calls: Vec<u32>,
    /// Lane messages to these partitions.
    pub lanes: Vec<u32>,
}

pub struct World {
    pub now: i64,
    pub plan: Plan,
    pub shelves: Vec<Shelf>,
    pub targets: BTreeMap<(u32, u32), Target>,
    pub seen: Vec<Seen>,
    pub held: Held,
    /// How many rows one read returns at most.
    pub read_rows: usize,
    /// Whether the input ends, or only pauses.
    pub bounded: bool,
    /// The next call of this kind goes wrong.
    pub faults: VecDeque<(&'static str, Fault)>,
    /// This sink's targets do nothing and do not answer.
    pub dead: Option<u32>,
    manifest: Manifest,
    partitions: Vec<LayoutPartition>,
    slots: Vec<Option<Slot>>,
    input: Vec<Vec<Vec<u8>>>,
    pending: VecDeque<Pending>,
    next_uid: u64,
}

impl World {
    /// A world in which no job has started yet.
    pub fn new(manifest: &Manifest) -> Self {
        let partitions = manifest.layout().partitions();
        let count = partitions.len();
        World {
            now: 0,
            plan: manifest.compile().unwrap(),
            shelves: vec![Shelf::default(); count],
            targets: BTreeMap::new(),
            seen: Vec::new(),
            held: Held::default(),
            read_rows: 100,
            bounded: true,
            faults: VecDeque::new(),
            dead: None,
            manifest: manifest.clone(),
            slots: (0..count).map(|_| None).collect(),
            input: vec![Vec::new(); count],
            partitions,
            pending: VecDeque::new(),
            next_uid: 1,
        }
    }
    /// Adds rows to a source partition.
    pub fn add<R: AsRef<[u8]>>(&mut self, number: u32, rows: impl IntoIterator<Item = R>) {
        self.input[number as usize].extend(rows.into_iter().map(|row| row.as_ref().to_vec()));
    }
    pub fn add_all(&mut self, number: u32, rows: &[&str]) {
        self.add(number, rows);
    }
    /// How many partitions there are; they are numbered from 0.
    pub fn partitions(&self) -> u32 {
        self.partitions.len() as u32
    }
    /// Stored rows of a partition that a completed pipeline has no use for: state, timers, owed rows and messages.
    pub fn leftovers(&self, number: u32) -> usize {
        let rows = self.shelves[number as usize].rows.keys();
        rows.filter(|(table, _)| ![TableId::META, IDS].contains(table)).count()
    }
    fn numbers(&self) -> std::ops::Range<u32> {
        0..self.partitions.len() as u32
    }

    /// Grants the partition to a new job and starts it; whatever the job before had asked for is lost.
    pub fn try_start(&mut self, number: u32) -> Result<(), EngineError> {
        let index = number as usize;
        let uid = self.next_uid;
        self.next_uid += 1;
        let shelf = &mut self.shelves[index];
        let generation =
            Generation { number: shelf.head.last_number + 1, nonce: uid, branch: Branch::default() };
        shelf.head = shelf.head.grant(generation);
        let (layout, partition) = (self.manifest.layout(), &self.partitions[index]);
        let job = self.plan.job(&layout, partition, generation, shelf.stored(), uid * 7919, Mutants::NONE)?;
        self.slots[index] = Some(Slot { uid, generation, job, wake: i64::MAX, next_row: 0, end: None });
        self.handle(number, Event::Begin);
        Ok(())
    }
    pub fn start(&mut self, number: u32) {
        self.try_start(number).unwrap();
    }
    pub fn start_all(&mut self) {
        self.numbers().for_each(|number| self.start(number));
    }
    /// The power goes and comes back: everything in memory and on its way is gone.
    pub fn restart_all(&mut self) {
        self.pending.clear();
        self.slots.iter_mut().for_each(|slot| *slot = None);
        self.start_all();
    }
    /// What targets were asked for and have not answered yet happens all the same; nobody hears of it.
    pub fn land_calls(&mut self) {
        for pending in &self.pending {
            if let Pending::Call { by, sink, call, .. } = pending {
                let _ = self.targets.entry((*sink, *by)).or_default().apply(call);
            }
        }
    }
    /// Another manifest on the same store and targets, with the same input.
    pub fn upgrade(&mut self, manifest: &Manifest) {
        let mut next = World::new(manifest);
        next.shelves = std::mem::take(&mut self.shelves);
        next.targets = std::mem::take(&mut self.targets);
        next.input = std::mem::take(&mut self.input);
        (next.now, next.next_uid, next.bounded) = (self.now, self.next_uid, self.bounded);
        next.start_all();
        *self = next;
    }
    /// Other rows than before, as no immutable source gives them.
    pub fn replace_input(&mut self, number: u32, rows: &[String]) {
        self.input[number as usize] = rows.iter().map(|row| row.clone().into_bytes()).collect();
    }
    /// Asks every job to stop.
    pub fn stop_all(&mut self) {
        self.numbers().for_each(|number| self.handle(number, Event::Stop { drain: false }));
    }

    /// Hands a job an event and takes what it asks for.
    pub fn handle(&mut self, number: u32, event: Event) {
        let Some(slot) = &mut self.slots[number as usize] else { return };
        let mut requests = Vec::new();
        slot.job.handle(self.now, event, &mut requests);
        let uid = slot.uid;
        let had_ended = slot.end.clone();
        for request in requests {
            let answers_a_hello = matches!(&request, Request::Lane { message: LaneMessage::Open { .. }, .. });
            assert!(had_ended.is_none() || answers_a_hello, "after {had_ended:?}: {request:?}");
            self.take(number, uid, request);
        }
    }
    fn take(&mut self, by: u32, uid: u64, request: Request) {
        match request {
            Request::Lane { to, message } => {
                if let LaneMessage::Ack { session, frontier } = &message {
                    let stored = self.stored_frontier(session.lane);
                    assert!(*frontier <= stored, "acknowledged {frontier:?}, stored {stored:?}");
                }
                self.seen.push(Seen::Lane { to, message: message.clone() });
                self.pending.push_back(Pending::Lane { to, message });
            }
            Request::Read { tag, seek, limits } => {
                self.seen.push(Seen::Read { by, after: seek.as_ref().map(|point| point.position) });
                self.pending.push_back(Pending::Read { uid, by, tag, seek, limits });
            }
            Request::Commit(commit) => {
                self.pending.push_back(Pending::Commit { uid, by, commit });
            }
            Request::Target { sink, call } => {
                let name = &self.manifest.pipeline.sinks[sink as usize].name;
                let cursor =
                    self.shelves[by as usize].stored().cursors.get(name).copied().unwrap_or_default();
                match &call {
                    TargetCall::Write { block, .. }
                    | TargetCall::SequenceWrite { block, .. }
                    | TargetCall::PlainWrite(block) => {
                        assert!(block.last().unwrap() <= cursor.intended, "intended {cursor:?}");
                    }
                    TargetCall::TokenWrite { block, .. } if self.loses(sink) => assert!(!block.is_empty()),
                    TargetCall::TokenWrite { block, .. } => {
                        let stored = self.shelves[by as usize].stored().borders.get(name).copied();
                        assert_eq!(Borders::of(block), stored, "sent before the borders were recorded");
                    }
                    TargetCall::TakeFence(_) | TargetCall::ReadMarker | TargetCall::CreateMarker(_) => {}
                }
                self.seen.push(Seen::Call { call: call.clone(), cursor });
                self.pending.push_back(Pending::Call { uid, by, sink, call });
            }
            Request::Wake(at) => {
                if let Some(slot) = &mut self.slots[by as usize] {
                    slot.wake = at;
                }
            }
            Request::End(end) => {
                if let Some(slot) = &mut self.slots[by as usize] {
                    slot.end = Some(end);
                    slot.wake = i64::MAX;
                }
            }
        }
    }

    /// Whether a sink may lose rows.
    fn loses(&self, sink: u32) -> bool {
        self.manifest.pipeline.sinks[sink as usize].at_most_once.is_some()
    }

    fn is_held(&self, pending: &Pending) -> bool {
        match pending {
            Pending::Lane { to, .. } => self.held.lanes.contains(to),
            Pending::Read { by, .. } => self.held.reads.contains(by),
            Pending::Commit { by, .. } => self.held.commits.contains(by),
            Pending::Call { by, .. } => self.held.calls.contains(by),
        }
    }
    fn is_current(&self, number: u32, uid: u64) -> bool {
        self.slots[number as usize].as_ref().is_some_and(|slot| slot.uid == uid)
    }

    /// Carries out the oldest thing that is not held back, or lets time pass. False if nothing is left but
    /// waiting.
    pub fn step(&mut self) -> bool {
        if let Some(index) = self.pending.iter().position(|pending| !self.is_held(pending)) {
            if let Some(pending) = self.pending.remove(index) {
                self.carry_out(pending);
            }
            return true;
        }
        let awake = self.slots.iter().flatten().filter(|slot| slot.end.is_none());
        let Some(wake) = awake.map(|slot| slot.wake).min() else { return false };
        if wake > self.now + FAR {
            return false;
        }
        self.now = self.now.max(wake);
        for number in self.numbers() {
            let due = self.slots[number as usize]
                .as_mut()
                .is_some_and(|slot| slot.end.is_none() && slot.wake <= self.now);
            if due {
                self.handle(number, Event::Tick);
            }
        }
        true
    }
    /// Lets that much time pass without carrying anything out.
    pub fn wait(&mut self, micros: i64) {
        self.now += micros;
        self.numbers().for_each(|number| self.handle(number, Event::Tick));
    }
    fn carry_out(&mut self, pending: Pending) {
        match pending {
            Pending::Lane { to, message } => self.handle(to, Event::Lane(message)),
            Pending::Read { uid, by, tag, seek, limits } if self.is_current(by, uid) => {
                let read = self.read(by, seek, limits);
                self.handle(by, Event::Read { tag, read });
            }
            Pending::Commit { uid, by, commit } if self.is_current(by, uid) => {
                self.check_deletes(by, &commit);
                let outcome = self.shelves[by as usize].commit(&commit);
                if outcome == onceward_protocol::CommitOutcome::Committed {
                    self.seen.push(Seen::Committed { by });
                }
                self.handle(by, Event::Commit { epoch: commit.epoch, outcome });
            }
            Pending::Call { uid, by, sink, call } if self.is_current(by, uid) => self.call(by, sink, call),
            Pending::Read { .. } | Pending::Commit { .. } | Pending::Call { .. } => {}
        }
    }
    fn read(
        &mut self,
        by: u32,
        seek: Option<ResumePoint>,
        limits: ReadLimits,
    ) -> Result<Read, ConnectorError> {
        let rows = &self.input[by as usize];
        let Some(slot) = &mut self.slots[by as usize] else { return Ok(Read::Idle) };
        if let Some(point) = seek {
            slot.next_row = point.position.major as usize;
        }
        let first = slot.next_row;
        if first >= rows.len() {
            return Ok(if self.bounded { Read::End } else { Read::Idle });
        }
        let until = rows.len().min(first + self.read_rows.min(limits.rows));
        let (mut bytes, mut records) = (Vec::new(), Vec::new());
        for (offset, row) in rows[first..until].iter().enumerate() {
            let position = Position::at((first + offset + 1) as u64);
            records.push(Record { start: bytes.len() as u32, len: row.len() as u32, position });
            bytes.extend_from_slice(row);
        }
        slot.next_row = until;
        Ok(Read::Batch { batch: RecordBatch::new(bytes, records), token: until.to_string().into_bytes() })
    }
    fn call(&mut self, by: u32, sink: u32, call: TargetCall) {
        let target = self.targets.entry((sink, by)).or_default();
        let fault = self.faults.front().filter(|(of, _)| *of == kind(&call)).map(|(_, fault)| *fault);
        if fault.is_some() {
            self.faults.pop_front();
        }
        let lost = || Err(TargetError::Unknown("no answer in time".to_owned()));
        let answer = match fault {
            _ if self.dead == Some(sink) => lost(),
            None => target.apply(&call),
            Some(Fault::LostBefore) => lost(),
            Some(Fault::LostAfter) => {
                target.apply(&call).unwrap();
                lost()
            }
            Some(Fault::Fenced) => Err(TargetError::Fenced("somebody else writes".to_owned())),
            Some(Fault::Definite) => {
                Err(TargetError::Definite(ConnectorError::new("OW-3999", "the disk is made of cheese")))
            }
        };
        self.handle(by, Event::Target { sink, answer });
    }

    /// A row leaves the outbox only after the target has it.
    fn check_deletes(&self, by: u32, commit: &EpochCommit) {
        let shelf = &self.shelves[by as usize];
        for entry in WriteBatch::iter(commit.writes.as_bytes()) {
            let entry = entry.unwrap();
            if entry.table != TableId::OUTBOX || entry.value.is_some() || shelf.forget_outbox {
                continue;
            }
            let mut only = onceward_engine::Stored::default();
            let value = &shelf.rows[&(entry.table, entry.key.to_vec())];
            only.take(entry.table, entry.key, value).unwrap();
            for (name, chunks) in only.outbox {
                let sink = self.manifest.pipeline.sinks.iter().position(|sink| sink.name == name).unwrap();
                let held = &self.targets[&(sink as u32, by)].rows;
                for (_, row) in chunks.iter().flat_map(|(_, chunk)| chunk.iter()) {
                    assert!(
                        held.contains(&text(row)),
                        "{} left the outbox before the target had it",
                        text(row)
                    );
                }
            }
        }
    }

    /// Carries out the oldest commit of a partition, although commits are held back.
    pub fn commit_oldest(&mut self, number: u32) {
        let is_its = |pending: &Pending| matches!(pending, Pending::Commit { by, .. } if *by == number);
        let index = self.pending.iter().position(is_its).unwrap();
        if let Some(pending) = self.pending.remove(index) {
            self.carry_out(pending);
        }
    }
    /// Runs until every job has ended or nothing happens any more.
    pub fn run(&mut self) {
        self.run_until(|_| false);
    }
    /// Runs until `done`; false if it never was.
    pub fn run_until(&mut self, mut done: impl FnMut(&World) -> bool) -> bool {
        let mut quiet = 0;
        for _ in 0..MAX_STEPS {
            if done(self) {
                return true;
            }
            let before = self.seen.len();
            // Jobs do not talk for ever: only readers that find nothing and clocks do.
            let next = self.pending.iter().find(|pending| !self.is_held(pending));
            let talk = matches!(next, Some(Pending::Lane { .. }));
            let went_on = self.step();
            let news = talk
                || self.seen[before..].iter().any(|seen| !matches!(seen, Seen::Read { after: None, .. }));
            quiet = if news { 0 } else { quiet + 1 };
            if !went_on || quiet > QUIET_STEPS {
                return done(self);
            }
        }
        panic!("no end after {MAX_STEPS} steps");
    }
    /// Runs to the end of the input; every job must complete.
    pub fn complete(&mut self) {
        self.run();
        for number in self.numbers() {
            assert_eq!(self.end(number), Some(&JobEnd::Completed), "partition {number}");
        }
    }

    pub fn job(&self, number: u32) -> &Job {
        &self.slots[number as usize].as_ref().unwrap().job
    }
    pub fn stats(&self, number: u32) -> JobStats {
        self.job(number).stats()
    }
    /// Figures of a job's sinks.
    pub fn sinks(&self, number: u32) -> Vec<SinkStats> {
        self.job(number).sinks()
    }
    pub fn end(&self, number: u32) -> Option<&JobEnd> {
        self.slots[number as usize].as_ref().and_then(|slot| slot.end.as_ref())
    }
    /// The message of the error with which a job failed.
    pub fn failure(&self, number: u32) -> String {
        match self.end(number) {
            Some(JobEnd::Failed(error)) => error.to_string(),
            other => panic!("partition {number} did not fail: {other:?}"),
        }
    }
    pub fn generation(&self, number: u32) -> Generation {
        self.slots[number as usize].as_ref().unwrap().generation
    }
    /// The rows a sink has received, of all partitions, in order per partition.
    pub fn rows(&self, sink: u32) -> Vec<String> {
        let targets = self.targets.iter().filter(|((of, _), _)| *of == sink);
        targets.flat_map(|(_, target)| target.rows.clone()).collect()
    }
    /// The same, sorted.
    pub fn sorted(&self, sink: u32) -> Vec<String> {
        let mut rows = self.rows(sink);
        rows.sort();
        rows
    }
    /// The calls to targets so far.
    pub fn calls(&self) -> Vec<(TargetCall, Cursor)> {
        self.seen
            .iter()
            .filter_map(|seen| match seen {
                Seen::Call { call, cursor, .. } => Some((call.clone(), *cursor)),
                _ => None,
            })
            .collect()
    }
    pub fn kinds(&self) -> Vec<&'static str> {
        self.calls().iter().map(|(call, _)| kind(call)).collect()
    }
    /// The lane messages to a partition so far.
    pub fn lane_to(&self, number: u32) -> Vec<LaneMessage> {
        self.seen
            .iter()
            .filter_map(|seen| match seen {
                Seen::Lane { to, message } if *to == number => Some(message.clone()),
                _ => None,
            })
            .collect()
    }
    /// Epochs that are closed and not yet durable.
    pub fn open_epochs(&self, number: u32) -> usize {
        self.pending
            .iter()
            .filter(|pending| matches!(pending, Pending::Commit { by, .. } if *by == number))
            .count()
    }
    pub fn reads(&self, number: u32) -> usize {
        self.seen.iter().filter(|seen| matches!(seen, Seen::Read { by, .. } if *by == number)).count()
    }
    /// The finished place of a source partition, as stored.
    pub fn finished(&self, number: u32) -> Option<ResumePoint> {
        self.shelves[number as usize].stored().resume
    }
    /// The frontier that a lane's consumer has stored.
    pub fn stored_frontier(&self, lane: LaneKey) -> Frontier {
        let sources = self.manifest.pipeline.sources.iter().map(|source| &source.name);
        let computations = self.manifest.pipeline.computations.iter().map(|computation| &computation.name);
        let stream = sources.chain(computations).nth(lane.stream as usize).unwrap();
        let key = lane_key(stream, &self.partitions[lane.producer as usize].id);
        let stored = self.shelves[lane.consumer as usize].stored();
        stored.lanes.get(&key).map_or(Frontier::START, |lane| lane.taken)
    }
    /// The numbers of the key ranges.
    pub fn keyed(&self) -> Vec<u32> {
        let keyed = self.partitions.iter().filter(|partition| matches!(partition.role, Role::Keyed { .. }));
        keyed.map(|partition| partition.number).collect()
    }
    /// Late rows over all key ranges.
    pub fn late(&self) -> u64 {
        self.keyed().iter().map(|number| self.stats(*number).late).sum()
    }
}
