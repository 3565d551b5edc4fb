//! Connector types and their configs, by the connectors' own tables.

use std::path::{Path, PathBuf};

use onceward_connector::{Config, ConfigSchema, ConfigValue, Field, FieldKind, Registry};

use crate::check::{join, missing_key, unknown_key};
use crate::code;
use crate::diagnostic::Diagnostic;
use crate::model::Place;
use crate::nearest::{did_you_mean, one_of};
use crate::overrides::parse_value;
use crate::table::Direction;
use crate::value::{self, ReadResult};
use crate::yaml::{Kind, Node, Origin, Scalar, ScalarType, Style};

/// Types that Onceward has, whether or not this build has them.
const KNOWN: &[&str] = &[
    "file",
    "generator",
    "stdout",
    "blackhole",
    "sqlite",
    "kafka",
    "postgresql",
    "clickhouse",
    "trino",
    "iceberg",
    "nessie",
    "http",
];

/// The names of the connector types of this build in one direction.
pub(crate) fn types(registry: &Registry, direction: Direction) -> Vec<&'static str> {
    match direction {
        Direction::Source => registry.source_names(),
        Direction::Sink => registry.sink_names(),
    }
}

/// The config table of a type, if this build has it.
pub(crate) fn schema(registry: &Registry, direction: Direction, name: &str) -> Option<&'static ConfigSchema> {
    match direction {
        Direction::Source => registry.source(name).map(|connector| connector.schema()),
        Direction::Sink => registry.sink(name).map(|connector| connector.schema()),
    }
}

/// Finds the type that a `type` key names, or says what is wrong with it.
pub(crate) fn find_type(
    node: &Node,
    path: &str,
    direction: Direction,
    registry: &Registry,
) -> ReadResult<&'static ConfigSchema> {
    let here = types(registry, direction);
    let expected = one_of(here.iter().copied());
    let Some(name) = node.text() else {
        let message = format!("found {}, expected a type of {}: {expected}", node.found(), direction.label());
        return Err(Box::new(Diagnostic::error(code::WRONG_TYPE, node.place, path, message)));
    };
    if let Some(schema) = schema(registry, direction, name) {
        return Ok(schema);
    }
    let other = match direction {
        Direction::Source => Direction::Sink,
        Direction::Sink => Direction::Source,
    };
    let error = |code, message: String| Box::new(Diagnostic::error(code, node.place, path, message));
    if schema_exists(registry, other, name) {
        let message =
            format!("`{name}` can be a {}, not a {}, expected {expected}", other.label(), direction.label());
        Err(error(code::CONNECTOR_UNKNOWN, message))
    } else if KNOWN.contains(&name) {
        let message = format!("this build has no {name}; it has {expected}");
        let help = format!("use a build with the connector `{name}`");
        Err(Box::new(error(code::CONNECTOR_ABSENT, message).with_help(help)))
    } else {
        let message = format!("unknown type of {} {}, expected {expected}", direction.label(), node.found());
        let known = here.iter().copied().chain(KNOWN.iter().copied());
        Err(Box::new(error(code::CONNECTOR_UNKNOWN, message).with_help_opt(did_you_mean(name, known))))
    }
}

fn schema_exists(registry: &Registry, direction: Direction, name: &str) -> bool {
    schema(registry, direction, name).is_some()
}

/// Reads a config by its table: `None` if anything in it is wrong. `at` is where it is announced.
pub(crate) fn read(
    node: Option<&Node>,
    at: Place,
    path: &str,
    schema: &'static ConfigSchema,
    base_dir: &Path,
    problems: &mut Vec<Diagnostic>,
) -> Option<Config> {
    let before = problems.len();
    let mut config = Config::default();
    if let Some(node) = node {
        let Kind::Mapping(entries) = &node.kind else {
            let expected = one_of(schema.fields.iter().map(|field| field.name));
            let message = format!("found {}, expected a map with {expected}", node.found());
            problems.push(Diagnostic::error(code::WRONG_TYPE, node.place, path, message));
            return None;
        };
        for entry in entries {
            let path = join(path, &entry.key);
            let Some(field) = schema.fields.iter().find(|field| field.name == entry.key) else {
                let of = format!("a {} config", schema.connector);
                let known = schema.fields.iter().map(|field| field.name);
                problems.push(unknown_key(entry, &path, &of, known));
                continue;
            };
            match read_value(&entry.value, &path, field.kind, base_dir) {
                Ok(value) => config.set(field.name, value),
                Err(problem) => problems.push(*problem),
            }
        }
    }
    for field in schema.fields.iter().filter(|field| node.is_none_or(|node| node.get(field.name).is_none())) {
        if field.required {
            problems.push(missing_key(at, path, field.name, field.doc));
        } else if let Some(default) = field.default {
            match default_value(field, default, base_dir) {
                Some(value) => config.set(field.name, value),
                None => {
                    let message = format!(
                        "this build's default `{default}` of `{}` in {} is not valid",
                        field.name, schema.connector
                    );
                    let error = Diagnostic::error(code::CONNECTOR_TABLE, at, join(path, field.name), message);
                    problems.push(error.with_help("give the key a value, and report this"));
                }
            }
        }
    }
    (problems.len() == before).then_some(config)
}

