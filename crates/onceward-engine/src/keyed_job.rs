//! The job of one key-range partition: takes lanes, drops repeats, hands messages to its operator, and owes the
//! results to its sinks and to other computations.

use std::collections::BTreeMap;
use std::sync::Arc;

use onceward_connector::ProcessFunction;
use onceward_protocol::{
    Frontier, Generation, LaneKey, Mutant, Mutants, PartitionId, Position, Verdict, Watermark,
};
use onceward_spec::{DedupMode, EpochLimits, KeyedSpec, OperatorSpec, ProcessingMode};
use onceward_store::{TableId, WriteBatch};

use crate::delivery::SinkPlan;
use crate::emission::{Branch, Emission};
use crate::entropy::Nonces;
use crate::error::EngineError;
use crate::exchange::Exchange;
use crate::fused::{StepFailure, Tree};
use crate::ids::{Ids, Judged};
use crate::job::{Event, JobEnd, JobStats, Request, SinkStats};
use crate::lane::{LaneBatch, LaneMessage};
use crate::lane_in::LaneIn;
use crate::ledger::{EpochClock, Ledger};
use crate::load::LoadMeter;
use crate::operator::{Operator, OperatorName};
use crate::output::Outputs;
use crate::plan::Wiring;
use crate::process::{Clocks, Process};
use crate::stored::{
    Counters, Stored, clock_key, counters_key, encode_count, id_counters_key, lane_key, version_key,
};
use crate::windows::{Refused, Taken, Windows};

/// How many messages ahead their index lines are asked for.
const SLOT_AHEAD: usize = 16;
/// How many messages ahead their entries are asked for.
const ENTRY_AHEAD: usize = 8;

/// A lane as the plan knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LanePlan {
    /// Its numbers.
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
    /// The layout version that created the partition.
    pub created: u32,
    /// Keys and operator.
    pub spec: Arc<KeyedSpec>,
    /// The process function, if that is the operator.
    pub function: Option<Box<dyn ProcessFunction>>,
    /// Lanes, consumers and gate.
    pub wiring: Wiring,
    /// Whether the partition is retired and only drains.
    pub retired: bool,
    /// The steps behind the operator.
    pub tree: Arc<Tree>,
    /// The steps behind its late rows.
    pub late: Option<Arc<Tree>>,
    /// The sinks behind them.
    pub sinks: Vec<SinkPlan>,
    /// When epochs close.
    pub limits: EpochLimits,
    /// Every so many messages one is computed twice; 0 for none.
    pub replay_check: u64,
    /// Broken rules, for the simulator.
    pub mutants: Mutants,
}

/// What is to happen once an epoch is durable.
#[derive(Debug)]
struct Effects {
    frontiers: Vec<(LaneKey, Frontier)>,
    /// The layout version that the epoch records.
    version: Option<u32>,
    /// The lanes that may be taken from once it is durable.
    entering: Vec<LanePlan>,
}

/// How far a job is on its way to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    /// It runs.
    No,
    /// Deliver what is owed, then end; `drain` also waits for other computations.
    Stop { drain: bool },
    /// Start nothing new at targets, end when none is under way (QUIET-PAUSE).
    Halt,
    /// Commit what is taken, then end; a successor goes on.
    Retire,
}

