//! Pausing, and what comes after it.

use onceward_engine::JobEnd;
use onceward_engine::controller::{Action, ControllerEnd, Happening, Notice};
use onceward_protocol::lease::WorkerId;
use onceward_protocol::state::{Demand, PipelineState};

use crate::manifest::Manifest;
use crate::pipelines::{FIRST, finish, running, spread, two_stages, undisturbed, windows};
use crate::world::{Pending, Seen, Setup, World};

fn at_work(manifest: &Manifest, taken: u64) -> World {
    let mut world = running(manifest, Setup::default(), 150);
    world.run_until(|world| world.all_run() && world.rows_taken("sums") >= taken);
    world
}

fn is_call(pending: &Pending) -> bool {
    matches!(pending, Pending::Call { .. })
}

fn is_end(pending: &Pending) -> bool {
    matches!(pending, Pending::Notice(Notice::Ended { .. }))
}

/// Runs to the end of the input and compares.
fn complete(world: &mut World, manifest: &Manifest) {
    world.bounded = true;
    world.complete();
    assert_eq!(world.sorted(0), undisturbed(manifest, 150));
}

fn said(world: &World, from: usize) -> Vec<PipelineState> {
    let state = |happening: Happening| match happening {
        Happening::State(state) => Some(state),
        _ => None,
    };
    world.happenings(from).into_iter().filter_map(state).collect()
}

#[test]
fn a_paused_pipeline_goes_on_with_a_resume_as_if_nothing_had_been() {
    for taken in [0, 1, 40, 111, 222, 300] {
        let manifest = two_stages(2, 2);
        let mut world = at_work(&manifest, taken);
        let before = world.seen.len();
        world.demand(Demand::Pause).unwrap();
        world.run_until(|world| world.state() == PipelineState::Paused);
        world.run_for(1_000_000);
        assert_eq!(world.demand(Demand::Pause), Ok("it is paused already".to_owned()));
        assert_eq!(world.demand(Demand::Resume), Ok("working again".to_owned()));
        world.run_until(|world| world.all_run() && world.layout().state == PipelineState::Working);
        use PipelineState::{Paused, Pausing, Working};
        assert_eq!(said(&world, before), [Pausing, Paused, Working]);
        complete(&mut world, &manifest);
    }
}

#[test]
fn a_pause_ends_jobs_where_they_are_and_starts_no_call() {
    let manifest = windows(2, 2);
    let mut world = at_work(&manifest, 222);
    let hold = world.hold(is_call);
    world.run_until(|world| world.waiting(is_call) == 2);
    let before = world.seen.len();
    world.demand(Demand::Pause).unwrap();
    world.run_for(50_000);
    world.release(hold);
    world.run_until(|world| world.state() == PipelineState::Paused);
    let calls = world.seen[before..].iter().filter(|seen| matches!(seen, Seen::Called { .. })).count();
    assert_eq!(calls, 2, "those that were open");
    let owed: usize =
        world.live("sums").iter().map(|range| world.stored(&world.id(range.number)).outbox.len()).sum();
    assert!(owed > 0, "what is owed is stored and waits");
    world.demand(Demand::Resume).unwrap();
    complete(&mut world, &manifest);
}

#[test]
fn paused_is_reported_only_after_every_open_call_has_been_answered_whosever_it_is() {
    let manifest = windows(2, 2);
    let mut world = at_work(&manifest, 222);
    // A worker is lost with a call open: its job is given up, and the call may still arrive.
    let hold = world.hold(is_call);
    world.run_until(|world| world.waiting(is_call) == 2);
    let number = world.live("sums")[0].number;
    let of_the_lost =
        move |pending: &Pending| matches!(pending, Pending::Call { partition, .. } if *partition == number);
    world.cut_off(world.worker_of(number));
    world.hold(of_the_lost);
    world.release(hold);
    world.demand(Demand::Pause).unwrap();
    world.run_until(|world| world.controller().leases().is_empty());
    world.run_for(1_000_000);
    assert_eq!(world.waiting(of_the_lost), 1);
    assert_eq!(world.state(), PipelineState::Pausing);
    assert_eq!(world.layout().state, PipelineState::Pausing);
    let before = world.seen.len();
    world.release(2);
    world.run_until(|world| world.state() == PipelineState::Paused);
    let order: Vec<&str> = world.seen[before..]
        .iter()
        .filter_map(|seen| match seen {
            Seen::Called { .. } => Some("answered"),
            Seen::Log(Happening::State(PipelineState::Paused)) => Some("said"),
            _ => None,
        })
        .collect();
    // The job that runs on may make another one.
    let (said, answered) = order.split_last().unwrap();
    assert!(*said == "said" && !answered.is_empty() && answered.iter().all(|what| *what == "answered"));
    finish(&mut world);
    assert_eq!(world.sorted(0), undisturbed(&manifest, 150));
}

