//! From a manifest to a plan in which every source is pushed and every sink is captured.

use std::path::Path;

use onceward_connector::{Codec, Registry};
use onceward_engine::layout::{LayoutPartition, LayoutSource, Role};
use onceward_engine::{Layout, Plan};
use onceward_protocol::Creation;
use onceward_spec::{ComputationSpec, EventTimeSpec, Expression, OperatorSpec, Pipeline, Place, StepSpec};

use super::clock::on_whole_ticks;
use super::error::HarnessError;
use super::target::BEHAVIOUR;

/// The field of a row that only carries a watermark. No function, sink or window ever sees such a row.
pub(super) const MARK: &str = "onceward_watermark";
/// The name of a source's only partition.
const ONLY: &str = "0";

/// Messages in an epoch, at most, so that a test meets several.
const MAX_EPOCH_ROWS: u64 = 1000;

/// A source as a test knows it.
pub(super) struct PushedSource {
    pub(super) name: String,
    pub(super) event_time: Option<EventTimeSpec>,
}

/// What does not change while a test runs; every run of a crash test shares it.
pub(super) struct Setup {
    pub(super) plan: Plan,
    pub(super) layout: Layout,
    pub(super) partitions: Vec<LayoutPartition>,
    pub(super) sources: Vec<PushedSource>,
}

impl Setup {
    pub(super) fn new(manifest: &str, registry: &Registry) -> Result<Self, HarnessError> {
        let mut pipeline = crate::prepare::pipeline(manifest, Path::new("."), registry)?;
        let sources: Vec<PushedSource> = pipeline
            .sources
            .iter()
            .map(|source| PushedSource { name: source.name.clone(), event_time: source.event_time.clone() })
            .collect();
        for_a_test(&mut pipeline);
        let codecs = vec![Codec::Json; pipeline.sources.len()];
        let behaviours = vec![BEHAVIOUR; pipeline.sinks.len()];
        let registry = on_whole_ticks(&pipeline, registry);
        let plan = Plan::compile(pipeline, &codecs, &behaviours, &registry)?;
        let layout_sources = plan.pipeline.sources.iter().zip(1..).map(|(source, number)| LayoutSource {
            name: source.name.clone(),
            creation: Creation(number),
            partitions: vec![ONLY.to_owned()],
            first: 0,
        });
        let name = plan.pipeline.name.clone();
        let layout = Layout::new(Creation(0), name, String::new(), layout_sources.collect(), plan.keyed());
        let partitions = layout.partitions();
        Ok(Setup { plan, layout, partitions, sources })
    }

    /// The number of a source, which is also the number of its only partition.
    pub(super) fn source(&self, name: &str) -> Result<usize, HarnessError> {
        find("source", name, self.sources.iter().map(|source| source.name.as_str()))
    }
    /// The number of a sink.
    pub(super) fn sink(&self, name: &str) -> Result<u32, HarnessError> {
        find("sink", name, self.plan.pipeline.sinks.iter().map(|sink| sink.name.as_str()))
            .map(|number| number as u32)
    }
    /// The computations with a process function, and the fields of their keys.
    pub(super) fn processes(&self) -> impl Iterator<Item = (&str, &[String])> + Clone {
        self.plan.pipeline.computations.iter().filter_map(|computation| {
            let keyed = computation.keyed.as_ref()?;
            matches!(keyed.operator, OperatorSpec::Process(_))
                .then_some((computation.name.as_str(), keyed.group_by.as_slice()))
        })
    }
    /// The fields of the key of a computation with a process function.
    pub(super) fn process(&self, name: &str) -> Result<&[String], HarnessError> {
        let number = find("process function of computation", name, self.processes().map(|(name, _)| name))?;
        Ok(self.processes().nth(number).map_or(&[], |(_, group_by)| group_by))
    }
    /// The partitions of a source or a computation with groupBy.
    pub(super) fn partitions_of(&self, name: &str) -> Result<Vec<&LayoutPartition>, HarnessError> {
        let names = self
            .sources
            .iter()
            .map(|source| source.name.as_str())
            .chain(self.layout.keyed.iter().map(|keyed| keyed.name.as_str()));
        find("source or computation with groupBy", name, names)?;
        Ok(self.partitions.iter().filter(|partition| self.owner(partition) == name).collect())
    }
    /// The source or computation that a partition belongs to.
    fn owner(&self, partition: &LayoutPartition) -> &str {
        match &partition.role {
            Role::Source { source, .. } => &self.sources[*source].name,
            Role::Keyed { keyed, .. } => &self.layout.keyed[*keyed].name,
        }
    }
    /// What a partition is called in messages.
    pub(super) fn label(&self, number: u32) -> String {
        match self.partitions.get(number as usize) {
            Some(partition) => match &partition.role {
                Role::Source { source, .. } => format!("source {}", self.sources[*source].name),
                Role::Keyed { range, .. } => format!("{}[{}]", self.owner(partition), range.index),
            },
            None => format!("partition {number}"),
        }
    }
}

fn find<'a>(
    kind: &'static str,
    found: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> Result<usize, HarnessError> {
    known.clone().position(|name| name == found).ok_or_else(|| HarnessError::Unknown {
        kind,
        found: found.to_owned(),
        known: known.map(str::to_owned).collect(),
    })
}

/// What a test of functions leaves out of a manifest, and what it sharpens.
fn for_a_test(pipeline: &mut Pipeline) {
    // Epochs close as soon as they can: a test waits for nothing but its own clock.
    pipeline.epoch.interval_us = 1;
    pipeline.epoch.max_rows = pipeline.epoch.max_rows.min(MAX_EPOCH_ROWS);
    // Every message goes through the deterministic steps twice.
    pipeline.replay_check = 1;
    for sink in &mut pipeline.sinks {
        sink.delivery = None;
        sink.at_most_once = None;
    }
    let mut unmarked = Vec::new();
    for source in pipeline.sources.iter_mut().filter(|source| source.event_time.is_some()) {
        // The stream keeps its name and its consumers; rows that only carry a watermark end in front of it.
        let pushed = format!("{} (pushed)", source.name);
        let name = std::mem::replace(&mut source.name, pushed.clone());
        unmarked.push(ComputationSpec {
            name,
            inputs: vec![pushed],
            steps: vec![StepSpec::Filter(Expression {
                text: format!("!has({MARK})"),
                place: Place::default(),
            })],
            keyed: None,
            place: Place::default(),
        });
    }
    pipeline.computations.splice(0..0, unmarked);
}
