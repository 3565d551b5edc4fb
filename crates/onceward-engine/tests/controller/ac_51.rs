//! AC-51: state and the place up to which input was taken are one commit. After a crash at any point the state is the fold
//! of exactly the input that is acknowledged, and recovery reads what the store has and nothing that is finished.

use std::collections::BTreeMap;

use onceward_engine::layout::Role;
use onceward_engine::stored::lane_key;
use onceward_protocol::codec::Reader;
use onceward_protocol::{LanePoint, Position, routing_hash};

use crate::manifest::Manifest;
use crate::pipelines::{process, rows, running, undisturbed};
use crate::world::{Seen, Setup, World};

/// Rows per source partition.
const ROWS: i64 = 150;

/// How often each key was counted, as stored with one range.
fn counted(world: &World, number: u32) -> BTreeMap<Vec<u8>, u64> {
    let mut counts = BTreeMap::new();
    for (key, value) in world.stored(&world.id(number)).state {
        let mut input = Reader::new(&key);
        let group = input.bytes().unwrap().to_vec();
        if input.rest() == b"n" {
            counts.insert(group, u64::from_be_bytes(value.try_into().unwrap()));
        }
    }
    counts
}

/// The group keys of a source's rows, as the engine writes them, in order.
fn group_keys(partition: i64) -> Vec<Vec<u8>> {
    let key = |row: &String| {
        let value: serde_json::Value = serde_json::from_str(row).unwrap();
        value["k"].to_string().into_bytes()
    };
    rows(partition * 3, ROWS).iter().map(key).collect()
}

/// What the rows up to each stored frontier come to, for one range.
fn fold_of_what_is_acknowledged(
    world: &World,
    number: u32,
    known: &[Vec<u8>],
) -> (BTreeMap<Vec<u8>, u64>, u64) {
    let layout = world.layout();
    let me = layout.partitions().into_iter().find(|partition| partition.number == number).unwrap();
    let Role::Keyed { range, .. } = me.role else { panic!("no key range") };
    let stored = world.stored(&me.id);
    let (mut counts, mut taken) = (BTreeMap::new(), 0);
    for source in layout.partitions().iter().filter(|known| matches!(known.role, Role::Source { .. })) {
        let frontier = stored.lanes.get(&lane_key("rows", &source.id)).map(|lane| lane.taken);
        for (index, key) in group_keys(i64::from(source.number)).iter().enumerate() {
            let point = LanePoint::new(Position::at(index as u64 + 1), 0);
            // The engine's form of a key is its own; which of those it has made is this one.
            let group = known.iter().find(|group| contains(group, key));
            let Some(group) = group else { continue };
            if range.range.contains(routing_hash(group))
                && frontier.is_some_and(|frontier| frontier.covers(point))
            {
                *counts.entry(group.clone()).or_insert(0) += 1;
                taken += 1;
            }
        }
    }
    (counts, taken)
}

fn contains(group: &[u8], key: &[u8]) -> bool {
    let text = key.strip_prefix(b"\"").and_then(|key| key.strip_suffix(b"\"")).unwrap();
    group.windows(text.len()).any(|part| part == text)
}

/// The engine's form of all keys.
fn all_groups(manifest: &Manifest) -> Vec<Vec<u8>> {
    let mut world = running(manifest, Setup::default(), ROWS);
    world.run_until(|world| world.rows_taken("sums") == 2 * ROWS as u64);
    world.run_for(1_000_000);
    let numbers: Vec<u32> = world.live("sums").iter().map(|range| range.number).collect();
    let groups: Vec<Vec<u8>> =
        numbers.iter().flat_map(|number| counted(&world, *number).into_keys().collect::<Vec<_>>()).collect();
    assert_eq!(groups.len(), 7);
    groups
}

fn assert_state_is_the_fold(world: &World, groups: &[Vec<u8>]) {
    for range in world.live("sums") {
        let (expected, taken) = fold_of_what_is_acknowledged(world, range.number, groups);
        assert_eq!(counted(world, range.number), expected);
        assert_eq!(world.stored(&world.id(range.number)).counters.rows_in, taken);
    }
    // A source's finished place is never beyond what every range has stored.
    for source in [0, 1] {
        let Some(finished) = world.stored(&world.id(source)).resume else { continue };
        let key = lane_key("rows", &world.id(source));
        for range in world.live("sums") {
            let lane = world.stored(&world.id(range.number)).lanes.get(&key).map(|lane| lane.taken);
            assert!(lane.is_some_and(|taken| taken >= finished.frontier()), "acknowledged and not stored");
        }
    }
}

