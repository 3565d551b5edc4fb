//! Key ranges are re-cut while the pipeline works, and nobody can tell from the results.

use std::collections::BTreeMap;

use onceward_engine::controller::{Command, ControllerEnd, Happening, Notice};
use onceward_protocol::KeyRange;
use onceward_protocol::lease::AbortReason;
use onceward_protocol::state::{Demand, PipelineState};

use crate::look::Fold;
use crate::manifest::Manifest;
use crate::pipelines::{finish, process, rows, running, spread, two_stages, undisturbed, windows};
use crate::world::{Pending, Seen, Setup, World};

fn at_work(manifest: &Manifest, taken: u64) -> World {
    let mut world = running(manifest, Setup::default(), 150);
    world.run_until(|world| world.all_run() && world.rows_taken("sums") >= taken);
    world
}

/// Everything is taken, stored and delivered.
fn quiet(world: &mut World, messages: u64) -> Fold {
    world.run_until(|world| world.rows_taken("sums") == messages);
    world.run_for(1_000_000);
    world.fold("sums")
}

fn complete(world: &mut World, manifest: &Manifest) {
    world.bounded = true;
    world.complete();
    assert_eq!(world.sorted(0), undisturbed(manifest, 150));
}

fn is_of(world: &World, computation: &str) -> Vec<u32> {
    world.live(computation).iter().map(|range| range.number).collect()
}

/// The windows of a key arrive in order, whatever range they come from.
fn assert_order_per_key(world: &World) {
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    for row in world.arrived(0) {
        let value: serde_json::Value = serde_json::from_str(&row).unwrap();
        let time = value.get("window_start").or(value.get("at")).unwrap().to_string();
        let time = format!("{time:0>30}");
        let before = last.insert(value["k"].to_string(), time.clone());
        assert!(before.is_none_or(|before| before < time), "{row} came after a later one");
    }
}

#[test]
fn rows_state_timers_and_counters_are_the_same_from_one_range_to_four_and_back() {
    for manifest in [windows(2, 1), process(2, 1)] {
        let mut plain = at_work(&manifest, 0);
        let expected = quiet(&mut plain, 300);
        let mut world = at_work(&manifest, 30);
        for ranges in [4, 1, 3] {
            world.rescale("sums", ranges).unwrap();
            world.run_until(|world| world.has_ranges("sums", ranges as usize));
        }
        assert_eq!(quiet(&mut world, 300), expected);
        assert!(!expected.state.is_empty() && expected.counters.rows_in == 300);
        assert_eq!(world.sorted(0), plain.sorted(0));
        // And once more when everything has come to rest.
        for ranges in [1, 4] {
            world.rescale("sums", ranges).unwrap();
            world.run_until(|world| world.has_ranges("sums", ranges as usize));
            assert_eq!(quiet(&mut world, 300), expected);
        }
        complete(&mut world, &manifest);
        assert_order_per_key(&world);
    }
}

#[test]
fn timers_that_wait_move_with_their_keys() {
    let manifest = process(1, 1);
    let mut world = at_work(&manifest, 150);
    let before = quiet(&mut world, 150);
    assert!(!before.timers.is_empty());
    world.rescale("sums", 4).unwrap();
    world.run_until(|world| world.has_ranges("sums", 4));
    assert_eq!(quiet(&mut world, 150), before);
    let owners = is_of(&world, "sums");
    let with_timers =
        owners.iter().filter(|number| !world.stored(&world.id(**number)).timers.is_empty()).count();
    assert!(with_timers > 1, "all timers are with one range: the test shows nothing");
    complete(&mut world, &manifest);
}

#[test]
fn another_computation_takes_the_same_from_ranges_that_come_and_go() {
    let manifest = two_stages(2, 2);
    let mut world = at_work(&manifest, 30);
    for ranges in [4, 1, 2] {
        world.rescale("sums", ranges).unwrap();
        world.run_until(|world| world.has_ranges("sums", ranges as usize));
        world.rescale("sizes", ranges).unwrap();
        world.run_until(|world| world.has_ranges("sizes", ranges as usize));
    }
    complete(&mut world, &manifest);
    let mut plain = at_work(&manifest, 0);
    plain.bounded = true;
    plain.complete();
    assert_eq!(world.sorted(1), plain.sorted(1));
}

