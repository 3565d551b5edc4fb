//! What a source job makes of its lanes: SESSION-BOUND, DEFAULT-DENY, CONTIGUOUS-PROGRESS.

use std::collections::BTreeMap;

use onceward_engine::{Event, LaneBatch, LaneMessage};
use onceward_protocol::{Branch, Frontier, Generation, LaneKey, Position, Session, Watermark};

use crate::manifest::{COUNT_AND_SUM, Manifest, SECOND};
use crate::world::{World, row};

const LANE: LaneKey = LaneKey { producer: 0, stream: 0, consumer: 1 };

/// Only the producer runs, over ten rows; the test plays the consumer.
fn producer() -> World {
    let manifest = Manifest::new()
        .source("rows", 1, Some(0))
        .windows("sums", &["rows"], &["k"], COUNT_AND_SUM)
        .sink("out", &["sums"]);
    let mut world = World::new(&manifest);
    world.bounded = false;
    world.read_rows = 5;
    world.add(0, (1..=10).map(|number| row("a", number, number)));
    world.start(0);
    world
}

fn through(row: u64) -> Frontier {
    Frontier::through(Position::at(row))
}

fn session(world: &World, consumer: u64, nonce: u64) -> Session {
    let consumer = Generation { number: consumer, nonce: consumer + 900, branch: Branch::default() };
    Session { lane: LANE, producer: world.generation(0), consumer, nonce }
}

fn send(world: &mut World, message: LaneMessage) {
    world.handle(0, Event::Lane(message));
    world.run();
}

fn batches(world: &World) -> Vec<LaneBatch> {
    world
        .lane_to(1)
        .into_iter()
        .filter_map(|message| match message {
            LaneMessage::Batch(batch) => Some(*batch),
            _ => None,
        })
        .collect()
}

/// The rows of all batches of a session, in order; sequence numbers must be dense.
fn sent(world: &World, session: Session) -> Vec<u64> {
    let mut rows = Vec::new();
    for (number, batch) in batches(world).iter().filter(|batch| batch.session == session).enumerate() {
        assert_eq!(batch.sequence, number as u64);
        rows.extend(batch.entries.iter().map(|entry| entry.point.position.major));
    }
    rows
}

#[test]
fn nothing_is_read_before_every_lane_has_a_session() {
    let mut world = producer();
    world.run();
    assert_eq!(world.reads(0), 0);
    let open = session(&world, 1, 1);
    send(&mut world, LaneMessage::Open { session: open, frontier: Frontier::START });
    assert_eq!(sent(&world, open), (1..=10).collect::<Vec<_>>());
}

#[test]
fn a_producer_announces_itself_when_it_starts_and_when_it_is_invited() {
    let mut world = producer();
    let own = world.generation(0);
    let consumer = session(&world, 1, 1).consumer;
    send(&mut world, LaneMessage::Invite { lane: LANE, consumer });
    let hellos = world.lane_to(1);
    assert_eq!(hellos.len(), 2);
    assert!(
        hellos.iter().all(
            |message| matches!(message, LaneMessage::Hello { lane: LANE, producer } if *producer == own)
        )
    );
}

#[test]
fn a_session_that_starts_later_is_sent_only_what_comes_after() {
    let mut world = producer();
    let open = session(&world, 1, 1);
    send(&mut world, LaneMessage::Open { session: open, frontier: through(3) });
    assert_eq!(sent(&world, open), (4..=10).collect::<Vec<_>>());
}

#[test]
fn a_new_session_is_sent_again_what_its_consumer_has_not_committed() {
    let mut world = producer();
    let first = session(&world, 1, 1);
    send(&mut world, LaneMessage::Open { session: first, frontier: Frontier::START });
    send(&mut world, LaneMessage::Ack { session: first, frontier: through(5) });
    let second = session(&world, 2, 2);
    send(&mut world, LaneMessage::Open { session: second, frontier: through(7) });
    assert_eq!(sent(&world, second), (8..=10).collect::<Vec<_>>());
}

