//! The graph of names: who reads whom, in which order, without a cycle.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::join;
use crate::code;
use crate::diagnostic::Diagnostic;
use crate::nearest::did_you_mean;
use crate::table::Direction;
use crate::value;
use crate::yaml::{Entry, Node};

/// The sections of `spec` that hold named parts.
pub(crate) const SOURCES: &str = "sources";
/// See [`SOURCES`].
pub(crate) const COMPUTATIONS: &str = "computations";
/// See [`SOURCES`].
pub(crate) const SINKS: &str = "sinks";

/// The entries of a section; none if it is absent or not a map.
pub(crate) fn section<'a>(root: &'a Node, name: &str) -> &'a [Entry] {
    root.descend(&["spec", name]).map_or(&[], Node::entries)
}

/// The names in an `inputs` list, with their nodes; what is not a name is left out.
pub(crate) fn inputs(part: &Node) -> impl Iterator<Item = (&str, &Node)> {
    let items = part.get("inputs").map_or(&[][..], Node::items);
    items.iter().filter_map(|item| item.text().filter(|text| value::is_name(text)).map(|text| (text, item)))
}

/// Parts per section: bounds every walk along the graph.
const MAX_PARTS: usize = 1000;

/// Refuses a name that is used before, in any section, and more parts than anyone has.
pub(crate) fn check_names(root: &Node, problems: &mut Vec<Diagnostic>) {
    for part in [SOURCES, COMPUTATIONS, SINKS] {
        if let Some(entry) = section(root, part).get(MAX_PARTS) {
            let message = format!("found more than {MAX_PARTS} {part}, expected {MAX_PARTS} at most");
            let error = Diagnostic::error(code::TOO_LARGE, entry.key_place, format!("spec.{part}"), message);
            problems.push(error.with_help("split the pipeline"));
        }
    }
    let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
    for part in [SOURCES, COMPUTATIONS, SINKS] {
        // Twice within one section is a duplicate key, reported when the text was read.
        let mut here = BTreeMap::new();
        for entry in section(root, part) {
            if let Some(before) = taken.get(entry.key.as_str()) {
                let message = format!(
                    "the name `{}` is taken by `spec.{before}.{}`, expected a name of its own",
                    entry.key, entry.key
                );
                let path = format!("spec.{part}.{}", entry.key);
                let error = Diagnostic::error(code::NAME_TAKEN, entry.key_place, path, message);
                problems.push(
                    error.with_help("sources, computations and sinks share one set of names: rename one"),
                );
            }
            here.insert(entry.key.as_str(), part);
        }
        for (name, part) in here {
            taken.entry(name).or_insert(part);
        }
    }
}

/// Refuses inputs that name nothing, a sink, or the same stream twice.
pub(crate) fn check_inputs(root: &Node, problems: &mut Vec<Diagnostic>) {
    let streams: Vec<&str> = [SOURCES, COMPUTATIONS]
        .into_iter()
        .flat_map(|name| section(root, name).iter().map(|entry| entry.key.as_str()))
        .collect();
    let known: BTreeSet<&str> = streams.iter().copied().collect();
    let sinks: BTreeSet<&str> = section(root, SINKS).iter().map(|entry| entry.key.as_str()).collect();
    for part in [COMPUTATIONS, SINKS] {
        for entry in section(root, part) {
            let path = format!("spec.{part}.{}.inputs", entry.key);
            let mut seen = BTreeSet::new();
            for (name, node) in inputs(&entry.value) {
                let problem = if !seen.insert(name) {
                    let message = format!("the input `{name}` stands twice, expected each input once");
                    Diagnostic::error(code::DUPLICATE_INPUT, node.place, &path, message)
                        .with_help("remove one of them")
                } else if known.contains(name) {
                    continue;
                } else if sinks.contains(name) {
                    let message = format!("`{name}` is a sink, expected the name of a source or computation");
                    Diagnostic::error(code::UNKNOWN_INPUT, node.place, &path, message)
                        .with_help("read what the sink reads instead")
                } else {
                    let message = format!("no source or computation has the name `{name}`");
                    Diagnostic::error(code::UNKNOWN_INPUT, node.place, &path, message)
                        .with_help_opt(did_you_mean(name, streams.iter().copied()))
                };
                problems.push(problem);
            }
        }
    }
}

