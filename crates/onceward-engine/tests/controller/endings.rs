//! After pause, stop and completion no lease is live, the record says so in the same transaction, and no job that ever
//! was can commit any more.

use onceward_engine::controller::{Action, Command, ControllerEnd, Notice};
use onceward_engine::stored::lane_key;
use onceward_protocol::lease::WorkerId;
use onceward_protocol::state::{Demand, PipelineState};
use onceward_protocol::{CommitOutcome, LanePoint, Position};
use onceward_store::Operation;

use crate::manifest::Manifest;
use crate::pipelines::{fill, finish, running, two_stages, undisturbed, windows};
use crate::rules::record_in;
use crate::world::{Pending, Seen, Setup, World};

/// What is asked for, and where it leads.
const DEMANDS: [(Demand, PipelineState); 3] = [
    (Demand::Pause, PipelineState::Paused),
    (Demand::Stop { drain: true }, PipelineState::Stopped),
    (Demand::Stop { drain: false }, PipelineState::Stopped),
];

/// Messages taken by the windows when something is asked for; of 300.
const MOMENTS: [u64; 6] = [0, 1, 40, 111, 222, 300];

fn at_moment(manifest: &Manifest, taken: u64) -> World {
    let mut world = running(manifest, Setup::default(), 150);
    world.run_until(|world| world.all_run() && world.rows_taken("sums") >= taken);
    world
}

fn has_ended(world: &World, state: PipelineState) -> bool {
    world.end.is_some() || (state == PipelineState::Paused && world.state() == state)
}

fn is_close(pending: &Pending) -> bool {
    let Pending::Action(Action::Transact(operations)) = pending else { return false };
    record_in(operations).is_some_and(|record| record.state.ends_leases().is_some())
}

#[test]
fn after_completion_no_lease_is_live_and_a_late_commit_is_fenced() {
    let manifest = two_stages(2, 2);
    let mut world = World::new(&manifest, Setup::default());
    fill(&mut world, 0, 150);
    world.start();
    world.complete();
    world.assert_nothing_is_live();
    assert_eq!(world.layout().state, PipelineState::Completed);
    assert_eq!(world.sorted(0), undisturbed(&manifest, 150));
}

#[test]
fn after_a_pause_or_a_stop_no_lease_is_live_and_a_late_commit_is_fenced() {
    for (demand, state) in DEMANDS {
        for taken in MOMENTS {
            let manifest = two_stages(2, 2);
            let mut world = at_moment(&manifest, taken);
            world.demand(demand).unwrap();
            world.run_until(|world| has_ended(world, state));
            world.assert_nothing_is_live();
            assert_eq!(world.layout().state, state);
            finish(&mut world);
            assert_eq!(world.sorted(0), undisturbed(&manifest, 150), "{demand:?} after {taken}");
        }
    }
}

#[test]
fn the_transaction_that_says_so_takes_every_grant_and_is_the_last() {
    for (demand, state) in DEMANDS {
        let mut world = at_moment(&windows(2, 2), 111);
        world.hold(is_close);
        world.demand(demand).unwrap();
        world.run_until(|world| world.waiting(is_close) == 1);
        assert_ne!(world.layout().state, state, "said before the grants are taken");
        let granted = world.layout().partitions().into_iter().filter(|known| {
            let granted = world.granted(known.number).is_some();
            let (id, revokes) = (known.id.clone(), Operation::Revoke(known.id.clone()));
            let revoked = |pending: &Pending| match pending {
                Pending::Action(Action::Transact(operations)) => operations.iter().any(
                    |operation| matches!((operation, &revokes), (Operation::Revoke(of), _) if *of == id),
                ),
                _ => false,
            };
            assert_eq!(world.waiting(revoked), 1, "{} keeps its grant", known.id.label());
            granted
        });
        assert_eq!(granted.count(), 4);
        let before = world.seen.len();
        world.carry_out_one(is_close);
        world.run_for(1_000_000);
        let later = world.seen[before..].iter().filter(|seen| matches!(seen, Seen::Transact)).count();
        assert_eq!(later, 1, "only the one that closes");
        assert_eq!(world.layout().state, state);
    }
}

#[test]
fn a_crash_in_front_of_that_transaction_leaves_neither_half_of_it() {
    for (demand, state) in DEMANDS {
        let manifest = windows(2, 2);
        let mut world = at_moment(&manifest, 111);
        world.hold(is_close);
        world.demand(demand).unwrap();
        world.run_until(|world| world.waiting(is_close) == 1);
        world.lose_power();
        world.start();
        assert_ne!(world.layout().state, state);
        // A pause and a drain that were recorded are gone on with; a stop at once was never recorded.
        if demand == (Demand::Stop { drain: false }) {
            assert_eq!(world.state(), PipelineState::Working);
        } else {
            world.run_until(|world| has_ended(world, state));
            world.assert_nothing_is_live();
        }
        finish(&mut world);
        assert_eq!(world.sorted(0), undisturbed(&manifest, 150));
    }
}

