//! From a validated manifest to a plan with a layout in an open store.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use onceward_connector::{Registry, Sink, SinkContract, Source, StreamShape};
use onceward_engine::layout::{LAYOUT_KEY, LayoutSource};
use onceward_engine::plan::SinkBehaviour;
use onceward_engine::recut::PartitionRows;
use onceward_engine::{Layout, Plan};
use onceward_protocol::chain::Head;
use onceward_protocol::identity::PartitionKind;
use onceward_protocol::state::{Demand, PipelineState, next};
use onceward_protocol::{Branch, CommitOutcome, Creation, Generation, PartitionHead, PartitionId};
use onceward_spec::{ManifestInput, Pipeline};
use onceward_store::{EmbeddedStore, Operation, Options, StoreHandle, TableId};

use crate::error::RunError;
use crate::respec::{self, Wanted};

/// How to run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The store's directory.
    pub data_dir: PathBuf,
    /// Threads that run jobs.
    pub workers: usize,
    /// At most this many rows a second over all sources; `None` for no limit.
    pub rate: Option<u64>,
    /// Sources, computations and sinks whose state is dropped on purpose before the run.
    pub reset: BTreeSet<String>,
}

/// Every connector of this build.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    onceward_files::register(&mut registry);
    onceward_sqlite::register(&mut registry);
    registry
}

/// Reads a manifest; paths in it are relative to `base_dir`, its `${NAME}` are environment variables. The registry
/// says which connectors and functions it may name.
pub fn pipeline(text: &str, base_dir: &Path, registry: &Registry) -> Result<Pipeline, RunError> {
    let input = ManifestInput {
        text,
        file_name: "manifest",
        base_dir,
        sets: &[],
        env: &|name| std::env::var(name).ok(),
    };
    match onceward_spec::parse(&input, registry) {
        Ok(parsed) => Ok(parsed.pipeline),
        Err(errors) => {
            Err(RunError::Manifest(onceward_spec::render(&errors.items, text, input.file_name, false)))
        }
    }
}

/// A pipeline that is ready to run.
pub struct Prepared {
    pub(crate) plan: Plan,
    pub(crate) layout: Layout,
    pub(crate) term: Term,
    /// Where it goes on from.
    pub(crate) state: PipelineState,
    pub(crate) sources: Vec<Arc<dyn Source>>,
    pub(crate) sinks: Vec<Arc<dyn Sink>>,
    pub(crate) store: EmbeddedStore,
    pub(crate) options: RunOptions,
    /// Whether the pipeline had run before on this store.
    pub resumed: bool,
    /// What a user should know before the run starts, a sentence each.
    pub warnings: Vec<String>,
}

/// This run's hold on the pipeline's record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term {
    pub(crate) generation: Generation,
    /// The record's last commit.
    pub(crate) head: Option<Head>,
}

impl Term {
    pub(crate) fn take(store: &StoreHandle, partition: &PartitionId) -> Result<Self, RunError> {
        let (generation, head) = grant(store, partition)?;
        Ok(Term { generation, head: head.head })
    }
    /// Writes the record as one epoch of the pipeline's own partition, in one transaction with `operations`.
    pub(crate) fn write(
        &mut self,
        store: &StoreHandle,
        mut operations: Vec<Operation>,
        layout: &Layout,
    ) -> Result<(), RunError> {
        let record = layout.record(self.generation, self.head);
        let head = record.head();
        operations.push(Operation::Commit(record));
        match store.transact(operations) {
            CommitOutcome::Committed => {
                self.head = Some(head);
                Ok(())
            }
            CommitOutcome::Fenced(reason) => Err(RunError::Fenced {
                partition: "the pipeline's record".to_owned(),
                reason: reason.to_string(),
            }),
            CommitOutcome::Unknown => Err(store_failed(store)),
        }
    }
}

/// The largest committed epoch of any partition, 0 before the first.
pub(crate) fn newest_epoch(store: &StoreHandle, layout: &Layout) -> Result<u64, RunError> {
    let mut newest = 0;
    for partition in layout.partitions() {
        newest = newest.max(store.head(&partition.id)?.head.map_or(0, |head| head.epoch));
    }
    Ok(newest)
}

/// Everything that is stored of a partition, as of one moment.
pub(crate) fn partition_rows(
    store: &StoreHandle,
    partition: &PartitionId,
) -> Result<PartitionRows, RunError> {
    let view = store.view(partition)?;
    Ok(PartitionRows::read(view.head(), |table, visit| view.scan(table, visit))?)
}

/// The store's own reason, once it has failed.
pub(crate) fn store_failed(store: &StoreHandle) -> RunError {
    let reason = store.failure().unwrap_or_else(|| "it gave no reason".to_owned());
    RunError::StoreFailed(reason)
}

