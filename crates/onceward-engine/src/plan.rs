//! From a validated pipeline to jobs: fused trees per source and per keyed computation, and the lanes
//! between them.

use std::sync::Arc;

use onceward_connector::{
    BlockPolicy, Codec, Function, MessageFunction, ProcessFunction, Registry, SinkContract,
};
use onceward_expr::Program;
use onceward_protocol::recut::Routing;
use onceward_protocol::watermark::Tumbling;
use onceward_protocol::{Generation, KeyRange, LaneKey, Mutants};
use onceward_spec::{ComputationSpec, Expression, KeyedSpec, OperatorSpec, Pipeline, StepSpec, WindowsSpec};

use crate::delivery::{AtMostOnce, SinkPlan};
use crate::error::EngineError;
use crate::fused::{KeyedTerminal, Node, Tree, TreeBuilder, json_member};
use crate::job::Job;
use crate::keyed_job::{KeyedJob, KeyedJobPlan, LanePlan};
use crate::layout::{Layout, LayoutPartition, Role};
use crate::source_job::{SourceJob, SourceJobPlan};
use crate::stored::Stored;

/// Stages and nodes a path may have; a manifest that needs more is refused.
const MAX_DEPTH: usize = 256;

/// A process function hears of the watermark whenever it enters another one of these: microseconds of event time.
const TIMER_GRAIN_US: i64 = 1_000_000;

/// Streams on all paths from one source, counted once per path.
const MAX_VISITS: usize = 10_000;

/// A group of lanes: one stream on its way to one keyed computation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupWiring {
    /// Under this name materialised messages are stored.
    pub name: String,
    /// The lanes with what each consumer owns, in order of key; they tile the key space.
    pub lanes: Vec<(LaneKey, KeyRange)>,
    /// At which watermarks the consumer must be told: where a window closes, or every second of event time for a
    /// process function's timers.
    pub window: Tumbling,
}

impl GroupWiring {
    /// The lanes, in order of key.
    pub fn keys(&self) -> impl Iterator<Item = LaneKey> {
        self.lanes.iter().map(|(key, _)| *key)
    }
    /// Which lane a key takes; `None` if the ranges do not tile, which no layout does.
    pub fn routing(&self) -> Option<Routing> {
        let ranges: Vec<KeyRange> = self.lanes.iter().map(|(_, range)| *range).collect();
        Routing::new(&ranges)
    }
}

/// What a layout means for one job: whom it sends to, whom it takes from, and whether it may release anything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wiring {
    /// The layout's version.
    pub version: u32,
    /// By group number of the job.
    pub consumers: Vec<GroupWiring>,
    /// The lanes that it may take from (DEFAULT-DENY).
    pub producers: Vec<LanePlan>,
    /// Whether an overlapping ancestor is undrained (ANCESTOR-GATE).
    pub gated: bool,
}

/// One (stream, keyed computation) pair that a job feeds: a group of lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Group {
    stream: u32,
    keyed: usize,
}

struct SourcePart {
    tree: Arc<Tree>,
    groups: Vec<Group>,
    sinks: Vec<u32>,
    disorder_us: i64,
}

struct KeyedPart {
    name: String,
    spec: Arc<KeyedSpec>,
    function: Option<Function>,
    tree: Arc<Tree>,
    late: Option<Arc<Tree>>,
    /// Of the tree, then of the late tree.
    groups: Vec<Group>,
    sinks: Vec<u32>,
}

/// How a sink behaves, as its connector says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SinkBehaviour {
    /// Its contract.
    pub contract: SinkContract,
    /// When blocks close.
    pub policy: BlockPolicy,
    /// Whether it reads the fields of rows.
    pub reads_fields: bool,
    /// Whether a source may owe it ranges of itself instead of rows.
    pub by_reference: bool,
}

