//! Why leases end: each reason, what becomes of the partition, and that whoever had it before cannot commit any more.

use onceward_connector::{ConnectorError, TargetError};
use onceward_engine::JobEnd;
use onceward_engine::controller::{Action, ControllerEnd, Happening};
use onceward_protocol::CommitOutcome;
use onceward_protocol::lease::{AbortReason, WorkerId};
use onceward_protocol::state::PipelineState;

use crate::pipelines::{FIRST, SECOND_ONE, finish, running, spread, undisturbed, windows};
use crate::world::{LEASE, Pending, SPAN, Seen, Setup, World};

/// Two workers and four partitions, all of them at work.
fn at_work() -> World {
    let mut world = spread(&windows(2, 2), 150);
    world.run_until(|world| world.rows_taken("sums") > 80);
    world
}

/// Runs to the end of the input and compares.
fn complete(world: &mut World) {
    world.bounded = true;
    world.complete();
    assert_eq!(world.sorted(0), undisturbed(&windows(2, 2), 150));
}

fn leases_ended(world: &World, from: usize) -> Vec<(String, WorkerId, AbortReason)> {
    let ended = |happening: Happening| match happening {
        Happening::LeaseEnded { partition, worker, reason } => Some((partition, worker, reason)),
        _ => None,
    };
    world.happenings(from).into_iter().filter_map(ended).collect()
}

#[test]
fn a_job_that_fails_while_the_pipeline_works_ends_the_run_as_failed() {
    let mut world = at_work();
    let before = world.seen.len();
    world.add(1, ["{ no record".to_owned()]);
    let ControllerEnd::Failed(error) = world.run() else { panic!("{:?}", world.end) };
    assert!(error.to_string().starts_with("OW-4001"), "{error}");
    let reasons: Vec<AbortReason> =
        leases_ended(&world, before).into_iter().map(|(_, _, reason)| reason).collect();
    assert_eq!(reasons, [AbortReason::JobFailed]);
    assert!(world.has_happened(0, |happening| matches!(
        happening,
        Happening::JobFailed { partition, .. } if partition == "rows/p1"
    )));
    // It was not asked to stop: the next run tries again.
    assert_eq!(world.layout().state, PipelineState::Working);
    world.crash();
    assert!(matches!(world.run(), ControllerEnd::Failed(_)));
}

#[test]
fn a_target_that_refuses_for_good_ends_the_run_as_failed_and_the_next_run_delivers() {
    let mut world = at_work();
    let number = world.live("sums")[0].number;
    world.faults.push_back((number, TargetError::Definite(ConnectorError::new("OW-3999", "made of cheese"))));
    let ControllerEnd::Failed(error) = world.run() else { panic!("{:?}", world.end) };
    assert!(error.to_string().contains("made of cheese"), "{error}");
    finish(&mut world);
    assert_eq!(world.sorted(0), undisturbed(&windows(2, 2), 150));
}

#[test]
fn the_jobs_of_a_lost_worker_go_to_another_one_with_new_generations_and_theirs_are_fenced() {
    for silently in [true, false] {
        let mut world = at_work();
        let lost = FIRST;
        let had = world.controller().leases().of_worker(lost);
        assert_eq!(had.len(), 2);
        let old: Vec<_> = had.iter().map(|number| (world.id(*number), world.granted(*number))).collect();
        let before = world.seen.len();
        if silently {
            world.cut_off(lost);
        } else {
            world.kill(lost);
        }
        world.run_until(|world| world.all_run() && world.controller().leases().of_worker(lost).is_empty());
        for number in &had {
            let assigned = world.assigned(before, *number);
            assert_eq!(assigned.len(), 1);
            assert_eq!(assigned[0].0, SECOND_ONE);
        }
        for (id, generation) in old {
            let generation = generation.unwrap();
            assert!(matches!(world.late_commit(&id, generation), CommitOutcome::Fenced(_)));
        }
        let reasons: Vec<AbortReason> =
            leases_ended(&world, before).into_iter().map(|(_, _, reason)| reason).collect();
        assert_eq!(reasons, [AbortReason::LostWorker; 2]);
        assert!(world.has_happened(before, |happening| *happening == Happening::WorkerLost(lost)));
        complete(&mut world);
    }
}

