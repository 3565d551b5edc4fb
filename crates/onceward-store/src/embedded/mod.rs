//! The embedded store: one process, one directory.
//!
//! A segmented log, filled with zeros ahead of need, is the only point of durability: a flush is one
//! write and one sync. Tables are in memory; snapshots bound how much of the log an open reads.
//!
//! [`EmbeddedCore`] has no threads, no clock and no randomness; it does the same for the same calls.
//! [`EmbeddedStore`](crate::EmbeddedStore) puts threads around it.

mod frame;
mod layout;
mod log;
mod maintenance;
mod newest;
mod options;
mod partition;
mod recovery;
mod replay;
mod segment;
mod snapshot;
mod table;
mod verdict;

use std::path::{Path, PathBuf};

use onceward_protocol::{CommitOutcome, Fenced, Generation, Mutants, PartitionHead, PartitionId};

use crate::batch::TableId;
use crate::disk::{Disk, Locking, site};
use crate::error::StoreError;
use crate::store::{EpochCommit, Operation, Outcome, Store, Ticket};
use layout::{LOCK_NAME, refused};
use log::Log;
use maintenance::{Done, Job, SnapshotJob};
use partition::Partitions;
use snapshot::{SnapshotPart, SnapshotPoint};
use table::Rows;
use verdict::{judge, judge_all};

pub(crate) use layout::FORMAT_NAME;
pub use layout::FORMAT_VERSION;
pub use maintenance::{MaintenanceDone, MaintenanceJob, MaintenanceKind, Retired};
pub use options::Options;
pub use partition::PartitionView;

/// The log may grow to so many times the length at which a snapshot is due, while one is taken.
const OVERDUE_FACTOR: u64 = 4;

/// What an operation does once it is durable: its partition gets this head, and these rows, if any, on top.
#[derive(Debug)]
struct Effect {
    partition: usize,
    head: PartitionHead,
    writes: Vec<u8>,
}

#[derive(Debug)]
struct Staged {
    ticket: Ticket,
    /// The verdict, should the flush succeed.
    verdict: CommitOutcome,
    /// None if it was refused, or had nothing to do.
    effects: Vec<Effect>,
}

/// The store without its threads: a state machine over a [`Disk`].
#[derive(Debug)]
pub struct EmbeddedCore<D: Disk> {
    disk: D,
    dir: PathBuf,
    options: Options,
    mutants: Mutants,
    partitions: Partitions,
    log: Log<D::File>,
    /// Sequence number and size of the newest snapshot.
    snapshot: Option<(u64, u64)>,
    /// A snapshot is not tried before the log since the last one is so long: it did not fit before.
    snapshot_not_before: u64,
    tables_pending: bool,
    staged: Vec<Staged>,
    next_ticket: u64,
    failure: Option<String>,
    /// Released last.
    _lock: D::Lock,
}

fn reason(error: &StoreError) -> String {
    match error {
        StoreError::Io { action, path, source } => format!("cannot {action} {}: {source}", path.display()),
        StoreError::Full { path } => format!("no space left for {}", path.display()),
        other => other.to_string(),
    }
}

impl<D: Disk> EmbeddedCore<D> {
    /// Opens the store in `dir`, or makes one if there is none. `mutants` is [`Mutants::NONE`] outside
    /// tests. A directory that is in use, newer or damaged is refused and left as it was.
    ///
    /// Reads the newest snapshot and the log from there on, whole and into memory, so that damage is found
    /// here and never by a job. Loading one partition afterwards reads its own rows and no others.
    pub fn open(disk: D, dir: &Path, options: Options, mutants: Mutants) -> Result<Self, StoreError> {
        disk.create_dir(site::DIR_CREATE, dir).map_err(refused("create", dir))?;
        let path = dir.join(LOCK_NAME);
        let note = std::process::id().to_string();
        let lock = match disk.lock(site::LOCK_CREATE, &path, &note).map_err(refused("lock", &path))? {
            Locking::Acquired(lock) => lock,
            Locking::Held(holder) => return Err(StoreError::Locked { path: dir.to_owned(), holder }),
        };
        let recovered = recovery::recover(&disk, dir, &options, mutants)?;
        Ok(EmbeddedCore {
            disk,
            dir: dir.to_owned(),
            options,
            mutants,
            partitions: recovered.partitions,
            log: recovered.log,
            snapshot: recovered.snapshot,
            snapshot_not_before: 0,
            tables_pending: false,
            staged: Vec::new(),
            next_ticket: 0,
            failure: None,
            _lock: lock,
        })
    }