/// Whether a value is the default of its key, so that a new key with a default changes no manifest.
pub(crate) fn is_default(field: &Field, value: &ConfigValue, base_dir: &Path) -> bool {
    match field.default {
        Some(default) => default_value(field, default, base_dir).as_ref() == Some(value),
        None => matches!(value, ConfigValue::List(items) if items.is_empty()),
    }
}

fn default_value(field: &Field, default: &str, base_dir: &Path) -> Option<ConfigValue> {
    let node = match field.kind {
        FieldKind::String | FieldKind::Char | FieldKind::Path | FieldKind::Enum(_) => {
            let bare = default.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(default);
            text_node(bare)
        }
        _ => parse_value(default)?,
    };
    read_value(&node, "", field.kind, base_dir).ok()
}

fn text_node(text: &str) -> Node {
    let scalar = Scalar {
        text: text.to_owned(),
        scalar_type: ScalarType::Text,
        style: Style::Quoted,
        origin: Origin::Override,
    };
    Node { place: Place::default(), kind: Kind::Scalar(scalar), height: 1 }
}

fn read_value(node: &Node, path: &str, kind: FieldKind, base_dir: &Path) -> ReadResult<ConfigValue> {
    Ok(match kind {
        FieldKind::String => ConfigValue::String(value::text(node, path)?.to_owned()),
        FieldKind::Char => ConfigValue::String(character(node, path)?.to_owned()),
        FieldKind::Path => ConfigValue::Path(absolute(base_dir, value::filled_text(node, path)?)),
        FieldKind::Bool => ConfigValue::Bool(value::boolean(node, path)?),
        FieldKind::Integer { min, max } => ConfigValue::Integer(value::integer(node, path, min, max)?),
        FieldKind::Duration => ConfigValue::Duration(value::duration(node, path, 0)?),
        FieldKind::Size => ConfigValue::Size(value::size(node, path, 0)?),
        FieldKind::Enum(words) => ConfigValue::String(value::word(node, path, words)?.to_owned()),
        FieldKind::StringList => {
            let mut texts = Vec::new();
            for (index, item) in value::list(node, path, "texts")?.iter().enumerate() {
                texts.push(value::text(item, &format!("{path}[{index}]"))?.to_owned());
            }
            ConfigValue::List(texts)
        }
        FieldKind::EnumMap(words) => {
            let mut pairs = Vec::new();
            for entry in value::map(node, path, &one_of(words.iter().copied()))? {
                let word = value::word(&entry.value, &join(path, &entry.key), words)?;
                pairs.push((entry.key.clone(), word.to_owned()));
            }
            ConfigValue::Map(pairs)
        }
    })
}

fn character<'a>(node: &'a Node, path: &str) -> ReadResult<&'a str> {
    let text = value::text(node, path)?;
    if text.len() == 1 {
        return Ok(text);
    }
    let message = format!("found {}, expected a single ASCII character", node.found());
    let error = Diagnostic::error(code::BAD_VALUE, node.place, path, message);
    Err(Box::new(error.with_help("a tab is written \"\\t\", in double quotes")))
}

/// A manifest's path against the manifest's folder, with no look at the disk.
pub(crate) fn absolute(base_dir: &Path, path: &str) -> PathBuf {
    let joined = base_dir.join(path);
    std::path::absolute(&joined).unwrap_or(joined)
}
