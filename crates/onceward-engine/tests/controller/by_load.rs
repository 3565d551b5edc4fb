//! Between the manifest's bounds key ranges are cut where the load is, and joined where there is none.

use onceward_engine::controller::Happening;

use crate::manifest::Manifest;
use crate::pipelines::{fill, row, running, windows};
use crate::world::{SPAN, Setup, World};

fn bounded(ranges: u32, min: u32, max: u32) -> Manifest {
    let mut manifest = windows(2, ranges);
    let spec = manifest.keyed_mut();
    (spec.min_partitions, spec.max_partitions) = (min, max);
    manifest
}

fn why(world: &World) -> Vec<&'static str> {
    let begun = |happening: Happening| match happening {
        Happening::RecutBegun { why, .. } => Some(why),
        _ => None,
    };
    world.happenings(0).into_iter().filter_map(begun).collect()
}

/// Many rows come again and again; their keys are as given.
fn busy(world: &mut World, rounds: i64, keys: i64) {
    for round in 0..rounds {
        let second = 1_000 + round * 10;
        let rows = |from: i64| {
            (0..2_000).map(move |number| row(&format!("k{}", (from + number) % keys), second, number))
        };
        world.add(0, rows(0));
        world.add(1, rows(1));
        world.run_for(SPAN);
    }
}

#[test]
fn a_range_with_too_much_to_do_is_cut_and_never_into_more_than_allowed() {
    let mut world = running(&bounded(1, 1, 3), Setup::default(), 10);
    world.read_rows = 500;
    world.run_until(World::all_run);
    busy(&mut world, 20, 700);
    assert!(why(&world).iter().all(|why| *why == "it has too much to do"), "{:?}", why(&world));
    assert_eq!(world.live("sums").len(), 3);
    world.run_until(|world| world.rows_taken("sums") == 80_020);
}

#[test]
fn a_range_of_which_one_key_makes_the_load_is_left_alone() {
    let mut world = running(&bounded(1, 1, 3), Setup::default(), 10);
    world.read_rows = 500;
    world.run_until(World::all_run);
    busy(&mut world, 20, 1);
    assert_eq!(why(&world), Vec::<&str>::new());
    assert_eq!(world.live("sums").len(), 1);
}

#[test]
fn ranges_with_too_little_to_do_are_joined_and_never_into_fewer_than_allowed() {
    let mut world = running(&bounded(4, 2, 4), Setup::default(), 10);
    world.run_until(World::all_run);
    // The last range has all the load that there is; it claims so itself.
    let last = world.live("sums")[3].number;
    world.claims.insert(last, 5_000);
    world.run_for(60 * SPAN);
    assert!(why(&world).iter().all(|why| *why == "they have too little to do"), "{:?}", why(&world));
    let ranges = world.live("sums");
    assert_eq!(ranges.len(), 2);
    assert_eq!(ranges[1].number, last, "the one with the load was touched");
}

#[test]
fn without_load_and_without_bounds_nothing_is_cut() {
    for manifest in [bounded(2, 1, 4), windows(2, 2)] {
        let mut world = World::new(&manifest, Setup::default());
        world.bounded = false;
        fill(&mut world, 0, 150);
        world.start();
        world.run_for(60 * SPAN);
        assert_eq!(why(&world), Vec::<&str>::new());
        assert_eq!(world.live("sums").len(), 2);
    }
}