#[test]
fn every_range_is_owned_by_exactly_one_partition_at_every_moment() {
    let mut world = at_work(&windows(2, 1), 30);
    world.rescale("sums", 4).unwrap();
    let mut versions = Vec::new();
    world.run_until(|world| {
        let layout = world.layout();
        let mut next = Some(0);
        for range in layout.keyed[0].live() {
            assert_eq!(Some(range.range.first), next, "{:?}", layout.keyed[0]);
            next = range.range.last.checked_add(1);
        }
        assert_eq!(next, None);
        versions.push(layout.version);
        world.has_ranges("sums", 4)
    });
    assert!(versions.is_sorted());
}

#[test]
fn parents_are_drained_and_gone_with_every_row_and_what_they_delivered_still_counts() {
    let manifest = windows(2, 1);
    let mut world = at_work(&manifest, 222);
    world.run_until(|world| !world.arrived(0).is_empty());
    let parent = world.id(is_of(&world, "sums")[0]);
    let label = parent.label();
    world.rescale("sums", 4).unwrap();
    world.run_until(|world| world.has_ranges("sums", 4));
    assert_eq!(world.stored_rows(&parent), 0);
    assert_eq!(world.rows_of(&parent).head.granted, None);
    assert!(world.has_happened(0, |happening| *happening == Happening::Drained(label.clone())));
    assert!(world.layout().delivered["out"] > 0, "the parent's rows count on");
    quiet(&mut world, 300);
    assert_eq!(world.delivered("out"), world.arrived(0).len() as u64);
    world.rescale("sums", 1).unwrap();
    world.run_until(|world| world.has_ranges("sums", 1));
    quiet(&mut world, 300);
    assert_eq!(world.delivered("out"), world.arrived(0).len() as u64);
    complete(&mut world, &manifest);
    assert_eq!(world.delivered("out"), world.arrived(0).len() as u64);
    // What is gone stays gone, and cannot come back.
    world.assert_nothing_is_live();
}

#[test]
fn while_a_parent_owes_rows_its_children_deliver_nothing_and_go_on_taking() {
    let manifest = windows(2, 1);
    let mut world = at_work(&manifest, 200);
    let parent = is_of(&world, "sums")[0];
    // One of its calls is out, and more than that is owed: it retires as soon as that call is answered.
    let call =
        move |pending: &Pending| matches!(pending, Pending::Call { partition, .. } if *partition == parent);
    let hold = world.hold(call);
    world.run_until(|world| {
        let outbox = world.stored(&world.id(parent)).outbox;
        world.waiting(call) == 1 && outbox.values().flatten().map(|(_, chunk)| chunk.len()).sum::<usize>() > 5
    });
    world.rescale("sums", 2).unwrap();
    world.run_until(|world| {
        world.seen.iter().any(
            |seen| matches!(seen, Seen::Tell { partition, event, .. } if *partition == parent && event == "Retire"),
        )
    });
    world.release(hold);
    world.carry_out_one(call);
    world.hold(call);
    world.run_until(|world| world.live("sums").len() == 2);
    assert!(!world.stored(&world.id(parent)).outbox.is_empty(), "nothing is owed: the test shows nothing");
    let children = is_of(&world, "sums");
    let before = world.seen.len();
    world.add(0, rows(300, 200));
    world.add(1, rows(303, 200));
    world.run_until(|world| world.rows_taken("sums") == 700);
    world.run_for(1_000_000);
    let released = |world: &World| {
        world.seen[before..]
            .iter()
            .filter(|seen| matches!(seen, Seen::Called { partition, .. } if children.contains(partition)))
            .count()
    };
    assert_eq!(released(&world), 0, "a child delivered before its parent was drained");
    world.release(hold + 1);
    world.run_until(|world| world.has_ranges("sums", 2));
    world.run_for(1_000_000);
    assert!(released(&world) > 0);
    assert_order_per_key(&world);
}

