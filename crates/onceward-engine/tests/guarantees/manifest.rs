//! Pipelines in a few lines, without a manifest file.

use onceward_connector::{BlockPolicy, Codec, Config, Registry, SinkContract};
use onceward_engine::layout::LayoutSource;
use onceward_engine::plan::SinkBehaviour;
use onceward_engine::{EngineError, Layout, Plan};
use onceward_protocol::Creation;
use onceward_spec::{
    AggregateFunction, AggregateSpec, ComputationSpec, DedupMode, DedupSpec, EpochLimits, EventTimeSpec,
    Expression, FunctionRef, KeyedSpec, OperatorSpec, Pipeline, Place, ProcessSpec, ProcessingMode, SinkSpec,
    SourceSpec, StepSpec, WindowsSpec,
};

/// One second in the unit of times.
pub const SECOND: i64 = 1_000_000;
/// The window size of every pipeline here.
pub const MINUTE: i64 = 60 * SECOND;

/// A pipeline being written down.
#[derive(Clone)]
pub struct Manifest {
    pub pipeline: Pipeline,
    pub registry: Registry,
    codecs: Vec<Codec>,
    partitions: Vec<usize>,
    pub behaviour: SinkBehaviour,
}

fn expression(text: &str) -> Expression {
    Expression { text: text.to_owned(), place: Place::default() }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn keyed(keys: &[&str], partitions: u32, operator: OperatorSpec) -> KeyedSpec {
    KeyedSpec {
        group_by: owned(keys),
        partitions,
        min_partitions: partitions,
        max_partitions: partitions,
        operator,
        dedup: DedupSpec { mode: DedupMode::Frontier, by: Vec::new(), keep_us: 0 },
        processing_mode: ProcessingMode::ExactlyOnce,
    }
}

/// A function by its name.
pub fn function_ref(name: &str) -> FunctionRef {
    FunctionRef { name: name.to_owned(), place: Place::default() }
}

/// A filter step.
pub fn filter(text: &str) -> StepSpec {
    StepSpec::Filter(expression(text))
}

/// A map step.
pub fn map(fields: &[(&str, &str)]) -> StepSpec {
    StepSpec::Map(fields.iter().map(|(name, text)| ((*name).to_owned(), expression(text))).collect())
}

/// Aggregates by output name, each as a function and its argument.
pub type Compute<'a> = &'a [(&'a str, AggregateFunction, Option<&'a str>)];

/// What most windows here compute.
pub const COUNT_AND_SUM: Compute<'static> =
    &[("n", AggregateFunction::Count, None), ("sum", AggregateFunction::Sum, Some("v"))];

impl Manifest {
    pub fn new() -> Self {
        Manifest {
            pipeline: Pipeline {
                name: "tested".to_owned(),
                base_dir: std::path::PathBuf::new(),
                require: None,
                epoch: EpochLimits { interval_us: 5_000, max_rows: 2_000, max_bytes: 1 << 20 },
                shutdown_timeout_us: 0,
                replicas: None,
                replay_check: 7,
                sources: Vec::new(),
                computations: Vec::new(),
                sinks: Vec::new(),
            },
            registry: Registry::default(),
            codecs: Vec::new(),
            partitions: Vec::new(),
            behaviour: SinkBehaviour {
                contract: SinkContract::ProgressInTarget,
                policy: BlockPolicy { max_rows: 100, max_bytes: 1 << 20, max_age_us: 20_000 },
                reads_fields: false,
                by_reference: false,
            },
        }
    }
    /// A JSON source of `partitions` partitions. With `event_time`, it lies in the field `t`, and rows may
    /// come that much out of order.
    pub fn source(mut self, name: &str, partitions: usize, event_time: Option<i64>) -> Self {
        self.pipeline.sources.push(SourceSpec {
            name: name.to_owned(),
            connector: "tested".to_owned(),
            config: Config::default(),
            event_time: event_time.map(|disorder| EventTimeSpec {
                field: "t".to_owned(),
                out_of_orderness_us: disorder,
                idle_after_us: None,
            }),
            materialise: false,
            place: Place::default(),
        });
        self.codecs.push(Codec::Json);
        self.partitions.push(partitions);
        self
    }
    /// The last source's partitions hold no watermark after so much silence.
    pub fn idle_after(mut self, micros: Option<i64>) -> Self {
        let source = self.pipeline.sources.last_mut().unwrap();
        source.event_time.as_mut().unwrap().idle_after_us = micros;
        self
    }
    /// The last source gives records of this codec.
    pub fn codec(mut self, codec: Codec) -> Self {
        *self.codecs.last_mut().unwrap() = codec;
        self
    }
    pub fn step(self, name: &str, inputs: &[&str], steps: Vec<StepSpec>) -> Self {
        self.computation(name, inputs, steps, None)
    }
    /// Windows of a minute, keyed by `keys`.
    pub fn windows(self, name: &str, inputs: &[&str], keys: &[&str], compute: Compute<'_>) -> Self {
        self.ranges(name, inputs, keys, compute, 1)
    }
    /// The same over several key ranges.
    pub fn ranges(
        self,
        name: &str,
        inputs: &[&str],
        keys: &[&str],
        compute: Compute<'_>,
        partitions: u32,
    ) -> Self {
        let compute = compute
            .iter()
            .map(|(name, function, argument)| {
                let argument = argument.map(expression);
                ((*name).to_owned(), AggregateSpec { function: *function, argument })
            })
            .collect();
        let windows = WindowsSpec { window_us: MINUTE, allowed_lateness_us: 0, compute, late: None };
        let keyed = keyed(keys, partitions, OperatorSpec::Windows(windows));
        self.computation(name, inputs, Vec::new(), Some(keyed))
    }
    /// A registered process function, keyed by `keys`.
    pub fn process(
        self,
        name: &str,
        inputs: &[&str],
        keys: &[&str],
        function: &str,
        partitions: u32,
    ) -> Self {
        let function = function_ref(function);
        let operator = OperatorSpec::Process(ProcessSpec { function, config: Vec::new() });
        self.computation(name, inputs, Vec::new(), Some(keyed(keys, partitions, operator)))
    }
    /// The last computation's spec.
    pub fn keyed_mut(&mut self) -> &mut KeyedSpec {
        self.pipeline.computations.last_mut().and_then(|last| last.keyed.as_mut()).unwrap()
    }
    /// The late rows of the last computation, which has windows, are a stream of their own.
    pub fn late(mut self, stream: &str) -> Self {
        if let OperatorSpec::Windows(windows) = &mut self.keyed_mut().operator {
            windows.late = Some(stream.to_owned());
        }
        self
    }
    /// The last source stores its messages before they leave.
    pub fn materialised(mut self) -> Self {
        self.pipeline.sources.last_mut().unwrap().materialise = true;
        self
    }
    fn computation(
        mut self,
        name: &str,
        inputs: &[&str],
        steps: Vec<StepSpec>,
        keyed: Option<KeyedSpec>,
    ) -> Self {
        self.pipeline.computations.push(ComputationSpec {
            name: name.to_owned(),
            inputs: owned(inputs),
            steps,
            keyed,
            place: Place::default(),
        });
        self
    }
    /// The last computation still counts rows that come this much after a window's end.
    pub fn lateness(mut self, lateness_us: i64) -> Self {
        if let OperatorSpec::Windows(windows) = &mut self.keyed_mut().operator {
            windows.allowed_lateness_us = lateness_us;
        }
        self
    }
    pub fn sink(mut self, name: &str, inputs: &[&str]) -> Self {
        self.pipeline.sinks.push(SinkSpec {
            name: name.to_owned(),
            inputs: owned(inputs),
            connector: "tested".to_owned(),
            config: Config::default(),
            delivery: None,
            at_most_once: None,
            place: Place::default(),
        });
        self
    }
    /// Epochs close at this many rows.
    pub fn epoch_rows(mut self, max_rows: u64) -> Self {
        self.pipeline.epoch.max_rows = max_rows;
        self
    }
    /// Blocks close at this many rows.
    pub fn block_rows(mut self, max_rows: usize) -> Self {
        self.behaviour.policy.max_rows = max_rows;
        self
    }
    pub fn compile(&self) -> Result<Plan, EngineError> {
        let behaviours = vec![self.behaviour; self.pipeline.sinks.len()];
        Plan::compile(self.pipeline.clone(), &self.codecs, &behaviours, &self.registry)
    }
    /// Source partitions are called `p0`, `p1`, ...
    pub fn layout(&self) -> Layout {
        let sources = self.pipeline.sources.iter().zip(&self.partitions).enumerate();
        let sources = sources.map(|(number, (source, partitions))| LayoutSource {
            name: source.name.clone(),
            creation: Creation(100 + number as u128),
            partitions: (0..*partitions).map(|partition| format!("p{partition}")).collect(),
            first: 0,
        });
        let keyed = self.pipeline.computations.iter().filter_map(|computation| {
            computation.keyed.as_ref().map(|spec| (computation.name.as_str(), spec.partitions))
        });
        Layout::new(Creation(1), self.pipeline.name.clone(), String::new(), sources.collect(), keyed)
    }
}

/// A row with key, second of the event time and value.
pub fn row(key: &str, second: i64, value: i64) -> String {
    format!(
        r#"{{"k":"{key}","t":"1970-01-01T{:02}:{:02}:{:02}Z","v":{value}}}"#,
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}
