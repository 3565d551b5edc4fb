//! The machine under the test: the engine's jobs on the real store over a disk in memory, driven step by step in one
//! thread. Equal calls give equal steps.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

use onceward_connector::ReadLimits;
use onceward_engine::entropy::Nonces;
use onceward_engine::{Event, Job, JobEnd, Request, Stored};
use onceward_protocol::resume::ResumePoint;
use onceward_protocol::{Branch, Generation, Mutants};
use onceward_store::disk::FaultDisk;
use onceward_store::{EmbeddedCore, Options, Store, Ticket};

use super::clock::TICK_US;
use super::error::HarnessError;
use super::input::Input;
use super::setup::Setup;
use super::step::Work;
use super::target::Targets;

/// When every test begins: 2026-01-01T00:00:00Z.
pub(super) const START_US: i64 = 1_767_225_600_000_000;
/// Where the store lies on its disk.
const STORE: &str = "/store";

/// A read that a source's job waits for.
struct WaitingRead {
    tag: u32,
    seek: Option<ResumePoint>,
    limits: ReadLimits,
}

struct Running {
    job: Job,
    wake: i64,
    read: Option<WaitingRead>,
    completed: bool,
}

/// The whole machine.
pub(super) struct Machine {
    pub(super) setup: Arc<Setup>,
    pub(super) now: i64,
    pub(super) inputs: Vec<Input>,
    pub(super) targets: Targets,
    /// Rows per read at most.
    read_rows: usize,
    random: Nonces,
    disk: FaultDisk,
    store: Option<EmbeddedCore<FaultDisk>>,
    jobs: Vec<Running>,
    work: VecDeque<Work>,
    tickets: BTreeMap<Ticket, (u32, u64)>,
    /// A job has ended as it should not.
    stopped: Option<(u32, JobEnd)>,
    steps: u64,
    /// After which steps the machine is killed.
    kill_after: BTreeSet<u64>,
    kills: u64,
    /// The step after which it was killed last.
    killed_after: Option<String>,
}

impl Machine {
    /// A machine that has not started yet.
    pub(super) fn new(setup: Arc<Setup>, read_rows: usize) -> Self {
        Machine {
            now: START_US,
            inputs: setup.sources.iter().map(|_| Input::default()).collect(),
            targets: Targets::default(),
            read_rows,
            random: Nonces::new(1),
            disk: FaultDisk::new(),
            store: None,
            jobs: Vec::new(),
            work: VecDeque::new(),
            tickets: BTreeMap::new(),
            stopped: None,
            steps: 0,
            kill_after: BTreeSet::new(),
            kills: 0,
            killed_after: None,
            setup,
        }
    }
    /// Steps made so far.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }
    /// Kills so far.
    pub(super) fn kills(&self) -> u64 {
        self.kills
    }
    /// The step after which it was killed last.
    pub(super) fn killed_after(&self) -> Option<&str> {
        self.killed_after.as_deref()
    }
    /// Arranges a kill after so many further steps.
    pub(super) fn arrange_kill(&mut self, steps: u64) {
        self.kill_after.insert(self.steps + steps);
    }
    /// The jobs by partition number.
    pub(super) fn job(&self, number: u32) -> Option<&Job> {
        self.jobs.get(number as usize).map(|running| &running.job)
    }
    /// Whether every job has completed.
    pub(super) fn has_completed(&self) -> bool {
        self.stopped.is_none() && self.jobs.iter().all(|running| running.completed)
    }
    /// The store, unless it could not be opened.
    pub(super) fn store(&self) -> Option<&EmbeddedCore<FaultDisk>> {
        self.store.as_ref()
    }

    /// Drops everything in memory and on its way, and what the disk had not synced; then starts again.
    pub(super) fn kill(&mut self) -> Result<(), HarnessError> {
        self.jobs.clear();
        self.work.clear();
        self.tickets.clear();
        self.stopped = None;
        self.store = None;
        self.disk = self.disk.reboot(self.random.next_u64());
        self.kills += 1;
        self.start()
    }
    /// Opens the store and gives every partition to a new job.
    pub(super) fn start(&mut self) -> Result<(), HarnessError> {
        let mut store =
            EmbeddedCore::open(self.disk.clone(), Path::new(STORE), Options::small(), Mutants::NONE)?;
        let setup = self.setup.clone();
        let mut generations = Vec::new();
        for partition in &setup.partitions {
            let number = store.head(&partition.id)?.last_number + 1;
            let generation = Generation { number, nonce: self.random.next_u64(), branch: Branch::default() };
            store.grant(&partition.id, generation);
            generations.push(generation);
        }
        store.flush(&mut Vec::new())?;
        for (partition, generation) in setup.partitions.iter().zip(generations) {
            let stored = Stored::load(&store, &partition.id)?;
            let seed = self.random.next_u64();
            let job = setup.plan.job(&setup.layout, partition, generation, stored, seed, Mutants::NONE)?;
            self.jobs.push(Running { job, wake: i64::MAX, read: None, completed: false });
        }
        self.store = Some(store);
        for partition in &setup.partitions {
            self.work.push_back(Work::Event { to: partition.number, event: Event::Begin });
        }
        Ok(())
    }

