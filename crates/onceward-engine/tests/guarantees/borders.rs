//! BORDERS-BEFORE-ATTEMPT: what a token names is recorded before it is sent, and sent again exactly. The driver checks
//! at every call that the borders of the block are stored.

use onceward_connector::{SinkContract, TargetError};
use onceward_engine::{Event, JobEnd, TargetCall};
use onceward_protocol::Position;
use onceward_store::TableId;

use crate::crashes;
use crate::desk::{Desk, failure, numbered, partition, plan};
use crate::manifest::Manifest;
use crate::target::rows_of;
use crate::world::{Fault, World};

fn manifest(by_reference: bool) -> Manifest {
    let mut manifest =
        Manifest::new().source("rows", 1, None).sink("out", &["rows"]).epoch_rows(9).block_rows(4);
    manifest.behaviour.contract = SinkContract::Token;
    manifest.behaviour.by_reference = by_reference;
    manifest
}

fn started(by_reference: bool) -> World {
    let mut world = World::new(&manifest(by_reference));
    world.read_rows = 5;
    world.add(0, numbered(0..20));
    world.start_all();
    world
}

/// A block was sent, nobody knows what became of it, and the power is gone.
fn crashed(by_reference: bool, arrived: bool) -> World {
    let mut world = started(by_reference);
    world.bounded = false;
    assert!(world.run_until(|world| world.calls().len() == 2));
    if arrived {
        world.land_calls();
    }
    world
}

