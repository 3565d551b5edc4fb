//! What a user was told is what the record says: no demand is lost behind a step that is under way, and no step hangs on a demand.

use onceward_connector::{ConnectorError, TargetError};
use onceward_engine::JobEnd;
use onceward_engine::controller::{Action, ControllerEnd, Happening, Notice};
use onceward_protocol::state::{Demand, PipelineState};

use crate::pipelines::{fill, rows, running, undisturbed, windows};
use crate::rules::record_in;
use crate::world::{Pending, Seen, Setup, World};

fn loaded(pending: &Pending) -> bool {
    matches!(pending, Pending::Notice(Notice::Loaded(_)))
}
fn at_work() -> World {
    let mut world = running(&windows(1, 1), Setup::default(), 150);
    world.run_until(|world| world.rows_taken("sums") == 150);
    world
}

#[test]
fn sources_take_turns_after_a_resume_too() {
    let mut world = World::new(&windows(3, 1), Setup { active_sources: 1, ..Setup::default() });
    fill(&mut world, 0, 200);
    world.start();
    world.run_until(|world| world.rows_read(0) > 40);
    world.demand(Demand::Pause).unwrap();
    world.run_until(|world| world.state() == PipelineState::Paused);
    let from = world.seen.len();
    world.demand(Demand::Resume).unwrap();
    world.run_until(|world| world.rows_read(0) > 100);
    let others = world.seen[from..].iter().filter(|seen| matches!(seen, Seen::Read { partition: 1 | 2, .. }));
    assert_eq!(others.count(), 0);
    world.complete();
    assert_eq!(world.sorted(0), undisturbed(&windows(3, 1), 200));
}

#[test]
fn a_rescale_that_is_taken_while_a_drained_range_is_read_is_not_forgotten() {
    let mut world = at_work();
    world.rescale("sums", 2).unwrap();
    world.run_until(|world| world.live("sums").len() == 2);
    world.hold(loaded);
    world.run_until(|world| world.waiting(loaded) == 1);
    let taken = world.rescale("sums", 3).is_ok();
    world.release(1);
    world.run_for(2_000_000);
    assert_eq!(world.live("sums").len(), if taken { 3 } else { 2 }, "{:?}", world.layout().keyed);
}

#[test]
fn a_drain_that_is_asked_for_while_a_parent_is_read_is_recorded_once() {
    let mut world = at_work();
    world.rescale("sums", 2).unwrap();
    world.run_until(|world| world.waiting(|p| matches!(p, Pending::Action(Action::Load(_)))) == 1);
    world.demand(Demand::Stop { drain: true }).unwrap();
    assert_eq!(world.run(), ControllerEnd::Stopped); // rules.rs: no re-cut may record another state
    use PipelineState::{Draining, Stopped};
    let said: Vec<_> = world
        .happenings(0)
        .into_iter()
        .filter_map(|happening| match happening {
            Happening::State(state) => Some(state),
            _ => None,
        })
        .collect();
    assert_eq!(said, [Draining, Stopped]);
}

#[test]
fn a_stop_that_is_answered_with_yes_while_a_pause_is_recorded_is_done() {
    let mut world = at_work();
    let closes = |pending: &Pending| match pending {
        Pending::Action(Action::Transact(operations)) => {
            record_in(operations).is_some_and(|record| record.state == PipelineState::Paused)
        }
        _ => false,
    };
    world.demand(Demand::Pause).unwrap();
    world.hold(closes);
    world.run_until(|world| world.waiting(closes) == 1);
    let taken = world.demand(Demand::Stop { drain: false }).is_ok();
    world.release(1);
    world.run_for(1_000_000);
    assert_eq!(world.end.is_some(), taken, "answered yes and not done");
}

#[test]
fn a_parent_that_was_told_to_halt_before_is_re_cut_all_the_same() {
    let mut world = at_work();
    let ended =
        |pending: &Pending| matches!(pending, Pending::Notice(Notice::Ended { end: JobEnd::Stopped, .. }));
    world.hold(ended);
    world.demand(Demand::Pause).unwrap();
    world.run_until(|world| world.waiting(ended) == 2);
    world.demand(Demand::Resume).unwrap();
    world.run_until(|world| {
        world.layout().state == PipelineState::Working
            && world.waiting(|pending| matches!(pending, Pending::Notice(Notice::Transacted(_)))) == 0
    });
    world.rescale("sums", 2).unwrap();
    world.run_until(|world| world.has_happened(0, |h| matches!(h, Happening::RecutBegun { .. })));
    world.release(1);
    world.run_for(3_000_000);
    assert_eq!(world.live("sums").len(), 2, "{}", world.standing());
}

#[test]
fn a_rescale_that_is_the_first_thing_after_a_stop_does_not_stop_the_run() {
    let mut world = at_work();
    world.demand(Demand::Stop { drain: false }).unwrap();
    assert_eq!(world.run(), ControllerEnd::Stopped);
    world.lose_power();
    world.start();
    world.rescale("sums", 2).unwrap();
    world.run_until(|world| world.has_ranges("sums", 2));
}

#[test]
fn a_resume_after_a_job_has_failed_does_not_hide_the_failure() {
    let mut world = at_work();
    let calls = |pending: &Pending| matches!(pending, Pending::Call { .. });
    let hold = world.hold(calls);
    world.add(0, rows(400, 1));
    world.run_until(|world| world.waiting(calls) > 0);
    world.demand(Demand::Pause).unwrap();
    world.hold(|pending| matches!(pending, Pending::Notice(Notice::Ended { partition: 0, .. })));
    let error = ConnectorError::new("OW-3999", "made of cheese");
    world.faults.push_back((1, TargetError::Definite(error)));
    world.release(hold);
    world.run_until(|world| world.has_happened(0, |h| matches!(h, Happening::JobFailed { .. })));
    let resumed = world.demand(Demand::Resume);
    world.release(2);
    world.bounded = true;
    let end = world.run();
    // Either it goes on and completes, or the failure ends it; not both.
    assert_eq!(
        resumed.is_ok(),
        end == ControllerEnd::Completed,
        "{resumed:?}, {end:?}, {:?}",
        world.layout().state
    );
}
