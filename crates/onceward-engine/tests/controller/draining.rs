//! A drain finishes what is under way, from the sources on, whatever fails meanwhile.

use onceward_connector::{ConnectorError, TargetError};
use onceward_engine::JobEnd;
use onceward_engine::controller::ControllerEnd;
use onceward_engine::layout::Role;
use onceward_protocol::state::{Demand, PipelineState};

use crate::manifest::Manifest;
use crate::pipelines::{FIRST, SECOND_ONE, finish, rows, running, spread, two_stages, undisturbed, windows};
use crate::world::{Pending, Seen, Setup, World};

const DRAIN: Demand = Demand::Stop { drain: true };

fn at_work(manifest: &Manifest, taken: u64) -> World {
    let mut world = running(manifest, Setup::default(), 150);
    world.run_until(|world| world.all_run() && world.rows_taken("sums") >= taken);
    world
}

/// Drained, and the next run gives the rest.
fn stops(world: &mut World, manifest: &Manifest) {
    assert_eq!(world.run(), ControllerEnd::Stopped);
    world.assert_nothing_is_live();
    assert_nothing_is_owed(world, &[]);
    finish(world);
    assert_eq!(world.sorted(0), undisturbed(manifest, 150));
}

/// No partition owes anything to a sink or to a computation, except these.
fn assert_nothing_is_owed(world: &World, except: &[u32]) {
    for partition in world.layout().partitions() {
        if except.contains(&partition.number) {
            continue;
        }
        let stored = world.stored(&partition.id);
        assert_eq!(stored.outbox.values().map(Vec::len).sum::<usize>(), 0, "{}", partition.id.label());
        assert_eq!(stored.exchange.values().map(Vec::len).sum::<usize>(), 0, "{}", partition.id.label());
    }
}

/// The stage of a partition, by its number.
fn stage(world: &World, number: u32) -> u32 {
    let partition = world.layout().partitions().into_iter().find(|known| known.number == number);
    world.plan.stage(&partition.unwrap().role)
}

#[test]
fn a_drain_ends_the_sources_first_and_then_stage_by_stage() {
    for taken in [0, 40, 222] {
        let manifest = two_stages(2, 2);
        let mut world = at_work(&manifest, taken);
        let before = world.seen.len();
        world.demand(DRAIN).unwrap();
        assert_eq!(world.run(), ControllerEnd::Stopped);
        let mut ended: Vec<u32> = Vec::new();
        let mut told: Vec<u32> = Vec::new();
        for seen in &world.seen[before..] {
            match seen {
                Seen::JobEnded { partition, end, .. } => {
                    assert_eq!(*end, JobEnd::Stopped);
                    ended.push(*partition);
                }
                Seen::Tell { partition, event, .. } if event.starts_with("Stop") => {
                    assert_eq!(event, "Stop { drain: true }");
                    let earlier = world.layout().partitions().into_iter().map(|known| known.number);
                    for number in earlier.filter(|number| stage(&world, *number) < stage(&world, *partition))
                    {
                        assert!(ended.contains(&number), "{partition} ends before {number}");
                    }
                    told.push(*partition);
                }
                _ => {}
            }
        }
        told.sort_unstable();
        assert_eq!(told, [0, 1, 2, 3, 4, 5]);
        assert_nothing_is_owed(&world, &[]);
    }
}

#[test]
fn a_drain_reads_nothing_new_and_finishes_everything_that_was_read() {
    let manifest = windows(2, 2);
    let mut world = at_work(&manifest, 40);
    let read: Vec<u64> = [0, 1].iter().map(|source| world.rows_read(*source)).collect();
    assert!(read.iter().all(|rows| (1..150).contains(rows)), "{read:?}");
    world.demand(DRAIN).unwrap();
    // A read is out when it is asked for, and another one before the source is told.
    let most = 2 * world.read_rows as u64;
    assert_eq!(world.run(), ControllerEnd::Stopped);
    let mut taken = 0;
    for (source, read) in [0, 1].into_iter().zip(read) {
        let finished = world.stored(&world.id(source)).resume.unwrap().rows;
        assert!((read..=read + most).contains(&finished), "{read} read, {finished} finished");
        taken += finished;
    }
    assert_eq!(world.fold("sums").counters.rows_in, taken, "what was read and not taken");
    finish(&mut world);
    assert_eq!(world.sorted(0), undisturbed(&manifest, 150));
}

#[test]
fn a_drain_flushes_blocks_that_are_not_full() {
    let manifest = two_stages(1, 1);
    let mut world = at_work(&manifest, 150);
    world.run_for(1_000_000);
    let before = world.arrived(1).len();
    // Rows of one more window come out: fewer than a block.
    world.add(0, rows(180, 1));
    world.run_until(|world| world.rows_taken("sums") == 151);
    world.demand(DRAIN).unwrap();
    assert_eq!(world.run(), ControllerEnd::Stopped);
    assert_eq!(world.arrived(1).len(), before + 7);
    assert_nothing_is_owed(&world, &[]);
}

