//! The `Store` trait.

use onceward_protocol::{CommitOutcome, Generation, PartitionHead, PartitionId, chain::Head};

use crate::batch::{TableId, WriteBatch};
use crate::error::StoreError;

/// One epoch of one partition: applied as a whole or not at all.
#[derive(Clone, Debug)]
pub struct EpochCommit {
    /// The partition.
    pub partition: PartitionId,
    /// The job that commits.
    pub generation: Generation,
    /// Its epoch, above the predecessor's.
    pub epoch: u64,
    /// The very commit that the job had seen last (CHAIN); `None` for a partition's first.
    pub predecessor: Option<Head>,
    /// What changes.
    pub writes: WriteBatch,
}

impl EpochCommit {
    /// The epoch that follows `head`, the partition's last commit.
    pub fn after(
        partition: PartitionId,
        generation: Generation,
        head: Option<Head>,
        writes: WriteBatch,
    ) -> Self {
        let epoch = head.map_or(0, |head| head.epoch) + 1;
        EpochCommit { partition, generation, epoch, predecessor: head, writes }
    }
    /// What the partition's head is once this is committed.
    pub fn head(&self) -> Head {
        Head { generation: self.generation, epoch: self.epoch }
    }
}

/// One step of a transaction over several partitions.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Changes nothing, and refuses the transaction unless this very generation owns the partition: the
    /// leader's term.
    Require(PartitionId, Generation),
    /// As [`Store::grant`].
    Grant(PartitionId, Generation),
    /// As [`Store::revoke`].
    Revoke(PartitionId),
    /// As [`Store::commit`].
    Commit(EpochCommit),
}

impl Operation {
    /// The partition that it concerns.
    pub fn partition(&self) -> &PartitionId {
        match self {
            Operation::Require(partition, _)
            | Operation::Grant(partition, _)
            | Operation::Revoke(partition)
            | Operation::Commit(EpochCommit { partition, .. }) => partition,
        }
    }
}

/// Names a submission until its outcome is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

/// What became of a submission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Which submission.
    pub ticket: Ticket,
    /// The verdict. For a grant `Committed` means durable.
    pub outcome: CommitOutcome,
}

/// A store. Submissions take effect in the order in which they are made; grants and commits share that
/// order. Nothing is durable before a `flush` says so.
pub trait Store: Send {
    /// Gives the partition to a new job and revokes whoever had it. The caller mints the generation with
    /// a number above `head().last_number`.
    fn grant(&mut self, partition: &PartitionId, generation: Generation) -> Ticket;
    /// Takes the partition from its job without a successor.
    fn revoke(&mut self, partition: &PartitionId) -> Ticket;
    /// Submits an epoch.
    fn commit(&mut self, commit: EpochCommit) -> Ticket;
    /// Submits several steps as one: all or nothing, in the same order as everything else that is
    /// submitted. They are judged in order, each on top of the ones before it, so that a commit may follow
    /// the grant of its partition; the first refusal is the outcome of the whole (RECUT-ATOMIC,
    /// SPEC-CHANGE).
    fn transact(&mut self, operations: Vec<Operation>) -> Ticket;
    /// Makes everything submitted durable as one group and appends one outcome per submission to
    /// `outcomes`, in order of submission. On an error the outcomes are appended all the same (as
    /// `Unknown`, for those that were not refused) and every later call fails.
    fn flush(&mut self, outcomes: &mut Vec<Outcome>) -> Result<(), StoreError>;
    /// What is committed of a partition: owner and last commit.
    fn head(&self, partition: &PartitionId) -> Result<PartitionHead, StoreError>;
    /// Visits the committed rows of one table in key order. Rows of submissions not yet flushed are not seen.
    fn scan(
        &self,
        partition: &PartitionId,
        table: TableId,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), StoreError>;
    /// Every partition ever granted or committed, in order of id.
    fn partitions(&self) -> Result<Vec<PartitionId>, StoreError>;
}
