//! ANCESTOR-GATE and QUIET-PAUSE at the targets' end: while an ancestor is undrained nothing is opened or written, and
//! after a halt no call is started.

use onceward_connector::{SinkContract, TargetError};
use onceward_engine::delivery::SinkPlan;
use onceward_protocol::{Mutant, Mutants, Position};

use crate::desk::{Desk, numbered, plan};
use crate::target::KINDS;

const CONTRACTS: [SinkContract; 6] = [
    SinkContract::ProgressInTarget,
    SinkContract::Sequence,
    SinkContract::Token,
    SinkContract::VersionedUpsert,
    SinkContract::IdempotencyKey,
    SinkContract::Plain,
];

fn push(desk: &mut Desk, rows: std::ops::Range<u64>) {
    numbered(rows).iter().for_each(|row| desk.outputs.push(0, row.as_bytes()));
}

/// Commits and polls, and answers no call.
fn wait(desk: &mut Desk) {
    for _ in 0..5 {
        desk.now += 60_000_000;
        desk.epoch();
        assert_eq!(desk.poll(), None);
    }
}

#[test]
fn behind_a_closed_gate_rows_are_taken_and_stored_and_no_target_is_called() {
    for contract in CONTRACTS {
        let mut desk = Desk::new(vec![plan(0, contract)]);
        desk.outputs.set_gate(true);
        push(&mut desk, 0..5);
        desk.outputs.set_flush();
        wait(&mut desk);
        assert!(desk.calls.is_empty(), "{contract:?}");
        assert_eq!(desk.shelf.outbox("sink0"), numbered(0..5));
        assert!(!desk.outputs.is_settled());
        desk.restart();
        desk.outputs.set_gate(true);
        wait(&mut desk);
        assert!(desk.calls.is_empty(), "{contract:?}: after a restart");
        desk.outputs.set_gate(false);
        desk.settle();
        assert_eq!(desk.rows(0), numbered(0..5), "{contract:?}");
    }
}

/// Goes on call by call, and stops for a while in front of each.
fn stopped_at_every_call(contract: SinkContract, stop: impl Fn(&mut Desk), go_on: impl Fn(&mut Desk)) {
    for calls in 0..6 {
        let mut desk = Desk::new(vec![plan(0, contract)]);
        push(&mut desk, 0..25);
        for _ in 0..100 {
            if desk.calls.len() == calls {
                break;
            }
            desk.epoch();
            desk.poll();
            if desk.calls.len() < calls {
                desk.answer();
            }
        }
        stop(&mut desk);
        assert_eq!(desk.outputs.is_quiet(), !desk.is_calling());
        desk.answer();
        assert!(desk.outputs.is_quiet());
        let before = desk.calls.len();
        wait(&mut desk);
        assert_eq!(desk.calls.len(), before, "{contract:?} after {calls} calls");
        go_on(&mut desk);
        desk.settle();
        assert_eq!(desk.rows(0), numbered(0..25), "{contract:?} after {calls} calls");
        assert_eq!(desk.shelf.outbox("sink0"), Vec::<String>::new());
    }
}

#[test]
fn a_gate_that_closes_between_any_two_calls_lets_no_further_one_through() {
    for contract in CONTRACTS {
        stopped_at_every_call(
            contract,
            |desk| desk.outputs.set_gate(true),
            |desk| desk.outputs.set_gate(false),
        );
    }
}

#[test]
fn a_halt_between_any_two_calls_starts_no_further_one_and_loses_nothing() {
    for contract in CONTRACTS {
        stopped_at_every_call(contract, |desk| desk.outputs.halt(), Desk::restart);
    }
}

#[test]
fn a_halted_sink_does_not_try_again_after_an_unknown_outcome() {
    for contract in CONTRACTS {
        let mut desk = Desk::new(vec![plan(0, contract)]);
        push(&mut desk, 0..3);
        while desk.rows(0).is_empty() && desk.outputs.is_quiet() {
            desk.epoch();
            desk.poll();
        }
        desk.outputs.halt();
        desk.answer_with(Err(TargetError::Unknown("no answer".to_owned()))).unwrap();
        let calls = desk.calls.len();
        wait(&mut desk);
        assert_eq!(desk.calls.len(), calls, "{contract:?}");
        desk.restart();
        desk.settle();
        assert_eq!(desk.rows(0), numbered(0..3), "{contract:?}");
    }
}

#[test]
fn an_open_that_the_gate_interrupts_goes_on_in_order() {
    let mut desk = Desk::new(vec![plan(0, SinkContract::ProgressInTarget)]);
    push(&mut desk, 0..3);
    for _ in 0..100 {
        desk.outputs.set_gate(false);
        desk.poll();
        desk.outputs.set_gate(true);
        desk.answer();
        desk.epoch();
        assert_eq!(desk.poll(), None);
    }
    assert_eq!(desk.kinds(), KINDS);
    assert_eq!(desk.rows(0), numbered(0..3));
}

fn early() -> SinkPlan {
    SinkPlan { mutants: Mutants::only(Mutant::OutboxDroppedEarly), ..plan(0, SinkContract::ProgressInTarget) }
}

/// A block is attempted and lost, an epoch is committed, and the power goes.
fn lost_attempt(plan: SinkPlan) -> Desk {
    let mut desk = Desk::new(vec![plan]);
    push(&mut desk, 0..3);
    while desk.kinds() != KINDS {
        desk.epoch();
        desk.poll();
        if desk.kinds() != KINDS {
            desk.answer();
        }
    }
    desk.epoch();
    desk.restart();
    desk.settle();
    desk
}

#[test]
fn rows_that_leave_the_outbox_with_the_attempt_are_lost_and_with_the_confirmation_they_are_not() {
    assert_eq!(lost_attempt(plan(0, SinkContract::ProgressInTarget)).rows(0), numbered(0..3));
    assert_eq!(lost_attempt(early()).rows(0), Vec::<String>::new());
}

#[test]
fn the_last_position_of_an_interrupted_block_is_still_the_first_that_is_owed() {
    let mut sink = plan(0, SinkContract::Plain);
    sink.by_reference = true;
    let mut desk = Desk::new(vec![sink]);
    desk.outputs.push_at(0, Position::new(7, 1), b"{}");
    desk.epoch();
    desk.poll();
    desk.outputs.halt();
    desk.answer_with(Err(TargetError::Unknown("no answer".to_owned()))).unwrap();
    assert_eq!(desk.outputs.unfinished(), Some(Position::new(7, 1)));
}
