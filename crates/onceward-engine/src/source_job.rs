//! The job of one source partition: reads, runs the fused steps, feeds lanes and its own sinks, and
//! moves the partition's finished place (CONTIGUOUS-PROGRESS).

use std::collections::BTreeMap;
use std::sync::Arc;

use onceward_connector::{Read, ReadLimits, RecordBatch};
use onceward_protocol::recut::Routing;
use onceward_protocol::resume::{Progress, ResumePoint};
use onceward_protocol::watermark::BoundedDisorder;
use onceward_protocol::{
    Frontier, Generation, LaneKey, LanePoint, PartitionId, Position, Watermark, routing_hash,
};
use onceward_spec::EpochLimits;
use onceward_store::{TableId, WriteBatch};

use crate::delivery::SinkPlan;
use crate::ending::Ending;
use crate::entropy::Nonces;
use crate::error::EngineError;
use crate::exchange::Exchange;
use crate::fused::{Emit, Origin, Scratch, StepFailure, Tree};
use crate::job::{Event, JobEnd, JobStats, Request, SinkStats};
use crate::lane::LaneMessage;
use crate::lane_out::LaneOut;
use crate::ledger::{EpochClock, Ledger};
use crate::output::Outputs;
use crate::plan::{GroupWiring, Wiring};
use crate::stored::{Counters, Stored, counters_key, outboxed_key, resume_key};

/// How much one read may return.
pub const READ_LIMITS: ReadLimits = ReadLimits { rows: 4096, bytes: 1 << 20 };
/// How many places may be read past without being finished.
const MAX_OPEN_PLACES: usize = 4096;
/// A watermark is put on every lane after each row that closes a window of its consumer, after each row whose
/// ordinal is a multiple of this, and at the partition's end: places that depend on the rows alone, never on how
/// reads were cut, so that a re-sent lane repeats them and no result depends on timing.
const WATERMARK_EVERY: u64 = 256;
/// Rows per lane that are worth a batch: what a batch costs on its way is shared by so many, whatever the number of
/// lanes.
const ROWS_PER_BATCH: u64 = 256;
/// Bytes per lane that are worth one, whatever their rows.
const BYTES_PER_BATCH: u64 = 32 << 10;
/// To so few lanes every read is sent at once: its rows are worth a batch to each.
const FEW_LANES: usize = 16;
/// Pause before asking an idle source again.
const IDLE_PAUSE_US: i64 = 50_000;

/// Everything fixed about a source job.
pub struct SourceJobPlan {
    /// The partition.
    pub partition: PartitionId,
    /// The source's stream name, for messages.
    pub stream: String,
    /// The steps.
    pub tree: Arc<Tree>,
    /// Whom it feeds, by group number of the tree.
    pub wiring: Wiring,
    /// Whether messages are stored before they leave, so that they are never computed or read again.
    pub materialised: bool,
    /// The sinks this source feeds directly.
    pub sinks: Vec<SinkPlan>,
    /// `outOfOrderness`, microseconds.
    pub disorder_us: i64,
    /// `idleAfter`, microseconds: a partition that brings nothing for so long holds no watermark.
    pub idle_after_us: Option<i64>,
    /// When epochs close.
    pub limits: EpochLimits,
    /// Every so many rows one is computed twice; 0 for none.
    pub replay_check: u64,
}

/// Lanes of one group that are fed as rows are read.
struct FusedGroup {
    lanes: Vec<LaneOut>,
    routing: Option<Routing>,
}

/// What lies in lanes and is not sent yet.
#[derive(Clone, Copy)]
struct Unsent {
    rows: u64,
    /// As they were read: what they take in lanes is in proportion.
    bytes: u64,
    /// When they are sent at the latest.
    due: i64,
}

impl Unsent {
    const NOTHING: Unsent = Unsent { rows: 0, bytes: 0, due: i64::MAX };

    /// Another read; `due` counts from the first one.
    fn add(&mut self, batch: &RecordBatch, due: i64) {
        if batch.records().is_empty() {
            return;
        }
        self.due = self.due.min(due);
        self.rows += batch.records().len() as u64;
        self.bytes += batch.records().iter().map(|record| u64::from(record.len)).sum::<u64>();
    }
    fn is_worth_sending(&self, lanes: usize) -> bool {
        let per_lane = |sum: u64, worth: u64| sum >= lanes as u64 * worth;
        lanes <= FEW_LANES || per_lane(self.rows, ROWS_PER_BATCH) || per_lane(self.bytes, BYTES_PER_BATCH)
    }
}

