//! From the checked tree to the model. Quiet: what is wrong was reported by the checker, and a model
//! with errors is never given out.

use std::path::Path;

use onceward_connector::{ConnectorError, Registry};
use onceward_protocol::guarantee::Level;

use crate::aggregate;
use crate::config;
use crate::diagnostic::Diagnostic;
use crate::graph::{self, COMPUTATIONS, SINKS, SOURCES, section};
use crate::model::{
    AggregateSpec, AtMostOnceSpec, ComputationSpec, DedupMode, DedupSpec, EpochLimits, EventTimeSpec,
    Expression, FunctionRef, KeyedSpec, OperatorSpec, Pipeline, ProcessSpec, ProcessingMode, SinkSpec,
    SourceSpec, StepSpec, WindowsSpec,
};
use crate::table::Direction;
use crate::units::{parse_duration, parse_size};
use crate::yaml::{Entry, Node};

/// `spec.shutdownTimeout` if unset, microseconds.
pub(crate) const DEFAULT_SHUTDOWN_TIMEOUT_US: i64 = 600_000_000;
/// `partitions` if unset.
pub(crate) const DEFAULT_PARTITIONS: u32 = 4;
/// `spec.replayCheck` if unset.
pub(crate) const DEFAULT_REPLAY_CHECK: u64 = 1000;
/// `dedupFor` if unset, microseconds.
pub(crate) const DEFAULT_DEDUP_FOR_US: i64 = 86_400_000_000;
/// The limits of at-most-once delivery if unset.
pub(crate) const DEFAULT_AT_MOST_ONCE: AtMostOnceSpec =
    AtMostOnceSpec { queue_bytes: 64 << 20, suspend_us: 10_000_000 };

/// Reads the whole model. Connector types and configs are checked here, since only the registry
/// knows their tables.
pub(crate) fn read(
    root: &Node,
    source: &str,
    base_dir: &Path,
    registry: &Registry,
    problems: &mut Vec<Diagnostic>,
) -> Pipeline {
    let sources: Vec<SourceSpec> =
        section(root, SOURCES).iter().map(|entry| read_source(entry, base_dir, registry, problems)).collect();
    let entries = section(root, COMPUTATIONS);
    let computations = graph::order(root, problems)
        .into_iter()
        .filter_map(|index| entries.get(index))
        .map(|entry| read_computation(entry, source))
        .collect();
    let sinks =
        section(root, SINKS).iter().map(|entry| read_sink(entry, base_dir, registry, problems)).collect();
    let spec = root.get("spec");
    Pipeline {
        name: root.descend(&["metadata", "name"]).and_then(Node::text).unwrap_or_default().to_owned(),
        base_dir: config::absolute(base_dir, ""),
        require: spec.and_then(|spec| level(spec, "require")),
        epoch: read_epoch(spec.and_then(|spec| spec.get("epoch"))),
        shutdown_timeout_us: spec
            .and_then(|spec| duration(spec, "shutdownTimeout"))
            .unwrap_or(DEFAULT_SHUTDOWN_TIMEOUT_US),
        replicas: spec.and_then(|spec| count(spec, "replicas")),
        replay_check: spec
            .and_then(|spec| integer(spec, "replayCheck"))
            .and_then(|every| every.try_into().ok())
            .unwrap_or(DEFAULT_REPLAY_CHECK),
        sources,
        computations,
        sinks,
    }
}

fn duration(node: &Node, key: &str) -> Option<i64> {
    node.get(key).and_then(Node::text).and_then(parse_duration)
}

fn integer(node: &Node, key: &str) -> Option<i64> {
    crate::value::integer(node.get(key)?, "", i64::MIN, i64::MAX).ok()
}

fn count(node: &Node, key: &str) -> Option<u32> {
    integer(node, key).and_then(|count| count.try_into().ok())
}

fn boolean(node: &Node, key: &str) -> Option<bool> {
    crate::value::boolean(node.get(key)?, "").ok()
}

fn size(node: &Node, key: &str) -> Option<u64> {
    node.get(key).and_then(Node::text).and_then(parse_size)
}

fn texts(node: &Node) -> Vec<String> {
    node.items().iter().filter_map(Node::text).map(str::to_owned).collect()
}

fn level(node: &Node, key: &str) -> Option<Level> {
    node.get(key).and_then(Node::text).and_then(Level::parse)
}

fn read_epoch(node: Option<&Node>) -> EpochLimits {
    let default = EpochLimits::default();
    let Some(node) = node else { return default };
    EpochLimits {
        interval_us: duration(node, "interval").unwrap_or(default.interval_us),
        max_rows: integer(node, "maxRows").and_then(|rows| rows.try_into().ok()).unwrap_or(default.max_rows),
        max_bytes: size(node, "maxBytes").unwrap_or(default.max_bytes),
    }
}

