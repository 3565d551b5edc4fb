//! The job of one key-range partition: takes lanes, drops repeats, keeps windows, fires them, and owes
//! the results to its sinks.

use std::collections::BTreeMap;
use std::sync::Arc;

use onceward_expr::{Timestamp, Value};
use onceward_protocol::watermark::Tumbling;
use onceward_protocol::{
    Frontier, Generation, LaneKey, Mutant, Mutants, PartitionId, Position, Verdict, Watermark,
};
use onceward_spec::{EpochLimits, KeyedSpec};
use onceward_store::{TableId, WriteBatch};

use crate::delivery::SinkPlan;
use crate::entropy::Nonces;
use crate::error::EngineError;
use crate::fused::{Emit, Scratch, Tree, json_member};
use crate::job::{Event, JobEnd, JobStats, Request, SinkStats};
use crate::lane::{LaneBatch, LaneMessage};
use crate::lane_in::LaneIn;
use crate::ledger::{EpochClock, Ledger};
use crate::output::Outputs;
use crate::stored::{Counters, Stored, counters_key, encode_lane, lane_key};
use crate::window_state::{Fired, WindowState};

/// Keys fired between two looks at the epoch's limits.
const MAX_FIRED_AT_ONCE: usize = 65_536;

/// How many messages ahead their index lines are asked for.
const SLOT_AHEAD: usize = 16;
/// How many messages ahead their entries are asked for.
const ENTRY_AHEAD: usize = 8;

/// A lane as the plan knows it.
#[derive(Clone, Debug)]
pub struct LanePlan {
    /// Its numbers in this run.
    pub key: LaneKey,
    /// The stream's name; part of the stored name.
    pub stream: String,
    /// The producing partition; part of the stored name.
    pub producer: PartitionId,
}

/// Everything fixed about a keyed job.
pub struct KeyedJobPlan {
    /// The partition.
    pub partition: PartitionId,
    /// The computation's name.
    pub computation: String,
    /// Keys, windows, aggregates.
    pub spec: Arc<KeyedSpec>,
    /// The lanes of the persisted layout; messages of any other are dropped (DEFAULT-DENY).
    pub lanes: Vec<LanePlan>,
    /// The steps behind the aggregate.
    pub tree: Arc<Tree>,
    /// The sinks behind them.
    pub sinks: Vec<SinkPlan>,
    /// When epochs close.
    pub limits: EpochLimits,
    /// Broken rules, for the simulator.
    pub mutants: Mutants,
}

/// What is to happen once an epoch is durable.
#[derive(Debug)]
struct Effects {
    frontiers: Vec<(usize, Frontier)>,
}

struct Rows<'a>(&'a mut Outputs);

impl Emit for Rows<'_> {
    fn keyed(&mut self, _group: usize, _child: u32, _key: &[u8], _args: &[u8]) {}
    fn row(&mut self, sink: u32, json: &[u8]) {
        self.0.push(sink, json);
    }
}

/// The job of one key-range partition.
pub struct KeyedJob {
    plan: KeyedJobPlan,
    window: Tumbling,
    ledger: Ledger<Effects>,
    lanes: Vec<LaneIn>,
    by_key: BTreeMap<LaneKey, usize>,
    next_lane: usize,
    effective: Watermark,
    state: WindowState,
    outputs: Outputs,
    scratch: Scratch,
    row: Vec<u8>,
    names: Vec<Vec<u8>>,
    nonces: Nonces,
    counters: Counters,
    counters_dirty: bool,
    repeats: u64,
    epoch_rows: u64,
    epoch_bytes: u64,
    clock: EpochClock,
    begun: bool,
    stopping: bool,
    ended: bool,
}

