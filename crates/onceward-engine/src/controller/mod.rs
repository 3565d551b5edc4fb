//! The controller: which worker runs which partition, how key ranges are cut, where the pipeline stands.
//!
//! It is a state machine like the jobs are: a driver hands it one [`Notice`] at a time and carries out the [`Action`]s
//! that come back. Its term is the ownership of the pipeline's own partition: every transaction requires it, so that a
//! controller that was replaced changes nothing. Its leases are liveness only; what counts is decided by the store
//! (GEN-PER-JOB, CHAIN).

mod demands;
mod happening;
mod jobs;
mod load;
mod recutting;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use onceward_protocol::chain::Head;
use onceward_protocol::lease::{AbortReason, LeaseTable, WorkerId};
use onceward_protocol::state::{Demand, PipelineState};
use onceward_protocol::{Branch, CommitOutcome, Generation, Mutants, PartitionId};
use onceward_store::Operation;

use crate::entropy::Nonces;
use crate::error::EngineError;
use crate::job::{Event, JobEnd};
use crate::layout::{Layout, LayoutPartition, Role};
use crate::plan::Plan;
use crate::recut::PartitionRows;

pub use happening::Happening;
use load::Loads;
pub use load::{JobReport, LoadMeter};
use recutting::{Draining, Recutting};

/// How a controller goes about it.
#[derive(Clone, Debug)]
pub struct ControllerConfig {
    /// Workers that are expected at the beginning: nothing is placed before all of them are there, or a lease's time has
    /// passed, so that the first one to speak does not get everything.
    pub workers: usize,
    /// A worker that is not heard of for so long is lost, microseconds.
    pub lease_us: i64,
    /// Between two looks at the loads, microseconds.
    pub balance_us: i64,
    /// Partitions of bounded sources that are read at the same time; the others wait their turn, in layout order.
    /// Their lanes hold the watermark until then, so that nothing becomes late by waiting.
    pub active_sources: usize,
    /// By source: whether it ends by itself. One that does not would never free its turn.
    pub bounded: Vec<bool>,
    /// Messages in one span below which a pipeline is idle: there is nothing to spread.
    pub idle_load: u64,
    /// Jobs per partition that an earlier controller may have left running: each may open a target after ours.
    pub strays: u32,
    /// Broken rules, for the simulator.
    pub mutants: Mutants,
}

/// Something that happened. The driver passes the time with it.
#[derive(Debug)]
pub enum Notice {
    /// A wake-up that was asked for.
    Tick,
    /// A worker is there, or says that it still is.
    Heartbeat {
        /// Which.
        worker: WorkerId,
        /// Its clock when it sent this.
        sent_at: i64,
        /// The jobs that it runs.
        jobs: Vec<JobReport>,
    },
    /// A worker is known to be gone.
    WorkerGone(WorkerId),
    /// A job has ended.
    Ended {
        /// The partition's number.
        partition: u32,
        /// The job.
        generation: Generation,
        /// How.
        end: JobEnd,
    },
    /// A source partition has been read to its end: another may begin.
    ReadToEnd(u32),
    /// The answer to [`Action::Transact`].
    Transacted(CommitOutcome),
    /// The answer to [`Action::Load`], in the same order.
    Loaded(Vec<PartitionRows>),
    /// The answer to [`Action::Settle`].
    Settled(u64),
    /// A user asks for something.
    Asked {
        /// Carried by the answer.
        id: u64,
        /// What.
        command: Command,
    },
}

/// What a user may ask of a running pipeline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Another state.
    Demand(Demand),
    /// Another number of key ranges.
    Rescale {
        /// The computation.
        computation: String,
        /// How many ranges; `None` gives the number back to the manifest.
        ranges: Option<u32>,
    },
}

