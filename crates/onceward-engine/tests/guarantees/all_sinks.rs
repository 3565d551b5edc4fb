//! AC-47: a place is finished only when every sink has the rows before it, whatever one of them does.

use onceward_connector::SinkContract;
use onceward_protocol::Position;

use crate::desk::numbered;
use crate::manifest::{Manifest, filter};
use crate::target::text;
use crate::world::{Fault, World};

/// Two sinks, of which the second takes every other row.
fn manifest(contract: SinkContract, by_reference: bool) -> Manifest {
    let mut manifest = Manifest::new()
        .source("rows", 1, None)
        .step("even", &["rows"], vec![filter("n % 2 == 0")])
        .sink("all", &["rows"])
        .sink("some", &["even"])
        .epoch_rows(5)
        .block_rows(3);
    manifest.behaviour.contract = contract;
    manifest.behaviour.by_reference = by_reference;
    manifest
}

const CONTRACTS: [(SinkContract, &str); 4] = [
    (SinkContract::ProgressInTarget, "write"),
    (SinkContract::Sequence, "sequence write"),
    (SinkContract::Token, "token write"),
    (SinkContract::Plain, "plain write"),
];

fn started(contract: SinkContract, by_reference: bool) -> World {
    let mut world = World::new(&manifest(contract, by_reference));
    world.read_rows = 2;
    world.add(0, numbered(0..20));
    world.start_all();
    world
}

/// Every row before the finished place is in each sink that is to have it, or stored as owed to it.
fn assert_nothing_is_passed(world: &World, when: &str) {
    let stored = world.shelves[0].stored();
    let Some(place) = &stored.resume else { return };
    let rows = numbered(0..place.position.major);
    let held = |sink: u32, name: &str| {
        let mut held = world.rows(sink);
        let owed = stored.outbox.get(name).into_iter().flatten();
        held.extend(owed.flat_map(|(_, chunk)| chunk.iter().map(|(_, row)| text(row)).collect::<Vec<_>>()));
        held
    };
    let (all, some) = (held(0, "all"), held(1, "some"));
    for (number, row) in rows.iter().enumerate() {
        assert!(all.contains(row), "{when}: the place {} has passed {row} of `all`", place.position);
        assert!(
            number % 2 == 1 || some.contains(row),
            "{when}: {} has passed {row} of `some`",
            place.position
        );
    }
}

#[test]
fn ac_47_a_place_never_passes_a_row_that_one_of_two_sinks_has_not_got() {
    for by_reference in [false, true] {
        for (contract, write) in CONTRACTS {
            for fault in [Fault::LostBefore, Fault::LostAfter, Fault::Definite, Fault::Fenced] {
                // The fault hits one write after the other, now of this sink, now of that.
                for skipped in 0..12 {
                    let when =
                        format!("{contract:?} by reference: {by_reference}, {fault:?} after {skipped}");
                    let mut world = started(contract, by_reference);
                    world.run_until(|world| {
                        world.kinds().iter().filter(|kind| **kind == write).count() > skipped
                    });
                    world.faults.push_back((write, fault));
                    while world.step() {
                        assert_nothing_is_passed(&world, &when);
                    }
                    // Whatever became of the job, its successor brings both sinks to the end.
                    world.faults.clear();
                    world.restart_all();
                    while world.step() {
                        assert_nothing_is_passed(&world, &when);
                    }
                    let place = world.finished(0).map(|place| (place.position, place.end));
                    assert_eq!(place, Some((Position::at(20), true)), "{when}");
                    if contract != SinkContract::Plain {
                        assert_eq!(world.rows(0), numbered(0..20), "{when}");
                        assert_eq!(world.rows(1).len(), 10, "{when}");
                    }
                }
            }
        }
    }
}

#[test]
fn ac_47_by_reference_a_sink_that_never_answers_holds_the_place_although_the_other_has_everything() {
    for (contract, _) in CONTRACTS {
        for (dead, other) in [(0, 1), (1, 0)] {
            let mut world = started(contract, true);
            world.run_until(|world| !world.rows(dead).is_empty());
            world.dead = Some(dead);
            while world.step() {
                assert_nothing_is_passed(&world, &format!("{contract:?}, sink {dead} is dead"));
            }
            assert!(world.failure(0).starts_with("OW-4003"), "{}", world.failure(0));
            assert_eq!(world.rows(other).len(), [20, 10][other as usize], "{contract:?}");
            // Three rows are there: 0, 1, 2 of the one, 0, 2, 4 of the other.
            let first_missing = [3, 6][dead as usize];
            let place = world.finished(0).unwrap().position.major;
            assert!((1..=first_missing).contains(&place), "{contract:?}: {place}");
            world.dead = None;
            world.restart_all();
            world.complete();
            if contract != SinkContract::Plain {
                assert_eq!((world.rows(0).len(), world.rows(1).len()), (20, 10), "{contract:?}");
            }
        }
    }
}

#[test]
fn ac_47_by_value_a_failed_write_leaves_the_row_owed_and_the_place_free_to_move() {
    let mut world = started(SinkContract::ProgressInTarget, false);
    world.faults.push_back(("write", Fault::Definite));
    world.run();
    assert!(world.failure(0).contains("OW-3999"));
    let place = world.finished(0).unwrap().position.major;
    // The place moves with the epoch that owes the rows.
    let owed = world.shelves[0].outbox("all");
    assert!(place > 0 && owed.len() as u64 >= place, "{place}, {owed:?}");
}