struct Out {
    /// Empty if the source is materialised.
    groups: Vec<FusedGroup>,
    /// Where each lane is: its group, and its place there.
    by_key: BTreeMap<LaneKey, (usize, usize)>,
    /// Per group: the watermark that closes another window of its consumer.
    boundaries: Vec<i64>,
    exchange: Exchange,
    outputs: Outputs,
    /// Rows up to here are in the outbox already.
    outboxed: Frontier,
    /// Rows put out of the record being evaluated.
    row: u32,
    disorder: BoundedDisorder,
    position: Position,
    event_time: i64,
}

impl Emit for Out {
    #[inline]
    fn keyed(&mut self, group: usize, child: u32, key: &[u8], args: &[u8]) {
        let hash = routing_hash(key);
        let point = LanePoint::new(self.position, child);
        match self.groups.get_mut(group) {
            Some(FusedGroup { lanes, routing: Some(routing) }) => {
                lanes[routing.index_of(hash)].push(point, hash, self.event_time, key, args);
            }
            Some(_) => {}
            None if self.outboxed.covers_position(self.position) => {}
            None => self.exchange.push(group, point, hash, self.event_time, key, args),
        }
    }
    fn row(&mut self, sink: u32, json: &[u8]) {
        self.row += 1;
        if self.outputs.is_by_reference(sink) {
            self.outputs.push_at(sink, Position::new(self.position.major, self.row), json);
        } else if !self.outboxed.covers_position(self.position) {
            self.outputs.push(sink, json);
        }
    }
}

