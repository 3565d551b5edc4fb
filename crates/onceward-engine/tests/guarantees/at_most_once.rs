//! AT-MOST-ONCE: an attempt that has started is never retried, and what is lost is counted.

use std::collections::BTreeMap;

use onceward_connector::SinkContract;
use onceward_engine::delivery::AtMostOnce;
use onceward_engine::{Event, JobEnd};
use onceward_spec::AtMostOnceSpec;

use crate::crashes;
use crate::desk::{Desk, failure, numbered, plan};
use crate::manifest::Manifest;
use crate::target::rows_of;
use crate::world::{Fault, World};

const CONTRACTS: [(SinkContract, &str); 4] = [
    (SinkContract::Plain, "plain write"),
    (SinkContract::ProgressInTarget, "write"),
    (SinkContract::Sequence, "sequence write"),
    (SinkContract::Token, "token write"),
];

fn manifest(contract: SinkContract, limits: AtMostOnceSpec) -> Manifest {
    let mut manifest =
        Manifest::new().source("rows", 1, None).sink("out", &["rows"]).epoch_rows(9).block_rows(4);
    manifest.behaviour.contract = contract;
    // What may be lost is not owed in any form.
    manifest.behaviour.by_reference = true;
    manifest.pipeline.sinks[0].at_most_once = Some(limits);
    manifest
}

const WIDE: AtMostOnceSpec = AtMostOnceSpec { queue_bytes: 1 << 20, suspend_us: 10_000_000 };

fn started(contract: SinkContract) -> World {
    let mut world = World::new(&manifest(contract, WIDE));
    world.read_rows = 5;
    world.add(0, numbered(0..20));
    world.start_all();
    world
}

/// No row was sent twice; answers how many were sent.
fn assert_sent_once(world: &World, when: &str) -> usize {
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    for row in world.calls().iter().flat_map(|(call, _)| rows_of(call)) {
        *times.entry(row).or_default() += 1;
    }
    assert!(times.values().all(|times| *times == 1), "{when}: {times:?}");
    times.len()
}

#[test]
fn rows_are_delivered_and_nothing_of_them_is_ever_stored() {
    for (contract, _) in CONTRACTS {
        let mut world = started(contract);
        while world.step() {
            assert_eq!(world.shelves[0].outbox("out"), Vec::<String>::new());
            assert!(world.shelves[0].stored().borders.is_empty());
        }
        assert_eq!(world.end(0), Some(&JobEnd::Completed), "{contract:?}");
        assert_eq!(world.rows(0), numbered(0..20), "{contract:?}");
        let figures = world.sinks(0)[0];
        assert_eq!((figures.delivered, figures.owed, figures.dropped), (20, 0, 0));
    }
}

#[test]
fn a_row_is_sent_only_after_the_epoch_that_took_it_is_durable() {
    let mut world = started(SinkContract::Plain);
    world.held.commits = vec![0];
    world.run();
    assert!(world.calls().is_empty());
}

#[test]
fn no_outcome_makes_a_row_be_sent_again_and_every_unconfirmed_row_is_counted() {
    for (contract, name) in CONTRACTS {
        for fault in [Fault::LostBefore, Fault::LostAfter, Fault::Definite] {
            let mut world = started(contract);
            world.faults.extend([(name, fault); 2]);
            world.complete();
            let when = format!("{contract:?} {fault:?}");
            assert_eq!(assert_sent_once(&world, &when), 20);
            let figures = world.sinks(0)[0];
            let lost = rows_of(&sent(&world)[0]).len() + rows_of(&sent(&world)[1]).len();
            assert_eq!(figures.dropped, lost as u64, "{when}");
            assert_eq!(figures.delivered + figures.dropped, 20, "{when}");
            let arrived = if fault == Fault::LostAfter { 20 } else { 20 - lost };
            assert_eq!(world.rows(0).len(), arrived, "{when}");
        }
    }
}

fn sent(world: &World) -> Vec<onceward_engine::TargetCall> {
    world.calls().into_iter().map(|(call, _)| call).filter(|call| !rows_of(call).is_empty()).collect()
}

#[test]
fn a_crash_at_any_step_sends_no_row_twice_and_counts_what_it_lost() {
    for (contract, _) in CONTRACTS {
        let check = |world: &World, when: &str| {
            let when = format!("{contract:?}, {when}");
            assert_sent_once(world, &when);
            let figures = world.sinks(0)[0];
            assert_eq!(figures.delivered + figures.dropped, 20, "{when}");
            assert_eq!(figures.owed, 0, "{when}");
            let arrived = world.rows(0);
            assert!(figures.delivered <= arrived.len() as u64, "{when}");
            // In order, with gaps.
            let numbers = numbered(0..20);
            let mut all = numbers.iter();
            assert!(arrived.iter().all(|row| all.any(|number| number == row)), "{when}: {arrived:?}");
        };
        crashes::at_every_step(|| started(contract), check);
        crashes::again_and_again(|| started(contract), check);
    }
}

