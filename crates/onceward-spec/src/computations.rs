//! What one computation must hold: a whole grouping, functions that are there, expressions that
//! compile, output names that differ.

use std::collections::BTreeMap;

use onceward_connector::Registry;

use crate::aggregate;
use crate::check::join;
use crate::code;
use crate::diagnostic::Diagnostic;
use crate::event_time;
use crate::expression::{self, Site, unknown_field};
use crate::functions;
use crate::graph::{COMPUTATIONS, section};
use crate::grouping;
use crate::model::{Pipeline, Place};
use crate::read::scalar_text;
use crate::shape::{self, WINDOW_END, WINDOW_START};
use crate::yaml::{Entry, Node};

/// Checks all computations of a model in its order. Parts with problems of their own are left out.
pub(crate) fn check(
    root: &Node,
    source: &str,
    pipeline: &Pipeline,
    registry: &Registry,
    problems: &mut Vec<Diagnostic>,
) {
    let columns = shape::columns(pipeline);
    let entries: BTreeMap<&str, &Entry> =
        section(root, COMPUTATIONS).iter().map(|entry| (entry.key.as_str(), entry)).collect();
    for computation in &pipeline.computations {
        let Some(entry) = entries.get(computation.name.as_str()) else { continue };
        let path = format!("spec.{COMPUTATIONS}.{}", computation.name);
        let inputs = join(&path, "inputs");
        let (in_inputs, elsewhere): (Vec<_>, Vec<_>) = problems
            .iter()
            .filter(|problem| is_inside(&problem.path, &path))
            .partition(|problem| is_inside(&problem.path, &inputs));
        if elsewhere.is_empty() {
            // With a wrong input nothing is known of the fields; the rest can still be checked.
            let known = match in_inputs.as_slice() {
                [] => shape::input_fields(&computation.inputs, &columns),
                _ => None,
            };
            grouping::check(entry, &path, problems);
            functions::check_process(entry, &path, registry, problems);
            let mut checker = Checker { entry, path, source, registry, problems };
            let known = checker.steps(known);
            checker.keyed(known.as_deref());
        }
    }
    event_time::check(root, pipeline, problems);
}

/// Whether a path is that of a part or of something in it.
pub(crate) fn is_inside(path: &str, of: &str) -> bool {
    path.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

struct Checker<'a> {
    entry: &'a Entry,
    path: String,
    source: &'a str,
    registry: &'a Registry,
    problems: &'a mut Vec<Diagnostic>,
}

impl Checker<'_> {
    /// The steps in order; gives the fields known behind them.
    fn steps(&mut self, mut known: Option<Vec<String>>) -> Option<Vec<String>> {
        let steps = self.entry.value.get("steps").map_or(&[][..], Node::items);
        for (index, step) in steps.iter().enumerate() {
            let path = format!("{}.steps[{index}]", self.path);
            if let Some(node) = step.get("filter") {
                self.expression(node, &join(&path, "filter"), scalar_text(node), 0, known.as_deref());
            }
            if let Some(node) = step.get("function") {
                functions::check_step(node, &join(&path, "function"), self.registry, self.problems);
                known = None;
            }
            if let Some(map) = step.get("map") {
                for entry in map.entries() {
                    let path = join(&join(&path, "map"), &entry.key);
                    self.expression(&entry.value, &path, scalar_text(&entry.value), 0, known.as_deref());
                }
                known = Some(map.entries().iter().map(|entry| entry.key.clone()).collect());
            }
        }
        known
    }

    /// Group keys and computed fields.
    fn keyed(&mut self, known: Option<&[String]>) {
        let Some(group) = self.entry.value.get("groupBy") else { return };
        let path = join(&self.path, "groupBy");
        let mut output: BTreeMap<&str, String> = BTreeMap::new();
        // What a function puts out is its own.
        if self.entry.value.get("process").is_none() {
            for name in [WINDOW_START, WINDOW_END] {
                output.insert(name, "the window's own field".to_owned());
            }
        }
        for (index, item) in group.items().iter().enumerate() {
            let Some(name) = item.text() else { continue };
            let path = format!("{path}[{index}]");
            if let Some(known) = known.filter(|known| !known.iter().any(|field| field == name)) {
                self.problems.push(unknown_field(name, known, item.place, &path));
            }
            self.output(name, item.place, &path, &mut output, "a group key");
        }
        let ids = self.entry.value.get("dedupBy").map_or(&[][..], Node::items);
        for (index, item) in ids.iter().enumerate() {
            let (Some(name), Some(known)) = (item.text(), known) else { continue };
            if !known.iter().any(|field| field == name) {
                let path = format!("{}.dedupBy[{index}]", self.path);
                self.problems.push(unknown_field(name, known, item.place, &path));
            }
        }
        let compute = self.entry.value.descend(&["aggregate", "compute"]).map_or(&[][..], Node::entries);
        for entry in compute {
            let path = format!("{}.aggregate.compute.{}", self.path, entry.key);
            self.output(&entry.key, entry.key_place, &path, &mut output, "a computed field");
            self.aggregate(entry, &path, known);
        }
    }

    /// Takes an output name, or refuses it.
    fn output<'n>(
        &mut self,
        name: &'n str,
        place: Place,
        path: &str,
        taken: &mut BTreeMap<&'n str, String>,
        as_what: &str,
    ) {
        if let Some(by) = taken.get(name) {
            let message = format!("the output field `{name}` is taken by {by}, expected each field once");
            let error = Diagnostic::error(code::FIELD_TAKEN, place, path, message);
            self.problems.push(error.with_help(match as_what {
                "a group key" => "remove it, or rename the field in a `map` step before",
                _ => "give the computed field another name",
            }));
        } else {
            taken.insert(name, as_what.to_owned());
        }
    }

    fn aggregate(&mut self, entry: &Entry, path: &str, known: Option<&[String]>) {
        let text = scalar_text(&entry.value);
        match aggregate::parse(text) {
            Err(error) => {
                let place = entry.value.place_at(error.offset, self.source);
                let problem = Diagnostic::error(code::AGGREGATE, place, path, error.message);
                self.problems.push(problem.with_help_opt(error.help));
            }
            Ok(call) => {
                if let Some((argument, offset)) = call.argument {
                    self.expression(&entry.value, path, argument, offset, known);
                }
            }
        }
    }

    fn expression(&mut self, node: &Node, path: &str, text: &str, offset: usize, known: Option<&[String]>) {
        expression::check(&Site { node, offset, text, path }, known, self.source, self.problems);
    }
}
