//! The guarantee report: for every path from a source to a sink the level that holds on it, the
//! weakest element, the reason and the conditions.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use onceward_connector::Registry;
use onceward_protocol::guarantee::{Element, Level, PathReport};
use serde_json::{Value, json};

use crate::model::{ComputationSpec, Pipeline, SourceSpec};
use crate::outbox::{Fused, Outbox};
use crate::promise;
use crate::streams::{Producer, streams};

/// Paths that a report lists; a pipeline of diamonds has more than anyone can read.
pub const MAX_PATHS: usize = 1000;

/// What a pipeline guarantees.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GuaranteeReport {
    /// The pipeline's name.
    pub pipeline: String,
    /// The level that holds on all paths.
    pub level: Level,
    /// The paths, sinks in manifest order. Every element is on at least one path unless some are left out.
    pub paths: Vec<PathReport>,
    /// How each sink's outbox keeps what is owed, by the sink's name.
    pub outboxes: BTreeMap<String, Outbox>,
    /// Paths beyond [`MAX_PATHS`]; they count for `level`.
    pub left_out: u64,
}

/// Derives the report.
pub fn report(pipeline: &Pipeline, registry: &Registry) -> GuaranteeReport {
    let walk = Walk { streams: streams(pipeline), pipeline, registry };
    let mut paths = Vec::new();
    for sink in &pipeline.sinks {
        let end = Element { name: format!("sink {}", sink.name), promise: promise::sink(sink, registry) };
        for input in &sink.inputs {
            walk.collect(input, &mut vec![end.clone()], false, &mut paths);
        }
    }
    let fused = Fused::new(pipeline, registry);
    let outboxes = pipeline.sinks.iter().map(|sink| (sink.name.clone(), fused.outbox(sink))).collect();
    let left_out = walk.count().saturating_sub(paths.len() as u64);
    GuaranteeReport { pipeline: pipeline.name.clone(), level: walk.level(), paths, outboxes, left_out }
}

struct Walk<'a> {
    streams: BTreeMap<&'a str, Producer<'a>>,
    pipeline: &'a Pipeline,
    registry: &'a Registry,
}

impl Walk<'_> {
    /// All paths that end in `tail`, which is in reverse order, and begin before `stream`. `grouped`
    /// says whether something in `tail` groups.
    fn collect(&self, stream: &str, tail: &mut Vec<Element>, grouped: bool, paths: &mut Vec<PathReport>) {
        if paths.len() >= MAX_PATHS {
            return;
        }
        let length = tail.len();
        let computation = match self.streams.get(stream) {
            None => return,
            Some(Producer::Source(source)) => {
                let promise = promise::source(source, self.registry, grouped);
                let first = Element { name: format!("source {stream}"), promise };
                let elements = std::iter::once(first).chain(tail.iter().rev().cloned()).collect();
                paths.extend(PathReport::derive(elements));
                return;
            }
            Some(Producer::Late(computation)) => {
                tail.push(Element { name: format!("stream {stream}"), promise: promise::late(computation) });
                computation
            }
            Some(Producer::Computation(computation)) => computation,
        };
        tail.push(self.computation(computation));
        for input in &computation.inputs {
            self.collect(input, tail, grouped || computation.keyed.is_some(), paths);
        }
        tail.truncate(length);
    }

    fn computation(&self, computation: &ComputationSpec) -> Element {
        let promise = promise::computation(computation, self.pipeline.replay_check);
        Element { name: format!("computation {}", computation.name), promise }
    }

    /// Folds the inputs of every stream and then of every sink into one value each.
    fn fold<T: Copy>(
        &self,
        source: impl Fn(&SourceSpec) -> T,
        computation: impl Fn(&ComputationSpec, &mut dyn Iterator<Item = T>) -> T,
    ) -> BTreeMap<&str, T> {
        let mut of = BTreeMap::new();
        for item in &self.pipeline.sources {
            of.insert(item.name.as_str(), source(item));
        }
        for item in &self.pipeline.computations {
            let value = computation(
                item,
                &mut item.inputs.iter().filter_map(|input| of.get(input.as_str()).copied()),
            );
            of.extend(item.late().map(|late| (late, value)));
            of.insert(&item.name, value);
        }
        of
    }

    /// How many paths there are.
    fn count(&self) -> u64 {
        let sum = |values: &mut dyn Iterator<Item = u64>| values.fold(0u64, u64::saturating_add);
        let of = self.fold(|_| 1, |_, inputs| sum(inputs));
        let inputs = self.pipeline.sinks.iter().flat_map(|sink| &sink.inputs);
        sum(&mut inputs.filter_map(|input| of.get(input.as_str()).copied()))
    }

    /// The least level of any path, without walking the paths.
    fn level(&self) -> Level {
        let of = self.fold(
            |source| promise::source(source, self.registry, false).level,
            |computation, inputs| inputs.fold(self.computation(computation).promise.level, Level::min),
        );
        let sinks = self.pipeline.sinks.iter().map(|sink| {
            let own = promise::sink(sink, self.registry).level;
            sink.inputs.iter().filter_map(|input| of.get(input.as_str()).copied()).fold(own, Level::min)
        });
        sinks.min().unwrap_or(Level::ExactlyOnce)
    }
}

