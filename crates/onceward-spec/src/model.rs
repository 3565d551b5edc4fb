//! A validated pipeline, as the engine takes it.

use std::path::PathBuf;

use onceward_connector::Config;
use onceward_protocol::guarantee::Level;

/// A place in the manifest, for messages. Both count from 1; 0 is "not from a file".
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

/// A whole pipeline.
#[derive(Clone, PartialEq, Debug)]
pub struct Pipeline {
    /// `metadata.name`; identity together with the names of computations, streams and sinks.
    pub name: String,
    /// The manifest's folder: paths in configs are absolute against it, and kept relative to it where
    /// they must survive a move of the whole folder ([`crate::canonical`]).
    pub base_dir: PathBuf,
    /// `spec.require`.
    pub require: Option<Level>,
    /// `spec.epoch`.
    pub epoch: EpochLimits,
    /// `spec.shutdownTimeout`, microseconds.
    pub shutdown_timeout_us: i64,
    /// `spec.replicas`: workers; `None` for one per core.
    pub replicas: Option<u32>,
    /// `spec.replayCheck`: every so many messages one is computed twice and compared; 0 for none.
    pub replay_check: u64,
    /// `spec.sources`, in manifest order.
    pub sources: Vec<SourceSpec>,
    /// `spec.computations`, in an order in which every input comes before its reader.
    pub computations: Vec<ComputationSpec>,
    /// `spec.sinks`, in manifest order.
    pub sinks: Vec<SinkSpec>,
}

/// When an epoch is closed: at the first limit reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochLimits {
    /// Microseconds.
    pub interval_us: i64,
    /// Messages.
    pub max_rows: u64,
    /// Payload bytes.
    pub max_bytes: u64,
}

impl Default for EpochLimits {
    fn default() -> Self {
        EpochLimits { interval_us: 100_000, max_rows: 1_000_000, max_bytes: 64 << 20 }
    }
}

/// One source.
#[derive(Clone, PartialEq, Debug)]
pub struct SourceSpec {
    /// Its name, also the name of its stream.
    pub name: String,
    /// Connector type.
    pub connector: String,
    /// Validated config.
    pub config: Config,
    /// Where event time comes from; without it rows have no event time and cannot be windowed.
    pub event_time: Option<EventTimeSpec>,
    /// Whether rows are stored as they were read, before anything else sees them.
    pub materialise: bool,
    /// Where it stands.
    pub place: Place,
}

/// `eventTime` of a source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventTimeSpec {
    /// A timestamp field.
    pub field: String,
    /// How much older than the newest row before it a row may be, in microseconds.
    pub out_of_orderness_us: i64,
    /// How long a partition may bring no row and still hold windows back, in microseconds; `None` for ever.
    pub idle_after_us: Option<i64>,
}

/// One computation; its name is also the name of its stream.
#[derive(Clone, PartialEq, Debug)]
pub struct ComputationSpec {
    /// Its name.
    pub name: String,
    /// Names of sources or computations.
    pub inputs: Vec<String>,
    /// Applied in order, before grouping.
    pub steps: Vec<StepSpec>,
    /// Present exactly if the computation groups.
    pub keyed: Option<KeyedSpec>,
    /// Where it stands.
    pub place: Place,
}

/// A stateless step.
#[derive(Clone, PartialEq, Debug)]
pub enum StepSpec {
    /// Keeps the messages for which the expression is true.
    Filter(Expression),
    /// Replaces the message by an object with exactly these fields, in this order.
    Map(Vec<(String, Expression)>),
    /// A registered message function: from a message to any number of messages.
    Function(FunctionRef),
}

/// A registered function by its name, known to be there and of the right kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionRef {
    /// The name it is registered under.
    pub name: String,
    /// Where it stands.
    pub place: Place,
}

/// A CEL expression and where it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expression {
    /// The source text, known to compile.
    pub text: String,
    /// Where it begins.
    pub place: Place,
}