/// A compiled pipeline.
pub struct Plan {
    /// What it was compiled from.
    pub pipeline: Pipeline,
    sources: Vec<SourcePart>,
    keyed: Vec<KeyedPart>,
    sinks: Vec<SinkPlan>,
    streams: Vec<String>,
    /// By keyed computation.
    stages: Vec<u32>,
}

struct Compiler<'a> {
    pipeline: &'a Pipeline,
    registry: &'a Registry,
    behaviours: &'a [SinkBehaviour],
    streams: &'a [String],
    builder: TreeBuilder,
    groups: Vec<Group>,
    sinks: Vec<u32>,
    visits: usize,
}

impl Plan {
    /// Compiles `pipeline`. `codecs` and `behaviours` are per source and per sink, in manifest order; functions
    /// come from the registry.
    pub fn compile(
        pipeline: Pipeline,
        codecs: &[Codec],
        behaviours: &[SinkBehaviour],
        registry: &Registry,
    ) -> Result<Plan, EngineError> {
        let streams = stream_names(&pipeline);
        let mut sources = Vec::new();
        for (source, codec) in pipeline.sources.iter().zip(codecs) {
            let mut compiler = Compiler::new(&pipeline, registry, behaviours, &streams, codec.clone());
            let event_time =
                source.event_time.as_ref().map(|spec| compiler.builder.fields(0).intern(&spec.field));
            let roots = compiler.consumers(&source.name, 0, 0)?;
            check_columns(&source.name, codec, compiler.builder.fields(0).names())?;
            let groups = compiler.groups;
            sources.push(SourcePart {
                tree: Arc::new(compiler.builder.finish(roots, event_time, groups.len())),
                groups,
                sinks: compiler.sinks,
                disorder_us: source.event_time.as_ref().map_or(0, |spec| spec.out_of_orderness_us),
            });
        }
        let mut keyed = Vec::new();
        for computation in &pipeline.computations {
            if let Some(spec) = &computation.keyed {
                keyed.push(keyed_part(computation, spec, &pipeline, registry, behaviours, &streams)?);
            }
        }
        let sinks = sink_plans(&pipeline, behaviours);
        let stages = stages(&keyed);
        Ok(Plan { sources, keyed, sinks, streams, stages, pipeline })
    }

    /// Names and numbers of key ranges, for a new layout.
    pub fn keyed(&self) -> impl Iterator<Item = (&str, u32)> {
        self.keyed.iter().map(|part| (part.name.as_str(), part.spec.partitions))
    }

    /// What a keyed computation does, by its number.
    pub fn operator(&self, keyed: usize) -> &OperatorSpec {
        &self.keyed[keyed].spec.operator
    }
    /// How many key ranges a computation may have, by its number: at least and at most.
    pub fn bounds(&self, keyed: usize) -> (u32, u32) {
        let spec = &self.keyed[keyed].spec;
        (spec.min_partitions, spec.max_partitions)
    }
    /// How many exchanges lie before a partition: sources are stage 0, and everything that feeds a computation has a
    /// lower stage than it.
    pub fn stage(&self, role: &Role) -> u32 {
        match role {
            Role::Source { .. } => 0,
            Role::Keyed { keyed, .. } => self.stage_of(*keyed),
        }
    }
    /// As [`Plan::stage`], of a keyed computation by its number.
    pub fn stage_of(&self, keyed: usize) -> u32 {
        self.stages.get(keyed).copied().unwrap_or(1)
    }
    /// The sinks whose outbox a partition with this role has.
    pub fn sinks_of(&self, role: &Role) -> &[u32] {
        match role {
            Role::Source { source, .. } => &self.sources[*source].sinks,
            Role::Keyed { keyed, .. } => &self.keyed[*keyed].sinks,
        }
    }

    fn sink_plans(&self, numbers: &[u32], by_reference: bool, mutants: Mutants) -> Vec<SinkPlan> {
        let plan = |number: &u32| {
            let plan = self.sinks.get(*number as usize)?.clone();
            Some(SinkPlan { by_reference: by_reference && plan.by_reference, mutants, ..plan })
        };
        numbers.iter().filter_map(plan).collect()
    }