/// A pause, a drain or a stop, and where each leads.
const DEMANDS: [(Demand, PipelineState); 3] = [
    (Demand::Pause, PipelineState::Paused),
    (Demand::Stop { drain: true }, PipelineState::Stopped),
    (Demand::Stop { drain: false }, PipelineState::Stopped),
];

fn run_to(world: &mut World, state: PipelineState) {
    world.run_until(|world| world.end.is_some() || world.state() == PipelineState::Paused);
    assert_eq!(world.layout().state, state);
    world.assert_nothing_is_live();
}

#[test]
fn what_is_asked_while_the_parents_are_ending_cancels_the_step() {
    for (demand, state) in DEMANDS {
        let manifest = windows(2, 1);
        let mut world = at_work(&manifest, 111);
        let parent = is_of(&world, "sums")[0];
        let hold = world.hold(
            move |pending| matches!(pending, Pending::Commit { partition, .. } if *partition == parent),
        );
        world.rescale("sums", 2).unwrap();
        world.run_until(|world| {
            world.has_happened(0, |happening| matches!(happening, Happening::RecutBegun { .. }))
        });
        world.run_for(10_000);
        let version = world.layout().version;
        world.demand(demand).unwrap();
        world.release(hold);
        run_to(&mut world, state);
        assert_eq!(world.layout().version, version, "it was re-cut all the same");
        assert_eq!(is_of(&world, "sums"), [parent]);
        // What was asked for is not forgotten: it is done when the pipeline works again.
        world.setup.strays = 1;
        finish_with_ranges(&mut world, 2);
        assert_eq!(world.sorted(0), undisturbed(&manifest, 150));
    }
}

/// The next run goes on until there are so many ranges, and then to the end.
fn finish_with_ranges(world: &mut World, ranges: usize) {
    let demand = match world.layout().state {
        PipelineState::Paused => Demand::Resume,
        _ => Demand::Run,
    };
    world.lose_power();
    assert!(world.try_start(demand));
    world.run_until(|world| world.has_ranges("sums", ranges));
    world.bounded = true;
    world.complete();
}

#[test]
fn what_is_asked_while_rows_are_moving_waits_until_they_have_moved() {
    for (demand, state) in DEMANDS {
        for at_load in [true, false] {
            let manifest = windows(2, 1);
            let mut world = at_work(&manifest, 111);
            world.rescale("sums", 2).unwrap();
            world.run_until(|world| {
                world.has_happened(0, |happening| {
                    matches!(happening, Happening::LeaseEnded { reason: AbortReason::Recut, .. })
                })
            });
            let loaded = |pending: &Pending| matches!(pending, Pending::Notice(Notice::Loaded(_)));
            let hold = world.hold(loaded);
            if at_load {
                world.run_until(|world| world.waiting(loaded) == 1);
            }
            let version = world.layout().version;
            let before = world.seen.len();
            world.demand(demand).unwrap();
            world.run_for(5_000);
            world.release(hold);
            // Until the rows have moved nobody is told to end.
            world.run_until(|world| world.layout().version > version);
            let told = world.seen[before..].iter().filter(|seen| match seen {
                Seen::Tell { event, .. } => event.starts_with("Stop") || event == "Halt",
                _ => false,
            });
            assert_eq!(told.count(), 0);
            run_to(&mut world, state);
            assert_eq!(is_of(&world, "sums").len(), 2);
            finish(&mut world);
            assert_eq!(world.sorted(0), undisturbed(&manifest, 150));
        }
    }
}

