//! Delivery of one sink's outbox on one partition: from the rows that a job puts out to the target's confirmation.
//!
//! Rows are gathered with an epoch, are owed once it is committed, and are no longer owed once the target has
//! confirmed them. Two things differ from sink to sink, and each has files of its own:
//!
//! - how what is owed is kept (`rows`, `keep`): stored by value, made again by reference, or in memory only;
//! - how a block is written (`marked`, `repeated`, `bordered`): one file per way of keeping the promise.
//!
//! Every call of a target is made in [`Delivery::poll`] and nowhere else: so that one check closes the gate
//! (ANCESTOR-GATE) and one stops everything (QUIET-PAUSE).

mod bordered;
mod core;
mod keep;
mod marked;
mod repeated;
mod rows;

use onceward_connector::{BlockPolicy, SinkContract, TargetError};
use onceward_protocol::{Mutants, PartitionId, Position};
use onceward_store::WriteBatch;

use self::bordered::Bordered;
pub use self::bordered::Borders;
use self::core::Core;
pub use self::core::MAX_OPENS;
pub use self::keep::{LossCounts, ReferenceCounts};
use self::marked::Marked;
use self::repeated::Repeated;
pub use self::rows::MAX_OWED_BYTES;
use crate::entropy::Nonces;
use crate::error::EngineError;
use crate::job::{JobEnd, Request, SinkStats, TargetAnswer, TargetCall};
use crate::stored::Stored;

/// What a sink is called and how it behaves.
#[derive(Clone, Debug)]
pub struct SinkPlan {
    /// Number in the plan.
    pub number: u32,
    /// Name in the manifest.
    pub name: String,
    /// Its contract.
    pub contract: SinkContract,
    /// When blocks close.
    pub policy: BlockPolicy,
    /// Whether its rows can be made again of the partition's own rows, the same at the same positions, so that the
    /// outbox need not store them. Counts when the partition first owes the sink anything; the form is then kept.
    pub by_reference: bool,
    /// Whether an attempt that has started is never repeated (AT-MOST-ONCE), and within which limits.
    pub at_most_once: Option<AtMostOnce>,
    /// Broken rules, for the simulator.
    pub mutants: Mutants,
}

/// The limits of at-most-once delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtMostOnce {
    /// Payload bytes that may wait for the target; rows that do not fit are dropped and counted.
    pub queue_bytes: u64,
    /// How long a stop goes on writing what waits, microseconds; the rest is dropped and counted.
    pub suspend_us: i64,
}

/// How blocks are written.
enum Way {
    Marked(Marked),
    Repeated(Repeated),
    Bordered(Bordered),
}

/// What a way can do now.
enum Step {
    /// Make this call.
    Call(TargetCall),
    /// Wait for an event, or for this time.
    Wait(Option<i64>),
}

/// The delivery of one sink on one partition.
pub struct Delivery {
    core: Core,
    way: Way,
    /// Whether a call is out.
    calling: bool,
    /// Nothing may be opened or written while an ancestor is undrained (ANCESTOR-GATE).
    gated: bool,
    /// No further call is started (QUIET-PAUSE).
    halted: bool,
    stopping: bool,
    /// When a stop gives up what waits in memory.
    deadline: Option<i64>,
    /// Why nothing may be written at all; ends the job.
    refusal: Option<EngineError>,
}

