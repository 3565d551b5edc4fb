//! The seeded scheduler: everything that could happen next is a candidate, the seed chooses.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use onceward_connector::{ReadLimits, TargetError};
use onceward_engine::entropy::Nonces;
use onceward_engine::layout::{LayoutPartition, Role};
use onceward_engine::{
    Event, Job, JobEnd, LaneMessage, Layout, Plan, Request, Stored, TargetAnswer, TargetCall,
};
use onceward_protocol::resume::ResumePoint;
use onceward_protocol::{Branch, CommitOutcome, Generation, Mutants};
use onceward_store::disk::{Fault, FaultDisk, site};
use onceward_store::{EmbeddedCore, Options, Store, Ticket};

use crate::coverage::Coverage;
use crate::data::Input;
use crate::source::Reader;
use crate::target::{self, Target};

/// Zombies kept running at once; the oldest goes first.
const MAX_ZOMBIES: usize = 3;
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

struct SimJob {
    uid: u64,
    number: u32,
    generation: Generation,
    job: Job,
    reader: Option<Reader>,
    read: Option<Read>,
    /// Answers of the store, in order.
    answers: VecDeque<Event>,
    wake: i64,
    zombie: bool,
    ended: bool,
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
    plan: Arc<Plan>,
    layout: Layout,
    partitions: Vec<LayoutPartition>,
    mutants: Mutants,
    now: i64,
    disk: FaultDisk,
    store: Option<EmbeddedCore<FaultDisk>>,
    tickets: BTreeMap<Ticket, (u64, u64)>,
    jobs: Vec<SimJob>,
    channels: BTreeMap<(u64, u32), VecDeque<LaneMessage>>,
    calls: Vec<Call>,
    late: Vec<(u32, u32, TargetCall)>,
    strike: Option<Strike>,
    next_uid: u64,
    completed: Vec<bool>,
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
        let partitions = layout.partitions();
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
            jobs: Vec::new(),
            channels: BTreeMap::new(),
            calls: Vec::new(),
            late: Vec::new(),
            strike: None,
            next_uid: 1,
            completed: vec![false; partitions.len()],
            crashes_planned: crashes,
            armed: false,
            requests: Vec::new(),
            candidates: Vec::new(),
            partitions,
        }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.next_u64() % limit.max(1)
    }
    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
    fn note(&mut self, what: u64) {
        self.trace = (self.trace ^ what).wrapping_mul(0x0100_0000_01b3).rotate_left(17);
    }

    /// Runs to the end of the input.
    pub(crate) fn run(&mut self) -> Result<(), Broken> {
        self.boot()?;
        for step in 0..MAX_STEPS {
            self.coverage.steps = step;
            if self.completed.iter().all(|done| *done) {
                return self.final_checks();
            }
            self.plan_crash()?;
            self.step()?;
        }
        Err("the pipeline is stuck: it neither ends nor fails".to_owned())
    }

    fn final_checks(&mut self) -> Result<(), Broken> {
        let late: u64 = self.jobs.iter().filter(|job| !job.zombie).map(|job| job.job.stats().late).sum();
        if late != self.input.late {
            return Err(format!("{late} rows were taken for late, {} are", self.input.late));
        }
        // What still lies around in the network must not harm either.
        while let Some((sink, partition, call)) = self.late.pop() {
            let _ = self.target.apply(sink, partition, &call);
        }
        Ok(())
    }

    /// How much of the input the sources have committed.
    fn finished_rows(&self) -> u64 {
        self.jobs
            .iter()
            .filter(|job| !job.zombie)
            .map(|job| match &job.job {
                Job::Source(source) => source.stats().rows_in,
                Job::Keyed(_) => 0,
            })
            .sum()
    }

    /// Spreads the planned power losses over the first half of the input, one at a time, and
    /// replaces a job now and then.
    fn plan_crash(&mut self) -> Result<(), Broken> {
        let lost = self.coverage.total_crashes();
        if self.armed || lost >= self.crashes_planned {
            return Ok(());
        }
        let total: u64 = self.input.partitions.iter().map(|rows| rows.len() as u64).sum();
        let due = self.finished_rows() * (self.crashes_planned + 1) * 2 / total.max(1);
        if due <= lost {
            return Ok(());
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
        if self.chance(40) {
            let number = self.below(self.partitions.len() as u64) as u32;
            if !self.replace(number)? {
                self.lose_power();
                self.boot()?;
            }
        }
        Ok(())
    }

    /// Power is back: opens the store, grants and starts every job, and leaves one zombie behind.
    fn boot(&mut self) -> Result<(), Broken> {
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
                    if self.start_all()? {
                        break;
                    }
                }
                Err(_) if self.disk.crashed().is_some() => {}
                Err(error) => return Err(format!("the store does not open again: {error}")),
            }
            self.lose_power();
        }
        let number = self.below(self.partitions.len() as u64) as u32;
        if !self.replace(number)? {
            self.lose_power();
            return self.boot();
        }
        Ok(())
    }

    fn start_all(&mut self) -> Result<bool, Broken> {
        self.completed.iter_mut().for_each(|done| *done = false);
        for number in 0..self.partitions.len() as u32 {
            if !self.spawn(number)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Drops everything that lives in memory; calls on their way to targets may still arrive.
    fn lose_power(&mut self) {
        let crashed = self.disk.crashed();
        if let Some(crashed) = crashed {
            *self.coverage.crashes.entry(crashed.site).or_insert(0) += 1;
        }
        self.store = None;
        self.tickets.clear();
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
    fn powered(&self) -> bool {
        self.disk.crashed().is_none()
    }

    /// Grants the partition to a new job. False if the power went, or the store stopped, on the way.
    fn spawn(&mut self, number: u32) -> Result<bool, Broken> {
        let partition = self.partitions[number as usize].clone();
        let nonce = self.random.next_u64();
        let Some(store) = &mut self.store else { return Ok(false) };
        let Ok(head) = store.head(&partition.id) else { return Ok(false) };
        let generation = Generation { number: head.last_number + 1, nonce, branch: Branch::default() };
        store.grant(&partition.id, generation);
        if !self.flush()? {
            return Ok(false);
        }
        let Some(store) = &self.store else { return Ok(false) };
        let stored = match Stored::load(store, &partition.id) {
            Ok(stored) => stored,
            Err(error) => return Err(format!("loading {partition:?}: {error}")),
        };
        let seed = self.random.next_u64();
        let job = self
            .plan
            .job(&self.layout, &partition, generation, stored, seed, self.mutants)
            .map_err(|error| error.to_string())?;
        let uid = self.next_uid;
        self.next_uid += 1;
        self.completed[number as usize] = false;
        self.jobs.push(SimJob {
            uid,
            number,
            generation,
            job,
            reader: None,
            read: None,
            answers: VecDeque::new(),
            wake: i64::MAX,
            zombie: false,
            ended: false,
        });
        let index = self.jobs.len() - 1;
        self.handle(index, Event::Begin)?;
        Ok(true)
    }

    /// Gives the partition to a new job; the old one runs on as a zombie.
    fn replace(&mut self, number: u32) -> Result<bool, Broken> {
        for job in self.jobs.iter_mut().filter(|job| job.number == number) {
            job.zombie = true;
        }
        self.jobs.retain(|job| !(job.zombie && job.ended));
        let zombies = self.jobs.iter().filter(|job| job.zombie).count();
        if zombies > MAX_ZOMBIES
            && let Some(oldest) = self.jobs.iter().position(|job| job.zombie)
        {
            self.jobs.remove(oldest);
        }
        self.coverage.replaced += 1;
        self.spawn(number)
    }

    /// Flushes the store and hands out the verdicts. False if the power went or the store stopped.
    fn flush(&mut self) -> Result<bool, Broken> {
        let Some(store) = &mut self.store else { return Ok(false) };
        let mut outcomes = Vec::new();
        let result = store.flush(&mut outcomes);
        if !self.powered() {
            return Ok(false);
        }
        for outcome in outcomes {
            let Some((uid, epoch)) = self.tickets.remove(&outcome.ticket) else { continue };
            let Some(job) = self.jobs.iter_mut().find(|job| job.uid == uid) else { continue };
            if matches!(outcome.outcome, CommitOutcome::Fenced(_)) && job.zombie {
                self.coverage.refused_commits += 1;
            }
            job.answers.push_back(Event::Commit { epoch, outcome: outcome.outcome });
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
            Choice::Time => {
                let wake =
                    self.jobs.iter().filter(|job| !job.ended).map(|job| job.wake).min().unwrap_or(i64::MAX);
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
        let rows = 1 + self.below(160) as usize;
        let input = self.input.clone();
        let job = &mut self.jobs[index];
        let Some((tag, seek, limits)) = job.read.take() else { return Ok(()) };
        let Role::Source { name, .. } = &self.partitions[job.number as usize].role else { return Ok(()) };
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
        for index in 0..self.jobs.len() {
            let reaches = self.jobs[index].number == to && (!self.jobs[index].zombie || self.chance(30));
            if reaches {
                self.handle(index, Event::Lane(message.clone()))?;
            }
        }
        Ok(())
    }

    fn call(&mut self, index: usize) -> Result<(), Broken> {
        let Call { uid, number, sink, call } = self.calls.swap_remove(index);
        let live = self.jobs.iter().any(|job| job.uid == uid && !job.zombie);
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
    fn handle(&mut self, index: usize, event: Event) -> Result<(), Broken> {
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
                        self.tickets.insert(ticket, (job.uid, epoch));
                    }
                }
                Request::Target { sink, call } => {
                    self.calls.push(Call { uid: job.uid, number: job.number, sink, call });
                }
                Request::Wake(at) => job.wake = at,
                Request::End(how) => end = Some(how),
            }
        }
        self.requests = requests;
        match end {
            None => Ok(()),
            Some(end) => self.ended(index, end),
        }
    }

    fn ended(&mut self, index: usize, end: JobEnd) -> Result<(), Broken> {
        let job = &mut self.jobs[index];
        job.ended = true;
        job.read = None;
        let (number, zombie, generation) = (job.number, job.zombie, job.generation);
        match end {
            // Whatever a zombie believes, its owner knows better.
            _ if zombie => Ok(()),
            JobEnd::Completed => {
                self.completed[number as usize] = true;
                Ok(())
            }
            JobEnd::Fenced(_) => {
                // A zombie's open of the target came after ours: a successor takes the fence back.
                self.jobs.remove(index);
                if !self.spawn(number)? {
                    self.lose_power();
                    self.boot()?;
                }
                Ok(())
            }
            // The store stopped: the process starts again.
            JobEnd::Unknown => Ok(()),
            JobEnd::Stopped | JobEnd::Retired | JobEnd::Drained => {
                Err(format!("job {generation} of partition {number} stopped without being asked"))
            }
            JobEnd::Failed(error) => Err(format!("partition {number}: {error}")),
        }
    }
}
