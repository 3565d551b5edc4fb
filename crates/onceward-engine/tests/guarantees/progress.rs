//! CONTIGUOUS-PROGRESS, and restarts at every commit.

use onceward_protocol::{Frontier, LaneKey, Position};
use onceward_spec::AggregateFunction::{Avg, Count, Max, Min, Sum};

use crate::manifest::{COUNT_AND_SUM, Manifest, SECOND, filter};
use crate::world::{Seen, World, row};

fn keys_and_rows(partitions: usize, ranges: u32) -> Manifest {
    Manifest::new()
        .source("rows", partitions, Some(0))
        .step("kept", &["rows"], vec![filter("v % 3 != 0")])
        .ranges("sums", &["kept"], &["k"], COUNT_AND_SUM, ranges)
        .sink("all", &["kept"])
        .sink("windows", &["sums"])
}

#[test]
fn the_finished_place_is_the_minimum_over_every_lane() {
    let mut world = World::new(&keys_and_rows(1, 3));
    world.bounded = false;
    world.add(0, (0..60).map(|number| row(&format!("k{number}"), number, number + 1)));
    world.start_all();
    world.held.commits = vec![2];
    world.run();
    for consumer in [1, 3] {
        let lane = LaneKey { producer: 0, stream: 1, consumer };
        assert_eq!(world.stored_frontier(lane), Frontier::through(Position::at(60)));
    }
    // The sink of its own and two of three lanes are through, the slowest is not.
    assert_eq!(world.rows(0).len(), 40);
    assert_eq!(world.finished(0), None);
    world.held.commits.clear();
    world.run();
    let place = world.finished(0).unwrap();
    assert_eq!((place.position, place.rows, place.end), (Position::at(60), 60, false));
    assert_eq!(place.token, b"60");
    assert_eq!(place.max_event_time, 59 * SECOND);
}

#[test]
fn a_finished_place_keeps_the_newest_event_time_of_its_whole_prefix() {
    let mut world = World::new(&keys_and_rows(1, 1));
    world.bounded = false;
    world.add(0, [row("a", 59, 1)]);
    world.start_all();
    world.run();
    world.add(0, [row("a", 30, 1)]);
    world.restart_all();
    world.run();
    let place = world.finished(0).unwrap();
    assert_eq!((place.rows, place.max_event_time), (2, 59 * SECOND));
}

#[test]
fn a_finished_place_waits_for_the_outbox_of_the_sources_own_sink() {
    let manifest = Manifest::new().source("rows", 1, None).sink("out", &["rows"]);
    let mut world = World::new(&manifest);
    world.bounded = false;
    world.add(0, (0..10).map(|number| row("a", number, number)));
    world.start_all();
    world.held.commits = vec![0];
    world.run();
    assert_eq!(world.finished(0), None);
    world.held.commits.clear();
    world.run_until(|world| world.finished(0).is_some());
    // The very epoch that finishes the rows has put them into the outbox.
    assert_eq!(world.shelves[0].outbox("out").len(), 10);
    assert!(world.rows(0).is_empty());
}

#[test]
fn a_partition_whose_rows_are_all_filtered_still_commits_its_position() {
    for keyed in [false, true] {
        let mut manifest = Manifest::new()
            .source("rows", 1, Some(0))
            .step("kept", &["rows"], vec![filter("v < 0")])
            .sink("all", &["kept"]);
        if keyed {
            manifest = manifest.windows("sums", &["kept"], &["k"], COUNT_AND_SUM).sink("windows", &["sums"]);
        }
        let mut world = World::new(&manifest);
        world.bounded = false;
        world.add(0, (0..250).map(|number| row("a", number, number)));
        world.start_all();
        world.run();
        assert_eq!(world.finished(0).unwrap().position, Position::at(250));
        if keyed {
            let lane = LaneKey { producer: 0, stream: 1, consumer: 1 };
            assert_eq!(world.stored_frontier(lane), Frontier::through(Position::at(250)));
        }
        // A successor reads on from there.
        let reads = world.seen.len();
        world.restart_all();
        world.run();
        let after = world.seen[reads..].iter().find_map(|seen| match seen {
            Seen::Read { after: Some(after), .. } => Some(*after),
            _ => None,
        });
        assert_eq!(after, Some(Position::at(250)));
        world.bounded = true;
        world.complete();
        assert!(world.kinds().is_empty(), "nothing was owed, nothing was opened");
    }
}