#[test]
fn a_parent_whose_worker_is_lost_while_it_ends_is_re_cut_from_what_it_had_committed() {
    for silently in [true, false] {
        let manifest = process(2, 2);
        let mut world = spread(&manifest, 150);
        world.run_until(|world| world.rows_taken("sums") > 111);
        let parents = is_of(&world, "sums");
        let lost = world.worker_of(parents[0]);
        // What the lost one had taken and not committed is lost with it.
        let theirs = parents[0];
        world.hold(
            move |pending| matches!(pending, Pending::Commit { partition, .. } if *partition == theirs),
        );
        world.rescale("sums", 1).unwrap();
        world.run_until(|world| {
            world.has_happened(0, |happening| matches!(happening, Happening::RecutBegun { .. }))
        });
        world.run_for(5_000);
        if silently {
            world.cut_off(lost);
        } else {
            world.kill(lost);
            world.lose(
                move |pending| matches!(pending, Pending::Commit { partition, .. } if *partition == theirs),
            );
        }
        world.run_until(|world| world.live("sums").len() == 1);
        // A late commit of the lost parent's job finds that its partition is not its own any more.
        world.release(1);
        world.run_until(|world| world.has_ranges("sums", 1));
        complete(&mut world, &manifest);
    }
}

#[test]
fn a_parent_that_completes_meanwhile_cancels_the_step() {
    let manifest = windows(2, 2);
    let mut world = at_work(&manifest, 111);
    world.bounded = true;
    let completed = |pending: &Pending| {
        matches!(
            pending,
            Pending::Notice(Notice::Ended { partition: 2 | 3, end: onceward_engine::JobEnd::Completed, .. })
        )
    };
    let hold = world.hold(completed);
    world.run_until(|world| world.waiting(completed) == 2);
    let version = world.layout().version;
    let before = world.seen.len();
    world.rescale("sums", 1).unwrap();
    world.run_until(|world| {
        world.has_happened(before, |happening| matches!(happening, Happening::RecutBegun { .. }))
    });
    world.release(hold);
    world.complete();
    assert!(world.has_happened(before, |happening| *happening == Happening::RecutCancelled));
    assert_eq!(world.layout().version, version);
    assert_eq!(world.sorted(0), undisturbed(&manifest, 150));
}

#[test]
fn a_second_rescale_meanwhile_is_refused_and_later_taken() {
    let manifest = windows(2, 1);
    let mut world = at_work(&manifest, 111);
    let answer = world.rescale("sums", 2).unwrap();
    assert!(answer.contains("from 1 to 2"), "{answer}");
    let mut refused = 0;
    world.run_until(|world| {
        world.live("sums").len() == 2
            || world.has_happened(0, |happening| matches!(happening, Happening::RecutBegun { .. }))
    });
    for _ in 0..1_000 {
        if world.live("sums").len() == 2 {
            break;
        }
        let sentence = world.rescale("sums", 3).unwrap_err();
        assert!(sentence.contains("under way") && sentence.contains("try again"), "{sentence}");
        refused += 1;
        world.step();
    }
    assert!(refused > 2);
    world.run_until(|world| world.has_ranges("sums", 2));
    world.rescale("sums", 3).unwrap();
    world.run_until(|world| world.has_ranges("sums", 3));
    complete(&mut world, &manifest);
}

#[test]
fn a_rescale_that_cannot_be_done_says_why_and_names_what_there_is() {
    let mut world = at_work(&two_stages(1, 1), 50);
    world.run_for(100_000);
    let version = world.layout().version;
    let refused = world.rescale("summs", 2).unwrap_err();
    assert!(refused.contains("summs") && refused.contains("sums, sizes"), "{refused}");
    for ranges in [0, 4097, u32::MAX] {
        let refused = world.rescale("sums", ranges).unwrap_err();
        assert!(refused.contains("4096"), "{refused}");
    }
    world.run_for(500_000);
    assert_eq!(world.layout().version, version);
    let mut plain = running(&crate::pipelines::plain(1), Setup::default(), 10);
    plain.run_until(World::all_run);
    let refused = plain.rescale("sums", 2).unwrap_err();
    assert!(refused.contains("nothing in this pipeline is grouped by a key"), "{refused}");
}

#[test]
fn without_a_wanted_number_the_manifests_hold_again() {
    let manifest = windows(2, 2);
    let mut world = at_work(&manifest, 50);
    world.rescale("sums", 4).unwrap();
    world.run_until(|world| world.has_ranges("sums", 4));
    world.run_until(|world| world.waiting(|pending| matches!(pending, Pending::Notice(_))) == 0);
    world.ask(Command::Rescale { computation: "sums".to_owned(), ranges: None }).unwrap();
    world.run_until(|world| world.has_ranges("sums", 2));
    complete(&mut world, &manifest);
}

