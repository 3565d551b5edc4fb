//! The thread that owns the store, and the threads that do its maintenance.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use onceward_protocol::{CommitOutcome, Generation, PartitionId};

use super::{GROUP_BYTES_LIMIT, QUEUE_LIMIT, Shared};
use crate::disk::Disk;
use crate::embedded::{
    EmbeddedCore, MaintenanceDone, MaintenanceJob, MaintenanceKind, PartitionView, Retired,
};
use crate::error::StoreError;
use crate::store::{EpochCommit, Operation, Store};

/// Something to be made durable.
#[derive(Debug)]
pub(crate) enum Submission {
    Commit(EpochCommit),
    Grant(PartitionId, Generation),
    Revoke(PartitionId),
    Transact(Vec<Operation>),
}

/// A question about what is committed.
#[derive(Debug)]
pub(crate) enum Read {
    View(PartitionId, SyncSender<Result<PartitionView, StoreError>>),
    Partitions(SyncSender<Result<Vec<PartitionId>, StoreError>>),
}

/// What the log thread is asked.
#[derive(Debug)]
pub(crate) enum Request {
    Submit(Submission, Completion),
    Read(Read),
    /// A maintenance thread has a result.
    Finished,
    Stop,
}

/// A caller's `done`: called exactly once, with `Unknown` if it is dropped on the way.
pub(crate) struct Completion(Option<Box<dyn FnOnce(CommitOutcome) + Send>>);

impl Completion {
    pub(crate) fn new(done: Box<dyn FnOnce(CommitOutcome) + Send>) -> Self {
        Completion(Some(done))
    }
    fn answer(mut self, outcome: CommitOutcome) {
        if let Some(done) = self.0.take() {
            done(outcome);
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done(CommitOutcome::Unknown);
        }
    }
}

impl std::fmt::Debug for Completion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Completion")
    }
}

/// What a maintenance thread is given.
enum Errand {
    Job(MaintenanceJob),
    /// Memory to be freed where nobody waits for it.
    Free(Retired),
}

/// One thread that does maintenance of one kind. At most one job and the leftovers of the job before
/// it are under way, so that sending an errand never waits.
struct Worker<D: Disk> {
    errands: SyncSender<Errand>,
    results: Receiver<MaintenanceDone<D>>,
    thread: JoinHandle<()>,
}

const ERRANDS_LIMIT: usize = 4;

impl<D: Disk> Worker<D> {
    fn start(name: &str, disk: D, bell: SyncSender<Request>) -> std::io::Result<Self> {
        let (errands, received) = sync_channel(ERRANDS_LIMIT);
        let (finished, results) = sync_channel(ERRANDS_LIMIT);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            for errand in received {
                match errand {
                    Errand::Job(job) => {
                        // The store may have closed meanwhile; then nobody waits for the result.
                        if finished.send(job.run(&disk)).is_err() {
                            return;
                        }
                        // A full queue needs no bell; and waiting for room in it would be waiting for
                        // the log thread, which may be waiting for the next result.
                        let _ = bell.try_send(Request::Finished);
                    }
                    Errand::Free(retired) => drop(retired),
                }
            }
        })?;
        Ok(Worker { errands, results, thread })
    }
}

struct LogThread<'s, D: Disk> {
    core: EmbeddedCore<D>,
    shared: &'s Shared,
    workers: Vec<(MaintenanceKind, Worker<D>)>,
    completions: Vec<Completion>,
    reads: Vec<Read>,
    outcomes: Vec<crate::store::Outcome>,
    group_bytes: usize,
    stopping: bool,
}

/// The log thread's life.
pub(super) fn run<D: Disk>(
    core: EmbeddedCore<D>,
    disk: D,
    requests: Receiver<Request>,
    bell: SyncSender<Request>,
    shared: &Shared,
) {
    let mut workers = Vec::new();
    for (kind, name) in
        [(MaintenanceKind::Segment, "onceward-segment"), (MaintenanceKind::Tables, "onceward-tables")]
    {
        // Without the thread the work is done here, later and slower.
        if let Ok(worker) = Worker::start(name, disk.clone(), bell.clone()) {
            workers.push((kind, worker));
        }
    }
    drop(bell);
    let mut thread = LogThread {
        core,
        shared,
        workers,
        completions: Vec::new(),
        reads: Vec::new(),
        outcomes: Vec::new(),
        group_bytes: 0,
        stopping: false,
    };
    thread.publish();
    while !thread.stopping {
        let Ok(first) = requests.recv() else { break };
        thread.take(first);
        let mut taken = 1;
        while taken < QUEUE_LIMIT
            && thread.group_bytes < GROUP_BYTES_LIMIT
            && let Ok(next) = requests.try_recv()
        {
            thread.take(next);
            taken += 1;
        }
        thread.flush(&disk);
    }
    // What was queued before the stop is still served, as far as it is here; the rest is answered
    // by being dropped.
    while let Ok(next) = requests.try_recv() {
        thread.take(next);
    }
    thread.flush(&disk);
    drop(requests);
    for (_, Worker { errands, results, thread }) in thread.workers.drain(..) {
        drop((errands, results));
        let _ = thread.join();
    }
}

