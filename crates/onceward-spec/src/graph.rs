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

/// The name of the stream of late rows that a computation declares, with its node.
fn late(computation: &Entry) -> Option<(&str, &Node)> {
    let node = computation.value.descend(&["aggregate", "late"])?;
    node.text().filter(|text| value::is_name(text)).map(|text| (text, node))
}

/// The computations by the names of the streams that they make. A name that is taken by a part stands
/// for that part.
fn makers(root: &Node) -> BTreeMap<&str, usize> {
    let computations = section(root, COMPUTATIONS);
    let mut makers = BTreeMap::new();
    for (index, entry) in computations.iter().enumerate() {
        if let Some((name, _)) = late(entry) {
            makers.entry(name).or_insert(index);
        }
    }
    for part in [SOURCES, SINKS] {
        for entry in section(root, part) {
            makers.remove(entry.key.as_str());
        }
    }
    makers.extend(computations.iter().enumerate().map(|(index, entry)| (entry.key.as_str(), index)));
    makers
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
    check_late_names(root, &taken, problems);
}

/// Streams of late rows share the names of all parts.
fn check_late_names(root: &Node, parts: &BTreeMap<&str, &str>, problems: &mut Vec<Diagnostic>) {
    let mut taken: BTreeMap<&str, String> =
        parts.iter().map(|(name, part)| (*name, format!("`spec.{part}.{name}`"))).collect();
    for entry in section(root, COMPUTATIONS) {
        let Some((name, node)) = late(entry) else { continue };
        let path = format!("spec.{COMPUTATIONS}.{}.aggregate.late", entry.key);
        if let Some(by) = taken.get(name) {
            let message = format!("the name `{name}` is taken by {by}, expected a name of its own");
            let error = Diagnostic::error(code::NAME_TAKEN, node.place, path, message);
            problems.push(error.with_help(
                "the stream of late rows shares one set of names with all sources, computations and sinks: rename it",
            ));
        } else {
            taken.insert(name, format!("`{path}`"));
        }
    }
}

/// Refuses inputs that name nothing, a sink, or the same stream twice.
pub(crate) fn check_inputs(root: &Node, problems: &mut Vec<Diagnostic>) {
    let sources = section(root, SOURCES).iter().map(|entry| entry.key.as_str());
    let streams: Vec<&str> = sources.chain(makers(root).into_keys()).collect();
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
pub(crate) fn order(root: &Node, problems: &mut Vec<Diagnostic>) -> Vec<usize> {
    let computations = section(root, COMPUTATIONS);
    let index = makers(root);
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
    let computations = section(root, COMPUTATIONS);
    let makers = makers(root);
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> =
        section(root, SINKS).iter().flat_map(|entry| inputs(&entry.value).map(|(name, _)| name)).collect();
    while let Some(name) = open.pop() {
        if reached.insert(name)
            && let Some(entry) = makers.get(name).and_then(|index| computations.get(*index))
        {
            // Late rows come of a computation that must then run.
            open.push(&entry.key);
            open.extend(inputs(&entry.value).map(|(name, _)| name));
        }
    }
    reached
}

/// Warns of sources, computations and streams of late rows from which no sink is reached.
pub(crate) fn warn_unused(root: &Node, warnings: &mut Vec<Diagnostic>) {
    let reached = read_by_sinks(root);
    let mut warn = |name: &str, label: &str, place, path| {
        if !reached.contains(name) {
            let message = format!("no sink is reached from the {label} `{name}`");
            let warning = Diagnostic::warning(code::UNUSED, place, path, message);
            warnings
                .push(warning.with_help("name it in the `inputs` of a sink or computation, or remove it"));
        }
    };
    for (part, label) in [(SOURCES, Direction::Source.label()), (COMPUTATIONS, "computation")] {
        for entry in section(root, part) {
            warn(&entry.key, label, entry.key_place, format!("spec.{part}.{}", entry.key));
        }
    }
    for entry in section(root, COMPUTATIONS) {
        if let Some((name, node)) = late(entry) {
            let path = format!("spec.{COMPUTATIONS}.{}.aggregate.late", entry.key);
            warn(name, "stream of late rows", node.place, path);
        }
    }
}