impl Delivery {
    /// Takes up what is stored.
    pub fn new(plan: SinkPlan, partition: &PartitionId, stored: &mut Stored) -> Self {
        let borders = stored.borders.remove(&plan.name);
        let (core, refusal) = Core::new(plan, partition.label(), stored);
        let way = match core.plan.contract {
            SinkContract::ProgressInTarget => Way::Marked(Marked::new(core.cursor.marked)),
            SinkContract::Token => Way::Bordered(Bordered::new(&core, partition, borders)),
            SinkContract::Sequence
            | SinkContract::VersionedUpsert
            | SinkContract::IdempotencyKey
            | SinkContract::Plain => Way::Repeated(Repeated::default()),
        };
        Delivery {
            core,
            way,
            calling: false,
            gated: false,
            halted: false,
            stopping: false,
            deadline: None,
            refusal,
        }
    }
    /// The sink's number.
    pub fn number(&self) -> u32 {
        self.core.plan.number
    }
    /// Whether what is owed is kept as positions of the partition's own rows.
    pub fn is_by_reference(&self) -> bool {
        self.core.rows.is_by_reference()
    }
    /// Puts a row into the epoch being gathered. By reference, a row that this job or an earlier one has taken is
    /// ignored: it was read again.
    pub fn push(&mut self, position: Position, row: &[u8]) {
        self.core.rows.push(position, row);
    }
    /// A row came with a position of the other form: nothing may be written any more.
    #[cold]
    pub fn refuse_form(&mut self) {
        let form = if self.is_by_reference() { "by reference" } else { "by value" };
        self.refusal.get_or_insert(EngineError::Invariant {
            partition: self.core.partition.clone(),
            rule: "SINK-CURSOR",
            detail: format!(
                "sink {} is written {form} and was given a row of the other form",
                self.core.plan.name
            ),
        });
    }
    /// Rows in the epoch being gathered.
    pub fn gathered_rows(&self) -> u64 {
        self.core.rows.gathered_rows()
    }
    /// Rows in the epoch being gathered that no epoch contained before.
    pub fn new_rows(&self) -> u64 {
        self.core.rows.new_rows()
    }
    /// Payload bytes in the epoch being gathered.
    pub fn gathered_bytes(&self) -> usize {
        self.core.rows.gathered_bytes()
    }
    /// The first row by reference that its target has not confirmed (CONTIGUOUS-PROGRESS): the partition's finished
    /// place must stay below. `None` by value, and if everything that was pushed is finished.
    pub fn unfinished(&self) -> Option<Position> {
        if !self.is_by_reference() {
            return None;
        }
        self.core.rows.first().into_iter().chain(self.promised()).min()
    }
    /// The first row of a block whose borders an earlier job has recorded and that is not confirmed.
    fn promised(&self) -> Option<Position> {
        match &self.way {
            Way::Bordered(way) => way.promised(),
            Way::Marked(_) | Way::Repeated(_) => None,
        }
    }
    /// Whether the job must wait before it takes more input.
    pub fn is_full(&self) -> bool {
        self.core.rows.is_full()
    }
    /// Current figures.
    pub fn figures(&self) -> SinkStats {
        self.core.rows.figures(self.core.plan.number)
    }
    /// Close and write blocks as soon as there is anything in them: the input has ended, or a stop.
    pub fn set_flush(&mut self) {
        self.core.flush = true;
    }
    /// The job shall end once it has delivered: no more input comes, and what may be lost is given its time.
    pub fn stop(&mut self) {
        self.core.flush = true;
        self.stopping = true;
    }
    /// Opens or closes the gate. What is open already stays open.
    pub fn set_gate(&mut self, closed: bool) {
        self.gated = closed;
    }
    /// Starts no further call.
    pub fn halt(&mut self) {
        self.halted = true;
    }
    /// Whether no call is under way.
    pub fn is_quiet(&self) -> bool {
        !self.calling
    }
    /// Whether nothing is owed and everything is recorded.
    pub fn is_settled(&self) -> bool {
        if self.core.is_dirty() || self.calling || self.refusal.is_some() {
            return false;
        }
        if self.stopping && self.waits_for_a_read() {
            return self.core.rows.is_recorded();
        }
        self.core.rows.is_empty() && (self.core.rows.is_shut() || self.way.is_at_rest())
    }
    /// Whether a recorded block can be written only after more of the source is read again.
    fn waits_for_a_read(&self) -> bool {
        match &self.way {
            Way::Bordered(way) => way.waits_for_a_read(&self.core),
            Way::Marked(_) | Way::Repeated(_) => false,
        }
    }
    /// Whether something waits for the next commit; `urgent` if it should not wait for the interval.
    pub fn wants_commit(&self) -> (bool, bool) {
        let proof = self.way.needs_epoch();
        let dirty =
            proof || self.core.is_dirty() || self.way.is_dirty() || self.core.rows.gathered_rows() > 0;
        (dirty, proof || (self.core.flush && dirty))
    }

    /// Writes this sink's part of the epoch that is being closed.
    pub fn write_epoch(&mut self, epoch: u64, writes: &mut WriteBatch) {
        let last = self.core.rows.write_epoch(epoch, writes);
        match &mut self.way {
            Way::Marked(way) => way.write_epoch(&mut self.core, epoch, last),
            Way::Repeated(_) => self.core.intend(last),
            Way::Bordered(way) => {
                self.core.intend(last);
                way.write_epoch(&self.core.plan.name, epoch, writes);
            }
        }
        self.core.write_cursor(writes);
    }
    /// An epoch is committed: its rows are owed from now on, and what waited for it goes on.
    pub fn committed(&mut self, epoch: u64) {
        self.core.rows.committed(epoch);
        match &mut self.way {
            Way::Marked(way) => way.committed(epoch),
            Way::Repeated(_) => {}
            Way::Bordered(way) => way.committed(epoch),
        }
    }

