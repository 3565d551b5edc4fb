//! What one computation must hold: something to do, a whole grouping, expressions that compile,
//! output names that differ, one keyed shuffle per path, event time behind every window.

use std::collections::{BTreeMap, BTreeSet};

use crate::aggregate;
use crate::check::join;
use crate::code;
use crate::diagnostic::Diagnostic;
use crate::expression::{self, Site, unknown_field};
use crate::graph::{COMPUTATIONS, SOURCES, section};
use crate::model::{ComputationSpec, Pipeline, Place};
use crate::read::scalar_text;
use crate::shape::{self, WINDOW_END, WINDOW_START};
use crate::yaml::{Entry, Node};

/// Checks all computations of a model in its order. Parts with problems of their own are left out.
pub(crate) fn check(root: &Node, source: &str, pipeline: &Pipeline, problems: &mut Vec<Diagnostic>) {
    let columns = shape::columns(pipeline);
    let mut upstream = Upstream::default();
    let mut untimed = BTreeSet::new();
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
            let mut checker = Checker { entry, path, source, problems };
            checker.parts();
            let known = checker.steps(known);
            checker.keyed(known.as_deref());
        }
        if computation.keyed.is_some() {
            upstream.check_second_grouping(computation, entry, problems);
            untimed.extend(
                upstream.sources(computation).into_iter().map(|name| (name, computation.name.as_str())),
            );
        }
        upstream.add(computation);
    }
    check_event_time(root, pipeline, &untimed, problems);
}

/// Whether a path is that of a part or of something in it.
pub(crate) fn is_inside(path: &str, of: &str) -> bool {
    path.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// What lies before each computation seen so far.
#[derive(Default)]
struct Upstream<'a> {
    /// Sources that reach it; a name that is not in here is a source itself.
    sources: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// The nearest grouping at or before it.
    grouping: BTreeMap<&'a str, &'a str>,
}

impl<'a> Upstream<'a> {
    fn sources(&self, computation: &'a ComputationSpec) -> BTreeSet<&'a str> {
        let mut all = BTreeSet::new();
        for input in &computation.inputs {
            match self.sources.get(input.as_str()) {
                Some(sources) => all.extend(sources.iter().copied()),
                None => {
                    all.insert(input.as_str());
                }
            }
        }
        all
    }

    fn grouping(&self, computation: &ComputationSpec) -> Option<&'a str> {
        computation.inputs.iter().find_map(|input| self.grouping.get(input.as_str()).copied())
    }

    fn add(&mut self, computation: &'a ComputationSpec) {
        let sources = self.sources(computation);
        let grouping = match computation.keyed {
            Some(_) => Some(computation.name.as_str()),
            None => self.grouping(computation),
        };
        self.sources.insert(&computation.name, sources);
        if let Some(grouping) = grouping {
            self.grouping.insert(&computation.name, grouping);
        }
    }

    fn check_second_grouping(
        &self,
        computation: &ComputationSpec,
        entry: &Entry,
        problems: &mut Vec<Diagnostic>,
    ) {
        let Some(first) = self.grouping(computation) else { return };
        let name = &computation.name;
        let message = format!(
            "`{name}` groups what `{first}` has grouped already, expected one `groupBy` on a path from source to sink"
        );
        let path = format!("spec.{COMPUTATIONS}.{name}.groupBy");
        let error = Diagnostic::error(code::SECOND_GROUPING, key_place(entry, "groupBy"), path, message);
        problems.push(error.with_help(format!(
            "this version exchanges keys once per path: give `{name}` the inputs of `{first}`, or use a second pipeline on its output"
        )));
    }
}