    /// Why the store stopped, if it did.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
    /// Bytes of the log written since the store was opened.
    pub fn written_bytes(&self) -> u64 {
        self.log.written
    }
    /// What the log since the last snapshot takes up on the disk; the next open has to read it.
    pub fn log_bytes(&self) -> u64 {
        self.log.since_snapshot
    }
    /// Size of the newest snapshot in bytes; 0 before the first.
    pub fn snapshot_bytes(&self) -> u64 {
        self.snapshot.map_or(0, |(_, bytes)| bytes)
    }
    /// Bytes of rows in memory, with what is overwritten and not yet folded. Visits every partition.
    pub fn table_bytes(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.rows.base_bytes() + partition.rows.run_bytes()).sum()
    }
    /// The sequence number of the last durable group; 0 for a store that was never written to.
    pub fn sequence(&self) -> u64 {
        self.log.next_sequence - 1
    }
    /// What is committed of a partition now, to be read in any thread.
    pub fn view(&self, partition: &PartitionId) -> Result<PartitionView, StoreError> {
        self.alive()?;
        let found = self.partitions.find(partition).and_then(|index| self.partitions.get(index));
        Ok(PartitionView {
            head: found.map_or_else(PartitionHead::default, |found| found.head),
            rows: found.map_or_else(Rows::default, |found| found.rows.clone()),
            dir: self.dir.clone(),
        })
    }

    /// A piece of work that is due, if there is one; call it until it answers `None`. The store goes
    /// on meanwhile. Every job has to come back through [`EmbeddedCore::finish_maintenance`].
    pub fn maintenance(&mut self) -> Option<MaintenanceJob> {
        if self.failure.is_some() {
            return None;
        }
        let dir = self.dir.clone();
        if let Some((number, size)) = self.log.wants_spare(&self.options) {
            self.log.spare_pending = true;
            return Some(MaintenanceJob(Job::Segment { dir, number, size }));
        }
        if self.tables_pending {
            return None;
        }
        if self.log.since_snapshot > self.snapshot_due().max(self.snapshot_not_before) {
            self.tables_pending = true;
            return Some(MaintenanceJob(Job::Snapshot(self.snapshot_job(dir))));
        }
        let unfolded = |rows: &Rows| {
            rows.run_bytes() > self.options.fold_min_bytes.max(rows.base_bytes().saturating_mul(2))
        };
        let (partition, found) =
            self.partitions.iter().enumerate().find(|(_, partition)| unfolded(&partition.rows))?;
        let rows = found.rows.clone();
        self.tables_pending = true;
        Some(MaintenanceJob(Job::Fold { dir, partition, rows }))
    }

    /// Whether maintenance under way is so far behind that commits should wait for it: the log, and with
    /// it memory and the time of the next open, must stay bounded.
    pub fn overdue(&self) -> bool {
        // A store that stopped takes no more results: whoever waited for one would wait for ever.
        self.failure.is_none()
            && self.tables_pending
            && self.log.since_snapshot > self.snapshot_due().saturating_mul(OVERDUE_FACTOR)
    }
    fn snapshot_due(&self) -> u64 {
        self.options.snapshot_min_bytes.max(self.snapshot_bytes().saturating_mul(2))
    }
    fn snapshot_job(&self, dir: PathBuf) -> SnapshotJob {
        // A partition that only an unflushed grant knows has a number already; it is left out, and so
        // is every later one, for none of them is durable.
        let parts = self
            .partitions
            .iter()
            .take_while(|partition| partition.durable)
            .map(|partition| SnapshotPart {
                id: partition.id.clone(),
                head: partition.head,
                rows: partition.rows.clone(),
            })
            .collect();
        SnapshotJob {
            dir,
            point: SnapshotPoint { sequence: self.sequence(), segment: self.log.active.number },
            covered: self.log.since_snapshot,
            parts,
            obsolete_segments: self.log.older.clone(),
            obsolete_snapshot: self.snapshot.map(|(sequence, _)| sequence),
            mutants: self.mutants,
        }
    }

    /// Takes the result of a job. Running out of space is no failure here: the store goes on with what
    /// it has. Any other error stops it.
    pub fn finish_maintenance(&mut self, done: MaintenanceDone<D>) -> Result<Retired, StoreError> {
        self.alive()?;
        let result = match done.0 {
            Done::Segment(result) => {
                self.log.spare_pending = false;
                self.log.spare_denied = result.is_err();
                result.map(|segment| {
                    self.log.spare = Some(segment);
                    Retired::default()
                })
            }
            Done::Fold { partition, rows, result } => {
                self.tables_pending = false;
                result.map(|base| {
                    let replaced =
                        self.partitions.get_mut(partition).map(|found| found.rows.replace(&rows, base));
                    Retired { rows: replaced.into_iter().chain([rows]).collect() }
                })
            }
            Done::Snapshot { job, result } => {
                self.tables_pending = false;
                self.snapshot_not_before = match &result {
                    Ok(_) => 0,
                    Err(_) => self.log.since_snapshot.saturating_add(self.options.snapshot_min_bytes),
                };
                result.map(|(bases, bytes)| {
                    self.snapshot = Some((job.point.sequence, bytes));
                    self.log.since_snapshot = self.log.since_snapshot.saturating_sub(job.covered);
                    self.log.older.retain(|number| *number >= job.point.segment);
                    let mut retired = Retired::default();
                    for (index, (part, base)) in job.parts.into_iter().zip(bases).enumerate() {
                        if let Some(found) = self.partitions.get_mut(index) {
                            retired.rows.push(found.rows.replace(&part.rows, base));
                        }
                        retired.rows.push(part.rows);
                    }
                    retired
                })
            }
        };
        match result {
            Err(StoreError::Full { .. }) => Ok(Retired::default()),
            Err(error) => Err(self.fail(&error)),
            Ok(retired) => Ok(retired),
        }
    }

    /// Runs every piece of maintenance that is due, here and now.
    pub fn maintain(&mut self) -> Result<(), StoreError> {
        while let Some(job) = self.maintenance() {
            let done = job.run(&self.disk);
            self.finish_maintenance(done)?;
        }
        self.alive()
    }

    fn alive(&self) -> Result<(), StoreError> {
        match &self.failure {
            Some(reason) => Err(StoreError::Poisoned { reason: reason.clone() }),
            None => Ok(()),
        }
    }
    fn fail(&mut self, error: &StoreError) -> StoreError {
        let reason = self.failure.get_or_insert_with(|| reason(error)).clone();
        match error {
            StoreError::Full { path } => StoreError::Full { path: path.clone() },
            _ => StoreError::Poisoned { reason },
        }
    }
    fn stage(&mut self, verdict: CommitOutcome, effects: Vec<Effect>) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.staged.push(Staged { ticket, verdict, effects });
        ticket
    }
    /// The partition's number, given by a record of the log if it has none yet.
    fn declared(&mut self, partition: &PartitionId) -> usize {
        if let Some(index) = self.partitions.find(partition) {
            return index;
        }
        let index = self.partitions.add(partition.clone(), PartitionHead::default(), false, Rows::default());
        self.log.group.declare(index as u64, partition);
        index
    }
    fn submitted(&self, partition: &PartitionId) -> PartitionHead {
        let found = self.partitions.find(partition).and_then(|index| self.partitions.get(index));
        found.map_or_else(PartitionHead::default, |found| found.submitted)
    }
    fn submit(&mut self, operation: Operation) -> Ticket {
        if self.failure.is_some() {
            return self.stage(CommitOutcome::Unknown, Vec::new());
        }
        match judge(self.submitted(operation.partition()), &operation, self.mutants) {
            Ok(head) => {
                let effects = self.record(operation, head).into_iter().collect();
                self.stage(CommitOutcome::Committed, effects)
            }
            Err(fenced) => self.refuse(fenced),
        }
    }
    fn refuse(&mut self, fenced: Fenced) -> Ticket {
        self.stage(CommitOutcome::Fenced(fenced), Vec::new())
    }
    /// Puts an operation that was accepted into the group, and its partition's head where the next verdict is
    /// made against it.
    fn record(&mut self, operation: Operation, head: PartitionHead) -> Option<Effect> {
        let index = match &operation {
            Operation::Require(..) => return None,
            // What was never granted needs no revoking.
            Operation::Revoke(partition) => self.partitions.find(partition)?,
            Operation::Grant(partition, _) | Operation::Commit(EpochCommit { partition, .. }) => {
                self.declared(partition)
            }
        };
        let (number, group) = (index as u64, &mut self.log.group);
        match &operation {
            Operation::Require(..) => {}
            Operation::Revoke(_) => group.revoke(number),
            Operation::Grant(_, generation) => group.grant(number, *generation),
            Operation::Commit(EpochCommit { generation, epoch, writes, .. }) => {
                group.commit(number, *generation, *epoch, writes.as_bytes());
            }
        }
        if let Some(partition) = self.partitions.get_mut(index) {
            partition.submitted = head;
        }
        let writes = match operation {
            Operation::Commit(commit) => commit.writes.into_bytes(),
            _ => Vec::new(),
        };
        Some(Effect { partition: index, head, writes })
    }
    fn apply(&mut self, effect: Effect) {
        let Effect { partition, head, writes } = effect;
        if let Some(partition) = self.partitions.get_mut(partition) {
            partition.durable = true;
            partition.head = head;
            partition.rows.push(writes);
        }
    }
}