impl KeyedJob {
    /// A job that takes up what is stored.
    pub fn new(
        plan: KeyedJobPlan,
        generation: Generation,
        mut stored: Stored,
        seed: u64,
    ) -> Result<Self, EngineError> {
        let mut nonces = Nonces::new(seed);
        let mut state = WindowState::new(&plan.spec);
        for (key, value) in &stored.state {
            state.load(key, value).ok_or_else(|| EngineError::Stored {
                partition: plan.partition.label(),
                what: "window state".to_owned(),
            })?;
        }
        let lanes: Vec<LaneIn> = plan
            .lanes
            .iter()
            .map(|lane| {
                let key = lane_key(&lane.stream, &lane.producer);
                let (frontier, watermark) =
                    stored.lanes.get(&key).copied().unwrap_or((Frontier::START, Watermark::NONE));
                LaneIn::new(lane.key, key, frontier, watermark)
            })
            .collect();
        let ledger = Ledger::new(plan.partition.clone(), generation, stored.head.head);
        let sink_nonces = Nonces::new(nonces.next_u64());
        let outputs = Outputs::new(&plan.sinks, &plan.partition, &mut stored, sink_nonces, ledger.current());
        Ok(KeyedJob {
            window: crate::plan::window(&plan.spec),
            by_key: lanes.iter().enumerate().map(|(index, lane)| (lane.key(), index)).collect(),
            effective: Watermark::min_over(lanes.iter().map(|lane| lane.watermark)),
            names: plan.spec.compute.iter().map(|(name, _)| json_member(name)).collect(),
            scratch: plan.tree.scratch(),
            next_lane: 0,
            row: Vec::new(),
            counters: stored.counters,
            counters_dirty: false,
            repeats: 0,
            epoch_rows: 0,
            epoch_bytes: 0,
            clock: EpochClock::new(plan.limits.interval_us),
            begun: false,
            stopping: false,
            ended: false,
            ledger,
            lanes,
            state,
            outputs,
            nonces,
            plan,
        })
    }

    /// Current figures.
    pub fn stats(&self) -> JobStats {
        JobStats {
            rows_in: self.counters.rows_in,
            repeats: self.repeats,
            late: self.counters.late,
            rows_out: self.counters.rows_out,
            epoch: self.ledger.committed(),
            watermark: self.effective,
            keys: self.state.keys(),
        }
    }
    /// Figures of its sinks.
    pub fn sinks(&self) -> impl Iterator<Item = SinkStats> {
        self.outputs.figures()
    }

