//! The JSON scan against a full parser: the same values, the same refusals at the top level.

use onceward_connector::Codec;
use onceward_expr::{FieldSet, Row, ScanError, Scanner, Slots, Value};
use proptest::prelude::*;

use crate::json;

fn scan(record: &[u8], names: &[&str]) -> Result<Vec<Option<String>>, ScanError> {
    let mut fields = FieldSet::new();
    names.iter().for_each(|name| {
        fields.intern(name);
    });
    let scanner = Scanner::new(&Codec::Json, &fields);
    let mut slots = Slots::new(&fields);
    scanner.scan(record, &mut slots)?;
    let row = Row::new(record, &slots, &scanner);
    Ok((0..names.len()).map(|slot| row.field(slot).unwrap().map(|value| json(&value))).collect())
}

fn keys() -> impl Strategy<Value = String> {
    prop_oneof![Just("carrier".to_owned()), Just("a\"b\\c".to_owned()), "[a-z_]{0,12}", any::<String>()]
}

fn values() -> impl Strategy<Value = serde_json::Value> {
    let number = prop_oneof![
        any::<i64>().prop_map(|value| value.to_string()),
        any::<u64>().prop_map(|value| value.to_string()),
        "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,12})?",
    ]
    // The sign of a zero survives in a copied field, not in a value.
    .prop_filter("zero has no sign", |text| {
        !text.starts_with('-') || text.bytes().any(|byte| matches!(byte, b'1'..=b'9'))
    })
    .prop_map(|text| serde_json::from_str(&text).unwrap());
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        number,
        any::<String>().prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(serde_json::Value::from),
            prop::collection::vec((keys(), inner), 0..5)
                .prop_map(|entries| serde_json::Value::Object(entries.into_iter().collect())),
        ]
    })
}

