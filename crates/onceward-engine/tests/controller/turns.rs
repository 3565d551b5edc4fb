//! Partitions of bounded sources take turns, and keep them.

use onceward_protocol::state::Demand;

use crate::pipelines::{fill, finish, rows, undisturbed, windows};
use crate::world::{Pending, Seen, Setup, World};

fn started(sources: usize, active_sources: usize) -> World {
    let mut world = World::new(&windows(sources, 2), Setup { active_sources, ..Setup::default() });
    fill(&mut world, 0, 150);
    world.start();
    world
}

/// The source partitions in the order of their reads, each as often as it was read in a row.
fn turns(world: &World, from: usize) -> Vec<u32> {
    let read = |seen: &Seen| match seen {
        Seen::Read { partition, .. } => Some(*partition),
        _ => None,
    };
    let mut reads: Vec<u32> = world.seen[from..].iter().filter_map(read).collect();
    reads.dedup();
    reads
}

/// At most so many source partitions are between their first read and their end at the same time.
fn most_at_once(world: &World) -> usize {
    let mut left: Vec<usize> = vec![150; 8];
    let mut open: Vec<u32> = Vec::new();
    let mut most = 0;
    for seen in &world.seen {
        let Seen::Read { partition, .. } = seen else { continue };
        if !open.contains(partition) {
            open.push(*partition);
        }
        let rows = &mut left[*partition as usize];
        if *rows == 0 {
            open.retain(|known| known != partition);
        }
        *rows = rows.saturating_sub(world.read_rows);
        most = most.max(open.len());
    }
    most
}

#[test]
fn one_at_a_time_each_is_read_to_its_end_before_the_next_begins() {
    let mut world = started(4, 1);
    world.complete();
    assert_eq!(turns(&world, 0), [0, 1, 2, 3]);
    assert_eq!(world.sorted(0), undisturbed(&windows(4, 2), 150), "what waits makes nothing late");
}

#[test]
fn so_many_at_a_time_as_asked_for_and_no_more() {
    for active in [1, 2, 3] {
        let mut world = started(4, active);
        world.complete();
        assert_eq!(most_at_once(&world), active);
        assert_eq!(world.sorted(0), undisturbed(&windows(4, 2), 150));
    }
}

#[test]
fn sources_that_do_not_end_take_no_turns() {
    let mut world = World::new(&windows(3, 2), Setup { active_sources: 1, ..Setup::default() });
    world.bounded = false;
    fill(&mut world, 0, 150);
    world.start();
    world.run_until(|world| world.rows_taken("sums") == 450);
}

#[test]
fn a_replaced_source_keeps_its_turn_and_goes_on_from_where_it_had_finished() {
    let mut world = started(3, 1);
    let read = |pending: &Pending| matches!(pending, Pending::Read { .. });
    world.run_until(|world| world.rows_read(0) > 60);
    let hold = world.hold(read);
    world.run_until(|world| world.stored(&world.id(0)).resume.is_some_and(|point| point.rows > 20));
    let before = world.seen.len();
    world.kill(world.worker_of(0));
    world.release(hold);
    world.run_until(|world| world.rows_read(0) >= 150);
    let finished = world.seen[before..].iter().find_map(|seen| match seen {
        Seen::Read { seek: Some(position), .. } => Some(position.major),
        _ => None,
    });
    assert!(finished.unwrap() > 0, "read again from the start");
    assert_eq!(turns(&world, before), [0], "another one took the turn");
    world.complete();
    assert_eq!(turns(&world, before), [0, 1, 2]);
    assert_eq!(world.sorted(0), undisturbed(&windows(3, 2), 150));
}

#[test]
fn a_source_that_waits_and_is_replaced_goes_on_waiting() {
    let mut world = started(3, 1);
    world.run_until(|world| world.rows_read(0) > 40);
    let hold = world.hold(|pending| matches!(pending, Pending::Read { .. }));
    let before = world.seen.len();
    for waiting in [1, 2] {
        world.jobs.retain(|job| job.partition.number != waiting);
    }
    world.run_until(|world| {
        world.all_run() && [1, 2].iter().all(|number| world.assigned(before, *number).len() == 1)
    });
    world.release(hold);
    world.complete();
    assert_eq!(most_at_once(&world), 1);
    assert_eq!(world.sorted(0), undisturbed(&windows(3, 2), 150));
}

#[test]
fn a_turn_that_is_free_while_the_next_source_has_no_job_is_taken_when_it_has_one() {
    let mut world = started(2, 1);
    world.run_until(|world| world.rows_read(0) > 40);
    let before = world.seen.len();
    world.jobs.retain(|job| job.partition.number != 1);
    // Its lease has ended, and the grant of another one is on its way while the turn becomes free.
    let grant = |pending: &Pending| {
        matches!(pending, Pending::Action(onceward_engine::controller::Action::Transact(_)))
    };
    let hold = world.hold(grant);
    world.run_until(|world| world.waiting(grant) == 1 && world.rows_read(0) == 150);
    world.run_for(100_000);
    world.release(hold);
    world.complete();
    assert_eq!(world.assigned(before, 1).len(), 1);
    assert_eq!(world.sorted(0), undisturbed(&windows(2, 2), 150));
}

#[test]
fn a_source_that_is_replaced_after_its_end_gives_no_second_turn_away() {
    let mut world = started(4, 1);
    world.run_until(|world| world.rows_read(1) > 20);
    world.jobs.retain(|job| job.partition.number != 0);
    let before = world.seen.len();
    let hold = world.hold(|pending| matches!(pending, Pending::Read { partition: 1, .. }));
    world.run_until(|world| !world.assigned(before, 0).is_empty());
    world.run_for(200_000);
    assert!(turns(&world, before).iter().all(|source| *source == 0), "it is the second one's turn");
    world.release(hold);
    world.complete();
    assert_eq!(most_at_once(&world), 1);
}

#[test]
fn sources_that_wait_for_their_turn_end_with_a_stop_and_were_not_read() {
    for drain in [true, false] {
        let mut world = started(3, 1);
        world.run_until(|world| world.rows_read(0) > 40);
        world.demand(Demand::Stop { drain }).unwrap();
        world.run();
        assert_eq!(turns(&world, 0), [0]);
        finish(&mut world);
        assert_eq!(world.sorted(0), undisturbed(&windows(3, 2), 150));
    }
}

#[test]
fn rows_for_later_partitions_hold_their_watermark_until_their_turn() {
    // The last partition is the oldest: without its watermark nothing may fire.
    let mut world = World::new(&windows(2, 1), Setup { active_sources: 1, ..Setup::default() });
    world.add(0, rows(600, 150));
    world.add(1, rows(0, 150));
    world.start();
    world.complete();
    assert_eq!(world.fold("sums").counters.late, 0);
    assert_eq!(world.fold("sums").counters.rows_in, 300);
}
