//! The job of one source partition: reads, runs the fused steps, feeds lanes and its own sinks, and
//! moves the partition's finished place (CONTIGUOUS-PROGRESS).

use std::sync::Arc;

use onceward_connector::{Read, ReadLimits, RecordBatch};
use onceward_protocol::resume::{Progress, ResumePoint};
use onceward_protocol::watermark::{BoundedDisorder, Tumbling};
use onceward_protocol::{
    Frontier, Generation, KeyRange, LaneKey, LanePoint, PartitionId, Position, Watermark, routing_hash,
};
use onceward_spec::EpochLimits;
use onceward_store::{TableId, WriteBatch};

use crate::delivery::SinkPlan;
use crate::entropy::Nonces;
use crate::error::EngineError;
use crate::fused::{Emit, Scratch, StepFailure, Tree};
use crate::job::{Event, JobEnd, JobStats, Request, SinkStats};
use crate::lane::LaneMessage;
use crate::lane_out::LaneOut;
use crate::ledger::{EpochClock, Ledger};
use crate::output::Outputs;
use crate::stored::{Counters, Stored, counters_key, outboxed_key, resume_key};

/// How much one read may return.
pub const READ_LIMITS: ReadLimits = ReadLimits { rows: 4096, bytes: 1 << 20 };
/// How many places may be read past without being finished.
const MAX_OPEN_PLACES: usize = 4096;
/// A watermark is put on every lane after each row that closes a window of its consumer, after each row whose
/// ordinal is a multiple of this, and at the partition's end: places that depend on the rows alone, never on how
/// reads were cut, so that a re-sent lane repeats them and no result depends on timing.
const WATERMARK_EVERY: u64 = 256;
/// Pause before asking an idle source again.
const IDLE_PAUSE_US: i64 = 50_000;
/// A keyed computation that this source feeds over one stream.
#[derive(Clone, Debug)]
pub struct LaneGroup {
    /// The lanes, by key-range index: they tile the key space in order.
    pub lanes: Vec<LaneKey>,
    /// The consumer's windows.
    pub window: Tumbling,
}

/// Everything fixed about a source job.
pub struct SourceJobPlan {
    /// The partition.
    pub partition: PartitionId,
    /// The source's stream name, for messages.
    pub stream: String,
    /// The steps.
    pub tree: Arc<Tree>,
    /// By group number of the tree.
    pub groups: Vec<LaneGroup>,
    /// The sinks this source feeds directly.
    pub sinks: Vec<SinkPlan>,
    /// `outOfOrderness`, microseconds.
    pub disorder_us: i64,
    /// When epochs close.
    pub limits: EpochLimits,
}

struct Out {
    groups: Vec<Vec<LaneOut>>,
    /// Per group: the watermark that closes another window of its consumer.
    boundaries: Vec<i64>,
    outputs: Outputs,
    /// Rows up to here are in the outbox already.
    outboxed: Frontier,
    disorder: BoundedDisorder,
    position: Position,
    event_time: i64,
}

impl Emit for Out {
    #[inline]
    fn keyed(&mut self, group: usize, child: u32, key: &[u8], args: &[u8]) {
        let hash = routing_hash(key);
        let lanes = &mut self.groups[group];
        let index = KeyRange::index_of(hash, lanes.len() as u32) as usize;
        lanes[index].push(LanePoint::new(self.position, child), hash, self.event_time, key, args);
    }
    fn row(&mut self, sink: u32, json: &[u8]) {
        if !self.outboxed.covers_position(self.position) {
            self.outputs.push(sink, json);
        }
    }
}

