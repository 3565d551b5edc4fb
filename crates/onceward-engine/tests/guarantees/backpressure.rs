//! Nothing grows without bound: lanes, open epochs, outboxes, epochs.

use onceward_engine::delivery::MAX_OWED_BYTES;
use onceward_engine::lane_out::LANE_WINDOW;
use onceward_engine::ledger::MAX_OPEN_EPOCHS;
use onceward_engine::{Event, LaneMessage};
use onceward_protocol::{Branch, Frontier, Generation, LaneKey, Session};

use crate::manifest::{COUNT_AND_SUM, Manifest};
use crate::world::{World, row};

const LANE: LaneKey = LaneKey { producer: 0, stream: 0, consumer: 1 };

fn sums() -> Manifest {
    Manifest::new()
        .source("rows", 1, Some(0))
        .windows("sums", &["rows"], &["k"], COUNT_AND_SUM)
        .sink("out", &["sums"])
}

#[test]
fn no_read_is_asked_for_while_a_lane_has_no_credit() {
    let mut world = World::new(&sums());
    world.bounded = false;
    world.read_rows = 1;
    world.add(0, (0..100).map(|number| row("a", number, 1)));
    world.start(0);
    let consumer = Generation { number: 1, nonce: 7, branch: Branch::default() };
    let session = Session { lane: LANE, producer: world.generation(0), consumer, nonce: 8 };
    world.handle(0, Event::Lane(LaneMessage::Open { session, frontier: Frontier::START }));
    world.run();
    assert_eq!(world.reads(0) as u64, LANE_WINDOW);
    // A credit of another session gives nothing.
    let stranger = Session { nonce: 9, ..session };
    world.handle(0, Event::Lane(LaneMessage::Credit { session: stranger, below: 5 }));
    world.run();
    assert_eq!(world.reads(0) as u64, LANE_WINDOW);
    world.handle(0, Event::Lane(LaneMessage::Credit { session, below: 1 }));
    world.run();
    assert_eq!(world.reads(0) as u64, LANE_WINDOW + 1);
}

#[test]
fn one_lane_without_credit_holds_the_whole_source() {
    let manifest = Manifest::new()
        .source("rows", 1, Some(0))
        .ranges("sums", &["rows"], &["k"], COUNT_AND_SUM, 2)
        .sink("out", &["sums"]);
    let mut world = World::new(&manifest);
    world.bounded = false;
    world.read_rows = 1;
    world.add(0, (0..100).map(|number| row("a", number, 1)));
    world.held.lanes = vec![2];
    world.start_all();
    world.run();
    assert_eq!(world.reads(0), 0, "a consumer that has not opened yet");
    world.held.lanes.clear();
    assert!(world.run_until(|world| world.reads(0) > 0));
    world.held.lanes = vec![2];
    world.run();
    assert!(world.reads(0) as u64 <= LANE_WINDOW + 2, "{}", world.reads(0));
    world.held.lanes.clear();
    world.bounded = true;
    world.complete();
}

#[test]
fn at_most_two_epochs_are_open_and_a_full_third_stops_the_intake() {
    for (manifest, waits) in [
        (sums().epoch_rows(10), 1),
        (Manifest::new().source("rows", 1, None).sink("out", &["rows"]).epoch_rows(10), 0),
    ] {
        let mut world = World::new(&manifest);
        world.read_rows = 5;
        world.add(0, (0..500).map(|number| row("a", number, 1)));
        world.held.commits = vec![waits];
        world.start_all();
        world.run();
        assert_eq!(world.open_epochs(waits), MAX_OPEN_EPOCHS);
        let taken = world.stats(waits).rows_in;
        assert!((20..=30).contains(&taken), "{taken}");
        assert!(world.reads(0) <= 20, "{}", world.reads(0));
        world.held.commits.clear();
        let mut most = 0;
        world.run_until(|world| {
            most = most.max(world.open_epochs(waits));
            false
        });
        assert_eq!(most, MAX_OPEN_EPOCHS);
        world.complete();
    }
}

#[test]
fn no_read_is_asked_for_while_the_outbox_is_over_its_limit() {
    const ROW: usize = 16 << 20;
    let manifest = Manifest::new().source("rows", 1, None).sink("out", &["rows"]);
    let mut world = World::new(&manifest);
    world.read_rows = 1;
    world.bounded = false;
    world.shelves[0].forget_outbox = true;
    world.held.reads = vec![0];
    world.held.calls = vec![0];
    world.start_all();
    let big = vec![b'1'; ROW];
    let reads_that_fit = MAX_OWED_BYTES / ROW + 1;
    for number in 1..=reads_that_fit as u64 {
        assert!(world.run_until(|world| world.reads(0) as u64 == number), "read {number}");
        let record = onceward_connector::Record {
            start: 0,
            len: ROW as u32,
            position: onceward_protocol::Position::at(number),
        };
        let batch = onceward_connector::RecordBatch::new(big.clone(), vec![record]);
        let read = Ok(onceward_connector::Read::Batch { batch, token: Vec::new() });
        world.handle(0, Event::Read { tag: number as u32, read });
    }
    world.run();
    assert_eq!(world.sinks(0)[0].owed, reads_that_fit as u64);
    assert_eq!(world.reads(0), reads_that_fit, "a read is out although the target is behind");
}
