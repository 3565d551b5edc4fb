//! The controller in the simulated world, its workers, and the trouble they get: workers are cut off and run on as
//! zombies, the controller is lost, ranges are re-cut, the pipeline is paused and drained.

use std::collections::BTreeMap;

use onceward_engine::controller::{
    Action, Assignment, Command, Controller, ControllerConfig, ControllerEnd, Happening, Notice,
};
use onceward_engine::layout::LAYOUT_KEY;
use onceward_engine::recut::PartitionRows;
use onceward_engine::{Event, Job, Layout, Stored};
use onceward_protocol::lease::{AbortReason, WorkerId};
use onceward_protocol::state::{Demand, PipelineState, next};
use onceward_protocol::{Branch, Generation};
use onceward_store::{Store, TableId};

use crate::world::{Broken, SimJob, Submitted, World};

/// A lease of simulated time, microseconds.
const LEASE_US: i64 = 60_000;
/// Between two looks at the loads.
const BALANCE_US: i64 = 25_000;
/// Workers at once.
const WORKERS: usize = 2;
/// Jobs without a lease that are kept running; the oldest goes first.
const MAX_ZOMBIES: usize = 5;

#[derive(Clone, Copy, Debug)]
struct SimWorker {
    id: WorkerId,
    next_beat: i64,
    /// The controller and it do not hear each other any more.
    cut_off: bool,
}

/// The workers, and what is asked of the pipeline.
#[derive(Clone, Debug, Default)]
pub(crate) struct Crew {
    workers: Vec<SimWorker>,
    next_id: u32,
    controller_wake: i64,
    /// Asked for and not answered yet.
    asked: u64,
    /// When a paused pipeline is resumed.
    resume_at: i64,
    troubles: u64,
    /// Jobs that have reported the end of their input.
    ended_input: Vec<u64>,
}

impl Crew {
    /// Everything that lives in memory is gone.
    pub(crate) fn clear(&mut self) {
        self.workers.clear();
        self.controller_wake = i64::MAX;
        self.resume_at = i64::MAX;
        self.ended_input.clear();
    }
    /// The next time at which something here is due.
    pub(crate) fn wake(&self) -> i64 {
        let beats = self.workers.iter().map(|worker| worker.next_beat);
        beats.chain([self.controller_wake, self.resume_at]).min().unwrap_or(i64::MAX)
    }
}

impl World {
    /// Takes the pipeline's record under a new term and starts a controller. False if the power went.
    pub(crate) fn take_control(&mut self) -> Result<bool, Broken> {
        let id = self.layout.pipeline_partition();
        let nonce = self.random.next_u64();
        let Some(store) = &mut self.store else { return Ok(false) };
        let Ok(known) = store.head(&id) else { return Ok(false) };
        let term = Generation { number: known.last_number + 1, nonce, branch: Branch::default() };
        store.grant(&id, term);
        if known.head.is_none() {
            store.commit(self.layout.record(term, None));
        }
        if !self.flush()? {
            return Ok(false);
        }
        let layout = self.stored_layout()?;
        let Some(store) = &self.store else { return Ok(false) };
        let mut numbers = BTreeMap::new();
        for partition in layout.partitions() {
            let head = store.head(&partition.id).map_err(|error| error.to_string())?;
            numbers.insert(partition.number, head.last_number);
        }
        let state = match layout.state {
            // Somebody types `resume`.
            PipelineState::Paused => PipelineState::Working,
            state => next(state, Demand::Run).map_err(|reason| format!("run from {state}: {reason}"))?,
        };
        let head = store.head(&id).map_err(|error| error.to_string())?.head;
        let config = ControllerConfig {
            workers: WORKERS,
            lease_us: LEASE_US,
            balance_us: BALANCE_US,
            active_sources: usize::MAX,
            bounded: vec![true; layout.sources.len()],
            idle_load: 200,
            strays: 20,
            mutants: self.mutants,
        };
        let seed = self.random.next_u64();
        self.controller =
            Some(Controller::new(self.plan.clone(), layout, term, head, &numbers, state, config, seed));
        self.actions.clear();
        self.notices.clear();
        while self.crew.workers.iter().filter(|worker| !worker.cut_off).count() < WORKERS {
            self.hire();
        }
        for worker in &mut self.crew.workers {
            worker.next_beat = self.now;
        }
        self.crew.controller_wake = self.now;
        Ok(true)
    }

