//! AC-50: epochs that are open stay bounded, an idle source holds nobody up, and the loss of a worker at the worst moment
//! is no deadlock.

use onceward_engine::ledger::{IDLE_COMMIT_US, MAX_OPEN_EPOCHS};

use crate::pipelines::{FIRST, SECOND_ONE, fill, rows, running, spread, two_stages, undisturbed, windows};
use crate::world::{Pending, Setup, World};

fn open_epochs(world: &World, number: u32) -> usize {
    world.waiting(|pending| matches!(pending, Pending::Commit { partition, .. } if *partition == number))
}

#[test]
fn ac_50_open_epochs_stay_bounded_while_the_store_does_not_answer_and_sources_pause() {
    let manifest = two_stages(2, 2);
    let mut world = running(&manifest, Setup::default(), 0);
    fill(&mut world, 0, 20_000);
    world.read_rows = 1_000;
    world.run_until(|world| world.all_run() && world.rows_taken("sums") > 100);
    world.hold(|pending| matches!(pending, Pending::Commit { .. }));
    world.run_for(2_000_000);
    let partitions = world.layout().partitions();
    for partition in &partitions {
        let open = open_epochs(&world, partition.number);
        assert!(open <= MAX_OPEN_EPOCHS, "{} has {open} epochs open", partition.id.label());
    }
    // Everybody waits for the store: nothing more is read, sent or computed.
    let read = [0, 1].map(|source| world.rows_read(source));
    let queued = world.waiting(|_| true);
    world.run_for(5_000_000);
    assert_eq!([0, 1].map(|source| world.rows_read(source)), read);
    assert!(read.iter().all(|rows| *rows < 20_000), "nothing holds the sources back");
    assert!(world.waiting(|_| true) <= queued, "something piles up");
    assert!(world.controller().leases().len() == partitions.len(), "leases live on");
    world.release(1);
    world.run_until(|world| world.rows_taken("sums") == 40_000);
}

#[test]
fn ac_50_a_consumer_that_takes_nothing_pauses_the_sources_and_a_target_that_does_not_answer_too() {
    let manifest = windows(2, 2);
    let mut world = running(&manifest, Setup::default(), 0);
    fill(&mut world, 0, 20_000);
    world.read_rows = 1_000;
    world.run_until(|world| world.all_run() && world.rows_taken("sums") > 100);
    let number = world.live("sums")[0].number;
    let hold = world.hold(move |pending| matches!(pending, Pending::Lane { to, .. } if *to == number));
    world.run_for(2_000_000);
    let read = [0, 1].map(|source| world.rows_read(source));
    world.run_for(5_000_000);
    assert_eq!([0, 1].map(|source| world.rows_read(source)), read);
    assert!(read.iter().all(|rows| *rows < 20_000));
    world.release(hold);
    world.run_until(|world| world.rows_taken("sums") == 40_000);
}

#[test]
fn ac_50_an_idle_source_does_not_keep_the_others_from_committing_and_delivering() {
    let manifest = crate::pipelines::plain(2);
    let mut world = World::new(&manifest, Setup::default());
    world.bounded = false;
    world.add(0, rows(0, 150));
    world.start();
    world.run_until(|world| world.arrived(0).len() == 150);
    world.run_until(|world| world.stored(&world.id(0)).resume.is_some_and(|point| point.rows == 150));
    // The idle one commits too, seldom: so it learns whether it is still the owner.
    let epoch =
        |world: &World, number: u32| world.rows_of(&world.id(number)).head.head.map(|head| head.epoch);
    let before = epoch(&world, 1);
    world.run_for(IDLE_COMMIT_US + 1_000_000);
    assert!(epoch(&world, 1) > before);
}

#[test]
fn ac_50_windows_behind_an_idle_source_take_and_commit_what_the_others_send() {
    let manifest = windows(2, 2);
    let mut world = World::new(&manifest, Setup::default());
    world.bounded = false;
    world.add(0, rows(0, 150));
    world.start();
    world.run_until(|world| world.rows_taken("sums") == 150);
    world.run_for(1_000_000);
    assert_eq!(world.fold("sums").counters.rows_in, 150);
    assert_eq!(world.stored(&world.id(0)).resume.unwrap().rows, 150, "acknowledged and recorded");
    // It wakes up; nothing was late because of it.
    world.add(1, rows(3, 150));
    world.bounded = true;
    world.complete();
    assert_eq!(world.sorted(0), undisturbed(&manifest, 150));
}

#[test]
fn ac_50_the_loss_of_a_worker_with_full_lanes_and_open_epochs_is_no_deadlock() {
    for lost in [FIRST, SECOND_ONE] {
        for silently in [true, false] {
            let manifest = two_stages(2, 2);
            let mut world = spread(&manifest, 150);
            world.run_until(|world| world.rows_taken("sums") > 30);
            // Nothing is taken from lanes and nothing is committed: everybody waits for somebody.
            let lanes = world.hold(|pending| matches!(pending, Pending::Lane { .. }));
            let commits = world.hold(|pending| matches!(pending, Pending::Commit { .. }));
            world.run_for(500_000);
            let open: usize =
                (0..world.layout().partitions().len() as u32).map(|number| open_epochs(&world, number)).sum();
            assert!(open > 0);
            assert!(world.waiting(|pending| matches!(pending, Pending::Lane { .. })) > 0);
            if silently {
                world.cut_off(lost);
            } else {
                world.kill(lost);
            }
            world.run_for(200_000);
            world.release(lanes);
            world.run_for(200_000);
            world.release(commits);
            world.bounded = true;
            world.complete();
            assert_eq!(world.sorted(0), undisturbed(&manifest, 150), "{lost} {silently}");
        }
    }
}

#[test]
fn ac_50_workers_that_are_lost_one_after_the_other_do_not_stop_the_pipeline() {
    let manifest = two_stages(2, 2);
    let mut world = running(&manifest, Setup { workers: 3, ..Setup::default() }, 150);
    for round in 0..12 {
        world.run_until(World::all_run);
        (0..40).for_each(|_| world.step());
        let worker = world.workers.iter().filter(|worker| !worker.cut_off).map(|worker| worker.id).next();
        if round % 2 == 0 {
            world.cut_off(worker.unwrap());
        } else {
            world.kill(worker.unwrap());
        }
        world.hire();
    }
    world.bounded = true;
    world.complete();
    assert_eq!(world.sorted(0), undisturbed(&manifest, 150));
}
