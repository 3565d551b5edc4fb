//! What a running pipeline tells about itself.

use onceward_protocol::Watermark;
use onceward_protocol::state::PipelineState;

/// A snapshot of a run.
#[derive(Clone, Debug)]
pub struct Status {
    /// Where the pipeline stands.
    pub state: PipelineState,
    /// Version of the layout: grows with every re-cut.
    pub layout: u32,
    /// Per partition, in layout order.
    pub jobs: Vec<JobStatus>,
    /// Per source, in manifest order.
    pub sources: Vec<SourceStatus>,
    /// Per keyed computation, in manifest order.
    pub computations: Vec<ComputationStatus>,
    /// Per sink, in manifest order.
    pub sinks: Vec<SinkStatus>,
    /// Largest committed epoch of any partition.
    pub epoch: u64,
}

impl Default for Status {
    fn default() -> Self {
        Status {
            state: PipelineState::Working,
            layout: 0,
            jobs: Vec::new(),
            sources: Vec::new(),
            computations: Vec::new(),
            sinks: Vec::new(),
            epoch: 0,
        }
    }
}

/// One partition.
#[derive(Clone, Debug)]
pub struct JobStatus {
    /// The partition.
    pub partition: String,
    /// The worker that last ran it.
    pub worker: Option<u32>,
    /// Messages taken, over the partition's whole life.
    pub rows_in: u64,
    /// Last committed epoch.
    pub epoch: u64,
}

/// Something that the controller saw or did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogLine {
    /// Grows by one per line, from 1 in each run.
    pub number: u64,
    /// Microseconds since 1970.
    pub at: i64,
    /// What.
    pub text: String,
}

/// One source.
#[derive(Clone, Debug)]
pub struct SourceStatus {
    /// Name in the manifest.
    pub name: String,
    /// Rows read, over the pipeline's whole life.
    pub rows: u64,
    /// Partitions in all.
    pub partitions: usize,
    /// Partitions read to their end.
    pub ended: usize,
    /// How far it has been read, 0 to 1, where the source can tell.
    pub progress: Option<f64>,
}

/// One keyed computation.
#[derive(Clone, Debug)]
pub struct ComputationStatus {
    /// Name in the manifest.
    pub name: String,
    /// Key ranges that take messages.
    pub ranges: usize,
    /// Ranges that were re-cut and still deliver what they owe.
    pub retired: usize,
    /// Messages taken, over the pipeline's whole life.
    pub rows_in: u64,
    /// Rows put out.
    pub rows_out: u64,
    /// Late messages, counted and not aggregated.
    pub late: u64,
    /// Messages whose client-chosen id was too old to judge: not taken.
    pub expired: u64,
    /// Repeats dropped by this run.
    pub repeats: u64,
    /// Keys held in open windows.
    pub keys: u64,
    /// The smallest effective watermark of its partitions.
    pub watermark: Watermark,
    /// The largest committed epoch of its partitions.
    pub epoch: u64,
}

/// One sink.
#[derive(Clone, Debug)]
pub struct SinkStatus {
    /// Name in the manifest.
    pub name: String,
    /// Rows confirmed by the target, over the pipeline's whole life.
    pub delivered: u64,
    /// Rows owed to the target.
    pub owed: u64,
    /// Rows that will not be tried again, over the pipeline's whole life: only at most once.
    pub dropped: u64,
}
