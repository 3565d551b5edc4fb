//! A stable text of everything in a pipeline that its stored state depends on, and the difference of
//! two such texts. It is kept in the store, and what a manifest changes is told by it (`change`).
//!
//! Left out: what may change while state exists (limits, `replicas`, `replayCheck`, the partition counts
//! and bounds, `require`, config keys that a connector calls live), the order of parts, places, values
//! equal to their default (so that a newer build with a new key agrees with an older one), and the folder
//! the manifest lies in. Of `delivery` only at-most-once stands here: the other levels are what a path
//! promises, not how it is written.

use std::collections::BTreeMap;
use std::path::Path;

use onceward_connector::{Config, ConfigSchema, ConfigValue, Registry};
use onceward_protocol::guarantee::Level;
use serde_json::{Value, json};

use crate::aggregate;
use crate::config::is_default;
use crate::model::{
    ComputationSpec, DedupMode, KeyedSpec, OperatorSpec, Pipeline, ProcessSpec, ProcessingMode, SinkSpec,
    SourceSpec, StepSpec, WindowsSpec,
};
use crate::units::format_duration;

/// First line: the version of this text's format.
pub(crate) const HEADER: &str = "onceward-spec 2";
/// The header of texts that older builds stored. They hold some lines more: fields that are live now.
pub(crate) const OLD_HEADER: &str = "onceward-spec 1";

/// The text: a header, then sorted lines `path = value` with JSON values.
pub fn canonical(pipeline: &Pipeline, registry: &Registry) -> String {
    let mut lines = Lines { lines: BTreeMap::new(), base_dir: &pipeline.base_dir };
    lines.set("metadata", "name", json!(pipeline.name));
    for source in &pipeline.sources {
        lines.source(source, registry.source(&source.connector).map(|connector| connector.schema()));
    }
    for computation in &pipeline.computations {
        lines.computation(computation);
    }
    for sink in &pipeline.sinks {
        lines.sink(sink, registry.sink(&sink.connector).map(|connector| connector.schema()));
    }
    let mut text = format!("{HEADER}\n");
    for (path, value) in lines.lines {
        text.push_str(&format!("{path} = {value}\n"));
    }
    text
}

/// The fields in which two texts differ, in words, sorted by path.
pub fn diff(old: &str, new: &str) -> Vec<String> {
    let (old, new) = (parse(old), parse(new));
    let mut changes = BTreeMap::new();
    for (path, before) in &old {
        match new.get(path) {
            Some(after) if after == before => {}
            Some(after) => drop(changes.insert(*path, format!("{path}: was {before}, is {after}"))),
            None => drop(changes.insert(*path, format!("{path}: was {before}, is gone"))),
        }
    }
    for (path, after) in &new {
        if !old.contains_key(path) {
            changes.insert(*path, format!("{path}: is new, {after}"));
        }
    }
    changes.into_values().collect()
}

/// The fields of a text. A header that this build does not know counts as a field, so that texts of
/// unknown formats never look equal.
pub(crate) fn parse(text: &str) -> BTreeMap<&str, &str> {
    let lines = text.lines().filter(|line| *line != HEADER && *line != OLD_HEADER);
    lines.map(|line| line.split_once(" = ").unwrap_or((FORMAT, line))).collect()
}

/// Stands for a header in [`parse`].
pub(crate) const FORMAT: &str = "(format)";

struct Lines<'a> {
    lines: BTreeMap<String, Value>,
    base_dir: &'a Path,
}