/// Something that the driver shall do.
#[derive(Debug)]
pub enum Action {
    /// Submit a transaction; at most one is out at a time.
    Transact(Vec<Operation>),
    /// Read everything that is stored of these partitions.
    Load(Vec<PartitionId>),
    /// Answer with this number when every call of a target that was made before has ended, whoever made it
    /// (QUIET-PAUSE).
    Settle(u64),
    /// Have a worker load a partition and build its job (LOAD-AFTER-GRANT: the grant is durable).
    Assign {
        /// Who.
        worker: WorkerId,
        /// What.
        assignment: Assignment,
    },
    /// Hand an event to a job, if the worker still runs it.
    Tell {
        /// Who.
        worker: WorkerId,
        /// The partition's number.
        partition: u32,
        /// The job.
        generation: Generation,
        /// What.
        event: Event,
    },
    /// The job must end where it is: its lease is gone.
    Drop {
        /// Who.
        worker: WorkerId,
        /// The partition's number.
        partition: u32,
        /// The job.
        generation: Generation,
    },
    /// The answer to a heartbeat.
    Renewed {
        /// Whose.
        worker: WorkerId,
        /// As in the heartbeat.
        sent_at: i64,
    },
    /// The layout changed: every worker rewires its jobs.
    Layout(Arc<Layout>),
    /// Send a [`Notice::Tick`] at or after this time; later requests replace earlier ones.
    Wake(i64),
    /// The answer to a command.
    Answer {
        /// As in the command.
        id: u64,
        /// What comes of it, or why nothing does.
        answer: Result<String, String>,
    },
    /// Something that people who watch want to know.
    Log(Happening),
    /// Nothing runs any more.
    End(ControllerEnd),
}

/// A job to run.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// The partition.
    pub partition: LayoutPartition,
    /// The job.
    pub generation: Generation,
    /// The layout as of the grant.
    pub layout: Arc<Layout>,
    /// For the job's nonces.
    pub seed: u64,
}

/// Why a pipeline's run is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ControllerEnd {
    /// All bounded input was processed and delivered.
    Completed,
    /// Stopped on request.
    Stopped,
    /// A job failed. While draining, everything else is drained all the same.
    Failed(EngineError),
    /// Somebody else owns a target, or the pipeline.
    Fenced {
        /// What of.
        partition: String,
        /// What was seen.
        reason: String,
    },
    /// The store does not answer any more (OWN-COMMIT): what is stored counts.
    StoreFailed,
}

/// What a partition's job is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// It is to get a lease.
    Waiting,
    /// Its lease is on its way to the store.
    Granting,
    /// A worker runs it.
    Running,
    /// All its input has ended and everything is delivered; its job answers its producers still.
    Completed,
    /// Its job has ended and it gets no other one for now: it is re-cut, or the pipeline is ending.
    Ended,
}

#[derive(Clone, Debug)]
struct Slot {
    partition: LayoutPartition,
    phase: Phase,
    /// The last generation's number.
    number: u64,
    /// Whether the job was told to begin, over all its generations.
    begun: bool,
    /// Whether this partition has a turn among bounded sources.
    has_turn: bool,
    /// The last that the job was asked to do.
    told: Told,
    /// Where it should run next.
    prefers: Option<WorkerId>,
    /// Jobs that were given up without having said that they ended: each may still open a target once more.
    strays: u32,
    /// When a target last refused the partition's job.
    fenced_at: Option<i64>,
}

/// What a job was asked to do; each asks for more than the ones before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Told {
    Nothing,
    Drain,
    Stop,
    Halt,
    /// It ends soon, and its successor is told what holds then.
    Retire,
}

/// What to do when a transaction is durable.
#[derive(Debug)]
enum After {
    Granted(Vec<(u32, WorkerId, Generation)>),
    /// The parents are owned by the re-cut.
    RecutGranted,
    /// The children are there.
    Recut,
    /// A drained range is gone.
    Removed(u32),
    /// The record says something new; nothing else changed.
    Noted,
    /// No lease is live any more.
    Closed,
}

/// A transaction that waits for its turn.
#[derive(Debug)]
struct Pending {
    operations: Vec<Operation>,
    /// The record to write with it: made from the last one, so at most one such transaction is out or waits.
    layout: Option<Box<Layout>>,
    after: After,
}

