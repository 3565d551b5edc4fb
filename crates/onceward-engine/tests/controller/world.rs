//! The hand-stepped driver: a controller, its workers and their jobs, a store on a disk in memory, targets. Everything
//! that somebody asks for waits in one queue and is carried out in order, unless the test holds it back.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use onceward_connector::{ReadLimits, TargetError};
use onceward_engine::controller::{
    Action, Command, Controller, ControllerConfig, ControllerEnd, Happening, Notice,
};
use onceward_engine::{Event, Job, JobEnd, LaneMessage, LayoutPartition, Plan, TargetCall};
use onceward_protocol::lease::WorkerId;
use onceward_protocol::resume::ResumePoint;
use onceward_protocol::state::{Demand, next};
use onceward_protocol::{Branch, CommitOutcome, Generation, Mutants, PartitionId, Position};
use onceward_store::disk::FaultDisk;
use onceward_store::{EmbeddedCore, EpochCommit, Options, Store};

use crate::manifest::Manifest;
use crate::target::Target;

/// How long a lease is, microseconds.
pub const LEASE: i64 = 60_000;
/// Between two looks at the loads.
pub const SPAN: i64 = 150_000;
/// Time after which a run counts as stuck.
const TOO_LONG: i64 = 100_000_000;
/// Steps after which a run counts as stuck.
const TOO_MANY: usize = 60_000;

/// What waits to be carried out.
#[derive(Debug)]
pub enum Pending {
    /// What the controller asks for.
    Action(Action),
    /// What it is to hear.
    Notice(Notice),
    Lane {
        to: u32,
        message: LaneMessage,
    },
    Read {
        uid: u64,
        partition: u32,
        tag: u32,
        seek: Option<ResumePoint>,
        limits: ReadLimits,
    },
    /// On its way to the store.
    Commit {
        uid: u64,
        partition: u32,
        commit: EpochCommit,
    },
    /// On its way back.
    Verdict {
        uid: u64,
        epoch: u64,
        outcome: CommitOutcome,
    },
    Call {
        uid: u64,
        partition: u32,
        sink: u32,
        call: TargetCall,
    },
}

/// What happened, in order.
#[derive(Clone, Debug)]
pub enum Seen {
    Transact,
    Load,
    Assign {
        worker: WorkerId,
        partition: u32,
        generation: Generation,
    },
    Tell {
        partition: u32,
        event: String,
    },
    Drop {
        worker: WorkerId,
        partition: u32,
        generation: Generation,
    },
    Log(Happening),
    /// A job read its source; where it seeked to first.
    Read {
        partition: u32,
        seek: Option<Position>,
    },
    /// A job's epoch was judged.
    Judged(CommitOutcome),
    Called {
        partition: u32,
    },
    JobEnded {
        partition: u32,
        end: JobEnd,
    },
}

pub struct Worker {
    pub id: WorkerId,
    next_beat: i64,
    /// The controller and it do not hear each other. Its jobs run on.
    pub cut_off: bool,
}

pub struct TestJob {
    pub uid: u64,
    pub worker: WorkerId,
    pub partition: LayoutPartition,
    pub generation: Generation,
    pub job: Job,
    pub(crate) wake: i64,
    pub(crate) next_row: usize,
    pub end: Option<JobEnd>,
    /// It has said that its input is at its end.
    pub(crate) said_end: bool,
    /// Load that it claims, on top of its own.
    pub(crate) claimed: u64,
}

/// How a world is set up.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub workers: u32,
    pub active_sources: usize,
    /// Jobs per partition that may have been left running by somebody else.
    pub strays: u32,
    /// More than the rows of any test: only what a test claims counts as load.
    pub idle_load: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Setup { workers: 2, active_sources: usize::MAX, strays: 0, idle_load: 1_500 }
    }
}

type Predicate = Box<dyn Fn(&Pending) -> bool>;