    /// Takes one event.
    pub fn handle(&mut self, now: i64, event: Event, out: &mut Vec<Request>) {
        if self.ended {
            // A job that has completed still tells a restarted producer how far its lane is committed;
            // the driver lets it go when the whole pipeline has ended.
            if let Event::Lane(message @ LaneMessage::Hello { .. }) = event {
                self.lane(message, out);
            }
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
                let consumer = self.ledger.generation();
                for lane in &self.lanes {
                    let message = LaneMessage::Invite { lane: lane.key(), consumer };
                    out.push(Request::Lane { to: lane.key().producer, message });
                }
            }
            Event::Tick | Event::Read { .. } => {}
            Event::Stop => {
                self.stopping = true;
                self.outputs.set_flush();
            }
            Event::Lane(message) => self.lane(message, out),
            Event::Commit { epoch, outcome } => {
                let effects = self.ledger.settle(epoch, outcome)?;
                for (lane, frontier) in effects.frontiers {
                    let lane = &mut self.lanes[lane];
                    lane.committed = lane.committed.max(frontier);
                    // ACK-IMPLIES-DURABLE: what this epoch contains, not what was taken since.
                    let taken = self.plan.mutants.has(Mutant::TakenFrontierAcked);
                    lane.acknowledge(if taken { lane.taken } else { frontier }, out);
                }
                self.outputs.committed(epoch, out);
            }
            Event::Target { sink, answer } => self.outputs.answered(now, sink, answer, out)?,
        }
        Ok(())
    }

    fn lane(&mut self, message: LaneMessage, out: &mut Vec<Request>) {
        // DEFAULT-DENY: a lane that is not in the layout is dropped.
        let Some(index) = self.by_key.get(&message.lane()).copied() else { return };
        let consumer = self.ledger.generation();
        let lane = &mut self.lanes[index];
        match message {
            LaneMessage::Hello { producer, .. } => {
                lane.hello(producer, consumer, self.nonces.next_u64(), out)
            }
            LaneMessage::Batch(batch) => {
                let producer = batch.session.producer;
                if lane.receive(batch, self.plan.mutants) == Verdict::Gap {
                    lane.open(producer, consumer, self.nonces.next_u64(), out);
                }
            }
            LaneMessage::Invite { .. }
            | LaneMessage::Open { .. }
            | LaneMessage::Credit { .. }
            | LaneMessage::Ack { .. } => {}
        }
    }

    fn poll(&mut self, now: i64, out: &mut Vec<Request>) -> Result<(), JobEnd> {
        if !self.begun {
            return Ok(());
        }
        if !self.stopping {
            self.gather(out)?;
        }
        self.close_epoch(now, out);
        if self.has_fired_all() {
            self.outputs.set_flush();
        }
        let wake = self.outputs.poll(now, out).unwrap_or(i64::MAX);
        if self.is_done() {
            return Err(if self.stopping && !self.has_completed() {
                JobEnd::Stopped
            } else {
                JobEnd::Completed
            });
        }
        // Without room the commit's answer wakes the job.
        let due = if self.ledger.has_room() { self.clock.due(self.wants_commit(now).0) } else { i64::MAX };
        let wake = wake.min(due);
        out.push(Request::Wake(wake.max(now + 1)));
        Ok(())
    }

    fn epoch_has_room(&self) -> bool {
        let limits = &self.plan.limits;
        self.epoch_rows + self.outputs.gathered_rows() < limits.max_rows
            && self.epoch_bytes + self.outputs.gathered_bytes() < limits.max_bytes
            && !self.outputs.is_full()
    }

    /// Takes a prefix of each lane in turn, and fires the windows that the watermark has passed.
    fn gather(&mut self, out: &mut Vec<Request>) -> Result<(), JobEnd> {
        loop {
            self.fire()?;
            if !self.epoch_has_room() {
                return Ok(());
            }
            let count = self.lanes.len();
            let next = (0..count)
                .map(|step| (self.next_lane + step) % count)
                .find(|lane| self.lanes[*lane].has_input());
            let Some(index) = next else { return Ok(()) };
            self.next_lane = (index + 1) % count;
            self.take_batch(index, out)?;
        }
    }

    fn take_batch(&mut self, index: usize, out: &mut Vec<Request>) -> Result<(), JobEnd> {
        let Some((batch, mut cursor, mut marks)) = self.lanes[index].take_head() else { return Ok(()) };
        let room = self.plan.limits.max_rows.saturating_sub(self.epoch_rows + self.outputs.gathered_rows());
        let stop =
            batch.entries.len().min(cursor.saturating_add(usize::try_from(room).unwrap_or(usize::MAX)));
        while cursor < stop {
            // Up to the next watermark the effective one stands still.
            let until = match batch.watermarks.get(marks) {
                Some((at, watermark)) if *at as usize <= cursor => {
                    self.advance(index, *watermark);
                    marks += 1;
                    continue;
                }
                Some((at, _)) => stop.min(*at as usize),
                None => stop,
            };
            self.take_entries(index, &batch, cursor, until)?;
            cursor = until;
        }
        self.lanes[index].dirty = true;
        if cursor < batch.entries.len() {
            self.lanes[index].put_back(batch, cursor, marks);
            return Ok(());
        }
        for (_, watermark) in &batch.watermarks[marks..] {
            self.advance(index, *watermark);
        }
        self.epoch_bytes += batch.bytes.len() as u64;
        self.lanes[index].finish_head(&batch, out);
        Ok(())
    }

    fn take_entries(
        &mut self,
        index: usize,
        batch: &LaneBatch,
        from: usize,
        until: usize,
    ) -> Result<(), JobEnd> {
        let lane = &mut self.lanes[index];
        for (number, entry) in batch.entries[from..until].iter().enumerate() {
            // Two stages ahead: first the index line, later the entry that it names.
            if let Some(ahead) = batch.entries.get(from + number + SLOT_AHEAD) {
                self.state.prefetch_slot(ahead.hash);
            }
            if let Some(ahead) = batch.entries.get(from + number + ENTRY_AHEAD) {
                self.state.prefetch_entry(ahead.hash);
            }
            if lane.taken.covers(entry.point) {
                // A repeat after a session reset, or the lane is out of order: within one batch points grow.
                self.repeats += 1;
                continue;
            }
            lane.taken = Frontier::at(entry.point);
            self.counters.rows_in += 1;
            self.epoch_rows += 1;
            let Some(start) = self.window.start_of(entry.event_time) else {
                return Err(JobEnd::Failed(poison(&self.plan, index, entry.point.position)));
            };
            // Judged by the row's own lane, not by how far the others are: whether a row is late depends on the
            // rows before it in its partition alone. What has fired is closed on every lane.
            if self.window.closed(start, lane.watermark) {
                self.counters.late += 1;
                continue;
            }
            let key = batch.key(entry);
            if let Err((column, reason)) = self.state.update(start, entry.hash, key, batch.args(entry)) {
                return Err(JobEnd::Failed(self.refused(key, column, reason)));
            }
        }
        self.counters_dirty = true;
        Ok(())
    }

    /// A lane's watermark moved: watermarks never go back.
    fn advance(&mut self, index: usize, watermark: Watermark) {
        let lane = &mut self.lanes[index];
        if watermark <= lane.watermark {
            return;
        }
        let was_minimum = lane.watermark <= self.effective;
        lane.watermark = watermark;
        lane.dirty = true;
        if was_minimum {
            self.effective = Watermark::min_over(self.lanes.iter().map(|lane| lane.watermark));
        }
    }

    fn fire(&mut self) -> Result<(), JobEnd> {
        while let Some(start) = self.state.first_window() {
            if !self.window.closed(start, self.effective) || !self.epoch_has_room() {
                return Ok(());
            }
            let limit =
                self.plan.limits.max_rows.saturating_sub(self.epoch_rows + self.outputs.gathered_rows());
            let limit = usize::try_from(limit).unwrap_or(usize::MAX).min(MAX_FIRED_AT_ONCE);
            self.counters_dirty = true;
            let KeyedJob {
                plan, state, outputs, scratch, row, names, window, epoch_rows, epoch_bytes, ..
            } = self;
            state.fire(start, limit, |fired| {
                // A fired key is part of the epoch, whether or not a row comes of it.
                *epoch_rows += 1;
                *epoch_bytes += fired.key.len() as u64;
                row.clear();
                write_row(&plan.spec, names, window, &fired, row)
                    .map_err(|(column, reason)| JobEnd::Failed(refused(plan, fired.key, column, reason)))?;
                let position = outputs.next_position();
                plan.tree.evaluate(row, scratch, &mut Rows(outputs), |_, _| {}).map_err(|failure| {
                    JobEnd::Failed(EngineError::Poison {
                        stream: plan.computation.clone(),
                        partition: plan.partition.label(),
                        position,
                        step: failure.step,
                        reason: failure.reason,
                    })
                })
            })?;
        }
        Ok(())
    }

    #[cold]
    fn refused(&self, key: &[u8], column: usize, reason: String) -> EngineError {
        refused(&self.plan, key, column, reason)
    }

    fn wants_commit(&self, now: i64) -> (bool, bool) {
        let (sinks_dirty, sinks_urgent) = self.outputs.wants_commit();
        let lanes = self.lanes.iter().any(|lane| lane.dirty);
        let idle = self.clock.is_idle(now);
        let last = (lanes || sinks_dirty) && (self.stopping || self.input_ended());
        (sinks_dirty || lanes || self.counters_dirty || idle, sinks_urgent || last)
    }

    fn close_epoch(&mut self, now: i64, out: &mut Vec<Request>) {
        let (dirty, urgent) = self.wants_commit(now);
        let full = !self.epoch_has_room();
        if !dirty || !self.ledger.has_room() || !(urgent || full || self.clock.due(dirty) <= now) {
            return;
        }
        let epoch = self.ledger.current();
        let mut writes = WriteBatch::default();
        self.state.write_changes(&mut writes);
        let mut frontiers = Vec::new();
        for (index, lane) in self.lanes.iter_mut().enumerate().filter(|(_, lane)| lane.dirty) {
            lane.dirty = false;
            if !self.plan.mutants.has(Mutant::FrontierNotPersisted) {
                writes.put(TableId::META, &lane.stored_key, &encode_lane(lane.taken, lane.watermark));
            }
            if self.plan.mutants.has(Mutant::AckBeforeCommit) {
                lane.acknowledge(lane.taken, out);
            }
            frontiers.push((index, lane.taken));
        }
        self.counters.rows_out += self.outputs.gathered_rows();
        self.outputs.write_epoch(epoch, &mut writes);
        writes.put(TableId::META, counters_key(), &self.counters.encode());
        self.counters_dirty = false;
        self.epoch_rows = 0;
        self.epoch_bytes = 0;
        self.clock.restart(now);
        out.push(Request::Commit(self.ledger.close(writes, Effects { frontiers })));
    }

    fn input_ended(&self) -> bool {
        self.lanes.iter().all(|lane| lane.taken.is_end())
    }
    fn has_fired_all(&self) -> bool {
        self.input_ended() && self.state.first_window().is_none()
    }
    fn has_completed(&self) -> bool {
        self.has_fired_all() && self.lanes.iter().all(|lane| lane.committed.is_end())
    }
    fn is_done(&self) -> bool {
        let settled = self.ledger.is_settled()
            && self.outputs.is_settled()
            && !self.counters_dirty
            && !self.lanes.iter().any(|lane| lane.dirty);
        settled && (self.stopping || self.has_completed())
    }
}

