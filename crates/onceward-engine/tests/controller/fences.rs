//! A target or a record that somebody else has taken: what is forgiven, and what ends the run.

use onceward_connector::TargetError;
use onceward_engine::controller::{Action, ControllerEnd, Happening, Notice};
use onceward_engine::{JobEnd, TargetCall};
use onceward_protocol::lease::{AbortReason, WorkerId};
use onceward_protocol::state::{Demand, PipelineState};
use onceward_protocol::{CommitOutcome, Generation};

use crate::pipelines::{rows, running, undisturbed, windows};
use crate::world::{LEASE, Pending, Seen, Setup, World};

fn fenced() -> TargetError {
    TargetError::Fenced("somebody else writes".to_owned())
}

/// One range that has opened its target.
fn at_work() -> (World, u32) {
    let mut world = running(&windows(1, 1), Setup::default(), 150);
    let number = world.live("sums")[0].number;
    world.run_until(|world| world.all_run() && !world.arrived(0).is_empty());
    (world, number)
}

fn ends(world: &World, from: usize, number: u32) -> Vec<JobEnd> {
    let ended = |seen: &Seen| match seen {
        Seen::JobEnded { partition, end, .. } if *partition == number => Some(end.clone()),
        _ => None,
    };
    world.seen[from..].iter().filter_map(ended).collect()
}

#[test]
fn a_job_that_a_target_fences_once_is_replaced_and_the_successor_takes_the_fence_back() {
    let (mut world, number) = at_work();
    let before = world.seen.len();
    world.faults.push_back((number, fenced()));
    world.run_until(|world| !world.assigned(before, number).is_empty());
    assert!(world.has_happened(before, |happening| matches!(
        happening,
        Happening::LeaseEnded { reason: AbortReason::JobFailed, .. }
    )));
    world.bounded = true;
    world.complete();
    assert_eq!(world.sorted(0), undisturbed(&windows(1, 1), 150));
}

#[test]
fn a_target_that_fences_a_partition_twice_within_a_lease_has_another_owner() {
    let (mut world, number) = at_work();
    let label = world.id(number).label();
    world.faults.extend([(number, fenced()), (number, fenced())]);
    let ControllerEnd::Fenced { partition, reason } = world.run() else { panic!("{:?}", world.end) };
    assert_eq!(partition, label);
    assert!(reason.contains("somebody else writes"), "{reason}");
}

#[test]
fn a_target_that_fences_twice_more_than_a_lease_apart_is_forgiven() {
    let (mut world, number) = at_work();
    for second in [200, 300, 400] {
        let before = world.seen.len();
        world.faults.push_back((number, fenced()));
        // Another window is delivered: a call is made.
        world.add(0, rows(second, 70));
        world.run_until(|world| !world.assigned(before, number).is_empty());
        world.run_for(2 * LEASE);
        assert_eq!(world.end, None);
    }
}

#[test]
fn a_job_that_was_given_up_may_take_the_fence_once_more() {
    let (mut world, number) = at_work();
    // The partition was fenced a moment ago: a second time would be one too many.
    world.faults.push_back((number, fenced()));
    world.run_until(|world| ends(world, 0, number).iter().any(|end| matches!(end, JobEnd::Fenced(_))));
    let first = world.now;
    let is_fence =
        |pending: &Pending| matches!(pending, Pending::Call { call: TargetCall::TakeFence(_), .. });
    let hold = world.hold(is_fence);
    world.run_until(|world| world.waiting(is_fence) == 1);
    // The job that asks for the fence is given up and runs on; its call lands after its successor's open.
    let zombie = world.owner(number).unwrap();
    let (uid, worker) = (zombie.uid, zombie.worker);
    let is_late = move |pending: &Pending| matches!(pending, Pending::Call { uid: of, call: TargetCall::TakeFence(_), .. } if *of == uid);
    world.cut_off(worker);
    world.push(Pending::Notice(Notice::WorkerGone(worker)));
    world.hold(is_late);
    world.release(hold);
    let is_write =
        |pending: &Pending| matches!(pending, Pending::Call { call: TargetCall::Write { .. }, .. });
    let writes = world.hold(is_write);
    world.run_until(|world| world.waiting(is_write) == 1);
    world.carry_out_one(is_late);
    let before = world.seen.len();
    world.release(writes);
    world.run_until(|world| ends(world, before, number).iter().any(|end| matches!(end, JobEnd::Fenced(_))));
    assert!(world.now < first + LEASE, "so late it would be forgiven anyhow");
    world.bounded = true;
    world.complete();
    assert_eq!(world.sorted(0), undisturbed(&windows(1, 1), 150));
}

/// The controller of an older term, with what it had asked for last.
fn replaced_controller(world: &mut World) -> onceward_engine::controller::Controller {
    let old = world.controller.take().unwrap();
    assert!(world.take_control(Demand::Run));
    old
}

#[test]
fn a_controller_of_an_older_term_changes_nothing_and_ends() {
    let (mut world, _) = at_work();
    world.run_for(100_000);
    let mut old = replaced_controller(&mut world);
    let before = (world.layout(), world.granted(0), world.granted(1));
    let mut actions = Vec::new();
    let command = onceward_engine::controller::Command::Demand(Demand::Pause);
    old.handle(world.now, Notice::Asked { id: 1, command }, &mut actions);
    let mut refused = 0;
    for _ in 0..2 {
        let due = std::mem::take(&mut actions);
        for action in due {
            let Action::Transact(operations) = action else { continue };
            let outcome = world.transact(operations);
            assert!(matches!(outcome, CommitOutcome::Fenced(_)), "{outcome:?}");
            refused += 1;
            old.handle(world.now, Notice::Transacted(outcome), &mut actions);
        }
        if refused > 0 {
            break;
        }
    }
    assert_eq!(refused, 1);
    let end = actions.iter().find_map(|action| match action {
        Action::End(end) => Some(end.clone()),
        _ => None,
    });
    assert!(matches!(end, Some(ControllerEnd::Fenced { .. })), "{end:?}");
    assert_eq!((world.layout(), world.granted(0), world.granted(1)), before);
    world.run_until(World::all_run);
    assert_eq!(world.state(), PipelineState::Working);
}

#[test]
fn a_new_controller_takes_every_partition_from_the_jobs_of_the_old_one() {
    let (mut world, _) = at_work();
    world.setup.strays = 1;
    let old: Vec<Generation> = [0, 1].map(|number| world.granted(number).unwrap()).to_vec();
    drop(replaced_controller(&mut world));
    world.run_until(World::all_run);
    for (number, generation) in [0, 1].into_iter().zip(old) {
        let id = world.id(number);
        assert!(world.granted(number).unwrap().number > generation.number);
        assert!(matches!(world.late_commit(&id, generation), CommitOutcome::Fenced(_)));
    }
    // Workers report the old jobs and are told to drop them.
    world.run_for(LEASE);
    assert_eq!(world.jobs.len(), 2);
    assert!(world.seen.iter().any(|seen| matches!(seen, Seen::Drop { worker: WorkerId(_), .. })));
    world.bounded = true;
    world.complete();
    assert_eq!(world.sorted(0), undisturbed(&windows(1, 1), 150));
}
