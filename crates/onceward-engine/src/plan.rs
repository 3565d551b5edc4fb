//! From a validated pipeline to jobs: fused trees per source and per keyed computation, and the lanes
//! between them.

use std::sync::Arc;

use onceward_connector::{BlockPolicy, Codec, SinkContract};
use onceward_expr::Program;
use onceward_protocol::watermark::Tumbling;
use onceward_protocol::{Generation, LaneKey, Mutants};
use onceward_spec::{ComputationSpec, Expression, KeyedSpec, Pipeline, StepSpec};

use crate::delivery::SinkPlan;
use crate::error::EngineError;
use crate::fused::{KeyedTerminal, Node, Tree, TreeBuilder, json_member};
use crate::job::Job;
use crate::keyed_job::{KeyedJob, KeyedJobPlan, LanePlan};
use crate::layout::{Layout, LayoutPartition, Role};
use crate::source_job::{LaneGroup, SourceJob, SourceJobPlan};
use crate::stored::Stored;

/// Stages and nodes a path may have; a manifest that needs more is refused.
const MAX_DEPTH: usize = 256;

/// Streams on all paths from one source, counted once per path.
const MAX_VISITS: usize = 10_000;

/// One (stream, keyed computation) pair that a source feeds: a group of lanes.
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
    tree: Arc<Tree>,
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
}

/// A compiled pipeline.
pub struct Plan {
    /// What it was compiled from.
    pub pipeline: Pipeline,
    sources: Vec<SourcePart>,
    keyed: Vec<KeyedPart>,
    sinks: Vec<SinkPlan>,
    streams: Vec<String>,
}

struct Compiler<'a> {
    pipeline: &'a Pipeline,
    behaviours: &'a [SinkBehaviour],
    streams: Vec<String>,
    builder: TreeBuilder,
    groups: Vec<Group>,
    sinks: Vec<u32>,
    visits: usize,
}

impl Plan {
    /// Compiles `pipeline`. `codecs` and `behaviours` are per source and per sink, in manifest order.
    pub fn compile(
        pipeline: Pipeline,
        codecs: &[Codec],
        behaviours: &[SinkBehaviour],
    ) -> Result<Plan, EngineError> {
        let mut streams: Vec<String> = pipeline.sources.iter().map(|source| source.name.clone()).collect();
        streams.extend(pipeline.computations.iter().map(|computation| computation.name.clone()));
        let mut sources = Vec::new();
        for (source, codec) in pipeline.sources.iter().zip(codecs) {
            let mut compiler = Compiler::new(&pipeline, behaviours, &streams, codec.clone());
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
            let Some(spec) = &computation.keyed else { continue };
            let mut compiler = Compiler::new(&pipeline, behaviours, &streams, Codec::Json);
            let roots = compiler.consumers(&computation.name, 0, 0)?;
            if !compiler.groups.is_empty() {
                return Err(EngineError::Plan(format!(
                    "computation {} feeds another groupBy; one key exchange per path is what this version does",
                    computation.name
                )));
            }
            keyed.push(KeyedPart {
                name: computation.name.clone(),
                spec: Arc::new(spec.clone()),
                tree: Arc::new(compiler.builder.finish(roots, None, 0)),
                sinks: compiler.sinks,
            });
        }
        let sinks = pipeline
            .sinks
            .iter()
            .zip(behaviours)
            .enumerate()
            .map(|(number, (sink, behaviour))| SinkPlan {
                number: number as u32,
                name: sink.name.clone(),
                contract: behaviour.contract,
                policy: behaviour.policy,
            })
            .collect();
        Ok(Plan { sources, keyed, sinks, streams, pipeline })
    }

    /// Names and numbers of key ranges, for a new layout.
    pub fn keyed(&self) -> impl Iterator<Item = (&str, u32)> {
        self.keyed.iter().map(|part| (part.name.as_str(), part.spec.partitions))
    }

