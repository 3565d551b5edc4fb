//! `--set path=value`: replaces or adds one value of the tree before anything is checked.

use crate::check::join;
use crate::code;
use crate::diagnostic::Diagnostic;
use crate::keys;
use crate::model::Place;
use crate::nearest::did_you_mean;
use crate::table::Shape;
use crate::yaml::{self, Entry, Kind, Node, Origin, Scalar, ScalarType, Style};

/// Deepest path; the schema itself is far from it.
const MAX_PARTS: usize = 32;

/// Applies one override.
pub(crate) fn apply(root: &mut Node, set: &str, problems: &mut Vec<Diagnostic>) {
    if let Err(problem) = try_apply(root, set) {
        problems.push(*problem);
    }
}

fn try_apply(root: &mut Node, set: &str) -> Result<(), Box<Diagnostic>> {
    let refuse = |path: &str, message: String| {
        Box::new(Diagnostic::error(code::BAD_OVERRIDE, Place::default(), path, message))
    };
    // The value stays out of every message: it may be a secret.
    let Some((path, value)) = set.split_once('=') else {
        return Err(refuse("", "found `--set` without `=`, expected `--set path=value`".to_owned()));
    };
    let parts: Vec<&str> = path.split('.').collect();
    if parts.iter().any(|part| part.is_empty()) || parts.len() > MAX_PARTS {
        let message =
            format!("found `--set {path}=...`, expected a path of keys such as `spec.epoch.interval`");
        return Err(refuse(path, message));
    }
    let value = parse_value(value).ok_or_else(|| {
        let message = format!("the value of `--set {path}=...` begins like YAML but is not");
        Box::new(refuse(path, message).with_help("put it in quotes of its own: `--set 'path=\"[...]\"'`"))
    })?;
    place(root, &parts, value)
}

/// A value in quotes, `[ ]` or `{ }` is read as YAML, anything else is one plain scalar as it stands.
pub(crate) fn parse_value(text: &str) -> Option<Node> {
    if text.starts_with(['"', '\'', '[', '{']) {
        let (node, problems) = yaml::load(text);
        let mut node = node.filter(|_| problems.is_empty())?;
        mark(&mut node);
        return Some(node);
    }
    let scalar = Scalar {
        text: text.to_owned(),
        scalar_type: ScalarType::of_plain(text),
        style: Style::Plain,
        origin: Origin::Override,
    };
    Some(Node { place: Place::default(), kind: Kind::Scalar(scalar), height: 1 })
}

/// Takes places away that are not places of the manifest.
fn mark(node: &mut Node) {
    node.place = Place::default();
    match &mut node.kind {
        Kind::Scalar(scalar) => scalar.origin = Origin::Override,
        Kind::Sequence(items) => items.iter_mut().for_each(mark),
        Kind::Mapping(entries) => {
            for entry in entries {
                entry.key_place = Place::default();
                mark(&mut entry.value);
            }
        }
    }
}

/// Walks to the parent and puts the value there. Objects that the manifest may have but has not
/// (`spec.epoch`, a `config`) are made on the way; names are not: a misspelt one must not add a part.
fn place(root: &mut Node, parts: &[&str], value: Node) -> Result<(), Box<Diagnostic>> {
    let mut node = root;
    let mut shape = Some(Shape::Object(&keys::MANIFEST));
    let mut path = String::new();
    for (depth, part) in parts.iter().enumerate() {
        let last = depth + 1 == parts.len();
        let inner = inner_shape(shape, part);
        let whole = join(&path, part);
        let here = std::mem::replace(&mut path, whole);
        node = match &mut node.kind {
            Kind::Mapping(entries) => {
                let index = match entries.iter().position(|entry| entry.key == *part) {
                    Some(index) => index,
                    None if last || may_be_made(shape, inner) => {
                        let kind = Kind::Mapping(Vec::new());
                        let value = Node { place: Place::default(), kind, height: 1 };
                        let key = (*part).to_owned();
                        entries.push(Entry { key, key_place: Place::default(), value });
                        entries.len() - 1
                    }
                    None => {
                        let known = entries.iter().map(|entry| entry.key.as_str());
                        let help = did_you_mean(part, known);
                        return Err(no_parent(&path, &here, part, help));
                    }
                };
                &mut entries[index].value
            }
            Kind::Sequence(items) => {
                match part.parse::<usize>().ok().and_then(|index| items.get_mut(index)) {
                    Some(item) => item,
                    None => {
                        let help = Some("items of a list are named by their index, from 0".to_owned());
                        return Err(no_parent(&path, &here, part, help));
                    }
                }
            }
            Kind::Scalar(_) => return Err(no_parent(&path, &here, part, None)),
        };
        shape = inner;
    }
    *node = value;
    Ok(())
}

fn inner_shape(shape: Option<Shape>, part: &str) -> Option<Shape> {
    match shape? {
        Shape::Object(table) | Shape::Choice(table) => table.key(part).map(|key| key.shape),
        Shape::Map { values, .. } => Some(*values),
        Shape::List(items) => Some(*items),
        _ => None,
    }
}

fn may_be_made(outer: Option<Shape>, inner: Option<Shape>) -> bool {
    matches!(outer, Some(Shape::Object(_)))
        && matches!(inner, Some(Shape::Object(_) | Shape::ConnectorConfig(_)))
}

fn no_parent(path: &str, here: &str, part: &str, help: Option<String>) -> Box<Diagnostic> {
    let whole = if here.is_empty() { "the manifest".to_owned() } else { format!("`{here}`") };
    let message = format!("`--set {path}`: {whole} has no `{part}`");
    Box::new(Diagnostic::error(code::OVERRIDE_PATH, Place::default(), path, message).with_help_opt(help))
}
