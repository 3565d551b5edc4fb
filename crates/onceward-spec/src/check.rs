//! The walk of a manifest along its field tables: unknown and missing keys, types, forms, bounds.
//!
//! Everything that can be said of a value alone is said here, so that the readers behind can be quiet.

use crate::aggregate;
use crate::code;
use crate::diagnostic::Diagnostic;
use crate::keys::TABLES;
use crate::model::Place;
use crate::nearest::{did_you_mean, one_of};
use crate::table::{MapKeys, Shape, Table};
use crate::value::{self, NAME_FORM};
use crate::yaml::{Entry, Kind, Node};

/// Checks a value. `at` is where the value is announced (its key), for what is missing inside it.
pub(crate) fn check(node: &Node, at: Place, path: &str, shape: &Shape, problems: &mut Vec<Diagnostic>) {
    let result = match *shape {
        Shape::Exactly(text) => exactly(node, path, text),
        Shape::Name => value::name(node, path).map(drop),
        Shape::Text => value::filled_text(node, path).map(drop),
        Shape::Bool => value::boolean(node, path).map(drop),
        Shape::Setting => value::setting(node, path).map(drop),
        Shape::Function(_) => value::filled_text(node, path).map(drop),
        Shape::Duration { min_us } => value::duration(node, path, min_us).map(drop),
        Shape::Size => value::size(node, path, 1).map(drop),
        Shape::Integer { min, max } => value::integer(node, path, min, max).map(drop),
        Shape::Word(words) => value::word(node, path, words).map(drop),
        Shape::Expression => value::expression(node, path, "a CEL expression").map(drop),
        Shape::Aggregate => value::expression(node, path, aggregate::FORM).map(drop),
        Shape::List(items) => return check_list(node, path, items, problems),
        Shape::Map { keys, values } => return check_map(node, path, keys, values, problems),
        Shape::Object(table) => return check_object(node, at, path, table, problems),
        Shape::Choice(table) => return check_choice(node, path, table, problems),
        // Checked with the registry, and so is whether a function is there.
        Shape::ConnectorType(_) | Shape::ConnectorConfig(_) => Ok(()),
    };
    if let Err(problem) = result {
        problems.push(*problem);
    }
}

/// What the items of a list or map are called.
fn plural(shape: &Shape) -> &'static str {
    match shape {
        Shape::Name => "names",
        Shape::Text => "texts",
        Shape::Setting => "texts, numbers or booleans",
        Shape::Expression => "expressions",
        Shape::Aggregate => "aggregate calls",
        Shape::Object(table) if table.name == "source" => "sources by name",
        Shape::Object(table) if table.name == "sink" => "sinks by name",
        Shape::Object(_) => "computations by name",
        Shape::Choice(_) => "steps",
        _ => "values",
    }
}

fn exactly(node: &Node, path: &str, expected: &str) -> value::ReadResult<()> {
    if node.text() == Some(expected) {
        return Ok(());
    }
    let message = format!("found {}, expected `{expected}`", node.found());
    Err(Box::new(Diagnostic::error(code::UNKNOWN_VERSION, node.place, path, message)))
}

fn check_list(node: &Node, path: &str, shape: &Shape, problems: &mut Vec<Diagnostic>) {
    match value::list(node, path, plural(shape)) {
        Err(problem) => problems.push(*problem),
        Ok([]) => problems.push(empty(node, path, "a list", "item")),
        Ok(items) => {
            for (index, item) in items.iter().enumerate() {
                check(item, item.place, &format!("{path}[{index}]"), shape, problems);
            }
        }
    }
}

fn empty(node: &Node, path: &str, what: &str, unit: &str) -> Diagnostic {
    let message = format!("found an empty {}, expected at least one {unit}", what.trim_start_matches("a "));
    Diagnostic::error(code::BAD_VALUE, node.place, path, message)
}