/// Windows need the time of every row that can reach them.
fn check_event_time(
    root: &Node,
    pipeline: &Pipeline,
    reached: &BTreeSet<(&str, &str)>,
    problems: &mut Vec<Diagnostic>,
) {
    for source in pipeline.sources.iter().filter(|source| source.event_time.is_none()) {
        let name = source.name.as_str();
        let Some((_, computation)) = reached.iter().find(|(reaching, _)| *reaching == name) else { continue };
        let path = format!("spec.{SOURCES}.{name}");
        let broken = problems.iter().any(|problem| problem.path == join(&path, "eventTime"))
            || section(root, SOURCES).iter().any(|entry| entry.key == name && !is_map(&entry.value))
            || problems
                .iter()
                .any(|problem| problem.code == code::UNKNOWN_KEY && is_inside(&problem.path, &path));
        if broken {
            continue;
        }
        let message = format!(
            "the source `{name}` has no `eventTime`, but `{computation}` computes over windows of event time behind it"
        );
        let error = Diagnostic::error(code::NO_EVENT_TIME, source.place, path, message);
        problems.push(error.with_help(format!(
            "add to `{name}`: `eventTime: {{ field: NAME }}`, where NAME is the field with the timestamp"
        )));
    }
}

fn is_map(node: &Node) -> bool {
    matches!(node.kind, crate::yaml::Kind::Mapping(_))
}

/// Where a key of a part stands; where the part stands if the key is not there.
fn key_place(entry: &Entry, key: &str) -> Place {
    let found = entry.value.entries().iter().find(|inner| inner.key == key);
    found.map_or(entry.key_place, |inner| inner.key_place)
}

struct Checker<'a> {
    entry: &'a Entry,
    path: String,
    source: &'a str,
    problems: &'a mut Vec<Diagnostic>,
}

impl Checker<'_> {
    /// Which keys need which.
    fn parts(&mut self) {
        let has = |key: &str| self.entry.value.get(key).is_some();
        let (grouped, aggregated) = (has("groupBy"), has("aggregate"));
        let name = &self.entry.key;
        let mut found = Vec::new();
        if !has("steps") && !grouped && !aggregated {
            let message =
                format!("the computation `{name}` does nothing, expected `steps` or `groupBy` or both");
            found.push((code::DOES_NOTHING, "steps", message, "add steps, or read its inputs directly"));
        }
        if grouped && !aggregated {
            let message = format!("`{name}` has `groupBy` but no `aggregate`");
            found.push((
                code::HALF_GROUPING,
                "groupBy",
                message,
                "add `aggregate` with `window` and `compute`",
            ));
        }
        if aggregated && !grouped {
            let message = format!("`{name}` has `aggregate` but no `groupBy`");
            found.push((
                code::HALF_GROUPING,
                "aggregate",
                message,
                "add `groupBy` with the fields of the key",
            ));
        }
        if has("partitions") && !grouped {
            let message = format!("`{name}` has `partitions` but no `groupBy`");
            let help = "remove it: only keys are spread over partitions";
            found.push((code::HALF_GROUPING, "partitions", message, help));
        }
        for (code, key, message, help) in found {
            let (place, path) = (key_place(self.entry, key), join(&self.path, key));
            self.problems.push(Diagnostic::error(code, place, path, message).with_help(help));
        }
    }

    /// The steps in order; gives the fields known behind them.
    fn steps(&mut self, mut known: Option<Vec<String>>) -> Option<Vec<String>> {
        let steps = self.entry.value.get("steps").map_or(&[][..], Node::items);
        for (index, step) in steps.iter().enumerate() {
            let path = format!("{}.steps[{index}]", self.path);
            if let Some(node) = step.get("filter") {
                self.expression(node, &join(&path, "filter"), scalar_text(node), 0, known.as_deref());
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
        for name in [WINDOW_START, WINDOW_END] {
            output.insert(name, "the window's own field".to_owned());
        }
        for (index, item) in group.items().iter().enumerate() {
            let Some(name) = item.text() else { continue };
            let path = format!("{path}[{index}]");
            if let Some(known) = known.filter(|known| !known.iter().any(|field| field == name)) {
                self.problems.push(unknown_field(name, known, item.place, &path));
            }
            self.output(name, item.place, &path, &mut output, "a group key");
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