/// Cuts a worker off whose jobs have commits on their way, and answers a number to release those with.
fn leave_commits_behind(world: &mut World, worker: WorkerId) -> u32 {
    let lost: Vec<u64> = world.jobs.iter().filter(|job| job.worker == worker).map(|job| job.uid).collect();
    let of_theirs =
        move |pending: &Pending| matches!(pending, Pending::Commit { uid, .. } if lost.contains(uid));
    let hold = world.hold(of_theirs.clone());
    world.run_until(|world| world.waiting(&of_theirs) > 1);
    world.cut_off(worker);
    hold
}

#[test]
fn commits_that_were_on_their_way_when_the_pipeline_ended_are_fenced() {
    let asked = DEMANDS.map(|(demand, state)| (Some(demand), state));
    for (demand, state) in asked.into_iter().chain([(None, PipelineState::Completed)]) {
        let manifest = windows(2, 2);
        let mut world = at_moment(&manifest, 40);
        let hold = leave_commits_behind(&mut world, WorkerId(1));
        world.run_until(|world| {
            world.all_run() && world.controller().leases().of_worker(WorkerId(1)).is_empty()
        });
        match demand {
            Some(demand) => drop(world.demand(demand).unwrap()),
            None => world.bounded = true,
        }
        world.run_until(|world| has_ended(world, state));
        let before = world.seen.len();
        world.release(hold);
        world.run_for(100_000);
        assert_eq!(world.waiting(|pending| matches!(pending, Pending::Commit { .. })), 0);
        let judged: Vec<CommitOutcome> = world.seen[before..]
            .iter()
            .filter_map(|seen| match seen {
                Seen::Judged(outcome) => Some(*outcome),
                _ => None,
            })
            .collect();
        assert!(judged.len() > 1);
        assert!(judged.iter().all(|outcome| matches!(outcome, CommitOutcome::Fenced(_))), "{judged:?}");
        if demand.is_some() {
            finish(&mut world);
        }
        assert_eq!(world.sorted(0), undisturbed(&manifest, 150));
    }
}

#[test]
fn no_job_is_replaced_once_its_lease_was_ended_by_a_pause_a_stop_or_completion() {
    let asked = DEMANDS.map(|(demand, _)| Some(demand));
    for demand in asked.into_iter().chain([None]) {
        let mut world = at_moment(&two_stages(2, 2), 111);
        let before = world.seen.len();
        match demand {
            Some(demand) => drop(world.demand(demand).unwrap()),
            None => world.bounded = true,
        }
        world.run_until(|world| world.end.is_some() || world.state() == PipelineState::Paused);
        world.hire();
        world.run_for(1_000_000);
        let assigned = world.seen[before..].iter().filter(|seen| matches!(seen, Seen::Assign { .. }));
        assert_eq!(assigned.count(), 0, "{demand:?}");
        assert!(world.controller().leases().is_empty());
    }
}

#[test]
fn a_run_that_is_over_answers_every_command_and_does_nothing() {
    let mut world = at_moment(&windows(1, 1), 40);
    world.demand(Demand::Stop { drain: false }).unwrap();
    assert_eq!(world.run(), ControllerEnd::Stopped);
    let refused = |answer: Result<String, String>| assert_eq!(answer, Err("the run is over".to_owned()));
    refused(world.demand(Demand::Resume));
    refused(world.rescale("sums", 2));
    let before = world.seen.len();
    for notice in [Notice::Tick, Notice::WorkerGone(WorkerId(1)), Notice::ReadToEnd(0)] {
        world.hear(notice);
    }
    refused(world.ask(Command::Demand(Demand::Pause)));
    assert_eq!(world.seen.len(), before);
    assert_eq!(world.waiting(|pending| matches!(pending, Pending::Action(Action::Transact(_)))), 0);
}

#[test]
fn a_stop_at_once_ends_key_ranges_first_so_that_sources_record_what_was_taken() {
    for taken in MOMENTS {
        let mut world = at_moment(&windows(2, 2), taken);
        let before = world.seen.len();
        world.demand(Demand::Stop { drain: false }).unwrap();
        assert_eq!(world.run(), ControllerEnd::Stopped);
        let place = |what: &dyn Fn(&Seen) -> bool| world.seen[before..].iter().position(what);
        for range in world.live("sums") {
            let number = range.number;
            let ended =
                place(&|seen| matches!(seen, Seen::JobEnded { partition, .. } if *partition == number));
            for source in [0, 1] {
                let told =
                    place(&|seen| matches!(seen, Seen::Tell { partition, .. } if *partition == source));
                assert!(
                    ended.unwrap() < told.unwrap(),
                    "a source was told to end before its consumers had ended"
                );
            }
        }
        for source in [0, 1] {
            let key = lane_key("rows", &world.id(source));
            let finished = world.stored(&world.id(source)).resume.map_or(0, |point| point.rows);
            let taken = |row: u64| {
                let point = LanePoint::new(Position::at(row), 0);
                world.live("sums").iter().all(|range| {
                    let stored = world.stored(&world.id(range.number));
                    stored.lanes.get(&key).is_some_and(|lane| lane.taken.covers(point))
                })
            };
            // It records places where a read ended.
            let read = world.read_rows as u64;
            let next = 150.min(finished + read);
            assert!(finished == 150 || !taken(next), "all have committed {next}, recorded is {finished}");
        }
    }
}
