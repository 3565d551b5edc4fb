//! What `status --json` prints. Names of fields are stable: more may come, none is renamed or removed.

use onceward::offline::Overview;
use onceward::{PipelineState, Status};
use onceward_protocol::Watermark;
use serde::{Deserialize, Serialize};

use super::text;

/// A pipeline's state and figures.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The pipeline's name.
    pub pipeline: String,
    /// The state's name. Without a process: where it stood when the last one ended.
    pub state: String,
    /// The process that runs it.
    pub process: Option<u32>,
    /// Version of the layout.
    pub layout: u32,
    /// Source partitions and key ranges, retired ones with them.
    pub partitions: usize,
    /// Largest committed epoch of any partition.
    pub epoch: u64,
    /// Only with a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<Vec<Source>>,
    /// Only with a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computations: Option<Vec<Computation>>,
    /// Only with a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sinks: Option<Vec<Sink>>,
    /// Only with a process, and if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<Vec<Job>>,
}

/// A source.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// Name in the manifest.
    pub name: String,
    /// Rows read.
    pub rows: u64,
    /// Partitions in all.
    pub partitions: usize,
    /// Partitions read to their end.
    pub ended: usize,
    /// How much of it is read, 0 to 1, where the source can tell.
    pub progress: Option<f64>,
}

impl Source {
    /// The sources of a run.
    pub fn all(status: &Status) -> Vec<Self> {
        let source = |source: &onceward::SourceStatus| Source {
            name: source.name.clone(),
            rows: source.rows,
            partitions: source.partitions,
            ended: source.ended,
            progress: source.progress,
        };
        status.sources.iter().map(source).collect()
    }
}

/// A computation that groups by a key.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Computation {
    /// Name in the manifest.
    pub name: String,
    /// Key ranges that take messages.
    pub ranges: usize,
    /// Ranges that were re-cut and still deliver what they owe.
    pub retired: usize,
    /// Messages taken.
    pub rows_in: u64,
    /// Rows put out.
    pub rows_out: u64,
    /// Late messages.
    pub late: u64,
    /// Messages too old to be judged.
    pub expired: u64,
    /// Repeats dropped by this run.
    pub repeats: u64,
    /// Keys held in open windows.
    pub keys: u64,
    /// RFC 3339, or `end`.
    pub watermark: Option<String>,
    /// Largest committed epoch.
    pub epoch: u64,
}

impl Computation {
    /// The computations of a run.
    pub fn all(status: &Status) -> Vec<Self> {
        let computation = |computation: &onceward::ComputationStatus| Computation {
            name: computation.name.clone(),
            ranges: computation.ranges,
            retired: computation.retired,
            rows_in: computation.rows_in,
            rows_out: computation.rows_out,
            late: computation.late,
            expired: computation.expired,
            repeats: computation.repeats,
            keys: computation.keys,
            watermark: (computation.watermark != Watermark::NONE)
                .then(|| text::watermark(computation.watermark)),
            epoch: computation.epoch,
        };
        status.computations.iter().map(computation).collect()
    }
}

/// A sink.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Sink {
    /// Name in the manifest.
    pub name: String,
    /// Rows confirmed.
    pub delivered: u64,
    /// Rows owed.
    pub owed: u64,
    /// Rows that will not be tried again.
    pub dropped: u64,
}

impl Sink {
    /// The sinks of a run.
    pub fn all(status: &Status) -> Vec<Self> {
        let sink = |sink: &onceward::SinkStatus| Sink {
            name: sink.name.clone(),
            delivered: sink.delivered,
            owed: sink.owed,
            dropped: sink.dropped,
        };
        status.sinks.iter().map(sink).collect()
    }
}

/// A job, named by its partition.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// The partition.
    pub partition: String,
    /// Who last ran it.
    pub worker: Option<u32>,
    /// Messages taken.
    pub rows_in: u64,
    /// Last committed epoch.
    pub epoch: u64,
}

impl Job {
    /// The jobs of a run.
    pub fn all(status: &Status) -> Vec<Self> {
        let job = |job: &onceward::JobStatus| Job {
            partition: job.partition.clone(),
            worker: job.worker,
            rows_in: job.rows_in,
            epoch: job.epoch,
        };
        status.jobs.iter().map(job).collect()
    }
}

impl Report {
    /// Of a pipeline that this process runs.
    pub fn running(pipeline: &str, status: Status, with_jobs: bool) -> Self {
        Report {
            pipeline: pipeline.to_owned(),
            state: status.state.name().to_owned(),
            process: Some(std::process::id()),
            layout: status.layout,
            partitions: status.jobs.len(),
            epoch: status.epoch,
            jobs: with_jobs.then(|| Job::all(&status)),
            sources: Some(Source::all(&status)),
            computations: Some(Computation::all(&status)),
            sinks: Some(Sink::all(&status)),
        }
    }

    /// Of a pipeline that no process runs.
    pub fn stored(overview: Overview) -> Self {
        Report {
            pipeline: overview.pipeline,
            state: overview.state.name().to_owned(),
            process: None,
            layout: overview.layout,
            partitions: overview.partitions,
            epoch: overview.epoch,
            sources: None,
            computations: None,
            sinks: None,
            jobs: None,
        }
    }

    /// The state; `None` for one that only another version knows.
    pub fn state(&self) -> Option<PipelineState> {
        PipelineState::ALL.into_iter().find(|state| state.name() == self.state)
    }

    /// The state as people read it: a state in which something happens is not what is the case if nobody does it.
    pub fn standing(&self) -> String {
        match (self.process, self.state()) {
            (None, Some(state)) if state.has_jobs() => {
                format!("{state}, no process (ended without a stop)")
            }
            _ => self.state.clone(),
        }
    }
}