    /// The sinks whose outbox a partition with this role has.
    pub fn sinks_of(&self, role: &Role) -> &[u32] {
        match role {
            Role::Source { source, .. } => &self.sources[*source].sinks,
            Role::Keyed { keyed, .. } => &self.keyed[*keyed].sinks,
        }
    }

    fn sink_plans(&self, numbers: &[u32]) -> Vec<SinkPlan> {
        numbers.iter().filter_map(|number| self.sinks.get(*number as usize).cloned()).collect()
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
        let partitions = layout.partitions();
        let limits = self.pipeline.epoch;
        match &partition.role {
            Role::Source { source, .. } => {
                let part = &self.sources[*source];
                let groups = part
                    .groups
                    .iter()
                    .map(|group| LaneGroup {
                        window: window(&self.keyed[group.keyed].spec),
                        lanes: partitions
                            .iter()
                            .filter(|to| matches!(to.role, Role::Keyed { keyed, .. } if keyed == group.keyed))
                            .map(|to| LaneKey {
                                producer: partition.number,
                                stream: group.stream,
                                consumer: to.number,
                            })
                            .collect(),
                    })
                    .collect();
                let plan = SourceJobPlan {
                    partition: partition.id.clone(),
                    stream: self.pipeline.sources[*source].name.clone(),
                    tree: part.tree.clone(),
                    groups,
                    sinks: self.sink_plans(&part.sinks),
                    disorder_us: part.disorder_us,
                    limits,
                };
                Ok(Job::Source(Box::new(SourceJob::new(plan, generation, stored, seed)?)))
            }
            Role::Keyed { keyed, .. } => {
                let part = &self.keyed[*keyed];
                let mut lanes = Vec::new();
                for from in &partitions {
                    let Role::Source { source, .. } = &from.role else { continue };
                    for group in self.sources[*source].groups.iter().filter(|group| group.keyed == *keyed) {
                        lanes.push(LanePlan {
                            key: LaneKey {
                                producer: from.number,
                                stream: group.stream,
                                consumer: partition.number,
                            },
                            stream: self.streams[group.stream as usize].clone(),
                            producer: from.id.clone(),
                        });
                    }
                }
                let plan = KeyedJobPlan {
                    partition: partition.id.clone(),
                    computation: part.name.clone(),
                    spec: part.spec.clone(),
                    lanes,
                    tree: part.tree.clone(),
                    sinks: self.sink_plans(&part.sinks),
                    limits,
                    mutants,
                };
                Ok(Job::Keyed(Box::new(KeyedJob::new(plan, generation, stored, seed)?)))
            }
        }
    }
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
pub(crate) fn window(spec: &KeyedSpec) -> Tumbling {
    Tumbling { size: spec.window_us, allowed_lateness: spec.allowed_lateness_us }
}

impl<'a> Compiler<'a> {
    fn new(
        pipeline: &'a Pipeline,
        behaviours: &'a [SinkBehaviour],
        streams: &[String],
        codec: Codec,
    ) -> Self {
        Compiler {
            pipeline,
            behaviours,
            streams: streams.to_vec(),
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
        let args = spec
            .compute
            .iter()
            .filter_map(|(name, call)| call.argument.as_ref().map(|argument| (name, argument)))
            .map(|(name, argument)| {
                Ok((format!("{}.compute.{name}", computation.name), self.program(argument, stage)?))
            })
            .collect::<Result<Vec<_>, EngineError>>()?;
        Ok(Node::Keyed(KeyedTerminal {
            step: format!("{} groupBy", computation.name),
            group: number,
            key,
            args,
        }))
    }

    fn program(&mut self, expression: &Expression, stage: usize) -> Result<Program, EngineError> {
        Program::compile(&expression.text, self.builder.fields(stage))
            .map_err(|error| EngineError::Plan(format!("expression {:?}: {error}", expression.text)))
    }
}
