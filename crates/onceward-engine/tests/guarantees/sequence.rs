//! Targets that are written without a marker: a sequence, a version per row, a key per row.

use onceward_connector::{SinkContract, TargetError};
use onceward_engine::TargetCall;
use onceward_protocol::Position;

use crate::crashes;
use crate::desk::{Desk, numbered, plan};
use crate::manifest::Manifest;
use crate::target::{kind, rows_of};
use crate::world::{Fault, World};

fn manifest(contract: SinkContract) -> Manifest {
    let mut manifest =
        Manifest::new().source("rows", 1, None).sink("out", &["rows"]).epoch_rows(9).block_rows(4);
    manifest.behaviour.contract = contract;
    manifest
}

fn started(contract: SinkContract) -> World {
    let mut world = World::new(&manifest(contract));
    world.read_rows = 5;
    world.add(0, numbered(0..20));
    world.start_all();
    world
}

/// What was sent, in order: after which row, and the rows.
fn sent(world: &World) -> Vec<(Position, Vec<String>)> {
    let of = |call: &TargetCall| match call {
        TargetCall::SequenceWrite { after, .. } => (*after, rows_of(call)),
        other => panic!("{other:?}"),
    };
    world.calls().iter().map(|(call, _)| of(call)).collect()
}

#[test]
fn each_block_says_after_which_confirmed_row_it_comes() {
    let mut world = started(SinkContract::Sequence);
    world.complete();
    let mut confirmed = Position::ORIGIN;
    for (call, _) in world.calls() {
        let TargetCall::SequenceWrite { block, after } = call else { panic!() };
        assert_eq!(after, confirmed);
        confirmed = block.last().unwrap();
    }
    assert_eq!(world.rows(0), numbered(0..20));
}

#[test]
fn after_an_unknown_outcome_the_very_same_block_is_sent_again() {
    for fault in [Fault::LostBefore, Fault::LostAfter] {
        let mut world = started(SinkContract::Sequence);
        world.bounded = false;
        world.run();
        let calls = world.calls().len();
        world.faults.push_back(("sequence write", fault));
        world.add(0, numbered(20..22));
        assert!(world.run_until(|world| world.calls().len() > calls));
        // More rows come in between, and the block is not filled up with them.
        world.add(0, numbered(22..24));
        world.run();
        let sent = sent(&world);
        assert_eq!(sent[calls].1, numbered(20..22));
        assert_eq!(sent[calls], sent[calls + 1]);
        assert_eq!(sent[calls + 2].1, numbered(22..24));
        assert_eq!(world.rows(0), numbered(0..24));
    }
}

#[test]
fn a_block_that_is_sent_again_is_not_filled_up_with_what_came_since() {
    let contracts = [
        SinkContract::Sequence,
        SinkContract::VersionedUpsert,
        SinkContract::IdempotencyKey,
        SinkContract::Plain,
    ];
    for contract in contracts {
        let mut desk = Desk::new(vec![plan(0, contract)]);
        for rows in [0..2, 2..4] {
            numbered(rows).iter().for_each(|row| desk.outputs.push(0, row.as_bytes()));
            desk.epoch();
            desk.poll();
        }
        desk.answer_with(Err(TargetError::Unknown("no answer".to_owned()))).unwrap();
        let wake = desk.poll().unwrap();
        assert!(wake > desk.now && desk.calls.len() == 1, "{contract:?}: at once");
        desk.now = wake;
        desk.settle();
        let blocks: Vec<Vec<String>> = desk.calls.iter().map(rows_of).collect();
        assert_eq!(blocks, [numbered(0..2), numbered(0..2), numbered(2..4)], "{contract:?}");
    }
}

#[test]
fn attempts_without_an_answer_are_spaced_out_and_given_up_after_twenty() {
    let mut world = started(SinkContract::Sequence);
    world.faults.extend([("sequence write", Fault::LostBefore); 100]);
    world.run();
    assert_eq!(world.calls().len(), 21);
    assert!(world.failure(0).starts_with("OW-4003: sink out of rows/p0: "), "{}", world.failure(0));
}

#[test]
fn a_gap_in_the_target_stops_the_sink_and_the_rows_stay_owed() {
    let mut world = started(SinkContract::Sequence);
    world.bounded = false;
    world.run();
    world.targets.get_mut(&(0, 0)).unwrap().sequence = Position::ORIGIN;
    world.add(0, numbered(20..25));
    world.run();
    assert_eq!(world.failure(0), "sink out of rows/p0: OW-3998: rows are missing before these");
    assert_eq!(world.shelves[0].outbox("out"), numbered(20..25));
    assert_eq!(world.rows(0), numbered(0..20));
}

#[test]
fn a_crash_at_any_step_writes_every_row_once() {
    let check = |world: &World, when: &str| assert_eq!(world.rows(0), numbered(0..20), "{when}");
    crashes::at_every_step(|| started(SinkContract::Sequence), check);
    crashes::again_and_again(|| started(SinkContract::Sequence), check);
}

#[test]
fn versions_and_keys_are_written_plainly_and_again_after_an_unknown_outcome() {
    for contract in [SinkContract::VersionedUpsert, SinkContract::IdempotencyKey, SinkContract::Plain] {
        let mut world = started(contract);
        world.faults.push_back(("plain write", Fault::LostAfter));
        world.complete();
        assert!(world.calls().iter().all(|(call, _)| kind(call) == "plain write"));
        let (first, second) = (rows_of(&world.calls()[0].0), rows_of(&world.calls()[1].0));
        assert_eq!(first, second);
        assert_eq!(world.rows(0), [first, numbered(0..20)].concat());
    }
}