/// A transaction that is out.
#[derive(Debug)]
struct Submitted {
    after: After,
    /// The record that it writes, and the commit that this becomes.
    written: Option<(Box<Layout>, Head)>,
}

#[derive(Clone, Debug)]
struct Worker {
    heard: i64,
    alive: bool,
}

/// The controller of one pipeline.
pub struct Controller {
    plan: Arc<Plan>,
    config: ControllerConfig,
    layout: Arc<Layout>,
    term: Generation,
    /// The last commit of the pipeline's partition.
    head: Option<Head>,
    nonces: Nonces,
    leases: LeaseTable,
    slots: BTreeMap<u32, Slot>,
    workers: BTreeMap<WorkerId, Worker>,
    waiting: VecDeque<Pending>,
    out: Option<Submitted>,
    /// What the jobs are to do; the record follows.
    state: PipelineState,
    recutting: Option<Recutting>,
    /// Drained ranges that are to leave the layout.
    draining: VecDeque<Draining>,
    /// A load is out, and for what.
    loading: Option<Loading>,
    /// A stop that does not drain: jobs finish their epochs and their calls.
    stopping: bool,
    /// The last state of all is on its way to the store.
    closing: bool,
    settling: Settling,
    next_settle: u64,
    failure: Option<EngineError>,
    loads: Loads,
    next_balance: i64,
    ended: bool,
    /// Until when the workers that are expected are waited for; `None` from the first placing on.
    expects_until: Option<i64>,
    now: i64,
}

/// Whether calls of targets are known to have ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Settling {
    No,
    Asked(u64),
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Loading {
    Recut,
    Drained,
}

impl Controller {
    /// A controller whose term is `term`: it owns the pipeline's partition, whose last commit is `head`. `numbers` are
    /// the last generation numbers of the partitions, by partition number; what is absent was never granted. `state`
    /// is where the pipeline is to go on from, as [`next`](onceward_protocol::state::next) says.
    #[expect(clippy::too_many_arguments, reason = "everything that a term begins with, given once")]
    pub fn new(
        plan: Arc<Plan>,
        layout: Layout,
        term: Generation,
        head: Option<Head>,
        numbers: &BTreeMap<u32, u64>,
        state: PipelineState,
        config: ControllerConfig,
        seed: u64,
    ) -> Self {
        let mut controller = Controller {
            state,
            layout: Arc::new(layout),
            term,
            head,
            nonces: Nonces::new(seed),
            leases: LeaseTable::default(),
            slots: BTreeMap::new(),
            workers: BTreeMap::new(),
            waiting: VecDeque::new(),
            out: None,
            recutting: None,
            draining: VecDeque::new(),
            loading: None,
            stopping: false,
            closing: false,
            settling: Settling::No,
            next_settle: 0,
            failure: None,
            loads: Loads::default(),
            next_balance: i64::MIN,
            ended: false,
            expects_until: Some(i64::MAX),
            now: i64::MIN,
            plan,
            config,
        };
        controller.add_slots(numbers);
        controller
    }

    /// Where the pipeline stands, as people see it.
    pub fn state(&self) -> PipelineState {
        if self.stopping { PipelineState::Draining } else { self.state }
    }
    /// The layout as of the last transaction.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }
    /// Who runs what.
    pub fn leases(&self) -> &LeaseTable {
        &self.leases
    }

    /// What it is busy with, for a run that does not end.
    pub fn standing(&self) -> String {
        let slots: Vec<String> = self
            .slots
            .values()
            .map(|slot| format!("{} {:?} {:?}", slot.partition.id.label(), slot.phase, slot.told))
            .collect();
        format!(
            "{} transactions wait, out {:?}, re-cut {:?}, drained {:?}, loading {:?}, workers {:?}; {}",
            self.waiting.len(),
            self.out.as_ref().map(|submitted| &submitted.after),
            self.recutting,
            self.draining,
            self.loading,
            self.workers,
            slots.join(", ")
        )
    }