    fn group_wiring(&self, layout: &Layout, producer: u32, group: Group) -> GroupWiring {
        let part = &self.keyed[group.keyed];
        let consumers = layout.keyed.get(group.keyed).into_iter().flat_map(|keyed| keyed.live());
        GroupWiring {
            name: format!("{} > {}", self.streams[group.stream as usize], part.name),
            lanes: consumers
                .map(|to| {
                    let key = LaneKey { producer, stream: group.stream, consumer: to.number };
                    (key, to.range)
                })
                .collect(),
            window: match &part.spec.operator {
                OperatorSpec::Windows(windows) => window(windows),
                OperatorSpec::Process(_) => Tumbling { size: TIMER_GRAIN_US, allowed_lateness: 0 },
            },
        }
    }

    /// What `layout` means for one partition.
    pub fn wiring(&self, layout: &Layout, partition: &LayoutPartition) -> Wiring {
        let groups = match &partition.role {
            Role::Source { source, .. } => &self.sources[*source].groups,
            Role::Keyed { keyed, .. } => &self.keyed[*keyed].groups,
        };
        let consumers =
            groups.iter().map(|group| self.group_wiring(layout, partition.number, *group)).collect();
        let (producers, gated) = match &partition.role {
            Role::Source { .. } => (Vec::new(), false),
            Role::Keyed { keyed, range } => (
                self.producers(layout, *keyed, partition.number),
                layout.keyed.get(*keyed).is_some_and(|layout| layout.is_gated(range)),
            ),
        };
        Wiring { version: layout.version, consumers, producers, gated }
    }

    /// Every partition that feeds a computation, retired ones too until they are drained.
    fn producers(&self, layout: &Layout, keyed: usize, consumer: u32) -> Vec<LanePlan> {
        let feeds = |groups: &[Group]| groups.iter().any(|group| group.keyed == keyed);
        let lanes = |from: LayoutPartition, groups: &[Group]| -> Vec<LanePlan> {
            let groups = groups.iter().filter(|group| group.keyed == keyed);
            let lane = |group: &Group| LanePlan {
                key: LaneKey { producer: from.number, stream: group.stream, consumer },
                stream: self.streams[group.stream as usize].clone(),
                producer: from.id.clone(),
            };
            groups.map(lane).collect()
        };
        // Only what feeds it is looked at: most layouts are many ranges of which few feed each other.
        let sources = self.sources.iter().enumerate().filter(|(_, part)| feeds(&part.groups));
        let ranges = self.keyed.iter().enumerate().filter(|(_, part)| feeds(&part.groups));
        sources
            .flat_map(|(index, part)| {
                layout.source_partitions(index).flat_map(|from| lanes(from, &part.groups)).collect::<Vec<_>>()
            })
            .chain(ranges.flat_map(|(index, part)| {
                layout.keyed_partitions(index).flat_map(|from| lanes(from, &part.groups)).collect::<Vec<_>>()
            }))
            .collect()
    }

