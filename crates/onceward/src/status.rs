//! What a running pipeline tells about itself.

use onceward_protocol::Watermark;

/// A snapshot of a run.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Per source, in manifest order.
    pub sources: Vec<SourceStatus>,
    /// Per keyed computation, in manifest order.
    pub computations: Vec<ComputationStatus>,
    /// Per sink, in manifest order.
    pub sinks: Vec<SinkStatus>,
    /// Largest committed epoch of any partition.
    pub epoch: u64,
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
    /// Messages taken, over the pipeline's whole life.
    pub rows_in: u64,
    /// Rows put out.
    pub rows_out: u64,
    /// Late messages, counted and not aggregated.
    pub late: u64,
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
}