pub struct World {
    pub now: i64,
    pub plan: Arc<Plan>,
    pub manifest: Manifest,
    pub setup: Setup,
    pub disk: FaultDisk,
    pub store: Option<EmbeddedCore<FaultDisk>>,
    pub controller: Option<Controller>,
    pub end: Option<ControllerEnd>,
    pub workers: Vec<Worker>,
    pub jobs: Vec<TestJob>,
    pub targets: BTreeMap<(u32, u32), Target>,
    /// Rows of all targets in the order of their arrival: sink, partition, row.
    pub arrived: Vec<(u32, u32, String)>,
    pub seen: Vec<Seen>,
    /// Every job that ever was: whose partition, and which generation.
    pub former: Vec<(PartitionId, Generation)>,
    /// The next call of a job of this partition is answered so, and does nothing.
    pub faults: VecDeque<(u32, TargetError)>,
    /// Load that the jobs of a partition claim with every heartbeat.
    pub claims: BTreeMap<u32, u64>,
    /// How many rows one read returns at most.
    pub read_rows: usize,
    /// Whether the input ends, or only pauses.
    pub bounded: bool,
    held: Vec<(u32, Predicate)>,
    next_hold: u32,
    pending: VecDeque<(u64, Pending)>,
    next_sequence: u64,
    pub(crate) input: BTreeMap<u32, Vec<Vec<u8>>>,
    pub(crate) next_uid: u64,
    next_worker: u32,
    next_command: u64,
    pub(crate) answers: BTreeMap<u64, Result<String, String>>,
    pub(crate) controller_wake: i64,
    /// How often power was lost.
    pub lives: u64,
}

impl World {
    pub fn new(manifest: &Manifest, setup: Setup) -> Self {
        World {
            now: 0,
            plan: Arc::new(manifest.compile().unwrap()),
            manifest: manifest.clone(),
            setup,
            disk: FaultDisk::new(),
            store: None,
            controller: None,
            end: None,
            workers: Vec::new(),
            jobs: Vec::new(),
            targets: BTreeMap::new(),
            arrived: Vec::new(),
            seen: Vec::new(),
            former: Vec::new(),
            faults: VecDeque::new(),
            claims: BTreeMap::new(),
            read_rows: 20,
            bounded: true,
            held: Vec::new(),
            next_hold: 1,
            pending: VecDeque::new(),
            next_sequence: 1,
            input: BTreeMap::new(),
            next_uid: 1,
            next_worker: 1,
            next_command: 1,
            answers: BTreeMap::new(),
            controller_wake: i64::MAX,
            lives: 0,
        }
    }
    /// Adds rows to a source partition.
    pub fn add(&mut self, partition: u32, rows: impl IntoIterator<Item = String>) {
        self.input.entry(partition).or_default().extend(rows.into_iter().map(String::into_bytes));
    }

    // Controllers and workers come and go.

