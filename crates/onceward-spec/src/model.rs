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
}

/// A CEL expression and where it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expression {
    /// The source text, known to compile.
    pub text: String,
    /// Where it begins.
    pub place: Place,
}

/// Grouping and aggregation.
#[derive(Clone, PartialEq, Debug)]
pub struct KeyedSpec {
    /// Fields of the key, in order.
    pub group_by: Vec<String>,
    /// Number of key-range partitions; fixed at the pipeline's first start.
    pub partitions: u32,
    /// Size of the tumbling window, microseconds.
    pub window_us: i64,
    /// How long after a window's end its late rows still count, microseconds.
    pub allowed_lateness_us: i64,
    /// Output name and aggregate, in order.
    pub compute: Vec<(String, AggregateSpec)>,
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
    pub delivery: Option<Level>,
    /// Where it stands.
    pub place: Place,
}
