//! The chain of a job's epochs: pipelined, each on top of the one before (CHAIN).

use std::collections::VecDeque;

use onceward_protocol::chain::Head;
use onceward_protocol::{CommitOutcome, Generation, PartitionId};
use onceward_store::{EpochCommit, WriteBatch};

use crate::job::JobEnd;

/// How many epochs of one job may be on their way to the store at once.
pub const MAX_OPEN_EPOCHS: usize = 2;

/// An idle job commits at least this often, to learn that it lost its lease.
pub const IDLE_COMMIT_US: i64 = 60_000_000;

/// When a job closes its epochs: on a grid that all jobs share, so that one flush makes them all durable.
#[derive(Clone, Copy, Debug)]
pub struct EpochClock {
    interval: i64,
    last: i64,
}

impl EpochClock {
    /// A clock that closes every `interval` microseconds while there is something to commit.
    pub fn new(interval: i64) -> Self {
        EpochClock { interval: interval.max(1), last: i64::MIN }
    }
    /// The job begins, or an epoch was closed.
    pub fn restart(&mut self, now: i64) {
        self.last = now;
    }
    /// Whether the job has been idle for so long that it must commit all the same.
    pub fn is_idle(&self, now: i64) -> bool {
        now.saturating_sub(self.last) >= IDLE_COMMIT_US
    }
    /// When to close the epoch: the next place of the grid if there is something to commit.
    pub fn due(&self, dirty: bool) -> i64 {
        if dirty {
            self.last.div_euclid(self.interval).saturating_add(1).saturating_mul(self.interval)
        } else {
            self.last.saturating_add(IDLE_COMMIT_US)
        }
    }
}

/// Numbers epochs, chains them and keeps what is to happen once each is durable.
#[derive(Debug)]
pub struct Ledger<E> {
    partition: PartitionId,
    generation: Generation,
    predecessor: Option<Head>,
    committed: u64,
    next: u64,
    open: VecDeque<(u64, E)>,
}

impl<E> Ledger<E> {
    /// Starts on top of the stored head.
    pub fn new(partition: PartitionId, generation: Generation, head: Option<Head>) -> Self {
        let committed = head.map_or(0, |head| head.epoch);
        Ledger {
            partition,
            generation,
            predecessor: head,
            committed,
            next: committed + 1,
            open: VecDeque::new(),
        }
    }
    /// The job.
    pub fn generation(&self) -> Generation {
        self.generation
    }
    /// The partition.
    pub fn partition(&self) -> &PartitionId {
        &self.partition
    }
    /// The epoch being gathered now.
    pub fn current(&self) -> u64 {
        self.next
    }
    /// The last committed epoch.
    pub fn committed(&self) -> u64 {
        self.committed
    }
    /// Whether another epoch may be closed.
    pub fn has_room(&self) -> bool {
        self.open.len() < MAX_OPEN_EPOCHS
    }
    /// Whether everything closed is committed.
    pub fn is_settled(&self) -> bool {
        self.open.is_empty()
    }
    /// Closes the current epoch.
    pub fn close(&mut self, writes: WriteBatch, effects: E) -> EpochCommit {
        let epoch = self.next;
        let commit = EpochCommit {
            partition: self.partition.clone(),
            generation: self.generation,
            epoch,
            predecessor: self.predecessor,
            writes,
        };
        self.open.push_back((epoch, effects));
        self.predecessor = Some(Head { generation: self.generation, epoch });
        self.next += 1;
        commit
    }
    /// Takes the store's verdict; anything but `Committed` ends the job, and everything computed after
    /// the lost epoch is thrown away with it.
    pub fn settle(&mut self, epoch: u64, outcome: CommitOutcome) -> Result<E, JobEnd> {
        match outcome {
            CommitOutcome::Committed => match self.open.pop_front() {
                Some((expected, effects)) if expected == epoch => {
                    self.committed = epoch;
                    Ok(effects)
                }
                _ => Err(JobEnd::Unknown),
            },
            CommitOutcome::Fenced(reason) => Err(JobEnd::Fenced(reason.to_string())),
            CommitOutcome::Unknown => Err(JobEnd::Unknown),
        }
    }
}
