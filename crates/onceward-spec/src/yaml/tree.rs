//! The tree, and how an offset inside a scalar maps back to the manifest.

use std::ops::Range;

use super::scalar::ScalarType;
use crate::model::Place;

/// A value with its place.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) kind: Kind,
    /// Levels below, itself included: bounds every recursion over the tree.
    pub(crate) height: u32,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Kind {
    Scalar(Scalar),
    Sequence(Vec<Node>),
    Mapping(Vec<Entry>),
}

/// A key with its value.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_place: Place,
    pub(crate) value: Node,
}

/// A scalar: its text, what it means and where its text came from.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    pub(crate) scalar_type: ScalarType,
    pub(crate) style: Style,
    pub(crate) origin: Origin,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    Plain,
    Quoted,
    Literal,
    Folded,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Origin {
    /// As it stands at this byte range of the file.
    File(Range<usize>),
    /// From the file with variables replaced; the text as the file has it, which is what messages
    /// show: a variable may hold a secret.
    Expanded(String),
    /// From `--set`; never searched for variables.
    Override,
}

impl Node {
    /// What was found, for messages.
    pub(crate) fn found(&self) -> String {
        match &self.kind {
            Kind::Sequence(_) => "a list".to_owned(),
            Kind::Mapping(_) => "a map".to_owned(),
            Kind::Scalar(scalar) => match (&scalar.origin, scalar.scalar_type) {
                (Origin::Expanded(raw), _) => format!("`{}` with its variables replaced", shortened(raw)),
                (_, ScalarType::Null) => "nothing".to_owned(),
                (_, scalar_type) => format!("{} `{}`", scalar_type.label(), shortened(&scalar.text)),
            },
        }
    }
    pub(crate) fn as_scalar(&self) -> Option<&Scalar> {
        match &self.kind {
            Kind::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }
    /// The text of a non-null scalar of any type.
    pub(crate) fn text(&self) -> Option<&str> {
        self.as_scalar().filter(|scalar| scalar.scalar_type != ScalarType::Null).map(|s| s.text.as_str())
    }
    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.kind {
            Kind::Mapping(entries) => entries,
            _ => &[],
        }
    }
    pub(crate) fn items(&self) -> &[Node] {
        match &self.kind {
            Kind::Sequence(items) => items,
            _ => &[],
        }
    }
    /// A key of a map.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }
    /// A key of a key of a map, and so on.
    pub(crate) fn descend(&self, keys: &[&str]) -> Option<&Node> {
        keys.iter().try_fold(self, |node, key| node.get(key))
    }
    /// The place of a byte of this scalar's text; the scalar's start where the text does not stand in
    /// the file as it is (escapes, folding, variables).
    pub(crate) fn place_at(&self, offset: usize, source: &str) -> Place {
        self.as_scalar()
            .and_then(|scalar| inner_place(self.place, scalar, offset, source))
            .unwrap_or(self.place)
    }
}

fn inner_place(start: Place, scalar: &Scalar, offset: usize, source: &str) -> Option<Place> {
    let Origin::File(range) = &scalar.origin else { return None };
    let before = scalar.text.get(..offset)?;
    let raw = source.get(range.clone())?;
    match scalar.style {
        Style::Plain if raw.trim_end() == scalar.text => {
            Some(Place { line: start.line, column: start.column + before.chars().count() as u32 })
        }
        Style::Quoted if raw.get(1..raw.len().saturating_sub(1)) == Some(scalar.text.as_str()) => (!raw
            .contains('\n'))
        .then(|| Place { line: start.line, column: start.column + 1 + before.chars().count() as u32 }),
        Style::Literal => {
            let first = literal_start(start, &scalar.text, source)?;
            let line = before.matches('\n').count();
            let in_line = before.rsplit('\n').next()?.chars().count();
            let written = source.lines().nth(first + line)?;
            let text_line = scalar.text.lines().nth(line)?;
            let indent =
                written.trim_end().chars().count().checked_sub(text_line.trim_end().chars().count())?;
            Some(Place { line: (first + line) as u32 + 1, column: (indent + in_line) as u32 + 1 })
        }
        _ => None,
    }
}

/// The index of the file's line that holds the first line of a literal block's text.
fn literal_start(start: Place, text: &str, source: &str) -> Option<usize> {
    let wanted = text.lines().next()?.trim_end();
    let near = (start.line as usize).checked_sub(1)?;
    source.lines().enumerate().skip(near).take(3).find_map(|(index, line)| {
        let indent = line.trim_end().strip_suffix(wanted)?;
        indent.chars().all(|c| c == ' ').then_some(index)
    })
}

fn shortened(text: &str) -> String {
    const SHOWN: usize = 60;
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("{}...", &line[..cut]),
        None if line.len() < text.trim_end().len() => format!("{line}..."),
        None => line.to_owned(),
    }
}