    /// Opens the store and starts a controller and its workers. False if the power went meanwhile.
    pub fn try_start(&mut self, demand: Demand) -> bool {
        let opened =
            EmbeddedCore::open(self.disk.clone(), Path::new("/store"), Options::small(), Mutants::NONE);
        match opened {
            Ok(store) => self.store = Some(store),
            Err(_) if self.disk.crashed().is_some() => return false,
            Err(error) => panic!("the store does not open: {error}"),
        }
        if !self.take_control(demand) {
            return false;
        }
        for _ in 0..self.setup.workers {
            self.hire();
        }
        true
    }
    pub fn start(&mut self) {
        assert!(self.try_start(Demand::Run));
    }
    /// A controller under a new term, over the jobs and workers that are there. False if the power went.
    pub fn take_control(&mut self, demand: Demand) -> bool {
        let first = self.manifest.layout();
        let id = first.pipeline_partition();
        let store = self.store.as_mut().unwrap();
        let known = store.head(&id).unwrap();
        let nonce = self.lives * 1_000_003 + self.next_uid * 31 + known.last_number;
        let term = Generation { number: known.last_number + 1, nonce, branch: Branch::default() };
        store.grant(&id, term);
        if known.head.is_none() {
            store.commit(first.record(term, None));
        }
        if store.flush(&mut Vec::new()).is_err() {
            assert!(self.disk.crashed().is_some());
            return false;
        }
        let layout = self.layout();
        let store = self.store.as_ref().unwrap();
        let number =
            |partition: LayoutPartition| (partition.number, store.head(&partition.id).unwrap().last_number);
        let numbers = layout.partitions().into_iter().map(number).collect();
        let state = next(layout.state, demand).unwrap();
        let head = store.head(&id).unwrap().head;
        let config = ControllerConfig {
            workers: 1,
            lease_us: LEASE,
            balance_us: SPAN,
            active_sources: self.setup.active_sources,
            bounded: vec![self.bounded; layout.sources.len()],
            idle_load: self.setup.idle_load,
            strays: self.setup.strays,
            mutants: Mutants::NONE,
        };
        let seed = nonce.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let plan = self.plan.clone();
        self.controller = Some(Controller::new(plan, layout, term, head, &numbers, state, config, seed));
        self.end = None;
        self.pending.retain(|(_, pending)| !matches!(pending, Pending::Action(_) | Pending::Notice(_)));
        self.workers.iter_mut().for_each(|worker| worker.next_beat = self.now);
        self.controller_wake = self.now;
        true
    }
    pub fn hire(&mut self) -> WorkerId {
        let id = WorkerId(self.next_worker);
        self.next_worker += 1;
        self.workers.push(Worker { id, next_beat: self.now, cut_off: false });
        id
    }
    /// The power goes: everything in memory and on its way is gone. It comes back with [`World::start`].
    pub fn lose_power(&mut self) {
        self.lives += 1;
        self.store = None;
        self.controller = None;
        self.end = None;
        self.workers.clear();
        self.jobs.clear();
        self.pending.clear();
        self.held.clear();
        self.answers.clear();
        self.disk = self.disk.reboot(self.lives * 7919);
    }
    /// The power goes and comes back.
    pub fn crash(&mut self) {
        self.lose_power();
        self.start();
    }
    /// A worker is not heard and hears nothing any more; its jobs run on.
    pub fn cut_off(&mut self, worker: WorkerId) {
        self.worker(worker).cut_off = true;
    }
    /// It is heard again, with the jobs that it had.
    pub fn reconnect(&mut self, worker: WorkerId) {
        let now = self.now;
        let known = self.worker(worker);
        known.cut_off = false;
        known.next_beat = now;
    }
    /// A worker and its jobs are gone, and that is known. What they had sent is on its way.
    pub fn kill(&mut self, worker: WorkerId) {
        self.workers.retain(|known| known.id != worker);
        self.jobs.retain(|job| job.worker != worker);
        self.push(Pending::Notice(Notice::WorkerGone(worker)));
    }
    fn worker(&mut self, worker: WorkerId) -> &mut Worker {
        self.workers.iter_mut().find(|known| known.id == worker).unwrap()
    }
    pub fn is_reachable(&self, worker: WorkerId) -> bool {
        self.workers.iter().any(|known| known.id == worker && !known.cut_off)
    }
    /// A command; its answer comes at once.
    pub fn ask(&mut self, command: Command) -> Result<String, String> {
        let id = self.next_command;
        self.next_command += 1;
        self.hear(Notice::Asked { id, command });
        self.answers.remove(&id).unwrap()
    }
    pub fn demand(&mut self, demand: Demand) -> Result<String, String> {
        self.ask(Command::Demand(demand))
    }
    pub fn rescale(&mut self, computation: &str, ranges: u32) -> Result<String, String> {
        self.ask(Command::Rescale { computation: computation.to_owned(), ranges: Some(ranges) })
    }

    // What waits.

    pub fn push(&mut self, pending: Pending) {
        self.pending.push_back((self.next_sequence, pending));
        self.next_sequence += 1;
    }
    /// Holds back what matches, until [`World::release`] with the number that this answers.
    pub fn hold(&mut self, what: impl Fn(&Pending) -> bool + 'static) -> u32 {
        let number = self.next_hold;
        self.next_hold += 1;
        self.held.push((number, Box::new(what)));
        number
    }
    pub fn release(&mut self, hold: u32) {
        self.held.retain(|(number, _)| *number != hold);
    }
    /// How much of a kind waits.
    pub fn waiting(&self, what: impl Fn(&Pending) -> bool) -> usize {
        self.pending.iter().filter(|(_, pending)| what(pending)).count()
    }
    /// Loses what matches.
    pub fn lose(&mut self, what: impl Fn(&Pending) -> bool) {
        self.pending.retain(|(_, pending)| !what(pending));
    }
    fn is_held(&self, sequence: u64, pending: &Pending) -> bool {
        // QUIET-PAUSE: a driver's duty. Calls that were made before are waited for.
        let settles = matches!(pending, Pending::Action(Action::Settle(_)));
        let older_call =
            |(at, other): &(u64, Pending)| *at < sequence && matches!(other, Pending::Call { .. });
        (settles && self.pending.iter().any(older_call)) || self.held.iter().any(|(_, held)| held(pending))
    }