    /// Does what can be done now. Answers when to be asked again.
    pub fn poll(
        &mut self,
        now: i64,
        nonces: &mut Nonces,
        out: &mut Vec<Request>,
    ) -> Result<Option<i64>, JobEnd> {
        if let Some(refusal) = &self.refusal {
            return Err(JobEnd::Failed(refusal.clone()));
        }
        let deadline = self.suspend(now);
        if self.halted || self.gated || self.calling || self.core.rows.is_shut() {
            return Ok(deadline);
        }
        let step = match &mut self.way {
            Way::Marked(way) => way.next(&mut self.core, now, nonces),
            Way::Repeated(way) => way.next(&mut self.core, now),
            Way::Bordered(way) => way.next(&mut self.core, now, self.stopping)?,
        };
        match step {
            Step::Call(call) => {
                self.calling = true;
                out.push(Request::Target { sink: self.core.plan.number, call });
                Ok(deadline)
            }
            Step::Wait(at) => Ok([at, deadline].into_iter().flatten().min()),
        }
    }

    /// After a stop, what waits in memory only is written for a while and then dropped. Answers when that is.
    fn suspend(&mut self, now: i64) -> Option<i64> {
        let limits = self.core.plan.at_most_once?;
        if !self.stopping || self.core.rows.is_shut() {
            return None;
        }
        let deadline = *self.deadline.get_or_insert(now.saturating_add(limits.suspend_us));
        if deadline > now {
            return Some(deadline);
        }
        let attempt = self.way.attempt();
        self.core.rows.shut(attempt);
        None
    }

    /// Takes the target's answer.
    pub fn answered(&mut self, now: i64, answer: Result<TargetAnswer, TargetError>) -> Result<(), JobEnd> {
        if !std::mem::take(&mut self.calling) {
            return Err(self.core.broken("OPEN-ORDER", format!("answered {answer:?} to no call")));
        }
        let error = match answer {
            Ok(answer) => return self.way.answered(&mut self.core, answer),
            Err(error) => error,
        };
        // AT-MOST-ONCE: an attempt that has started is never retried, whatever became of it.
        let lost = self.way.attempt().filter(|_| self.core.rows.is_lossy());
        if let Some(last) = lost {
            self.core.give_up(last);
        }
        match error {
            TargetError::Fenced(reason) => Err(JobEnd::Fenced(reason)),
            TargetError::Definite(_) if lost.is_some() => {
                self.way.go_on();
                Ok(())
            }
            TargetError::Definite(error) => Err(JobEnd::Failed(EngineError::Target {
                sink: self.core.plan.name.clone(),
                partition: self.core.partition.clone(),
                error,
            })),
            TargetError::Unknown(reason) => {
                let until = self.core.again(now, reason)?;
                self.way.again(until, lost.is_some());
                Ok(())
            }
        }
    }
}

impl Way {
    /// Whether it does not go on without an epoch.
    fn needs_epoch(&self) -> bool {
        match self {
            Way::Marked(way) => way.needs_epoch(),
            Way::Repeated(_) => false,
            Way::Bordered(way) => way.needs_epoch(),
        }
    }
    /// Whether something of its own is to be recorded.
    fn is_dirty(&self) -> bool {
        matches!(self, Way::Bordered(way) if way.is_dirty())
    }
    /// Whether nothing is half done.
    fn is_at_rest(&self) -> bool {
        match self {
            Way::Marked(way) => way.is_at_rest(),
            Way::Repeated(way) => way.is_at_rest(),
            Way::Bordered(way) => way.is_at_rest(),
        }
    }
    /// The last row of the block whose writing is under way.
    fn attempt(&self) -> Option<Position> {
        match self {
            Way::Marked(way) => way.attempt(),
            Way::Repeated(way) => way.attempt(),
            Way::Bordered(way) => way.attempt(),
        }
    }
    fn answered(&mut self, core: &mut Core, answer: TargetAnswer) -> Result<(), JobEnd> {
        match self {
            Way::Marked(way) => way.answered(core, answer),
            Way::Repeated(way) => way.answered(core, answer),
            Way::Bordered(way) => way.answered(core, answer),
        }
    }
    /// The block under way was definitely not applied and is given up.
    fn go_on(&mut self) {
        match self {
            Way::Marked(way) => way.go_on(),
            Way::Repeated(way) => way.go_on(),
            Way::Bordered(way) => way.go_on(),
        }
    }
    /// The outcome of a call is unknown: try again then, unless the block is given up.
    fn again(&mut self, until: i64, given_up: bool) {
        match self {
            Way::Marked(way) => way.again(until),
            Way::Repeated(way) if given_up => way.go_on(),
            Way::Repeated(way) => way.again(until),
            Way::Bordered(way) if given_up => way.go_on(),
            Way::Bordered(way) => way.again(until),
        }
    }
}
