//! The real driver: threads that step jobs, read sources, call targets and talk to the store.
//!
//! Each job lives on one worker thread, as the controller says. Messages between jobs of one worker never leave it; the
//! others go over channels whose length is bounded by the lanes' own windows (`LANE_WINDOW`).

mod board;
mod clock;
mod coordinator;
mod loader;
mod rate;
mod routes;
mod slot;
mod targets;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use onceward_engine::controller::{Assignment, Command, Controller, ControllerConfig, Notice};
use onceward_engine::{Event, Job, JobEnd, JobStats, LaneMessage, Layout, Stored};
use onceward_protocol::{Generation, Mutants, PartitionHead, PartitionId, Watermark};
use onceward_store::service::{Histogram, Stats};
use onceward_store::{StoreHandle, TableId};

use crate::error::RunError;
use crate::prepare::{Prepared, random_u64};
use crate::status::{LogLine, Status};
use board::Board;
use clock::Clock;
use coordinator::Coordinator;
use loader::Loader;
use routes::Routes;
use targets::{TargetThread, TargetWork};
use worker::{Surroundings, Worker};

/// A worker that is not heard of for so long is lost, microseconds.
const LEASE_US: i64 = 15_000_000;
/// How often a worker says that it is there.
const HEARTBEAT_US: i64 = 500_000;
/// Between two looks at the loads.
const BALANCE_US: i64 = 2_000_000;
/// Messages in that time below which there is nothing to spread.
const IDLE_LOAD: u64 = 20_000;
/// Partitions of bounded sources that are read at the same time.
const MAX_ACTIVE_SOURCES: usize = 16;

/// What a worker thread receives.
pub(crate) enum Post {
    /// For the job of a partition, whichever that is.
    Lane(u32, LaneMessage),
    /// For one very job.
    Answer { partition: u32, uid: u64, event: Event },
    /// From the controller.
    Order(Order),
    /// From the worker's loader.
    Built(Box<Assignment>, Result<Box<Job>, JobEnd>),
    /// End at once, wherever you are.
    Abandon,
}

/// What the controller wants of a worker.
pub(crate) enum Order {
    Assign(Box<Assignment>),
    Tell { partition: u32, generation: Generation, event: Event },
    Drop { partition: u32, generation: Generation },
    Layout(Arc<Layout>),
    Renewed { sent_at: i64 },
}

