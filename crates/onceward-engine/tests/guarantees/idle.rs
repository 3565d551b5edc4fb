//! `idleAfter`: a silent partition does not hold the windows of the others, and what it brings later is judged by what has
//! fired.

use crate::manifest::{COUNT_AND_SUM, Manifest, SECOND};
use crate::world::{World, row};

const IDLE: i64 = 5 * SECOND;

/// Two partitions of one source; the second one brings nothing.
fn world(idle: Option<i64>, ranges: u32) -> World {
    let manifest = Manifest::new()
        .source("rows", 2, Some(0))
        .idle_after(idle)
        .ranges("sums", &["rows"], &["k"], COUNT_AND_SUM, ranges)
        .sink("out", &["sums"]);
    let mut world = World::new(&manifest);
    world.bounded = false;
    world.add(0, [row("a", 10, 1), row("b", 20, 2), row("a", 130, 4)]);
    world.start_all();
    world.run();
    world
}

/// Time passes in which nothing comes on the second partition, and something does on the first.
fn pass(world: &mut World, second: i64) {
    world.wait(IDLE);
    world.run();
    world.add(0, [row("a", second, 8)]);
    world.run();
}

#[test]
fn without_it_a_silent_partition_holds_every_window() {
    let mut world = world(None, 2);
    pass(&mut world, 131);
    assert_eq!(world.rows(0), Vec::<String>::new());
}

#[test]
fn a_partition_that_brings_nothing_for_so_long_lets_the_others_go_on() {
    for ranges in [1, 2, 3] {
        let mut world = world(Some(IDLE), ranges);
        assert_eq!(world.rows(0), Vec::<String>::new(), "it holds them until then");
        pass(&mut world, 131);
        assert_eq!(world.rows(0).len(), 2, "the windows of a and b");
        assert_eq!(world.late(), 0);
    }
}

#[test]
fn what_it_brings_later_is_late_where_windows_have_fired_and_counts_where_not() {
    for restart in [false, true] {
        let mut world = world(Some(IDLE), 2);
        pass(&mut world, 131);
        if restart {
            world.restart_all();
            world.run();
        }
        world.add(1, [row("a", 30, 16), row("b", 140, 32)]);
        world.run();
        assert_eq!(world.late(), 1, "restarted: {restart}");
        world.bounded = true;
        world.complete();
        let rows = world.sorted(0);
        assert_eq!(rows.len(), 4, "no window fires twice: {rows:?}");
        assert_eq!(world.late(), 1);
    }
}

#[test]
fn a_partition_that_speaks_again_holds_the_watermark_again() {
    let mut world = world(Some(IDLE), 1);
    pass(&mut world, 131);
    world.add(1, [row("c", 150, 1)]);
    world.run();
    world.add(0, [row("a", 400, 1)]);
    world.run();
    assert_eq!(world.rows(0).len(), 2, "its watermark stands at 150 seconds");
}

#[test]
fn while_all_are_silent_time_stands_still() {
    let mut world = world(Some(IDLE), 1);
    for _ in 0..3 {
        world.wait(IDLE);
        world.run();
    }
    assert_eq!(world.rows(0), Vec::<String>::new());
}