#[test]
fn a_range_is_cut_where_the_load_is_and_merges_join_neighbours() {
    let mut world = at_work(&windows(2, 1), 300);
    world.rescale("sums", 2).unwrap();
    world.run_until(|world| world.has_ranges("sums", 2));
    let taken: Vec<usize> =
        is_of(&world, "sums").iter().map(|number| world.stored(&world.id(*number)).state.len()).collect();
    assert!(taken.iter().all(|keys| *keys > 0), "one child has everything: {taken:?}");
    world.rescale("sums", 1).unwrap();
    world.run_until(|world| world.has_ranges("sums", 1));
    assert_eq!(world.live("sums")[0].range, KeyRange { first: 0, last: u64::MAX });
}

#[test]
fn a_job_that_fails_while_it_retires_ends_the_run_and_nothing_was_moved() {
    let manifest = windows(2, 1);
    let mut world = at_work(&manifest, 222);
    let parent = is_of(&world, "sums")[0];
    let call =
        move |pending: &Pending| matches!(pending, Pending::Call { partition, .. } if *partition == parent);
    let hold = world.hold(call);
    world.run_until(|world| world.waiting(call) == 1);
    world.rescale("sums", 2).unwrap();
    world.run_until(|world| {
        world.has_happened(0, |happening| matches!(happening, Happening::RecutBegun { .. }))
    });
    let error = onceward_connector::ConnectorError::new("OW-3999", "made of cheese");
    world.faults.push_back((parent, onceward_connector::TargetError::Definite(error)));
    world.release(hold);
    assert!(matches!(world.run(), ControllerEnd::Failed(_)));
    assert_eq!(is_of(&world, "sums"), [parent]);
    finish(&mut world);
    assert_eq!(world.sorted(0), undisturbed(&manifest, 150));
}

#[test]
fn a_stop_waits_until_a_drained_range_has_left_the_layout() {
    let mut world = at_work(&windows(2, 1), 300);
    world.run_for(100_000);
    world.rescale("sums", 2).unwrap();
    world.run_until(|world| world.live("sums").len() == 2);
    let loaded = |pending: &Pending| matches!(pending, Pending::Notice(Notice::Loaded(_)));
    let hold = world.hold(loaded);
    world.run_until(|world| world.waiting(loaded) == 1);
    world.demand(Demand::Stop { drain: false }).unwrap();
    world.run_for(200_000);
    assert_eq!(world.end, None);
    world.release(hold);
    assert_eq!(world.run(), ControllerEnd::Stopped);
    assert_eq!(world.layout().keyed[0].ranges.len(), 2, "the drained range is still there");
}

#[test]
fn a_consumer_that_has_completed_takes_the_lanes_of_producers_that_a_re_cut_brings() {
    let manifest = two_stages(2, 2);
    let mut world = at_work(&manifest, 222);
    world.bounded = true;
    // The producers owe rows to a sink, so that they have not completed when their consumers have.
    let call = |pending: &Pending| matches!(pending, Pending::Call { partition: 2 | 3, .. });
    let hold = world.hold(call);
    let completed = |world: &World, number: u32| {
        world.owner(number).is_some_and(|job| job.end == Some(onceward_engine::JobEnd::Completed))
    };
    world.run_until(|world| completed(world, 4) && completed(world, 5));
    assert!(!completed(&world, 2) && !completed(&world, 3));
    let before = world.seen.len();
    world.rescale("sums", 1).unwrap();
    world.run_until(|world| {
        world.has_happened(before, |happening| matches!(happening, Happening::RecutBegun { .. }))
    });
    world.run_for(10_000);
    world.release(hold);
    world.complete();
    assert!(world.has_happened(before, |happening| matches!(happening, Happening::RecutDone { .. })));
    assert_eq!(world.sorted(0), undisturbed(&manifest, 150));
}
