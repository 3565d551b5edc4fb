//! What sinks must hold: a config that their connector takes for the rows they get, and the levels
//! that the manifest chooses or requires.

use std::collections::BTreeSet;

use onceward_connector::Registry;
use onceward_protocol::guarantee::Level;

use crate::check::join;
use crate::code;
use crate::computations::is_inside;
use crate::diagnostic::Diagnostic;
use crate::graph::{SINKS, section};
use crate::guarantee;
use crate::model::{Pipeline, SinkSpec};
use crate::promise;
use crate::read::{connector_problem, part_path};
use crate::shape::stream_shape;
use crate::table::Direction;
use crate::value;
use crate::yaml::Node;

/// Lets each connector check its own sink; sinks with problems of their own are left out.
pub(crate) fn check(root: &Node, pipeline: &Pipeline, registry: &Registry, problems: &mut Vec<Diagnostic>) {
    for (entry, sink) in section(root, SINKS).iter().zip(&pipeline.sinks) {
        let path = part_path(Direction::Sink, &sink.name);
        let broken = problems.iter().any(|problem| is_inside(&problem.path, &path));
        let Some(connector) = registry.sink(&sink.connector).filter(|_| !broken) else { continue };
        if let Err(error) = connector.build(&sink.config, &stream_shape(pipeline, &sink.inputs)) {
            problems.push(connector_problem(entry, Direction::Sink, &error));
        }
        check_delivery(&entry.value, sink, registry, problems);
        problems.extend(at_most_once(&entry.value, &join(&path, "atMostOnceStrategy")));
    }
}

/// A chosen level must be one that the target can hold.
fn check_delivery(node: &Node, sink: &SinkSpec, registry: &Registry, problems: &mut Vec<Diagnostic>) {
    let (Some(chosen), Some(node)) = (sink.delivery, node.get("delivery")) else { return };
    let promise = promise::target(sink, registry);
    if chosen <= promise.level {
        return;
    }
    let message = format!(
        "found `{}`, but a {} sink can hold {} at most, because {}",
        chosen.name(),
        sink.connector,
        promise.level.name(),
        promise.reason
    );
    let path = join(&part_path(Direction::Sink, &sink.name), "delivery");
    let error = Diagnostic::error(code::DELIVERY, node.place, path, message);
    problems.push(error.with_help(format!("choose `{}`, or another type of sink", promise.level.name())));
}

/// `atMostOnceStrategy` must say what `delivery` says.
fn at_most_once(sink: &Node, path: &str) -> Option<Diagnostic> {
    let strategy = sink.get("atMostOnceStrategy")?;
    let delivery = sink.get("delivery").and_then(Node::text);
    let enabled = strategy.get("enabled");
    let on = enabled.map(|node| value::boolean(node, "").unwrap_or(false));
    let wanted = Level::AtMostOnce.name();
    let (message, help) = match (on, delivery) {
        (Some(true), Some(other)) if other != wanted => (
            format!(
                "found an enabled `atMostOnceStrategy` beside `delivery: {other}`, expected `delivery: {wanted}` or none"
            ),
            "remove one of the two",
        ),
        (Some(false), Some(wished)) if wished == wanted => (
            format!("found `enabled: false` beside `delivery: {wanted}`, which implies `enabled: true`"),
            "remove `enabled`, or choose another `delivery`",
        ),
        (None, other) if other != Some(wanted) => (
            format!(
                "found limits of a delivery that is not chosen, expected `enabled: true` or `delivery: {wanted}` beside them"
            ),
            "add `enabled: true`, or `enabled: false` to keep the limits for later",
        ),
        _ => return None,
    };
    let (place, path) = match enabled {
        Some(node) => (node.place, join(path, "enabled")),
        None => (strategy.place, path.to_owned()),
    };
    Some(Diagnostic::error(code::AT_MOST_ONCE, place, path, message).with_help(help))
}

/// Every path must be as strong as `spec.require`. Says each weakest element once per sink.
pub(crate) fn check_require(
    root: &Node,
    pipeline: &Pipeline,
    registry: &Registry,
    problems: &mut Vec<Diagnostic>,
) {
    let Some(required) = pipeline.require else { return };
    let place = root.descend(&["spec", "require"]).map_or_else(Default::default, |node| node.place);
    let report = guarantee::report(pipeline, registry);
    let mut said = BTreeSet::new();
    for path in report.paths.iter().filter(|path| path.level < required) {
        let names = (path.elements.last(), path.elements.get(path.weakest));
        if !said.insert((names.0.map(|e| e.name.as_str()), names.1.map(|e| e.name.as_str()))) {
            continue;
        }
        let message = format!("`{}` is required, but {}", required.name(), guarantee::verdict(path));
        let error = Diagnostic::error(code::REQUIRE, place, "spec.require", message);
        problems
            .push(error.with_help(format!("change the weakest element, or require `{}`", path.level.name())));
    }
    if said.is_empty() && report.level < required {
        let message = format!("`{}` is required, but the pipeline holds {}", required.name(), report.level);
        problems.push(Diagnostic::error(code::REQUIRE, place, "spec.require", message));
    }
}
