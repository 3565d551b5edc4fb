//! The real driver: threads that step jobs, read sources, call targets and talk to the store.
//!
//! Each job lives on one worker thread. Messages between jobs of one worker never leave it; the others
//! go over channels whose length is bounded by the lanes' own windows (`LANE_WINDOW`).

mod coordinator;
mod rate;
mod targets;
mod worker;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use onceward_engine::layout::Role;
use onceward_engine::{Event, JobEnd};
use onceward_protocol::{Mutants, SinkIdentity};

use onceward_store::StoreHandle;
use onceward_store::service::{Histogram, Stats};

use crate::error::RunError;
use crate::prepare::{Prepared, grant, random_u64};
use crate::status::Status;
use coordinator::{Board, Coordinator};
use targets::{TargetThread, TargetWork};
use worker::{Slot, Worker};

/// What a worker thread receives.
pub(crate) enum Post {
    /// For one job.
    Event(u32, Event),
    /// End at once, wherever you are.
    Abandon,
}

/// What the coordinator receives.
pub(crate) enum Notice {
    /// A job has ended.
    Ended(u32, JobEnd),
    /// A source partition has been read to its end, so that another may be opened.
    ReadToEnd,
    /// Stop cleanly.
    Stop,
    /// Stop at once.
    Abandon,
    /// A thread of ours panicked.
    Panicked(String),
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunEnd {
    /// All bounded input was processed and delivered.
    Completed,
    /// Stopped on request; the next run goes on from here.
    Stopped,
}

/// A run in progress.
pub struct Running {
    board: Arc<Board>,
    store: StoreHandle,
    notices: Sender<Notice>,
    end: Receiver<Result<RunEnd, RunError>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Current figures.
    pub fn status(&self) -> Status {
        self.board.status()
    }
    /// Time from handing an epoch to the store to knowing that it is durable.
    pub fn commit_latency(&self) -> &Histogram {
        self.board.commit_latency()
    }
    /// Figures of the store.
    pub fn store_stats(&self) -> Stats {
        self.store.stats()
    }
    /// Asks for a clean stop: finish the open epochs, flush and confirm the sinks, commit.
    pub fn stop(&self) {
        let _ = self.notices.send(Notice::Stop);
    }
    /// Ends at once; what is committed is safe and the next run takes up the rest.
    pub fn abandon(&self) {
        let _ = self.notices.send(Notice::Abandon);
    }
    /// Waits up to `timeout` for the end.
    pub fn wait(&mut self, timeout: Duration) -> Option<Result<RunEnd, RunError>> {
        let end = match self.end.recv_timeout(timeout) {
            Ok(end) => end,
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => {
                Err(RunError::Thread("the coordinating thread ended without an answer".to_owned()))
            }
        };
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        Some(end)
    }
}

/// Grants every partition, loads what is stored of it, and starts the threads.
pub fn start(prepared: Prepared) -> Result<Running, RunError> {
    let Prepared { plan, layout, layout_owner, sources, sinks, store, options, .. } = prepared;
    let handle = store.handle();
    let partitions = layout.partitions();
    let workers = options.workers.clamp(1, partitions.len().max(1));
    let (notices, inbox) = channel();
    let (posts, mailboxes): (Vec<Sender<Post>>, Vec<Receiver<Post>>) =
        (0..workers).map(|_| channel()).unzip();
    let routes: Arc<[Sender<Post>]> =
        partitions.iter().map(|partition| posts[partition.number as usize % workers].clone()).collect();
    let board = Arc::new(Board::new(&plan, &layout));

    let mut target_threads = Vec::new();
    let mut target_queues: Vec<Sender<TargetWork>> = Vec::new();
    for (number, sink) in sinks.iter().enumerate() {
        let spec = &plan.pipeline.sinks[number];
        let identities = partitions
            .iter()
            .filter(|partition| plan.sinks_of(&partition.role).contains(&(number as u32)))
            .map(|partition| {
                let identity = SinkIdentity {
                    pipeline: plan.pipeline.name.clone(),
                    sink: spec.name.clone(),
                    partition: partition.id.clone(),
                    partition_slug: layout.slug(partition),
                };
                (partition.number, identity)
            })
            .collect();
        let (queue, work) = channel();
        target_queues.push(queue);
        let thread = TargetThread { sink: sink.clone(), identities, work, routes: routes.clone() };
        target_threads.push(spawn(&format!("sink-{number}"), notices.clone(), move || thread.run())?);
    }

    // One clock for all workers, so that their epochs close together.
    let started = std::time::Instant::now();
    let rate = options.rate.map(rate::Rate::new).map(Arc::new);
    let mut slots: Vec<Vec<Slot>> = (0..workers).map(|_| Vec::new()).collect();
    for partition in &partitions {
        let (generation, head) = grant(&handle, &partition.id)?;
        let stored = worker::load(&handle, &partition.id, head)?;
        let job = plan.job(&layout, partition, generation, stored, random_u64()?, Mutants::NONE)?;
        board.set(partition.number, &job, None);
        let source = match &partition.role {
            Role::Source { source, name } => Some((sources[*source].clone(), name.clone())),
            Role::Keyed { .. } => None,
        };
        slots[partition.number as usize % workers].push(Slot::new(partition.number, job, source));
    }
    let mut worker_threads = Vec::new();
    for (index, (slots, mailbox)) in slots.into_iter().zip(mailboxes).enumerate() {
        let worker = Worker::new(
            slots,
            mailbox,
            routes.clone(),
            target_queues.clone(),
            handle.clone(),
            notices.clone(),
            board.clone(),
            rate.clone(),
            started,
        );
        worker_threads.push(spawn(&format!("worker-{index}"), notices.clone(), move || worker.run())?);
    }
    drop(target_queues);

    let (answer, end) = channel();
    let bounded = sources.iter().map(|source| source.facts().bounded).collect();
    let coordinator = Coordinator::new(layout, layout_owner, store, routes, posts, inbox, bounded);
    let thread = std::thread::Builder::new()
        .name("coordinator".to_owned())
        .spawn(move || {
            let result = coordinator.run(worker_threads, target_threads);
            let _ = answer.send(result);
        })
        .map_err(|error| RunError::Thread(format!("cannot start a thread: {error}")))?;
    Ok(Running { board, store: handle, notices, end, thread: Some(thread) })
}

/// Starts a thread that reports its own panic.
fn spawn(
    name: &str,
    notices: Sender<Notice>,
    body: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, RunError> {
    struct Report(Sender<Notice>, String);
    impl Drop for Report {
        fn drop(&mut self) {
            if std::thread::panicking() {
                let _ = self.0.send(Notice::Panicked(format!("thread {} panicked", self.1)));
            }
        }
    }
    let report = Report(notices, name.to_owned());
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            let _report = report;
            body();
        })
        .map_err(|error| RunError::Thread(format!("cannot start a thread: {error}")))
}