#[cold]
fn refused(plan: &KeyedJobPlan, key: &[u8], column: usize, reason: String) -> EngineError {
    let mut text = Vec::new();
    let _ = write_key(&plan.spec, key, &mut text);
    EngineError::Aggregate {
        computation: plan.computation.clone(),
        key: format!("{{{}}}", String::from_utf8_lossy(&text).trim_end_matches(',')),
        column: plan.spec.compute.get(column).map_or("", |(name, _)| name).to_owned(),
        reason,
    }
}

#[cold]
fn poison(plan: &KeyedJobPlan, lane: usize, position: Position) -> EngineError {
    EngineError::Poison {
        stream: plan.lanes[lane].stream.clone(),
        partition: plan.lanes[lane].producer.label(),
        position,
        step: format!("{} window", plan.computation),
        reason: "the event time lies outside of what windows can hold".to_owned(),
    }
}

/// Appends `"field":value,` for each field of an encoded key.
fn write_key(spec: &KeyedSpec, mut key: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    for name in &spec.group_by {
        let (value, used) = Value::decode_key(key).ok_or("a stored key is malformed")?;
        key = &key[used..];
        out.extend_from_slice(&json_member(name));
        value.write_json(out).map_err(|error| error.to_string())?;
        out.push(b',');
    }
    Ok(())
}