#[test]
fn stopped_and_completed_are_reported_only_then_too() {
    for demand in [Some(Demand::Stop { drain: true }), Some(Demand::Stop { drain: false }), None] {
        let manifest = windows(2, 2);
        let mut world = at_work(&manifest, 222);
        let hold = world.hold(is_call);
        world.run_until(|world| world.waiting(is_call) == 2);
        let zombie = world.owner(world.live("sums")[0].number).unwrap();
        let (uid, worker) = (zombie.uid, zombie.worker);
        world.cut_off(worker);
        let theirs = move |pending: &Pending| matches!(pending, Pending::Call { uid: of, .. } if *of == uid);
        let late = world.hold(theirs);
        world.release(hold);
        match demand {
            Some(demand) => drop(world.demand(demand).unwrap()),
            None => world.bounded = true,
        }
        world.run_for(2_000_000);
        assert_eq!(world.end, None, "{demand:?}");
        world.release(late);
        world.run_until(|world| world.end.is_some());
        if demand.is_some() {
            finish(&mut world);
        }
        assert_eq!(world.sorted(0), undisturbed(&manifest, 150));
    }
}

#[test]
fn a_resume_while_jobs_are_ending_lets_all_of_them_go_on() {
    // So many jobs have ended when it comes.
    for ended in 0..=4 {
        let manifest = windows(2, 2);
        let mut world = at_work(&manifest, 111);
        let hold = world.hold(is_end);
        world.demand(Demand::Pause).unwrap();
        world.run_until(|world| world.waiting(is_end) == 4);
        for _ in 0..ended {
            world.carry_out_one(is_end);
        }
        assert_eq!(world.state(), PipelineState::Pausing);
        world.demand(Demand::Resume).unwrap();
        world.release(hold);
        world.run_until(|world| world.all_run() && world.layout().state == PipelineState::Working);
        complete(&mut world, &manifest);
    }
}

#[test]
fn an_answer_about_calls_that_was_asked_for_before_a_resume_does_not_count_for_the_next_pause() {
    let manifest = windows(2, 2);
    let mut world = at_work(&manifest, 222);
    let settled = |pending: &Pending| matches!(pending, Pending::Notice(Notice::Settled(_)));
    world.hold(settled);
    world.demand(Demand::Pause).unwrap();
    world.run_until(|world| world.waiting(settled) == 1);
    world.demand(Demand::Resume).unwrap();
    world.run_until(World::all_run);
    let hold = world.hold(is_call);
    world.run_until(|world| world.waiting(is_call) > 0);
    world.demand(Demand::Pause).unwrap();
    // The jobs are lost with their workers; whether their calls arrive is not known yet.
    world.kill(WorkerId(1));
    world.kill(WorkerId(2));
    let asked = |pending: &Pending| matches!(pending, Pending::Action(Action::Settle(_)));
    world.run_until(|world| world.waiting(asked) == 1);
    assert!(world.waiting(is_call) > 0);
    world.carry_out_one(settled);
    world.run_for(1_000_000);
    assert_eq!(world.state(), PipelineState::Pausing, "an old answer was taken for a new one");
    world.release(hold);
    world.run_for(100_000);
    while world.waiting(settled) > 0 {
        world.carry_out_one(settled);
    }
    world.run_until(|world| world.state() == PipelineState::Paused);
    finish(&mut world);
    assert_eq!(world.sorted(0), undisturbed(&manifest, 150));
}