/// The connector type and config of a source or sink. Empty where they are wrong.
fn read_connector(
    entry: &Entry,
    direction: Direction,
    base_dir: &Path,
    registry: &Registry,
    problems: &mut Vec<Diagnostic>,
) -> (String, Option<onceward_connector::Config>) {
    let path = part_path(direction, &entry.key);
    let Some(type_node) = entry.value.get("type") else { return (String::new(), None) };
    let name = type_node.text().unwrap_or_default().to_owned();
    match config::find_type(type_node, &format!("{path}.type"), direction, registry) {
        Ok(schema) => {
            let node = entry.value.get("config");
            let at = entry
                .value
                .entries()
                .iter()
                .find(|inner| inner.key == "config")
                .map_or(entry.key_place, |inner| inner.key_place);
            let config = config::read(node, at, &format!("{path}.config"), schema, base_dir, problems);
            (name, config)
        }
        Err(problem) => {
            problems.push(*problem);
            (name, None)
        }
    }
}

/// The path of a source or sink.
pub(crate) fn part_path(direction: Direction, name: &str) -> String {
    match direction {
        Direction::Source => format!("spec.{SOURCES}.{name}"),
        Direction::Sink => format!("spec.{SINKS}.{name}"),
    }
}

fn read_source(
    entry: &Entry,
    base_dir: &Path,
    registry: &Registry,
    problems: &mut Vec<Diagnostic>,
) -> SourceSpec {
    let (connector, config) = read_connector(entry, Direction::Source, base_dir, registry, problems);
    if let Some(config) = &config
        && let Some(found) = registry.source(&connector)
        && let Err(error) = found.build(config)
    {
        problems.push(connector_problem(entry, Direction::Source, &error));
    }
    let event_time = entry.value.get("eventTime").map(|node| EventTimeSpec {
        field: node.get("field").and_then(Node::text).unwrap_or_default().to_owned(),
        out_of_orderness_us: duration(node, "outOfOrderness").unwrap_or(0),
        idle_after_us: duration(node, "idleAfter"),
    });
    SourceSpec {
        name: entry.key.clone(),
        connector,
        config: config.unwrap_or_default(),
        event_time,
        materialise: boolean(&entry.value, "materialise").unwrap_or(false),
        place: entry.key_place,
    }
}

fn read_sink(
    entry: &Entry,
    base_dir: &Path,
    registry: &Registry,
    problems: &mut Vec<Diagnostic>,
) -> SinkSpec {
    let (connector, config) = read_connector(entry, Direction::Sink, base_dir, registry, problems);
    let strategy = entry.value.get("atMostOnceStrategy");
    let enabled = strategy.and_then(|node| boolean(node, "enabled")).unwrap_or(false);
    let delivery = level(&entry.value, "delivery").or(enabled.then_some(Level::AtMostOnce));
    SinkSpec {
        name: entry.key.clone(),
        inputs: graph::inputs(&entry.value).map(|(name, _)| name.to_owned()).collect(),
        connector,
        config: config.unwrap_or_default(),
        delivery,
        at_most_once: (delivery == Some(Level::AtMostOnce)).then(|| read_at_most_once(strategy)),
        place: entry.key_place,
    }
}

fn read_at_most_once(strategy: Option<&Node>) -> AtMostOnceSpec {
    let default = DEFAULT_AT_MOST_ONCE;
    AtMostOnceSpec {
        queue_bytes: strategy
            .and_then(|node| size(node, "totalQueueBytesLimit"))
            .unwrap_or(default.queue_bytes),
        suspend_us: strategy
            .and_then(|node| duration(node, "suspendDestructionDuration"))
            .unwrap_or(default.suspend_us),
    }
}

/// A connector's own refusal, at the key that it names.
pub(crate) fn connector_problem(entry: &Entry, direction: Direction, error: &ConnectorError) -> Diagnostic {
    let path = part_path(direction, &entry.key);
    let keys: Vec<&str> = std::iter::once("config").chain(error.key).collect();
    let found = keys.iter().try_fold((&entry.value, entry.key_place), |(node, _), key| {
        let inner = node.entries().iter().find(|inner| inner.key == *key)?;
        Some((&inner.value, inner.key_place))
    });
    let place = match found {
        // A value says more than its key; a whole config is announced by its key.
        Some((node, _)) if error.key.is_some() => node.place,
        Some((_, key_place)) => key_place,
        None => entry
            .value
            .entries()
            .iter()
            .find(|inner| inner.key == "config")
            .map_or(entry.key_place, |inner| inner.key_place),
    };
    Diagnostic::error(error.code, place, format!("{path}.{}", keys.join(".")), error.message.clone())
}

