//! Where the workers publish their jobs' figures, and the controller what it did.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use onceward_engine::layout::Role;
use onceward_engine::{Job, JobStats, Layout, Plan, SinkStats};
use onceward_protocol::Watermark;
use onceward_protocol::state::PipelineState;
use onceward_store::service::Histogram;

use crate::status::{ComputationStatus, JobStatus, LogLine, SinkStatus, SourceStatus, Status};

/// Lines that are kept.
const MAX_LINES: usize = 2_000;

#[derive(Clone, Default)]
struct Figures {
    stats: JobStats,
    sinks: Vec<SinkStats>,
    progress: Option<(u64, u64)>,
    worker: Option<u32>,
}

struct Inner {
    figures: BTreeMap<u32, Figures>,
    layout: Arc<Layout>,
    state: PipelineState,
    lines: VecDeque<LogLine>,
    next_line: u64,
    /// The largest epoch seen: it does not fall with a range that leaves the layout.
    epoch: u64,
}

impl Inner {
    fn insert(&mut self, partition: u32, figures: Figures) {
        self.epoch = self.epoch.max(figures.stats.epoch);
        self.figures.insert(partition, figures);
    }
}

/// Figures and lines of one run.
pub(crate) struct Board {
    inner: Mutex<Inner>,
    commit_latency: Histogram,
    sinks: Vec<String>,
}

impl Board {
    pub(crate) fn new(plan: &Plan, layout: Arc<Layout>, state: PipelineState) -> Self {
        Board {
            inner: Mutex::new(Inner {
                figures: BTreeMap::new(),
                layout,
                state,
                lines: VecDeque::new(),
                next_line: 1,
                epoch: 0,
            }),
            commit_latency: Histogram::default(),
            sinks: plan.pipeline.sinks.iter().map(|sink| sink.name.clone()).collect(),
        }
    }
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub(crate) fn commit_latency(&self) -> &Histogram {
        &self.commit_latency
    }
    pub(crate) fn set(&self, partition: u32, worker: u32, job: &Job, progress: Option<(u64, u64)>) {
        let figures = Figures { stats: job.stats(), sinks: job.sinks(), progress, worker: Some(worker) };
        self.lock().insert(partition, figures);
    }
    /// What earlier runs have counted, until the partition's job is there.
    pub(crate) fn seed(&self, partition: u32, stats: JobStats) {
        self.lock().insert(partition, Figures { stats, ..Figures::default() });
    }
    /// The layout changed: what is not in it any more counts among what is delivered, and a retired range counts for its
    /// children.
    pub(crate) fn set_layout(&self, layout: Arc<Layout>) {
        let mut inner = self.lock();
        let known: BTreeMap<u32, bool> = layout
            .partitions()
            .iter()
            .map(|partition| {
                (partition.number, matches!(partition.role, Role::Keyed { range, .. } if range.retired))
            })
            .collect();
        inner.figures.retain(|number, figures| {
            let retired = known.get(number).copied();
            if retired == Some(true) {
                figures.stats = JobStats::default();
            }
            retired.is_some()
        });
        inner.layout = layout;
    }
    pub(crate) fn set_state(&self, state: PipelineState) {
        self.lock().state = state;
    }
    pub(crate) fn log(&self, at: i64, text: String) {
        let mut inner = self.lock();
        let number = inner.next_line;
        inner.next_line += 1;
        inner.lines.push_back(LogLine { number, at, text });
        if inner.lines.len() > MAX_LINES {
            inner.lines.pop_front();
        }
    }
    /// Lines after number `after`.
    pub(crate) fn lines(&self, after: u64) -> Vec<LogLine> {
        self.lock().lines.iter().filter(|line| line.number > after).cloned().collect()
    }
    pub(crate) fn status(&self) -> Status {
        let inner = self.lock();
        let layout = &inner.layout;
        let delivered = |name: &String| layout.delivered.get(name).copied().unwrap_or(0);
        let mut status = Status {
            state: inner.state,
            layout: layout.version,
            sources: layout.sources.iter().map(|source| source_status(&source.name)).collect(),
            computations: layout.keyed.iter().map(|keyed| computation_status(&keyed.name)).collect(),
            sinks: self
                .sinks
                .iter()
                .map(|name| SinkStatus {
                    name: name.clone(),
                    delivered: delivered(name),
                    owed: 0,
                    dropped: 0,
                })
                .collect(),
            jobs: Vec::new(),
            epoch: inner.epoch,
        };
        let mut sizes = vec![(0u64, 0u64, true); layout.sources.len()];
        for partition in layout.partitions() {
            let figures = inner.figures.get(&partition.number).cloned().unwrap_or_default();
            let stats = figures.stats;
            match &partition.role {
                Role::Source { source, .. } => {
                    let total = &mut status.sources[*source];
                    total.rows += stats.rows_in;
                    total.partitions += 1;
                    total.ended += usize::from(stats.watermark == Watermark::END);
                    match figures.progress {
                        Some((done, size)) => {
                            sizes[*source].0 += done;
                            sizes[*source].1 += size;
                        }
                        None => sizes[*source].2 = false,
                    }
                }
                Role::Keyed { keyed, range } => {
                    let total = &mut status.computations[*keyed];
                    total.rows_in += stats.rows_in;
                    total.rows_out += stats.rows_out;
                    total.late += stats.late;
                    total.expired += stats.expired;
                    total.repeats += stats.repeats;
                    total.keys += stats.keys;
                    total.epoch = total.epoch.max(stats.epoch);
                    if range.retired {
                        total.retired += 1;
                    } else {
                        total.ranges += 1;
                        total.watermark = total.watermark.min(stats.watermark);
                    }
                }
            }
            for sink in &figures.sinks {
                let total = &mut status.sinks[sink.sink as usize];
                total.delivered += sink.delivered;
                total.owed += sink.owed;
                total.dropped += sink.dropped;
            }
            status.jobs.push(JobStatus {
                partition: partition.id.label(),
                worker: figures.worker,
                rows_in: stats.rows_in,
                epoch: stats.epoch,
            });
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
        ranges: 0,
        retired: 0,
        rows_in: 0,
        rows_out: 0,
        late: 0,
        expired: 0,
        repeats: 0,
        keys: 0,
        watermark: Watermark::END,
        epoch: 0,
    }
}
