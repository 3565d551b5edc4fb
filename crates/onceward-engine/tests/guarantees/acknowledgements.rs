//! ACK-IMPLIES-DURABLE and TAKEN / COMMITTED.

use onceward_engine::LaneMessage;
use onceward_protocol::{CommitOutcome, Frontier, LaneKey, Position};

use crate::manifest::{COUNT_AND_SUM, Manifest};
use crate::world::{Seen, World, row};

const LANE: LaneKey = LaneKey { producer: 0, stream: 0, consumer: 1 };

fn one_lane(epoch_rows: u64) -> World {
    let manifest = Manifest::new()
        .source("rows", 1, Some(0))
        .windows("sums", &["rows"], &["k"], COUNT_AND_SUM)
        .sink("out", &["sums"])
        .epoch_rows(epoch_rows);
    let mut world = World::new(&manifest);
    world.bounded = false;
    world.read_rows = 5;
    world.add(0, (0..40).map(|number| row("a", number, 1)));
    world.start_all();
    world
}

fn acks(world: &World) -> Vec<Frontier> {
    world
        .lane_to(0)
        .into_iter()
        .filter_map(|message| match message {
            LaneMessage::Ack { frontier, .. } => Some(frontier),
            _ => None,
        })
        .collect()
}

#[test]
fn nothing_is_acknowledged_before_its_epoch_is_durable() {
    let mut world = one_lane(5);
    world.held.commits = vec![1];
    world.run();
    assert_eq!(world.open_epochs(1), 2);
    assert!(world.stats(1).rows_in > 10, "more was taken than the closed epochs hold");
    assert_eq!(acks(&world), []);
    assert_eq!(world.finished(0), None);
}

#[test]
fn each_acknowledgement_is_the_frontier_of_its_epoch_and_not_of_what_was_taken_since() {
    let mut world = one_lane(5);
    world.held.commits = vec![1];
    world.run();
    // Three epochs' rows are taken; one epoch becomes durable.
    world.held.commits.clear();
    assert!(world.run_until(|world| !acks(world).is_empty()));
    let first = acks(&world)[0];
    assert_eq!(first, world.stored_frontier(LANE));
    let rows = first.point().unwrap().position.major;
    assert!(rows <= 5 && world.stats(1).rows_in > rows, "{first:?}, {:?}", world.stats(1));
    world.run();
    assert_eq!(acks(&world).last(), Some(&Frontier::through(Position::at(40))));
    assert!(acks(&world).is_sorted());
}

#[test]
fn an_epoch_that_is_refused_or_unknown_acknowledges_nothing_and_ends_the_job() {
    for unknown in [false, true] {
        let mut world = one_lane(1000);
        world.held.commits = vec![1];
        assert!(world.run_until(|world| world.open_epochs(1) == 1));
        let outcome = if unknown {
            CommitOutcome::Unknown
        } else {
            let generation = world.generation(1);
            CommitOutcome::Fenced(onceward_protocol::Fenced::NotOwner { granted: None, asked: generation })
        };
        world.handle(1, onceward_engine::Event::Commit { epoch: 1, outcome });
        match world.end(1) {
            Some(onceward_engine::JobEnd::Unknown) => assert!(unknown),
            Some(onceward_engine::JobEnd::Fenced(_)) => assert!(!unknown),
            other => panic!("{other:?}"),
        }
        assert_eq!(acks(&world), []);
    }
}

#[test]
fn a_finished_place_moves_only_after_the_commit_of_every_consumer() {
    let mut world = one_lane(1000);
    world.run();
    let committed = |by: u32| {
        world.seen.iter().position(|seen| matches!(seen, Seen::Committed { by: other } if *other == by))
    };
    assert!(committed(1).unwrap() < committed(0).unwrap());
    assert_eq!(world.finished(0).unwrap().position, Position::at(40));
}
