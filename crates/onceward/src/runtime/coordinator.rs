//! One thread that begins jobs, hears how they end, and ends the run.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use onceward_engine::layout::{LayoutPartition, Role};
use onceward_engine::{Event, Job, JobEnd, JobStats, Layout, Plan, SinkStats};
use onceward_protocol::Watermark;
use onceward_protocol::state::PipelineState;
use onceward_store::EmbeddedStore;
use onceward_store::service::Histogram;

use super::{Notice, Post, RunEnd};
use crate::error::RunError;
use crate::prepare::{LayoutOwner, store_failed};
use crate::status::{ComputationStatus, SinkStatus, SourceStatus, Status};

/// Partitions of bounded sources that are read at the same time; the others wait their turn, in layout order. Their
/// lanes hold the watermark until then, so that nothing becomes late by waiting.
const MAX_ACTIVE_SOURCES: usize = 16;

type Figures = (JobStats, Vec<SinkStats>, Option<(u64, u64)>);

/// Where the workers publish their jobs' figures.
pub(crate) struct Board {
    figures: Mutex<Vec<Figures>>,
    commit_latency: Histogram,
    partitions: Vec<LayoutPartition>,
    sources: Vec<String>,
    keyed: Vec<String>,
    sinks: Vec<String>,
}

impl Board {
    pub(crate) fn new(plan: &Plan, layout: &Layout) -> Self {
        let partitions = layout.partitions();
        Board {
            figures: Mutex::new(vec![(JobStats::default(), Vec::new(), None); partitions.len()]),
            commit_latency: Histogram::default(),
            partitions,
            sources: layout.sources.iter().map(|source| source.name.clone()).collect(),
            keyed: layout.keyed.iter().map(|keyed| keyed.name.clone()).collect(),
            sinks: plan.pipeline.sinks.iter().map(|sink| sink.name.clone()).collect(),
        }
    }
    pub(crate) fn commit_latency(&self) -> &Histogram {
        &self.commit_latency
    }
    pub(crate) fn set(&self, number: u32, job: &Job, progress: Option<(u64, u64)>) {
        let mut figures = self.figures.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(figure) = figures.get_mut(number as usize) {
            *figure = (job.stats(), job.sinks(), progress);
        }
    }
    pub(crate) fn status(&self) -> Status {
        let figures = self.figures.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let mut status = Status {
            sources: self.sources.iter().map(|name| source_status(name)).collect(),
            computations: self.keyed.iter().map(|name| computation_status(name)).collect(),
            sinks: self
                .sinks
                .iter()
                .map(|name| SinkStatus { name: name.clone(), delivered: 0, owed: 0 })
                .collect(),
            epoch: figures.iter().map(|(stats, _, _)| stats.epoch).max().unwrap_or(0),
        };
        let mut sizes = vec![(0u64, 0u64, true); self.sources.len()];
        for (partition, (stats, sinks, progress)) in self.partitions.iter().zip(figures) {
            match &partition.role {
                Role::Source { source, .. } => {
                    let total = &mut status.sources[*source];
                    total.rows += stats.rows_in;
                    total.partitions += 1;
                    total.ended += usize::from(stats.watermark == Watermark::END);
                    match progress {
                        Some((done, size)) => {
                            sizes[*source].0 += done;
                            sizes[*source].1 += size;
                        }
                        None => sizes[*source].2 = false,
                    }
                }
                Role::Keyed { keyed, .. } => {
                    let total = &mut status.computations[*keyed];
                    total.rows_in += stats.rows_in;
                    total.rows_out += stats.rows_out;
                    total.late += stats.late;
                    total.repeats += stats.repeats;
                    total.keys += stats.keys;
                    total.watermark = total.watermark.min(stats.watermark);
                    total.epoch = total.epoch.max(stats.epoch);
                }
            }
            for sink in sinks {
                let total = &mut status.sinks[sink.sink as usize];
                total.delivered += sink.delivered;
                total.owed += sink.owed;
            }
        }
        for (source, (done, size, known)) in status.sources.iter_mut().zip(sizes) {
            source.progress = (known && size > 0).then(|| done as f64 / size as f64);
        }
        status
    }
}

fn source_status(name: &str) -> SourceStatus {
    SourceStatus { name: name.to_owned(), rows: 0, partitions: 0, ended: 0, progress: None }
}

