//! No digit of a number is lost on its way into a column, whatever its declared type.

use rusqlite::types::Value;

use super::*;

/// Writes one value to a column of a declared type; answers what is there.
fn stored(declared: &str, json: &str) -> Result<Value, ConnectorError> {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("rows.db");
    if declared != "made by the sink" {
        run_sql(&path, &format!("CREATE TABLE rows (v {declared})"));
    }
    let sink = sink(&path, "append", &["v"], &[]);
    let mut writer = progress(&sink, &identity(1, 0));
    let start = open(writer.as_mut(), A).expect("opens");
    let row = format!("{{\"v\":{json}}}");
    match writer.write(&block_of(1, &[&row]), start, at(1, A)) {
        Err(TargetError::Definite(error)) => Err(error),
        other => {
            other.expect("written or refused");
            let connection = Connection::open(&path).expect("opens");
            Ok(connection.query_row("SELECT v FROM rows", [], |row| row.get(0)).expect("a row"))
        }
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.into())
}

#[test]
fn a_column_without_a_type_keeps_every_value_as_it_comes() {
    for declared in ["made by the sink", "", "BLOB"] {
        for (json, expected) in [
            ("1", Value::Integer(1)),
            ("9007199254740993", Value::Integer(9_007_199_254_740_993)),
            ("123456789012345678901234567890", text("123456789012345678901234567890")),
            ("0.1", Value::Real(0.1)),
            ("1234567.89", Value::Real(1_234_567.89)),
            ("0.12345678901234567890", text("0.12345678901234567890")),
            ("true", Value::Integer(1)),
            ("null", Value::Null),
            (r#""007""#, text("007")),
            (r#"[1.50, {"a":"b"}]"#, text(r#"[1.50, {"a":"b"}]"#)),
        ] {
            assert_eq!(stored(declared, json).expect("taken"), expected, "{declared}: {json}");
        }
    }
}

#[test]
fn a_declared_type_keeps_every_digit_or_refuses_the_row() {
    for (declared, json, expected) in [
        ("TEXT", "9007199254740993", Some(text("9007199254740993"))),
        ("TEXT", "0.30000000000000004", Some(text("0.30000000000000004"))),
        ("TEXT", "12.30", Some(text("12.30"))),
        ("TEXT", "123456789012345678901234567890", Some(text("123456789012345678901234567890"))),
        ("BIGINT", "9007199254740993", Some(Value::Integer(9_007_199_254_740_993))),
        ("BIGINT", "0.5", Some(Value::Real(0.5))),
        ("BIGINT", "123456789012345678901234567890", None),
        ("DECIMAL(10,2)", "12.34", Some(Value::Real(12.34))),
        ("DECIMAL(10,2)", "0.12345678901234567890", None),
        ("REAL", "9007199254740992", Some(Value::Real(9_007_199_254_740_992.0))),
        ("REAL", "9007199254740993", None),
        ("REAL", "0.12345678901234567890", None),
    ] {
        match (stored(declared, json), expected) {
            (Ok(found), Some(expected)) => assert_eq!(found, expected, "{declared}: {json}"),
            (Err(error), None) => assert_eq!(error.code, "OW-3211", "{declared}: {json}"),
            (found, expected) => panic!("{declared}: {json}: found {found:?}, expected {expected:?}"),
        }
    }
}

#[test]
fn names_with_quotes_and_letters_of_any_kind_are_names() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("rows.db");
    let mut config = config(&path, "upsert", &["a\"b", "größe", "select"], &["a\"b"]);
    config.set("table", ConfigValue::String("order \"by\"".into()));
    let sink = SqliteSink::new(&config, &StreamShape::default()).expect("a good config");
    let mut writer = progress(&sink, &identity(1, 0));
    let start = open(writer.as_mut(), A).expect("opens");
    let row = r#"{"a\"b":1,"größe":2,"select":3}"#;
    writer.write(&block_of(1, &[row, row]), start, at(2, A)).expect("writes");
    let connection = Connection::open(&path).expect("opens");
    let sum = connection.query_row(
        "SELECT \"a\"\"b\" + \"größe\" + \"select\" FROM \"order \"\"by\"\"\"",
        [],
        |row| row.get::<_, i64>(0),
    );
    assert_eq!(sum.expect("one row"), 6);
}