impl<D: Disk> Store for EmbeddedCore<D> {
    /// Refused, as not the owner's, if the number is not above the last one.
    fn grant(&mut self, partition: &PartitionId, generation: Generation) -> Ticket {
        self.submit(Operation::Grant(partition.clone(), generation))
    }

    fn revoke(&mut self, partition: &PartitionId) -> Ticket {
        self.submit(Operation::Revoke(partition.clone()))
    }

    fn commit(&mut self, commit: EpochCommit) -> Ticket {
        self.submit(Operation::Commit(commit))
    }

    /// Whatever is submitted between two flushes becomes one frame of the log, whole or not there: a
    /// transaction needs no record of its own.
    fn transact(&mut self, operations: Vec<Operation>) -> Ticket {
        if self.failure.is_some() {
            return self.stage(CommitOutcome::Unknown, Vec::new());
        }
        match judge_all(&operations, |partition| self.submitted(partition), self.mutants) {
            Ok(heads) => {
                let accepted = operations.into_iter().zip(heads);
                let effects = accepted.filter_map(|(operation, head)| self.record(operation, head)).collect();
                self.stage(CommitOutcome::Committed, effects)
            }
            Err(fenced) => self.refuse(fenced),
        }
    }

    fn flush(&mut self, outcomes: &mut Vec<Outcome>) -> Result<(), StoreError> {
        let written = match self.alive() {
            Ok(()) => {
                self.log.write_group(&self.disk, &self.dir, &self.options).map_err(|error| self.fail(&error))
            }
            stopped => stopped,
        };
        for Staged { ticket, verdict, effects } in std::mem::take(&mut self.staged) {
            let outcome = match verdict {
                CommitOutcome::Committed if written.is_err() => CommitOutcome::Unknown,
                verdict => verdict,
            };
            if written.is_ok() {
                effects.into_iter().for_each(|effect| self.apply(effect));
            }
            outcomes.push(Outcome { ticket, outcome });
        }
        written
    }

    fn head(&self, partition: &PartitionId) -> Result<PartitionHead, StoreError> {
        self.alive()?;
        let found = self.partitions.find(partition).and_then(|index| self.partitions.get(index));
        Ok(found.map_or_else(PartitionHead::default, |found| found.head))
    }

    fn scan(
        &self,
        partition: &PartitionId,
        table: TableId,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), StoreError> {
        self.view(partition)?.scan(table, visit)
    }

    fn partitions(&self) -> Result<Vec<PartitionId>, StoreError> {
        self.alive()?;
        Ok(self.partitions.ids())
    }
}
