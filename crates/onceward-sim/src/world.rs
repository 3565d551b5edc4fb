//! The seeded scheduler: everything that could happen next is a candidate, the seed chooses.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use onceward_connector::{ReadLimits, TargetError};
use onceward_engine::controller::{Action, Controller, Notice};
use onceward_engine::entropy::Nonces;
use onceward_engine::layout::{LayoutPartition, Role};
use onceward_engine::{Event, Job, LaneMessage, Layout, Plan, Request, TargetAnswer, TargetCall};
use onceward_protocol::lease::WorkerId;
use onceward_protocol::resume::ResumePoint;
use onceward_protocol::{CommitOutcome, Generation, Mutants};
use onceward_store::disk::{Fault, FaultDisk, site};
use onceward_store::{EmbeddedCore, Options, Store, Ticket};

use crate::control::Crew;
use crate::coverage::Coverage;
use crate::data::Input;
use crate::source::Reader;
use crate::target::{self, Target};

/// Steps without an end after which the pipeline counts as stuck.
const MAX_STEPS: u64 = 1_000_000;

/// Sizes so small that every seed rolls segments, folds tables and takes snapshots many times.
const STORE: Options = Options {
    first_segment_bytes: 8 << 10,
    segment_bytes: 16 << 10,
    fold_min_bytes: 2 << 10,
    snapshot_min_bytes: 6 << 10,
};

/// Store writes that come seldom: only crashes asked for by name meet them often enough.
const RARE: [&str; 6] = [
    site::SNAPSHOT_CREATE,
    site::SNAPSHOT_WRITE,
    site::SNAPSHOT_SYNC,
    site::SNAPSHOT_RENAME,
    site::SNAPSHOT_REMOVE,
    site::SEGMENT_REMOVE,
];

/// A read that a job waits for.
type Read = (u32, Option<ResumePoint>, ReadLimits);

pub(crate) struct SimJob {
    pub(crate) uid: u64,
    pub(crate) worker: WorkerId,
    pub(crate) partition: LayoutPartition,
    pub(crate) generation: Generation,
    pub(crate) job: Job,
    reader: Option<Reader>,
    pub(crate) read: Option<Read>,
    /// Answers of the store, in order.
    answers: VecDeque<Event>,
    pub(crate) wake: i64,
    pub(crate) ended: bool,
}

impl SimJob {
    pub(crate) fn new(
        uid: u64,
        worker: WorkerId,
        partition: LayoutPartition,
        generation: Generation,
        job: Job,
    ) -> Self {
        SimJob {
            uid,
            worker,
            partition,
            generation,
            job,
            reader: None,
            read: None,
            answers: VecDeque::new(),
            wake: i64::MAX,
            ended: false,
        }
    }
}

/// Who waits for an answer of the store.
pub(crate) enum Submitted {
    Controller,
    Job { uid: u64, epoch: u64 },
}

struct Call {
    uid: u64,
    number: u32,
    sink: u32,
    call: TargetCall,
}

/// Where the next power loss will strike at a target call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strike {
    Before,
    After,
}

/// What may happen next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Choice {
    Answer(usize),
    Read(usize),
    Deliver(u64, u32),
    Call(usize),
    Late(usize),
    Act,
    Notice,
    Flush,
    Maintain,
    Time,
}

/// The whole simulated world.
pub(crate) struct World {
    pub(crate) random: Nonces,
    pub(crate) input: Arc<Input>,
    pub(crate) target: Target,
    pub(crate) coverage: Coverage,
    /// A running hash over everything that happened.
    pub(crate) trace: u64,
    pub(crate) plan: Arc<Plan>,
    /// The first layout.
    pub(crate) layout: Layout,
    pub(crate) mutants: Mutants,
    pub(crate) now: i64,
    pub(crate) disk: FaultDisk,
    pub(crate) store: Option<EmbeddedCore<FaultDisk>>,
    pub(crate) tickets: BTreeMap<Ticket, Submitted>,
    pub(crate) controller: Option<Controller>,
    /// What the controller has asked for, in order.
    pub(crate) actions: VecDeque<Action>,
    /// What the controller is to hear, in order.
    pub(crate) notices: VecDeque<Notice>,
    pub(crate) crew: Crew,
    pub(crate) jobs: Vec<SimJob>,
    pub(crate) channels: BTreeMap<(u64, u32), VecDeque<LaneMessage>>,
    calls: Vec<Call>,
    late: Vec<(u32, u32, TargetCall)>,
    strike: Option<Strike>,
    pub(crate) next_uid: u64,
    pub(crate) completed: bool,
    /// How often the power shall go.
    crashes_planned: u64,
    /// The next power loss is arranged and has not come yet.
    armed: bool,
    requests: Vec<Request>,
    candidates: Vec<Choice>,
}

