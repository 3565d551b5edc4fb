//! RECUT-ATOMIC: whatever dies at whatever moment of a split or a merge leaves the old ranges or the new ones, and the
//! results are the same.

use onceward_engine::controller::{Action, ControllerEnd, Notice};
use onceward_protocol::CommitOutcome;
use onceward_protocol::state::Demand;

use crate::manifest::Manifest;
use crate::pipelines::{process, running, undisturbed, windows};
use crate::rules::record_in;
use crate::world::{Pending, Setup, World};

/// A world that was just asked for so many ranges.
fn asked(manifest: &Manifest, ranges: u32, strays: u32) -> World {
    let mut world = running(manifest, Setup { strays, ..Setup::default() }, 150);
    world.run_until(|world| world.all_run() && world.rows_taken("sums") >= 222);
    world.rescale("sums", ranges).unwrap();
    world
}

/// How many steps it takes until the parents are gone.
fn steps_of(manifest: &Manifest, ranges: u32) -> usize {
    let mut world = asked(manifest, ranges, 0);
    let mut steps = 0;
    world.run_until(|world| {
        steps += 1;
        world.has_ranges("sums", ranges as usize)
    });
    steps
}

/// The ranges that are live own every key once: those of before, or those of after.
fn assert_one_layout(world: &World, old: usize, new: usize) -> bool {
    let live = world.live("sums");
    assert!([old, new].contains(&live.len()), "{live:?}");
    let joined = live.windows(2).all(|pair| pair[0].range.is_followed_by(pair[1].range));
    assert!(joined && live[0].range.first == 0 && live.last().unwrap().range.last == u64::MAX);
    let retired = world.layout().keyed[0].ranges.iter().filter(|range| range.retired).count();
    assert!(retired == 0 || live.len() == new, "retired without a successor");
    live.len() == new
}

/// Does `harm` after every step of re-cutting.
fn after_every_step(manifest: &Manifest, from: usize, to: usize, strays: u32, harm: impl Fn(&mut World)) {
    let steps = steps_of(manifest, to as u32);
    let expected = undisturbed(manifest, 150);
    let mut outcomes = [0, 0];
    for step in 0..=steps {
        let mut world = asked(manifest, to as u32, strays);
        (0..step).for_each(|_| world.step());
        harm(&mut world);
        outcomes[usize::from(assert_one_layout(&world, from, to))] += 1;
        world.bounded = true;
        world.complete();
        assert_one_layout(&world, from, to);
        assert_eq!(world.sorted(0), expected, "after step {step} of {steps}");
        assert_eq!(world.fold("sums").counters.rows_in, 300, "after step {step} of {steps}");
        assert_eq!(world.delivered("out"), expected.len() as u64, "after step {step} of {steps}");
    }
    assert!(outcomes.iter().all(|count| *count > 0), "both layouts must be met: {outcomes:?}");
}

#[test]
fn a_crash_after_every_step_of_a_split_leaves_one_layout_and_the_same_results() {
    after_every_step(&windows(2, 1), 1, 2, 0, World::crash);
    after_every_step(&process(2, 1), 1, 2, 0, World::crash);
}

#[test]
fn a_crash_after_every_step_of_a_merge_leaves_one_layout_and_the_same_results() {
    after_every_step(&windows(2, 2), 2, 1, 0, World::crash);
    after_every_step(&process(2, 2), 2, 1, 0, World::crash);
}

#[test]
fn another_controller_after_every_step_takes_over_from_one_layout_while_the_old_jobs_run_on() {
    after_every_step(&windows(2, 1), 1, 2, 2, |world| assert!(world.take_control(Demand::Run)));
    after_every_step(&windows(2, 2), 2, 1, 2, |world| assert!(world.take_control(Demand::Run)));
}

#[test]
fn a_worker_that_is_lost_after_every_step_of_a_split_changes_nothing() {
    for silently in [true, false] {
        after_every_step(&process(2, 1), 1, 2, 0, |world| {
            let worker = world.workers[0].id;
            if silently {
                world.cut_off(worker);
            } else {
                world.kill(worker);
            }
        });
    }
}

#[test]
fn a_power_loss_at_every_write_of_a_split_leaves_one_layout_and_the_same_results() {
    let manifest = windows(2, 1);
    let expected = undisturbed(&manifest, 150);
    let writes = {
        let mut world = asked(&manifest, 2, 0);
        let before = world.disk.ops();
        world.run_until(|world| world.has_ranges("sums", 2));
        world.disk.ops() - before
    };
    for write in 0..writes {
        let mut world = asked(&manifest, 2, 0);
        world.disk.crash_at(world.disk.ops() + write, write * 31 + 7);
        world.run_until(|world| world.disk.crashed().is_some());
        world.crash();
        assert_one_layout(&world, 1, 2);
        world.bounded = true;
        world.complete();
        assert_eq!(world.sorted(0), expected, "at write {write} of {writes}");
    }
}

#[test]
fn a_controller_of_an_older_term_cannot_re_cut() {
    let manifest = windows(2, 1);
    let recuts = |pending: &Pending| match pending {
        Pending::Action(Action::Transact(operations)) => {
            record_in(operations).is_some_and(|record| record.keyed[0].live().count() == 2)
        }
        _ => false,
    };
    let mut world = asked(&manifest, 2, 2);
    let hold = world.hold(recuts);
    world.run_until(|world| world.waiting(recuts) == 1);
    // The transaction is on its way when another controller takes the term.
    let Pending::Action(Action::Transact(operations)) = world.take_out(recuts) else { panic!() };
    let mut old = world.controller.take().unwrap();
    assert!(world.take_control(Demand::Run));
    world.release(hold);
    let before = world.layout();
    let outcome = world.transact(operations);
    assert!(matches!(outcome, CommitOutcome::Fenced(_)), "{outcome:?}");
    assert_eq!(world.layout(), before);
    let mut actions = Vec::new();
    old.handle(world.now, Notice::Transacted(outcome), &mut actions);
    let ended = actions.iter().any(|action| matches!(action, Action::End(ControllerEnd::Fenced { .. })));
    assert!(ended, "{actions:?}");
    // The new one does what was asked for.
    world.run_until(|world| world.has_ranges("sums", 2));
    world.bounded = true;
    world.complete();
    assert_eq!(world.sorted(0), undisturbed(&manifest, 150));
}
