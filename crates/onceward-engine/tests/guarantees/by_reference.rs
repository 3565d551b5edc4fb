//! An outbox by reference: nothing that is owed is written to the store, because it can be read and made again.

use onceward_connector::SinkContract;
use onceward_engine::job::SinkStats;
use onceward_engine::{JobEnd, TargetCall};
use onceward_protocol::{CursorPhase, Position};

use crate::crashes;
use crate::desk::{Desk, failure, numbered, plan};
use crate::manifest::{Manifest, filter};
use crate::target::{KINDS, kind};
use crate::world::{Fault, World};

const ROWS: u64 = 30;

/// Some rows give the sink none, some one and some two, and the last ones none.
fn manifest(contract: SinkContract) -> Manifest {
    let mut manifest = Manifest::new()
        .source("rows", 1, None)
        .step("thirds", &["rows"], vec![filter("n % 3 == 0 && n < 25")])
        .step("halves", &["rows"], vec![filter("n % 2 == 0 && n < 25")])
        .sink("out", &["thirds", "halves"])
        .epoch_rows(6)
        .block_rows(4);
    manifest.behaviour.by_reference = true;
    manifest.behaviour.contract = contract;
    manifest
}

fn expected() -> Vec<String> {
    (0..25u64)
        .flat_map(|number| {
            let times = usize::from(number % 3 == 0) + usize::from(number % 2 == 0);
            vec![format!(r#"{{"n":{number}}}"#); times]
        })
        .collect()
}

fn started(contract: SinkContract) -> World {
    let mut world = World::new(&manifest(contract));
    world.read_rows = 3;
    world.add(0, numbered(0..ROWS));
    world.start_all();
    world
}

fn paused() -> World {
    let mut world = started(SinkContract::ProgressInTarget);
    world.bounded = false;
    world
}

#[test]
fn nothing_that_is_owed_is_written_to_the_store() {
    let mut world = started(SinkContract::ProgressInTarget);
    while world.step() {
        assert_eq!(world.shelves[0].outbox("out"), Vec::<String>::new());
    }
    assert_eq!(world.end(0), Some(&JobEnd::Completed));
    assert_eq!(world.rows(0), expected());
    assert_eq!(world.finished(0).map(|place| place.end), Some(true));
}

#[test]
fn a_crash_at_any_step_writes_every_row_once_and_counts_it_once() {
    let contracts = [SinkContract::ProgressInTarget, SinkContract::Sequence, SinkContract::Token];
    for contract in contracts {
        let check = |world: &World, when: &str| {
            assert_eq!(world.rows(0), expected(), "{contract:?}, {when}");
            let delivered = expected().len() as u64;
            assert_eq!(world.sinks(0), [SinkStats { sink: 0, delivered, owed: 0, dropped: 0 }], "{when}");
            assert_eq!(world.stats(0).rows_out, delivered, "{contract:?}, {when}");
        };
        crashes::at_every_step(|| started(contract), check);
        crashes::again_and_again(|| started(contract), check);
    }
}

#[test]
fn a_crash_at_any_step_loses_no_row_of_a_plain_target_and_keeps_them_in_order() {
    let start = || started(SinkContract::Plain);
    crashes::at_every_step(start, |world, when| {
        let found = world.rows(0);
        // What was confirmed and not recorded comes again in one piece.
        let repeats = found.len() - expected().len();
        let in_one_piece = (0..=found.len() - repeats)
            .any(|at| [&found[..at], &found[at + repeats..]].concat() == expected());
        assert!(in_one_piece, "{when}: {found:?}");
    });
}

#[test]
fn the_finished_place_stays_below_the_first_row_that_is_not_confirmed_and_then_passes_the_filtered_ones() {
    let mut world = paused();
    world.held.calls = vec![0];
    world.run();
    assert_eq!(world.finished(0), None);
    world.held.calls.clear();
    assert!(world.run_until(|world| world.rows(0).len() == 4));
    world.held.calls = vec![0];
    world.run();
    // Rows 0, 0, 2, 3 are there, row 4 is not: the place is after the read of rows 0..=2.
    assert_eq!(world.finished(0).map(|place| place.position), Some(Position::at(3)));
    world.held.calls.clear();
    world.run();
    assert_eq!(world.finished(0).map(|place| place.position), Some(Position::at(ROWS)));
}

#[test]
fn a_place_stays_below_a_row_of_which_only_a_part_is_confirmed() {
    let mut manifest = manifest(SinkContract::ProgressInTarget).block_rows(1);
    manifest.behaviour.policy.max_age_us = 0;
    let mut world = World::new(&manifest);
    world.bounded = false;
    world.read_rows = 1;
    world.add(0, numbered(0..2));
    world.start_all();
    assert!(world.run_until(|world| world.rows(0).len() == 1));
    world.held.calls = vec![0];
    world.run();
    assert_eq!(world.finished(0), None);
    world.held.calls.clear();
    world.restart_all();
    world.run();
    assert_eq!(world.rows(0), vec![r#"{"n":0}"#; 2]);
    assert_eq!(world.finished(0).map(|place| place.position), Some(Position::at(2)));
}

#[test]
fn what_the_marker_says_is_not_written_again_although_no_epoch_says_so() {
    let mut world = paused();
    world.held.commits = vec![0];
    while world.rows(0).len() < 8 {
        // Every epoch is let through until the second block is there, and none after it.
        if !world.run_until(|world| world.rows(0).len() >= 8) {
            world.commit_oldest(0);
        }
    }
    world.run();
    let stored = world.shelves[0].stored();
    assert!(stored.cursors["out"].finished < world.targets[&(0, 0)].marker.unwrap().position);
    assert!(stored.references["out"].delivered < 8);
    world.held.commits.clear();
    world.restart_all();
    world.run();
    assert_eq!(world.rows(0), expected());
    assert_eq!(world.sinks(0)[0].delivered, expected().len() as u64);
}

#[test]
fn an_open_cursor_to_which_nothing_is_owed_is_opened_again_in_order_when_rows_come() {
    let mut world = paused();
    world.run();
    assert_eq!(world.shelves[0].stored().cursors["out"].phase, CursorPhase::Open);
    let calls = world.calls().len();
    world.restart_all();
    world.run();
    assert_eq!(world.calls().len(), calls, "nothing is owed, nothing is opened");
    world.add(0, numbered(0..3));
    world.run();
    assert_eq!(world.kinds()[calls..], ["take fence", "read marker", "write"]);
    assert_eq!(world.rows(0), [expected(), expected()[..3].to_vec()].concat());
}

#[test]
fn intended_is_never_lowered_by_a_restart() {
    let mut world = paused();
    world.run();
    let intended = world.shelves[0].stored().cursors["out"].intended;
    world.add(0, numbered(0..9));
    world.restart_all();
    while world.step() && world.rows(0).len() < expected().len() + 5 {
        assert!(world.shelves[0].stored().cursors["out"].intended >= intended);
    }
}

#[test]
fn a_row_is_written_only_after_its_epoch_is_durable() {
    let mut world = paused();
    world.held.commits = vec![0];
    world.run();
    assert!(world.calls().is_empty());
    world.held.commits.clear();
    world.run();
    assert_eq!(world.kinds()[..4], KINDS);
}

#[test]
fn an_unknown_outcome_opens_again_and_writes_every_row_once() {
    for faulty in KINDS {
        for fault in [Fault::LostBefore, Fault::LostAfter] {
            let mut world = started(SinkContract::ProgressInTarget);
            world.faults.push_back((faulty, fault));
            world.complete();
            assert_eq!(world.rows(0), expected(), "after {faulty} {fault:?}");
        }
    }
}

#[test]
fn an_outbox_by_value_stays_one_when_the_manifest_would_allow_the_other() {
    let mut by_value = manifest(SinkContract::ProgressInTarget);
    by_value.behaviour.by_reference = false;
    let mut world = World::new(&by_value);
    world.bounded = false;
    world.add(0, numbered(0..9));
    world.start_all();
    world.held.calls = vec![0];
    world.run();
    world.held.calls.clear();
    world.add(0, numbered(9..ROWS));
    world.upgrade(&manifest(SinkContract::ProgressInTarget));
    let mut stored_rows = 0;
    world.run_until(|world| {
        stored_rows = stored_rows.max(world.shelves[0].outbox("out").len());
        false
    });
    assert!(stored_rows > 0 && world.shelves[0].stored().references.is_empty());
    assert_eq!(world.rows(0), expected());
    // And the other way round.
    let mut world = paused();
    world.run();
    world.add(0, numbered(0..9));
    world.upgrade(&by_value);
    world.run_until(|world| {
        assert_eq!(world.shelves[0].outbox("out"), Vec::<String>::new());
        false
    });
    assert_eq!(world.rows(0).len(), expected().len() + 8);
}

#[test]
fn rows_read_again_are_ignored_while_they_are_owed_and_after_they_are_delivered() {
    let mut sink = plan(0, SinkContract::ProgressInTarget);
    sink.by_reference = true;
    let mut desk = Desk::new(vec![sink]);
    let push = |desk: &mut Desk, rows: std::ops::Range<u64>| {
        for (number, row) in rows.clone().zip(numbered(rows)) {
            desk.outputs.push_at(0, Position::new(number + 1, 1), row.as_bytes());
        }
    };
    push(&mut desk, 0..6);
    push(&mut desk, 2..8);
    assert_eq!((desk.outputs.gathered_rows(), desk.outputs.new_rows()), (8, 8));
    desk.epoch();
    push(&mut desk, 0..9);
    assert_eq!(desk.outputs.gathered_rows(), 1);
    desk.settle();
    push(&mut desk, 0..9);
    assert_eq!((desk.outputs.gathered_rows(), desk.outputs.unfinished()), (0, None));
    assert_eq!(desk.rows(0), numbered(0..9));
    // An epoch of a job before has contained them: they are taken again, and are not new.
    push(&mut desk, 9..12);
    desk.epoch();
    desk.restart();
    push(&mut desk, 5..14);
    assert_eq!((desk.outputs.gathered_rows(), desk.outputs.new_rows()), (5, 2));
    assert_eq!(desk.outputs.unfinished(), Some(Position::new(10, 1)));
    desk.settle();
    assert_eq!(desk.rows(0), numbered(0..14));
    assert_eq!((desk.figures().delivered, desk.figures().owed), (14, 0));
}

#[test]
fn a_block_may_hold_rows_of_several_epochs() {
    let mut sink = plan(0, SinkContract::ProgressInTarget);
    sink.by_reference = true;
    sink.policy.max_age_us = 1_000;
    let mut desk = Desk::new(vec![sink]);
    for (number, row) in (1..).zip(numbered(0..6)) {
        desk.outputs.push_at(0, Position::new(number, 1), row.as_bytes());
        desk.epoch();
    }
    desk.settle();
    desk.now = 1_000;
    desk.settle();
    let blocks: Vec<usize> = desk
        .calls
        .iter()
        .filter_map(|call| match call {
            TargetCall::Write { block, .. } => Some(block.len()),
            _ => None,
        })
        .collect();
    assert_eq!(blocks, [6]);
    assert_eq!(desk.calls.last().map(kind), Some("write"));
}

#[test]
fn a_row_of_the_other_form_ends_the_job_and_nothing_is_written() {
    for by_reference in [false, true] {
        let mut sink = plan(0, SinkContract::Plain);
        sink.by_reference = by_reference;
        let mut desk = Desk::new(vec![sink]);
        match by_reference {
            false => desk.outputs.push_at(0, Position::new(1, 1), b"{}"),
            true => desk.outputs.push(0, b"{}"),
        }
        let failure = failure(desk.try_poll());
        assert!(failure.contains("invariant SINK-CURSOR is broken: sink sink0"), "{failure}");
        assert!(desk.calls.is_empty() && !desk.outputs.is_settled());
    }
}
