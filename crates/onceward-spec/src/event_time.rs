//! Where event time comes from: whatever goes by it must get it from every source that reaches it.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::join;
use crate::code;
use crate::computations::is_inside;
use crate::diagnostic::Diagnostic;
use crate::graph::{SOURCES, section};
use crate::model::{ComputationSpec, OperatorSpec, Pipeline};
use crate::yaml::{Kind, Node};

/// Refuses sources without `eventTime` behind which something needs it.
pub(crate) fn check(root: &Node, pipeline: &Pipeline, problems: &mut Vec<Diagnostic>) {
    let reached = reached(pipeline);
    for source in &pipeline.sources {
        let name = source.name.as_str();
        let Some((computation, why)) = reached.get(name) else { continue };
        let path = format!("spec.{SOURCES}.{name}");
        let broken = problems.iter().any(|problem| problem.path == join(&path, "eventTime"))
            || section(root, SOURCES).iter().any(|entry| entry.key == name && !is_map(&entry.value))
            || problems
                .iter()
                .any(|problem| problem.code == code::UNKNOWN_KEY && is_inside(&problem.path, &path));
        if broken {
            continue;
        }
        let message = format!("the source `{name}` has no `eventTime`, but behind it `{computation}` {why}");
        let error = Diagnostic::error(code::NO_EVENT_TIME, source.place, path, message);
        problems.push(error.with_help(format!(
            "add to `{name}`: `eventTime: {{ field: NAME }}`, where NAME is the field with the timestamp"
        )));
    }
}

/// The sources without event time from which rows come to something that needs it; with the first such
/// computation and what it does.
fn reached(pipeline: &Pipeline) -> BTreeMap<&str, (&str, &'static str)> {
    let mut untimed: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for source in &pipeline.sources {
        let own = source.event_time.is_none().then_some(source.name.as_str());
        untimed.insert(&source.name, own.into_iter().collect());
    }
    let mut reached = BTreeMap::new();
    for computation in &pipeline.computations {
        let before: BTreeSet<&str> = computation
            .inputs
            .iter()
            .filter_map(|name| untimed.get(name.as_str()))
            .flatten()
            .copied()
            .collect();
        if let Some(why) = need(computation) {
            for source in &before {
                reached.entry(*source).or_insert((computation.name.as_str(), why));
            }
        }
        // Behind a window, its late rows included, nothing is left to ask: the window has asked for all.
        untimed.insert(&computation.name, before);
    }
    reached
}

/// What a computation does with event time.
fn need(computation: &ComputationSpec) -> Option<&'static str> {
    let keyed = computation.keyed.as_ref()?;
    match keyed.operator {
        OperatorSpec::Windows(_) => Some("computes over windows of event time"),
        OperatorSpec::Process(_) if keyed.dedup.by.is_empty() => None,
        OperatorSpec::Process(_) => Some("remembers ids (`dedupBy`) for a time"),
    }
}

fn is_map(node: &Node) -> bool {
    matches!(node.kind, Kind::Mapping(_))
}