    /// Builds the job of one partition from what is stored of it. `seed` feeds its nonces.
    pub fn job(
        &self,
        layout: &Layout,
        partition: &LayoutPartition,
        generation: Generation,
        stored: Stored,
        seed: u64,
        mutants: Mutants,
    ) -> Result<Job, EngineError> {
        let limits = self.pipeline.epoch;
        let wiring = self.wiring(layout, partition);
        match &partition.role {
            Role::Source { source, .. } => {
                let part = &self.sources[*source];
                let spec = &self.pipeline.sources[*source];
                let plan = SourceJobPlan {
                    partition: partition.id.clone(),
                    stream: spec.name.clone(),
                    tree: part.tree.clone(),
                    wiring,
                    materialised: spec.materialise,
                    sinks: self.sink_plans(&part.sinks, !spec.materialise, mutants),
                    disorder_us: part.disorder_us,
                    idle_after_us: spec.event_time.as_ref().and_then(|time| time.idle_after_us),
                    limits,
                    replay_check: self.pipeline.replay_check,
                };
                Ok(Job::Source(Box::new(SourceJob::new(plan, generation, stored, seed)?)))
            }
            Role::Keyed { keyed, range } => {
                let part = &self.keyed[*keyed];
                let plan = KeyedJobPlan {
                    partition: partition.id.clone(),
                    computation: part.name.clone(),
                    created: range.version,
                    range: range.range,
                    function: self.process_function(part)?,
                    spec: part.spec.clone(),
                    wiring,
                    retired: range.retired,
                    tree: part.tree.clone(),
                    late: part.late.clone(),
                    sinks: self.sink_plans(&part.sinks, false, mutants),
                    limits,
                    replay_check: self.pipeline.replay_check,
                    mutants,
                };
                Ok(Job::Keyed(Box::new(KeyedJob::new(plan, generation, stored, seed)?)))
            }
        }
    }

    fn process_function(&self, part: &KeyedPart) -> Result<Option<Box<dyn ProcessFunction>>, EngineError> {
        let (OperatorSpec::Process(spec), Some(Function::Process(factory))) =
            (&part.spec.operator, &part.function)
        else {
            return Ok(None);
        };
        factory(&spec.config).map(Some).map_err(|error| {
            EngineError::Plan(format!(
                "function {} of computation {} refuses its config: {error}",
                spec.function.name, part.name
            ))
        })
    }
}

/// The longest way from a source, in exchanges. There is no cycle: a manifest with one is refused.
fn stages(keyed: &[KeyedPart]) -> Vec<u32> {
    let mut stages = vec![1; keyed.len()];
    for _ in 0..keyed.len() {
        for (from, part) in keyed.iter().enumerate() {
            for group in &part.groups {
                stages[group.keyed] = stages[group.keyed].max(stages[from] + 1);
            }
        }
    }
    stages
}

/// Sources, computations and the streams of late rows, in manifest order.
fn stream_names(pipeline: &Pipeline) -> Vec<String> {
    let mut streams: Vec<String> = pipeline.sources.iter().map(|source| source.name.clone()).collect();
    streams.extend(pipeline.computations.iter().map(|computation| computation.name.clone()));
    streams.extend(pipeline.computations.iter().filter_map(|item| late_stream(item).map(str::to_owned)));
    streams
}

fn late_stream(computation: &ComputationSpec) -> Option<&str> {
    match &computation.keyed.as_ref()?.operator {
        OperatorSpec::Windows(windows) => windows.late.as_deref(),
        OperatorSpec::Process(_) => None,
    }
}

fn keyed_part(
    computation: &ComputationSpec,
    spec: &KeyedSpec,
    pipeline: &Pipeline,
    registry: &Registry,
    behaviours: &[SinkBehaviour],
    streams: &[String],
) -> Result<KeyedPart, EngineError> {
    let mut compiler = Compiler::new(pipeline, registry, behaviours, streams, Codec::Json);
    let roots = compiler.consumers(&computation.name, 0, 0)?;
    let Compiler { builder, mut groups, mut sinks, .. } = compiler;
    let tree = Arc::new(builder.finish(roots, None, groups.len()));
    let mut late = None;
    if let Some(stream) = late_stream(computation) {
        let mut compiler = Compiler::new(pipeline, registry, behaviours, streams, Codec::Json);
        let roots = compiler.consumers(stream, 0, 0)?;
        late = Some(Arc::new(compiler.builder.finish(roots, None, compiler.groups.len())));
        groups.extend(compiler.groups);
        sinks.extend(compiler.sinks.into_iter().filter(|sink| !sinks.contains(sink)).collect::<Vec<_>>());
    }
    let function = match &spec.operator {
        OperatorSpec::Process(process) => registry.function(&process.function.name).cloned(),
        OperatorSpec::Windows(_) => None,
    };
    Ok(KeyedPart {
        name: computation.name.clone(),
        spec: Arc::new(spec.clone()),
        function,
        tree,
        late,
        groups,
        sinks,
    })
}