fn objects() -> impl Strategy<Value = serde_json::Map<String, serde_json::Value>> {
    prop::collection::vec((keys(), values()), 0..7).prop_map(|entries| entries.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_field_is_found_with_its_value(object in objects(), pretty in any::<bool>()) {
        let object = serde_json::Value::Object(object);
        let text = if pretty { serde_json::to_string_pretty(&object) } else { serde_json::to_string(&object) }.unwrap();
        let object = object.as_object().unwrap();
        let mut names: Vec<&str> = object.keys().map(String::as_str).collect();
        names.push("a name that no record has");
        let found = scan(text.as_bytes(), &names).unwrap();
        for (name, found) in names.iter().zip(&found) {
            let found: Option<serde_json::Value> = found.as_ref().map(|text| serde_json::from_str(text).unwrap());
            prop_assert_eq!(found.as_ref(), object.get(*name));
        }
    }

    #[test]
    fn nested_values_read_level_by_level_are_the_same(value in values()) {
        fn read(value: Value<'_>) -> Value<'_> {
            match value.resolve().unwrap() {
                Value::List(items) => Value::list(items.iter().cloned().map(read).collect()),
                Value::Map(entries) => {
                    Value::map(entries.iter().cloned().map(|(key, value)| (key, read(value))).collect())
                }
                other => other,
            }
        }
        let record = format!("{{\"v\": {}}}", serde_json::to_string_pretty(&value).unwrap());
        let found = crate::eval("v", &record).unwrap();
        let found: serde_json::Value = serde_json::from_str(&json(&read(found))).unwrap();
        prop_assert_eq!(found, value);
    }

    #[test]
    fn what_a_parser_accepts_is_scanned_and_what_is_refused_is_malformed(
        object in objects(), at in any::<prop::sample::Index>(), byte in any::<u8>(), how in 0..3
    ) {
        let mut text = serde_json::to_vec(&object).unwrap();
        let at = at.index(text.len());
        match how {
            0 => text[at] = byte,
            1 => { text.remove(at); }
            _ => text.truncate(at),
        }
        let valid = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(&text).is_ok();
        let mut fields = FieldSet::new();
        fields.intern("carrier");
        let scanner = Scanner::new(&Codec::Json, &fields);
        let scanned = scanner.scan(&text, &mut Slots::new(&fields));
        prop_assert!(!valid || scanned.is_ok(), "{:?} for {}", scanned, String::from_utf8_lossy(&text));
    }
}

#[test]
fn the_last_of_duplicate_keys_wins() {
    assert_eq!(scan(br#"{"a":1,"b":2,"a":{"x":3}}"#, &["a"]).unwrap(), [Some("{\"x\":3}".to_owned())]);
}

#[test]
fn keys_with_escapes_match() {
    assert_eq!(scan(br#"{"\u0063arrier":"UA"}"#, &["carrier"]).unwrap(), [Some("\"UA\"".to_owned())]);
}

#[test]
fn long_keys_are_compared_to_their_end() {
    let record = br#"{"departure_delay":1,"departure_time":2}"#;
    let found = scan(record, &["departure_time", "departure_delay", "departur"]).unwrap();
    assert_eq!(found, [Some("2".to_owned()), Some("1".to_owned()), None]);
}

#[test]
fn malformed_records_are_refused_with_the_byte() {
    for (record, byte) in [
        ("", 0),
        ("[]", 0),
        ("{", 1),
        (r#"{"a":1"#, 6),
        (r#"{"a":1,}"#, 7),
        (r#"{"a" 1}"#, 5),
        (r#"{"a":}"#, 5),
        (r#"{"a":tru}"#, 5),
        (r#"{"a":1}}"#, 7),
        (r#"{"a":1} x"#, 8),
        (r#"{"a":[1}}"#, 7),
        (r#"{"a":{"b":1"#, 11),
        (r#"{"a":"x}"#, 8),
        (r#"{a:1}"#, 1),
    ] {
        match scan(record.as_bytes(), &["zz"]) {
            Err(ScanError::Json { offset, .. }) => assert_eq!(offset, byte, "{record}"),
            other => panic!("{record}: {other:?}"),
        }
    }
    assert_eq!(
        scan(b"{\"a\":1]", &[]).unwrap_err().to_string(),
        "OW-5101: malformed JSON at byte 6: found `]`, expected `,` or `}` after the value; correct the record"
    );
}

#[test]
fn nesting_is_bounded_without_a_stack() {
    let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    assert!(scan(nested(128).as_bytes(), &["a"]).is_ok());
    assert!(scan(nested(129).as_bytes(), &["a"]).is_err());
    assert!(scan(format!("{{\"a\":{}", "[{".repeat(1_000_000)).as_bytes(), &["a"]).is_err());
}

#[test]
fn numbers_stay_as_found() {
    let record = r#"{"a":12.30,"b":9007199254740993,"c":18446744073709551616,"d":1e400,"e":-0.10,"f":7E2}"#;
    for (name, text) in [
        ("a", "12.30"),
        ("b", "9007199254740993"),
        ("c", "18446744073709551616"),
        ("d", "1e400"),
        ("e", "-0.10"),
    ] {
        assert_eq!(crate::outcome(name, record), text);
    }
    // A number that no exact form holds is an error only where it is read as a number.
    assert_eq!(crate::outcome("d + 1", record), "OW-5206");
    assert_eq!(crate::outcome("d > 1", record), "OW-5206");
    assert_eq!(crate::outcome("d == 1.0", record), "OW-5206");
    assert_eq!(crate::outcome("{'kept': d}", record), "{\"kept\":1e400}");
    assert_eq!(crate::outcome("f + 0", record), "700");
}

#[test]
fn a_field_alone_is_copied_byte_for_byte() {
    let record = r#"{"n": 1.50E+3, "s": "\u0041\/", "o": { "x" : [ 1 ] }, "z": -0}"#;
    let mut fields = FieldSet::new();
    for (source, text) in [("n", "1.50E+3"), ("s", "\"\\u0041\\/\""), ("o", "{ \"x\" : [ 1 ] }"), ("z", "-0")]
    {
        let program = onceward_expr::Program::compile(source, &mut fields).unwrap();
        let scanner = Scanner::new(&Codec::Json, &fields);
        let mut slots = Slots::new(&fields);
        scanner.scan(record.as_bytes(), &mut slots).unwrap();
        let mut out = Vec::new();
        program.write_json(&Row::new(record.as_bytes(), &slots, &scanner), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }
}

#[test]
fn malformed_inside_is_found_when_it_is_read() {
    let record = r#"{"n":1.2.3,"lead":007,"o":{"x":1 "y":2},"ok":1}"#;
    assert_eq!(crate::outcome("ok", record), "1");
    assert_eq!(crate::outcome("n", record), "OW-5201");
    assert_eq!(crate::outcome("lead == 7", record), "OW-5201");
    assert_eq!(crate::outcome("o.x", record), "OW-5208");
}
