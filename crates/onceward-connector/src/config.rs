//! Config schemas: one table per connector says what its config may hold. The manifest compiler
//! validates by it, `onceward schema` prints it, the docs are checked against it.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a connector's `config` may hold.
#[derive(Debug)]
pub struct ConfigSchema {
    /// The connector's type name in manifests, for example `file`.
    pub connector: &'static str,
    /// One sentence for the schema and the docs.
    pub doc: &'static str,
    /// The keys.
    pub fields: &'static [Field],
}

/// One config key.
#[derive(Debug)]
pub struct Field {
    /// camelCase.
    pub name: &'static str,
    /// Type and bounds.
    pub kind: FieldKind,
    /// Whether a manifest must give it.
    pub required: bool,
    /// The default as it would stand in the manifest; `None` for "unset".
    pub default: Option<&'static str>,
    /// Whether it may change while the pipeline has state: it says neither what is owed, nor where that goes, nor how
    /// rows are encoded.
    pub live: bool,
    /// One sentence: what it does, unit, effect.
    pub doc: &'static str,
}

/// The type of a config key.
#[derive(Clone, Copy, Debug)]
pub enum FieldKind {
    /// Text.
    String,
    /// A single character of one byte, for example a delimiter.
    Char,
    /// A path or glob, relative to the manifest's folder.
    Path,
    /// `true` or `false`.
    Bool,
    /// A whole number within bounds.
    Integer {
        /// Smallest allowed.
        min: i64,
        /// Largest allowed.
        max: i64,
    },
    /// `250ms`, `10s`, `5m`, `24h`, `7d`.
    Duration,
    /// Bytes: `64KiB`, `16MiB`, `1GiB`, or a number.
    Size,
    /// One of these words.
    Enum(&'static [&'static str]),
    /// A list of texts.
    StringList,
    /// A map from text to one of these words.
    EnumMap(&'static [&'static str]),
}

/// One validated value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConfigValue {
    /// For `String`, `Char` and `Enum`.
    String(String),
    /// For `Path`: made absolute against the manifest's folder.
    Path(PathBuf),
    /// For `Bool`.
    Bool(bool),
    /// For `Integer`.
    Integer(i64),
    /// For `Duration`, in microseconds.
    Duration(i64),
    /// For `Size`, in bytes.
    Size(u64),
    /// For `StringList`.
    List(Vec<String>),
    /// For `EnumMap`, in manifest order.
    Map(Vec<(String, String)>),
}

/// A validated config: every value has the type its schema gives, defaults are filled in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Config {
    values: BTreeMap<String, ConfigValue>,
}

impl Config {
    /// Sets a value; used by the manifest compiler and by tests.
    pub fn set(&mut self, name: &str, value: ConfigValue) {
        self.values.insert(name.to_owned(), value);
    }
    /// The values, by key.
    pub fn values(&self) -> &BTreeMap<String, ConfigValue> {
        &self.values
    }
    /// A text, `None` if unset.
    pub fn string(&self, name: &str) -> Option<&str> {
        match self.values.get(name) {
            Some(ConfigValue::String(value)) => Some(value),
            _ => None,
        }
    }
    /// A path, `None` if unset.
    pub fn path(&self, name: &str) -> Option<&PathBuf> {
        match self.values.get(name) {
            Some(ConfigValue::Path(value)) => Some(value),
            _ => None,
        }
    }
    /// A boolean, `None` if unset.
    pub fn bool(&self, name: &str) -> Option<bool> {
        match self.values.get(name) {
            Some(ConfigValue::Bool(value)) => Some(*value),
            _ => None,
        }
    }
    /// A whole number, `None` if unset.
    pub fn integer(&self, name: &str) -> Option<i64> {
        match self.values.get(name) {
            Some(ConfigValue::Integer(value)) => Some(*value),
            _ => None,
        }
    }
    /// A duration in microseconds, `None` if unset.
    pub fn duration(&self, name: &str) -> Option<i64> {
        match self.values.get(name) {
            Some(ConfigValue::Duration(value)) => Some(*value),
            _ => None,
        }
    }
    /// A size in bytes, `None` if unset.
    pub fn size(&self, name: &str) -> Option<u64> {
        match self.values.get(name) {
            Some(ConfigValue::Size(value)) => Some(*value),
            _ => None,
        }
    }
    /// A list, empty if unset.
    pub fn list(&self, name: &str) -> &[String] {
        match self.values.get(name) {
            Some(ConfigValue::List(value)) => value,
            _ => &[],
        }
    }
    /// A map, empty if unset.
    pub fn map(&self, name: &str) -> &[(String, String)] {
        match self.values.get(name) {
            Some(ConfigValue::Map(value)) => value,
            _ => &[],
        }
    }
}