/// The output row: group keys, `window_start`, `window_end`, then the computed names.
fn write_row(
    spec: &KeyedSpec,
    names: &[Vec<u8>],
    window: &Tumbling,
    fired: &Fired<'_>,
    out: &mut Vec<u8>,
) -> Result<(), (usize, String)> {
    out.push(b'{');
    write_key(spec, fired.key, out).map_err(|reason| (0, reason))?;
    out.extend_from_slice(b"\"window_start\":");
    write_time(fired.window_start, out).map_err(|reason| (0, reason))?;
    out.extend_from_slice(b",\"window_end\":");
    write_time(window.end_of(fired.window_start).unwrap_or(i64::MAX), out).map_err(|reason| (0, reason))?;
    for (column, name) in names.iter().enumerate() {
        out.push(b',');
        out.extend_from_slice(name);
        fired.write_json(column, out).map_err(|reason| (column, reason))?;
    }
    out.push(b'}');
    Ok(())
}

/// Appends a time as a JSON text in RFC 3339, UTC.
fn write_time(micros: i64, out: &mut Vec<u8>) -> Result<(), String> {
    let nanos = micros.rem_euclid(1_000_000) as u32 * 1000;
    let time =
        Timestamp::new(micros.div_euclid(1_000_000), nanos).ok_or("a window lies beyond the year 9999")?;
    Value::Timestamp(time).write_json(out).map_err(|error| error.to_string())
}