/// The computations in an order in which every input comes before its reader, as far as possible as
/// they stand. Cycles are refused, each by the names on it; what is on one or behind one is left out.
pub(crate) fn order(computations: &[Entry], problems: &mut Vec<Diagnostic>) -> Vec<usize> {
    let index: BTreeMap<&str, usize> =
        computations.iter().enumerate().map(|(index, entry)| (entry.key.as_str(), index)).collect();
    let mut waits: Vec<BTreeSet<usize>> = computations
        .iter()
        .map(|entry| inputs(&entry.value).filter_map(|(name, _)| index.get(name).copied()).collect())
        .collect();
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); computations.len()];
    for (reader, inputs) in waits.iter().enumerate() {
        for input in inputs {
            readers[*input].push(reader);
        }
    }
    let mut ready: BTreeSet<usize> =
        (0..computations.len()).filter(|index| waits[*index].is_empty()).collect();
    let mut order = Vec::new();
    while let Some(next) = ready.pop_first() {
        order.push(next);
        for reader in &readers[next] {
            if waits[*reader].remove(&next) && waits[*reader].is_empty() {
                ready.insert(*reader);
            }
        }
    }
    report_cycles(computations, &waits, problems);
    order
}

/// What still waits is on a cycle or behind one: following any wait leads into a cycle.
fn report_cycles(computations: &[Entry], waits: &[BTreeSet<usize>], problems: &mut Vec<Diagnostic>) {
    let mut visited = vec![false; computations.len()];
    for start in 0..computations.len() {
        let mut trail: Vec<usize> = Vec::new();
        let mut at = start;
        while !visited[at] {
            visited[at] = true;
            trail.push(at);
            match waits[at].first() {
                Some(next) => at = *next,
                None => break,
            }
        }
        // A trail that ends in what was visited before leads into a cycle that is reported already.
        let Some(first) = trail.iter().position(|index| *index == at && !waits[at].is_empty()) else {
            continue;
        };
        // Against the waits is the way of the data; told from the part that stands first in the file.
        let mut cycle: Vec<usize> = trail[first..].iter().rev().copied().collect();
        let head = (0..cycle.len()).min_by_key(|position| cycle[*position]).unwrap_or(0);
        cycle.rotate_left(head);
        let entry = &computations[cycle[0]];
        let names: Vec<&str> =
            cycle.iter().chain(&cycle[..1]).map(|index| computations[*index].key.as_str()).collect();
        let place = entry.value.get("inputs").map_or(entry.key_place, |node| node.place);
        let path = join(&format!("spec.{COMPUTATIONS}.{}", entry.key), "inputs");
        let message = format!("computations wait for each other: {}", names.join(" -> "));
        let error = Diagnostic::error(code::CYCLE, place, path, message);
        problems.push(error.with_help("remove one of these inputs: data flows one way only"));
    }
}

/// Everything that at least one sink reads, directly or through computations.
pub(crate) fn read_by_sinks(root: &Node) -> BTreeSet<&str> {
    let computations: BTreeMap<&str, &Node> =
        section(root, COMPUTATIONS).iter().map(|entry| (entry.key.as_str(), &entry.value)).collect();
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> =
        section(root, SINKS).iter().flat_map(|entry| inputs(&entry.value).map(|(name, _)| name)).collect();
    while let Some(name) = open.pop() {
        if reached.insert(name)
            && let Some(node) = computations.get(name)
        {
            open.extend(inputs(node).map(|(name, _)| name));
        }
    }
    reached
}

/// Warns of sources and computations from which no sink is reached.
pub(crate) fn warn_unused(root: &Node, warnings: &mut Vec<Diagnostic>) {
    let reached = read_by_sinks(root);
    for (part, label) in [(SOURCES, Direction::Source.label()), (COMPUTATIONS, "computation")] {
        for entry in section(root, part).iter().filter(|entry| !reached.contains(entry.key.as_str())) {
            let path = format!("spec.{part}.{}", entry.key);
            let message = format!("no sink is reached from the {label} `{}`", entry.key);
            let warning = Diagnostic::warning(code::UNUSED, entry.key_place, path, message);
            warnings
                .push(warning.with_help("name it in the `inputs` of a sink or computation, or remove it"));
        }
    }
}