/// Why a run stopped before its end.
pub(crate) type Broken = String;

impl World {
    pub(crate) fn new(
        seed: u64,
        input: Arc<Input>,
        plan: Arc<Plan>,
        layout: Layout,
        crashes: u64,
        mutants: Mutants,
    ) -> Self {
        World {
            random: Nonces::new(seed ^ 0x05ee_d0f5_u64),
            input,
            target: Target::new(mutants),
            coverage: Coverage::default(),
            trace: 0xcbf2_9ce4_8422_2325,
            plan,
            layout,
            mutants,
            now: 0,
            disk: FaultDisk::new(),
            store: None,
            tickets: BTreeMap::new(),
            controller: None,
            actions: VecDeque::new(),
            notices: VecDeque::new(),
            crew: Crew::default(),
            jobs: Vec::new(),
            channels: BTreeMap::new(),
            calls: Vec::new(),
            late: Vec::new(),
            strike: None,
            next_uid: 1,
            completed: false,
            crashes_planned: crashes,
            armed: false,
            requests: Vec::new(),
            candidates: Vec::new(),
        }
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.random.next_u64() % limit.max(1)
    }
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
    pub(crate) fn note(&mut self, what: u64) {
        self.trace = (self.trace ^ what).wrapping_mul(0x0100_0000_01b3).rotate_left(17);
    }

    /// Runs to the end of the input.
    pub(crate) fn run(&mut self) -> Result<(), Broken> {
        self.boot()?;
        for step in 0..MAX_STEPS {
            self.coverage.steps = step;
            if self.completed {
                return self.final_checks();
            }
            self.plan_crash();
            self.plan_trouble()?;
            self.step()?;
        }
        Err(format!("the pipeline is stuck: it neither ends nor fails: {}", self.standing()))
    }

    fn final_checks(&mut self) -> Result<(), Broken> {
        self.check_store()?;
        // What still lies around in the network must not harm either.
        while let Some((sink, partition, call)) = self.late.pop() {
            let _ = self.target.apply(sink, partition, &call);
        }
        Ok(())
    }

    /// Whether a call of a target has not been answered.
    pub(crate) fn has_open_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Whether a job has the lease of its partition.
    pub(crate) fn is_owner(&self, index: usize) -> bool {
        let job = &self.jobs[index];
        let lease = self.controller.as_ref().and_then(|known| known.leases().get(job.partition.number));
        lease.is_some_and(|lease| lease.generation == job.generation)
    }

    /// How much of the input the sources have read.
    pub(crate) fn finished_rows(&self) -> u64 {
        (0..self.jobs.len())
            .filter(|index| self.is_owner(*index))
            .map(|index| match &self.jobs[index].job {
                Job::Source(source) => source.stats().rows_in,
                Job::Keyed(_) => 0,
            })
            .sum()
    }

