//! Fused steps: every path of the graph gets what the manifest says, unchanged where nothing changes it.

use std::sync::Arc;

use onceward_connector::record::Column;
use onceward_connector::{Codec, CsvSchema, FieldType};
use onceward_spec::AggregateFunction::Count;

use crate::manifest::{COUNT_AND_SUM, Manifest, filter, map};
use crate::world::{World, row};

fn run(manifest: &Manifest, rows: &[&str]) -> World {
    let mut world = World::new(manifest);
    world.add_all(0, rows);
    world.start_all();
    world.complete();
    world
}

#[test]
fn a_stream_fans_out_to_two_sinks_and_a_keyed_computation() {
    let manifest = Manifest::new()
        .source("rows", 1, Some(0))
        .step("kept", &["rows"], vec![filter("v > 1")])
        .windows("sums", &["kept"], &["k"], COUNT_AND_SUM)
        .sink("left", &["kept"])
        .sink("right", &["kept"])
        .sink("windows", &["sums"])
        .sink("everything", &["rows"]);
    let rows = [row("a", 1, 1), row("a", 2, 2), row("a", 3, 3)];
    let world = run(&manifest, &[&rows[0], &rows[1], &rows[2]]);
    assert_eq!(world.rows(0), rows[1..]);
    assert_eq!(world.rows(1), rows[1..]);
    assert_eq!(world.rows(3), rows);
    assert!(world.rows(2)[0].ends_with(r#""n":2,"sum":5}"#), "{:?}", world.rows(2));
}

#[test]
fn a_union_of_streams_takes_the_rows_of_each() {
    let manifest = Manifest::new()
        .source("rows", 1, Some(0))
        .source("more", 1, Some(0))
        .step("small", &["rows"], vec![filter("v < 10")])
        .step("all", &["small", "more"], Vec::new())
        .windows("sums", &["small", "more"], &["k"], COUNT_AND_SUM)
        .sink("out", &["all"])
        .sink("windows", &["sums"])
        .sink("direct", &["rows", "more"]);
    let mut world = World::new(&manifest);
    world.add(0, [row("a", 1, 1), row("a", 2, 20)]);
    world.add(1, [row("a", 3, 40)]);
    world.start_all();
    world.complete();
    assert_eq!(world.rows(0), [row("a", 1, 1), row("a", 3, 40)]);
    assert_eq!(world.rows(2), [row("a", 1, 1), row("a", 2, 20), row("a", 3, 40)]);
    assert!(world.rows(1)[0].ends_with(r#""n":2,"sum":41}"#), "{:?}", world.rows(1));
    assert_eq!(world.rows(1).len(), 1);
}

#[test]
fn two_branches_that_meet_again_bring_a_row_twice() {
    let manifest = Manifest::new()
        .source("rows", 1, Some(0))
        .step("low", &["rows"], vec![filter("v < 10")])
        .step("even", &["rows"], vec![filter("v % 2 == 0")])
        .step("both", &["low", "even"], Vec::new())
        .windows("sums", &["both"], &["k"], COUNT_AND_SUM)
        .sink("out", &["both"])
        .sink("windows", &["sums"]);
    // 4 passes both filters: two children of one root row in the same lane.
    let world = run(&manifest, &[&row("a", 1, 4), &row("a", 2, 5), &row("a", 3, 12), &row("a", 4, 13)]);
    assert_eq!(world.rows(0), [row("a", 1, 4), row("a", 1, 4), row("a", 2, 5), row("a", 3, 12)]);
    assert!(world.rows(1)[0].ends_with(r#""n":4,"sum":25}"#), "{:?}", world.rows(1));
    assert_eq!(world.stats(1).repeats, 0);
}

#[test]
fn a_filter_behind_a_map_sees_the_mapped_fields_and_no_others() {
    let manifest = Manifest::new()
        .source("rows", 1, None)
        .step("shaped", &["rows"], vec![map(&[("double", "v * 2"), ("name", "k")]), filter("double > 2")])
        .step("again", &["shaped"], vec![map(&[("v", "double + 1")]), filter("v != 7")])
        .sink("out", &["shaped"])
        .sink("again", &["again"]);
    let world = run(&manifest, &[r#"{"k":"a","v":1}"#, r#"{"k":"b","v":2}"#, r#"{"k":"c","v":3}"#]);
    assert_eq!(world.rows(0), [r#"{"double":4,"name":"b"}"#, r#"{"double":6,"name":"c"}"#]);
    assert_eq!(world.rows(1), [r#"{"v":5}"#]);

    let gone = Manifest::new()
        .source("rows", 1, None)
        .step("shaped", &["rows"], vec![map(&[("name", "k")]), filter("v > 0")])
        .sink("out", &["shaped"]);
    let mut world = World::new(&gone);
    world.add_all(0, &[r#"{"k":"a","v":1}"#]);
    world.start_all();
    world.run();
    assert!(world.failure(0).contains("shaped.steps[1] (filter)"), "{}", world.failure(0));
}

#[test]
fn a_key_and_its_arguments_may_come_from_a_map() {
    let manifest = Manifest::new()
        .source("rows", 1, Some(0))
        .step("shaped", &["rows"], vec![map(&[("half", "v % 2 == 0"), ("w", "v + 1")])])
        .windows("sums", &["shaped"], &["half"], &[("n", Count, Some("w"))])
        .sink("out", &["sums"]);
    let world = run(&manifest, &[&row("a", 1, 1), &row("b", 2, 2), &row("c", 3, 4)]);
    let rows = world.sorted(0);
    assert!(rows[0].starts_with(r#"{"half":false,"#) && rows[0].ends_with(r#""n":1}"#), "{rows:?}");
    assert!(rows[1].starts_with(r#"{"half":true,"#) && rows[1].ends_with(r#""n":2}"#), "{rows:?}");
}

#[test]
fn an_untouched_record_reaches_a_sink_byte_for_byte() {
    let manifest = Manifest::new()
        .source("rows", 1, None)
        .step("kept", &["rows"], vec![filter("v >= 0")])
        .sink("raw", &["rows"])
        .sink("kept", &["kept"]);
    let rows = [
        r#" { "v" : 1.0e0 , "x":[ 1,2 ], "x" : null } "#,
        r#"{"v":0,"text":"\u00e9é\/\t","big":123456789012345678901234567890123456789012}"#,
        "{\t\"v\":3}",
    ];
    let world = run(&manifest, &rows);
    assert_eq!(world.rows(0), rows);
    assert_eq!(world.rows(1), rows);
}

#[test]
fn a_csv_record_reaches_a_sink_as_typed_json() {
    let columns = [
        ("name", FieldType::String),
        ("count", FieldType::Int),
        ("price", FieldType::Decimal),
        ("sold", FieldType::Bool),
        ("at", FieldType::Timestamp),
    ];
    let schema = CsvSchema {
        columns: columns.map(|(name, field_type)| Column { name: name.to_owned(), field_type }).to_vec(),
        delimiter: b',',
        null_values: vec![String::new()],
    };
    let manifest = Manifest::new()
        .source("rows", 1, None)
        .codec(Codec::Csv(Arc::new(schema)))
        .step("kept", &["rows"], vec![filter("count > 1")])
        .sink("all", &["rows"])
        .sink("kept", &["kept"]);
    let world = run(
        &manifest,
        &[r#""say ""hi"", Ann",2,1.50,true,2024-01-01 12:00:00.5"#, "0012,1,,FALSE,2024-01-02"],
    );
    let first =
        r#"{"name":"say \"hi\", Ann","count":2,"price":1.50,"sold":true,"at":"2024-01-01T12:00:00.5Z"}"#;
    assert_eq!(world.rows(1), [first]);
    assert_eq!(world.rows(0)[0], first);
    let second = &world.rows(0)[1];
    assert!(second.starts_with(r#"{"name":"0012","count":1,"#), "{second}");
    assert!(second.ends_with(r#""sold":false,"at":"2024-01-02T00:00:00Z"}"#), "{second}");
}

#[test]
fn a_key_always_goes_to_the_same_range_and_ranges_share_the_keys() {
    let manifest = Manifest::new()
        .source("rows", 2, Some(0))
        .ranges("sums", &["rows"], &["k"], COUNT_AND_SUM, 3)
        .sink("out", &["sums"]);
    let mut world = World::new(&manifest);
    for partition in 0..2 {
        world.add(partition, (0..60).map(|number| row(&format!("k{}", number % 20), 1, number)));
    }
    world.start_all();
    world.complete();
    // One window per key, so no key was split over two ranges.
    assert_eq!(world.rows(0).len(), 20);
    assert!(world.rows(0).iter().all(|row| row.contains(r#""n":6,"#)));
    assert!(world.keyed().iter().all(|number| world.stats(*number).rows_in > 0));
}
