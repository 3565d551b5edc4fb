//! The CSV scan against an independent reader and writer.

use std::sync::Arc;

use onceward_connector::{Codec, Column, CsvSchema, FieldType};
use onceward_expr::{EvalError, FieldSet, Row, ScanError, Scanner, Slots, Value, record_to_json};
use proptest::prelude::*;

use crate::eval_on;

fn schema(columns: &[(&str, FieldType)], nulls: &[&str]) -> Codec {
    Codec::Csv(Arc::new(CsvSchema {
        columns: columns
            .iter()
            .map(|(name, field_type)| Column { name: (*name).to_owned(), field_type: *field_type })
            .collect(),
        delimiter: b',',
        null_values: nulls.iter().map(|null| (*null).to_owned()).collect(),
    }))
}

fn texts(count: usize) -> Codec {
    let names: Vec<String> = (0..count).map(|index| format!("c{index}")).collect();
    let columns: Vec<(&str, FieldType)> =
        names.iter().map(|name| (name.as_str(), FieldType::String)).collect();
    schema(&columns, &[])
}

fn read(record: &[u8], count: usize) -> Result<Vec<String>, ScanError> {
    let mut fields = FieldSet::new();
    // Backwards, so that slots and columns differ.
    (0..count).rev().for_each(|index| {
        fields.intern(&format!("c{index}"));
    });
    let scanner = Scanner::new(&texts(count), &fields);
    let mut slots = Slots::new(&fields);
    scanner.scan(record, &mut slots)?;
    let row = Row::new(record, &slots, &scanner);
    Ok((0..count)
        .rev()
        .map(|slot| match row.field(slot).unwrap() {
            Some(Value::String(text)) => text.into_owned(),
            other => format!("{other:?}"),
        })
        .collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn what_a_writer_wrote_is_read(fields in prop::collection::vec("[a-zA-Z0-9,\"\n é]{0,20}", 1..24)) {
        let mut writer = csv::WriterBuilder::new().from_writer(Vec::new());
        writer.write_record(&fields).unwrap();
        let mut line = writer.into_inner().unwrap();
        prop_assert_eq!(line.pop(), Some(b'\n'));
        prop_assert_eq!(read(&line, fields.len()).unwrap(), fields);
    }

    #[test]
    fn any_line_is_read_as_another_reader_does(line in "[ab,\"]{1,30}") {
        let mut reader =
            csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(line.as_bytes());
        let expected: Vec<String> = reader.records().next().unwrap().unwrap().iter().map(str::to_owned).collect();
        match read(line.as_bytes(), expected.len()) {
            Ok(found) => prop_assert_eq!(found, expected),
            // We are stricter about what stands behind a closing quote, and about one that is missing.
            Err(ScanError::Quote { .. }) => prop_assert!(line.contains('"')),
            Err(other) => prop_assert!(false, "{:?} for {}", other, line),
        }
    }
}

#[test]
fn the_number_of_columns_must_be_the_headers() {
    let count = |line: &str| read(line.as_bytes(), 3).map(|fields| fields.len());
    assert_eq!(count("a,b,c"), Ok(3));
    assert_eq!(count(",,"), Ok(3));
    assert_eq!(count("a,b"), Err(ScanError::Columns { found: 2, expected: 3 }));
    assert_eq!(count("a,b,c,d"), Err(ScanError::Columns { found: 4, expected: 3 }));
    assert_eq!(count("\"a,b\",c"), Err(ScanError::Columns { found: 2, expected: 3 }));
    assert_eq!(count(""), Err(ScanError::Columns { found: 1, expected: 3 }));
    // Also when nobody reads the columns behind the first.
    let mut fields = FieldSet::new();
    fields.intern("c0");
    let scanner = Scanner::new(&texts(3), &fields);
    assert!(scanner.scan(b"a,b", &mut Slots::new(&fields)).is_err());
}

#[test]
fn broken_quotes_are_refused_with_the_byte() {
    let at = |line: &str| match read(line.as_bytes(), 2) {
        Err(ScanError::Quote { offset, .. }) => offset,
        other => panic!("{other:?}"),
    };
    assert_eq!(at("a,\"b"), 2);
    assert_eq!(at("\"a\"x,b"), 3);
}

fn flights() -> Codec {
    schema(
        &[
            ("carrier", FieldType::String),
            ("arr_delay", FieldType::Int),
            ("fare", FieldType::Decimal),
            ("late", FieldType::Bool),
            ("time_hour", FieldType::Timestamp),
        ],
        &["NA"],
    )
}

#[test]
fn columns_have_their_declared_types() {
    let line = "UA,-11,12.30,TRUE,2013-01-01T05:00:00-05:00";
    let get = |source: &str| eval_on(&flights(), source, line).unwrap();
    assert!(matches!(get("carrier"), Value::String(text) if text == "UA"));
    assert!(matches!(get("arr_delay"), Value::Int(-11)));
    assert!(matches!(get("fare"), Value::Decimal(fare) if fare.to_string() == "12.30"));
    assert!(matches!(get("late"), Value::Bool(true)));
    assert_eq!(get("time_hour").to_event_time_us(), Some(1_357_034_400_000_000));
    assert_eq!(crate::json(&get("time_hour")), "\"2013-01-01T10:00:00Z\"");
    assert_eq!(get("arr_delay < 0 && carrier == 'UA' && arr_delay + 1 == -10"), Value::Bool(true));
    assert_eq!(get("has(nowhere)"), Value::Bool(false));
}

#[test]
fn an_unquoted_null_value_is_absent_and_a_quoted_one_is_text() {
    let line = "\"NA\",NA,NA,NA,NA";
    assert_eq!(eval_on(&flights(), "has(carrier) && !has(arr_delay)", line).unwrap(), Value::Bool(true));
    assert_eq!(eval_on(&flights(), "carrier", line).unwrap(), Value::from("NA"));
    match eval_on(&flights(), "arr_delay > 5", line) {
        Err(EvalError::Absent { field }) => assert_eq!(&*field, "arr_delay"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_bad_value_is_an_error_only_when_it_is_read_and_names_column_text_and_type() {
    let line = "UA,soon,12.30,true,2013-01-01";
    assert_eq!(eval_on(&flights(), "carrier", line).unwrap(), Value::from("UA"));
    assert_eq!(
        eval_on(&flights(), "arr_delay", line).unwrap_err().to_string(),
        "OW-5201: field `arr_delay` holds `soon`, expected an int, -2^63 to 2^63-1; correct the data or the \
         declared type"
    );
    for (line, field) in [
        ("UA,,1,true,2013-01-01", "arr_delay"),
        ("UA,9223372036854775808,1,true,2013-01-01", "arr_delay"),
        ("UA,1,1.2.3,true,2013-01-01", "fare"),
        ("UA,1,1,yes,2013-01-01", "late"),
        ("UA,1,1,true,2013-02-30", "time_hour"),
    ] {
        assert!(matches!(eval_on(&flights(), field, line), Err(EvalError::Value(_))), "{line}");
    }
}

#[test]
fn a_line_becomes_an_object_in_column_order_without_absent_columns() {
    let write = |line: &str| {
        let mut out = Vec::new();
        record_to_json(&flights(), line.as_bytes(), &mut out).map(|()| String::from_utf8(out).unwrap())
    };
    assert_eq!(
        write("\"a \"\"b\"\"\",5,12.30,False,2013-01-01 05:00:00.250").unwrap(),
        r#"{"carrier":"a \"b\"","arr_delay":5,"fare":12.30,"late":false,"time_hour":"2013-01-01T05:00:00.25Z"}"#
    );
    assert_eq!(write("NA,NA,NA,NA,NA").unwrap(), "{}");
    assert_eq!(write("NA,7,NA,NA,NA").unwrap(), r#"{"arr_delay":7}"#);
    assert!(matches!(write("UA,x,1,true,2013-01-01"), Err(ScanError::Value(_))));
    assert!(matches!(write("UA,1"), Err(ScanError::Columns { found: 2, expected: 5 })));
    let mut out = Vec::new();
    record_to_json(&Codec::Json, b"{ \"a\" : 1.50 }", &mut out).unwrap();
    assert_eq!(out, b"{ \"a\" : 1.50 }");
}
