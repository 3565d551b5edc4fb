//! WATERMARK-IN-LANE and TIMER-ONCE: when windows fire, what is late, and what comes out.

use onceward_engine::JobEnd;
use onceward_spec::AggregateFunction::{Count, Sum};

use crate::manifest::{COUNT_AND_SUM, Manifest, SECOND, filter, map};
use crate::world::{World, row};

fn windows(partitions: usize, disorder: i64) -> Manifest {
    Manifest::new()
        .source("rows", partitions, Some(disorder))
        .windows("sums", &["rows"], &["k"], COUNT_AND_SUM)
        .sink("out", &["sums"])
}

/// One row is read at a time, and more may come.
fn running(manifest: &Manifest, rows: &[(i64, i64)]) -> World {
    let mut world = World::new(manifest);
    world.bounded = false;
    world.read_rows = 1;
    world.add(0, rows.iter().map(|(second, value)| row("a", *second, *value)));
    world.start_all();
    world
}

fn window(minute: i64, count: i64, sum: i64) -> String {
    format!(
        r#"{{"k":"a","window_start":"1970-01-01T00:{minute:02}:00Z","window_end":"1970-01-01T00:{:02}:00Z","n":{count},"sum":{sum}}}"#,
        minute + 1
    )
}

#[test]
fn a_window_fires_once_the_watermark_reaches_its_end() {
    let mut world = running(&windows(1, 0), &[(10, 1), (59, 2)]);
    world.run();
    assert_eq!(world.rows(0), Vec::<String>::new());
    world.add(0, [row("a", 60, 4)]);
    world.run();
    assert_eq!(world.rows(0), [window(0, 2, 3)]);
    world.add(0, [row("a", 119, 8)]);
    world.run();
    assert_eq!(world.rows(0).len(), 1);
}

#[test]
fn the_watermark_stays_behind_by_the_disorder_that_rows_may_have() {
    let mut world = running(&windows(1, 30 * SECOND), &[(10, 1), (89, 2), (59, 4)]);
    world.run();
    assert_eq!(world.rows(0), Vec::<String>::new());
    assert_eq!(world.late(), 0);
    world.add(0, [row("a", 90, 8)]);
    world.run();
    assert_eq!(world.rows(0), [window(0, 2, 5)]);
}

#[test]
fn a_late_row_is_counted_and_not_aggregated() {
    let mut world = running(&windows(1, 0), &[(10, 1), (120, 2), (20, 4), (119, 8), (121, 16)]);
    world.run();
    assert_eq!(world.late(), 2);
    world.bounded = true;
    world.complete();
    assert_eq!(world.rows(0), [window(0, 1, 1), window(2, 2, 18)]);
    assert_eq!(world.late(), 2);
}

#[test]
fn late_rows_stay_counted_over_a_restart() {
    let mut world = running(&windows(1, 0), &[(10, 1), (120, 2), (20, 4)]);
    world.run();
    world.restart_all();
    assert_eq!(world.late(), 1);
    // The watermark was stored too: what was late stays late.
    world.add(0, [row("a", 30, 8)]);
    world.run();
    assert_eq!(world.late(), 2);
}

#[test]
fn the_allowed_lateness_holds_a_window_open_and_not_a_moment_longer() {
    let manifest = Manifest::new()
        .source("rows", 1, Some(0))
        .windows("sums", &["rows"], &["k"], COUNT_AND_SUM)
        .lateness(30 * SECOND)
        .sink("out", &["sums"]);
    let mut world = running(&manifest, &[(10, 1), (89, 2), (20, 4)]);
    world.run();
    assert_eq!((world.late(), world.rows(0).len()), (0, 0));
    world.add(0, [row("a", 90, 8), row("a", 21, 16)]);
    world.run();
    assert_eq!(world.late(), 1);
    assert_eq!(world.rows(0), [window(0, 2, 5)]);
}

#[test]
fn the_slowest_partition_holds_the_watermark() {
    let mut world = World::new(&windows(2, 0));
    world.add(0, [row("a", 10, 1), row("a", 600, 2)]);
    world.add(1, [row("a", 20, 4), row("a", 600, 8)]);
    world.held.reads = vec![1];
    world.start_all();
    world.run();
    // Partition 0 has even ended; the other has said nothing.
    assert_eq!(world.rows(0), Vec::<String>::new());
    world.held.reads.clear();
    world.complete();
    assert_eq!(world.rows(0), [window(0, 2, 5), window(10, 2, 10)]);
    assert_eq!(world.late(), 0);
}

#[test]
fn the_end_of_the_input_fires_every_window() {
    let mut world = running(&windows(1, 30 * SECOND), &[(10, 1), (70, 2), (130, 4)]);
    world.bounded = true;
    world.complete();
    assert_eq!(world.rows(0), [window(0, 1, 1), window(1, 1, 2), window(2, 1, 4)]);
    assert_eq!(world.stats(1).keys, 0);
    let left = world.shelves[1].stored().state;
    assert!(left.is_empty(), "fired keys are deleted with the epoch that fires them");
}