/// Two partitions of disordered rows, every aggregate, a row sink and a window sink.
fn restartable() -> (Manifest, Vec<Vec<String>>) {
    let manifest = Manifest::new()
        .source("rows", 2, Some(20 * SECOND))
        .step("kept", &["rows"], vec![filter("v % 5 != 0")])
        .ranges(
            "sums",
            &["kept"],
            &["k"],
            &[
                ("n", Count, None),
                ("sum", Sum, Some("v")),
                ("min", Min, Some("v")),
                ("max", Max, Some("v")),
                ("avg", Avg, Some("v")),
                ("first", Min, Some("t")),
            ],
            2,
        )
        .sink("all", &["kept"])
        .sink("windows", &["sums"])
        .epoch_rows(12)
        .block_rows(7);
    let input = (0..2i64).map(|partition| {
        (0..40i64)
            .map(|number| {
                let second = (number * 7 - (number * 13 + partition * 5) % 20).max(0);
                row(&format!("k{}", (number * 3 + partition) % 5), second, number * 2 + partition)
            })
            .collect()
    });
    (manifest, input.collect())
}

fn commits(world: &World) -> usize {
    world.seen.iter().filter(|seen| matches!(seen, Seen::Committed { .. })).count()
}

fn started() -> World {
    let (manifest, input) = restartable();
    let mut world = World::new(&manifest);
    world.read_rows = 6;
    for (number, rows) in input.iter().enumerate() {
        world.add(number as u32, rows);
    }
    world.start_all();
    world
}

fn results(world: &World) -> (Vec<String>, Vec<String>) {
    (world.sorted(0), world.sorted(1))
}

#[test]
fn the_unbroken_run_is_what_the_input_comes_to() {
    let mut world = started();
    world.complete();
    let (_, input) = restartable();
    let mut kept: Vec<String> = Vec::new();
    for (partition, rows) in input.iter().enumerate() {
        let values = (0..40usize).map(|number| number * 2 + partition);
        kept.extend(rows.iter().zip(values).filter(|(_, value)| value % 5 != 0).map(|(row, _)| row.clone()));
    }
    kept.sort();
    assert_eq!(world.sorted(0), kept);
    assert_eq!(world.late(), 0);
    let counted: u64 = world.rows(1).iter().map(|row| field(row, "n")).sum();
    assert_eq!(counted, kept.len() as u64);
}

fn field(row: &str, name: &str) -> u64 {
    let (_, rest) = row.split_once(&format!("\"{name}\":")).unwrap();
    rest.split([',', '}']).next().unwrap().parse().unwrap()
}

#[test]
fn a_restart_after_any_commit_loses_nothing_repeats_nothing_and_makes_nothing_late() {
    let mut whole = started();
    whole.complete();
    let expected = results(&whole);
    for crash in 1..commits(&whole) {
        let mut world = started();
        assert!(world.run_until(|world| commits(world) == crash));
        world.restart_all();
        world.complete();
        assert_eq!(results(&world), expected, "after commit {crash}");
        assert_eq!(world.late(), 0, "after commit {crash}");
    }
}

#[test]
fn a_restart_of_one_job_after_any_commit_does_not_disturb_the_others() {
    let mut whole = started();
    whole.complete();
    let expected = results(&whole);
    for number in 0..4 {
        for crash in (1..commits(&whole)).step_by(3) {
            let mut world = started();
            assert!(world.run_until(|world| commits(world) == crash));
            if world.end(number).is_none() {
                world.start(number);
            }
            world.complete();
            assert_eq!(results(&world), expected, "partition {number} after commit {crash}");
            assert_eq!(world.late(), 0);
        }
    }
}

#[test]
fn a_restart_after_every_few_commits_still_reaches_the_end() {
    let mut whole = started();
    whole.complete();
    let mut world = started();
    for crash in (6..).step_by(6).take(20) {
        if !world.run_until(|world| commits(world) >= crash) {
            break;
        }
        world.restart_all();
    }
    world.complete();
    assert_eq!(results(&world), results(&whole));
}