#[test]
fn a_worker_is_lost_when_it_was_silent_for_a_lease_and_no_earlier() {
    let mut world = at_work();
    world.cut_off(FIRST);
    let heard = world.now;
    world.run_until(|world| world.has_happened(0, |happening| *happening == Happening::WorkerLost(FIRST)));
    // It was heard at most a quarter of a lease before, and somebody looks every quarter.
    let silent = world.now - heard;
    assert!((LEASE * 3 / 4..=LEASE * 5 / 4).contains(&silent), "lost after {silent}");
}

#[test]
fn a_single_lease_expires_when_its_worker_does_not_report_the_job_any_more() {
    let mut world = at_work();
    let number = world.controller().leases().of_worker(FIRST)[0];
    let (id, label) = (world.id(number), world.id(number).label());
    let old = world.granted(number).unwrap();
    let before = world.seen.len();
    world.jobs.retain(|job| job.partition.number != number);
    world.run_until(|world| !world.assigned(before, number).is_empty());
    assert_eq!(leases_ended(&world, before), [(label, FIRST, AbortReason::Expired)]);
    assert!(!world.has_happened(before, |happening| matches!(happening, Happening::WorkerLost(_))));
    assert!(matches!(world.late_commit(&id, old), CommitOutcome::Fenced(_)));
    assert_eq!(world.assigned(before, number).len(), 1);
    complete(&mut world);
}

#[test]
fn a_job_that_is_reported_and_never_ends_keeps_its_lease() {
    let mut world = at_work();
    let before = world.seen.len();
    world.run_for(20 * LEASE);
    assert_eq!(leases_ended(&world, before), []);
}

#[test]
fn an_assignment_that_never_arrives_is_made_again() {
    let mut world = running(&windows(2, 2), Setup::default(), 150);
    let assignment = |pending: &Pending| matches!(pending, Pending::Action(Action::Assign { .. }));
    let hold = world.hold(assignment);
    world.run_until(|world| world.waiting(assignment) == 4);
    world.lose(|pending| match pending {
        Pending::Action(Action::Assign { assignment, .. }) => assignment.partition.number % 2 == 0,
        _ => false,
    });
    world.release(hold);
    world.run_until(World::all_run);
    let reasons: Vec<AbortReason> =
        leases_ended(&world, 0).into_iter().map(|(_, _, reason)| reason).collect();
    assert_eq!(reasons, [AbortReason::Expired; 2]);
    complete(&mut world);
}

#[test]
fn a_worker_that_was_lost_and_comes_back_must_drop_its_old_jobs_and_can_get_others() {
    let mut world = at_work();
    let back = FIRST;
    let old: Vec<(u32, _)> = world
        .controller()
        .leases()
        .iter()
        .filter(|(_, lease)| lease.worker == back)
        .map(|(number, lease)| (number, lease.generation))
        .collect();
    world.cut_off(back);
    world.run_until(|world| world.all_run() && world.controller().leases().of_worker(back).is_empty());
    let before = world.seen.len();
    world.reconnect(back);
    world.run_until(|world| world.jobs.iter().all(|job| job.worker != back));
    let dropped: Vec<_> = world.seen[before..]
        .iter()
        .filter_map(|seen| match seen {
            Seen::Drop { worker, partition, generation } if *worker == back => {
                Some((*partition, *generation))
            }
            _ => None,
        })
        .collect();
    assert_eq!(dropped, old);
    assert!(world.has_happened(before, |happening| *happening == Happening::WorkerThere(back)));
    // The other one is lost now: whoever came back takes everything.
    world.kill(SECOND_ONE);
    world.run_until(|world| world.all_run() && world.controller().leases().of_worker(back).len() == 4);
    complete(&mut world);
}

#[test]
fn without_workers_jobs_wait_for_the_next_one() {
    let mut world = at_work();
    world.kill(FIRST);
    world.kill(SECOND_ONE);
    world.run_for(5 * LEASE);
    assert!(world.controller().leases().is_empty());
    assert_eq!(world.end, None);
    world.hire();
    world.run_until(World::all_run);
    complete(&mut world);
}

