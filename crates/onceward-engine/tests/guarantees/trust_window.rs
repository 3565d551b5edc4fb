//! TRUST-WINDOW and OPENING: the target's marker is believed only within what was proved and intended.

use onceward_protocol::{Marker, Position};

use crate::manifest::Manifest;
use crate::target::KINDS;
use crate::world::World;

fn numbered(rows: std::ops::Range<u64>) -> Vec<String> {
    rows.map(|number| format!(r#"{{"n":{number}}}"#)).collect()
}

fn running(block_rows: usize) -> World {
    let manifest = Manifest::new().source("rows", 1, None).sink("out", &["rows"]).block_rows(block_rows);
    let mut world = World::new(&manifest);
    world.bounded = false;
    world.add(0, numbered(0..20));
    world.start_all();
    world
}

/// Ten rows more are owed to a target whose marker was changed behind our back.
fn after_tampering(tamper: impl FnOnce(&mut Option<Marker>)) -> (World, usize) {
    let mut world = running(100);
    world.run();
    assert_eq!(world.rows(0).len(), 20);
    tamper(&mut world.targets.get_mut(&(0, 0)).unwrap().marker);
    world.add(0, numbered(20..30));
    let calls = world.calls().len();
    world.restart_all();
    world.run();
    (world, calls)
}

fn assert_stopped(world: &World, calls: usize, reason: &str) {
    let failure = world.failure(0);
    assert!(failure.starts_with("OW-4002: sink out of rows/p0 stopped: "), "{failure}");
    assert!(failure.contains(reason), "{failure}");
    assert_eq!(world.kinds()[calls..], ["take fence", "read marker"]);
    assert_eq!(world.rows(0).len(), 20);
    // The rows stay owed.
    assert_eq!(world.shelves[0].outbox("out"), numbered(20..30));
}

#[test]
fn a_marker_behind_what_the_target_held_stops_the_sink() {
    let (world, calls) = after_tampering(|marker| marker.as_mut().unwrap().position = Position::ORIGIN);
    assert_stopped(&world, calls, "is behind");
}

#[test]
fn a_marker_ahead_of_everything_attempted_stops_the_sink() {
    let (world, calls) = after_tampering(|marker| marker.as_mut().unwrap().position.major += 1_000);
    assert_stopped(&world, calls, "is ahead of");
}

#[test]
fn a_marker_that_covers_rows_which_were_never_attempted_stops_the_sink() {
    let mut world = running(100);
    world.run();
    world.add(0, numbered(20..30));
    world.held.calls = vec![0];
    let calls = world.calls().len();
    world.restart_all();
    world.run();
    // The rows are owed, and the target has taken rows at the same positions from another branch.
    let last = world.shelves[0].stored().outbox["out"].last().unwrap().1.last().unwrap();
    world.targets.get_mut(&(0, 0)).unwrap().marker.as_mut().unwrap().position = last;
    world.held.calls.clear();
    world.run();
    assert_stopped(&world, calls, "is ahead of");
}

#[test]
fn a_marker_that_was_there_and_is_gone_stops_the_sink() {
    let (world, calls) = after_tampering(|marker| *marker = None);
    assert_stopped(&world, calls, "has lost our progress marker");
}

#[test]
fn a_successor_goes_on_in_the_middle_of_a_chunk_where_the_marker_says() {
    let mut world = running(3);
    assert!(world.run_until(|world| world.rows(0).len() == 6));
    assert_eq!(world.shelves[0].outbox("out"), numbered(0..20));
    world.restart_all();
    world.run();
    assert_eq!(world.rows(0), numbered(0..20));
}

#[test]
fn a_crash_before_or_after_any_call_of_an_open_writes_every_row_once() {
    for faulty in KINDS {
        for applied in [false, true] {
            let mut world = running(7);
            world.held.calls = vec![0];
            // Let calls through one by one up to the one at which the power goes.
            loop {
                let calls = world.calls().len();
                world.run();
                if world.kinds().last() == Some(&faulty) {
                    break;
                }
                world.held.calls.clear();
                assert!(
                    world.run_until(
                        |world| world.calls().len() > calls || world.kinds().last() == Some(&faulty)
                    )
                );
                world.held.calls = vec![0];
            }
            if applied {
                let call = world.calls().last().unwrap().0.clone();
                world.targets.entry((0, 0)).or_default().apply(&call).unwrap();
            }
            world.held.calls.clear();
            world.restart_all();
            world.run();
            assert_eq!(world.rows(0), numbered(0..20), "at {faulty}, applied: {applied}");
            assert_eq!(world.shelves[0].outbox("out"), Vec::<String>::new());
        }
    }
}
