//! A crash at every operation of the store, one after the other.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails the test")]

mod workload;

use std::collections::BTreeSet;

use onceward_protocol::{Mutant, Mutants, PartitionHead};
use onceward_store::contract::generation;
use onceward_store::disk::{FaultDisk, site};
use workload::{Numbers, Op, PARTITIONS, State, open, prefixes, read, run, run_group};

const GROUPS: usize = 48;

/// Opens what a power loss left; answers what is wrong with it, if anything is.
fn judge(disk: &FaultDisk, allowed: &[State], mutants: Mutants) -> Result<State, String> {
    let store = open(disk, mutants).map_err(|error| format!("refused: {error}"))?;
    let found = read(&store).map_err(|error| error.to_string())?;
    if allowed.contains(&found) { Ok(found) } else { Err("a state that never was".to_owned()) }
}

/// Crashes the workload at operation `op`, loses power and looks. Answers the site of the crash.
fn crash_once(op: u64, seed: u64, mutants: Mutants) -> Result<(&'static str, FaultDisk, Vec<State>), String> {
    let disk = FaultDisk::new();
    disk.crash_at(op, seed);
    let ended = run(&disk, GROUPS, &State::new(), &mut Numbers(7), mutants);
    let site = disk.last_crash_site().ok_or("the machine did not crash")?;
    assert!(ended.error.is_some(), "a crash at {site} was not noticed");
    let after = disk.reboot(seed ^ 0x5555);
    judge(&after.reboot(0), &ended.allowed, mutants)
        .map_err(|what| format!("op {op} {site} seed {seed}: {what}"))?;
    Ok((site, after, ended.allowed))
}

fn operations() -> u64 {
    let disk = FaultDisk::new();
    let ended = run(&disk, GROUPS, &State::new(), &mut Numbers(7), Mutants::NONE);
    assert!(ended.error.is_none());
    disk.ops()
}

#[test]
fn a_crash_at_any_operation_leaves_the_last_commit_or_a_prefix_of_the_group_in_flight() {
    let mut crashed = BTreeSet::new();
    for op in 0..operations() {
        for seed in [op, op + 10_000] {
            let (site, disk, allowed) = crash_once(op, seed, Mutants::NONE).unwrap();
            crashed.insert(site);
            // The store goes on from there as if nothing had happened.
            let found = judge(&disk.reboot(0), &allowed, Mutants::NONE).unwrap();
            let ended = run(&disk, 4, &found, &mut Numbers(op), Mutants::NONE);
            assert!(ended.error.is_none(), "op {op} {site} seed {seed}: {:?}", ended.error);
            judge(&disk.reboot(seed), &ended.allowed, Mutants::NONE).unwrap();
        }
    }
    assert!(crashed.is_superset(&[site::SNAPSHOT_RENAME, site::SEGMENT_REMOVE, site::LOG_SYNC].into()));
}

/// Gives every partition to a new job, with a commit that alone is larger than a segment.
fn large_transaction(state: &State, letter: u8) -> Op {
    let steps = (0..PARTITIONS as u32).flat_map(|index| {
        let head = state.get(&index).map_or_else(PartitionHead::default, |found| found.0);
        let new = generation(head.last_number + 1);
        let epoch = head.head.map_or(1, |head| head.epoch + 1);
        let rows = vec![("large".to_owned(), Some((40_000, letter)))];
        [Op::Revoke(index), Op::Grant(index, new), Op::Commit(index, new, epoch, head.head, rows)]
    });
    Op::Transact(steps.collect())
}

/// Runs large transactions until the disk fails or all are done: the states before and after the last one.
fn run_transactions(disk: &FaultDisk) -> (State, State) {
    let mut committed = State::new();
    for letters in [b"abc", b"def"] {
        let Ok(mut store) = open(disk, Mutants::NONE) else { return (committed.clone(), committed) };
        for letter in letters {
            let op = large_transaction(&committed, *letter);
            let after = prefixes(&committed, std::slice::from_ref(&op)).pop().unwrap();
            match run_group(&mut store, &[op]) {
                Ok(()) => committed = after,
                Err((true, _)) => return (after.clone(), after),
                Err((false, _)) => return (committed, after),
            }
        }
    }
    (committed.clone(), committed)
}

