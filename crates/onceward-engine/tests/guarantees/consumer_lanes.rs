//! What a keyed job makes of its lanes: SESSION-BOUND, DEFAULT-DENY, LANE-PREFIX, TAKEN / COMMITTED.

use onceward_engine::lane::LaneEntry;
use onceward_engine::{Event, LaneBatch, LaneMessage};
use onceward_expr::Value;
use onceward_protocol::{
    Branch, Frontier, Generation, LaneKey, LanePoint, Position, Session, Watermark, routing_hash,
};

use crate::manifest::{COUNT_AND_SUM, Manifest, SECOND};
use crate::world::World;

const LANE: LaneKey = LaneKey { producer: 0, stream: 0, consumer: 1 };

/// Only the consumer runs; the test plays the producer.
fn consumer(epoch_rows: u64) -> World {
    let manifest = Manifest::new()
        .source("rows", 1, Some(0))
        .windows("sums", &["rows"], &["k"], COUNT_AND_SUM)
        .sink("out", &["sums"])
        .epoch_rows(epoch_rows);
    let mut world = World::new(&manifest);
    world.start(1);
    world
}

fn producer(number: u64) -> Generation {
    Generation { number, nonce: number + 900, branch: Branch::default() }
}

fn through(row: u64) -> Frontier {
    Frontier::through(Position::at(row))
}

/// Rows of the key `a` in the first window, each of value 10.
fn batch(session: Session, sequence: u64, rows: std::ops::RangeInclusive<u64>) -> LaneBatch {
    let mut batch = LaneBatch {
        session,
        sequence,
        entries: Vec::new(),
        bytes: Vec::new(),
        watermarks: Vec::new(),
        through: through(*rows.end()),
    };
    for row in rows {
        let (mut key, mut args) = (Vec::new(), Vec::new());
        Value::String("a".into()).encode_key(&mut key);
        Value::Int(10).encode(&mut args);
        batch.entries.push(LaneEntry {
            point: LanePoint::new(Position::at(row), 0),
            hash: routing_hash(&key),
            event_time: SECOND,
            start: batch.bytes.len() as u32,
            key_len: key.len() as u32,
            args_len: args.len() as u32,
        });
        batch.bytes.extend_from_slice(&key);
        batch.bytes.extend_from_slice(&args);
    }
    batch
}

fn send(world: &mut World, message: LaneMessage) {
    world.handle(1, Event::Lane(message));
}

fn hello(world: &mut World, number: u64) {
    send(world, LaneMessage::Hello { lane: LANE, producer: producer(number) });
}

/// Everything opened so far.
fn opens(world: &World) -> Vec<(Session, Frontier)> {
    world
        .lane_to(0)
        .into_iter()
        .filter_map(|message| match message {
            LaneMessage::Open { session, frontier } => Some((session, frontier)),
            _ => None,
        })
        .collect()
}

fn opened(world: &World) -> Session {
    opens(world).last().unwrap().0
}

/// Ends the lane and returns the only window.
fn total(world: &mut World, sequence: u64) -> Vec<String> {
    let session = opened(world);
    let mut last = batch(session, sequence, 1..=1);
    last.entries.clear();
    last.bytes.clear();
    last.watermarks = vec![(0, Watermark::END)];
    last.through = Frontier::END;
    send(world, LaneMessage::Batch(Box::new(last)));
    world.run();
    world.rows(0)
}

fn window(count: u64) -> Vec<String> {
    vec![format!(
        r#"{{"k":"a","window_start":"1970-01-01T00:00:00Z","window_end":"1970-01-01T00:01:00Z","n":{count},"sum":{}}}"#,
        count * 10
    )]
}

#[test]
fn a_consumer_invites_its_producers_and_opens_at_what_it_has_committed() {
    let mut world = consumer(1000);
    let own = world.generation(1);
    assert!(
        matches!(&world.lane_to(0)[..], [LaneMessage::Invite { lane: LANE, consumer }] if *consumer == own)
    );
    hello(&mut world, 3);
    let session = opened(&world);
    assert_eq!((session.lane, session.producer, session.consumer), (LANE, producer(3), own));
    assert_eq!(opens(&world)[0].1, Frontier::START);
    send(&mut world, LaneMessage::Batch(Box::new(batch(session, 0, 1..=4))));
    world.run();
    // The successor starts where the committed epoch ends.
    world.start(1);
    hello(&mut world, 3);
    assert_eq!(opens(&world)[1].1, through(4));
}

#[test]
fn a_batch_of_any_other_session_is_dropped_without_an_answer() {
    let mut world = consumer(1000);
    hello(&mut world, 3);
    let session = opened(&world);
    let mut strangers = [session; 4];
    strangers[0].nonce += 1;
    strangers[1].producer = producer(2);
    strangers[2].consumer.number += 1;
    strangers[3].producer.nonce += 1;
    let before = world.seen.len();
    for stranger in strangers {
        send(&mut world, LaneMessage::Batch(Box::new(batch(stranger, 0, 1..=5))));
    }
    assert_eq!(world.stats(1).rows_in, 0);
    assert_eq!(world.seen.len(), before);
    send(&mut world, LaneMessage::Batch(Box::new(batch(session, 0, 1..=5))));
    assert_eq!(total(&mut world, 1), window(5));
}