#[test]
fn a_job_that_fails_while_it_drains_does_not_keep_the_others_from_delivering() {
    for failing in [2, 3, 4] {
        let manifest = two_stages(2, 2);
        let mut world = at_work(&manifest, 222);
        // Everybody has something to deliver.
        world.hold(|pending| matches!(pending, Pending::Call { .. }));
        world.run_until(|world| world.waiting(|pending| matches!(pending, Pending::Call { .. })) >= 2);
        world.demand(DRAIN).unwrap();
        world.run_for(20_000);
        world.faults.push_back((
            failing,
            TargetError::Definite(ConnectorError::new("OW-3999", "the target is made of cheese")),
        ));
        world.release(1);
        let ControllerEnd::Failed(error) = world.run() else { panic!("{:?}", world.end) };
        assert!(error.to_string().contains("made of cheese"), "{error}");
        world.assert_nothing_is_live();
        assert_eq!(world.layout().state, PipelineState::Stopped);
        for partition in world.layout().partitions() {
            let stored = world.stored(&partition.id);
            let owed = stored.outbox.values().flatten().count();
            assert!(partition.number == failing || owed == 0, "{} owes rows", partition.id.label());
        }
        finish(&mut world);
        assert_eq!(world.sorted(0), undisturbed(&manifest, 150));
    }
}

#[test]
fn a_drain_goes_on_when_a_worker_is_lost_and_when_all_are() {
    for silently in [true, false] {
        for all in [true, false] {
            let manifest = two_stages(2, 2);
            let mut world = spread(&manifest, 150);
            world.run_until(|world| world.rows_taken("sums") > 111);
            world.demand(DRAIN).unwrap();
            world.run_until(|world| world.jobs.iter().any(|job| job.end.is_some()));
            let lost = if all { vec![FIRST, SECOND_ONE] } else { vec![FIRST] };
            for worker in lost {
                if silently { world.cut_off(worker) } else { world.kill(worker) }
            }
            if all {
                world.run_for(200_000);
                assert_eq!(world.end, None, "nobody is there to drain");
                world.hire();
            }
            stops(&mut world, &manifest);
        }
    }
}

#[test]
fn a_consumer_that_is_lost_while_the_sources_drain_gets_again_what_it_had_not_committed() {
    let manifest = windows(2, 2);
    let mut world = at_work(&manifest, 40);
    let consumers: Vec<u32> = world.live("sums").iter().map(|range| range.number).collect();
    let of_theirs = consumers.clone();
    let hold = world.hold(
        move |pending| matches!(pending, Pending::Commit { partition, .. } if of_theirs.contains(partition)),
    );
    world.demand(DRAIN).unwrap();
    world.run_for(20_000);
    // What they have taken is in memory only, and the sources wait for it.
    assert!(world.jobs.iter().all(|job| job.end.is_none()));
    world.jobs.retain(|job| !consumers.contains(&job.partition.number));
    world.lose(|pending| matches!(pending, Pending::Commit { partition, .. } if *partition > 1));
    world.release(hold);
    stops(&mut world, &manifest);
}

#[test]
fn a_drain_that_finds_a_retired_range_delivers_what_it_owes_first() {
    let manifest = windows(2, 1);
    let mut world = at_work(&manifest, 222);
    let parent = world.live("sums")[0].number;
    let hold =
        world.hold(move |pending| matches!(pending, Pending::Call { partition, .. } if *partition == parent));
    world.rescale("sums", 2).unwrap();
    // A call that is out ends first: the parent retires when nothing is under way.
    world.run_for(50_000);
    world.release(hold);
    world.run_until(|world| world.live("sums").len() == 2);
    world.demand(DRAIN).unwrap();
    assert_eq!(world.run(), ControllerEnd::Stopped);
    let retired = world.layout().partitions().into_iter().filter(|partition| match partition.role {
        Role::Keyed { range, .. } => range.retired,
        Role::Source { .. } => false,
    });
    assert_eq!(retired.count(), 0, "a retired range is left");
    assert_nothing_is_owed(&world, &[]);
    finish(&mut world);
    assert_eq!(world.sorted(0), undisturbed(&manifest, 150));
}

#[test]
fn a_drain_is_gone_on_with_after_a_crash_at_any_moment() {
    let manifest = two_stages(2, 2);
    for steps in (1..200).step_by(7) {
        let mut world = at_work(&manifest, 111);
        world.demand(DRAIN).unwrap();
        for _ in 0..steps {
            if world.end.is_none() {
                world.step();
            }
        }
        let state = world.layout().state;
        if state == PipelineState::Draining {
            world.crash();
            assert_eq!(world.state(), PipelineState::Draining);
            stops(&mut world, &manifest);
        } else {
            finish(&mut world);
            assert_eq!(world.sorted(0), undisturbed(&manifest, 150));
        }
    }
}

#[test]
fn a_drain_can_be_asked_for_twice_and_hurried_but_not_taken_back() {
    let manifest = windows(2, 2);
    let mut world = at_work(&manifest, 111);
    world.hold(|pending| matches!(pending, Pending::Call { .. }));
    assert!(world.demand(DRAIN).unwrap().starts_with("draining"));
    assert_eq!(world.demand(DRAIN), Ok("it is draining already".to_owned()));
    let refused = world.demand(Demand::Resume).unwrap_err();
    assert!(refused.contains("it is draining"), "{refused}");
    let refused = world.rescale("sums", 4).unwrap_err();
    assert!(refused.contains("draining"), "{refused}");
    world.demand(Demand::Stop { drain: false }).unwrap();
    world.release(1);
    assert_eq!(world.run(), ControllerEnd::Stopped);
    finish(&mut world);
    assert_eq!(world.sorted(0), undisturbed(&manifest, 150));
}