#[test]
fn a_worker_that_is_lost_while_its_grants_are_on_their_way_gets_no_lease() {
    let mut world = running(&windows(2, 2), Setup::default(), 150);
    let grants = |pending: &Pending| matches!(pending, Pending::Action(Action::Transact(_)));
    let hold = world.hold(grants);
    world.run_until(|world| world.waiting(grants) == 1);
    let lost = WorkerId(1);
    world.kill(lost);
    world.run_for(LEASE / 2);
    world.release(hold);
    world.run_until(World::all_run);
    assert_eq!(world.controller().leases().of_worker(WorkerId(2)).len(), 4);
    let to_the_lost =
        world.seen.iter().filter(|seen| matches!(seen, Seen::Assign { worker, .. } if *worker == lost));
    assert_eq!(to_the_lost.count(), 0);
    complete(&mut world);
}

/// Jobs that were told to go elsewhere.
fn retired(world: &World, from: usize) -> Vec<u32> {
    let told = |seen: &Seen| match seen {
        Seen::Tell { partition, event, .. } if event == "Retire" => Some(*partition),
        _ => None,
    };
    world.seen[from..].iter().filter_map(told).collect()
}

#[test]
fn by_load_one_job_moves_it_retires_first_and_then_the_loads_are_at_rest() {
    let mut world = at_work();
    let busy = world.controller().leases().of_worker(FIRST);
    let idle = world.controller().leases().of_worker(SECOND_ONE);
    // All the load is with one worker, on two jobs: one of them is to go.
    busy.iter().for_each(|number| {
        world.claims.insert(*number, 1_000);
    });
    let before = world.seen.len();
    world.run_until(|world| !retired(world, before).is_empty());
    let moved = retired(&world, before)[0];
    assert!(busy.contains(&moved));
    world.run_until(|world| world.all_run() && world.worker_of(moved) == SECOND_ONE);
    // It went on its own: it ended as asked, its lease ended, another was granted; nothing else moved.
    let steps: Vec<&'static str> = world.seen[before..]
        .iter()
        .filter_map(|seen| match seen {
            Seen::Tell { partition, event, .. } if *partition == moved && event == "Retire" => Some("retire"),
            Seen::JobEnded { partition, end, .. } if *partition == moved => {
                assert_eq!(*end, JobEnd::Retired);
                Some("ended")
            }
            Seen::Log(Happening::LeaseEnded { reason, .. }) => {
                assert_eq!(*reason, AbortReason::Rebalanced);
                Some("lease")
            }
            Seen::Transact => Some("grant"),
            Seen::Assign { partition, .. } => {
                assert_eq!(*partition, moved);
                Some("assign")
            }
            _ => None,
        })
        .collect();
    assert_eq!(steps, ["retire", "ended", "lease", "grant", "assign"]);
    world.run_for(40 * SPAN);
    assert_eq!(retired(&world, before), [moved], "loads that stay as they are come to rest");
    idle.iter().for_each(|number| assert_eq!(world.worker_of(*number), SECOND_ONE));
    complete(&mut world);
}

#[test]
fn loads_that_are_even_or_small_move_nothing() {
    let mut world = at_work();
    let before = world.seen.len();
    for number in world.controller().leases().of_worker(FIRST) {
        // Below what counts as work at all.
        world.claims.insert(number, 10);
    }
    world.run_for(40 * SPAN);
    for number in 0..4 {
        world.claims.insert(number, 1_000);
    }
    world.run_for(40 * SPAN);
    assert_eq!(retired(&world, before), Vec::<u32>::new());
}

#[test]
fn a_job_whose_worker_is_lost_while_it_retires_is_replaced_all_the_same() {
    let mut world = at_work();
    for number in world.controller().leases().of_worker(FIRST) {
        world.claims.insert(number, 1_000);
    }
    world.hold(|pending| matches!(pending, Pending::Action(Action::Tell { .. })));
    let told = |pending: &Pending| matches!(pending, Pending::Action(Action::Tell { .. }));
    world.run_until(|world| world.waiting(told) == 1);
    world.kill(FIRST);
    world.release(1);
    world.claims.clear();
    world.run_until(|world| world.all_run() && world.controller().leases().of_worker(SECOND_ONE).len() == 4);
    complete(&mut world);
}