    /// Lets `micros` pass, with everything that is due on the way, up to the next whole tick.
    pub(super) fn advance(&mut self, micros: i64) -> Result<(), HarnessError> {
        let until = self.now.saturating_add(micros);
        self.run()?;
        while let Some((number, wake)) = self.next_wake().filter(|(_, wake)| *wake <= until) {
            self.now = self.now.max(wake);
            self.wake(number)?;
            self.run()?;
        }
        self.now = self.now.max(until);
        self.run()?;
        self.now = (self.now.div_euclid(TICK_US) + 1) * TICK_US;
        Ok(())
    }
    /// Runs until nothing is left to do but to wait.
    pub(super) fn run(&mut self) -> Result<(), HarnessError> {
        let began = self.now;
        // An epoch in a row takes a microsecond; all of them must fit between two ticks that functions see.
        while self.now - began < TICK_US {
            if let Some((number, end)) = &self.stopped {
                return Err(self.stopped_by(*number, end));
            }
            if !self.step()? {
                return Ok(());
            }
        }
        Err(HarnessError::Restless { epochs: TICK_US })
    }
    fn stopped_by(&self, number: u32, end: &JobEnd) -> HarnessError {
        let partition = self.setup.label(number);
        match end {
            JobEnd::Failed(error) => HarnessError::Failed { partition, error: Box::new(error.clone()) },
            other => HarnessError::Ended { partition, how: format!("{other:?}") },
        }
    }

    /// Makes one step. False if there is none to make now.
    fn step(&mut self) -> Result<bool, HarnessError> {
        if self.work.is_empty() {
            self.give_news();
        }
        if let Some(work) = self.work.pop_front() {
            let place = self.kill_place(|machine| work.describe(&machine.setup, machine.tickets.len()));
            self.carry_out(work)?;
            self.stepped(place)?;
            return Ok(true);
        }
        // Epochs close with the next microsecond; everything later waits for the test to let time pass.
        match self.next_wake() {
            Some((number, wake)) if wake <= self.now + 1 => {
                self.now = self.now.max(wake);
                self.wake(number)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
    fn next_wake(&self) -> Option<(u32, i64)> {
        let awake = self.jobs.iter().zip(0..).filter(|(running, _)| !running.completed);
        awake.map(|(running, number)| (number, running.wake)).min_by_key(|(_, wake)| *wake)
    }
    fn wake(&mut self, number: u32) -> Result<(), HarnessError> {
        let place = self.kill_place(|machine| format!("{} was woken", machine.setup.label(number)));
        if let Some(running) = self.jobs.get_mut(number as usize) {
            running.wake = i64::MAX;
        }
        self.handle(number, Event::Tick);
        self.stepped(place)
    }
    /// What the step to come is called, if it is one to be killed after.
    fn kill_place(&self, describe: impl FnOnce(&Self) -> String) -> Option<String> {
        self.kill_after.contains(&(self.steps + 1)).then(|| describe(self))
    }
    fn stepped(&mut self, place: Option<String>) -> Result<(), HarnessError> {
        self.steps += 1;
        match place {
            Some(place) => {
                self.killed_after = Some(format!("step {} ({place})", self.steps));
                self.kill()
            }
            None => Ok(()),
        }
    }

    /// Reads for every job that waits for rows that are there now.
    fn give_news(&mut self) {
        for number in 0..self.inputs.len() {
            let Some(running) = self.jobs.get_mut(number) else { continue };
            // A reader that is to be moved may find rows that it had given before.
            if let Some(seek) = running.read.as_mut().and_then(|read| read.seek.take()) {
                self.inputs[number].seek(&seek);
            }
            if self.inputs[number].has_news()
                && let Some(read) = running.read.take()
            {
                self.give(number as u32, read);
            }
        }
    }
    fn give(&mut self, number: u32, read: WaitingRead) {
        let input = &mut self.inputs[number as usize];
        if let Some(seek) = &read.seek {
            input.seek(seek);
        }
        let limits = ReadLimits { rows: read.limits.rows.min(self.read_rows), ..read.limits };
        let event = Event::Read { tag: read.tag, read: Ok(input.read(limits)) };
        self.work.push_back(Work::Event { to: number, event });
    }

    fn carry_out(&mut self, work: Work) -> Result<(), HarnessError> {
        match work {
            Work::Event { to, event } => self.handle(to, event),
            Work::Call { by, sink, call } => {
                let answer = self.targets.apply(sink, by, &call);
                self.handle(by, Event::Target { sink, answer });
            }
            Work::Flush => {
                let Some(store) = &mut self.store else { return Ok(()) };
                let mut outcomes = Vec::new();
                store.flush(&mut outcomes)?;
                store.maintain()?;
                for outcome in outcomes {
                    if let Some((to, epoch)) = self.tickets.remove(&outcome.ticket) {
                        let event = Event::Commit { epoch, outcome: outcome.outcome };
                        self.work.push_back(Work::Event { to, event });
                    }
                }
            }
        }
        Ok(())
    }

    /// Hands a job an event and notes what it asks for.
    fn handle(&mut self, number: u32, event: Event) {
        let Some(running) = self.jobs.get_mut(number as usize) else { return };
        let mut requests = Vec::new();
        running.job.handle(self.now, event, &mut requests);
        for request in requests {
            match request {
                Request::Lane { to, message } => {
                    self.work.push_back(Work::Event { to, event: Event::Lane(message) });
                }
                Request::Read { tag, seek, limits } => running.read = Some(WaitingRead { tag, seek, limits }),
                Request::Commit(commit) => {
                    let Some(store) = &mut self.store else { continue };
                    if self.tickets.is_empty() {
                        self.work.push_back(Work::Flush);
                    }
                    let epoch = commit.epoch;
                    self.tickets.insert(store.commit(commit), (number, epoch));
                }
                Request::Target { sink, call } => self.work.push_back(Work::Call { by: number, sink, call }),
                Request::Wake(at) => running.wake = at,
                Request::End(JobEnd::Completed) => running.completed = true,
                Request::End(end) => {
                    self.stopped.get_or_insert((number, end));
                }
            }
        }
    }
}