fn token(call: &TargetCall) -> String {
    match call {
        TargetCall::TokenWrite { token, .. } => token.text.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_crash_at_any_step_writes_every_row_once() {
    let check = |world: &World, when: &str| {
        assert_eq!(world.rows(0), numbered(0..20), "{when}");
        assert!(world.shelves[0].stored().borders.is_empty(), "{when}");
    };
    crashes::at_every_step(|| started(false), check);
    crashes::again_and_again(|| started(false), check);
}

#[test]
fn an_unknown_outcome_sends_the_same_rows_under_the_same_token() {
    for fault in [Fault::LostBefore, Fault::LostAfter] {
        let mut world = started(false);
        world.faults.push_back(("token write", fault));
        world.complete();
        let calls = world.calls();
        assert_eq!(token(&calls[0].0), token(&calls[1].0));
        assert_eq!(rows_of(&calls[0].0), rows_of(&calls[1].0));
        assert_eq!(world.rows(0), numbered(0..20));
    }
}

#[test]
fn a_successor_replays_the_block_exactly_although_it_would_cut_blocks_differently() {
    for by_reference in [false, true] {
        for arrived in [false, true] {
            let mut world = crashed(by_reference, arrived);
            let attempt = world.calls()[1].0.clone();
            world.upgrade(&manifest(by_reference).block_rows(7));
            world.run();
            let calls = world.calls();
            assert_eq!(token(&calls[0].0), token(&attempt));
            assert_eq!(rows_of(&calls[0].0), rows_of(&attempt));
            assert_eq!(rows_of(&calls[1].0).len(), 7);
            assert_eq!(world.rows(0), numbered(0..20), "by reference: {by_reference}, arrived: {arrived}");
        }
    }
}

#[test]
fn borders_are_kept_until_the_epoch_that_records_the_confirmation() {
    let mut desk = Desk::new(vec![plan(0, SinkContract::Token)]);
    numbered(0..12).iter().for_each(|row| desk.outputs.push(0, row.as_bytes()));
    desk.epoch();
    desk.poll();
    assert!(desk.calls.is_empty(), "nothing is recorded yet");
    assert_eq!(desk.outputs.wants_commit(), (true, true));
    desk.epoch();
    desk.poll();
    assert_eq!(desk.kinds(), ["token write"]);
    let first = desk.shelf.stored().borders["sink0"];
    assert_eq!((first.first, first.last, first.rows), (Position::new(1, 1), Position::new(1, 10), 10));
    desk.answer();
    assert_eq!(desk.shelf.stored().borders["sink0"], first);
    assert!(desk.outputs.wants_commit().0 && !desk.outputs.is_settled());
    desk.epoch();
    assert!(desk.shelf.stored().borders.is_empty());
    assert_eq!(desk.shelf.stored().cursors["sink0"].finished, first.last);
    desk.settle();
    assert!(desk.outputs.is_settled() && desk.shelf.stored().borders.is_empty());
    assert_eq!(desk.rows(0), numbered(0..12));
}

#[test]
fn a_replay_whose_rows_are_not_the_recorded_ones_is_a_broken_rule_and_sends_nothing() {
    let mut world = crashed(false, false);
    let ((_, key), _) =
        world.shelves[0].rows.iter().find(|((table, _), _)| *table == TableId::OUTBOX).unwrap();
    let chunk = (TableId::OUTBOX, key.clone());
    // The last row of the block, one byte of which is another one now.
    let stored = world.shelves[0].rows.get_mut(&chunk).unwrap();
    let at = stored.windows(7).position(|bytes| bytes == br#"{"n":7}"#).unwrap();
    stored[at + 5] = b'8';
    let calls = world.calls().len();
    world.restart_all();
    world.run();
    let failure = world.failure(0);
    assert!(
        failure.contains("invariant BORDERS-BEFORE-ATTEMPT is broken: sink out may have sent"),
        "{failure}"
    );
    assert_eq!(world.calls().len(), calls);
}

#[test]
fn a_source_that_is_not_what_it_was_is_a_broken_rule_and_sends_nothing() {
    let mut other = numbered(0..20);
    other[5] = r#"{"n":555}"#.to_owned();
    let gone = numbered(0..6);
    for input in [other, gone] {
        let mut world = crashed(true, false);
        let calls = world.calls().len();
        world.replace_input(0, &input);
        world.bounded = true;
        world.restart_all();
        world.run();
        let failure = world.failure(0);
        assert!(failure.contains("invariant BORDERS-BEFORE-ATTEMPT is broken"), "{failure}");
        assert_eq!(world.calls().len(), calls);
    }
}

#[test]
fn a_stop_before_the_block_is_read_again_ends_at_once_and_keeps_its_borders() {
    let mut world = crashed(true, false);
    let borders = world.shelves[0].stored().borders.clone();
    world.held.reads = vec![0];
    world.restart_all();
    world.run();
    world.handle(0, Event::Stop { drain: false });
    world.held.reads.clear();
    world.run();
    assert_eq!(world.end(0), Some(&JobEnd::Stopped));
    assert_eq!(world.shelves[0].stored().borders, borders);
    world.restart_all();
    world.run();
    assert_eq!(world.rows(0), numbered(0..20));
}

#[test]
fn a_token_names_creation_sink_partition_borders_and_content() {
    let token_of = |creation: u128, name: &str, number: u32, row: &str| {
        let mut desk = Desk::of(partition(creation, name), vec![plan(number, SinkContract::Token)]);
        desk.outputs.push(number, row.as_bytes());
        desk.settle();
        token(&desk.calls[0])
    };
    let first = token_of(1, "p0", 0, "{}");
    assert_eq!(first, token_of(1, "p0", 0, "{}"));
    for other in [
        token_of(2, "p0", 0, "{}"),
        token_of(1, "p1", 0, "{}"),
        token_of(1, "p0", 1, "{}"),
        token_of(1, "p0", 0, "[]"),
    ] {
        assert_ne!(first, other);
    }
    let legal = |letter: char| letter.is_ascii_alphanumeric() || "-_.:".contains(letter);
    assert!(first.chars().all(legal), "{first}");
}

#[test]
fn a_definite_refusal_keeps_the_borders_since_an_attempt_before_may_have_arrived() {
    let mut desk = Desk::new(vec![plan(0, SinkContract::Token)]);
    desk.outputs.push(0, b"{}");
    desk.epoch();
    desk.poll();
    desk.epoch();
    desk.poll();
    let error = onceward_connector::ConnectorError::new("OW-3999", "no");
    failure(desk.answer_with(Err(TargetError::Definite(error))));
    let first = token(&desk.calls[0]);
    desk.restart();
    desk.settle();
    assert_eq!(token(&desk.calls[1]), first);
    assert_eq!(desk.rows(0), ["{}"]);
}