fn sink_plans(pipeline: &Pipeline, behaviours: &[SinkBehaviour]) -> Vec<SinkPlan> {
    let plan = |(number, (sink, behaviour)): (usize, (&onceward_spec::SinkSpec, &SinkBehaviour))| SinkPlan {
        number: number as u32,
        name: sink.name.clone(),
        contract: behaviour.contract,
        policy: behaviour.policy,
        by_reference: behaviour.by_reference,
        at_most_once: sink
            .at_most_once
            .map(|limits| AtMostOnce { queue_bytes: limits.queue_bytes, suspend_us: limits.suspend_us }),
        mutants: Mutants::NONE,
    };
    pipeline.sinks.iter().zip(behaviours).enumerate().map(plan).collect()
}

/// The columns of a CSV source are known: a name that is none of them would be absent in every row.
fn check_columns(source: &str, codec: &Codec, names: &[String]) -> Result<(), EngineError> {
    let Codec::Csv(schema) = codec else { return Ok(()) };
    match names.iter().find(|name| schema.columns.iter().all(|column| column.name != **name)) {
        None => Ok(()),
        Some(name) => {
            let columns: Vec<String> =
                schema.columns.iter().map(|column| format!("`{}`", column.name)).collect();
            Err(EngineError::Plan(format!(
                "the manifest reads field `{name}` of source {source}, whose columns are {}",
                columns.join(", ")
            )))
        }
    }
}

/// The windows of a keyed computation.
pub(crate) fn window(spec: &WindowsSpec) -> Tumbling {
    Tumbling { size: spec.window_us, allowed_lateness: spec.allowed_lateness_us }
}

impl<'a> Compiler<'a> {
    fn new(
        pipeline: &'a Pipeline,
        registry: &'a Registry,
        behaviours: &'a [SinkBehaviour],
        streams: &'a [String],
        codec: Codec,
    ) -> Self {
        Compiler {
            pipeline,
            registry,
            behaviours,
            streams,
            builder: TreeBuilder::new(codec),
            groups: Vec::new(),
            sinks: Vec::new(),
            visits: 0,
        }
    }

    /// Everything that reads `stream`, in manifest order: computations first, then sinks.
    fn consumers(&mut self, stream: &str, stage: usize, depth: usize) -> Result<Vec<Node>, EngineError> {
        self.visits += 1;
        if self.visits > MAX_VISITS {
            return Err(EngineError::Plan(format!(
                "the paths from one source branch and meet again into more than {MAX_VISITS} ways; stream {stream} is on too many of them"
            )));
        }
        if depth > MAX_DEPTH {
            return Err(EngineError::Plan(format!(
                "stream {stream} lies behind more than {MAX_DEPTH} steps"
            )));
        }
        let mut nodes = Vec::new();
        let pipeline = self.pipeline;
        for computation in &pipeline.computations {
            for _ in computation.inputs.iter().filter(|input| *input == stream) {
                nodes.extend(self.steps(computation, &computation.steps, stream, stage, depth + 1)?);
            }
        }
        for (number, sink) in pipeline.sinks.iter().enumerate() {
            let number = number as u32;
            for _ in sink.inputs.iter().filter(|input| *input == stream) {
                if self.behaviours.get(number as usize).is_some_and(|behaviour| behaviour.reads_fields) {
                    self.builder.scan(stage);
                }
                nodes.push(Node::Sink { sink: number });
                if !self.sinks.contains(&number) {
                    self.sinks.push(number);
                }
            }
        }
        Ok(nodes)
    }

