//! JSON Schema of the manifest, for editors: printed from the same tables that the checker walks by.

use onceward_connector::{ConfigSchema, Field, FieldKind, Registry};
use serde_json::{Map, Value, json};

use crate::config::{self, types};
use crate::grouping::GROUPED;
use crate::keys::{MANIFEST, TABLES};
use crate::table::{Direction, Key, MapKeys, Shape, Table};
use crate::value::{MAX_NAME, NAME_PATTERN};

const DURATION_PATTERN: &str = "^([0-9]+(ms|s|m|h|d))+$";
const SIZE_PATTERN: &str = "^[0-9]+([KMGT]iB|[KMGT]B|B)?$";
/// A value that is not a text may still be written as one if variables are replaced in it.
const VARIABLE_PATTERN: &str = "\\$\\{.+\\}";

/// The schema, draft 2020-12, strict: unknown keys are errors, each connector's config is checked by
/// its `type`.
pub fn json_schema(registry: &Registry) -> Value {
    let mut defs = Map::new();
    for table in TABLES.iter().filter(|table| table.name != MANIFEST.name) {
        defs.insert(table.name.to_owned(), table_schema(table, registry));
    }
    for direction in [Direction::Source, Direction::Sink] {
        for name in types(registry, direction) {
            if let Some(schema) = config::schema(registry, direction, name) {
                defs.insert(config_name(direction, name), config_schema(schema));
            }
        }
    }
    let mut root = Map::new();
    root.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    root.insert("title".to_owned(), json!("Onceward pipeline"));
    if let Value::Object(manifest) = table_schema(&MANIFEST, registry) {
        root.extend(manifest);
    }
    root.insert("$defs".to_owned(), Value::Object(defs));
    Value::Object(root)
}

fn config_name(direction: Direction, connector: &str) -> String {
    format!("{}-{connector}-config", direction.label())
}

