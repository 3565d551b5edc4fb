//! A message that a step cannot process fails the pipeline by name; nothing after it is taken.

use onceward_engine::Event;

use crate::manifest::{COUNT_AND_SUM, Manifest, filter, map};
use crate::world::{World, row};

/// Reads two rows at a time, so that the good ones before the third are read first.
fn world(manifest: &Manifest, rows: &[&str]) -> World {
    let mut world = World::new(manifest);
    world.read_rows = 2;
    world.add_all(0, rows);
    world.start_all();
    world.run();
    world
}

fn assert_poison(world: &World, place: &str, reason: &str) {
    let failure = world.failure(0);
    assert!(
        failure.starts_with(&format!("OW-4001: stream rows, partition rows/p0, position 3, {place}: ")),
        "{failure}"
    );
    assert!(failure.contains(reason), "{failure}");
}

#[test]
fn a_filter_on_an_absent_field_names_stream_partition_position_and_step() {
    let manifest = Manifest::new()
        .source("rows", 1, None)
        .step("kept", &["rows"], vec![filter("v > 0"), filter("w > 0")])
        .sink("out", &["kept"]);
    let good = [r#"{"v":1,"w":1}"#, r#"{"v":2,"w":2}"#];
    let mut world = world(&manifest, &[good[0], good[1], r#"{"v":3}"#, r#"{"v":4,"w":4}"#]);
    assert_poison(&world, "kept.steps[1] (filter)", "w");
    // Nothing of the read in which it lay, nor after it, is owed or delivered, or ever will be.
    world.handle(0, Event::Tick);
    world.wait(100_000_000);
    let owed = world.shelves[0].outbox("out");
    assert!(owed.iter().chain(&world.rows(0)).all(|row| good.contains(&row.as_str())), "{owed:?}");
    assert!(world.finished(0).is_none_or(|place| place.rows <= 2));
}

#[test]
fn the_rows_before_it_are_taken_once_the_data_is_repaired() {
    let manifest = Manifest::new()
        .source("rows", 1, None)
        .step("kept", &["rows"], vec![filter("v > 0")])
        .sink("out", &["kept"]);
    let mut world = World::new(&manifest);
    world.read_rows = 2;
    world.bounded = false;
    world.add_all(0, &[r#"{"v":1}"#, r#"{"v":2}"#]);
    world.start_all();
    world.run();
    world.add_all(0, &[r#"{"v":3}"#, r#"{"w":4}"#, r#"{"v":5}"#]);
    world.run();
    assert!(world.failure(0).contains("position 4, kept.steps[0] (filter)"), "{}", world.failure(0));
    assert_eq!(world.rows(0), [r#"{"v":1}"#, r#"{"v":2}"#]);
    assert_eq!(world.finished(0).unwrap().rows, 2);
    // A restart fails at the very same place.
    world.restart_all();
    world.run();
    assert!(world.failure(0).contains("position 4, kept.steps[0] (filter)"), "{}", world.failure(0));
}

#[test]
fn a_filter_that_is_neither_true_nor_false_fails() {
    let manifest = Manifest::new()
        .source("rows", 1, None)
        .step("kept", &["rows"], vec![filter("v")])
        .sink("out", &["kept"]);
    let world = world(&manifest, &[r#"{"v":true}"#, r#"{"v":false}"#, r#"{"v":1}"#]);
    assert_poison(&world, "kept.steps[0] (filter)", "must be true or false");
}

#[test]
fn a_map_that_cannot_be_computed_fails() {
    let manifest = Manifest::new()
        .source("rows", 1, None)
        .step("mapped", &["rows"], vec![map(&[("x", "10 / v")])])
        .sink("out", &["mapped"]);
    let world = world(&manifest, &[r#"{"v":1}"#, r#"{"v":2}"#, r#"{"v":0}"#]);
    assert_poison(&world, "mapped.steps[0] (map)", "");
}

#[test]
fn a_record_that_is_not_json_fails_when_it_is_read() {
    let manifest = Manifest::new()
        .source("rows", 1, None)
        .step("kept", &["rows"], vec![filter("v > 0")])
        .sink("out", &["kept"]);
    for broken in [r#"{"v":1"#, "", "v=1", r#"["v"]"#, r#"{"v":1}}"#] {
        let world = world(&manifest, &[r#"{"v":1}"#, r#"{"v":2}"#, broken, r#"{"v":4}"#]);
        assert_poison(&world, "reading", "");
    }
}

#[test]
fn a_row_without_a_usable_event_time_fails() {
    let manifest = Manifest::new()
        .source("rows", 1, Some(0))
        .windows("sums", &["rows"], &["k"], COUNT_AND_SUM)
        .sink("out", &["sums"]);
    let (first, second, last) = (row("a", 1, 1), row("a", 2, 2), row("a", 300, 3));
    for (broken, reason) in [
        (r#"{"k":"a","v":1}"#, "the field is absent"),
        (r#"{"k":"a","t":null,"v":1}"#, "expected a timestamp"),
        (r#"{"k":"a","t":"yesterday","v":1}"#, "expected a timestamp"),
        (r#"{"k":"a","t":true,"v":1}"#, "expected a timestamp"),
    ] {
        let world = world(&manifest, &[&first, &second, broken, &last]);
        assert_poison(&world, "eventTime.field t", reason);
        assert_eq!(world.rows(0), Vec::<String>::new());
        assert_eq!(world.stats(1).rows_in, 2);
    }
}

#[test]
fn a_step_behind_an_aggregate_that_fails_names_the_computation_and_its_range() {
    let manifest = Manifest::new()
        .source("rows", 1, Some(0))
        .windows("sums", &["rows"], &["k"], COUNT_AND_SUM)
        .step("large", &["sums"], vec![filter("sum / (n - 1) > 0")])
        .sink("out", &["large"]);
    let world = world(&manifest, &[&row("a", 1, 1)]);
    let failure = world.failure(1);
    assert!(failure.starts_with("OW-4001: stream sums, partition sums[0], "), "{failure}");
    assert!(failure.contains("large.steps[0] (filter)"), "{failure}");
    // The window is still there for a repaired manifest.
    assert_eq!(world.rows(0), Vec::<String>::new());
}

#[test]
fn a_source_whose_positions_do_not_grow_breaks_a_rule_and_fails() {
    let manifest = Manifest::new().source("rows", 1, None).sink("out", &["rows"]);
    let mut world = World::new(&manifest);
    world.held.reads = vec![0];
    world.start_all();
    let record = |major| onceward_connector::Record {
        start: 0,
        len: 2,
        position: onceward_protocol::Position::at(major),
    };
    let batch = onceward_connector::RecordBatch::new(b"{}".to_vec(), vec![record(5), record(5)]);
    let read = Ok(onceward_connector::Read::Batch { batch, token: Vec::new() });
    world.handle(0, Event::Read { tag: 1, read });
    let failure = world.failure(0);
    assert!(
        failure.starts_with("OW-4005: rows/p0: invariant CONTIGUOUS-PROGRESS is broken: row 5"),
        "{failure}"
    );
}

#[test]
fn a_source_that_cannot_read_fails_in_its_own_words() {
    let manifest = Manifest::new().source("rows", 1, None).sink("out", &["rows"]);
    let mut world = World::new(&manifest);
    world.held.reads = vec![0];
    world.start_all();
    let error = onceward_connector::ConnectorError::new("OW-3998", "the file has been cut");
    world.handle(0, Event::Read { tag: 1, read: Err(error) });
    assert_eq!(world.failure(0), "source partition rows/p0: OW-3998: the file has been cut");
}