    fn steps(
        &mut self,
        computation: &ComputationSpec,
        steps: &[StepSpec],
        stream: &str,
        stage: usize,
        depth: usize,
    ) -> Result<Vec<Node>, EngineError> {
        let Some((first, rest)) = steps.split_first() else {
            return match &computation.keyed {
                None => self.consumers(&computation.name, stage, depth + 1),
                Some(spec) => Ok(vec![self.terminal(computation, spec, stream, stage)?]),
            };
        };
        let step = format!("{}.steps[{}]", computation.name, computation.steps.len() - steps.len());
        match first {
            StepSpec::Filter(expression) => {
                let program = self.program(expression, stage)?;
                let then = self.steps(computation, rest, stream, stage, depth + 1)?;
                Ok(vec![Node::Filter { step: format!("{step} (filter)"), program, then }])
            }
            StepSpec::Map(fields) => {
                let fields = fields
                    .iter()
                    .map(|(name, expression)| Ok((json_member(name), self.program(expression, stage)?)))
                    .collect::<Result<Vec<_>, EngineError>>()?;
                let next = self.builder.stage();
                let then = self.steps(computation, rest, stream, next, depth + 1)?;
                Ok(vec![Node::Map { step: format!("{step} (map)"), fields, stage: next, then }])
            }
            StepSpec::Function(function) => {
                let step = format!("{step} (function {})", function.name);
                let function = self.message_function(&function.name)?;
                let next = self.builder.stage();
                let then = self.steps(computation, rest, stream, next, depth + 1)?;
                Ok(vec![Node::Function { step, function, stage: next, then }])
            }
        }
    }

    fn terminal(
        &mut self,
        computation: &ComputationSpec,
        spec: &KeyedSpec,
        stream: &str,
        stage: usize,
    ) -> Result<Node, EngineError> {
        let position = |name: &str| self.streams.iter().position(|stream| stream == name);
        let stream = position(stream).unwrap_or_default() as u32;
        let keyed = self
            .pipeline
            .computations
            .iter()
            .filter(|other| other.keyed.is_some())
            .position(|other| other.name == computation.name)
            .unwrap_or_default();
        let group = Group { stream, keyed };
        let number = self.groups.iter().position(|known| *known == group).unwrap_or_else(|| {
            self.groups.push(group);
            self.groups.len() - 1
        });
        let key = spec.group_by.iter().map(|field| self.builder.fields(stage).intern(field)).collect();
        let id = spec.dedup.by.iter().map(|field| self.builder.fields(stage).intern(field)).collect();
        let (compute, record) = match &spec.operator {
            OperatorSpec::Windows(windows) => (&windows.compute[..], windows.late.is_some()),
            OperatorSpec::Process(_) => (&[][..], true),
        };
        let args = compute
            .iter()
            .filter_map(|(name, call)| call.argument.as_ref().map(|argument| (name, argument)))
            .map(|(name, argument)| {
                Ok((format!("{}.compute.{name}", computation.name), self.program(argument, stage)?))
            })
            .collect::<Result<Vec<_>, EngineError>>()?;
        if record {
            // A record that is no JSON object is refused before it is taken.
            self.builder.scan(stage);
        }
        let step = format!("{} groupBy", computation.name);
        Ok(Node::Keyed(KeyedTerminal { step, group: number, key, args, id, record }))
    }

    fn message_function(&self, name: &str) -> Result<Arc<dyn MessageFunction>, EngineError> {
        match self.registry.function(name) {
            Some(Function::Message(function)) => Ok(function.clone()),
            _ => Err(EngineError::Plan(format!("no message function is registered as {name}"))),
        }
    }

    fn program(&mut self, expression: &Expression, stage: usize) -> Result<Program, EngineError> {
        Program::compile(&expression.text, self.builder.fields(stage))
            .map_err(|error| EngineError::Plan(format!("expression {:?}: {error}", expression.text)))
    }
}