#[test]
fn a_crash_at_any_operation_leaves_all_of_a_transaction_or_nothing() {
    let (mut lost, mut kept, mut crashed) = (0, 0, BTreeSet::new());
    let undisturbed = FaultDisk::new();
    run_transactions(&undisturbed);
    for op in 0..undisturbed.ops() {
        for seed in 0..6 {
            let disk = FaultDisk::new();
            disk.crash_at(op, seed);
            let (before, after) = run_transactions(&disk);
            let site = disk.last_crash_site().unwrap();
            for disk in [disk.reboot(seed), disk.restart()] {
                let found = judge(&disk, &[before.clone(), after.clone()], Mutants::NONE);
                let found = found.map_err(|what| format!("op {op} {site} seed {seed}: {what}")).unwrap();
                if before != after {
                    crashed.insert(site);
                    *(if found == after { &mut kept } else { &mut lost }) += 1;
                }
            }
        }
    }
    assert!(lost > 10 && kept > 10, "lost {lost}, kept {kept}");
    assert!(
        crashed.is_superset(&[site::LOG_APPEND, site::LOG_SYNC, site::SEGMENT_ZERO].into()),
        "{crashed:?}"
    );
}

#[test]
fn a_crash_at_any_operation_of_opening_after_a_crash_changes_nothing() {
    let mut crashed = BTreeSet::new();
    for op in 0..operations() {
        let (site, disk, allowed) = crash_once(op, op + 77, Mutants::NONE).unwrap();
        crashed.insert(site);
        // The first open settles which of the allowed states it is; no later crash may change that.
        for at in 0.. {
            let again = disk.reboot(0);
            again.crash_at(at, op ^ at);
            if open(&again, Mutants::NONE).is_ok() {
                break;
            }
            crashed.insert(again.last_crash_site().unwrap());
            let expected = judge(&disk.reboot(0), &allowed, Mutants::NONE).unwrap();
            let found = judge(&again.reboot(op + at), &allowed, Mutants::NONE);
            assert_eq!(found, Ok(expected), "op {op} {site}, then {:?}", again.crashed());
        }
    }
    assert_eq!(crashed, site::ALL.into(), "every place must have been crashed at");
}

#[test]
fn what_is_found_after_a_killed_process_survives_a_later_power_loss() {
    for op in 0..operations() {
        for seed in 0..4 {
            let disk = FaultDisk::new();
            disk.crash_at(op, seed);
            let ended = run(&disk, GROUPS, &State::new(), &mut Numbers(7), Mutants::NONE);
            // The process is gone, the machine runs on: written and un-synced bytes are still to be read.
            let machine = disk.restart();
            let found = judge(&machine, &ended.allowed, Mutants::NONE).unwrap();
            // Names that were changed and not synced come in many combinations.
            let losses = if disk.last_crash_site() == Some(site::DIR_SYNC) { 64 } else { 2 };
            for loss in 0..losses {
                let after = judge(&machine.reboot(loss), &ended.allowed, Mutants::NONE);
                assert_eq!(after.as_ref(), Ok(&found), "op {op} {:?}", disk.crashed());
            }
        }
    }
}

#[test]
fn a_snapshot_renamed_before_its_data_is_synced_is_noticed() {
    let mutants = Mutants::only(Mutant::SnapshotRenamedUnsynced);
    let caught = (0..operations()).filter(|op| crash_once(*op, *op, mutants).is_err()).count();
    assert!(caught > 0, "the crash test would not notice an unsynced snapshot");
}

#[test]
fn the_same_calls_make_the_same_operations_and_bytes() {
    let run_once = || {
        let disk = FaultDisk::new();
        run(&disk, GROUPS, &State::new(), &mut Numbers(7), Mutants::NONE);
        let names = onceward_store::disk::Disk::list(&disk, workload::DIR.as_ref()).unwrap();
        let files: Vec<_> =
            names.iter().map(|name| disk.contents(&std::path::Path::new(workload::DIR).join(name))).collect();
        (disk.trace(), names, files)
    };
    assert_eq!(run_once(), run_once());
}