/// The first read of each source after `from`, and where it seeked to.
fn first_reads(world: &World, from: usize) -> BTreeMap<u32, Option<Position>> {
    let mut first = BTreeMap::new();
    for seen in &world.seen[from..] {
        if let Seen::Read { partition, seek } = seen {
            first.entry(*partition).or_insert(*seek);
        }
    }
    first
}

#[test]
fn ac_51_after_a_crash_at_any_step_the_state_is_the_fold_of_exactly_the_acknowledged_input() {
    let manifest = process(2, 2);
    let groups = all_groups(&manifest);
    let expected = undisturbed(&manifest, ROWS);
    let mut halfway = 0;
    for steps in (0..900).step_by(13) {
        let mut world = running(&manifest, Setup::default(), ROWS);
        world.run_until(World::all_run);
        (0..steps).for_each(|_| world.step());
        world.crash();
        assert_state_is_the_fold(&world, &groups);
        let taken = world.fold("sums").counters.rows_in;
        halfway += u32::from((1..300).contains(&taken));
        world.bounded = true;
        world.complete();
        assert_eq!(world.sorted(0), expected, "after {steps} steps");
        assert_eq!(world.fold("sums").counters.rows_in, 300, "after {steps} steps");
    }
    assert!(halfway > 5, "hardly a crash came in the middle: {halfway}");
}

#[test]
fn ac_51_a_power_loss_at_any_write_keeps_state_and_offset_together() {
    let manifest = process(2, 2);
    let groups = all_groups(&manifest);
    let expected = undisturbed(&manifest, ROWS);
    let writes = {
        let mut world = running(&manifest, Setup::default(), ROWS);
        world.run_until(World::all_run);
        let before = world.disk.ops();
        world.run_until(|world| world.rows_taken("sums") == 300);
        world.run_for(200_000);
        world.disk.ops() - before
    };
    for write in (0..writes).step_by(3) {
        let mut world = running(&manifest, Setup::default(), ROWS);
        world.run_until(World::all_run);
        world.disk.crash_at(world.disk.ops() + write, write * 17 + 3);
        world.run_until(|world| world.disk.crashed().is_some());
        world.crash();
        assert_state_is_the_fold(&world, &groups);
        world.bounded = true;
        world.complete();
        assert_eq!(world.sorted(0), expected, "at write {write} of {writes}");
    }
}

#[test]
fn ac_51_recovery_reads_on_from_the_finished_place_and_never_from_the_start() {
    let manifest = process(2, 2);
    for taken in [60, 150, 240, 300] {
        let mut world = running(&manifest, Setup::default(), ROWS);
        world.run_until(|world| {
            world.all_run()
                && world.rows_taken("sums") >= taken
                && [0, 1].iter().all(|source| world.stored(&world.id(*source)).resume.is_some())
        });
        world.lose_power();
        let from = world.seen.len();
        world.start();
        let finished = [0, 1].map(|source| world.stored(&world.id(source)).resume.unwrap());
        world.run_until(|world| first_reads(world, from).len() == 2);
        for (source, finished) in [0, 1].into_iter().zip(finished) {
            assert!(finished.position > Position::ORIGIN);
            assert_eq!(first_reads(&world, from)[&source], Some(finished.position));
        }
        world.bounded = true;
        world.complete();
        assert_eq!(world.sorted(0), undisturbed(&manifest, ROWS));
    }
}

#[test]
fn ac_51_a_replaced_job_takes_its_own_rows_only_and_reads_no_source_again_from_the_start() {
    let manifest = process(2, 2);
    let mut world = running(&manifest, Setup::default(), ROWS);
    world.run_until(|world| {
        world.all_run() && [0, 1].iter().all(|source| world.stored(&world.id(*source)).resume.is_some())
    });
    let number = world.live("sums")[0].number;
    let from = world.seen.len();
    world.jobs.retain(|job| job.partition.number != number);
    world.run_until(|world| world.all_run() && !world.assigned(from, number).is_empty());
    world.run_until(|world| world.rows_taken("sums") == 300);
    let from_the_start = world.seen[from..]
        .iter()
        .filter(
            |seen| matches!(seen, Seen::Read { seek: Some(position), .. } if *position == Position::ORIGIN),
        )
        .count();
    assert_eq!(from_the_start, 0);
    world.bounded = true;
    world.complete();
    assert_eq!(world.sorted(0), undisturbed(&manifest, ROWS));
}
