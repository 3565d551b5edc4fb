//! Which keys of a computation need which: a grouping has something to do per key, and what is said of
//! keys, partitions and repeats is said of a grouping.

use crate::check::join;
use crate::code;
use crate::diagnostic::Diagnostic;
use crate::model::Place;
use crate::read::DEFAULT_PARTITIONS;
use crate::value;
use crate::yaml::{Entry, Node};

/// The keys that need `groupBy`.
pub(crate) const GROUPED: &[&str] = &[
    "aggregate",
    "process",
    "partitions",
    "minPartitions",
    "maxPartitions",
    "inputDedup",
    "dedupBy",
    "dedupFor",
    "processingMode",
];

/// Where a key of a part stands; where the part stands if the key is not there.
pub(crate) fn key_place(entry: &Entry, key: &str) -> Place {
    let found = entry.value.entries().iter().find(|inner| inner.key == key);
    found.map_or(entry.key_place, |inner| inner.key_place)
}

/// Checks the keys of one computation whose values are right by themselves.
pub(crate) fn check(entry: &Entry, path: &str, problems: &mut Vec<Diagnostic>) {
    let rules = Rules { entry, path };
    rules.something_to_do(problems);
    if entry.value.get("groupBy").is_some() {
        problems.extend(rules.operator());
        problems.extend(rules.bounds());
        problems.extend(rules.dedup());
    } else {
        problems.extend(rules.without_grouping());
    }
}

struct Rules<'a> {
    entry: &'a Entry,
    path: &'a str,
}

impl Rules<'_> {
    fn has(&self, key: &str) -> bool {
        self.entry.value.get(key).is_some()
    }

    fn problem(&self, code: &'static str, key: &str, message: String, help: &str) -> Diagnostic {
        let place = key_place(self.entry, key);
        Diagnostic::error(code, place, join(self.path, key), message).with_help(help)
    }

    fn something_to_do(&self, problems: &mut Vec<Diagnostic>) {
        if ["steps", "groupBy", "aggregate", "process"].iter().any(|key| self.has(key)) {
            return;
        }
        let message = format!(
            "the computation `{}` does nothing, expected `steps` or `groupBy` or both",
            self.entry.key
        );
        let help = "add steps, or read its inputs directly";
        problems.push(self.problem(code::DOES_NOTHING, "steps", message, help));
    }

    /// A grouping has `aggregate` or `process`.
    fn operator(&self) -> Option<Diagnostic> {
        let name = &self.entry.key;
        match (self.has("aggregate"), self.has("process")) {
            (true, true) => {
                let message = format!("`{name}` has `aggregate` and `process`, expected one of them");
                let help = "put the function into a computation of its own, behind or before this one";
                Some(self.problem(code::TWO_OPERATORS, "process", message, help))
            }
            (false, false) => {
                let message = format!("`{name}` has `groupBy` but no `aggregate` and no `process`");
                let help = "add `aggregate` with `window` and `compute`, or `process` with `function`";
                Some(self.problem(code::HALF_GROUPING, "groupBy", message, help))
            }
            _ => None,
        }
    }

    fn without_grouping(&self) -> Vec<Diagnostic> {
        let found = GROUPED.iter().filter(|key| self.has(key));
        found
            .map(|key| {
                let message = format!("`{}` has `{key}` but no `groupBy`", self.entry.key);
                let help = match *key {
                    "aggregate" | "process" => "add `groupBy` with the fields of the key",
                    "partitions" | "minPartitions" | "maxPartitions" => {
                        "remove it: only keys are spread over partitions"
                    }
                    "processingMode" => {
                        "remove it: only a computation with `groupBy` keeps ids that it could do without"
                    }
                    _ => "remove it: repeats are told where keys are grouped",
                };
                self.problem(code::HALF_GROUPING, key, message, help)
            })
            .collect()
    }

    /// `minPartitions` <= `partitions` <= `maxPartitions`.
    fn bounds(&self) -> Vec<Diagnostic> {
        let count = |key: &str| {
            let node = self.entry.value.get(key)?;
            value::integer(node, "", i64::MIN, i64::MAX).ok()
        };
        let given = count("partitions");
        let start = given.unwrap_or(i64::from(DEFAULT_PARTITIONS));
        let of_start = if given.is_some() { "`partitions` is" } else { "`partitions` is not given and so" };
        let mut problems = Vec::new();
        for (key, bound, expected) in [
            ("minPartitions", count("minPartitions").filter(|least| *least > start), "at most"),
            ("maxPartitions", count("maxPartitions").filter(|most| *most < start), "at least"),
        ] {
            let (Some(bound), Some(node)) = (bound, self.entry.value.get(key)) else { continue };
            let message =
                format!("found `{key}` {bound}, but {of_start} {start}: expected {expected} {start}");
            let error = Diagnostic::error(code::PARTITION_BOUNDS, node.place, join(self.path, key), message);
            problems.push(error.with_help(format!("change it, or set `partitions: {bound}`")));
        }
        problems
    }

    /// How repeats are told must be possible with what they are told by.
    fn dedup(&self) -> Vec<Diagnostic> {
        let mut problems = Vec::new();
        let mode = self.entry.value.get("inputDedup");
        if let Some(node) = mode.filter(|node| node.text() == Some("frontier") && self.has("dedupBy")) {
            let message = "found `frontier` beside `dedupBy`, expected `full` or `auto`: a frontier is a place in a lane, and ids that clients choose have no order in which they come";
            let path = join(self.path, "inputDedup");
            let error = Diagnostic::error(code::DEDUP, node.place, path, message);
            problems.push(error.with_help("remove `inputDedup`, or remove `dedupBy`"));
        }
        if self.has("dedupFor") && !self.has("dedupBy") {
            let message = format!(
                "`{}` has `dedupFor` but no `dedupBy`: the ids of messages are remembered as long as they can come again, without a time",
                self.entry.key
            );
            let help = "remove it, or add `dedupBy` with the fields of the client's id";
            problems.push(self.problem(code::DEDUP, "dedupFor", message, help));
        }
        let fields = self.entry.value.get("dedupBy").map_or(&[][..], Node::items);
        for (index, field) in fields.iter().enumerate() {
            if fields[..index].iter().any(|other| other.text() == field.text()) {
                let message = format!("found {} twice, expected each field once", field.found());
                let path = format!("{}.dedupBy[{index}]", self.path);
                let error = Diagnostic::error(code::DEDUP, field.place, path, message);
                problems.push(error.with_help("remove one of them"));
            }
        }
        problems
    }
}