#[test]
fn a_stop_of_a_paused_pipeline_ends_the_run_and_the_record_says_stopped() {
    let manifest = windows(2, 2);
    let mut world = at_work(&manifest, 111);
    world.demand(Demand::Pause).unwrap();
    world.run_until(|world| world.state() == PipelineState::Paused);
    let refused = world.demand(Demand::Stop { drain: true }).unwrap_err();
    assert!(refused.contains("onceward resume"), "{refused}");
    assert_eq!(world.state(), PipelineState::Paused);
    let refused = world.rescale("sums", 4).unwrap_err();
    assert!(refused.contains("paused"), "{refused}");
    world.demand(Demand::Stop { drain: false }).unwrap();
    assert_eq!(world.run(), ControllerEnd::Stopped);
    assert_eq!(world.layout().state, PipelineState::Stopped);
    world.assert_nothing_is_live();
    finish(&mut world);
    assert_eq!(world.sorted(0), undisturbed(&manifest, 150));
}

#[test]
fn a_stop_while_jobs_are_pausing_ends_the_run_as_stopped() {
    let manifest = windows(2, 2);
    let mut world = at_work(&manifest, 111);
    let hold = world.hold(is_end);
    world.demand(Demand::Pause).unwrap();
    world.run_until(|world| world.waiting(is_end) == 4);
    let refused = world.demand(Demand::Stop { drain: true }).unwrap_err();
    assert!(refused.contains("--no-drain"), "{refused}");
    world.demand(Demand::Stop { drain: false }).unwrap();
    let refused = world.demand(Demand::Resume).unwrap_err();
    assert!(refused.contains("stopping"), "{refused}");
    world.release(hold);
    assert_eq!(world.run(), ControllerEnd::Stopped);
    world.assert_nothing_is_live();
    finish(&mut world);
    assert_eq!(world.sorted(0), undisturbed(&manifest, 150));
}

#[test]
fn a_worker_that_is_lost_while_it_pauses_keeps_nobody_from_pausing() {
    for silently in [true, false] {
        let manifest = windows(2, 2);
        let mut world = spread(&manifest, 150);
        world.run_until(|world| world.rows_taken("sums") > 111);
        // Its jobs cannot commit what they have taken.
        let hold = world.hold(|pending| matches!(pending, Pending::Commit { .. }));
        world.demand(Demand::Pause).unwrap();
        world.run_for(10_000);
        if silently {
            world.cut_off(FIRST);
        } else {
            world.kill(FIRST);
        }
        world.run_for(100_000);
        assert_eq!(world.state(), PipelineState::Pausing);
        assert!(world.controller().leases().of_worker(FIRST).is_empty());
        world.release(hold);
        world.run_until(|world| world.state() == PipelineState::Paused);
        world.assert_nothing_is_live();
        world.demand(Demand::Resume).unwrap();
        complete(&mut world, &manifest);
    }
}

#[test]
fn a_pause_is_gone_on_with_after_a_crash_at_any_moment() {
    let manifest = two_stages(2, 2);
    for steps in (1..120).step_by(5) {
        let mut world = at_work(&manifest, 111);
        world.demand(Demand::Pause).unwrap();
        for _ in 0..steps {
            world.step();
        }
        let state = world.layout().state;
        if state == PipelineState::Pausing {
            world.crash();
            assert_eq!(world.state(), PipelineState::Pausing);
            world.run_until(|world| world.state() == PipelineState::Paused);
            world.assert_nothing_is_live();
        }
        finish(&mut world);
        assert_eq!(world.sorted(0), undisturbed(&manifest, 150));
    }
}

#[test]
fn a_job_ends_once_for_a_pause_and_no_other_job_of_its_partition_begins() {
    let mut world = at_work(&windows(2, 2), 111);
    let before = world.seen.len();
    world.demand(Demand::Pause).unwrap();
    world.run_until(|world| world.state() == PipelineState::Paused);
    let mut ended: Vec<u32> = Vec::new();
    for seen in &world.seen[before..] {
        if let Seen::JobEnded { partition, end, .. } = seen {
            assert_eq!(*end, JobEnd::Stopped);
            ended.push(*partition);
        }
    }
    ended.sort_unstable();
    assert_eq!(ended, [0, 1, 2, 3]);
}