fn computation_status(name: &str) -> ComputationStatus {
    ComputationStatus {
        name: name.to_owned(),
        rows_in: 0,
        rows_out: 0,
        late: 0,
        repeats: 0,
        keys: 0,
        watermark: Watermark::END,
        epoch: 0,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// Keyed jobs finish first, so that what they commit is still acknowledged to the sources.
    StoppingKeyed,
    StoppingSources,
}

/// The coordinating thread.
pub(crate) struct Coordinator {
    layout: Layout,
    owner: LayoutOwner,
    store: EmbeddedStore,
    routes: Arc<[Sender<Post>]>,
    posts: Vec<Sender<Post>>,
    inbox: Receiver<Notice>,
    partitions: Vec<LayoutPartition>,
    waiting: VecDeque<u32>,
    /// By source: whether it ends by itself. One that does not would never free its turn.
    bounded: Vec<bool>,
    live: Vec<bool>,
    completed: usize,
    phase: Phase,
}

impl Coordinator {
    pub(crate) fn new(
        layout: Layout,
        owner: LayoutOwner,
        store: EmbeddedStore,
        routes: Arc<[Sender<Post>]>,
        posts: Vec<Sender<Post>>,
        inbox: Receiver<Notice>,
        bounded: Vec<bool>,
    ) -> Self {
        let partitions = layout.partitions();
        Coordinator {
            live: vec![true; partitions.len()],
            waiting: VecDeque::new(),
            bounded,
            completed: 0,
            phase: Phase::Running,
            layout,
            owner,
            store,
            routes,
            posts,
            inbox,
            partitions,
        }
    }

    pub(crate) fn run(
        mut self,
        workers: Vec<JoinHandle<()>>,
        targets: Vec<JoinHandle<()>>,
    ) -> Result<RunEnd, RunError> {
        self.begin();
        let result = self.listen();
        for post in &self.posts {
            let _ = post.send(Post::Abandon);
        }
        for thread in workers.into_iter().chain(targets) {
            let _ = thread.join();
        }
        let result = match result {
            Ok(RunEnd::Completed) => {
                self.layout.state = PipelineState::Completed;
                let handle = self.store.handle();
                self.owner.write(&handle, &self.layout).map(|()| RunEnd::Completed)
            }
            other => other,
        };
        let failure = self.store.handle().failure();
        self.store.close();
        match (result, failure) {
            (Ok(_), Some(reason)) => Err(RunError::StoreFailed(reason)),
            (result, _) => result,
        }
    }

    fn post(&self, number: u32, event: Event) {
        let _ = self.routes[number as usize].send(Post::Event(number, event));
    }

    fn begin(&mut self) {
        let mut active = 0;
        for partition in &self.partitions {
            let is_source = matches!(partition.role, Role::Source { source, .. } if self.bounded[source]);
            if is_source && active >= MAX_ACTIVE_SOURCES {
                self.waiting.push_back(partition.number);
                continue;
            }
            active += usize::from(is_source);
            self.post(partition.number, Event::Begin);
        }
    }

    fn listen(&mut self) -> Result<RunEnd, RunError> {
        while self.live.contains(&true) {
            let Ok(notice) = self.inbox.recv() else {
                return Err(RunError::Thread("all threads are gone".to_owned()));
            };
            match notice {
                Notice::ReadToEnd => {
                    if let Some(next) = self.waiting.pop_front() {
                        self.post(next, Event::Begin);
                    }
                }
                Notice::Ended(number, end) => self.ended(number, end)?,
                Notice::Stop => self.stop(),
                Notice::Abandon => return Err(RunError::StoppedEarly),
                Notice::Panicked(what) => return Err(RunError::Thread(what)),
            }
        }
        let all = self.completed == self.partitions.len();
        Ok(if all { RunEnd::Completed } else { RunEnd::Stopped })
    }

    fn ended(&mut self, number: u32, end: JobEnd) -> Result<(), RunError> {
        let partition =
            self.partitions.get(number as usize).map_or_else(String::new, |known| known.id.label());
        match end {
            JobEnd::Completed => self.completed += 1,
            JobEnd::Stopped | JobEnd::Retired | JobEnd::Drained => {}
            JobEnd::Fenced(reason) => return Err(RunError::Fenced { partition, reason }),
            JobEnd::Unknown => return Err(store_failed(&self.store.handle())),
            JobEnd::Failed(error) => return Err(RunError::Engine(error)),
        }
        if let Some(live) = self.live.get_mut(number as usize) {
            *live = false;
        }
        if self.phase == Phase::StoppingKeyed {
            self.stop_sources_when_due();
        }
        Ok(())
    }

    fn stop(&mut self) {
        if self.phase != Phase::Running {
            return;
        }
        self.phase = Phase::StoppingKeyed;
        self.waiting.clear();
        let keyed = |partition: &&LayoutPartition| matches!(partition.role, Role::Keyed { .. });
        for partition in self.partitions.iter().filter(keyed) {
            self.post(partition.number, Event::Stop { drain: false });
        }
        self.stop_sources_when_due();
    }

    fn stop_sources_when_due(&mut self) {
        let keyed_live = self.partitions.iter().any(|partition| {
            matches!(partition.role, Role::Keyed { .. }) && self.live[partition.number as usize]
        });
        if keyed_live {
            return;
        }
        self.phase = Phase::StoppingSources;
        for partition in &self.partitions {
            if matches!(partition.role, Role::Source { .. }) {
                // One that never began has nothing open: beginning it with the stop ends it at once.
                self.post(partition.number, Event::Stop { drain: false });
                self.post(partition.number, Event::Begin);
            }
        }
    }
}