#[test]
fn a_full_queue_drops_whole_rows_and_holds_nobody_up() {
    let row = numbered(0..1)[0].len() as u64;
    let limits = AtMostOnceSpec { queue_bytes: 5 * row, ..WIDE };
    let mut world = World::new(&manifest(SinkContract::Plain, limits));
    world.bounded = false;
    world.read_rows = 5;
    world.add(0, numbered(0..10));
    world.add(0, numbered(0..10));
    world.held.calls = vec![0];
    world.start_all();
    world.run();
    assert_eq!(world.stats(0).rows_in, 20);
    assert_eq!((world.sinks(0)[0].owed, world.sinks(0)[0].dropped), (5, 15));
    // The figures are stored with an epoch.
    assert_eq!(world.shelves[0].stored().losses["out"].dropped, 15);
    world.held.calls.clear();
    world.run();
    assert_eq!(world.rows(0), numbered(0..5));
    world.restart_all();
    world.run();
    let figures = world.sinks(0)[0];
    assert_eq!((figures.delivered, figures.owed, figures.dropped), (5, 0, 15));
}

#[test]
fn a_small_row_still_fits_where_a_large_one_did_not() {
    let mut sink = plan(0, SinkContract::Plain);
    sink.at_most_once = Some(AtMostOnce { queue_bytes: 10, suspend_us: 0 });
    let mut desk = Desk::new(vec![sink]);
    for row in ["123456", "1234567", "1234", "1"] {
        desk.outputs.push(0, row.as_bytes());
    }
    desk.settle();
    assert_eq!(desk.rows(0), ["123456", "1234"]);
    assert_eq!(desk.figures().dropped, 2);
}

#[test]
fn a_stop_goes_on_writing_for_a_while_and_then_drops_the_rest() {
    let limits = AtMostOnceSpec { suspend_us: 1_000_000, ..WIDE };
    for (contract, _) in CONTRACTS {
        let mut world = World::new(&manifest(contract, limits));
        world.bounded = false;
        world.read_rows = 20;
        world.add(0, numbered(0..20));
        world.start_all();
        assert!(world.run_until(|world| world.rows(0).len() == 4));
        world.held.calls = vec![0];
        assert!(world.run_until(|world| sent(world).len() == 2));
        world.handle(0, Event::Stop { drain: false });
        let stopped = world.now;
        world.run_until(|world| world.sinks(0)[0].dropped > 0);
        assert!(world.now >= stopped + 1_000_000, "{contract:?}");
        assert_eq!(world.end(0), None, "{contract:?}: a call is still out");
        world.held.calls.clear();
        world.run();
        assert_eq!(world.end(0), Some(&JobEnd::Stopped), "{contract:?}");
        assert_eq!(world.rows(0), numbered(0..8), "{contract:?}");
        let counts = world.shelves[0].stored().losses["out"];
        assert_eq!((counts.delivered, counts.dropped), (8, 12), "{contract:?}");
    }
}

#[test]
fn a_stop_with_a_target_that_answers_writes_everything() {
    let mut world = started(SinkContract::Plain);
    world.bounded = false;
    assert!(world.run_until(|world| world.stats(0).rows_in == 20));
    world.handle(0, Event::Stop { drain: false });
    world.run();
    assert_eq!(world.end(0), Some(&JobEnd::Stopped));
    assert_eq!(world.rows(0), numbered(0..20));
}

#[test]
fn a_target_that_never_opens_costs_rows_and_not_the_job() {
    let mut world = started(SinkContract::ProgressInTarget);
    world.bounded = false;
    world.faults.extend([("take fence", Fault::LostBefore); 50]);
    while world.faults.len() > 10 {
        world.wait(20_000_000);
        world.run();
        assert_eq!(world.end(0), None);
    }
}

#[test]
fn rows_that_are_owed_already_are_not_written_at_most_once() {
    let mut desk = Desk::new(vec![plan(0, SinkContract::Plain)]);
    desk.outputs.push(0, b"{}");
    desk.epoch();
    let mut lossy = plan(0, SinkContract::Plain);
    lossy.at_most_once = Some(AtMostOnce { queue_bytes: 100, suspend_us: 0 });
    desk.restart_with(vec![lossy.clone()]);
    let refusal = failure(desk.try_poll());
    assert!(
        refusal.starts_with("OW-4006: sink sink0 of rows/p0 was written by value, of which rows are"),
        "{refusal}"
    );
    // Delivered by the old plan, the new one goes on, and counts from there.
    desk.restart_with(vec![plan(0, SinkContract::Plain)]);
    desk.settle();
    desk.restart_with(vec![lossy]);
    desk.outputs.push(0, b"[]");
    desk.settle();
    assert_eq!(desk.rows(0), ["{}", "[]"]);
    assert_eq!((desk.figures().delivered, desk.figures().dropped), (2, 0));
}