    /// Carries out the oldest that is not held back, or lets time pass to the next thing that is due.
    pub fn step(&mut self) {
        let next = self.pending.iter().position(|(sequence, pending)| !self.is_held(*sequence, pending));
        match next.and_then(|index| self.pending.remove(index)) {
            Some((_, pending)) => self.carry_out(pending),
            None => self.pass_time(),
        }
    }
    /// Carries out the oldest that matches, whatever is held back.
    pub fn carry_out_one(&mut self, what: impl Fn(&Pending) -> bool) {
        let pending = self.take_out(what);
        self.carry_out(pending);
    }
    /// Takes the oldest that matches out of the queue.
    pub fn take_out(&mut self, what: impl Fn(&Pending) -> bool) -> Pending {
        let index = self.pending.iter().position(|(_, pending)| what(pending)).unwrap();
        self.pending.remove(index).unwrap().1
    }
    /// Runs until `done`, for as long as it may take.
    pub fn run_until(&mut self, mut done: impl FnMut(&World) -> bool) {
        let until = self.now + TOO_LONG;
        for _ in 0..TOO_MANY {
            if done(self) {
                return;
            }
            assert!(self.end.is_none(), "the run is over: {:?}; {}", self.end, self.standing());
            assert!(self.now < until, "it takes too long: {}", self.standing());
            self.step();
        }
        panic!("it is stuck: {}", self.standing());
    }
    /// Lets that much time pass, with everything that happens meanwhile.
    pub fn run_for(&mut self, micros: i64) {
        let until = self.now + micros;
        for _ in 0..TOO_MANY {
            if self.now >= until {
                return;
            }
            self.step();
        }
        panic!("time does not pass: {}", self.standing());
    }
    /// Runs to the end of the run.
    pub fn run(&mut self) -> ControllerEnd {
        self.run_until(|world| world.end.is_some());
        self.end.clone().unwrap()
    }
    pub fn complete(&mut self) {
        assert_eq!(self.run(), ControllerEnd::Completed);
    }
    pub fn standing(&self) -> String {
        let jobs: Vec<String> = self
            .jobs
            .iter()
            .map(|job| format!("{} {} on {}: {:?}", job.uid, job.partition.id.label(), job.worker, job.end))
            .collect();
        let busy = self.controller.as_ref().map(Controller::standing);
        format!("{busy:?}; {} wait: {:?}; {}", self.pending.len(), self.pending.front(), jobs.join("; "))
    }

    fn pass_time(&mut self) {
        let jobs = self.jobs.iter().filter(|job| job.end.is_none()).map(|job| job.wake);
        let beats = self.workers.iter().filter(|worker| !worker.cut_off).map(|worker| worker.next_beat);
        let next = jobs.chain(beats).chain([self.controller_wake]).min().unwrap();
        assert!(next < i64::MAX, "nothing is left to wait for: {}", self.standing());
        self.now = self.now.max(next);
        let due = |worker: &Worker, now: i64| !worker.cut_off && worker.next_beat <= now;
        for index in 0..self.workers.len() {
            if due(&self.workers[index], self.now) {
                self.workers[index].next_beat = self.now + LEASE / 4;
                let beat = self.heartbeat(self.workers[index].id);
                self.push(Pending::Notice(beat));
            }
        }
        if self.controller_wake <= self.now {
            self.controller_wake = i64::MAX;
            self.push(Pending::Notice(Notice::Tick));
        }
        let due = |job: &&TestJob| job.end.is_none() && job.wake <= self.now;
        let due: Vec<u64> = self.jobs.iter().filter(due).map(|job| job.uid).collect();
        for uid in due {
            self.job(uid).unwrap().wake = i64::MAX;
            self.handle(uid, Event::Tick);
        }
    }
    fn heartbeat(&mut self, worker: WorkerId) -> Notice {
        let mut jobs = Vec::new();
        for job in self.jobs.iter_mut().filter(|job| job.worker == worker) {
            job.claimed += self.claims.get(&job.partition.number).copied().unwrap_or(0);
            let mut report = job.job.report(job.partition.number, job.generation);
            report.load += job.claimed;
            jobs.push(report);
        }
        Notice::Heartbeat { worker, sent_at: self.now, jobs }
    }
}
