//! The form of field tables: one table per object of a manifest says which keys it has. The checker
//! walks by them, the JSON Schema and the reference in the docs are printed from them.

use onceward_connector::FunctionKind;

/// An object of a manifest.
#[derive(Debug)]
pub(crate) struct Table {
    /// Its name in the schema's definitions and the docs.
    pub(crate) name: &'static str,
    /// One sentence.
    pub(crate) doc: &'static str,
    /// Its keys, in the order the docs show them.
    pub(crate) keys: &'static [Key],
}

impl Table {
    pub(crate) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + Clone {
        self.keys.iter().map(|key| key.name)
    }
}

/// One key.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) required: bool,
    /// As it would stand in a manifest.
    pub(crate) default: Option<&'static str>,
    pub(crate) shape: Shape,
    /// What it means, in plain words.
    pub(crate) doc: &'static str,
}

/// What a value must look like.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// Exactly this text.
    Exactly(&'static str),
    /// A name.
    Name,
    /// Any text that is not empty.
    Text,
    /// `true` or `false`.
    Bool,
    /// Any scalar but null, taken as its text.
    Setting,
    /// The name of a registered function; checked with the registry.
    Function(FunctionKind),
    /// A duration of at least so many microseconds.
    Duration { min_us: i64 },
    /// A size of at least one byte.
    Size,
    /// A whole number.
    Integer { min: i64, max: i64 },
    /// One of these words.
    Word(&'static [&'static str]),
    /// A CEL expression; every scalar is read as its text.
    Expression,
    /// One aggregate call.
    Aggregate,
    /// A list with at least one item.
    List(&'static Shape),
    /// A map with at least one entry.
    Map { keys: MapKeys, values: &'static Shape },
    /// An object.
    Object(&'static Table),
    /// An object with exactly one of the table's keys.
    Choice(&'static Table),
    /// A connector type; checked with the registry.
    ConnectorType(Direction),
    /// A connector's config; checked with the connector's own table.
    ConnectorConfig(Direction),
}

/// What the keys of a map are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MapKeys {
    /// Names of parts of the pipeline.
    Names,
    /// Names of output fields: any text that is not empty.
    Fields,
}

/// Which side of the pipeline a connector is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Source,
    Sink,
}

impl Direction {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Direction::Source => "source",
            Direction::Sink => "sink",
        }
    }
}