impl Lines<'_> {
    fn set(&mut self, path: &str, key: &str, value: Value) {
        self.lines.insert(format!("{path}.{key}"), value);
    }

    fn source(&mut self, source: &SourceSpec, schema: Option<&ConfigSchema>) {
        let path = format!("spec.sources.{}", source.name);
        self.set(&path, "type", json!(source.connector));
        self.config(&path, &source.config, schema);
        if let Some(time) = &source.event_time {
            self.set(&path, "eventTime.field", json!(time.field));
            self.set(&path, "eventTime.outOfOrderness", json!(format_duration(time.out_of_orderness_us)));
            if let Some(us) = time.idle_after_us {
                self.set(&path, "eventTime.idleAfter", json!(format_duration(us)));
            }
        }
        if source.materialise {
            self.set(&path, "materialise", json!(true));
        }
    }

    fn sink(&mut self, sink: &SinkSpec, schema: Option<&ConfigSchema>) {
        let path = format!("spec.sinks.{}", sink.name);
        self.set(&path, "type", json!(sink.connector));
        self.set(&path, "inputs", json!(sink.inputs));
        self.config(&path, &sink.config, schema);
        if sink.at_most_once.is_some() {
            self.set(&path, "delivery", json!(Level::AtMostOnce.name()));
        }
    }

    fn config(&mut self, path: &str, config: &Config, schema: Option<&ConfigSchema>) {
        for (key, value) in config.values() {
            let field = schema.and_then(|schema| schema.fields.iter().find(|field| field.name == key));
            if field.is_some_and(|field| field.live || is_default(field, value, self.base_dir)) {
                continue;
            }
            let value = match value {
                ConfigValue::String(text) => json!(text),
                ConfigValue::Path(path) => {
                    json!(path.strip_prefix(self.base_dir).unwrap_or(path).to_string_lossy())
                }
                ConfigValue::Bool(value) => json!(value),
                ConfigValue::Integer(number) => json!(number),
                ConfigValue::Duration(us) => json!(format_duration(*us)),
                ConfigValue::Size(bytes) => json!(bytes),
                ConfigValue::List(items) => json!(items),
                // The order of a map says nothing.
                ConfigValue::Map(pairs) => json!(pairs.iter().cloned().collect::<BTreeMap<_, _>>()),
            };
            self.set(path, &format!("config.{key}"), value);
        }
    }

    fn computation(&mut self, computation: &ComputationSpec) {
        let path = format!("spec.computations.{}", computation.name);
        self.set(&path, "inputs", json!(computation.inputs));
        for (index, step) in computation.steps.iter().enumerate() {
            match step {
                StepSpec::Filter(filter) => {
                    self.set(&path, &format!("steps[{index}].filter"), json!(filter.text.trim()));
                }
                StepSpec::Map(fields) => {
                    let pairs: Vec<_> =
                        fields.iter().map(|(name, value)| json!([name, value.text.trim()])).collect();
                    self.set(&path, &format!("steps[{index}].map"), json!(pairs));
                }
                StepSpec::Function(function) => {
                    self.set(&path, &format!("steps[{index}].function"), json!(function.name));
                }
            }
        }
        if let Some(keyed) = &computation.keyed {
            self.keyed(&path, keyed);
        }
    }

    fn keyed(&mut self, path: &str, keyed: &KeyedSpec) {
        self.set(path, "groupBy", json!(keyed.group_by));
        match &keyed.operator {
            OperatorSpec::Windows(windows) => self.windows(path, windows),
            OperatorSpec::Process(process) => self.process(path, process),
        }
        let dedup = &keyed.dedup;
        if dedup.mode == DedupMode::Frontier {
            return;
        }
        if dedup.by.is_empty() {
            return self.set(path, "inputDedup", json!("full"));
        }
        self.set(path, "dedupBy", json!(dedup.by));
        self.set(path, "dedupFor", json!(format_duration(dedup.keep_us)));
        if keyed.processing_mode == ProcessingMode::AtLeastOnceConsistent {
            self.set(path, "processingMode", json!("at_least_once_consistent"));
        }
    }

    fn windows(&mut self, path: &str, windows: &WindowsSpec) {
        self.set(path, "aggregate.window.tumbling", json!(format_duration(windows.window_us)));
        self.set(path, "aggregate.allowedLateness", json!(format_duration(windows.allowed_lateness_us)));
        let calls: Vec<_> = windows
            .compute
            .iter()
            .map(|(name, call)| {
                let argument = call.argument.as_ref().map_or("", |argument| argument.text.trim());
                json!([name, format!("{}({argument})", aggregate::name(call.function))])
            })
            .collect();
        self.set(path, "aggregate.compute", json!(calls));
        if let Some(late) = &windows.late {
            self.set(path, "aggregate.late", json!(late));
        }
    }

    fn process(&mut self, path: &str, process: &ProcessSpec) {
        self.set(path, "process.function", json!(process.function.name));
        if !process.config.is_empty() {
            // The order of a map says nothing, and a key may hold what a path may not.
            let settings: BTreeMap<_, _> = process.config.iter().cloned().collect();
            self.set(path, "process.config", json!(settings));
        }
    }
}
