//! The JSON Schema: accepts what the parser accepts, refuses what strictness refuses, and says
//! nothing that this test's small validator does not understand.

use regex::Regex;
use serde_json::{Map, Value, json};

use super::{AGGREGATE, FLIGHTS, accepted, flights, parse_with, registry};
use crate::json_schema;
use crate::keys::TABLES;
use crate::yaml::{self, Kind, Node, ScalarType};

fn to_json(node: &Node) -> Value {
    match &node.kind {
        Kind::Sequence(items) => items.iter().map(to_json).collect(),
        Kind::Mapping(entries) => {
            entries.iter().map(|entry| (entry.key.clone(), to_json(&entry.value))).collect()
        }
        Kind::Scalar(scalar) => match scalar.scalar_type {
            ScalarType::Null => Value::Null,
            ScalarType::Text => json!(scalar.text),
            _ => serde_json::from_str(&scalar.text).expect("a JSON scalar"),
        },
    }
}

fn validate(text: &str) -> Result<(), String> {
    let (node, problems) = yaml::load(text);
    assert!(problems.is_empty(), "{problems:?}");
    let schema = json_schema(&registry());
    check(&schema, &to_json(&node.expect("a document")), &schema, "")
}

/// The keywords of the draft that the schema uses, each by its definition.
fn check(schema: &Value, value: &Value, root: &Value, at: &str) -> Result<(), String> {
    let fail = |why: String| Err(format!("{at}: {why}"));
    let keywords = schema.as_object().expect("a schema is an object");
    for (keyword, rule) in keywords {
        match keyword.as_str() {
            "$schema" | "title" | "description" | "default" | "$defs" => {}
            "properties" | "then" => {}
            "$ref" => {
                let name = rule.as_str().and_then(|r| r.strip_prefix("#/$defs/")).expect("a local reference");
                let target = &root["$defs"][name];
                assert!(target.is_object(), "no definition {name}");
                check(target, value, root, at)?;
            }
            "type" => {
                let types: Vec<&str> = match rule {
                    Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
                    one => one.as_str().into_iter().collect(),
                };
                if !types.iter().any(|kind| has_type(value, kind)) {
                    return fail(format!("{value} is not {types:?}"));
                }
            }
            "const" if value != rule => return fail(format!("{value} is not {rule}")),
            "const" => {}
            "enum" => {
                if !rule.as_array().expect("a list").contains(value) {
                    return fail(format!("{value} is not in {rule}"));
                }
            }
            "pattern" => {
                let pattern = Regex::new(rule.as_str().expect("a pattern")).expect("a regular expression");
                if value.as_str().is_some_and(|text| !pattern.is_match(text)) {
                    return fail(format!("{value} does not match {rule}"));
                }
            }
            "minLength" | "maxLength" => {
                let limit = rule.as_u64().expect("a number") as usize;
                if let Some(length) = value.as_str().map(|text| text.chars().count())
                    && ((keyword == "minLength" && length < limit)
                        || (keyword == "maxLength" && length > limit))
                {
                    return fail(format!("{value} breaks {keyword} {limit}"));
                }
            }
            "minimum" if value.as_i64().is_some_and(|number| Some(number) < rule.as_i64()) => {
                return fail(format!("{value} is below {rule}"));
            }
            "maximum" if value.as_i64().is_some_and(|number| Some(number) > rule.as_i64()) => {
                return fail(format!("{value} is above {rule}"));
            }
            "minimum" | "maximum" => {}
            "anyOf" => {
                let rules = rule.as_array().expect("a list");
                if !rules.iter().any(|rule| check(rule, value, root, at).is_ok()) {
                    return fail(format!("{value} fits none of {rule}"));
                }
            }
            "oneOf" => {
                let rules = rule.as_array().expect("a list");
                let fitting = rules.iter().filter(|rule| check(rule, value, root, at).is_ok()).count();
                if fitting != 1 {
                    return fail(format!("{value} fits {fitting} of {rule}"));
                }
            }
            "allOf" => {
                for rule in rule.as_array().expect("a list") {
                    check(rule, value, root, at)?;
                }
            }
            "if" => {
                if check(rule, value, root, at).is_ok() {
                    check(&schema["then"], value, root, at)?;
                }
            }
            "minItems"
                if value.as_array().is_some_and(|items| (items.len() as u64) < rule.as_u64().unwrap()) =>
            {
                return fail("too few items".to_owned());
            }
            "minItems" => {}
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(rule, item, root, &format!("{at}[{index}]"))?;
                }
            }
            "required"
            | "additionalProperties"
            | "propertyNames"
            | "minProperties"
            | "maxProperties"
            | "dependentRequired" => {
                if let Some(object) = value.as_object() {
                    check_object(keyword, rule, schema, object, root, at)?;
                }
            }
            other => panic!("the schema uses {other}, which this test does not know"),
        }
    }
    if let (Some(properties), Some(object)) =
        (keywords.get("properties").and_then(Value::as_object), value.as_object())
    {
        for (name, rule) in properties {
            if let Some(inner) = object.get(name) {
                check(rule, inner, root, &format!("{at}.{name}"))?;
            }
        }
    }
    Ok(())
}

