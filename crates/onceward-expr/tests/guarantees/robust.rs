//! Nothing an expression or a record can be makes us panic, hang or run out of stack.

use onceward_connector::{Codec, Column, CsvSchema, FieldType};
use onceward_expr::{FieldSet, Program, Row, Scanner, Slots, Value, record_to_json};
use proptest::prelude::*;

use crate::outcome;

fn run(source: &str, codec: &Codec, record: &[u8]) {
    let mut fields = FieldSet::new();
    fields.intern("a");
    let program = Program::compile(source, &mut fields);
    let scanner = Scanner::new(codec, &fields);
    let mut slots = Slots::new(&fields);
    if scanner.scan(record, &mut slots).is_err() {
        return;
    }
    let row = Row::new(record, &slots, &scanner);
    let mut out = Vec::new();
    let _ = record_to_json(codec, record, &mut out);
    let field = row.field(0).ok().flatten();
    for value in [field, program.ok().and_then(|program| program.eval(&row).ok())].into_iter().flatten() {
        let _ = value.write_json(&mut out);
        value.encode(&mut out);
        value.encode_key(&mut out);
        let _ = value.compare(&value);
        let _ = value.resolve();
    }
}

fn csv() -> Codec {
    let column = |name: &str, field_type| Column { name: name.to_owned(), field_type };
    Codec::Csv(std::sync::Arc::new(CsvSchema {
        columns: vec![column("a", FieldType::Timestamp), column("b", FieldType::Decimal)],
        delimiter: b';',
        null_values: vec!["NA".to_owned()],
    }))
}

/// Pieces of the language in any order: most are refused, and those that compile are strange.
fn expressions() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "b",
        "x",
        "1",
        "2.50",
        "-",
        "+",
        "*",
        "/",
        "%",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ".",
        ",",
        ":",
        "?",
        "!",
        "==",
        "<",
        ">=",
        "&&",
        "||",
        " in ",
        "has(a)",
        "has(a.b)",
        "size(a)",
        "a.map(x, x + 1)",
        ".exists(x, x == 1)",
        ".filter(x, ",
        "'text'",
        "b'\\xff'",
        "r'\\d'",
        "null",
        "true",
        "timestamp('2013-01-01')",
        "duration('1h')",
        ".getHours('+02:00')",
        "double(a)",
        "int(",
        "string(",
        "1u",
        "9223372036854775807",
        ".matches('a+')",
        "é",
    ]);
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn any_text_compiles_or_is_refused(source in any::<String>()) {
        run(&source, &Codec::Json, b"{}");
    }

    #[test]
    fn any_expression_has_an_outcome(source in expressions()) {
        run(&source, &Codec::Json, br#"{"a":[1,2.5,{"b":null}],"b":"text"}"#);
        run(&source, &csv(), b"2013-01-01;1.50");
    }

    #[test]
    fn any_bytes_are_scanned_or_refused(
        record in prop::collection::vec(prop_oneof![prop::sample::select(br#"{}[]",:\a1;.-"#.to_vec()), any::<u8>()], 0..60)
    ) {
        run("a", &Codec::Json, &record);
        run("a", &csv(), &record);
        let mut object = b"{\"a\":".to_vec();
        object.extend_from_slice(&record);
        object.push(b'}');
        run("a.a == a[0] || a == {}", &Codec::Json, &object);
    }
}

fn refused(source: &str) -> &'static str {
    Program::compile(source, &mut FieldSet::new()).map_err(|error| error.code).unwrap_err()
}

#[test]
fn deep_expressions_are_refused_not_overflown() {
    for source in [
        format!("{}1{}", "(".repeat(100_000 / 4), ")".repeat(100_000 / 4)),
        "[".repeat(60_000),
        "{1:".repeat(20_000),
        format!("{}true", "!".repeat(60_000)),
        format!("{}a", "-".repeat(60_000)),
        format!("1{}", "+1".repeat(30_000)),
        format!("a{}", ".b".repeat(30_000)),
        format!("a{}", "[0]".repeat(20_000)),
        format!("{}1", "a?b:".repeat(15_000)),
        format!("{}1{}", "size(".repeat(10_000), ")".repeat(10_000)),
        format!("a{}", ".trim()".repeat(9_000)),
        "x".repeat(70_000),
    ] {
        assert_eq!(refused(&source), "OW-5005", "{}", &source[..20]);
    }
}

#[test]
fn what_the_language_promises_to_hold_is_held() {
    let long_or = format!("false{} || true", " || false".repeat(5000));
    assert_eq!(outcome(&long_or, "{}"), "true");
    let nested = format!("{}1{}", "(".repeat(60), ")".repeat(60));
    assert_eq!(outcome(&nested, "{}"), "1");
    let sum = format!("a{}", " + 1".repeat(150));
    assert_eq!(outcome(&sum, "{\"a\":1}"), "151");
    let map = format!("a{}", ".b".repeat(120));
    let record = format!("{{\"a\":{}1{}}}", "{\"b\":".repeat(120), "}".repeat(120));
    assert_eq!(outcome(&map, &record), "1");
}

#[test]
fn work_and_sizes_are_bounded() {
    let items = format!("{{\"l\":[{}1]}}", "1,".repeat(4000));
    assert_eq!(outcome("l.all(a, l.all(b, l.all(c, a == b && b == c)))", &items), "OW-5209");
    assert_eq!(outcome("l.all(x, l.map(y, y) == l)", &items), "OW-5209");
    // The limit is not one of the errors that `||` absorbs: it would make the outcome depend on the order.
    assert_eq!(outcome("l.all(a, l.all(b, l.all(c, true))) || true", &items), "OW-5209");
    let doubled = "s.replace('', s)".to_owned() + &".replace('a', s)".repeat(5);
    assert_eq!(outcome(&doubled, &format!("{{\"s\":\"{}\"}}", "a".repeat(1000))), "OW-5209");
    let text = format!("{{\"s\":\"{}\"}}", "a,".repeat(40_000));
    assert_eq!(outcome("size(s.split(''))", &text), "OW-5209");
}

#[test]
fn deep_values_are_encoded_and_too_deep_bytes_are_refused() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(128), "]".repeat(128));
    let value = crate::eval("[a]", &deep).unwrap();
    let mut key = Vec::new();
    value.encode_key(&mut key);
    let (again, len) = Value::decode_key(&key).unwrap();
    assert_eq!((&again, len), (&value, key.len()));
    let nested = |tag: u8, levels: usize| [tag, 1].repeat(levels).into_iter().chain([0]).collect::<Vec<u8>>();
    assert!(Value::decode(&nested(11, 400)).is_some());
    assert_eq!(Value::decode(&nested(11, 401)), None);
    assert_eq!(Value::decode(&nested(11, 1_000_000)), None);
    assert_eq!(Value::decode_key(&nested(10, 1_000_000)), None);
    // A count without its items allocates nothing.
    assert_eq!(Value::decode(&[11, 0xff, 0xff, 0xff, 0xff, 0x7f]), None);
}

#[test]
fn values_and_outcomes_stay_small() {
    assert!(std::mem::size_of::<Value<'_>>() <= 32);
    assert!(std::mem::size_of::<Result<Value<'_>, onceward_expr::EvalError>>() <= 40);
}