    /// Who does what, for a run that does not end.
    pub(crate) fn standing(&self) -> String {
        let state = self.controller.as_ref().map(Controller::state);
        let jobs: Vec<String> = (0..self.jobs.len())
            .map(|index| {
                let job = &self.jobs[index];
                let owner = if self.is_owner(index) { "" } else { " (no lease)" };
                let ended = if job.ended { " ended" } else { "" };
                format!("{}{owner}{ended}: {:?}", job.partition.id.label(), job.job.stats())
            })
            .collect();
        let busy = self.controller.as_ref().map(Controller::standing).unwrap_or_default();
        format!(
            "{state:?}; {busy}; {} actions, {} notices, {} submitted; crew {:?}; {}",
            self.actions.len(),
            self.notices.len(),
            self.tickets.len(),
            self.crew,
            jobs.join("; ")
        )
    }

    fn hire(&mut self) {
        let id = WorkerId(self.crew.next_id);
        self.crew.next_id += 1;
        self.crew.workers.push(SimWorker { id, next_beat: self.now, cut_off: false });
    }

    fn stored_layout(&self) -> Result<Layout, Broken> {
        let Some(store) = &self.store else { return Err("no store".to_owned()) };
        let mut layout = None;
        let visit = &mut |key: &[u8], value: &[u8]| {
            if key == LAYOUT_KEY {
                layout = Layout::decode(value);
            }
        };
        store
            .scan(&self.layout.pipeline_partition(), TableId::META, visit)
            .map_err(|error| error.to_string())?;
        layout.ok_or_else(|| "the pipeline's record is gone".to_owned())
    }

    /// Whether the controller and a worker hear each other.
    pub(crate) fn is_reachable(&self, worker: WorkerId) -> bool {
        self.crew.workers.iter().any(|known| known.id == worker && !known.cut_off)
    }

    pub(crate) fn due_heartbeats(&mut self) -> Result<(), Broken> {
        for index in 0..self.crew.workers.len() {
            let worker = self.crew.workers[index];
            if worker.cut_off || worker.next_beat > self.now {
                continue;
            }
            self.crew.workers[index].next_beat = self.now + LEASE_US / 4;
            let mine = self.jobs.iter().filter(|job| job.worker == worker.id);
            let jobs = mine.map(|job| job.job.report(job.partition.number, job.generation)).collect();
            self.notices.push_back(Notice::Heartbeat { worker: worker.id, sent_at: self.now, jobs });
        }
        if self.crew.controller_wake <= self.now {
            self.crew.controller_wake = i64::MAX;
            self.notices.push_back(Notice::Tick);
        }
        if self.crew.resume_at <= self.now {
            self.crew.resume_at = i64::MAX;
            self.ask(Command::Demand(Demand::Resume));
        }
        Ok(())
    }

    /// A source job that has read everything says so once.
    pub(crate) fn note_end_of_input(&mut self, index: usize) {
        let job = &self.jobs[index];
        if let Job::Source(source) = &job.job
            && source.has_ended()
            && !self.crew.ended_input.contains(&job.uid)
            && self.is_reachable(job.worker)
        {
            self.crew.ended_input.push(job.uid);
            self.notices.push_back(Notice::ReadToEnd(job.partition.number));
        }
    }

    fn ask(&mut self, command: Command) {
        self.crew.asked += 1;
        self.notices.push_back(Notice::Asked { id: self.crew.asked, command });
    }

    /// The controller takes a notice.
    pub(crate) fn hear(&mut self, notice: Notice) -> Result<(), Broken> {
        let mut actions = Vec::new();
        if let Some(controller) = &mut self.controller {
            controller.handle(self.now, notice, &mut actions);
        }
        for action in actions {
            match action {
                Action::Wake(at) => self.crew.controller_wake = at,
                Action::Log(happening) => self.count(&happening),
                Action::Renewed { .. } | Action::Answer { .. } => {}
                action => self.actions.push_back(action),
            }
        }
        Ok(())
    }