    /// Spreads the planned power losses over the first half of the input, one at a time.
    fn plan_crash(&mut self) {
        let lost = self.coverage.total_crashes();
        if self.armed || lost >= self.crashes_planned {
            return;
        }
        let total: u64 = self.input.partitions.iter().map(|rows| rows.len() as u64).sum();
        let due = self.finished_rows() * (self.crashes_planned + 1) * 2 / total.max(1);
        if due <= lost {
            return;
        }
        self.armed = true;
        let seed = self.random.next_u64();
        match self.below(100) {
            0..40 => {
                let op = self.disk.ops() + self.below(12);
                self.disk.crash_at(op, seed);
            }
            40..65 => {
                // Rare places are asked for by name more often; if they do not come, the power goes soon.
                let sites: &[&'static str] = if self.chance(60) { &RARE } else { &site::ALL };
                let site = sites[self.below(sites.len() as u64) as usize];
                let before = self.below(2);
                self.disk.crash_at_site(site, before, seed);
                let op = self.disk.ops() + 20 + self.below(30);
                self.disk.crash_at(op, seed);
            }
            65..93 => {
                self.strike = Some(if self.chance(50) { Strike::Before } else { Strike::After });
                let op = self.disk.ops() + 15 + self.below(20);
                self.disk.crash_at(op, seed);
            }
            _ => self.disk.inject_at_site(site::LOG_SYNC, 0, Fault::FailedSync(seed)),
        }
    }

    /// Power is back: opens the store and starts a controller and its workers.
    pub(crate) fn boot(&mut self) -> Result<(), Broken> {
        for attempt in 0.. {
            // The very first start writes what no later one does.
            let often = if self.next_uid == 1 { 85 } else { 25 };
            if attempt < 4 && self.chance(often) {
                let (op, seed) = (self.disk.ops() + self.below(16), self.random.next_u64());
                self.disk.crash_at(op, seed);
            }
            let opened = EmbeddedCore::open(self.disk.clone(), Path::new("/store"), STORE, self.mutants);
            match opened {
                Ok(store) => {
                    self.store = Some(store);
                    if self.take_control()? {
                        break;
                    }
                }
                Err(_) if self.disk.crashed().is_some() => {}
                Err(error) => return Err(format!("the store does not open again: {error}")),
            }
            self.lose_power();
        }
        Ok(())
    }

    /// Drops everything that lives in memory; calls on their way to targets may still arrive.
    pub(crate) fn lose_power(&mut self) {
        let crashed = self.disk.crashed();
        if let Some(crashed) = crashed {
            *self.coverage.crashes.entry(crashed.site).or_insert(0) += 1;
        }
        self.store = None;
        self.tickets.clear();
        self.controller = None;
        self.actions.clear();
        self.notices.clear();
        self.crew.clear();
        self.jobs.clear();
        self.channels.clear();
        self.strike = None;
        self.armed = false;
        for call in std::mem::take(&mut self.calls) {
            match self.below(3) {
                0 => {}
                1 => {
                    let _ = self.target.apply(call.sink, call.number, &call.call);
                }
                _ => self.late.push((call.sink, call.number, call.call)),
            }
        }
        let seed = self.random.next_u64();
        self.disk = self.disk.reboot(seed);
        self.note(seed);
    }

    fn crash_now(&mut self, site: &'static str) -> Result<(), Broken> {
        *self.coverage.crashes.entry(site).or_insert(0) += 1;
        self.lose_power();
        self.boot()
    }

    /// Answers whether the machine still has power.
    pub(crate) fn powered(&self) -> bool {
        self.disk.crashed().is_none()
    }

    /// Flushes the store and hands out the verdicts. False if the power went or the store stopped.
    pub(crate) fn flush(&mut self) -> Result<bool, Broken> {
        let Some(store) = &mut self.store else { return Ok(false) };
        let mut outcomes = Vec::new();
        let result = store.flush(&mut outcomes);
        if !self.powered() {
            return Ok(false);
        }
        for outcome in outcomes {
            match self.tickets.remove(&outcome.ticket) {
                Some(Submitted::Controller) => self.notices.push_back(Notice::Transacted(outcome.outcome)),
                Some(Submitted::Job { uid, epoch }) => {
                    let Some(index) = self.jobs.iter().position(|job| job.uid == uid) else { continue };
                    if matches!(outcome.outcome, CommitOutcome::Fenced(_)) && !self.is_owner(index) {
                        self.coverage.refused_commits += 1;
                    }
                    self.jobs[index].answers.push_back(Event::Commit { epoch, outcome: outcome.outcome });
                }
                None => {}
            }
        }
        if result.is_err() {
            self.coverage.failed_syncs += 1;
        }
        Ok(result.is_ok())
    }

    fn step(&mut self) -> Result<(), Broken> {
        self.now += self.below(300) as i64;
        self.due_ticks()?;
        let choice = self.choose();
        self.note(match choice {
            Choice::Answer(index) => index as u64 + 100,
            Choice::Read(index) => index as u64 + 200,
            Choice::Deliver(uid, to) => uid * 31 + u64::from(to) + 300,
            Choice::Call(index) => index as u64 + 400,
            Choice::Late(index) => index as u64 + 500,
            Choice::Flush => 1,
            Choice::Maintain => 2,
            Choice::Time => 3,
            Choice::Act => 4,
            Choice::Notice => 5,
        });
        match choice {
            Choice::Answer(index) => {
                if let Some(event) = self.jobs[index].answers.pop_front() {
                    self.handle(index, event)?;
                }
            }
            Choice::Read(index) => self.read(index)?,
            Choice::Deliver(uid, to) => self.deliver(uid, to)?,
            Choice::Call(index) => self.call(index)?,
            Choice::Late(index) => {
                let (sink, partition, call) = self.late.swap_remove(index);
                self.coverage.applied_late += u64::from(self.target.apply(sink, partition, &call).is_ok());
            }
            Choice::Flush => {
                if !self.flush()? {
                    self.lose_power();
                    self.boot()?;
                }
            }
            Choice::Maintain => self.maintain()?,
            Choice::Act => {
                for _ in 0..1 + self.below(4) {
                    self.act()?;
                }
            }
            Choice::Notice => {
                for _ in 0..1 + self.below(4) {
                    let Some(notice) = self.notices.pop_front() else { break };
                    self.hear(notice)?;
                }
            }
            Choice::Time => {
                let jobs = self.jobs.iter().filter(|job| !job.ended).map(|job| job.wake);
                let wake = jobs.chain([self.crew.wake()]).min().unwrap_or(i64::MAX);
                self.now = self.now.max(wake.min(self.now.saturating_add(100_000_000)));
                self.due_ticks()?;
            }
        }
        Ok(())
    }

    fn choose(&mut self) -> Choice {
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        for (index, job) in self.jobs.iter().enumerate() {
            if !job.answers.is_empty() {
                candidates.push(Choice::Answer(index));
            }
            if job.read.is_some() {
                candidates.push(Choice::Read(index));
            }
        }
        for ((uid, to), queue) in &self.channels {
            if !queue.is_empty() {
                candidates.push(Choice::Deliver(*uid, *to));
            }
        }
        candidates.extend((0..self.calls.len()).map(Choice::Call));
        if !self.tickets.is_empty() {
            candidates.push(Choice::Flush);
        }
        if !self.actions.is_empty() {
            candidates.push(Choice::Act);
        }
        if !self.notices.is_empty() {
            candidates.push(Choice::Notice);
        }
        let busy = !candidates.is_empty();
        if !self.late.is_empty() && self.chance(5) {
            candidates.push(Choice::Late(self.below(self.late.len() as u64) as usize));
        }
        if self.chance(20) {
            candidates.push(Choice::Maintain);
        }
        if !busy || self.chance(10) {
            candidates.push(Choice::Time);
        }
        let choice = candidates[self.below(candidates.len() as u64) as usize];
        self.candidates = candidates;
        choice
    }

    fn due_ticks(&mut self) -> Result<(), Broken> {
        self.due_heartbeats()?;
        let mut index = 0;
        while index < self.jobs.len() {
            let job = &mut self.jobs[index];
            if !job.ended && job.wake <= self.now {
                job.wake = i64::MAX;
                self.handle(index, Event::Tick)?;
            }
            index += 1;
        }
        Ok(())
    }

    fn read(&mut self, index: usize) -> Result<(), Broken> {
        let rows = 1 + self.below(60) as usize;
        let input = self.input.clone();
        let job = &mut self.jobs[index];
        let Some((tag, seek, limits)) = job.read.take() else { return Ok(()) };
        let Role::Source { name, .. } = &job.partition.role else { return Ok(()) };
        if let Some(point) = seek {
            let partition = name.parse().map_err(|_| "malformed partition name")?;
            job.reader = Some(Reader::open(input, partition, point.position));
        }
        let Some(reader) = &mut job.reader else { return Err("a read without a seek".to_owned()) };
        let read = Ok(reader.read(limits, rows));
        self.handle(index, Event::Read { tag, read })
    }

    fn deliver(&mut self, uid: u64, to: u32) -> Result<(), Broken> {
        let Some(message) = self.channels.get_mut(&(uid, to)).and_then(VecDeque::pop_front) else {
            return Ok(());
        };
        self.channels.retain(|_, queue| !queue.is_empty());
        // Sometimes what is meant for the owner reaches a zombie as well.
        let mut index = 0;
        while index < self.jobs.len() {
            let meant = self.jobs[index].partition.number == to;
            if meant && (self.is_owner(index) || self.chance(30)) {
                self.handle(index, Event::Lane(message.clone()))?;
            }
            index += 1;
        }
        Ok(())
    }

    fn call(&mut self, index: usize) -> Result<(), Broken> {
        let Call { uid, number, sink, call } = self.calls.swap_remove(index);
        let live = self.jobs.iter().position(|job| job.uid == uid).is_some_and(|job| self.is_owner(job));
        let name = target::kind(&call);
        match self.strike.filter(|_| live) {
            Some(Strike::Before) => {
                self.calls.push(Call { uid, number, sink, call });
                return self.crash_now(name);
            }
            Some(Strike::After) => {
                let _ = self.target.apply(sink, number, &call);
                return self.crash_now(name);
            }
            None => {}
        }
        let timed_out = || Err(TargetError::Unknown("no answer in time".to_owned()));
        let answer: Result<TargetAnswer, TargetError> = match self.below(100) {
            0..80 => self.target.apply(sink, number, &call),
            80..86 => timed_out(),
            86..93 => {
                if self.target.apply(sink, number, &call).is_ok() {
                    self.coverage.applied_then_timed_out += 1;
                }
                timed_out()
            }
            _ => {
                self.late.push((sink, number, call));
                timed_out()
            }
        };
        match self.jobs.iter().position(|job| job.uid == uid) {
            Some(job) => self.handle(job, Event::Target { sink, answer }),
            None => Ok(()),
        }
    }

    fn maintain(&mut self) -> Result<(), Broken> {
        let Some(store) = &mut self.store else { return Ok(()) };
        let Some(job) = store.maintenance() else { return Ok(()) };
        let done = job.run(&self.disk);
        let finished = store.finish_maintenance(done).is_ok();
        if !self.powered() || !finished {
            self.lose_power();
            return self.boot();
        }
        self.coverage.maintenance += 1;
        Ok(())
    }

    /// Steps a job and carries out what it asks for.
    pub(crate) fn handle(&mut self, index: usize, event: Event) -> Result<(), Broken> {
        let mut requests = std::mem::take(&mut self.requests);
        self.jobs[index].job.handle(self.now, event, &mut requests);
        let mut end = None;
        for request in requests.drain(..) {
            let job = &mut self.jobs[index];
            match request {
                Request::Lane { to, message } => {
                    self.channels.entry((job.uid, to)).or_default().push_back(message);
                }
                Request::Read { tag, seek, limits } => job.read = Some((tag, seek, limits)),
                Request::Commit(commit) => {
                    if let Some(store) = &mut self.store {
                        let epoch = commit.epoch;
                        let ticket = store.commit(commit);
                        self.tickets.insert(ticket, Submitted::Job { uid: job.uid, epoch });
                    }
                }
                Request::Target { sink, call } => {
                    let number = job.partition.number;
                    self.calls.push(Call { uid: job.uid, number, sink, call });
                }
                Request::Wake(at) => job.wake = at,
                Request::End(how) => end = Some(how),
            }
        }
        self.requests = requests;
        if let Some(end) = end {
            let job = &mut self.jobs[index];
            job.ended = true;
            job.read = None;
            let (partition, generation) = (job.partition.number, job.generation);
            if self.is_reachable(self.jobs[index].worker) {
                self.notices.push_back(Notice::Ended { partition, generation, end });
            }
        }
        self.note_end_of_input(index);
        Ok(())
    }
}