/// The job of one key-range partition.
pub struct KeyedJob {
    computation: String,
    limits: EpochLimits,
    mutants: Mutants,
    retired: bool,
    has_late: bool,
    ledger: Ledger<Effects>,
    lanes: Vec<LaneIn>,
    /// In step with `lanes`: who produces them.
    plans: Vec<LanePlan>,
    by_key: BTreeMap<LaneKey, usize>,
    /// Lanes that are taken from once the layout version that brought them is persisted (DEFAULT-DENY).
    joining: Vec<LanePlan>,
    /// Joining lanes whose version is on its way to the store.
    entering: usize,
    /// Who produces lanes in the newest layout.
    producers: Vec<LanePlan>,
    /// A version that the next epoch must record.
    wanted_version: Option<u32>,
    next_lane: usize,
    effective: Watermark,
    /// What consumers were promised last.
    promised: Watermark,
    operator: Operator,
    ids: Option<Ids>,
    emission: Emission,
    accepted: Vec<u32>,
    nonces: Nonces,
    counters: Counters,
    counters_dirty: bool,
    repeats: u64,
    epoch_rows: u64,
    epoch_bytes: u64,
    /// The commit clock of the epoch being gathered.
    system_time: i64,
    meter: LoadMeter,
    clock: EpochClock,
    begun: bool,
    ending: Ending,
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
        let malformed =
            |what: &str| EngineError::Stored { partition: plan.partition.label(), what: what.to_owned() };
        let ids = load_ids(&plan.spec, &stored).ok_or_else(|| malformed("message ids"))?;
        let name = OperatorName { computation: plan.computation.clone(), partition: plan.partition.clone() };
        let what = match plan.spec.operator {
            OperatorSpec::Windows(_) => "window state",
            OperatorSpec::Process(_) => "state or timers",
        };
        let operator = operator(name, &plan.spec, plan.retired, plan.function, &stored)
            .ok_or_else(|| malformed(what))?;
        let version = stored.version.unwrap_or(plan.created);
        let mut joining = Vec::new();
        let mut lanes = Vec::new();
        let mut plans = Vec::new();
        for lane in plan.wiring.producers.iter().filter(|_| !plan.retired) {
            let key = lane_key(&lane.stream, &lane.producer);
            let state = stored.lanes.remove(&key);
            if state.is_none() && version != plan.wiring.version {
                joining.push(lane.clone());
                continue;
            }
            lanes.push(LaneIn::new(lane.key, key, state));
            plans.push(lane.clone());
        }
        let ledger = Ledger::new(plan.partition.clone(), generation, stored.head.head);
        let sink_nonces = Nonces::new(nonces.next_u64());
        let exchange =
            Exchange::new(&plan.wiring.consumers, std::mem::take(&mut stored.exchange), plan.wiring.gated);
        let outputs = Outputs::new(&plan.sinks, &plan.partition, &mut stored, sink_nonces, ledger.current());
        let main = Branch::new(plan.tree.clone(), 0, plan.replay_check);
        let late = plan.late.as_ref().map(|tree| Branch::new(tree.clone(), plan.tree.groups(), 0));
        let has_late = late.is_some();
        let mut emission = Emission::new(plan.partition.clone(), outputs, exchange, main, late);
        let gated = plan.wiring.gated && !plan.mutants.has(Mutant::GateIgnoresAncestor);
        emission.set_gate(gated);
        let mut job = KeyedJob {
            by_key: BTreeMap::new(),
            effective: Watermark::NONE,
            promised: Watermark::NONE,
            wanted_version: (!joining.is_empty()).then_some(plan.wiring.version),
            entering: 0,
            producers: plan.wiring.producers,
            computation: plan.computation,
            limits: plan.limits,
            mutants: plan.mutants,
            retired: plan.retired,
            has_late,
            next_lane: 0,
            accepted: Vec::new(),
            counters: stored.counters,
            counters_dirty: false,
            repeats: 0,
            epoch_rows: 0,
            epoch_bytes: 0,
            system_time: stored.clock.unwrap_or(i64::MIN),
            meter: LoadMeter::new(plan.wiring.range),
            clock: EpochClock::new(plan.limits.interval_us),
            begun: false,
            ending: Ending::No,
            ended: false,
            joining,
            ledger,
            lanes,
            plans,
            operator,
            ids,
            emission,
            nonces,
        };
        job.index_lanes();
        Ok(job)
    }

    /// Lanes came or went.
    fn index_lanes(&mut self) {
        self.by_key = self.lanes.iter().enumerate().map(|(index, lane)| (lane.key(), index)).collect();
        self.next_lane = 0;
        self.move_effective();
    }
    /// A lane that joins has said nothing yet and holds the watermark; what was promised before stays promised.
    fn move_effective(&mut self) {
        if self.joining.is_empty() && self.entering == 0 && !self.retired {
            let minimum = Watermark::min_over(self.lanes.iter().map(|lane| lane.state.watermark));
            self.effective = self.effective.max(minimum);
        }
    }

    /// Current figures.
    pub fn stats(&self) -> JobStats {
        JobStats {
            rows_in: self.counters.rows_in,
            repeats: self.repeats,
            late: self.counters.late,
            expired: self.counters.expired,
            rows_out: self.counters.rows_out,
            epoch: self.ledger.committed(),
            watermark: self.effective,
            keys: self.operator.keys(),
        }
    }
    /// How its load is spread over its key range.
    pub fn meter(&self) -> &LoadMeter {
        &self.meter
    }
    /// Figures of its sinks.
    pub fn sinks(&self) -> impl Iterator<Item = SinkStats> {
        self.emission.outputs.figures()
    }
    /// The job's own name.
    pub fn generation(&self) -> Generation {
        self.ledger.generation()
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
                self.invite(out);
                self.emission.exchange.begin(self.ledger.generation(), out);
            }
            Event::Tick | Event::Read { .. } => {}
            Event::Stop { drain } => {
                self.ending = Ending::Stop { drain };
                self.emission.outputs.stop();
            }
            Event::Halt => {
                self.ending = Ending::Halt;
                self.emission.outputs.halt();
            }
            Event::Retire => {
                self.ending = Ending::Retire;
                self.emission.outputs.halt();
            }
            Event::Rewire(wiring) => self.rewire(*wiring, out),
            Event::Lane(message) => self.lane(message, out),
            Event::Commit { epoch, outcome } => {
                let effects = self.ledger.settle(epoch, outcome)?;
                self.committed(epoch, effects, out);
            }
            Event::Target { sink, answer } => self.emission.outputs.answered(now, sink, answer)?,
        }
        Ok(())
    }

    fn committed(&mut self, epoch: u64, effects: Effects, out: &mut Vec<Request>) {
        for (key, frontier) in effects.frontiers {
            let Some(index) = self.by_key.get(&key) else { continue };
            let lane = &mut self.lanes[*index];
            lane.committed = lane.committed.max(frontier);
            // ACK-IMPLIES-DURABLE: what this epoch contains, not what was taken since.
            let taken = self.mutants.has(Mutant::TakenFrontierAcked);
            lane.acknowledge(if taken { lane.state.taken } else { frontier }, out);
        }
        if effects.version.is_some() {
            self.admit(effects.entering, out);
        }
        self.emission.committed(epoch);
    }

    /// The layout version is durable: lanes that it brought are taken from now on.
    fn admit(&mut self, entering: Vec<LanePlan>, out: &mut Vec<Request>) {
        self.entering -= entering.len();
        for lane in entering {
            self.lanes.push(LaneIn::new(lane.key, lane_key(&lane.stream, &lane.producer), None));
            self.plans.push(lane);
        }
        self.mark_leaving();
        self.index_lanes();
        self.invite(out);
    }

    /// Asks the producers of lanes without a session to announce themselves.
    fn invite(&self, out: &mut Vec<Request>) {
        let consumer = self.ledger.generation();
        for lane in self.lanes.iter().filter(|lane| lane.session().is_none()) {
            let message = LaneMessage::Invite { lane: lane.key(), consumer };
            out.push(Request::Lane { to: lane.key().producer, message });
        }
    }

    /// The layout changed: consumers are re-sent to at once, producers change with the epoch that records the
    /// version.
    fn rewire(&mut self, wiring: Wiring, out: &mut Vec<Request>) {
        self.emission.exchange.rewire(&wiring.consumers, self.ledger.generation(), out);
        if !self.mutants.has(Mutant::GateIgnoresAncestor) {
            self.emission.set_gate(wiring.gated);
        }
        if self.retired {
            return;
        }
        let before = std::mem::replace(&mut self.producers, wiring.producers);
        let is_in = |plan: &LanePlan, plans: &[LanePlan]| plans.iter().any(|lane| lane.key == plan.key);
        let new = self.producers.iter().filter(|plan| !is_in(plan, &before));
        self.joining.extend(new.cloned());
        let producers = &self.producers;
        self.joining.retain(|plan| is_in(plan, producers));
        self.mark_leaving();
        if self.producers != before {
            self.wanted_version = Some(wiring.version);
        }
    }

    /// Marks the lanes whose producers the layout has retired; their frontiers go with the next epoch.
    fn mark_leaving(&mut self) {
        for (lane, plan) in self.lanes.iter_mut().zip(&self.plans) {
            lane.leaving = !self.producers.iter().any(|known| known.key == plan.key);
        }
    }

    fn lane(&mut self, message: LaneMessage, out: &mut Vec<Request>) {
        let key = message.lane();
        let own = self.ledger.generation();
        if matches!(
            message,
            LaneMessage::Invite { .. }
                | LaneMessage::Open { .. }
                | LaneMessage::Ack { .. }
                | LaneMessage::Credit { .. }
        ) {
            self.emission.exchange.lane(&message, own, out);
            return;
        }
        if self.mutants.has(Mutant::RetiredLaneAccepted) && !self.by_key.contains_key(&key) {
            self.accept_unknown(key);
        }
        // DEFAULT-DENY: a lane that is not in the layout is dropped.
        let Some(index) = self.by_key.get(&key).copied() else { return };
        let lane = &mut self.lanes[index];
        match message {
            LaneMessage::Hello { producer, .. } => lane.hello(producer, own, self.nonces.next_u64(), out),
            LaneMessage::Batch(batch) => {
                let producer = batch.session.producer;
                if lane.receive(batch, self.mutants) == Verdict::Gap {
                    lane.open(producer, own, self.nonces.next_u64(), out);
                }
            }
            _ => {}
        }
    }

    /// The broken rule: an unknown lane is taken for a new one.
    fn accept_unknown(&mut self, key: LaneKey) {
        let Some(like) = self.plans.first().cloned() else { return };
        self.lanes.push(LaneIn::new(key, vec![b'l', 0, key.producer as u8], None));
        self.plans.push(LanePlan { key, ..like });
        self.by_key.insert(key, self.lanes.len() - 1);
    }

    fn poll(&mut self, now: i64, out: &mut Vec<Request>) -> Result<(), JobEnd> {
        if !self.begun {
            return Ok(());
        }
        if self.ending == Ending::No {
            self.gather(now, out)?;
        }
        self.close_epoch(now, out);
        if self.has_fired_all() || self.retired {
            self.emission.outputs.set_flush();
        }
        let mut wake = self.emission.poll(now, out)?.unwrap_or(i64::MAX);
        if let Some(end) = self.end() {
            return Err(end);
        }
        if let Operator::Process(process) = &self.operator
            && self.ending == Ending::No
        {
            wake = wake.min(process.next_clock_timer().unwrap_or(i64::MAX));
        }
        // Without room the commit's answer wakes the job.
        if self.ledger.has_room() {
            wake = wake.min(self.clock.due(self.wants_commit(now).0));
        }
        out.push(Request::Wake(wake.max(now + 1)));
        Ok(())
    }

    fn epoch_has_room(&self) -> bool {
        let limits = &self.limits;
        self.epoch_rows + self.emission.gathered_rows() < limits.max_rows
            && self.epoch_bytes + self.emission.gathered_bytes() < limits.max_bytes
            && !self.emission.is_full()
    }
    fn room(&self) -> u64 {
        self.limits.max_rows.saturating_sub(self.epoch_rows + self.emission.gathered_rows())
    }

    /// Takes a prefix of each lane in turn, and fires what the watermark or a clock has passed.
    fn gather(&mut self, now: i64, out: &mut Vec<Request>) -> Result<(), JobEnd> {
        if self.retired {
            return Ok(());
        }
        // The commit clock stands still within an epoch and never goes back.
        if self.epoch_rows == 0 {
            self.system_time = self.system_time.max(now);
        }
        loop {
            self.fire(now)?;
            if !self.epoch_has_room() {
                return Ok(());
            }
            let count = self.lanes.len();
            let next = (0..count)
                .map(|step| (self.next_lane + step) % count)
                .find(|lane| self.lanes[*lane].has_input());
            let Some(index) = next else { return Ok(()) };
            self.next_lane = (index + 1) % count;
            self.take_batch(now, index, out)?;
        }
    }

    fn take_batch(&mut self, now: i64, index: usize, out: &mut Vec<Request>) -> Result<(), JobEnd> {
        let Some((batch, mut cursor, mut marks)) = self.lanes[index].take_head() else { return Ok(()) };
        let room = usize::try_from(self.room()).unwrap_or(usize::MAX);
        let stop = batch.entries.len().min(cursor.saturating_add(room));
        while cursor < stop {
            // Up to the next watermark the effective one stands still.
            let until = match batch.watermarks.get(marks) {
                Some((at, watermark)) if *at as usize <= cursor => {
                    self.advance(index, *watermark);
                    marks += 1;
                    // Timers act on state: they fire at the watermark's place in the lane, not when the batch ends.
                    if let Operator::Process(_) = &self.operator {
                        self.fire(now)?;
                        if !self.epoch_has_room() {
                            break;
                        }
                    }
                    continue;
                }
                Some((at, _)) => stop.min(*at as usize),
                None => stop,
            };
            self.take_entries(now, index, &batch, cursor, until)?;
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
        now: i64,
        index: usize,
        batch: &LaneBatch,
        from: usize,
        until: usize,
    ) -> Result<(), JobEnd> {
        self.counters_dirty = true;
        let plain = self.lanes[index].state.subs.is_empty() && self.ids.is_none();
        if let Operator::Windows(_) = &self.operator
            && plain
        {
            return self.take_windowed(index, batch, from, until);
        }
        let mut accepted = std::mem::take(&mut self.accepted);
        accepted.clear();
        for number in from..until {
            if self.is_new(index, batch, number)? {
                accepted.push(number as u32);
            }
        }
        let result = self.take_accepted(now, index, batch, &accepted);
        self.accepted = accepted;
        result
    }

    /// Counts a message as taken unless it is a repeat.
    fn is_new(&mut self, index: usize, batch: &LaneBatch, number: usize) -> Result<bool, JobEnd> {
        let entry = &batch.entries[number];
        let lane = &mut self.lanes[index];
        if lane.state.taken.covers(entry.point) {
            self.repeats += 1;
            return Ok(false);
        }
        let by_ancestor = lane.state.covered(entry.hash, entry.point);
        lane.state.taken = Frontier::at(entry.point);
        self.epoch_rows += 1;
        if by_ancestor {
            self.repeats += 1;
            return Ok(false);
        }
        self.counters.rows_in += 1;
        self.meter.count(entry.hash);
        if let Some(ids) = &mut self.ids {
            match ids.judge(batch, entry, lane.state.watermark) {
                Some(Judged::New) => {}
                Some(Judged::Repeat) => {
                    self.counters.repeated += 1;
                    return Ok(false);
                }
                Some(Judged::Expired) => {
                    self.counters.expired += 1;
                    return Ok(false);
                }
                None => {
                    let reason = "the message carries no id".to_owned();
                    let step = format!("{} dedupBy", self.computation);
                    return Err(self.poison(index, entry.point.position, StepFailure { step, reason }));
                }
            }
        }
        Ok(true)
    }

    fn take_accepted(
        &mut self,
        now: i64,
        index: usize,
        batch: &LaneBatch,
        accepted: &[u32],
    ) -> Result<(), JobEnd> {
        let watermark = self.lanes[index].state.watermark;
        let clocks = self.clocks(now);
        let skip = self.ids.as_ref().is_some_and(Ids::is_by_client);
        match &mut self.operator {
            Operator::Process(process) => {
                let root = &self.plans[index].producer;
                process.take(batch, accepted, skip, root, clocks, &mut self.emission)
            }
            Operator::Windows(_) => {
                for number in accepted {
                    self.take_one_windowed(index, batch, *number as usize, watermark)?;
                }
                Ok(())
            }
            Operator::Retired => Ok(()),
        }
    }

    /// The hot path: no sub-ranges, no ids.
    fn take_windowed(
        &mut self,
        index: usize,
        batch: &LaneBatch,
        from: usize,
        until: usize,
    ) -> Result<(), JobEnd> {
        for (number, entry) in batch.entries.iter().enumerate().take(until).skip(from) {
            let Operator::Windows(windows) = &mut self.operator else { return Ok(()) };
            // Two stages ahead: first the index line, later the entry that it names.
            if let Some(ahead) = batch.entries.get(number + SLOT_AHEAD) {
                windows.state().prefetch_slot(ahead.hash);
            }
            if let Some(ahead) = batch.entries.get(number + ENTRY_AHEAD) {
                windows.state().prefetch_entry(ahead.hash);
            }
            let lane = &mut self.lanes[index];
            if lane.state.taken.covers(entry.point) {
                // A repeat after a session reset, or the lane is out of order: within one batch points grow.
                self.repeats += 1;
                continue;
            }
            lane.state.taken = Frontier::at(entry.point);
            self.counters.rows_in += 1;
            self.epoch_rows += 1;
            self.meter.count(entry.hash);
            match windows.take(batch.key(entry), batch.args(entry), entry, lane.state.watermark) {
                Ok(Taken::InWindow) => {}
                Ok(Taken::Late) => self.late(index, batch, number)?,
                Err(refused) => return Err(self.refused(index, entry.point.position, *refused)),
            }
        }
        Ok(())
    }

    fn take_one_windowed(
        &mut self,
        index: usize,
        batch: &LaneBatch,
        number: usize,
        watermark: Watermark,
    ) -> Result<(), JobEnd> {
        let entry = &batch.entries[number];
        let args = self.args(batch, number);
        let Operator::Windows(windows) = &mut self.operator else { return Ok(()) };
        match windows.take(batch.key(entry), args, entry, watermark) {
            Ok(Taken::InWindow) => Ok(()),
            Ok(Taken::Late) => self.late(index, batch, number),
            Err(refused) => Err(self.refused(index, entry.point.position, *refused)),
        }
    }

    /// The arguments of a message, behind its client-chosen id if it has one.
    fn args<'a>(&self, batch: &'a LaneBatch, number: usize) -> &'a [u8] {
        let args = batch.args(&batch.entries[number]);
        match &self.ids {
            Some(ids) if ids.is_by_client() => Ids::without_id(args),
            _ => args,
        }
    }

    /// A late row is counted and, if somebody reads those, put out as it came.
    #[cold]
    fn late(&mut self, index: usize, batch: &LaneBatch, number: usize) -> Result<(), JobEnd> {
        self.counters.late += 1;
        if !self.has_late {
            return Ok(());
        }
        let entry = &batch.entries[number];
        let args = self.args(batch, number);
        let Operator::Windows(windows) = &self.operator else { return Ok(()) };
        let position = entry.point.position;
        let Some(record) = windows.late_record(args) else {
            let step = format!("{} late rows", self.computation);
            let reason = "a lane message is malformed".to_owned();
            return Err(self.poison(index, position, StepFailure { step, reason }));
        };
        self.emission
            .emit_late(record, entry.event_time)
            .map_err(|failure| self.poison(index, position, failure))
    }

    #[cold]
    fn refused(&self, index: usize, position: Position, refused: Refused) -> JobEnd {
        match refused {
            Refused::Column(error) => JobEnd::Failed(error),
            Refused::Time => self.poison(
                index,
                position,
                StepFailure {
                    step: format!("{} window", self.computation),
                    reason: "the event time lies outside of what windows can hold".to_owned(),
                },
            ),
        }
    }
    #[cold]
    fn poison(&self, lane: usize, position: Position, failure: StepFailure) -> JobEnd {
        JobEnd::Failed(EngineError::Poison {
            stream: self.plans[lane].stream.clone(),
            partition: self.plans[lane].producer.label(),
            position,
            step: failure.step,
            reason: failure.reason,
        })
    }

    /// A lane's watermark moved: watermarks never go back.
    fn advance(&mut self, index: usize, watermark: Watermark) {
        let lane = &mut self.lanes[index];
        if watermark <= lane.state.watermark {
            return;
        }
        let was_minimum = lane.state.watermark <= self.effective;
        lane.state.watermark = watermark;
        lane.dirty = true;
        if was_minimum {
            self.move_effective();
        }
    }

    fn clocks(&self, now: i64) -> Clocks {
        Clocks { watermark: self.effective, system: self.system_time, real: now }
    }

    fn fire(&mut self, now: i64) -> Result<(), JobEnd> {
        let clocks = self.clocks(now);
        while self.epoch_has_room() {
            let room = self.room();
            match &mut self.operator {
                Operator::Windows(windows) => {
                    let Some((rows, bytes)) = windows.fire(self.effective, room, &mut self.emission)? else {
                        break;
                    };
                    self.epoch_rows += rows;
                    self.epoch_bytes += bytes;
                }
                Operator::Process(process) => {
                    let fired = process.fire(clocks, &mut self.emission)?;
                    if fired == 0 {
                        break;
                    }
                    self.epoch_rows += fired;
                }
                Operator::Retired => break,
            }
            self.counters_dirty = true;
        }
        self.promise();
        Ok(())
    }

    /// The output watermark never passes an unfired due timer (WATERMARK-IN-LANE).
    fn promise(&mut self) {
        if self.emission.exchange.is_empty() || self.retired {
            return;
        }
        let (held, lateness) = match &self.operator {
            Operator::Windows(windows) => (windows.held_at(), windows.lateness()),
            Operator::Process(process) => (process.held_at(), 0),
            Operator::Retired => return,
        };
        if self.has_fired_all() {
            if self.promised != Watermark::END {
                self.promised = Watermark::END;
                self.emission.watermark(Watermark::END);
                self.emission.exchange.through(Frontier::END);
            }
            return;
        }
        // Results of a window carry its last microsecond, and one that is held for its late rows comes later.
        let behind = self.effective.0.saturating_sub(lateness);
        let promise = Watermark(held.map_or(behind, |held| behind.min(held.saturating_sub(1))));
        if promise > self.promised && self.effective != Watermark::NONE && self.effective != Watermark::END {
            self.promised = promise;
            self.emission.watermark(promise);
        }
    }

    fn wants_commit(&self, now: i64) -> (bool, bool) {
        let (sinks_dirty, sinks_urgent) = self.emission.outputs.wants_commit();
        let lanes = self.lanes.iter().any(|lane| lane.dirty);
        let idle = self.clock.is_idle(now);
        let exchange = self.emission.exchange.is_dirty();
        let dirty = lanes || sinks_dirty || exchange || self.counters_dirty;
        let last = dirty && (self.ending != Ending::No || self.input_ended() || self.retired);
        let version = self.wanted_version.is_some();
        (dirty || idle || version, sinks_urgent || last || version)
    }

    fn close_epoch(&mut self, now: i64, out: &mut Vec<Request>) {
        let (dirty, urgent) = self.wants_commit(now);
        let full = !self.epoch_has_room();
        if !dirty || !self.ledger.has_room() || !(urgent || full || self.clock.due(dirty) <= now) {
            return;
        }
        let epoch = self.ledger.current();
        let mut writes = WriteBatch::default();
        self.write_operator(&mut writes);
        let (version, entering) = self.write_version(&mut writes);
        let mut frontiers = Vec::new();
        for lane in self.lanes.iter_mut().filter(|lane| lane.dirty) {
            lane.dirty = false;
            if !self.mutants.has(Mutant::FrontierNotPersisted) {
                lane.write(&mut writes);
            }
            if self.mutants.has(Mutant::AckBeforeCommit) {
                lane.acknowledge(lane.state.taken, out);
            }
            frontiers.push((lane.key(), lane.state.taken));
        }
        self.counters.rows_out += self.emission.gathered_rows();
        self.emission.write_epoch(epoch, &mut writes);
        if self.counters_dirty {
            writes.put(TableId::META, counters_key(), &self.counters.encode());
            if self.ids.is_some() {
                writes.put(TableId::META, id_counters_key(), &self.counters.encode_ids());
            }
        }
        self.counters_dirty = false;
        self.epoch_rows = 0;
        self.epoch_bytes = 0;
        self.clock.restart(now);
        out.push(Request::Commit(self.ledger.close(writes, Effects { frontiers, version, entering })));
    }

    fn write_operator(&mut self, writes: &mut WriteBatch) {
        match &mut self.operator {
            Operator::Windows(windows) => windows.write_changes(writes),
            Operator::Process(process) => {
                process.write_changes(writes);
                writes.put(TableId::META, clock_key(), &self.system_time.to_be_bytes());
            }
            Operator::Retired => {}
        }
        if let Some(ids) = &mut self.ids {
            ids.write_changes(self.effective, writes);
        }
    }

    /// A frontier is removed in the same epoch as the layout version that retires its producer.
    fn write_version(&mut self, writes: &mut WriteBatch) -> (Option<u32>, Vec<LanePlan>) {
        let Some(version) = self.wanted_version.take() else { return (None, Vec::new()) };
        writes.put(TableId::META, version_key(), &encode_count(u64::from(version)));
        let mut index = 0;
        while index < self.lanes.len() {
            if self.lanes[index].leaving {
                self.lanes[index].remove(writes);
                self.lanes.remove(index);
                self.plans.remove(index);
            } else {
                index += 1;
            }
        }
        let entering = std::mem::take(&mut self.joining);
        self.entering += entering.len();
        self.index_lanes();
        (Some(version), entering)
    }

    fn input_ended(&self) -> bool {
        let waiting = !self.joining.is_empty() || self.entering > 0;
        !waiting && !self.retired && self.lanes.iter().all(|lane| lane.state.taken.is_end())
    }
    fn has_fired_all(&self) -> bool {
        self.input_ended() && self.operator.is_empty()
    }
    fn has_completed(&self) -> bool {
        self.has_fired_all()
            && self.lanes.iter().all(|lane| lane.committed.is_end())
            && (self.emission.exchange.is_empty() || self.promised == Watermark::END)
    }

    /// Whether the job is over, and how.
    fn end(&self) -> Option<JobEnd> {
        if !self.ledger.is_settled() {
            return None;
        }
        let recorded = !self.counters_dirty && !self.lanes.iter().any(|lane| lane.dirty);
        let delivered = recorded && self.emission.is_settled();
        let drained = delivered && self.emission.exchange.is_drained();
        match self.ending {
            Ending::Halt if recorded && self.emission.outputs.is_quiet() => Some(JobEnd::Stopped),
            Ending::Retire if recorded && self.emission.outputs.is_quiet() => Some(JobEnd::Retired),
            Ending::Halt | Ending::Retire => None,
            _ if self.retired && drained => Some(JobEnd::Drained),
            Ending::Stop { drain } if drained || (delivered && !drain) => {
                let completed = !self.retired && drained && self.has_completed();
                Some(if completed { JobEnd::Completed } else { JobEnd::Stopped })
            }
            _ if !self.retired && drained && self.has_completed() => Some(JobEnd::Completed),
            _ => None,
        }
    }
}

