//! What the rest of the process holds of an open store.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, PoisonError};

use onceward_protocol::{CommitOutcome, Generation, PartitionHead, PartitionId};

use super::Shared;
use super::log_thread::{Completion, Read, Request, Submission};
use crate::batch::TableId;
use crate::disk::{Disk, OsDisk};
use crate::embedded::PartitionView;
use crate::error::StoreError;
use crate::store::{EpochCommit, Operation};

/// Rows of a table: key and value, in key order.
pub type TableRows = Vec<(Vec<u8>, Vec<u8>)>;

/// Numbers that the log thread publishes after every flush.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    pub log_bytes: AtomicU64,
    pub written_bytes: AtomicU64,
    pub snapshot_bytes: AtomicU64,
    pub sequence: AtomicU64,
}

/// How a store is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Bytes of the log since the last snapshot: what the next open has to read.
    pub log_bytes: u64,
    /// Bytes of the log written since the store was opened.
    pub written_bytes: u64,
    /// Size of the newest snapshot in bytes.
    pub snapshot_bytes: u64,
    /// The sequence number of the last durable group.
    pub sequence: u64,
    /// How often the log was made durable since the store was opened.
    pub sync_count: u64,
    /// Half of all syncs took no longer, in microseconds.
    pub sync_p50_us: u64,
    /// 99 of 100 syncs took no longer, in microseconds.
    pub sync_p99_us: u64,
    /// Half of all flushes (write and sync) took no longer, in microseconds.
    pub flush_p50_us: u64,
    /// 99 of 100 flushes took no longer, in microseconds.
    pub flush_p99_us: u64,
    /// Bytes left on the device, where the system says.
    pub free_bytes: Option<u64>,
}

/// A way to submit to an open store and to read it, from any thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StoreHandle {
    pub(crate) sender: SyncSender<Request>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) dir: Arc<Path>,
}

impl StoreHandle {
    /// Submits an epoch; waits if the queue is full. `done` gets the outcome, always exactly once, on
    /// the log thread: it must neither block nor submit.
    pub fn submit_commit(&self, commit: EpochCommit, done: Box<dyn FnOnce(CommitOutcome) + Send>) {
        self.submit(Submission::Commit(commit), done);
    }
    /// Submits a grant; as [`StoreHandle::submit_commit`].
    pub fn submit_grant(
        &self,
        partition: &PartitionId,
        generation: Generation,
        done: Box<dyn FnOnce(CommitOutcome) + Send>,
    ) {
        self.submit(Submission::Grant(partition.clone(), generation), done);
    }
    /// Submits a revocation; as [`StoreHandle::submit_commit`].
    pub fn submit_revoke(&self, partition: &PartitionId, done: Box<dyn FnOnce(CommitOutcome) + Send>) {
        self.submit(Submission::Revoke(partition.clone()), done);
    }
    /// Submits a transaction; as [`StoreHandle::submit_commit`].
    pub fn submit_transact(&self, operations: Vec<Operation>, done: Box<dyn FnOnce(CommitOutcome) + Send>) {
        self.submit(Submission::Transact(operations), done);
    }
    /// Submits a transaction and waits for the outcome.
    pub fn transact(&self, operations: Vec<Operation>) -> CommitOutcome {
        self.wait(Submission::Transact(operations))
    }
    /// Commits an epoch and waits for the outcome.
    pub fn commit(&self, commit: EpochCommit) -> CommitOutcome {
        self.wait(Submission::Commit(commit))
    }
    /// Grants a partition and waits until that is durable.
    pub fn grant(&self, partition: &PartitionId, generation: Generation) -> CommitOutcome {
        self.wait(Submission::Grant(partition.clone(), generation))
    }
    /// Revokes a partition and waits until that is durable.
    pub fn revoke(&self, partition: &PartitionId) -> CommitOutcome {
        self.wait(Submission::Revoke(partition.clone()))
    }

    /// What is committed of a partition: owner and last commit.
    pub fn head(&self, partition: &PartitionId) -> Result<PartitionHead, StoreError> {
        self.view(partition).map(|view| view.head())
    }
    /// The committed rows of one table, in key order. The reading happens in the calling thread.
    pub fn scan(&self, partition: &PartitionId, table: TableId) -> Result<TableRows, StoreError> {
        let mut rows = Vec::new();
        self.view(partition)?.scan(table, &mut |key, value| rows.push((key.to_vec(), value.to_vec())))?;
        Ok(rows)
    }
    /// What is committed of a partition now: several tables as of one moment, visited without a copy.
    pub fn view(&self, partition: &PartitionId) -> Result<PartitionView, StoreError> {
        self.ask(|reply| Read::View(partition.clone(), reply))
    }
    /// Every partition ever granted or committed, in order of id.
    pub fn partitions(&self) -> Result<Vec<PartitionId>, StoreError> {
        self.ask(Read::Partitions)
    }
    /// Why the store stopped, if it did. It has to be opened again.
    pub fn failure(&self) -> Option<String> {
        self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// How the store is doing.
    pub fn stats(&self) -> Stats {
        let Shared { syncs, flushes, gauges, .. } = &*self.shared;
        Stats {
            log_bytes: gauges.log_bytes.load(Ordering::Relaxed),
            written_bytes: gauges.written_bytes.load(Ordering::Relaxed),
            snapshot_bytes: gauges.snapshot_bytes.load(Ordering::Relaxed),
            sequence: gauges.sequence.load(Ordering::Relaxed),
            sync_count: syncs.count(),
            sync_p50_us: syncs.percentile(50.0),
            sync_p99_us: syncs.percentile(99.0),
            flush_p50_us: flushes.percentile(50.0),
            flush_p99_us: flushes.percentile(99.0),
            free_bytes: OsDisk.space(&self.dir).ok(),
        }
    }

    fn submit(&self, submission: Submission, done: Box<dyn FnOnce(CommitOutcome) + Send>) {
        // To a closed store nothing can be sent; dropping the request answers it.
        let _ = self.sender.send(Request::Submit(submission, Completion::new(done)));
    }
    fn wait(&self, submission: Submission) -> CommitOutcome {
        let (reply, answer) = sync_channel(1);
        self.submit(
            submission,
            Box::new(move |outcome| {
                let _ = reply.send(outcome);
            }),
        );
        answer.recv().unwrap_or(CommitOutcome::Unknown)
    }
    fn ask<T>(
        &self,
        question: impl FnOnce(SyncSender<Result<T, StoreError>>) -> Read,
    ) -> Result<T, StoreError> {
        let (reply, answer) = sync_channel(1);
        self.sender.send(Request::Read(question(reply))).map_err(|_| StoreError::Closed)?;
        answer.recv().map_err(|_| StoreError::Closed)?
    }
}