    /// Takes one notice at `now` (microseconds) and appends what is to be done.
    pub fn handle(&mut self, now: i64, notice: Notice, out: &mut Vec<Action>) {
        if self.ended {
            if let Notice::Asked { id, .. } = notice {
                out.push(Action::Answer { id, answer: Err("the run is over".to_owned()) });
            }
            return;
        }
        self.now = now;
        if self.expects_until == Some(i64::MAX) {
            self.expects_until = Some(now.saturating_add(self.config.lease_us));
        }
        let result = self.take(notice, out).and_then(|()| self.poll(out));
        if let Err(end) = result {
            self.ended = true;
            out.push(Action::End(end));
        }
    }

    fn take(&mut self, notice: Notice, out: &mut Vec<Action>) -> Result<(), ControllerEnd> {
        match notice {
            Notice::Tick => {}
            Notice::Heartbeat { worker, sent_at, jobs } => self.heartbeat(worker, sent_at, &jobs, out),
            Notice::WorkerGone(worker) => self.lose_worker(worker, out),
            Notice::Ended { partition, generation, end } => {
                self.job_ended(partition, generation, end, out)?;
            }
            Notice::ReadToEnd(partition) => self.read_to_end(partition, out),
            Notice::Transacted(outcome) => self.transacted(outcome, out)?,
            Notice::Loaded(rows) => self.loaded(rows)?,
            Notice::Settled(number) if self.settling == Settling::Asked(number) => {
                self.settling = Settling::Done;
            }
            Notice::Settled(_) => {}
            Notice::Asked { id, command } => {
                let answer = self.asked(&command);
                out.push(Action::Answer { id, answer });
            }
        }
        Ok(())
    }

    /// One scheduling cycle.
    fn poll(&mut self, out: &mut Vec<Action>) -> Result<(), ControllerEnd> {
        self.check_workers(out);
        self.check_leases(out);
        self.go_on_recutting(out);
        self.load_next(out);
        self.wind_down(out)?;
        self.note_state();
        self.place();
        self.balance(out);
        self.submit(out);
        let wake = self.now.saturating_add((self.config.lease_us / 4).max(1));
        out.push(Action::Wake(wake.min(self.next_balance.max(self.now + 1))));
        Ok(())
    }

    fn add_slots(&mut self, numbers: &BTreeMap<u32, u64>) {
        for partition in self.layout.partitions() {
            let number = numbers.get(&partition.number).copied().unwrap_or(0);
            let slot = Slot {
                phase: Phase::Waiting,
                number,
                begun: false,
                has_turn: false,
                told: Told::Nothing,
                prefers: None,
                strays: self.config.strays,
                fenced_at: None,
                partition,
            };
            self.slots.entry(slot.partition.number).or_insert(slot);
        }
    }

    fn generation(&mut self, partition: u32) -> Generation {
        let nonce = self.nonces.next_u64();
        let number = match self.slots.get_mut(&partition) {
            Some(slot) => {
                slot.number += 1;
                slot.number
            }
            None => 1,
        };
        Generation { number, nonce, branch: Branch::default() }
    }

    fn tell(&mut self, partition: u32, told: Told, event: Event, out: &mut Vec<Action>) {
        let Some(lease) = self.leases.get(partition).copied() else { return };
        if let Some(slot) = self.slots.get_mut(&partition) {
            if told != Told::Nothing {
                slot.told = told;
            }
            out.push(Action::Tell { worker: lease.worker, partition, generation: lease.generation, event });
        }
    }

    /// Ends a job where it is, and its lease with it.
    fn drop_job(&mut self, partition: u32, reason: AbortReason, out: &mut Vec<Action>) {
        if let Some(lease) = self.leases.get(partition) {
            let (worker, generation) = (lease.worker, lease.generation);
            out.push(Action::Drop { worker, partition, generation });
        }
        self.abort(partition, reason, out);
    }

