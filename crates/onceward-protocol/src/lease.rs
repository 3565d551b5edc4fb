//! Leases: which worker runs which partition, and until when.
//!
//! A lease's expiry is a *liveness* timer: it decides when a partition gets another worker, never whether a write
//! counts. Two clocks that disagree, a worker that was suspended for an hour, a controller that aborts too early: all
//! of them cost time only, because a commit is accepted from the generation that owns the partition, on top of the
//! commit that it had seen, and from nobody else (GEN-PER-JOB, CHAIN). So nothing here is asked before a write.
//!
//! Times are microseconds of a clock that does not go back; each side uses its own.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use crate::generation::Generation;

/// A worker of this run of the pipeline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WorkerId(pub u32);

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {}", self.0)
    }
}

/// The right, and the duty, to run a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    /// The job.
    pub generation: Generation,
    /// Who runs it.
    pub worker: WorkerId,
    /// When it ends unless it is renewed before.
    pub expires_at: i64,
}

/// Why a lease ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AbortReason {
    /// The job ended with an error.
    JobFailed,
    /// Its worker is gone.
    LostWorker,
    /// Another worker is to run it.
    Rebalanced,
    /// Its range was re-cut; a retired parent goes on to drain under its own identity.
    Recut,
    /// The pipeline is stopped.
    Stopped,
    /// The pipeline is paused.
    Paused,
    /// The pipeline has completed.
    Completed,
    /// It was not renewed in time.
    Expired,
}

impl AbortReason {
    /// All of them.
    pub const ALL: [AbortReason; 8] = [
        AbortReason::JobFailed,
        AbortReason::LostWorker,
        AbortReason::Rebalanced,
        AbortReason::Recut,
        AbortReason::Stopped,
        AbortReason::Paused,
        AbortReason::Completed,
        AbortReason::Expired,
    ];
    /// Whether the partition gets another job. Not after stop, pause and completion.
    pub fn replaces(self) -> bool {
        !matches!(self, AbortReason::Stopped | AbortReason::Paused | AbortReason::Completed)
    }
    /// The name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            AbortReason::JobFailed => "job_failed",
            AbortReason::LostWorker => "lost_worker",
            AbortReason::Rebalanced => "rebalanced",
            AbortReason::Recut => "recut",
            AbortReason::Stopped => "stopped",
            AbortReason::Paused => "paused",
            AbortReason::Completed => "completed",
            AbortReason::Expired => "expired",
        }
    }
}

impl fmt::Display for AbortReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a lease was not granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("partition {partition} is leased to {} as {}; abort that lease first", .held.worker, .held.generation)]
pub struct LeaseRefused {
    /// The partition's number.
    pub partition: u32,
    /// The lease that it has.
    pub held: Lease,
}

/// The controller's side: one lease per partition at most, by the partition's number in the layout.
#[derive(Clone, Debug, Default)]
pub struct LeaseTable {
    leases: BTreeMap<u32, Lease>,
}

impl LeaseTable {
    /// Grants a partition that has no lease. One that has expired is aborted first, so that every end has its reason.
    pub fn grant(&mut self, partition: u32, lease: Lease) -> Result<(), LeaseRefused> {
        match self.leases.entry(partition) {
            Entry::Vacant(free) => {
                free.insert(lease);
                Ok(())
            }
            Entry::Occupied(taken) => Err(LeaseRefused { partition, held: *taken.get() }),
        }
    }
    /// Renews a lease: `worker` says that it still runs `generation`. Answers `false`, and the job must end, if the
    /// partition is leased to another job or to none, or if the lease has expired already. Never shortens a lease.
    #[must_use = "a job whose lease is not renewed must end"]
    pub fn renew(
        &mut self,
        partition: u32,
        generation: Generation,
        worker: WorkerId,
        now: i64,
        ttl: i64,
    ) -> bool {
        match self.leases.get_mut(&partition) {
            Some(lease)
                if lease.generation == generation && lease.worker == worker && now < lease.expires_at =>
            {
                lease.expires_at = lease.expires_at.max(now.saturating_add(ttl));
                true
            }
            _ => false,
        }
    }
    /// Partitions whose leases have not been renewed in time.
    pub fn expired(&self, now: i64) -> Vec<u32> {
        self.leases.iter().filter(|(_, lease)| lease.expires_at <= now).map(|(number, _)| *number).collect()
    }
    /// Partitions that `worker` runs.
    pub fn of_worker(&self, worker: WorkerId) -> Vec<u32> {
        self.leases.iter().filter(|(_, lease)| lease.worker == worker).map(|(number, _)| *number).collect()
    }
    /// Ends a lease. Answers what it was, and whether the partition is to get another job. With a reason that does not
    /// replace, the store's grant is revoked too, so that a late commit is fenced.
    pub fn abort(&mut self, partition: u32, reason: AbortReason) -> Option<(Lease, bool)> {
        self.leases.remove(&partition).map(|lease| (lease, reason.replaces()))
    }
    /// The lease of a partition.
    pub fn get(&self, partition: u32) -> Option<&Lease> {
        self.leases.get(&partition)
    }
    /// All leases in order of partition.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Lease)> {
        self.leases.iter().map(|(number, lease)| (*number, lease))
    }
    /// How many there are.
    pub fn len(&self) -> usize {
        self.leases.len()
    }
    /// Whether no lease is live: what "stopped", "paused" and "completed" promise.
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }
}

/// The worker's side of its leases, on its own clock: how long it may believe that it has them. A worker that lost its
/// controller fences itself when this is over: it ends its jobs instead of computing what nobody will accept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tenure {
    until: i64,
}

impl Tenure {
    /// Begins with a grant or a heartbeat that was *sent* (not answered) at `sent_at`: with clocks of the same pace the
    /// worker then stops believing before the controller does.
    pub fn new(sent_at: i64, ttl: i64) -> Self {
        Tenure { until: sent_at.saturating_add(ttl) }
    }
    /// The controller has answered the heartbeat that was sent at `sent_at`. Answers that come late or out of order
    /// shorten nothing; one that comes after the end does not revive it.
    pub fn renew(&mut self, now: i64, sent_at: i64, ttl: i64) {
        if self.is_valid(now) {
            self.until = self.until.max(sent_at.saturating_add(ttl));
        }
    }
    /// Whether the jobs may go on.
    pub fn is_valid(&self, now: i64) -> bool {
        now < self.until
    }
    /// When the worker must look again.
    pub fn until(&self) -> i64 {
        self.until
    }
}
