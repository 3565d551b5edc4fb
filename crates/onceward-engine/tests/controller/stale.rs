//! What comes late, or from somebody else, changes nothing.

use onceward_engine::JobEnd;
use onceward_engine::controller::{Action, JobReport, Notice};
use onceward_protocol::balance::BUCKETS;
use onceward_protocol::lease::{Lease, WorkerId};
use onceward_protocol::{CommitOutcome, Generation};

use crate::pipelines::{FIRST, SECOND_ONE, running, spread, undisturbed, windows};
use crate::world::{LEASE, Pending, Setup, World};

/// All partitions were moved to another worker once and are idle now.
fn after_a_loss() -> (World, Vec<(u32, Generation)>) {
    let mut world = spread(&windows(2, 2), 150);
    world.run_until(|world| world.rows_taken("sums") > 80);
    let leases = world.controller().leases().iter();
    let old: Vec<_> = leases
        .filter(|(_, lease)| lease.worker == FIRST)
        .map(|(number, lease)| (number, lease.generation))
        .collect();
    world.cut_off(FIRST);
    world.run_until(|world| world.all_run() && world.controller().leases().of_worker(FIRST).is_empty());
    world.run_until(|world| {
        world.rows_taken("sums") == 300 && world.waiting(|pending| matches!(pending, Pending::Notice(_))) == 0
    });
    (world, old)
}

fn leases(world: &World) -> Vec<(u32, Lease)> {
    world.controller().leases().iter().map(|(number, lease)| (number, *lease)).collect()
}

/// What the controller does about a notice, apart from asking to be woken.
fn actions_of(world: &mut World, notice: Notice) -> Vec<Action> {
    let mut actions = Vec::new();
    let now = world.now;
    world.controller.as_mut().unwrap().handle(now, notice, &mut actions);
    actions.retain(|action| !matches!(action, Action::Wake(_)));
    actions
}

fn ignores(world: &mut World, notice: Notice) {
    let before = (leases(world), world.controller().standing());
    let said = format!("{notice:?}");
    let actions = actions_of(world, notice);
    assert!(actions.is_empty(), "{said}: {actions:?}");
    assert_eq!((leases(world), world.controller().standing()), before, "{said}");
}

#[test]
fn the_end_of_a_job_that_has_lost_its_lease_changes_nothing_however_it_ended() {
    let (mut world, old) = after_a_loss();
    assert!(!old.is_empty());
    for (partition, generation) in old {
        for end in [
            JobEnd::Completed,
            JobEnd::Stopped,
            JobEnd::Retired,
            JobEnd::Drained,
            JobEnd::Fenced("another job owns the partition".to_owned()),
            JobEnd::Unknown,
            JobEnd::Failed(onceward_engine::EngineError::Plan("it fails".to_owned())),
        ] {
            ignores(&mut world, Notice::Ended { partition, generation, end });
        }
    }
    world.bounded = true;
    world.complete();
    assert_eq!(world.sorted(0), undisturbed(&windows(2, 2), 150));
}

fn report(partition: u32, generation: Generation) -> JobReport {
    JobReport { partition, generation, load: 1_000_000, buckets: [0; BUCKETS] }
}

#[test]
fn a_heartbeat_renews_the_leases_of_its_own_jobs_and_no_other_and_says_which_must_end() {
    let (mut world, old) = after_a_loss();
    let current: Vec<_> = leases(&world).iter().map(|(number, lease)| (*number, lease.generation)).collect();
    world.now += LEASE / 8;
    let before = leases(&world);
    // A stranger reports an old generation, and the current one, which is another worker's; the owner an old one.
    let owner = SECOND_ONE;
    let stranger = WorkerId(77);
    let strangers = old.iter().chain(&current).map(|job| (stranger, *job));
    for (worker, (partition, generation)) in strangers.chain(old.iter().map(|job| (owner, *job))) {
        let sent_at = world.now;
        let jobs = vec![report(partition, generation)];
        let actions = actions_of(&mut world, Notice::Heartbeat { worker, sent_at, jobs });
        let drops = actions.iter().any(|action| {
            matches!(action, Action::Drop { worker: whose, partition: of, generation: which }
                if *whose == worker && *of == partition && *which == generation)
        });
        assert!(drops, "{actions:?}");
        assert_eq!(leases(&world), before, "renewed by {worker}");
    }
    let mine: Vec<JobReport> =
        before.iter().map(|(number, lease)| report(*number, lease.generation)).collect();
    let sent_at = world.now;
    let beat = Notice::Heartbeat { worker: SECOND_ONE, sent_at, jobs: mine };
    let actions = actions_of(&mut world, beat);
    assert!(!actions.iter().any(|action| matches!(action, Action::Drop { .. })), "{actions:?}");
    assert!(actions.iter().any(|action| matches!(
        action,
        Action::Renewed { worker: SECOND_ONE, sent_at: at } if *at == sent_at
    )));
    for ((_, new), (_, old)) in leases(&world).iter().zip(&before) {
        assert_eq!(new.expires_at, sent_at + LEASE);
        assert!(new.expires_at > old.expires_at);
    }
}

#[test]
fn answers_to_questions_that_nobody_asked_change_nothing() {
    let (mut world, _) = after_a_loss();
    ignores(&mut world, Notice::Transacted(CommitOutcome::Committed));
    ignores(&mut world, Notice::Transacted(CommitOutcome::Unknown));
    ignores(&mut world, Notice::Loaded(Vec::new()));
    ignores(&mut world, Notice::Settled(1));
    ignores(&mut world, Notice::WorkerGone(WorkerId(99)));
    ignores(&mut world, Notice::WorkerGone(FIRST));
    ignores(&mut world, Notice::ReadToEnd(0));
    let generation = world.granted(0).unwrap();
    ignores(&mut world, Notice::Ended { partition: 99, generation, end: JobEnd::Stopped });
}

#[test]
fn a_store_that_does_not_answer_a_transaction_ends_the_run() {
    use onceward_engine::controller::ControllerEnd;
    let mut world = running(&windows(1, 1), Setup::default(), 10);
    let transaction = |pending: &Pending| matches!(pending, Pending::Action(Action::Transact(_)));
    world.run_until(|world| world.waiting(transaction) == 1);
    world.lose(transaction);
    world.hear(Notice::Transacted(CommitOutcome::Unknown));
    assert_eq!(world.end, Some(ControllerEnd::StoreFailed));
}