/// What the coordinator receives.
pub(crate) enum Heard {
    /// For the controller.
    Notice(Notice),
    /// A user asks for something.
    Ask(Command, Sender<Result<String, String>>),
    /// Stop cleanly.
    Stop,
    /// Stop at once.
    Abandon,
    /// A worker thread panicked.
    WorkerGone(u32, String),
    /// Another thread of ours cannot go on.
    ThreadGone(String),
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunEnd {
    /// All bounded input was processed and delivered.
    Completed,
    /// Stopped on request; the next run goes on from here.
    Stopped,
    /// Stopped while it was paused: it stays paused until somebody resumes it.
    Paused,
}

/// A run in progress.
pub struct Running {
    board: Arc<Board>,
    store: StoreHandle,
    heard: Sender<Heard>,
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
    /// What the controller saw and did, after line `after`; 0 for everything that is kept.
    pub fn log_lines(&self, after: u64) -> Vec<LogLine> {
        self.board.lines(after)
    }
    /// Somebody who can ask for things while the run goes on.
    pub fn remote(&self) -> Remote {
        Remote { board: self.board.clone(), heard: self.heard.clone() }
    }
    /// Asks for a clean stop: finish the open epochs, flush and confirm the sinks, commit.
    pub fn stop(&self) {
        let _ = self.heard.send(Heard::Stop);
    }
    /// Ends at once; what is committed is safe and the next run takes up the rest.
    pub fn abandon(&self) {
        let _ = self.heard.send(Heard::Abandon);
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

/// Asks a run for things, and looks at it, from any thread.
#[derive(Clone)]
pub struct Remote {
    board: Arc<Board>,
    heard: Sender<Heard>,
}

impl Remote {
    /// Asks for something. Answers what comes of it, or why nothing does; that the run is over is an error, too.
    pub fn ask(&self, command: Command) -> Result<String, String> {
        let over = |_| "the run is over".to_owned();
        let (answer, answered) = channel();
        self.heard.send(Heard::Ask(command, answer)).map_err(|_| "the run is over".to_owned())?;
        answered.recv().map_err(over)?
    }
    /// Current figures.
    pub fn status(&self) -> Status {
        self.board.status()
    }
    /// What the controller saw and did, after line `after`; 0 for everything that is kept.
    pub fn log_lines(&self, after: u64) -> Vec<LogLine> {
        self.board.lines(after)
    }
}

/// Starts a controller and its workers.
pub fn start(prepared: Prepared) -> Result<Running, RunError> {
    let Prepared { plan, layout, term, state, sources, sinks, store, options, .. } = prepared;
    let handle = store.handle();
    let workers = options.workers.clamp(1, 256) as u32;
    let config = ControllerConfig {
        workers: workers as usize,
        lease_us: LEASE_US,
        balance_us: BALANCE_US,
        active_sources: MAX_ACTIVE_SOURCES,
        bounded: sources.iter().map(|source| source.facts().bounded).collect(),
        idle_load: IDLE_LOAD,
        strays: 0,
        mutants: Mutants::NONE,
    };
    let plan = Arc::new(plan);
    let board = Arc::new(Board::new(&plan, Arc::new(layout.clone()), state));
    let mut numbers = BTreeMap::new();
    for partition in layout.partitions() {
        let (head, stats) = counted(&handle, &partition.id)?;
        numbers.insert(partition.number, head.last_number);
        board.seed(partition.number, stats);
    }
    let controller = Controller::new(
        plan.clone(),
        layout,
        term.generation,
        term.head,
        &numbers,
        state,
        config,
        random_u64()?,
    );
    // One clock for all workers, so that their epochs close together.
    let clock = Arc::new(Clock::new());
    let (heard, inbox) = channel();
    let (posts, mailboxes): (Vec<Sender<Post>>, Vec<Receiver<Post>>) =
        (0..workers).map(|_| channel()).unzip();
    let routes = Arc::new(Routes::new(posts));

    let mut target_threads = Vec::new();
    let mut targets: Vec<Sender<TargetWork>> = Vec::new();
    for (number, sink) in sinks.iter().enumerate() {
        let (queue, work) = channel();
        targets.push(queue);
        let thread = TargetThread { sink: sink.clone(), work, routes: routes.clone() };
        let gone = |what| Heard::ThreadGone(what);
        target_threads.push(spawn(&format!("sink-{number}"), heard.clone(), gone, move || thread.run())?);
    }
    let rate = options.rate.map(rate::Rate::new).map(Arc::new);
    let mut threads = Vec::new();
    for (id, mailbox) in (0..workers).zip(mailboxes) {
        let gone = move |what| Heard::WorkerGone(id, what);
        let (loader, work) = channel();
        let loading =
            Loader { worker: id, plan: plan.clone(), store: handle.clone(), work, routes: routes.clone() };
        threads.push(spawn(&format!("loader-{id}"), heard.clone(), gone, move || loading.run())?);
        let worker = Worker::new(Surroundings {
            id,
            plan: plan.clone(),
            sources: sources.clone(),
            mailbox,
            routes: routes.clone(),
            targets: targets.clone(),
            loader,
            store: handle.clone(),
            heard: heard.clone(),
            board: board.clone(),
            rate: rate.clone(),
            clock: clock.clone(),
        });
        threads.push(spawn(&format!("worker-{id}"), heard.clone(), gone, move || worker.run())?);
    }

    let (answer, end) = channel();
    let coordinator = Coordinator {
        controller,
        store,
        routes,
        targets,
        inbox,
        outbox: heard.clone(),
        board: board.clone(),
        wake: clock.now(),
        clock,
        asking: Vec::new(),
        next_ask: 0,
        workers_gone: 0,
        ends_when_paused: false,
    };
    let thread = std::thread::Builder::new()
        .name("coordinator".to_owned())
        .spawn(move || {
            let result = coordinator.run(threads, target_threads);
            let _ = answer.send(result);
        })
        .map_err(|error| RunError::Thread(format!("cannot start a thread: {error}")))?;
    Ok(Running { board, store: handle, heard, end, thread: Some(thread) })
}

/// A partition's head, and what is counted of it over its whole life, from the few rows that say so.
fn counted(store: &StoreHandle, partition: &PartitionId) -> Result<(PartitionHead, JobStats), RunError> {
    let view = store.view(partition)?;
    let head = view.head();
    let stored = Stored::read(partition, head, |table, visit| match table {
        TableId::META => view.scan(table, visit),
        _ => Ok(()),
    })?;
    let ended = stored.resume.as_ref().is_some_and(|place| place.end);
    let stats = JobStats {
        rows_in: stored.resume.as_ref().map_or(stored.counters.rows_in, |place| place.rows),
        late: stored.counters.late,
        expired: stored.counters.expired,
        rows_out: stored.counters.rows_out,
        epoch: head.head.map_or(0, |head| head.epoch),
        watermark: if ended { Watermark::END } else { Watermark::NONE },
        ..JobStats::default()
    };
    Ok((head, stats))
}

/// Starts a thread that reports its own panic.
fn spawn(
    name: &str,
    heard: Sender<Heard>,
    gone: impl FnOnce(String) -> Heard + Send + 'static,
    body: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, RunError> {
    let thread = name.to_owned();
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            // What a panic leaves behind is never looked at again: a worker's jobs are replaced.
            let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            if let Err(payload) = panic {
                let text = payload.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
                let _ = heard.send(gone(format!("thread {thread} panicked: {text}")));
            }
        })
        .map_err(|error| RunError::Thread(format!("cannot start a thread: {error}")))
}