impl Out {
    fn lanes(&self) -> impl Iterator<Item = &LaneOut> {
        self.groups.iter().flatten()
    }
    fn lane(&mut self, key: LaneKey) -> Option<&mut LaneOut> {
        self.groups.iter_mut().flatten().find(|lane| lane.key() == key)
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
    has_sinks: bool,
    /// The finished place in the last closed epoch.
    recorded: Frontier,
    counters: Counters,
    rows_read: u64,
    clock: EpochClock,
    begun: bool,
    stopping: bool,
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
        let groups: Vec<Vec<LaneOut>> = plan
            .groups
            .iter()
            .map(|group| group.lanes.iter().map(|lane| LaneOut::new(*lane, frontier)).collect())
            .collect();
        let outboxed = frontier.max(stored.outboxed);
        Ok(SourceJob {
            scratch: plan.tree.scratch(),
            has_sinks: !plan.sinks.is_empty(),
            out: Out {
                boundaries: vec![i64::MIN; groups.len()],
                groups,
                outputs,
                outboxed,
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
            clock: EpochClock::new(plan.limits.interval_us),
            begun: false,
            stopping: false,
            ended: false,
            ledger,
            plan,
        })
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
        match event {
            Event::Begin => {
                self.begun = true;
                self.clock.restart(now);
                let producer = self.ledger.generation();
                for lane in self.out.lanes() {
                    let message = LaneMessage::Hello { lane: lane.key(), producer };
                    out.push(Request::Lane { to: lane.key().consumer, message });
                }
            }
            Event::Tick => {}
            Event::Stop => {
                self.stopping = true;
                self.out.outputs.set_flush();
            }
            Event::Read { tag, read } if tag == self.tag => self.read(now, read, out)?,
            Event::Read { .. } => {}
            Event::Lane(message) => self.lane(message, out),
            Event::Commit { epoch, outcome } => {
                self.ledger.settle(epoch, outcome)?;
                self.out.outputs.committed(epoch, out);
            }
            Event::Target { sink, answer } => self.out.outputs.answered(now, sink, answer, out)?,
        }
        Ok(())
    }

    fn lane(&mut self, message: LaneMessage, out: &mut Vec<Request>) {
        let own = self.ledger.generation();
        let key = message.lane();
        let Some(lane) = self.out.lane(key) else { return };
        match message {
            LaneMessage::Invite { .. } => {
                out.push(Request::Lane {
                    to: key.consumer,
                    message: LaneMessage::Hello { lane: key, producer: own },
                });
            }
            LaneMessage::Open { session, frontier } => {
                let before = lane.sent();
                if lane.open(session, frontier, own) && (frontier < before || self.reading == Reading::Seek) {
                    self.rewind = true;
                }
            }
            LaneMessage::Ack { session, frontier } => {
                lane.acknowledge(session, frontier);
            }
            LaneMessage::Credit { session, below } => lane.credit(session, below),
            LaneMessage::Hello { .. } | LaneMessage::Batch(_) => {}
        }
    }

    /// Where reading has to stand so that every lane and sink gets what it has not had.
    fn needed_from(&self) -> Frontier {
        let lanes = self.out.lanes().map(LaneOut::sent);
        lanes.chain(self.has_sinks.then_some(self.out.outboxed)).min().unwrap_or(self.recorded)
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
            Ok(Read::Batch { batch, token }) => self.batch(&batch, token, out),
            Ok(Read::Idle) => {
                self.reading = Reading::Idle(now.saturating_add(IDLE_PAUSE_US));
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
                for lane in self.out.groups.iter_mut().flatten() {
                    lane.watermark(Watermark::END);
                    lane.flush(Frontier::END, out);
                }
                self.out.outboxed = Frontier::END;
                self.out.outputs.set_flush();
                self.reading = Reading::Ended;
                Ok(())
            }
            Err(error) => {
                Err(JobEnd::Failed(EngineError::Source { partition: self.plan.partition.label(), error }))
            }
        }
    }

    fn batch(&mut self, batch: &RecordBatch, token: Vec<u8>, out: &mut Vec<Request>) -> Result<(), JobEnd> {
        for record in batch.records() {
            if record.position <= self.out.position && self.out.position != Position::ORIGIN {
                return Err(self.broken(
                    "CONTIGUOUS-PROGRESS",
                    format!("row {} after {}", record.position, self.out.position),
                ));
            }
            self.out.position = record.position;
            let payload = batch.payload(record);
            let begin = |out: &mut Out, event_time: i64| {
                out.event_time = event_time;
                out.disorder.observe(event_time);
            };
            if let Err(failure) = self.plan.tree.evaluate(payload, &mut self.scratch, &mut self.out, begin) {
                return Err(self.poison(record.position, failure));
            }
            self.put_watermarks(record.position.major.is_multiple_of(WATERMARK_EVERY));
        }
        let position = self.out.position;
        let through = Frontier::through(position);
        for lane in self.out.groups.iter_mut().flatten() {
            lane.flush(through, out);
        }
        self.rows_read += batch.records().len() as u64;
        self.out.outboxed = self.out.outboxed.max(through);
        let max_event_time = self.out.disorder.max_seen();
        self.progress.read_to(ResumePoint {
            position,
            token,
            max_event_time,
            rows: self.rows_read,
            end: false,
        });
        Ok(())
    }