fn read_computation(entry: &Entry, source: &str) -> ComputationSpec {
    let node = &entry.value;
    let steps = node.get("steps").map_or(&[][..], Node::items);
    ComputationSpec {
        name: entry.key.clone(),
        inputs: graph::inputs(node).map(|(name, _)| name.to_owned()).collect(),
        steps: steps.iter().filter_map(|step| read_step(step, source)).collect(),
        keyed: node.get("groupBy").map(|group| read_keyed(node, group, source)),
        place: entry.key_place,
    }
}

fn read_step(node: &Node, source: &str) -> Option<StepSpec> {
    if let Some(filter) = node.get("filter") {
        return Some(StepSpec::Filter(expression(filter, source)));
    }
    if let Some(function) = node.get("function") {
        return Some(StepSpec::Function(function_ref(function)));
    }
    let map = node.get("map")?;
    Some(StepSpec::Map(
        map.entries().iter().map(|entry| (entry.key.clone(), expression(&entry.value, source))).collect(),
    ))
}

fn function_ref(node: &Node) -> FunctionRef {
    FunctionRef { name: node.text().unwrap_or_default().to_owned(), place: node.place }
}

fn expression(node: &Node, source: &str) -> Expression {
    Expression { text: scalar_text(node).to_owned(), place: node.place_at(0, source) }
}

/// The text of a scalar, of `null` also: it is an expression, too.
pub(crate) fn scalar_text(node: &Node) -> &str {
    node.as_scalar().map_or("", |scalar| scalar.text.as_str())
}

fn read_keyed(node: &Node, group: &Node, source: &str) -> KeyedSpec {
    let partitions = count(node, "partitions").unwrap_or(DEFAULT_PARTITIONS);
    let operator = match node.get("process") {
        Some(process) => OperatorSpec::Process(ProcessSpec {
            function: function_ref(process.get("function").unwrap_or(process)),
            config: read_settings(process),
        }),
        None => OperatorSpec::Windows(read_windows(node.get("aggregate"), source)),
    };
    let mode = node.get("processingMode").and_then(Node::text);
    KeyedSpec {
        group_by: texts(group),
        partitions,
        min_partitions: count(node, "minPartitions").unwrap_or(partitions),
        max_partitions: count(node, "maxPartitions").unwrap_or(partitions),
        operator,
        dedup: read_dedup(node),
        processing_mode: match mode {
            Some("at_least_once_consistent") => ProcessingMode::AtLeastOnceConsistent,
            _ => ProcessingMode::ExactlyOnce,
        },
    }
}

/// The settings in a `process`.
pub(crate) fn read_settings(process: &Node) -> Vec<(String, String)> {
    let entries = process.get("config").map_or(&[][..], Node::entries);
    entries.iter().filter_map(|entry| Some((entry.key.clone(), entry.value.text()?.to_owned()))).collect()
}

fn read_dedup(node: &Node) -> DedupSpec {
    let by = node.get("dedupBy").map(texts).unwrap_or_default();
    let mode = match node.get("inputDedup").and_then(Node::text) {
        Some("full") => DedupMode::Full,
        Some("frontier") => DedupMode::Frontier,
        _ if by.is_empty() => DedupMode::Frontier,
        _ => DedupMode::Full,
    };
    DedupSpec { mode, by, keep_us: duration(node, "dedupFor").unwrap_or(DEFAULT_DEDUP_FOR_US) }
}

fn read_windows(node: Option<&Node>, source: &str) -> WindowsSpec {
    let window = node.and_then(|node| node.get("window"));
    let compute = node.and_then(|node| node.get("compute")).map_or(&[][..], Node::entries);
    WindowsSpec {
        window_us: window.and_then(|window| duration(window, "tumbling")).unwrap_or(0),
        allowed_lateness_us: node.and_then(|node| duration(node, "allowedLateness")).unwrap_or(0),
        compute: compute
            .iter()
            .filter_map(|entry| Some((entry.key.clone(), read_aggregate(&entry.value, source)?)))
            .collect(),
        late: node.and_then(|node| node.get("late")).and_then(Node::text).map(str::to_owned),
    }
}

fn read_aggregate(node: &Node, source: &str) -> Option<AggregateSpec> {
    let call = aggregate::parse(scalar_text(node)).ok()?;
    let argument = call
        .argument
        .map(|(text, offset)| Expression { text: text.to_owned(), place: node.place_at(offset, source) });
    Some(AggregateSpec { function: call.function, argument })
}