fn check_map(node: &Node, path: &str, keys: MapKeys, values: &Shape, problems: &mut Vec<Diagnostic>) {
    let entries = match value::map(node, path, plural(values)) {
        Err(problem) => return problems.push(*problem),
        Ok([]) => return problems.push(empty(node, path, "a map", "entry")),
        Ok(entries) => entries,
    };
    for entry in entries {
        let path = join(path, &entry.key);
        if keys == MapKeys::Names && !value::is_name(&entry.key) {
            let message = format!("found the name `{}`, expected {NAME_FORM}", entry.key);
            problems.push(Diagnostic::error(code::BAD_NAME, entry.key_place, &path, message));
        } else if entry.key.is_empty() {
            let message = "found an empty field name, expected at least one character";
            problems.push(Diagnostic::error(code::BAD_NAME, entry.key_place, &path, message));
        }
        check(&entry.value, entry.key_place, &path, values, problems);
    }
}

fn check_object(node: &Node, at: Place, path: &str, table: &Table, problems: &mut Vec<Diagnostic>) {
    let Kind::Mapping(entries) = &node.kind else {
        let expected = one_of(table.names());
        let message = format!("found {}, expected a map with {expected}", node.found());
        return problems.push(Diagnostic::error(code::WRONG_TYPE, node.place, path, message));
    };
    for entry in entries {
        let path = join(path, &entry.key);
        match table.key(&entry.key) {
            Some(key) => check(&entry.value, entry.key_place, &path, &key.shape, problems),
            None => problems.push(unknown_key(entry, &path, table.name, table.names())),
        }
    }
    for key in table.keys.iter().filter(|key| key.required && node.get(key.name).is_none()) {
        problems.push(missing_key(at, path, key.name, key.doc));
    }
}

/// The error for a key that is not known.
pub(crate) fn unknown_key(
    entry: &Entry,
    path: &str,
    of: &str,
    known: impl Iterator<Item = &'static str> + Clone,
) -> Diagnostic {
    let message = format!("unknown key `{}` of {of}, expected {}", entry.key, one_of(known.clone()));
    Diagnostic::error(code::UNKNOWN_KEY, entry.key_place, path, message)
        .with_help_opt(did_you_mean(&entry.key, known).or_else(|| elsewhere(&entry.key)))
}

/// Where a key that stands at the wrong place belongs.
fn elsewhere(key: &str) -> Option<String> {
    let table = TABLES.iter().find(|table| table.key(key).is_some())?;
    Some(format!("`{key}` is a key of `{}`", table.name))
}

/// The error for a key that must be there.
pub(crate) fn missing_key(at: Place, path: &str, key: &str, doc: &str) -> Diagnostic {
    let message = if path.is_empty() {
        format!("the manifest has no `{key}`, which is required")
    } else {
        format!("`{path}` has no `{key}`, which is required")
    };
    Diagnostic::error(code::MISSING_KEY, at, join(path, key), message).with_help(format!("`{key}`: {doc}"))
}

fn check_choice(node: &Node, path: &str, table: &Table, problems: &mut Vec<Diagnostic>) {
    let expected = one_of(table.names());
    let Kind::Mapping(entries) = &node.kind else {
        let message = format!("found {}, expected a map with exactly one of {expected}", node.found());
        return problems.push(Diagnostic::error(code::WRONG_TYPE, node.place, path, message));
    };
    for entry in entries {
        let path = join(path, &entry.key);
        match table.key(&entry.key) {
            Some(key) => check(&entry.value, entry.key_place, &path, &key.shape, problems),
            None => problems.push(unknown_key(entry, &path, &format!("a {}", table.name), table.names())),
        }
    }
    if entries.len() != 1 {
        let message =
            format!("found {} keys in one {}, expected exactly one of {expected}", entries.len(), table.name);
        let error = Diagnostic::error(code::BAD_VALUE, node.place, path, message);
        problems.push(error.with_help("begin every step with its own `-`"));
    }
}

/// The path of a key below another path.
pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
