use onceward_connector::{ConnectorError, TargetError};
use onceward_engine::JobEnd;
use onceward_engine::controller::{Action, ControllerEnd, Happening, Notice};
use onceward_protocol::state::{Demand, PipelineState};

use crate::pipelines::*;
use crate::rules::record_in;
use crate::world::*;

#[test]
fn hunt_turns_after_a_pause() {
    let setup = Setup { active_sources: 1, ..Setup::default() };
    let mut world = World::new(&windows(3, 1), setup);
    fill(&mut world, 0, 200);
    world.start();
    world.run_until(|world| world.rows_read(0) > 40);
    world.demand(Demand::Pause).unwrap();
    world.run_until(|world| world.state() == PipelineState::Paused);
    let from = world.seen.len();
    world.demand(Demand::Resume).unwrap();
    world.run_until(|world| world.rows_read(0) > 100);
    let read =
        world.seen[from..].iter().filter(|seen| matches!(seen, Seen::Read { partition: 1 | 2, .. })).count();
    assert_eq!(read, 0);
}

#[test]
fn hunt_rescale_while_drained_is_loaded() {
    let mut world = running(&windows(1, 1), Setup::default(), 150);
    world.run_until(|world| world.rows_taken("sums") == 150);
    world.rescale("sums", 2).unwrap();
    let hold = world.hold(|p| matches!(p, Pending::Notice(Notice::Loaded(rows)) if rows.len() == 1));
    // first Loaded is the re-cut's.
    world.run_until(|world| world.waiting(|p| matches!(p, Pending::Notice(Notice::Loaded(_)))) == 1);
    world.release(hold);
    world.run_until(|world| world.live("sums").len() == 2);
    let hold = world.hold(|p| matches!(p, Pending::Notice(Notice::Loaded(_))));
    world.run_until(|world| world.waiting(|p| matches!(p, Pending::Notice(Notice::Loaded(_)))) == 1);
    println!("{:?}", world.rescale("sums", 3));
    world.release(hold);
    world.run_for(2_000_000);
    assert_eq!(world.live("sums").len(), 3, "{:?}", world.layout().keyed);
}

#[test]
fn hunt_pause_recorded_while_recut_moves() {
    let mut world = running(&windows(1, 1), Setup::default(), 150);
    world.run_until(|world| world.rows_taken("sums") == 150);
    world.rescale("sums", 2).unwrap();
    let hold = world.hold(|p| matches!(p, Pending::Notice(Notice::Loaded(_))));
    world.run_until(|world| world.waiting(|p| matches!(p, Pending::Notice(Notice::Loaded(_)))) == 1);
    let from = world.seen.len();
    let h2 = world.hold(|p| matches!(p, Pending::Action(Action::Transact(_))));
    world.demand(Demand::Stop { drain: true }).unwrap();
    world.release(hold);
    world.run_until(|world| world.waiting(|p| matches!(p, Pending::Notice(Notice::Loaded(_)))) == 0);
    world.release(h2);
    while world.end.is_none() {
        world.step();
    }
    let states: Vec<_> = world.seen[from..]
        .iter()
        .filter_map(|s| match s {
            Seen::Transact(o) => record_in(o).map(|r| r.state),
            _ => None,
        })
        .collect();
    println!("{states:?}");
    assert_eq!(states.iter().filter(|s| **s == PipelineState::Working).count(), 0);
}

#[test]
fn hunt_stop_while_the_pause_is_being_recorded() {
    let mut world = running(&windows(1, 1), Setup::default(), 50);
    world.run_until(|world| world.rows_taken("sums") == 50);
    world.demand(Demand::Pause).unwrap();
    let closes = |p: &Pending| matches!(p, Pending::Action(Action::Transact(ops)) if record_in(ops).is_some_and(|r| r.state == PipelineState::Paused));
    world.hold(closes);
    world.run_until(|world| world.waiting(closes) == 1);
    println!("{:?}", world.demand(Demand::Resume));
    println!("{:?}", world.demand(Demand::Stop { drain: false }));
    world.release(1);
    world.run_until(|world| world.end.is_some());
    assert_eq!(world.end, Some(ControllerEnd::Stopped));
}