#[test]
fn a_window_that_fires_over_several_epochs_survives_a_crash_between_any_two() {
    // Six keys and the row that closes their window come in one read; the epoch holds ten rows, so that
    // three of the keys fire with the epoch that has just taken them, and three with the next.
    let manifest = windows(1, 0).epoch_rows(10);
    let rows = || (0..6).map(|key| row(&format!("k{key}"), 1, key)).chain([row("k0", 120, 7)]);
    let started = || {
        let mut world = World::new(&manifest);
        world.add(0, rows());
        world.start_all();
        world
    };
    let mut whole = started();
    whole.complete();
    assert_eq!(whole.rows(0).len(), 7);
    let epochs = whole.stats(1).epoch;
    for crash in 1..epochs {
        let mut world = started();
        assert!(world.run_until(|world| world.stats(1).epoch == crash));
        world.restart_all();
        world.complete();
        assert_eq!(world.sorted(0), whole.sorted(0), "after epoch {crash} of {epochs}");
    }
}

#[test]
fn a_stop_fires_no_window_and_a_successor_goes_on_with_it() {
    let mut world = running(&windows(1, 0), &[(10, 1), (20, 2), (70, 4)]);
    world.run();
    assert_eq!(world.rows(0), [window(0, 2, 3)]);
    world.stop_all();
    world.run();
    for number in [0, 1] {
        assert_eq!(world.end(number), Some(&JobEnd::Stopped));
    }
    assert_eq!(world.rows(0), [window(0, 2, 3)]);
    assert_eq!(world.shelves[1].stored().state.len(), 1);
    world.add(0, [row("a", 75, 8)]);
    world.bounded = true;
    world.restart_all();
    world.complete();
    assert_eq!(world.rows(0), [window(0, 2, 3), window(1, 2, 12)]);
}

#[test]
fn a_stop_delivers_what_was_taken_before_it_ends() {
    let manifest = Manifest::new().source("rows", 1, None).sink("out", &["rows"]);
    let mut world = running(&manifest, &[(1, 1), (2, 2), (3, 3)]);
    world.held.calls = vec![0];
    world.run();
    world.stop_all();
    world.run();
    assert_eq!(world.end(0), None);
    world.held.calls.clear();
    world.run();
    assert_eq!(world.end(0), Some(&JobEnd::Stopped));
    assert_eq!(world.rows(0).len(), 3);
    assert_eq!(world.shelves[0].outbox("out"), Vec::<String>::new());
}

#[test]
fn an_output_row_is_the_group_keys_the_window_and_the_computed_names_in_this_order() {
    let manifest = Manifest::new()
        .source("rows", 1, Some(0))
        .windows("sums", &["rows"], &["z", "a"], &[("total", Sum, Some("v")), ("n \"1\"", Count, None)])
        .sink("out", &["sums"]);
    let mut world = World::new(&manifest);
    world.add_all(0, &[r#"{"v":1.50,"a":7,"z":"x\"y","t":"2024-02-29T23:59:30Z"}"#]);
    world.start_all();
    world.complete();
    assert_eq!(
        world.rows(0),
        [
            r#"{"z":"x\"y","a":7,"window_start":"2024-02-29T23:59:00Z","window_end":"2024-03-01T00:00:00Z","total":1.50,"n \"1\"":1}"#
        ]
    );
}

#[test]
fn an_absent_or_null_key_is_the_key_null() {
    let mut world = World::new(&windows(1, 0));
    world.add_all(
        0,
        &[
            r#"{"t":"1970-01-01T00:00:01Z","v":1}"#,
            r#"{"k":null,"t":"1970-01-01T00:00:02Z","v":2}"#,
            r#"{"k":"null","t":"1970-01-01T00:00:03Z","v":4}"#,
        ],
    );
    world.start_all();
    world.complete();
    let mut expected =
        [window(0, 2, 3).replace(r#""a""#, "null"), window(0, 1, 4).replace(r#""a""#, r#""null""#)];
    expected.sort();
    assert_eq!(world.sorted(0), expected);
}

#[test]
fn a_number_is_the_same_key_however_it_is_written() {
    let mut world = World::new(&windows(1, 0));
    let rows =
        ["1", "1.0", "10e-1", "2"].map(|key| format!(r#"{{"k":{key},"t":"1970-01-01T00:00:01Z","v":1}}"#));
    world.add(0, rows);
    world.start_all();
    world.complete();
    let mut expected = [window(0, 3, 3).replace(r#""a""#, "1"), window(0, 1, 1).replace(r#""a""#, "2")];
    expected.sort();
    assert_eq!(world.sorted(0), expected);
}

#[test]
fn times_before_1970_fall_into_the_window_that_holds_them() {
    let mut world = World::new(&windows(1, 0));
    world.add_all(
        0,
        &[
            r#"{"k":"a","t":"1969-12-31T23:59:59.999999Z","v":1}"#,
            r#"{"k":"a","t":"1970-01-01T00:00:00Z","v":2}"#,
        ],
    );
    world.start_all();
    world.complete();
    assert!(
        world.rows(0)[0]
            .contains(r#""window_start":"1969-12-31T23:59:00Z","window_end":"1970-01-01T00:00:00Z""#)
    );
    assert_eq!(world.rows(0)[1], window(0, 1, 2));
}

#[test]
fn steps_behind_the_aggregate_see_its_columns() {
    let manifest = Manifest::new()
        .source("rows", 1, Some(0))
        .windows("sums", &["rows"], &["k"], COUNT_AND_SUM)
        .step("large", &["sums"], vec![filter("n >= 2"), map(&[("key", "k"), ("mean", "sum / n")])])
        .sink("out", &["large"]);
    let mut world = World::new(&manifest);
    world.add(0, [row("a", 1, 10), row("b", 1, 10), row("a", 2, 20)]);
    world.start_all();
    world.complete();
    assert_eq!(world.rows(0), [r#"{"key":"a","mean":15}"#]);
}
