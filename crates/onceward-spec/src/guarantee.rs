//! The guarantee report: for every path from a source to a sink the level that holds on it, the
//! weakest element, the reason and the conditions.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use onceward_connector::Registry;
use onceward_protocol::guarantee::{Element, Level, PathReport, Promise};
use serde_json::{Value, json};

use crate::model::{ComputationSpec, Pipeline, SinkSpec, SourceSpec};

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
    /// Paths beyond [`MAX_PATHS`]; they count for `level`.
    pub left_out: u64,
}

/// Derives the report.
pub fn report(pipeline: &Pipeline, registry: &Registry) -> GuaranteeReport {
    let walk = Walk {
        sources: pipeline.sources.iter().map(|source| (source.name.as_str(), source)).collect(),
        computations: pipeline.computations.iter().map(|item| (item.name.as_str(), item)).collect(),
        registry,
    };
    let mut paths = Vec::new();
    for sink in &pipeline.sinks {
        let end = Element { name: format!("sink {}", sink.name), promise: sink_promise(sink, registry) };
        for input in &sink.inputs {
            walk.collect(input, &mut vec![end.clone()], &mut paths);
        }
    }
    let total = walk.count(pipeline);
    let level = walk.level(pipeline);
    let left_out = total.saturating_sub(paths.len() as u64);
    GuaranteeReport { pipeline: pipeline.name.clone(), level, paths, left_out }
}

struct Walk<'a> {
    sources: BTreeMap<&'a str, &'a SourceSpec>,
    computations: BTreeMap<&'a str, &'a ComputationSpec>,
    registry: &'a Registry,
}

impl Walk<'_> {
    /// All paths that end in `tail`, which is in reverse order, and begin before `stream`.
    fn collect(&self, stream: &str, tail: &mut Vec<Element>, paths: &mut Vec<PathReport>) {
        if paths.len() >= MAX_PATHS {
            return;
        }
        if let Some(source) = self.sources.get(stream) {
            let first =
                Element { name: format!("source {stream}"), promise: source_promise(source, self.registry) };
            let elements = std::iter::once(first).chain(tail.iter().rev().cloned()).collect();
            paths.extend(PathReport::derive(elements));
        } else if let Some(computation) = self.computations.get(stream) {
            tail.push(Element {
                name: format!("computation {stream}"),
                promise: computation_promise(computation),
            });
            for input in &computation.inputs {
                self.collect(input, tail, paths);
            }
            tail.pop();
        }
    }

    /// How many paths there are.
    fn count(&self, pipeline: &Pipeline) -> u64 {
        let mut of: BTreeMap<&str, u64> = self.sources.keys().map(|name| (*name, 1)).collect();
        let sum = |inputs: &[String], of: &BTreeMap<&str, u64>| {
            inputs
                .iter()
                .fold(0u64, |sum, input| sum.saturating_add(of.get(input.as_str()).copied().unwrap_or(0)))
        };
        for computation in &pipeline.computations {
            let paths = sum(&computation.inputs, &of);
            of.insert(&computation.name, paths);
        }
        pipeline.sinks.iter().fold(0u64, |total, sink| total.saturating_add(sum(&sink.inputs, &of)))
    }

    /// The least level of any path, without walking the paths.
    fn level(&self, pipeline: &Pipeline) -> Level {
        let mut of: BTreeMap<&str, Level> = BTreeMap::new();
        for (name, source) in &self.sources {
            of.insert(*name, source_promise(source, self.registry).level);
        }
        let least = |inputs: &[String], own: Level, of: &BTreeMap<&str, Level>| {
            inputs.iter().filter_map(|input| of.get(input.as_str()).copied()).fold(own, Level::min)
        };
        for computation in &pipeline.computations {
            let level = least(&computation.inputs, computation_promise(computation).level, &of);
            of.insert(&computation.name, level);
        }
        pipeline
            .sinks
            .iter()
            .map(|sink| least(&sink.inputs, sink_promise(sink, self.registry).level, &of))
            .min()
            .unwrap_or(Level::ExactlyOnce)
    }
}

fn absent(connector: &str) -> Promise {
    Promise {
        level: Level::AtMostOnce,
        reason: format!("this build has no {connector}, so nothing is known of it"),
        conditions: Vec::new(),
    }
}

fn source_promise(source: &SourceSpec, registry: &Registry) -> Promise {
    registry
        .source(&source.connector)
        .map_or_else(|| absent(&source.connector), |connector| connector.promise(&source.config))
}

/// What the target can hold, whatever the manifest asks for.
pub(crate) fn target_promise(sink: &SinkSpec, registry: &Registry) -> Promise {
    registry
        .sink(&sink.connector)
        .map_or_else(|| absent(&sink.connector), |connector| connector.promise(&sink.config))
}

fn sink_promise(sink: &SinkSpec, registry: &Registry) -> Promise {
    let promise = target_promise(sink, registry);
    match sink.delivery {
        Some(chosen) if chosen < promise.level => Promise {
            level: chosen,
            reason: format!("the manifest asks for no more (`delivery: {}`)", chosen.name()),
            conditions: promise.conditions,
        },
        _ => promise,
    }
}

fn computation_promise(computation: &ComputationSpec) -> Promise {
    let reason = if computation.keyed.is_some() {
        "state, timers, input frontiers and output of an epoch commit together"
    } else {
        "its steps have no clock, no randomness and no input but the message, so a repeat gives the same"
    };
    Promise { level: Level::ExactlyOnce, reason: reason.to_owned(), conditions: Vec::new() }
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

    /// For programs. Levels have their manifest names.
    pub fn to_json(&self) -> Value {
        let paths: Vec<Value> = self.paths.iter().map(path_json).collect();
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

fn path_json(path: &PathReport) -> Value {
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
        "conditions": path.conditions().collect::<Vec<_>>(),
        "elements": elements,
    })
}
