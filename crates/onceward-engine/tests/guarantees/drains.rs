//! A drain ends at one place for the source and everybody who takes from it (SPEC-CHANGE asks for it), also after a crash
//! that left the source's own record behind its consumers.

use onceward_engine::{Event, JobEnd};
use onceward_protocol::LaneKey;
use onceward_protocol::resume::ResumePoint;

use crate::manifest::{COUNT_AND_SUM, Manifest};
use crate::world::{World, row};

/// One source of 40 rows that does not end, and one key range; the range has committed rows, the source nothing.
fn behind() -> World {
    let manifest = Manifest::new()
        .source("rows", 1, Some(0))
        .windows("sums", &["rows"], &["k"], COUNT_AND_SUM)
        .sink("out", &["sums"]);
    let mut world = World::new(&manifest);
    world.bounded = false;
    world.read_rows = 4;
    world.add(0, (0..40).map(|number| row("a", number, 1)));
    world.held.commits = vec![0];
    world.start_all();
    world.run();
    world.held.commits.clear();
    world
}

#[test]
fn a_drain_after_a_crash_reads_to_where_the_consumer_stands_and_says_so() {
    let mut world = behind();
    let lane = LaneKey { producer: 0, stream: 0, consumer: 1 };
    let taken = world.stored_frontier(lane);
    assert!(world.finished(0).is_none() && taken > Default::default(), "{taken:?}");
    world.restart_all();
    world.handle(0, Event::Stop { drain: true });
    world.run();
    assert_eq!(world.end(0), Some(&JobEnd::Stopped));
    let finished = world.finished(0);
    assert_eq!(finished.as_ref().map(ResumePoint::frontier), Some(world.stored_frontier(lane)));
    assert!(world.stored_frontier(lane) >= taken);
}