    /// Carries out what the controller asked for first.
    pub(crate) fn act(&mut self) -> Result<(), Broken> {
        let Some(action) = self.actions.pop_front() else { return Ok(()) };
        match action {
            Action::Transact(operations) => {
                if let Some(store) = &mut self.store {
                    let ticket = store.transact(operations);
                    self.tickets.insert(ticket, Submitted::Controller);
                }
            }
            Action::Load(partitions) => {
                let Some(store) = &self.store else { return Ok(()) };
                let mut all = Vec::new();
                for id in partitions {
                    let head = store.head(&id).map_err(|error| error.to_string())?;
                    let rows = PartitionRows::read(head, |table, visit| store.scan(&id, table, visit));
                    all.push(rows.map_err(|error| error.to_string())?);
                }
                self.notices.push_back(Notice::Loaded(all));
            }
            Action::Settle(number) if self.has_open_calls() => self.actions.push_back(Action::Settle(number)),
            Action::Settle(number) => self.notices.push_back(Notice::Settled(number)),
            Action::Assign { worker, assignment } => self.assign(worker, assignment)?,
            Action::Tell { worker, partition, generation, event } => {
                if let Some(index) = self.job(worker, partition, generation) {
                    self.handle(index, event)?;
                }
            }
            Action::Drop { worker, partition, generation } => {
                if let Some(index) = self.job(worker, partition, generation) {
                    self.jobs.remove(index);
                }
            }
            Action::Layout(layout) => self.rewire(&layout)?,
            Action::Wake(_) | Action::Log(_) | Action::Renewed { .. } | Action::Answer { .. } => {}
            Action::End(end) => return self.run_ended(end),
        }
        Ok(())
    }

    fn job(&self, worker: WorkerId, partition: u32, generation: Generation) -> Option<usize> {
        let reachable = self.is_reachable(worker);
        let mine = |job: &SimJob| {
            job.worker == worker && job.partition.number == partition && job.generation == generation
        };
        self.jobs.iter().position(|job| reachable && mine(job))
    }

    fn assign(&mut self, worker: WorkerId, assignment: Assignment) -> Result<(), Broken> {
        if !self.is_reachable(worker) {
            return Ok(());
        }
        let Some(store) = &self.store else { return Ok(()) };
        let Assignment { partition, generation, layout, seed } = assignment;
        let stored = Stored::load(store, &partition.id)
            .map_err(|error| format!("loading {}: {error}", partition.id.label()))?;
        let job = self
            .plan
            .job(&layout, &partition, generation, stored, seed, self.mutants)
            .map_err(|error| error.to_string())?;
        let uid = self.next_uid;
        self.next_uid += 1;
        self.jobs.push(SimJob::new(uid, worker, partition, generation, job));
        let zombies: Vec<usize> = (0..self.jobs.len()).filter(|index| !self.is_owner(*index)).collect();
        if zombies.len() > MAX_ZOMBIES {
            self.jobs.remove(zombies[0]);
        }
        Ok(())
    }

    fn rewire(&mut self, layout: &Layout) -> Result<(), Broken> {
        for partition in layout.partitions() {
            let wiring = self.plan.wiring(layout, &partition);
            let mut index = 0;
            while index < self.jobs.len() {
                let job = &self.jobs[index];
                if job.partition.number == partition.number && self.is_reachable(job.worker) {
                    self.handle(index, Event::Rewire(Box::new(wiring.clone())))?;
                }
                index += 1;
            }
        }
        Ok(())
    }

    fn count(&mut self, happening: &Happening) {
        let coverage = &mut self.coverage;
        match happening {
            Happening::RecutBegun { parents: 1, .. } => coverage.splits += 1,
            Happening::RecutBegun { .. } => coverage.merges += 1,
            Happening::RecutDone { .. } => coverage.recuts += 1,
            Happening::Drained(_) => coverage.drained_parents += 1,
            Happening::LeaseEnded { reason: AbortReason::Rebalanced, .. } => coverage.moves += 1,
            Happening::LeaseEnded { reason: AbortReason::LostWorker | AbortReason::Expired, .. } => {
                coverage.replaced += 1;
            }
            Happening::State(PipelineState::Paused) => {
                coverage.pauses += 1;
                self.crew.resume_at = self.now + 20_000;
            }
            _ => {}
        }
    }

    fn run_ended(&mut self, end: ControllerEnd) -> Result<(), Broken> {
        match end {
            ControllerEnd::Completed => {
                self.completed = true;
                Ok(())
            }
            ControllerEnd::Stopped => {
                self.coverage.stops += 1;
                self.check_leases()?;
                // The process has ended; somebody types `run`.
                self.lose_power();
                self.boot()
            }
            // The store stopped: the process starts again.
            ControllerEnd::StoreFailed => {
                self.lose_power();
                self.boot()
            }
            ControllerEnd::Failed(error) => Err(error.to_string()),
            ControllerEnd::Fenced { partition, reason } => Err(format!("{partition}: fenced: {reason}")),
        }
    }