fn check_object(
    keyword: &str,
    rule: &Value,
    schema: &Value,
    object: &Map<String, Value>,
    root: &Value,
    at: &str,
) -> Result<(), String> {
    let fail = |why: String| Err(format!("{at}: {why}"));
    let has_all = |names: &Value| {
        names.as_array().expect("a list").iter().all(|name| object.contains_key(name.as_str().unwrap()))
    };
    match keyword {
        "required" if !has_all(rule) => return fail(format!("not all of {rule}")),
        "minProperties" if (object.len() as u64) < rule.as_u64().unwrap() => {
            return fail("too few keys".to_owned());
        }
        "maxProperties" if (object.len() as u64) > rule.as_u64().unwrap() => {
            return fail("too many keys".to_owned());
        }
        "dependentRequired" => {
            for (name, needed) in rule.as_object().expect("an object") {
                if object.contains_key(name) && !has_all(needed) {
                    return fail(format!("{name} needs {needed}"));
                }
            }
        }
        "propertyNames" => {
            for name in object.keys() {
                check(rule, &json!(name), root, at)?;
            }
        }
        "additionalProperties" => {
            for (name, inner) in object {
                if schema["properties"].get(name).is_some() {
                    continue;
                }
                if *rule == json!(false) {
                    return fail(format!("unknown key {name}"));
                }
                check(rule, inner, root, &format!("{at}.{name}"))?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn has_type(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        other => panic!("unknown type {other}"),
    }
}

#[test]
fn the_schema_accepts_what_the_parser_accepts() {
    for changes in [
        &[][..],
        &[("data/flights-*.csv.zst", "\"${DIR}/x\"")],
        &[("tumbling: 1h", "tumbling: \"${LENGTH:1h}\"")],
        &[(
            "- filter: has(arr_delay)",
            "- filter: true\n        - map: { carrier: carrier, arr_delay: 1, n: null }",
        )],
        &[("  require: exactly_once\n", "  epoch: { interval: 1s, maxRows: 5, maxBytes: 4096 }\n")],
        &[("groupBy:", "partitions: 1024\n      groupBy:")],
        &[("format: jsonl }", "format: jsonl, maxSize: 1MB, maxRows: 3 }\n      delivery: exactly_once")],
        &[("  require: exactly_once\n", "  replicas: 256\n  replayCheck: ${EVERY:0}\n")],
        &[("24h }", "24h, idleAfter: 1m }\n      materialise: true")],
        &[("window: {", "late: too_late\n        window: {")],
        &[(
            "groupBy:",
            "minPartitions: 1\n      maxPartitions: 1024\n      inputDedup: full\n      dedupBy: [id]\n      dedupFor: 1h\n      processingMode: exactly_once\n      groupBy:",
        )],
        &[
            ("- filter: has(arr_delay)", "- function: split"),
            (AGGREGATE, "      process: { function: dedupe }\n"),
        ],
        &[(
            AGGREGATE,
            "      process:\n        function: sessions\n        config: { gap: 30, x: true, y: \"\" }\n",
        )],
        &[
            ("  require: exactly_once\n", ""),
            (
                "format: jsonl }",
                "format: jsonl }\n      delivery: at_most_once\n      atMostOnceStrategy: { enabled: true, totalQueueBytesLimit: 1MiB, suspendDestructionDuration: 0s }",
            ),
        ],
    ] {
        let text = flights(changes);
        accepted(&text);
        validate(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
    }
}

#[test]
fn the_schema_refuses_what_strictness_refuses() {
    for (from, to) in [
        ("onceward.dev/v1", "onceward.dev/v2"),
        ("kind: Pipeline", "kind: Other"),
        ("require:", "requires:"),
        ("require: exactly_once", "require: sometimes"),
        ("eventTime:", "event_time:"),
        ("nullValues:", "null_values:"),
        ("field: time_hour, ", ""),
        ("path: out/hourly, ", ""),
        ("arr_delay: int", "arr_delay: integer"),
        ("[\"NA\"]", "[-1]"),
        ("tumbling: 1h", "tumbling: 60"),
        ("tumbling: 1h", "tumbling: 1x"),
        ("name: flight-delays", "name: -x"),
        ("      groupBy: [carrier]\n", ""),
        ("      steps:\n        - filter: has(arr_delay)\n", ""),
        ("- filter: has(arr_delay)", "- { filter: a, map: { b: c } }"),
        ("- filter: has(arr_delay)", "- where: a"),
        ("inputs: [flights]", "inputs: []"),
        ("inputs: [flights]", "inputs: flights"),
        ("type: file\n      config: {", "type: files\n      config: {"),
        ("format: jsonl }", "format: jsonl, maxRows: 0 }"),
        ("groupBy:", "partitions: 1025\n      groupBy:"),
        ("groupBy:", "partitions: 0\n      groupBy:"),
        ("groupBy:", "minPartitions: 0\n      groupBy:"),
        ("groupBy:", "maxPartitions: 1025\n      groupBy:"),
        ("groupBy:", "inputDedup: some\n      groupBy:"),
        ("groupBy:", "dedupFor: 1h\n      groupBy:"),
        ("groupBy:", "processingMode: at_least_once\n      groupBy:"),
        ("  require:", "  replicas: 0\n  require:"),
        ("  require:", "  replicas: 257\n  require:"),
        ("  require:", "  replayCheck: -1\n  require:"),
        ("      eventTime:", "      materialise: 1\n      eventTime:"),
        ("24h }", "24h, idleAfter: 5 }"),
        ("- filter: has(arr_delay)", "- function: merge"),
        ("- filter: has(arr_delay)", "- function: dedupe"),
        ("window: {", "late: -x\n        window: {"),
        (AGGREGATE, "      process: { function: split }\n"),
        (AGGREGATE, "      process: { function: dedupe, config: { a: null } }\n"),
        (AGGREGATE, "      process: { function: dedupe, config: { a: [x] } }\n"),
        (AGGREGATE, ""),
        ("      aggregate:", "      process: { function: dedupe }\n      aggregate:"),
        ("      steps:\n", "      inputDedup: frontier\n      steps:\n"),
        ("      steps:\n", "      processingMode: exactly_once\n      steps:\n"),
        ("format: jsonl }", "format: jsonl }\n      delivery: once"),
        ("format: jsonl }", "format: jsonl }\n      atMostOnceStrategy: { enabled: maybe }"),
        ("format: jsonl }", "format: jsonl }\n      atMostOnceStrategy: { limit: 5 }"),
    ] {
        let text = flights(&[(from, to)]);
        assert!(parse_with(&text, &[]).is_err(), "the parser accepts {to}");
        assert!(validate(&text).is_err(), "the schema accepts {to}");
    }
}

#[test]
fn every_key_of_the_tables_is_in_the_schema_with_its_meaning() {
    let schema = json_schema(&registry());
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    for table in TABLES {
        let object = if table.name == "manifest" { &schema } else { &schema["$defs"][table.name] };
        assert_eq!(object["additionalProperties"], false, "{}", table.name);
        let properties = object["properties"].as_object().expect("properties");
        let names: Vec<&str> = properties.keys().map(String::as_str).collect();
        assert_eq!(names, table.names().collect::<Vec<_>>());
        for key in table.keys {
            assert_eq!(properties[key.name]["description"], key.doc);
        }
    }
    for name in ["source-file-config", "sink-file-config", "sink-stdout-config"] {
        assert_eq!(schema["$defs"][name]["additionalProperties"], false, "{name}");
    }
    assert!(FLIGHTS.contains("yaml-language-server"));
}

#[test]
fn functions_are_those_of_the_build() {
    let schema = json_schema(&registry());
    assert_eq!(schema["$defs"]["step"]["properties"]["function"]["anyOf"][0]["enum"], json!(["split"]));
    let process = &schema["$defs"]["process"]["properties"]["function"];
    assert_eq!(process["anyOf"][0]["enum"], json!(["dedupe", "sessions"]));
    // A schema with no word to choose from would be none.
    let schema = json_schema(&onceward_connector::Registry::default());
    assert_eq!(schema["$defs"]["step"]["properties"]["function"]["type"], "string");
}