#[test]
fn an_open_that_names_another_producer_an_older_consumer_or_no_lane_of_ours_is_ignored() {
    let mut world = producer();
    let good = session(&world, 5, 1);
    send(&mut world, LaneMessage::Open { session: good, frontier: Frontier::START });
    let mut strangers = [session(&world, 6, 2); 4];
    strangers[0].producer.number += 1;
    strangers[1].producer.nonce += 1;
    strangers[2].consumer.number = 4;
    strangers[3].lane.stream = 9;
    let before = batches(&world).len();
    for stranger in strangers {
        send(&mut world, LaneMessage::Open { session: stranger, frontier: Frontier::START });
        assert_eq!(batches(&world).len(), before, "{stranger:?}");
    }
    // The session is still the one that was.
    send(&mut world, LaneMessage::Ack { session: good, frontier: through(10) });
    assert_eq!(world.finished(0).unwrap().position, Position::at(10));
}

#[test]
fn an_open_below_what_was_acknowledged_is_ignored() {
    let mut world = producer();
    let good = session(&world, 1, 1);
    send(&mut world, LaneMessage::Open { session: good, frontier: Frontier::START });
    send(&mut world, LaneMessage::Ack { session: good, frontier: through(5) });
    let before = batches(&world).len();
    let zombie = session(&world, 1, 2);
    send(&mut world, LaneMessage::Open { session: zombie, frontier: through(2) });
    assert_eq!(batches(&world).len(), before);
    send(&mut world, LaneMessage::Ack { session: good, frontier: through(10) });
    assert_eq!(world.finished(0).unwrap().position, Position::at(10));
}

#[test]
fn an_acknowledgement_of_another_session_finishes_nothing() {
    let mut world = producer();
    let good = session(&world, 1, 1);
    send(&mut world, LaneMessage::Open { session: good, frontier: Frontier::START });
    let other = session(&world, 1, 2);
    send(&mut world, LaneMessage::Ack { session: other, frontier: through(10) });
    assert_eq!(world.finished(0), None);
    // Only places at which a read ended can be finished.
    send(&mut world, LaneMessage::Ack { session: good, frontier: through(7) });
    assert_eq!(world.finished(0).unwrap().position, Position::at(5));
}

/// The watermarks of a session by how many rows came before each.
fn watermarks(world: &World, session: Session) -> BTreeMap<usize, Watermark> {
    let mut rows = 0;
    let mut found = BTreeMap::new();
    for batch in batches(world).iter().filter(|batch| batch.session == session) {
        found
            .extend(batch.watermarks.iter().map(|(before, watermark)| (rows + *before as usize, *watermark)));
        rows += batch.entries.len();
    }
    found
}

#[test]
fn watermarks_stand_at_places_that_do_not_depend_on_how_reads_are_cut() {
    for read_rows in [37, 100, 1000] {
        let manifest = Manifest::new()
            .source("rows", 1, Some(3 * SECOND))
            .windows("sums", &["rows"], &["k"], COUNT_AND_SUM)
            .sink("out", &["sums"]);
        let mut world = World::new(&manifest);
        world.read_rows = read_rows;
        world.add(0, (0..600).map(|number| row("a", number, 1)));
        world.start(0);
        let open = session(&world, 1, 1);
        send(&mut world, LaneMessage::Open { session: open, frontier: Frontier::START });
        for below in 1..20 {
            send(&mut world, LaneMessage::Credit { session: open, below });
        }
        let found = watermarks(&world, open);
        for place in [256, 512] {
            let newest = place as i64 - 1;
            assert_eq!(found.get(&place), Some(&Watermark((newest - 3) * SECOND)), "reads of {read_rows}");
        }
        assert_eq!(found.last_key_value(), Some((&600, &Watermark::END)));
    }
}

#[test]
fn a_restarted_producer_reads_from_its_finished_place_and_skips_what_the_lane_has() {
    let mut world = producer();
    let first = session(&world, 1, 1);
    send(&mut world, LaneMessage::Open { session: first, frontier: Frontier::START });
    send(&mut world, LaneMessage::Ack { session: first, frontier: through(5) });
    world.start(0);
    let second = session(&world, 1, 2);
    assert_ne!(first.producer, second.producer);
    send(&mut world, LaneMessage::Open { session: second, frontier: through(8) });
    assert_eq!(sent(&world, second), [9, 10]);
    // A batch may be empty, but it says how far the lane is complete.
    assert_eq!(batches(&world).last().unwrap().through, through(10));
}