/// A random number for nonces, creations and fences.
pub(crate) fn random_u64() -> Result<u64, RunError> {
    getrandom::u64().map_err(|error| RunError::Entropy(error.to_string()))
}

/// Grants a partition to a new job and waits until the grant is durable.
pub(crate) fn grant(
    store: &StoreHandle,
    partition: &PartitionId,
) -> Result<(Generation, PartitionHead), RunError> {
    let head = store.head(partition)?;
    let generation =
        Generation { number: head.last_number + 1, nonce: random_u64()?, branch: Branch::default() };
    match store.grant(partition, generation) {
        CommitOutcome::Committed => Ok((generation, store.head(partition)?)),
        _ => Err(store_failed(store)),
    }
}

impl Prepared {
    /// The largest committed epoch of any partition, 0 before the first.
    pub fn epoch(&self) -> Result<u64, RunError> {
        newest_epoch(&self.store.handle(), &self.layout)
    }
    /// Opens the store, compiles the plan, and takes up or writes the layout.
    pub fn new(pipeline: Pipeline, registry: &Registry, options: RunOptions) -> Result<Self, RunError> {
        let sources = build_sources(&pipeline, registry)?;
        let sinks = build_sinks(&pipeline, registry)?;
        let codecs = pipeline
            .sources
            .iter()
            .zip(&sources)
            .map(|(spec, source)| {
                source.codec().map_err(|error| RunError::Source { source_name: spec.name.clone(), error })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let by_reference =
            |sink| onceward_spec::outbox(&pipeline, registry, sink) == onceward_spec::Outbox::ByReference;
        let behaviours: Vec<SinkBehaviour> = sinks
            .iter()
            .zip(&pipeline.sinks)
            .map(|(sink, spec)| SinkBehaviour {
                by_reference: by_reference(spec),
                contract: sink.contract(),
                policy: sink.block_policy(),
                reads_fields: sink.reads_fields(),
            })
            .collect();
        refuse_shared_targets(&pipeline, &sinks)?;
        let canonical = onceward_spec::canonical(&pipeline, registry);
        let plan = Plan::compile(pipeline, &codecs, &behaviours, registry)?;
        let store = EmbeddedStore::open(&options.data_dir, Options::default())?;
        let handle = store.handle();
        let new = |creation| -> Result<(Layout, Term), RunError> {
            let layout = new_layout(&plan, &sources, canonical.clone(), creation)?;
            let mut term = Term::take(&handle, &layout.pipeline_partition())?;
            term.write(&handle, Vec::new(), &layout)?;
            Ok((layout, term))
        };
        let (layout, term, resumed) = match find_layout(&handle)? {
            None => {
                let (layout, term) = new(creation()?)?;
                (layout, term, false)
            }
            Some((layout, partition)) => {
                check_name(&layout, &plan.pipeline.name)?;
                let changes = onceward_spec::changes(&layout.canonical, &plan.pipeline, registry);
                if !changes.is_empty() && is_untouched(&handle, &layout)? {
                    // Nothing was computed with the old manifest: the new one takes its place.
                    let (layout, term) = new(layout.creation)?;
                    (layout, term, false)
                } else {
                    may_run(&layout, &options.data_dir)?;
                    if changes.is_empty() && options.reset.is_empty() {
                        let term = Term::take(&handle, &partition)?;
                        (respec::in_order(layout, &plan), term, true)
                    } else {
                        let wanted = Wanted { changes: &changes, reset: &options.reset, canonical };
                        let data_dir = options.data_dir.display().to_string();
                        let (layout, term) =
                            respec::take_over(&handle, &plan, &sources, &layout, wanted, &data_dir)?;
                        (layout, term, true)
                    }
                }
            }
        };
        let warnings = if resumed { ignored_partitions(&layout, &sources) } else { Vec::new() };
        let state = may_run(&layout, &options.data_dir)?;
        Ok(Prepared { plan, layout, term, state, sources, sinks, store, options, resumed, warnings })
    }
}

fn build_sources(pipeline: &Pipeline, registry: &Registry) -> Result<Vec<Arc<dyn Source>>, RunError> {
    pipeline
        .sources
        .iter()
        .map(|spec| {
            let unknown = || {
                onceward_connector::ConnectorError::new(
                    "OW-5508",
                    format!("this build has no source type {}", spec.connector),
                )
            };
            registry
                .source(&spec.connector)
                .ok_or_else(unknown)
                .and_then(|connector| connector.build(&spec.config))
                .map_err(|error| RunError::Source { source_name: spec.name.clone(), error })
        })
        .collect()
}

fn build_sinks(pipeline: &Pipeline, registry: &Registry) -> Result<Vec<Arc<dyn Sink>>, RunError> {
    pipeline
        .sinks
        .iter()
        .map(|spec| {
            let unknown = || {
                onceward_connector::ConnectorError::new(
                    "OW-5509",
                    format!("this build has no sink type {}", spec.connector),
                )
            };
            let shape: StreamShape = onceward_spec::stream_shape(pipeline, &spec.inputs);
            registry
                .sink(&spec.connector)
                .ok_or_else(unknown)
                .and_then(|connector| connector.build(&spec.config, &shape))
                .map_err(|error| RunError::Sink { sink_name: spec.name.clone(), error })
        })
        .collect()
}

pub(crate) fn find_layout(store: &StoreHandle) -> Result<Option<(Layout, PartitionId)>, RunError> {
    for partition in store.partitions()? {
        if !matches!(partition.kind(), PartitionKind::Pipeline) {
            continue;
        }
        for (key, value) in store.scan(&partition, TableId::META)? {
            if key == LAYOUT_KEY {
                let layout = Layout::decode(&value).ok_or_else(|| onceward_engine::EngineError::Stored {
                    partition: "pipeline".to_owned(),
                    what: "layout".to_owned(),
                })?;
                return Ok(Some((layout, partition)));
            }
        }
    }
    Ok(None)
}

/// Two sinks on one target would fence each other, or mix their rows.
fn refuse_shared_targets(pipeline: &Pipeline, sinks: &[Arc<dyn Sink>]) -> Result<(), RunError> {
    let with_progress = |sink: &&Arc<dyn Sink>| sink.contract() == SinkContract::ProgressInTarget;
    for (index, sink) in sinks.iter().enumerate().filter(|(_, sink)| with_progress(sink)) {
        let same = |other: &Arc<dyn Sink>| with_progress(&other) && other.fingerprint() == sink.fingerprint();
        if let Some(first) = sinks[..index].iter().position(same) {
            return Err(RunError::SameTarget {
                first: pipeline.sinks[first].name.clone(),
                second: pipeline.sinks[index].name.clone(),
                target: sink.fingerprint(),
            });
        }
    }
    Ok(())
}

/// Whether no partition of the pipeline has committed anything yet.
fn is_untouched(store: &StoreHandle, layout: &Layout) -> Result<bool, RunError> {
    for partition in layout.partitions() {
        if store.head(&partition.id)?.head.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The layout is fixed at the first start: what appeared since is named, not read.
fn ignored_partitions(layout: &Layout, sources: &[Arc<dyn Source>]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (known, source) in layout.sources.iter().zip(sources) {
        let found = source.partitions().unwrap_or_default();
        let new: Vec<&str> =
            found.iter().filter(|name| !known.partitions.contains(name)).map(String::as_str).collect();
        if !new.is_empty() {
            warnings.push(format!(
                "source {} now also matches {}, which this run does not read: its partitions were fixed at the first start",
                known.name,
                new.join(", ")
            ));
        }
    }
    warnings
}

fn check_name(layout: &Layout, name: &str) -> Result<(), RunError> {
    if layout.pipeline == name {
        return Ok(());
    }
    Err(RunError::OtherPipeline { found: layout.pipeline.clone(), wanted: name.to_owned() })
}

/// Where a run goes on from, or what to type instead.
fn may_run(layout: &Layout, data_dir: &Path) -> Result<PipelineState, RunError> {
    let (pipeline, data_dir) = (layout.pipeline.clone(), data_dir.display().to_string());
    match (layout.state, next(layout.state, Demand::Run)) {
        (_, Ok(state)) => Ok(state),
        (PipelineState::Completed, Err(_)) => Err(RunError::Completed { pipeline, data_dir }),
        (_, Err(what)) => Err(RunError::NotRunnable { pipeline, what: what.to_owned() }),
    }
}

/// A new random creation.
fn creation() -> Result<Creation, RunError> {
    Ok(Creation((u128::from(random_u64()?) << 64) | u128::from(random_u64()?)))
}

/// A source as a layout has it from its first start on.
pub(crate) fn new_source(name: &str, source: &dyn Source) -> Result<LayoutSource, RunError> {
    let partitions =
        source.partitions().map_err(|error| RunError::Source { source_name: name.to_owned(), error })?;
    Ok(LayoutSource { name: name.to_owned(), creation: creation()?, partitions, first: 0 })
}

fn new_layout(
    plan: &Plan,
    sources: &[Arc<dyn Source>],
    canonical: String,
    pipeline_creation: Creation,
) -> Result<Layout, RunError> {
    let mut layout_sources = Vec::new();
    for (spec, source) in plan.pipeline.sources.iter().zip(sources) {
        layout_sources.push(new_source(&spec.name, source.as_ref())?);
    }
    let name = plan.pipeline.name.clone();
    Ok(Layout::new(pipeline_creation, name, canonical, layout_sources, plan.keyed()))
}