/// Grouping, and what is done per key.
#[derive(Clone, PartialEq, Debug)]
pub struct KeyedSpec {
    /// Fields of the key, in order.
    pub group_by: Vec<String>,
    /// Number of key-range partitions at the pipeline's first start.
    pub partitions: u32,
    /// To how few of them the controller may merge by load.
    pub min_partitions: u32,
    /// Into how many of them the controller may split by load.
    pub max_partitions: u32,
    /// What is done per key.
    pub operator: OperatorSpec,
    /// How repeats are told.
    pub dedup: DedupSpec,
    /// Whether ids are stored at all.
    pub processing_mode: ProcessingMode,
}

/// What is done per key.
#[derive(Clone, PartialEq, Debug)]
pub enum OperatorSpec {
    /// `aggregate`.
    Windows(WindowsSpec),
    /// `process`.
    Process(ProcessSpec),
}

/// Aggregation over windows of event time.
#[derive(Clone, PartialEq, Debug)]
pub struct WindowsSpec {
    /// Size of the tumbling window, microseconds.
    pub window_us: i64,
    /// How long after a window's end its late rows still count, microseconds.
    pub allowed_lateness_us: i64,
    /// Output name and aggregate, in order.
    pub compute: Vec<(String, AggregateSpec)>,
    /// The stream of the rows that came too late, as they were behind the steps.
    pub late: Option<String>,
}

/// A registered process function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessSpec {
    /// Which.
    pub function: FunctionRef,
    /// Its settings, in manifest order.
    pub config: Vec<(String, String)>,
}

/// How a keyed computation tells repeats.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DedupSpec {
    /// By what; `auto` is resolved.
    pub mode: DedupMode,
    /// The fields of a client-chosen id; empty for the ids of messages.
    pub by: Vec<String>,
    /// How long a client-chosen id is remembered behind the watermark, microseconds.
    pub keep_us: i64,
}

/// By what repeats are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DedupMode {
    /// One frontier per lane.
    Frontier,
    /// A set of ids: the client's, or, without `dedupBy`, those of messages, of which the lane's frontier is the floor.
    Full,
}

/// `processingMode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessingMode {
    /// Repeats are dropped.
    ExactlyOnce,
    /// No set of ids is kept, so that a client's repeats count again; without `dedupBy` it changes nothing.
    AtLeastOnceConsistent,
}

/// One aggregate call.
#[derive(Clone, PartialEq, Debug)]
pub struct AggregateSpec {
    /// Which function.
    pub function: AggregateFunction,
    /// Its argument; only `count` has none (it then counts rows).
    pub argument: Option<Expression>,
}

/// The aggregate functions. Absent and null arguments are not counted, summed or compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AggregateFunction {
    /// Rows, or rows with a present argument.
    Count,
    /// Exact sum.
    Sum,
    /// Smallest.
    Min,
    /// Largest.
    Max,
    /// Exact sum divided by count.
    Avg,
}

/// One sink.
#[derive(Clone, PartialEq, Debug)]
pub struct SinkSpec {
    /// Its name.
    pub name: String,
    /// Names of sources or computations.
    pub inputs: Vec<String>,
    /// Connector type.
    pub connector: String,
    /// Validated config.
    pub config: Config,
    /// `delivery`: the level the manifest chose; `None` for the best the sink can hold.
    /// An enabled `atMostOnceStrategy` is the choice of at-most-once.
    pub delivery: Option<Level>,
    /// Present exactly if `delivery` is at-most-once.
    pub at_most_once: Option<AtMostOnceSpec>,
    /// Where it stands.
    pub place: Place,
}

/// The limits of at-most-once delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtMostOnceSpec {
    /// Bytes that may wait for the target; what does not fit is dropped and counted.
    pub queue_bytes: u64,
    /// How long a stop goes on writing what waits, microseconds.
    pub suspend_us: i64,
}