#[test]
fn hunt_recut_of_a_job_that_halts() {
    let mut world = running(&windows(1, 1), Setup::default(), 50);
    world.run_until(|world| world.rows_taken("sums") == 50);
    let ended = |p: &Pending| matches!(p, Pending::Notice(Notice::Ended { end: JobEnd::Stopped, .. }));
    let hold = world.hold(ended);
    world.demand(Demand::Pause).unwrap();
    world.run_until(|world| world.waiting(ended) == 2);
    world.demand(Demand::Resume).unwrap();
    // the record is noted
    world.run_until(|world| {
        world.layout().state == PipelineState::Working
            && world.waiting(|p| matches!(p, Pending::Notice(Notice::Transacted(_)))) == 0
    });
    println!("{:?}", world.rescale("sums", 2));
    world.run_until(|world| world.has_happened(0, |h| matches!(h, Happening::RecutBegun { .. })));
    world.release(hold);
    world.run_for(3_000_000);
    assert_eq!(world.live("sums").len(), 2, "{}", world.standing());
}

#[test]
fn hunt_rescale_first_thing_after_a_stop() {
    let mut world = running(&windows(1, 1), Setup::default(), 50);
    world.run_until(|world| world.rows_taken("sums") == 50);
    world.demand(Demand::Stop { drain: false }).unwrap();
    assert_eq!(world.run(), ControllerEnd::Stopped);
    world.lose_power();
    world.start();
    println!("{:?}", world.rescale("sums", 2));
    world.run_for(2_000_000);
    assert_eq!(world.end, None);
    assert_eq!(world.live("sums").len(), 2);
}

#[test]
fn hunt_failure_while_pausing_then_resume() {
    let mut world = running(&windows(1, 1), Setup::default(), 150);
    world.run_until(|world| world.rows_taken("sums") == 150);
    let calls = |p: &Pending| matches!(p, Pending::Call { .. });
    let hold = world.hold(calls);
    world.add(0, rows(400, 1));
    world.run_until(|world| world.waiting(calls) > 0);
    world.demand(Demand::Pause).unwrap();
    let source = |p: &Pending| matches!(p, Pending::Commit { partition: 0, .. } | Pending::Read { .. });
    let _ = source;
    let ended = |p: &Pending| matches!(p, Pending::Notice(Notice::Ended { partition: 0, .. }));
    let h2 = world.hold(ended);
    world.faults.push_back((1, TargetError::Definite(ConnectorError::new("OW-3999", "no"))));
    world.release(hold);
    world.run_until(|world| world.has_happened(0, |h| matches!(h, Happening::JobFailed { .. })));
    println!("{:?} {:?} {}", world.state(), world.layout().state, world.standing());
    let from = world.seen.len();
    println!("{:?}", world.demand(Demand::Resume));
    println!("{:?} {:?} {}", world.state(), world.layout().state, world.standing());
    world.release(h2);
    world.bounded = true;
    for _ in 0..30 {
        world.step();
    }
    println!("{:#?}", &world.seen[from..]);
    world.run_for(3_000_000);
    println!("{:?} {:?}", world.end, world.layout().state);
    println!("{}", world.standing());
    assert!(matches!(world.end, Some(ControllerEnd::Failed(_))));
    assert_eq!(world.layout().state, PipelineState::Stopped);
}

#[test]
fn hunt_lost_worker_with_move() {
    let mut world = running(&two_stages(2, 2), Setup::default(), 150);
    world.run_until(|world| world.rows_taken("sums") == 300);
    for n in [4, 1, 3, 1, 2] {
        println!("{:?}", world.rescale("sums", n));
        world.run_until(|world| world.has_ranges("sums", n as usize));
    }
    world.bounded = true;
    world.complete();
    assert_eq!(world.sorted(0), undisturbed(&two_stages(2, 2), 150));
}