fn table_schema(table: &Table, registry: &Registry) -> Value {
    let mut properties = Map::new();
    for key in table.keys {
        properties.insert(key.name.to_owned(), key_schema(key, registry));
    }
    let required: Vec<&str> = table.keys.iter().filter(|key| key.required).map(|key| key.name).collect();
    let mut schema = json!({
        "type": "object",
        "description": table.doc,
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    let direction = table.keys.iter().find_map(|key| match key.shape {
        Shape::ConnectorConfig(direction) => Some(direction),
        _ => None,
    });
    if let Some(direction) = direction {
        schema["allOf"] = Value::Array(config_rules(direction, registry));
    }
    if table.name == "computation" {
        let needs_grouping = GROUPED.iter().map(|key| ((*key).to_owned(), json!(["groupBy"])));
        let mut needs: Map<String, Value> = needs_grouping.collect();
        needs.insert("dedupFor".to_owned(), json!(["groupBy", "dedupBy"]));
        schema["dependentRequired"] = Value::Object(needs);
        schema["anyOf"] = json!([{"required": ["steps"]}, {"required": ["groupBy"]}]);
        schema["allOf"] = json!([{
            "if": {"required": ["groupBy"]},
            "then": {"oneOf": [{"required": ["aggregate"]}, {"required": ["process"]}]},
        }]);
    }
    schema
}

/// `if` the type is this, `then` the config is that.
fn config_rules(direction: Direction, registry: &Registry) -> Vec<Value> {
    types(registry, direction)
        .into_iter()
        .filter_map(|name| {
            let schema = config::schema(registry, direction, name)?;
            let mut then = json!({
                "properties": { "config": { "$ref": format!("#/$defs/{}", config_name(direction, name)) } }
            });
            if schema.fields.iter().any(|field| field.required) {
                then["required"] = json!(["config"]);
            }
            Some(json!({
                "if": { "properties": { "type": { "const": name } }, "required": ["type"] },
                "then": then,
            }))
        })
        .collect()
}

fn key_schema(key: &Key, registry: &Registry) -> Value {
    let mut schema = shape_schema(&key.shape, registry);
    schema["description"] = json!(key.doc);
    if let Some(default) = key.default {
        schema["default"] = match key.shape {
            Shape::Integer { .. } | Shape::Bool => {
                serde_json::from_str(default).unwrap_or_else(|_| json!(default))
            }
            _ => json!(default),
        };
    }
    schema
}

fn text(pattern: &str) -> Value {
    json!({ "type": "string", "anyOf": [{ "pattern": pattern }, { "pattern": VARIABLE_PATTERN }] })
}

fn words(words: &[&str]) -> Value {
    json!({ "anyOf": [{ "enum": words }, { "type": "string", "pattern": VARIABLE_PATTERN }] })
}

fn or_variable(schema: Value) -> Value {
    json!({ "anyOf": [schema, { "type": "string", "pattern": VARIABLE_PATTERN }] })
}

fn integer(min: i64, max: i64) -> Value {
    let mut schema = json!({ "type": "integer" });
    if min != i64::MIN {
        schema["minimum"] = json!(min);
    }
    if max != i64::MAX {
        schema["maximum"] = json!(max);
    }
    or_variable(schema)
}

fn size() -> Value {
    json!({ "anyOf": [{ "type": "integer", "minimum": 0 }, text(SIZE_PATTERN)] })
}

fn shape_schema(shape: &Shape, registry: &Registry) -> Value {
    match *shape {
        Shape::Exactly(text) => json!({ "const": text }),
        Shape::Name => json!({ "anyOf": [
            { "type": "string", "pattern": NAME_PATTERN, "maxLength": MAX_NAME },
            { "type": "string", "pattern": VARIABLE_PATTERN },
            { "type": "integer", "minimum": 0 },
        ] }),
        Shape::Text => json!({ "type": "string", "minLength": 1 }),
        Shape::Bool => or_variable(json!({ "type": "boolean" })),
        Shape::Setting => json!({ "type": ["string", "number", "boolean"] }),
        Shape::Function(kind) => match registry.function_names(kind)[..] {
            [] => json!({ "type": "string", "minLength": 1 }),
            ref names => words(names),
        },
        Shape::Duration { .. } => text(DURATION_PATTERN),
        Shape::Size => size(),
        Shape::Integer { min, max } => integer(min, max),
        Shape::Word(known) => words(known),
        // YAML reads the expressions `true`, `1` and `null` as values of their own.
        Shape::Expression => json!({ "type": ["string", "number", "boolean", "null"], "minLength": 1 }),
        Shape::Aggregate => json!({ "type": "string", "minLength": 1 }),
        Shape::List(items) => {
            json!({ "type": "array", "minItems": 1, "items": shape_schema(items, registry) })
        }
        Shape::Map { keys, values } => {
            let names = match keys {
                MapKeys::Names => json!({ "pattern": NAME_PATTERN, "maxLength": MAX_NAME }),
                MapKeys::Fields => json!({ "minLength": 1 }),
            };
            json!({
                "type": "object",
                "minProperties": 1,
                "propertyNames": names,
                "additionalProperties": shape_schema(values, registry),
            })
        }
        Shape::Object(table) => json!({ "$ref": format!("#/$defs/{}", table.name) }),
        Shape::Choice(table) => {
            json!({ "$ref": format!("#/$defs/{}", table.name), "minProperties": 1, "maxProperties": 1 })
        }
        Shape::ConnectorType(direction) => words(&types(registry, direction)),
        Shape::ConnectorConfig(_) => json!({ "type": "object" }),
    }
}

fn config_schema(schema: &ConfigSchema) -> Value {
    let mut properties = Map::new();
    for field in schema.fields {
        properties.insert(field.name.to_owned(), field_schema(field));
    }
    let required: Vec<&str> =
        schema.fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    let mut result = json!({
        "type": "object",
        "description": schema.doc,
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        result["required"] = json!(required);
    }
    result
}

fn field_schema(field: &Field) -> Value {
    let mut schema = match field.kind {
        FieldKind::String => json!({ "type": "string" }),
        FieldKind::Char => text("^[\\u0000-\\u007f]$"),
        FieldKind::Path => json!({ "type": "string", "minLength": 1 }),
        FieldKind::Bool => or_variable(json!({ "type": "boolean" })),
        FieldKind::Integer { min, max } => integer(min, max),
        FieldKind::Duration => text(DURATION_PATTERN),
        FieldKind::Size => size(),
        FieldKind::Enum(known) => words(known),
        FieldKind::StringList => json!({ "type": "array", "items": { "type": "string" } }),
        FieldKind::EnumMap(known) => json!({ "type": "object", "additionalProperties": words(known) }),
    };
    schema["description"] = json!(field.doc);
    if let Some(default) = field.default {
        schema["default"] = match field.kind {
            FieldKind::Bool | FieldKind::Integer { .. } => {
                serde_json::from_str(default).unwrap_or_else(|_| json!(default))
            }
            _ => json!(default),
        };
    }
    schema
}
