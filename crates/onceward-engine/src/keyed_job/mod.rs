//! The job of one key-range partition: takes lanes, drops repeats, hands messages to its operator, and owes the
//! results to its sinks and to other computations.

mod epoch;
mod lanes;
mod load;
mod taking;

use std::collections::BTreeMap;
use std::sync::Arc;

use onceward_connector::ProcessFunction;
use onceward_protocol::{Frontier, Generation, KeyRange, LaneKey, Mutant, Mutants, PartitionId, Watermark};
use onceward_spec::{EpochLimits, KeyedSpec, OperatorSpec};

use crate::controller::LoadMeter;
use crate::delivery::SinkPlan;
use crate::emission::{Branch, Emission};
use crate::ending::Ending;
use crate::entropy::Nonces;
use crate::error::EngineError;
use crate::exchange::Exchange;
use crate::fused::Tree;
use crate::ids::Ids;
use crate::job::{Event, JobEnd, JobStats, Request, SinkStats};
use crate::lane::LaneMessage;
use crate::lane_in::LaneIn;
use crate::ledger::{EpochClock, Ledger};
use crate::operator::{Operator, OperatorName};
use crate::output::Outputs;
use crate::plan::Wiring;
use crate::stored::{Counters, Stored, lane_key};

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
    /// What it owns.
    pub range: KeyRange,
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

/// The job of one key-range partition.
pub struct KeyedJob {
    computation: String,
    limits: EpochLimits,
    mutants: Mutants,
    retired: bool,
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
    /// A producer has said that it rests.
    heard_of_rest: bool,
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
    meter: LoadMeter,
    epoch_rows: u64,
    epoch_bytes: u64,
    /// The commit clock of the epoch being gathered.
    system_time: i64,
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
        let ids = load::ids(&plan.spec, &stored).ok_or_else(|| malformed("message ids"))?;
        let name = OperatorName { computation: plan.computation.clone(), partition: plan.partition.clone() };
        let what = match plan.spec.operator {
            OperatorSpec::Windows(_) => "window state",
            OperatorSpec::Process(_) => "state or timers",
        };
        let operator = load::operator(name, &plan.spec, plan.retired, plan.function, &stored)
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
        let exchange = Exchange::new(&plan.wiring.consumers, std::mem::take(&mut stored.exchange));
        let outputs = Outputs::new(&plan.sinks, &plan.partition, &mut stored, sink_nonces, ledger.current());
        let main = Branch::new(plan.tree.clone(), 0, plan.replay_check);
        let late = plan.late.as_ref().map(|tree| Branch::new(tree.clone(), plan.tree.groups(), 0));
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
            next_lane: 0,
            heard_of_rest: false,
            accepted: Vec::new(),
            counters: stored.counters,
            counters_dirty: false,
            repeats: 0,
            meter: LoadMeter::new(plan.range),
            epoch_rows: 0,
            epoch_bytes: 0,
            system_time: stored.clock.unwrap_or(i64::MIN),
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
    /// What it has had to do so far.
    pub fn load(&self) -> &LoadMeter {
        &self.meter
    }
    /// Figures of its sinks.
    pub fn sinks(&self) -> impl Iterator<Item = SinkStats> {
        self.emission.outputs.figures()
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
            Event::Stop { .. } | Event::Halt | Event::Retire => {
                self.ending.ask(&event, &mut self.emission.outputs);
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
}
