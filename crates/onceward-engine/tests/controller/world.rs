//! The hand-stepped driver: a controller, its workers and their jobs, a store on a disk in memory, targets. Everything
//! that somebody asks for waits in one queue and is carried out in order, unless the test holds it back.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use onceward_connector::{ReadLimits, TargetError};
use onceward_engine::controller::{
    Action, Assignment, Command, Controller, ControllerConfig, ControllerEnd, Happening, Notice,
};
use onceward_engine::layout::LAYOUT_KEY;
use onceward_engine::recut::PartitionRows;
use onceward_engine::{Event, Job, JobEnd, LaneMessage, LayoutPartition, Plan, Stored, TargetCall};
use onceward_protocol::lease::WorkerId;
use onceward_protocol::resume::ResumePoint;
use onceward_protocol::state::{Demand, next};
use onceward_protocol::{Branch, CommitOutcome, Generation, Mutants, PartitionId, Position};
use onceward_store::disk::FaultDisk;
use onceward_store::{EmbeddedCore, EpochCommit, Operation, Options, Store, TableId, WriteBatch};

use crate::manifest::Manifest;
use crate::target::Target;

/// How long a lease is, microseconds.
pub const LEASE: i64 = 60_000;
/// Between two looks at the loads.
pub const SPAN: i64 = 150_000;
/// Time after which a run counts as stuck.
const TOO_LONG: i64 = 300_000_000;
/// Steps after which a run counts as stuck.
const TOO_MANY: usize = 400_000;

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
    Transact(Vec<Operation>),
    Load(Vec<PartitionId>),
    Assign {
        worker: WorkerId,
        partition: u32,
        generation: Generation,
    },
    Tell {
        partition: u32,
        generation: Generation,
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
    Judged {
        partition: u32,
        generation: Generation,
        outcome: CommitOutcome,
    },
    Called {
        partition: u32,
        call: &'static str,
    },
    JobEnded {
        partition: u32,
        generation: Generation,
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
    wake: i64,
    next_row: usize,
    pub end: Option<JobEnd>,
    /// It has said that its input is at its end.
    said_end: bool,
    /// Load that it claims, on top of its own.
    claimed: u64,
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
    input: BTreeMap<u32, Vec<Vec<u8>>>,
    next_uid: u64,
    next_worker: u32,
    next_command: u64,
    answers: BTreeMap<u64, Result<String, String>>,
    controller_wake: i64,
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
            let mut writes = WriteBatch::default();
            writes.put(TableId::META, LAYOUT_KEY, &first.encode());
            let partition = id.clone();
            store.commit(EpochCommit { partition, generation: term, epoch: 1, predecessor: None, writes });
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

    // Things are carried out.

    fn carry_out(&mut self, pending: Pending) {
        match pending {
            Pending::Action(action) => self.act(action),
            Pending::Notice(notice) => self.hear(notice),
            Pending::Lane { to, message } => {
                // It reaches whoever believes to be that partition's job.
                let jobs = self.jobs.iter().filter(|job| job.partition.number == to);
                let jobs: Vec<u64> = jobs.map(|job| job.uid).collect();
                jobs.into_iter().for_each(|uid| self.handle(uid, Event::Lane(message.clone())));
            }
            Pending::Read { uid, tag, seek, limits, partition } => {
                self.seen.push(Seen::Read { partition, seek: seek.as_ref().map(|point| point.position) });
                self.read(uid, tag, seek, limits);
            }
            Pending::Commit { uid, partition, commit } => {
                let (epoch, generation) = (commit.epoch, commit.generation);
                let Some(outcome) = self.submit(|store| store.commit(commit)) else { return };
                self.seen.push(Seen::Judged { partition, generation, outcome });
                self.push(Pending::Verdict { uid, epoch, outcome });
            }
            Pending::Verdict { uid, epoch, outcome } => self.handle(uid, Event::Commit { epoch, outcome }),
            Pending::Call { uid, partition, sink, call } => self.call(uid, partition, sink, &call),
        }
    }
    /// Submits to the store and waits for its word; nothing if the power went.
    fn submit(
        &mut self,
        submit: impl FnOnce(&mut EmbeddedCore<FaultDisk>) -> onceward_store::Ticket,
    ) -> Option<CommitOutcome> {
        let store = self.store.as_mut().unwrap();
        submit(store);
        let mut outcomes = Vec::new();
        let flushed = store.flush(&mut outcomes);
        if self.disk.crashed().is_some() {
            return None;
        }
        flushed.unwrap();
        let maintained = store.maintain();
        if self.disk.crashed().is_some() {
            return None;
        }
        maintained.unwrap();
        Some(outcomes[0].outcome)
    }

    /// A transaction that some controller asks for.
    pub fn transact(&mut self, operations: Vec<Operation>) -> CommitOutcome {
        self.submit(|store| store.transact(operations)).unwrap()
    }
    /// The controller takes a notice.
    pub fn hear(&mut self, notice: Notice) {
        let mut actions = Vec::new();
        let Some(controller) = &mut self.controller else { return };
        controller.handle(self.now, notice, &mut actions);
        for action in actions {
            match action {
                Action::Wake(at) => self.controller_wake = at,
                Action::Log(happening) => {
                    self.check_happening(&happening);
                    self.seen.push(Seen::Log(happening));
                }
                Action::Answer { id, answer } => drop(self.answers.insert(id, answer)),
                Action::Renewed { .. } => {}
                Action::End(end) => {
                    self.check_end(&end);
                    self.end = Some(end);
                    self.controller_wake = i64::MAX;
                }
                action => {
                    self.check_action(&action);
                    self.push(Pending::Action(action));
                }
            }
        }
    }
    fn act(&mut self, action: Action) {
        match action {
            Action::Transact(operations) => {
                self.seen.push(Seen::Transact(operations.clone()));
                if let Some(outcome) = self.submit(|store| store.transact(operations)) {
                    self.push(Pending::Notice(Notice::Transacted(outcome)));
                }
            }
            Action::Load(partitions) => {
                let rows = partitions.iter().map(|id| self.rows_of(id)).collect();
                self.seen.push(Seen::Load(partitions));
                self.push(Pending::Notice(Notice::Loaded(rows)));
            }
            Action::Settle(number) => self.push(Pending::Notice(Notice::Settled(number))),
            Action::Assign { worker, assignment } => self.assign(worker, assignment),
            Action::Tell { worker, partition, generation, event } => {
                let said = format!("{event:?}");
                self.seen.push(Seen::Tell { partition, generation, event: said });
                if let Some(uid) = self.find(worker, partition, generation) {
                    self.handle(uid, event);
                }
            }
            Action::Drop { worker, partition, generation } => {
                self.seen.push(Seen::Drop { worker, partition, generation });
                if let Some(uid) = self.find(worker, partition, generation) {
                    self.jobs.retain(|job| job.uid != uid);
                }
            }
            Action::Layout(layout) => {
                for partition in layout.partitions() {
                    let wiring = self.plan.wiring(&layout, &partition);
                    let mine = |job: &&TestJob| job.partition.number == partition.number;
                    let jobs = self.jobs.iter().filter(mine).filter(|job| self.is_reachable(job.worker));
                    let jobs: Vec<u64> = jobs.map(|job| job.uid).collect();
                    for uid in jobs {
                        self.handle(uid, Event::Rewire(Box::new(wiring.clone())));
                    }
                }
            }
            Action::Wake(_)
            | Action::Log(_)
            | Action::Renewed { .. }
            | Action::Answer { .. }
            | Action::End(_) => {}
        }
    }
    pub fn rows_of(&self, id: &PartitionId) -> PartitionRows {
        let store = self.store.as_ref().unwrap();
        let head = store.head(id).unwrap();
        PartitionRows::read(head, |table, visit| store.scan(id, table, visit)).unwrap()
    }
    fn find(&self, worker: WorkerId, partition: u32, generation: Generation) -> Option<u64> {
        let mine = |job: &&TestJob| {
            job.worker == worker && job.partition.number == partition && job.generation == generation
        };
        self.jobs.iter().filter(|_| self.is_reachable(worker)).find(mine).map(|job| job.uid)
    }
    fn assign(&mut self, worker: WorkerId, assignment: Assignment) {
        let Assignment { partition, generation, layout, seed } = assignment;
        let number = partition.number;
        self.seen.push(Seen::Assign { worker, partition: number, generation });
        self.former.push((partition.id.clone(), generation));
        if !self.is_reachable(worker) {
            return;
        }
        let stored = Stored::load(self.store.as_ref().unwrap(), &partition.id).unwrap();
        let job = self.plan.job(&layout, &partition, generation, stored, seed, Mutants::NONE).unwrap();
        let uid = self.next_uid;
        self.next_uid += 1;
        self.jobs.push(TestJob {
            uid,
            worker,
            partition,
            generation,
            job,
            wake: i64::MAX,
            next_row: 0,
            end: None,
            said_end: false,
            claimed: 0,
        });
    }
    pub fn job(&mut self, uid: u64) -> Option<&mut TestJob> {
        self.jobs.iter_mut().find(|job| job.uid == uid)
    }

    /// Steps a job and takes what it asks for.
    fn handle(&mut self, uid: u64, event: Event) {
        let now = self.now;
        let Some(known) = self.job(uid) else { return };
        let mut requests = Vec::new();
        known.job.handle(now, event, &mut requests);
        let (partition, generation) = (known.partition.number, known.generation);
        for request in requests {
            self.take_request(uid, partition, generation, request);
        }
        let Some(known) = self.jobs.iter().position(|job| job.uid == uid) else { return };
        if let Job::Source(source) = &self.jobs[known].job
            && source.has_ended()
            && !self.jobs[known].said_end
            && self.is_reachable(self.jobs[known].worker)
        {
            self.jobs[known].said_end = true;
            self.push(Pending::Notice(Notice::ReadToEnd(partition)));
        }
    }
    fn take_request(
        &mut self,
        uid: u64,
        partition: u32,
        generation: Generation,
        request: onceward_engine::Request,
    ) {
        use onceward_engine::Request;
        match request {
            Request::Lane { to, message } => self.push(Pending::Lane { to, message }),
            Request::Read { tag, seek, limits } => {
                self.push(Pending::Read { uid, partition, tag, seek, limits });
            }
            Request::Commit(commit) => self.push(Pending::Commit { uid, partition, commit }),
            Request::Target { sink, call } => self.push(Pending::Call { uid, partition, sink, call }),
            Request::Wake(at) => self.job(uid).unwrap().wake = at,
            Request::End(end) => {
                let known = self.job(uid).unwrap();
                known.end = Some(end.clone());
                let worker = known.worker;
                self.seen.push(Seen::JobEnded { partition, generation, end: end.clone() });
                if self.is_reachable(worker) {
                    self.push(Pending::Notice(Notice::Ended { partition, generation, end }));
                }
            }
        }
    }
    fn read(&mut self, uid: u64, tag: u32, seek: Option<ResumePoint>, limits: ReadLimits) {
        use onceward_connector::{Read, Record, RecordBatch};
        let most = self.read_rows.min(limits.rows);
        let end = if self.bounded { Read::End } else { Read::Idle };
        let Some(known) = self.jobs.iter_mut().find(|job| job.uid == uid) else { return };
        let rows = self.input.get(&known.partition.number).map_or(&[][..], Vec::as_slice);
        if let Some(point) = seek {
            known.next_row = point.position.major as usize;
        }
        let first = known.next_row;
        let until = rows.len().min(first + most);
        let read = if first >= rows.len() {
            end
        } else {
            let (mut bytes, mut records) = (Vec::new(), Vec::new());
            for (offset, row) in rows[first..until].iter().enumerate() {
                let position = Position::at((first + offset + 1) as u64);
                records.push(Record { start: bytes.len() as u32, len: row.len() as u32, position });
                bytes.extend_from_slice(row);
            }
            known.next_row = until;
            Read::Batch { batch: RecordBatch::new(bytes, records), token: until.to_string().into_bytes() }
        };
        self.handle(uid, Event::Read { tag, read: Ok(read) });
    }
    fn call(&mut self, uid: u64, partition: u32, sink: u32, call: &TargetCall) {
        let name = match call {
            TargetCall::TakeFence(_) => "take fence",
            TargetCall::ReadMarker => "read marker",
            TargetCall::CreateMarker(_) => "create marker",
            _ => "write",
        };
        self.seen.push(Seen::Called { partition, call: name });
        let target = self.targets.entry((sink, partition)).or_default();
        let before = target.rows.len();
        let fault = self.faults.iter().position(|(of, _)| *of == partition);
        let answer = match fault.and_then(|index| self.faults.remove(index)) {
            Some((_, error)) => Err(error),
            None => target.apply(call),
        };
        let new = target.rows[before..].iter().map(|row| (sink, partition, row.clone()));
        self.arrived.extend(new);
        self.handle(uid, Event::Target { sink, answer });
    }
}