impl<D: Disk> LogThread<'_, D> {
    fn take(&mut self, request: Request) {
        match request {
            Request::Submit(submission, completion) => {
                match submission {
                    Submission::Commit(commit) => {
                        self.group_bytes += commit.writes.as_bytes().len();
                        self.core.commit(commit)
                    }
                    Submission::Grant(partition, generation) => self.core.grant(&partition, generation),
                    Submission::Revoke(partition) => self.core.revoke(&partition),
                    Submission::Transact(operations) => {
                        let commits = operations.iter().filter_map(|operation| match operation {
                            Operation::Commit(commit) => Some(commit.writes.as_bytes().len()),
                            _ => None,
                        });
                        self.group_bytes += commits.sum::<usize>();
                        self.core.transact(operations)
                    }
                };
                self.completions.push(completion);
            }
            Request::Read(read) => self.reads.push(read),
            Request::Finished => {}
            Request::Stop => self.stopping = true,
        }
    }

    fn flush(&mut self, disk: &D) {
        if !self.completions.is_empty() {
            let start = Instant::now();
            // The error is also in the outcomes and in the core's failure, which is published.
            let _ = self.core.flush(&mut self.outcomes);
            self.shared.flushes.record(u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX));
            self.group_bytes = 0;
            self.publish();
            for (completion, outcome) in self.completions.drain(..).zip(self.outcomes.drain(..)) {
                completion.answer(outcome.outcome);
            }
        }
        for read in self.reads.drain(..) {
            // Whoever asked may have gone.
            let _ = match read {
                Read::View(partition, reply) => reply.send(self.core.view(&partition)).is_ok(),
                Read::Partitions(reply) => reply.send(self.core.partitions()).is_ok(),
            };
        }
        self.maintain(disk);
    }

    fn maintain(&mut self, disk: &D) {
        for (kind, worker) in &self.workers {
            // Commits wait for a snapshot that is far behind; its result is certain to come.
            let wait = *kind == MaintenanceKind::Tables && !self.stopping && self.core.overdue();
            let first = if wait { worker.results.recv().ok() } else { None };
            for done in first.into_iter().chain(worker.results.try_iter()) {
                if let Ok(retired) = self.core.finish_maintenance(done) {
                    let _ = worker.errands.send(Errand::Free(retired));
                }
            }
        }
        while !self.stopping
            && let Some(job) = self.core.maintenance()
        {
            let worker = self.workers.iter().find(|(kind, _)| *kind == job.kind());
            let refused = match worker {
                Some((_, worker)) => match worker.errands.send(Errand::Job(job)) {
                    Ok(()) => continue,
                    Err(refused) => refused.0,
                },
                None => Errand::Job(job),
            };
            if let Errand::Job(job) = refused {
                let _ = self.core.finish_maintenance(job.run(disk));
            }
        }
        self.publish();
    }

    fn publish(&self) {
        let gauges = &self.shared.gauges;
        gauges.log_bytes.store(self.core.log_bytes(), Ordering::Relaxed);
        gauges.written_bytes.store(self.core.written_bytes(), Ordering::Relaxed);
        gauges.snapshot_bytes.store(self.core.snapshot_bytes(), Ordering::Relaxed);
        gauges.sequence.store(self.core.sequence(), Ordering::Relaxed);
        if let Some(reason) = self.core.failure() {
            let mut failure = self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert_with(|| reason.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use onceward_protocol::Mutants;

    use super::*;
    use crate::contract::{generation, partition};
    use crate::disk::FaultDisk;
    use crate::embedded::Options;

    /// Only how long a broken test hangs before it fails.
    const HANG: Duration = Duration::from_secs(60);

    #[test]
    fn a_worker_delivers_although_the_queue_is_full_and_nobody_takes_from_it() {
        let disk = FaultDisk::new();
        let restless = Options { first_segment_bytes: 4096, snapshot_min_bytes: 0, ..Options::small() };
        let mut core =
            EmbeddedCore::open(disk.clone(), Path::new("/store"), restless, Mutants::NONE).unwrap();
        core.grant(&partition(0), generation(1));
        core.flush(&mut Vec::new()).unwrap();
        let jobs: Vec<_> = std::iter::from_fn(|| core.maintenance()).collect();
        assert_eq!(jobs.len(), 2);
        let (bell, queue) = sync_channel(1);
        bell.send(Request::Finished).unwrap();
        let worker = Worker::start("test", disk, bell).unwrap();
        for job in jobs {
            worker.errands.send(Errand::Job(job)).unwrap();
            let _done = worker.results.recv_timeout(HANG).unwrap();
        }
        drop(queue);
    }
}