impl Out {
    fn lanes(&self) -> impl Iterator<Item = &LaneOut> {
        self.groups.iter().flat_map(|group| group.lanes.iter())
    }
    fn lanes_mut(&mut self) -> impl Iterator<Item = &mut LaneOut> {
        self.groups.iter_mut().flat_map(|group| group.lanes.iter_mut())
    }
    fn lane(&mut self, key: LaneKey) -> Option<&mut LaneOut> {
        let (group, place) = *self.by_key.get(&key)?;
        self.groups.get_mut(group)?.lanes.get_mut(place)
    }
    fn index_lanes(&mut self) {
        let lanes = self.groups.iter().enumerate();
        self.by_key = lanes
            .flat_map(|(group, fused)| {
                fused.lanes.iter().enumerate().map(move |(place, lane)| (lane.key(), (group, place)))
            })
            .collect();
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reading {
    /// The next read must seek first.
    Seek,
    /// The reader stands where the last read ended.
    Ready,
    /// A read is out.
    Out,
    /// Nothing there at the last read: ask again then.
    Idle(i64),
    /// The partition has ended.
    Ended,
}

/// The job of one source partition.
pub struct SourceJob {
    plan: SourceJobPlan,
    ledger: Ledger<()>,
    out: Out,
    scratch: Scratch,
    progress: Progress,
    reading: Reading,
    /// A rewind is due when the read that is out comes back.
    rewind: bool,
    tag: u32,
    /// Whether anything is stored in the outbox or the exchange.
    stores: bool,
    /// Whether a sink is owed ranges of the source, and up to where this job has read for it.
    refers: bool,
    referenced: Frontier,
    /// Rows evaluated, for the replay check.
    evaluated: u64,
    /// The finished place in the last closed epoch.
    recorded: Frontier,
    counters: Counters,
    rows_read: u64,
    /// Rows read by this job.
    load: u64,
    unsent: Unsent,
    /// When the last row came, and whether the consumers know that none has for a while.
    last_row_at: i64,
    rests: bool,
    /// Something was read, acknowledged or confirmed since the finished place was looked for.
    stirred: bool,
    clock: EpochClock,
    begun: bool,
    ending: Ending,
    ended: bool,
}

impl SourceJob {
    /// A job that takes up what is stored.
    pub fn new(
        plan: SourceJobPlan,
        generation: Generation,
        mut stored: Stored,
        seed: u64,
    ) -> Result<Self, EngineError> {
        let finished = stored.resume.take().unwrap_or_else(ResumePoint::start);
        let ledger = Ledger::new(plan.partition.clone(), generation, stored.head.head);
        let frontier = finished.frontier();
        let outputs =
            Outputs::new(&plan.sinks, &plan.partition, &mut stored, Nonces::new(seed), ledger.current());
        let consumers = &plan.wiring.consumers;
        let fused: &[GroupWiring] = if plan.materialised { &[] } else { consumers };
        let stored_groups: &[GroupWiring] = if plan.materialised { consumers } else { &[] };
        let exchange = Exchange::new(stored_groups, std::mem::take(&mut stored.exchange));
        let groups: Vec<FusedGroup> = fused
            .iter()
            .map(|group| FusedGroup {
                lanes: group.keys().map(|lane| LaneOut::new(lane, frontier)).collect(),
                routing: group.routing(),
            })
            .collect();
        let outboxed = frontier.max(stored.outboxed);
        let (refers, owes_rows) = outputs.kinds();
        let mut job = SourceJob {
            scratch: plan.tree.scratch(),
            stores: owes_rows || !exchange.is_empty(),
            refers,
            referenced: frontier,
            evaluated: 0,
            out: Out {
                boundaries: vec![i64::MIN; consumers.len()],
                exchange,
                groups,
                by_key: BTreeMap::new(),
                outputs,
                outboxed,
                row: 0,
                disorder: BoundedDisorder::new(plan.disorder_us, finished.max_event_time),
                position: finished.position,
                event_time: i64::MIN,
            },
            progress: Progress::new(finished),
            reading: Reading::Seek,
            rewind: false,
            tag: 0,
            recorded: frontier,
            counters: stored.counters,
            rows_read: 0,
            load: 0,
            unsent: Unsent::NOTHING,
            stirred: true,
            last_row_at: i64::MIN,
            rests: false,
            clock: EpochClock::new(plan.limits.interval_us),
            begun: false,
            ending: Ending::No,
            ended: false,
            ledger,
            plan,
        };
        job.out.index_lanes();
        Ok(job)
    }

    /// Rows that this job has read.
    pub fn load(&self) -> u64 {
        self.load
    }
    /// Current figures.
    pub fn stats(&self) -> JobStats {
        JobStats {
            rows_in: self.progress.read().map_or(0, |point| point.rows),
            rows_out: self.counters.rows_out,
            epoch: self.ledger.committed(),
            watermark: if self.has_ended() { Watermark::END } else { self.out.disorder.watermark() },
            ..JobStats::default()
        }
    }
    /// Figures of its sinks.
    pub fn sinks(&self) -> impl Iterator<Item = SinkStats> {
        self.out.outputs.figures()
    }
    /// The connector's note of the last place read to, for progress display.
    pub fn read_token(&self) -> &[u8] {
        self.progress.read().map_or(&[], |point| &point.token)
    }
    /// Whether the partition has been read to its end.
    pub fn has_ended(&self) -> bool {
        self.reading == Reading::Ended || self.finished().is_end()
    }

    /// Takes one event.
    pub fn handle(&mut self, now: i64, event: Event, out: &mut Vec<Request>) {
        if self.ended {
            return;
        }
        let result = self.take(now, event, out).and_then(|()| self.poll(now, out));
        if let Err(end) = result {
            self.ended = true;
            out.push(Request::End(end));
        }
    }

    fn take(&mut self, now: i64, event: Event, out: &mut Vec<Request>) -> Result<(), JobEnd> {
        self.stirred |= matches!(
            event,
            Event::Read { .. } | Event::Lane(_) | Event::Target { .. } | Event::Commit { .. }
        );
        match event {
            Event::Begin => {
                self.begun = true;
                self.last_row_at = now;
                self.clock.restart(now);
                let producer = self.ledger.generation();
                self.out.lanes().for_each(|lane| lane.hello(producer, out));
                self.out.exchange.begin(producer, out);
            }
            Event::Tick => {}
            Event::Stop { .. } | Event::Halt | Event::Retire => {
                self.ending.ask(&event, &mut self.out.outputs);
            }
            Event::Rewire(wiring) => self.rewire(&wiring, out),
            Event::Read { tag, read } if tag == self.tag => self.read(now, read, out)?,
            Event::Read { .. } => {}
            Event::Lane(message) => self.lane(message, out),
            Event::Commit { epoch, outcome } => {
                self.ledger.settle(epoch, outcome)?;
                self.out.exchange.committed(epoch);
                self.out.outputs.committed(epoch);
            }
            Event::Target { sink, answer } => self.out.outputs.answered(now, sink, answer)?,
        }
        Ok(())
    }

    /// The layout changed: lanes to new consumers begin with what is finished everywhere.
    fn rewire(&mut self, wiring: &Wiring, out: &mut Vec<Request>) {
        let own = self.ledger.generation();
        if self.plan.materialised {
            self.out.exchange.rewire(&wiring.consumers, own, out);
            return;
        }
        let finished = self.finished();
        for (group, wiring) in self.out.groups.iter_mut().zip(&wiring.consumers) {
            LaneOut::rewire(&mut group.lanes, wiring.keys(), finished, own, out);
            group.routing = wiring.routing();
        }
        self.out.index_lanes();
    }

    /// Up to where rows have been read and handed on; the next read goes on from here.
    fn read_frontier(&self) -> Frontier {
        if self.reading == Reading::Ended {
            Frontier::END
        } else if self.out.position == Position::ORIGIN {
            Frontier::START
        } else {
            Frontier::through(self.out.position)
        }
    }

    fn lane(&mut self, message: LaneMessage, out: &mut Vec<Request>) {
        let own = self.ledger.generation();
        let key = message.lane();
        if self.plan.materialised {
            self.rests &= !matches!(message, LaneMessage::Open { .. });
            self.out.exchange.lane(&message, own, out);
            return;
        }
        let stands = self.read_frontier();
        let Some(lane) = self.out.lane(key) else { return };
        let opened = lane.take(&message, own, out);
        // Who comes later has not heard that the partition rests.
        self.rests &= opened.is_none();
        if opened.is_some_and(|from| from < stands || self.reading == Reading::Seek) {
            self.rewind = true;
        }
    }

    /// Where reading has to stand so that every lane and sink gets what it has not had.
    fn needed_from(&self) -> Frontier {
        let lanes = self.out.lanes().map(LaneOut::sent);
        let stored = self.stores.then_some(self.out.outboxed);
        let referenced = self.refers.then_some(self.referenced);
        lanes.chain(stored).chain(referenced).min().unwrap_or(self.recorded)
    }

    fn read(
        &mut self,
        now: i64,
        read: Result<Read, onceward_connector::ConnectorError>,
        out: &mut Vec<Request>,
    ) -> Result<(), JobEnd> {
        self.reading = Reading::Ready;
        if self.rewind {
            return Ok(());
        }
        match read {
            Ok(Read::Batch { batch, token }) => self.batch(now, &batch, token, out),
            Ok(Read::Idle) => {
                self.reading = Reading::Idle(now.saturating_add(IDLE_PAUSE_US));
                self.send(out);
                self.rest(now, out);
                Ok(())
            }
            Ok(Read::End) => {
                let position = self.out.position;
                let max_event_time = self.out.disorder.max_seen();
                let token = self.read_token().to_vec();
                self.progress.read_to(ResumePoint {
                    position,
                    token,
                    max_event_time,
                    rows: self.rows_read,
                    end: true,
                });
                self.unsent = Unsent::NOTHING;
                for lane in self.out.lanes_mut() {
                    lane.watermark(Watermark::END);
                    lane.flush(Frontier::END, out);
                }
                if !self.out.outboxed.is_end() {
                    self.out.exchange.watermark_all(Watermark::END);
                    self.out.exchange.through(Frontier::END);
                }
                self.out.outboxed = Frontier::END;
                self.referenced = Frontier::END;
                self.out.outputs.set_flush();
                self.reading = Reading::Ended;
                Ok(())
            }
            Err(error) => {
                Err(JobEnd::Failed(EngineError::Source { partition: self.plan.partition.label(), error }))
            }
        }
    }

    fn batch(
        &mut self,
        now: i64,
        batch: &RecordBatch,
        token: Vec<u8>,
        out: &mut Vec<Request>,
    ) -> Result<(), JobEnd> {
        for record in batch.records() {
            if record.position <= self.out.position && self.out.position != Position::ORIGIN {
                return Err(self.broken(
                    "CONTIGUOUS-PROGRESS",
                    format!("row {} after {}", record.position, self.out.position),
                ));
            }
            if self.refers && record.position.minor != 0 {
                return Err(self.broken(
                    "ID-UNIQUE",
                    format!(
                        "row {} by reference: its minor part is the place of the rows made of it",
                        record.position
                    ),
                ));
            }
            self.out.position = record.position;
            self.out.row = 0;
            let payload = batch.payload(record);
            let begin = |out: &mut Out, event_time: i64| {
                out.event_time = event_time;
                out.disorder.observe(event_time);
            };
            self.evaluated += 1;
            let check = self.plan.replay_check > 0 && self.evaluated.is_multiple_of(self.plan.replay_check);
            self.scratch.set_check(check);
            let origin = Origin { root: &self.plan.partition, position: record.position };
            let tree = &self.plan.tree;
            if let Err(failure) = tree.evaluate(payload, origin, &mut self.scratch, &mut self.out, begin) {
                return Err(self.poison(record.position, failure));
            }
            self.put_watermarks(record.position.major.is_multiple_of(WATERMARK_EVERY));
        }
        let position = self.out.position;
        let through = Frontier::through(position);
        if through > self.out.outboxed {
            self.out.exchange.through(through);
        }
        self.rows_read += batch.records().len() as u64;
        self.load += batch.records().len() as u64;
        self.out.outboxed = self.out.outboxed.max(through);
        self.referenced = self.referenced.max(through);
        let max_event_time = self.out.disorder.max_seen();
        self.progress.read_to(ResumePoint {
            position,
            token,
            max_event_time,
            rows: self.rows_read,
            end: false,
        });
        self.unsent.add(batch, now.saturating_add(self.plan.limits.interval_us / 2));
        self.last_row_at = now;
        self.rests = false;
        if self.unsent.is_worth_sending(self.out.by_key.len()) {
            self.send(out);
        }
        Ok(())
    }

    /// Lets the consumers go on without this partition, once nothing has come for `idleAfter`.
    fn rest(&mut self, now: i64, out: &mut Vec<Request>) {
        let Some(limit) = self.plan.idle_after_us else { return };
        if !self.rests && now.saturating_sub(self.last_row_at) >= limit {
            self.rests = true;
            self.out.lanes().for_each(|lane| lane.rest(out));
            self.out.exchange.lanes().for_each(|lane| lane.rest(out));
        }
    }

    /// Sends what lies in the lanes.
    fn send(&mut self, out: &mut Vec<Request>) {
        // With a rewind ahead a lane may lack rows that the others have had.
        if self.unsent.rows == 0 || self.rewind {
            return;
        }
        self.unsent = Unsent::NOTHING;
        let through = Frontier::through(self.out.position);
        self.out.lanes_mut().for_each(|lane| lane.flush(through, out));
    }

    /// Puts the watermark on the lanes of each consumer for which it closes another window, or on all.
    #[inline]
    fn put_watermarks(&mut self, all: bool) {
        let watermark = self.out.disorder.watermark();
        let covered = self.out.outboxed.covers_position(self.out.position);
        for (group, boundary) in self.out.boundaries.iter_mut().enumerate() {
            if watermark != Watermark::NONE && (all || watermark.0 >= *boundary) {
                match self.out.groups.get_mut(group) {
                    Some(group) => group.lanes.iter_mut().for_each(|lane| lane.watermark(watermark)),
                    // Rows that are stored already brought their watermarks with them.
                    None if covered => {}
                    None => self.out.exchange.watermark(group, watermark),
                }
                *boundary = self.plan.wiring.consumers[group].window.next_boundary(watermark);
            }
        }
    }

    #[cold]
    fn poison(&self, position: Position, failure: StepFailure) -> JobEnd {
        JobEnd::Failed(EngineError::Poison {
            stream: self.plan.stream.clone(),
            partition: self.plan.partition.label(),
            position,
            step: failure.step,
            reason: failure.reason,
        })
    }
    #[cold]
    fn broken(&self, rule: &'static str, detail: String) -> JobEnd {
        JobEnd::Failed(EngineError::Invariant { partition: self.plan.partition.label(), rule, detail })
    }

    fn poll(&mut self, now: i64, out: &mut Vec<Request>) -> Result<(), JobEnd> {
        if !self.begun {
            return Ok(());
        }
        if self.unsent.due <= now || self.ending != Ending::No {
            self.send(out);
        }
        self.finish_progress(now);
        self.close_epoch(now, out);
        self.out.exchange.poll(out);
        let mut wake = self.out.outputs.poll(now, out)?.unwrap_or(i64::MAX);
        self.start_read(now, out)?;
        if self.is_done() {
            return Err(match self.ending {
                Ending::No => JobEnd::Completed,
                Ending::Retire => JobEnd::Retired,
                Ending::Stop { .. } | Ending::Halt => JobEnd::Stopped,
            });
        }
        if let Reading::Idle(until) = self.reading
            && self.may_read()
        {
            wake = wake.min(until);
        }
        // Without room the commit's answer wakes the job.
        if self.ledger.has_room() {
            wake = wake.min(self.clock.due(self.stirred || self.wants_commit(now).0));
        }
        out.push(Request::Wake(wake.min(self.unsent.due).max(now + 1)));
        Ok(())
    }

    /// The finished place is the minimum over every lane and every sink. It is looked for when it is needed: not with
    /// every acknowledgement of every lane.
    fn finish_progress(&mut self, now: i64) {
        let ends = self.ending != Ending::No || self.reading == Reading::Ended;
        let full = self.progress.open() >= MAX_OPEN_PLACES / 2
            || self.out.outputs.is_full()
            || self.out.outputs.wants_commit().1
            || self.out.exchange.is_full();
        let due = self.ledger.has_room() && self.clock.due(true) <= now;
        if !(self.stirred && (ends || full || due)) {
            return;
        }
        self.stirred = false;
        let lanes = self.out.lanes().map(LaneOut::acked);
        let sinks = self.stores.then_some(self.out.outboxed);
        // By reference: below the first row that its target has not confirmed.
        let referenced = self.refers.then(|| match self.out.outputs.unfinished() {
            Some(row) => Frontier::at(LanePoint::new(Position::at(row.major), 0)),
            None => self.referenced,
        });
        // A source that feeds nothing is finished as far as it is read.
        let read = self.progress.read().map(ResumePoint::frontier);
        if let Some(frontier) = lanes.chain(sinks).chain(referenced).min().or(read) {
            self.progress.finish(frontier);
        }
    }

    fn finished(&self) -> Frontier {
        self.progress.finished().map_or(Frontier::START, ResumePoint::frontier)
    }

    fn wants_commit(&self, now: i64) -> (bool, bool) {
        let (sinks_dirty, sinks_urgent) = self.out.outputs.wants_commit();
        let moved = self.finished() > self.recorded;
        let idle = self.clock.is_idle(now);
        let stored = self.out.exchange.is_dirty();
        let last = (moved || stored) && (self.finished().is_end() || self.ending != Ending::No);
        (sinks_dirty || stored || moved || idle, sinks_urgent || last)
    }

    fn close_epoch(&mut self, now: i64, out: &mut Vec<Request>) {
        let (dirty, urgent) = self.wants_commit(now);
        let limits = &self.plan.limits;
        let full = self.out.outputs.gathered_rows() >= limits.max_rows
            || self.out.outputs.gathered_bytes() >= limits.max_bytes
            || self.out.outputs.is_full()
            || self.out.exchange.is_full();
        if !dirty || !self.ledger.has_room() || !(urgent || full || self.clock.due(dirty) <= now) {
            return;
        }
        let epoch = self.ledger.current();
        let mut writes = WriteBatch::default();
        self.counters.rows_out += self.out.outputs.new_rows();
        self.out.exchange.write_epoch(epoch, &mut writes);
        self.out.outputs.write_epoch(epoch, &mut writes);
        if let Some(point) = self.progress.finished() {
            let frontier = point.frontier();
            if frontier > self.recorded {
                writes.put(TableId::META, resume_key(), &point.encode());
                self.recorded = frontier;
            }
        }
        if self.stores {
            let mut outboxed = Vec::new();
            self.out.outboxed.encode(&mut outboxed);
            writes.put(TableId::META, outboxed_key(), &outboxed);
        }
        writes.put(TableId::META, counters_key(), &self.counters.encode());
        self.clock.restart(now);
        out.push(Request::Commit(self.ledger.close(writes, ())));
    }

    /// While it drains, what was read before is read again for a consumer that was replaced and has not had it.
    fn may_read(&self) -> bool {
        match self.ending {
            Ending::No => true,
            Ending::Stop { drain: true } => !self.has_caught_up() || self.needed_from() < self.furthest(),
            Ending::Stop { drain: false } | Ending::Halt | Ending::Retire => false,
        }
    }
    /// Whether this job has read as far as every consumer has committed: one that goes on after a crash stands behind.
    fn has_caught_up(&self) -> bool {
        let furthest = self.furthest();
        self.out.lanes().all(|lane| lane.is_open() && lane.acked() <= furthest)
    }
    /// Up to where this job has ever read.
    fn furthest(&self) -> Frontier {
        self.progress.read().map_or(Frontier::START, ResumePoint::frontier)
    }

    fn start_read(&mut self, now: i64, out: &mut Vec<Request>) -> Result<(), JobEnd> {
        if self.reading == Reading::Out || !self.may_read() {
            return Ok(());
        }
        if !self.out.lanes().all(LaneOut::is_open) {
            return Ok(());
        }
        let seek = self.rewind || self.reading == Reading::Seek;
        match self.reading {
            Reading::Ended if !self.rewind => return Ok(()),
            Reading::Idle(until) if until > now && !self.rewind => return Ok(()),
            _ => {}
        }
        let room = self.progress.open() < MAX_OPEN_PLACES
            && !self.out.outputs.is_full()
            && !self.out.exchange.is_full()
            && self.epoch_has_room();
        if !room || !self.out.lanes().all(LaneOut::is_ready) {
            return Ok(());
        }
        let from = if seek {
            let needed = self.needed_from();
            let Some(point) = self.progress.at_or_before(needed).cloned() else {
                return Err(self.broken(
                    "ACK-IMPLIES-DURABLE",
                    format!("a consumer needs rows after {needed:?}, which it has acknowledged"),
                ));
            };
            self.out.position = point.position;
            self.rows_read = point.rows;
            self.out.boundaries.fill(i64::MIN);
            self.out.disorder = BoundedDisorder::new(self.plan.disorder_us, point.max_event_time);
            self.rewind = false;
            // What lies in the lanes and was not sent is read again.
            self.out.lanes_mut().for_each(LaneOut::discard);
            self.unsent = Unsent::NOTHING;
            if point.end {
                self.reading = Reading::Ready;
                return self.read(now, Ok(Read::End), out);
            }
            Some(point)
        } else {
            None
        };
        self.tag += 1;
        self.reading = Reading::Out;
        out.push(Request::Read { tag: self.tag, seek: from, limits: READ_LIMITS });
        Ok(())
    }

    fn epoch_has_room(&self) -> bool {
        let limits = &self.plan.limits;
        self.out.outputs.gathered_rows() < limits.max_rows
            && self.out.outputs.gathered_bytes() + self.out.exchange.gathered_bytes() < limits.max_bytes
            && self.out.exchange.gathered_rows() < limits.max_rows
    }

    fn is_done(&self) -> bool {
        if !self.ledger.is_settled() || self.reading == Reading::Out {
            return false;
        }
        let settled = self.out.outputs.is_settled();
        let finished = self.finished().is_end() && self.recorded.is_end() && self.out.exchange.is_drained();
        match self.ending {
            Ending::No => settled && finished,
            Ending::Stop { drain: false } => settled,
            Ending::Stop { drain: true } => settled && self.is_drained(),
            Ending::Halt | Ending::Retire => self.out.outputs.is_quiet(),
        }
    }
    /// Whether everything that was read is committed by whoever takes it, and that is recorded.
    fn is_drained(&self) -> bool {
        let read = self.furthest();
        self.has_caught_up()
            && self.out.exchange.is_drained()
            && self.finished() == read
            && self.recorded == read
    }
}