fn weakest(path: &PathReport) -> Option<&Element> {
    path.elements.get(path.weakest)
}

/// `flights -> arrived -> hourly`.
pub(crate) fn route(path: &PathReport) -> String {
    let names: Vec<&str> = path
        .elements
        .iter()
        .map(|element| element.name.split_once(' ').map_or("", |(_, name)| name))
        .collect();
    names.join(" -> ")
}

/// `flights -> hourly holds at-least-once: sink hourly, because ...`.
pub(crate) fn verdict(path: &PathReport) -> String {
    let because = weakest(path).map_or(String::new(), |element| {
        format!(": the weakest element is {}, because {}", element.name, element.promise.reason)
    });
    format!("the path {} holds {}{because}", route(path), path.level)
}

impl GuaranteeReport {
    /// The weakest path, the first of equals.
    pub fn weakest(&self) -> Option<&PathReport> {
        self.paths.iter().find(|path| path.level == self.level).or(self.paths.first())
    }

    /// The one line that `run` prints if some path is weaker than exactly-once; it names the weakest
    /// element.
    pub fn warning(&self) -> Option<String> {
        if self.level == Level::ExactlyOnce {
            return None;
        }
        Some(match self.weakest() {
            Some(path) => verdict(path),
            None => format!("the pipeline holds {}", self.level),
        })
    }

    /// The outbox at the end of a path.
    pub fn outbox_of(&self, path: &PathReport) -> Option<&Outbox> {
        let (_, sink) = path.elements.last()?.name.split_once(' ')?;
        self.outboxes.get(sink)
    }

    /// For programs. Levels have their manifest names.
    pub fn to_json(&self) -> Value {
        let paths: Vec<Value> = self.paths.iter().map(|path| path_json(path, self.outbox_of(path))).collect();
        json!({
            "pipeline": self.pipeline,
            "level": self.level.name(),
            "paths": paths,
            "leftOut": self.left_out,
        })
    }

    /// For people.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}: {}", self.pipeline, self.level);
        for path in &self.paths {
            let _ = writeln!(out, "\n{}: {}", route(path), path.level);
            for (index, element) in path.elements.iter().enumerate() {
                let mark = if index == path.weakest && path.level < Level::ExactlyOnce {
                    "  <- weakest"
                } else {
                    ""
                };
                let promise = &element.promise;
                let _ = writeln!(out, "  {}: {}, {}{mark}", element.name, promise.level, promise.reason);
            }
            match self.outbox_of(path) {
                Some(Outbox::ByReference) => {
                    let _ = writeln!(out, "  outbox: by reference");
                }
                Some(Outbox::ByValue(reason)) => {
                    let _ = writeln!(out, "  outbox: by value, because {reason}");
                }
                None => {}
            }
            let conditions: Vec<&str> = path.conditions().collect();
            if !conditions.is_empty() {
                let _ = writeln!(out, "  as long as");
                for condition in conditions {
                    let _ = writeln!(out, "    - {condition}");
                }
            }
        }
        if self.left_out > 0 {
            let _ = writeln!(out, "\nand {} more paths", self.left_out);
        }
        out
    }
}

fn path_json(path: &PathReport, outbox: Option<&Outbox>) -> Value {
    let (outbox, outbox_reason) = match outbox {
        Some(Outbox::ByReference) => (Some("by_reference"), None),
        Some(Outbox::ByValue(reason)) => (Some("by_value"), Some(reason)),
        None => (None, None),
    };
    let elements: Vec<Value> = path
        .elements
        .iter()
        .map(|element| {
            json!({
                "name": element.name,
                "level": element.promise.level.name(),
                "reason": element.promise.reason,
                "conditions": element.promise.conditions,
            })
        })
        .collect();
    json!({
        "route": route(path),
        "level": path.level.name(),
        "weakest": weakest(path).map(|element| element.name.clone()),
        "reason": weakest(path).map(|element| element.promise.reason.clone()),
        "outbox": outbox,
        "outboxReason": outbox_reason,
        "conditions": path.conditions().collect::<Vec<_>>(),
        "elements": elements,
    })
}