    /// Puts the watermark on the lanes of each consumer for which it closes another window, or on all.
    #[inline]
    fn put_watermarks(&mut self, all: bool) {
        let watermark = self.out.disorder.watermark();
        for (group, boundary) in self.out.boundaries.iter_mut().enumerate() {
            if watermark != Watermark::NONE && (all || watermark.0 >= *boundary) {
                self.out.groups[group].iter_mut().for_each(|lane| lane.watermark(watermark));
                *boundary = self.plan.groups[group].window.next_boundary(watermark);
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
        self.finish_progress();
        self.close_epoch(now, out);
        let mut wake = self.out.outputs.poll(now, out).unwrap_or(i64::MAX);
        self.start_read(now, out)?;
        if self.is_done() {
            let end = if self.stopping { JobEnd::Stopped } else { JobEnd::Completed };
            return Err(end);
        }
        if let Reading::Idle(until) = self.reading
            && !self.stopping
        {
            wake = wake.min(until);
        }
        // Without room the commit's answer wakes the job.
        if self.ledger.has_room() {
            wake = wake.min(self.clock.due(self.wants_commit(now).0));
        }
        out.push(Request::Wake(wake.max(now + 1)));
        Ok(())
    }

    /// The finished place is the minimum over every lane and every sink.
    fn finish_progress(&mut self) {
        let lanes = self.out.lanes().map(LaneOut::acked);
        let sinks = self.has_sinks.then_some(self.out.outboxed);
        // A source that feeds nothing is finished as far as it is read.
        let read = self.progress.read().map(ResumePoint::frontier);
        if let Some(frontier) = lanes.chain(sinks).min().or(read) {
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
        let last = moved && (self.finished().is_end() || self.stopping);
        (sinks_dirty || moved || idle, sinks_urgent || last)
    }

    fn close_epoch(&mut self, now: i64, out: &mut Vec<Request>) {
        let (dirty, urgent) = self.wants_commit(now);
        let limits = &self.plan.limits;
        let full = self.out.outputs.gathered_rows() >= limits.max_rows
            || self.out.outputs.gathered_bytes() >= limits.max_bytes
            || self.out.outputs.is_full();
        if !dirty || !self.ledger.has_room() || !(urgent || full || self.clock.due(dirty) <= now) {
            return;
        }
        let epoch = self.ledger.current();
        let mut writes = WriteBatch::default();
        self.counters.rows_out += self.out.outputs.gathered_rows();
        self.out.outputs.write_epoch(epoch, &mut writes);
        if let Some(point) = self.progress.finished() {
            let frontier = point.frontier();
            if frontier > self.recorded {
                writes.put(TableId::META, resume_key(), &point.encode());
                self.recorded = frontier;
            }
        }
        if self.has_sinks {
            let mut outboxed = Vec::new();
            self.out.outboxed.encode(&mut outboxed);
            writes.put(TableId::META, outboxed_key(), &outboxed);
        }
        writes.put(TableId::META, counters_key(), &self.counters.encode());
        self.clock.restart(now);
        out.push(Request::Commit(self.ledger.close(writes, ())));
    }

    fn start_read(&mut self, now: i64, out: &mut Vec<Request>) -> Result<(), JobEnd> {
        if self.stopping || self.reading == Reading::Out {
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
        let room =
            self.progress.open() < MAX_OPEN_PLACES && !self.out.outputs.is_full() && self.epoch_has_room();
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
            && self.out.outputs.gathered_bytes() < limits.max_bytes
    }

    fn is_done(&self) -> bool {
        let settled =
            self.ledger.is_settled() && self.out.outputs.is_settled() && self.reading != Reading::Out;
        settled && (self.stopping || (self.finished().is_end() && self.recorded.is_end()))
    }
}