    /// Ends a lease; the store's grant is revoked with the transaction that needs it.
    fn abort(&mut self, partition: u32, reason: AbortReason, out: &mut Vec<Action>) {
        let Some((lease, _)) = self.leases.abort(partition, reason) else { return };
        if let Some(slot) = self.slots.get(&partition) {
            let partition = slot.partition.id.label();
            let worker = lease.worker;
            out.push(Action::Log(Happening::LeaseEnded { partition, worker, reason }));
        }
    }

    fn is_owned_by(&self, partition: u32, generation: Generation) -> bool {
        self.leases.get(partition).is_some_and(|lease| lease.generation == generation)
    }

    fn queue(&mut self, operations: Vec<Operation>, layout: Option<Layout>, after: After) {
        self.waiting.push_back(Pending { operations, layout: layout.map(Box::new), after });
    }

    /// Whether a transaction that writes the record is on its way or waits.
    fn record_is_busy(&self) -> bool {
        let out = self.out.as_ref().is_some_and(|submitted| submitted.written.is_some());
        // What is being read ends in a record made from the one of now.
        let loading = self.loading.is_some();
        out || loading || self.waiting.iter().any(|pending| pending.layout.is_some())
    }

    /// The record follows what the pipeline was asked for.
    fn note_state(&mut self) {
        if self.layout.state != self.state && !self.closing && !self.record_is_busy() {
            let layout = Layout { state: self.state, ..Layout::clone(&self.layout) };
            self.queue(Vec::new(), Some(layout), After::Noted);
        }
    }

    /// Hands the next transaction to the store: each requires the term, and a record follows the last one.
    fn submit(&mut self, out: &mut Vec<Action>) {
        if self.out.is_some() {
            return;
        }
        let Some(Pending { mut operations, layout, after }) = self.waiting.pop_front() else { return };
        let record = self.layout.pipeline_partition();
        operations.insert(0, Operation::Require(record, self.term));
        let written = layout.map(|layout| {
            let record = layout.record(self.term, self.head);
            let head = record.head();
            operations.push(Operation::Commit(record));
            (layout, head)
        });
        self.out = Some(Submitted { after, written });
        out.push(Action::Transact(operations));
    }

    fn transacted(&mut self, outcome: CommitOutcome, out: &mut Vec<Action>) -> Result<(), ControllerEnd> {
        let Some(Submitted { after, written }) = self.out.take() else { return Ok(()) };
        match outcome {
            CommitOutcome::Committed => {}
            CommitOutcome::Fenced(reason) => {
                return Err(ControllerEnd::Fenced {
                    partition: "the pipeline's record".to_owned(),
                    reason: reason.to_string(),
                });
            }
            CommitOutcome::Unknown => return Err(ControllerEnd::StoreFailed),
        }
        if let Some((layout, head)) = written {
            self.head = Some(head);
            let rewires = layout.version != self.layout.version;
            if layout.state != self.layout.state {
                out.push(Action::Log(Happening::State(layout.state)));
            }
            self.layout = Arc::new(*layout);
            if rewires {
                self.add_slots(&BTreeMap::new());
                self.refresh_slots();
                out.push(Action::Layout(self.layout.clone()));
            }
        }
        match after {
            After::Granted(grants) => self.granted(grants, out),
            After::RecutGranted => self.load_parents(out),
            After::Recut => self.recut_done(out),
            After::Removed(partition) => self.removed(partition, out),
            After::Closed => return self.closed(),
            // Stopped while it was paused: nothing had to end.
            After::Noted
                if self.layout.state == PipelineState::Stopped && self.state == PipelineState::Stopped =>
            {
                return Err(ControllerEnd::Stopped);
            }
            After::Noted => {}
        }
        Ok(())
    }

    /// What the layout says of the partitions that stay: a parent is retired now.
    fn refresh_slots(&mut self) {
        for partition in self.layout.partitions() {
            if let Some(slot) = self.slots.get_mut(&partition.number) {
                slot.partition = partition;
            }
        }
    }

    fn is_source(&self, partition: u32) -> bool {
        self.slots.get(&partition).is_some_and(|slot| matches!(slot.partition.role, Role::Source { .. }))
    }
}