    /// After stop, pause and completion no lease is live, in the store as well: a late commit is fenced.
    fn check_leases(&self) -> Result<(), Broken> {
        let Some(store) = &self.store else { return Ok(()) };
        for partition in self.stored_layout()?.partitions() {
            let head = store.head(&partition.id).map_err(|error| error.to_string())?;
            if let Some(owner) = head.granted {
                return Err(format!("{} is still granted to {owner}", partition.id.label()));
            }
        }
        Ok(())
    }

    /// What the store holds when everything is done.
    pub(crate) fn check_store(&mut self) -> Result<(), Broken> {
        self.check_leases()?;
        let layout = self.stored_layout()?;
        let Some(store) = &self.store else { return Ok(()) };
        let mut late = 0;
        let mut delivered = layout.delivered.clone();
        for partition in layout.partitions() {
            let stored = Stored::load(store, &partition.id).map_err(|error| error.to_string())?;
            late += stored.counters.late;
            for (sink, rows) in &stored.taken {
                *delivered.entry(sink.clone()).or_insert(0) += rows;
            }
        }
        if late != self.input.late {
            return Err(format!("{late} rows were taken for late, {} are", self.input.late));
        }
        let windows = delivered.get("windows").copied().unwrap_or(0);
        if windows != self.input.windows.len() as u64 {
            return Err(format!(
                "{windows} windows are counted as delivered, {} are",
                self.input.windows.len()
            ));
        }
        Ok(())
    }

    /// Spreads trouble over the input: the first two steps re-cut, whatever comes after is drawn.
    pub(crate) fn plan_trouble(&mut self) -> Result<(), Broken> {
        const PLANNED: u64 = 14;
        if self.controller.is_none() {
            return Ok(());
        }
        // Every seed re-cuts at least once: what a power loss took is asked for again.
        if self.coverage.recuts == 0 && self.coverage.steps % 700 == 600 {
            self.rescale();
        }
        if self.crew.troubles >= PLANNED {
            return Ok(());
        }
        let total: u64 = self.input.partitions.iter().map(|rows| rows.len() as u64).sum();
        let due = self.finished_rows() * (PLANNED + 2) * 5 / 4 / total.max(1);
        if due <= self.crew.troubles {
            return Ok(());
        }
        self.crew.troubles += 1;
        match if self.crew.troubles <= 2 { 0 } else { self.below(100) } {
            0..45 => self.rescale(),
            45..65 => self.cut_off(),
            65..75 => return self.lose_controller(),
            75..88 => self.ask(Command::Demand(Demand::Pause)),
            _ => {
                let drain = self.chance(70);
                self.ask(Command::Demand(Demand::Stop { drain }));
            }
        }
        Ok(())
    }

    fn rescale(&mut self) {
        let Some(layout) = self.controller.as_ref().map(|controller| controller.layout().clone()) else {
            return;
        };
        let keyed = self.below(layout.keyed.len() as u64) as usize;
        let known = &layout.keyed[keyed];
        let has = known.live().count() as u64;
        let ranges = if has > 1 && self.chance(50) { has - 1 } else { has + 1 + self.below(2) };
        let computation = known.name.clone();
        self.ask(Command::Rescale { computation, ranges: Some(ranges as u32) });
    }

    /// A worker hears nothing any more and is not heard: its jobs run on.
    fn cut_off(&mut self) {
        let reachable: Vec<usize> =
            (0..self.crew.workers.len()).filter(|index| !self.crew.workers[*index].cut_off).collect();
        let Some(index) = reachable.get(self.below(reachable.len() as u64) as usize).copied() else { return };
        self.crew.workers[index].cut_off = true;
        let worker = self.crew.workers[index].id;
        self.coverage.lost_workers += 1;
        self.hire();
        if self.chance(50) {
            self.notices.push_back(Notice::WorkerGone(worker));
        }
    }

    /// Another controller takes over; the workers of the old one are still there.
    fn lose_controller(&mut self) -> Result<(), Broken> {
        self.coverage.lost_controllers += 1;
        if !self.take_control()? {
            self.lose_power();
            return self.boot();
        }
        Ok(())
    }
}