#[test]
fn a_gap_in_the_sequence_opens_a_new_session_and_takes_nothing() {
    let mut world = consumer(1000);
    hello(&mut world, 3);
    let first = opened(&world);
    send(&mut world, LaneMessage::Batch(Box::new(batch(first, 1, 1..=5))));
    let second = opened(&world);
    assert_ne!(first.nonce, second.nonce);
    assert_eq!(world.stats(1).rows_in, 0);
    // What the producer had sent in the old session comes too late.
    send(&mut world, LaneMessage::Batch(Box::new(batch(first, 0, 1..=5))));
    assert_eq!(world.stats(1).rows_in, 0);
    send(&mut world, LaneMessage::Batch(Box::new(batch(second, 0, 1..=3))));
    assert_eq!(total(&mut world, 1), window(3));
}

#[test]
fn a_batch_that_comes_twice_is_counted_once() {
    let mut world = consumer(1000);
    hello(&mut world, 3);
    let first = opened(&world);
    send(&mut world, LaneMessage::Batch(Box::new(batch(first, 0, 1..=5))));
    send(&mut world, LaneMessage::Batch(Box::new(batch(first, 0, 1..=5))));
    assert_ne!(opened(&world), first);
    assert_eq!(world.stats(1).rows_in, 5);
    assert_eq!(total(&mut world, 0), window(5));
}

#[test]
fn rows_that_a_new_session_repeats_are_dropped_and_counted() {
    let mut world = consumer(1000);
    hello(&mut world, 3);
    let first = opened(&world);
    send(&mut world, LaneMessage::Batch(Box::new(batch(first, 0, 1..=5))));
    // Taken but not committed: the new session starts before those rows, and sends them again.
    hello(&mut world, 4);
    let (second, frontier) = *opens(&world).last().unwrap();
    assert_eq!((second.producer, frontier), (producer(4), Frontier::START));
    send(&mut world, LaneMessage::Batch(Box::new(batch(second, 0, 1..=8))));
    assert_eq!((world.stats(1).rows_in, world.stats(1).repeats), (8, 5));
    assert_eq!(total(&mut world, 1), window(8));
}

#[test]
fn a_prefix_taken_before_the_producer_died_is_not_counted_again() {
    let mut world = consumer(4);
    world.held.commits = vec![1];
    hello(&mut world, 3);
    let first = opened(&world);
    // Two epochs of four rows each are on their way; the third has taken four more of the ten of a batch.
    send(&mut world, LaneMessage::Batch(Box::new(batch(first, 0, 1..=10))));
    send(&mut world, LaneMessage::Batch(Box::new(batch(first, 1, 11..=20))));
    world.wait(10_000);
    world.wait(10_000);
    assert_eq!((world.open_epochs(1), world.stats(1).rows_in), (2, 12));
    hello(&mut world, 4);
    let second = opened(&world);
    send(&mut world, LaneMessage::Batch(Box::new(batch(second, 0, 1..=20))));
    world.held.commits.clear();
    world.run();
    assert_eq!((world.stats(1).rows_in, world.stats(1).repeats), (20, 12));
    assert_eq!(total(&mut world, 1), window(20));
}

#[test]
fn an_older_producer_cannot_take_the_lane_back() {
    let mut world = consumer(1000);
    hello(&mut world, 5);
    let session = opened(&world);
    hello(&mut world, 4);
    assert_eq!(opens(&world).len(), 1);
    send(&mut world, LaneMessage::Batch(Box::new(batch(session, 0, 1..=5))));
    assert_eq!(total(&mut world, 1), window(5));
}

#[test]
fn a_producer_that_announces_itself_again_keeps_its_session() {
    let mut world = consumer(1000);
    hello(&mut world, 5);
    let session = opened(&world);
    send(&mut world, LaneMessage::Batch(Box::new(batch(session, 0, 1..=3))));
    hello(&mut world, 5);
    assert_eq!(opens(&world).len(), 1);
    send(&mut world, LaneMessage::Batch(Box::new(batch(session, 1, 4..=5))));
    assert_eq!(total(&mut world, 2), window(5));
}

#[test]
fn a_lane_that_is_not_in_the_layout_is_ignored() {
    let mut world = consumer(1000);
    hello(&mut world, 3);
    let session = opened(&world);
    let before = world.seen.len();
    for lane in
        [LaneKey { stream: 1, ..LANE }, LaneKey { producer: 7, ..LANE }, LaneKey { consumer: 2, ..LANE }]
    {
        send(&mut world, LaneMessage::Hello { lane, producer: producer(9) });
        send(&mut world, LaneMessage::Batch(Box::new(batch(Session { lane, ..session }, 0, 1..=5))));
    }
    assert_eq!(world.seen.len(), before);
    assert_eq!(world.stats(1).rows_in, 0);
}

#[test]
fn a_completed_consumer_still_tells_a_restarted_producer_that_it_has_everything() {
    let mut world = consumer(1000);
    hello(&mut world, 3);
    let session = opened(&world);
    send(&mut world, LaneMessage::Batch(Box::new(batch(session, 0, 1..=5))));
    assert_eq!(total(&mut world, 1), window(5));
    assert!(world.end(1).is_some());
    hello(&mut world, 4);
    assert_eq!(opens(&world).last().unwrap().1, Frontier::END);
}