fn load_ids(spec: &KeyedSpec, stored: &Stored) -> Option<Option<Ids>> {
    // At least once, consistently: the set of ids is left out, and nothing else.
    let kept = spec.processing_mode == ProcessingMode::ExactlyOnce && spec.dedup.mode == DedupMode::Full;
    if !kept && spec.dedup.by.is_empty() {
        return Some(None);
    }
    Ids::load(spec, kept, stored).map(Some)
}

fn operator(
    name: OperatorName,
    spec: &Arc<KeyedSpec>,
    retired: bool,
    function: Option<Box<dyn ProcessFunction>>,
    stored: &Stored,
) -> Option<Operator> {
    if retired {
        return Some(Operator::Retired);
    }
    match (&spec.operator, function) {
        (OperatorSpec::Windows(windows_spec), _) => {
            let mut windows = Windows::new(name, spec.clone(), windows_spec);
            for (key, value) in &stored.state {
                windows.load(key, value)?;
            }
            Some(Operator::Windows(Box::new(windows)))
        }
        (OperatorSpec::Process(process_spec), Some(function)) => {
            let mut process =
                Process::new(name, function, &process_spec.function.name, spec.group_by.clone());
            for (key, value) in &stored.state {
                process.load_state(key, value)?;
            }
            for (key, _) in &stored.timers {
                process.load_timer(key)?;
            }
            Some(Operator::Process(Box::new(process)))
        }
        (OperatorSpec::Process(_), None) => None,
    }
}
