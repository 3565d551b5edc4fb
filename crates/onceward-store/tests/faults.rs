//! One test for each thing that a disk does to a store.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper that cannot go on fails the test")]

mod workload;

use std::path::{Path, PathBuf};

use onceward_protocol::Mutants;
use onceward_store::disk::{Disk, Fault, FaultDisk, OsDisk, site};
use onceward_store::{EmbeddedCore, FORMAT_VERSION, Options, Store, StoreError};
use workload::{DIR, Numbers, State, filled, group, open, prefixes, read, run, run_group, submit};

const PAGE: usize = 4096;

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

fn names(disk: &FaultDisk, prefix: &str) -> Vec<String> {
    disk.list(Path::new(DIR)).unwrap().into_iter().filter(|name| name.starts_with(prefix)).collect()
}

/// Where frames start in a segment.
fn frames(disk: &FaultDisk, name: &str) -> Vec<usize> {
    let bytes = disk.contents(&path(name)).unwrap();
    (0..bytes.len()).step_by(PAGE).filter(|at| bytes[*at..].starts_with(b"OWF1")).collect()
}

/// The segment in which the log ends.
fn last_segment(disk: &FaultDisk) -> String {
    names(disk, "log-").into_iter().rev().find(|name| !frames(disk, name).is_empty()).unwrap()
}

fn everything(disk: &FaultDisk) -> Vec<(String, Option<Vec<u8>>)> {
    names(disk, "").into_iter().map(|name| (name.clone(), disk.contents(&path(&name)))).collect()
}

/// The store is refused as damaged, and the refusal changes nothing.
fn refused(disk: &FaultDisk, what: &str) {
    let before = everything(disk);
    match open(disk, Mutants::NONE) {
        Err(StoreError::Damaged { .. }) => {}
        Err(other) => panic!("{what}: found the refusal {other}"),
        Ok(_) => panic!("{what}: was opened"),
    }
    assert_eq!(everything(disk), before, "{what}: the refusal changed something");
}

/// A store whose next flush will fail as told; what was committed, and the states it may end in.
fn broken_flush(site: &'static str, fault: Fault) -> (FaultDisk, EmbeddedCore<FaultDisk>, Vec<State>) {
    let (disk, state) = filled(9);
    let mut store = open(&disk, Mutants::NONE).unwrap();
    let ops = group(&state, &mut Numbers(3));
    disk.inject_at_site(site, 0, fault);
    let (committed, _) = run_group(&mut store, &ops).unwrap_err();
    assert!(!committed);
    (disk, store, prefixes(&state, &ops))
}

#[test]
fn a_torn_tail_is_dropped_and_zeroed() {
    let (disk, state) = filled(9);
    let mut store = open(&disk, Mutants::NONE).unwrap();
    let ops = group(&state, &mut Numbers(3));
    run_group(&mut store, &ops).unwrap();
    drop(store);
    let name = last_segment(&disk);
    let start = *frames(&disk, &name).last().unwrap();
    let whole = disk.contents(&path(&name)).unwrap();
    let end = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    // Each sector of the last frame lost alone, and all from some point on.
    for lost in (start / 512..=(end - 1) / 512).map(|sector| sector * 512) {
        for until in [lost + 512, end] {
            let torn = disk.reboot(0);
            let zeros = vec![0; until.min(whole.len()) - lost];
            if whole[lost..lost + zeros.len()] == zeros {
                continue;
            }
            torn.overwrite(&path(&name), lost, &zeros);
            let mut store = open(&torn, Mutants::NONE).unwrap();
            assert_eq!(read(&store).unwrap(), state, "sector at {lost}");
            let found = torn.contents(&path(&name)).unwrap();
            assert!(found[start..].iter().all(|byte| *byte == 0), "remains of the torn frame at {lost}");
            run_group(&mut store, &ops).unwrap();
            let expected = read(&store).unwrap();
            drop(store);
            assert_eq!(read(&open(&torn, Mutants::NONE).unwrap()).unwrap(), expected);
        }
    }
}

#[test]
fn a_flipped_bit_in_the_middle_of_the_log_is_refused() {
    // With and without a snapshot, with few and many frames after it.
    for groups in [3, 4, 9, 13, 14, 15] {
        let (disk, _) = filled(groups);
        let last = last_segment(&disk);
        for name in names(&disk, "log-") {
            let starts = frames(&disk, &name);
            let bytes = disk.contents(&path(&name)).unwrap();
            for (index, start) in starts.iter().enumerate() {
                if name == last && index + 1 == starts.len() {
                    continue;
                }
                let len = u64::from_be_bytes(bytes[start + 32..start + 40].try_into().unwrap()) as usize;
                for offset in
                    (*start..start + 48).step_by(3).chain((start + 48..start + 48 + len).step_by(97))
                {
                    let damaged = disk.reboot(0);
                    assert!(damaged.flip(&path(&name), offset, 1 << (offset % 8)));
                    refused(&damaged, &format!("{groups} groups, {name} byte {offset}"));
                }
            }
        }
    }
}

#[test]
fn a_frame_lost_from_the_middle_of_the_log_is_refused() {
    for groups in [3, 4, 9, 13, 14, 15] {
        let (disk, _) = filled(groups);
        let last = last_segment(&disk);
        for name in names(&disk, "log-") {
            let starts = frames(&disk, &name);
            for start in &starts {
                if name == last && starts.last() == Some(start) {
                    continue;
                }
                let damaged = disk.reboot(0);
                damaged.overwrite(&path(&name), *start, &[0; PAGE]);
                refused(&damaged, &format!("{groups} groups, {name} page {start}"));
            }
        }
    }
}

#[test]
fn a_flipped_bit_in_a_snapshot_is_refused() {
    let (disk, _) = filled(40);
    let name = names(&disk, "snapshot-").pop().unwrap();
    let len = disk.contents(&path(&name)).unwrap().len();
    for offset in (0..len).step_by(3) {
        let damaged = disk.reboot(0);
        assert!(damaged.flip(&path(&name), offset, 1 << (offset % 8)));
        refused(&damaged, &format!("snapshot byte {offset}"));
    }
    let longer = disk.reboot(0);
    longer.overwrite(&path(&name), len, b"x");
    refused(&longer, "a longer snapshot");
}

#[test]
fn a_missing_file_is_refused_and_never_an_empty_store() {
    let (with_snapshot, _) = filled(40);
    let (without, _) = filled(2);
    let snapshot = names(&with_snapshot, "snapshot-").pop().unwrap();
    let first = names(&without, "log-").remove(0);
    let active = last_segment(&with_snapshot);
    assert!(names(&without, "snapshot-").is_empty());
    for (disk, gone) in [
        (&with_snapshot, snapshot.as_str()),
        (&with_snapshot, active.as_str()),
        (&with_snapshot, "FORMAT"),
        (&without, first.as_str()),
        (&without, "FORMAT"),
    ] {
        let damaged = disk.reboot(0);
        damaged.erase(&path(gone));
        refused(&damaged, gone);
    }
}

#[test]
fn a_log_that_ends_before_its_snapshot_is_refused() {
    let mut tried = 0;
    for groups in 2..40 {
        let (disk, _) = filled(groups);
        let sequence = open(&disk, Mutants::NONE).unwrap().sequence();
        if !names(&disk, "snapshot-").contains(&format!("snapshot-{sequence:020}")) {
            continue;
        }
        // The snapshot was taken right after the last group: the frame behind it was durable.
        let name = last_segment(&disk);
        disk.overwrite(&path(&name), *frames(&disk, &name).last().unwrap(), &[0; 48]);
        refused(&disk, &format!("{groups} groups"));
        tried += 1;
    }
    assert!(tried > 2);
}

#[test]
fn stale_and_recycled_frames_are_not_accepted() {
    let (disk, state) = filled(9);
    let name = last_segment(&disk);
    // The very frame that would come next.
    let next = disk.reboot(0);
    let ops = group(&state, &mut Numbers(3));
    run_group(&mut open(&next, Mutants::NONE).unwrap(), &ops).unwrap();
    let bytes = next.contents(&path(&name)).unwrap();
    let before = frames(&disk, &name);
    let at = frames(&next, &name).into_iter().find(|at| !before.contains(at)).unwrap();
    let forged = |field: usize, change: i64| {
        let mut frame = bytes[at..].to_vec();
        let value = i64::from_be_bytes(frame[field..field + 8].try_into().unwrap()) + change;
        frame[field..field + 8].copy_from_slice(&value.to_be_bytes());
        let sum = crc32c::crc32c(&frame[8..48]);
        frame[4..8].copy_from_slice(&sum.to_be_bytes());
        let found = disk.reboot(0);
        found.overwrite(&path(&name), at, &frame);
        found
    };
    let genuine = open(&forged(24, 0), Mutants::NONE).unwrap();
    assert_eq!(read(&genuine).unwrap(), prefixes(&state, &ops).pop().unwrap());
    // Of another segment, or of another place in this one: never written here.
    for field in [8, 16] {
        let found = open(&forged(field, -1), Mutants::NONE).unwrap();
        assert_eq!(read(&found).unwrap(), state, "field at {field}");
    }
    // Of this very place, yet out of sequence: the log is not what it was.
    for change in [-1, 1] {
        refused(&forged(24, change), "out of sequence");
    }
}

#[test]
fn a_short_write_leaves_the_last_commit() {
    let (disk, store, states) = broken_flush(site::LOG_APPEND, Fault::ShortWrite);
    drop(store);
    for found in [disk.restart(), disk.reboot(1), disk.reboot(2), disk.reboot(3)] {
        let found = read(&open(&found, Mutants::NONE).unwrap()).unwrap();
        assert_eq!(found, states[0]);
    }
}

#[test]
fn a_failed_sync_is_never_retried_and_never_believed() {
    for seed in 0..40 {
        let (disk, mut store, states) = broken_flush(site::LOG_SYNC, Fault::FailedSync(seed));
        let operations = disk.ops();
        let mut outcomes = Vec::new();
        submit(&mut store, &workload::Op::Grant(0, onceward_store::contract::generation(99)));
        assert!(matches!(store.flush(&mut outcomes), Err(StoreError::Poisoned { .. })));
        assert!(store.maintain().is_err());
        assert!(matches!(read(&store), Err(StoreError::Poisoned { .. })));
        assert_eq!(disk.ops(), operations, "a poisoned store touched the disk");
        drop(store);
        // Another process on the same machine reads what the device never got. Whatever it takes for
        // committed has to be.
        let machine = disk.restart();
        let found = read(&open(&machine, Mutants::NONE).unwrap()).unwrap();
        assert!(states.contains(&found));
        for later in 0..4 {
            let after = machine.reboot(later);
            assert_eq!(read(&open(&after, Mutants::NONE).unwrap()).unwrap(), found, "seed {seed}");
        }
    }
}

#[test]
fn a_failed_sync_of_a_snapshot_or_segment_stops_the_store() {
    for at in [site::SNAPSHOT_SYNC, site::SEGMENT_SYNC, site::DIR_SYNC] {
        let (disk, state) = filled(9);
        let mut store = open(&disk, Mutants::NONE).unwrap();
        disk.inject_at_site(at, 0, Fault::FailedSync(0));
        let mut committed = state;
        let mut numbers = Numbers(5);
        let stopped = loop {
            assert!(disk.ops() < 10_000, "{at} was never reached");
            let ops = group(&committed, &mut numbers);
            match run_group(&mut store, &ops) {
                Ok(()) => committed = read(&store).unwrap(),
                Err((true, error)) => {
                    committed = prefixes(&committed, &ops).pop().unwrap();
                    break error;
                }
                Err((false, error)) => panic!("{at}: {error}"),
            }
        };
        assert!(matches!(stopped, StoreError::Poisoned { .. }), "{at}: {stopped}");
        drop(store);
        for seed in 0..8 {
            let found = read(&open(&disk.reboot(seed), Mutants::NONE).unwrap()).unwrap();
            assert_eq!(found, committed, "{at}");
        }
    }
}

#[test]
fn a_crash_between_snapshot_rename_and_log_removal_keeps_everything() {
    let (undisturbed, _) = filled(60);
    let trace = undisturbed.trace();
    let mut crashes = 0;
    for (renamed, _) in trace.iter().enumerate().filter(|(_, at)| **at == site::SNAPSHOT_RENAME) {
        let removals = trace[renamed + 1..]
            .iter()
            .take_while(|at| matches!(**at, site::DIR_SYNC | site::SNAPSHOT_REMOVE | site::SEGMENT_REMOVE))
            .count();
        for op in renamed..=renamed + 1 + removals {
            for seed in 0..6 {
                let disk = FaultDisk::new();
                disk.crash_at(op as u64, seed);
                let ended = run(&disk, 60, &State::new(), &mut Numbers(1), Mutants::NONE);
                let after = disk.reboot(seed);
                let store = open(&after, Mutants::NONE).unwrap();
                assert!(ended.allowed.contains(&read(&store).unwrap()), "op {op} seed {seed}");
                assert!(names(&after, "snapshot-").len() <= 1, "an obsolete or unfinished snapshot is left");
                crashes += 1;
            }
        }
    }
    assert!(crashes > 50);
}

#[test]
fn nothing_is_removed_or_written_to_before_its_directory_is_synced() {
    let (disk, _) = filled(60);
    let trace = disk.trace();
    let mut unsynced_name = false;
    let mut checked = 0;
    for at in trace {
        match at {
            site::SNAPSHOT_RENAME | site::SEGMENT_CREATE => unsynced_name = true,
            site::DIR_SYNC => unsynced_name = false,
            site::SEGMENT_REMOVE | site::SNAPSHOT_REMOVE | site::LOG_APPEND => {
                assert!(!unsynced_name, "{at} before the directory was synced");
                checked += 1;
            }
            _ => {}
        }
    }
    assert!(checked > 60);
}

#[test]
fn a_full_disk_refuses_and_keeps_what_was_committed() {
    let mut refusals = 0;
    for extra in (0..160).map(|kilobytes| kilobytes << 10) {
        let (disk, state) = filled(9);
        let used: usize = everything(&disk).iter().filter_map(|(_, bytes)| Some(bytes.as_ref()?.len())).sum();
        let mut store = open(&disk, Mutants::NONE).unwrap();
        disk.set_capacity(Some((used + extra) as u64));
        let mut committed = state;
        let mut numbers = Numbers(5);
        for _ in 0..30 {
            let ops = group(&committed, &mut numbers);
            match run_group(&mut store, &ops) {
                Ok(()) => committed = prefixes(&committed, &ops).pop().unwrap(),
                Err((false, error)) => {
                    assert!(matches!(error, StoreError::Full { .. }), "{error}");
                    refusals += 1;
                    assert!(store.head(&onceward_store::contract::partition(0)).is_err());
                    break;
                }
                Err((true, error)) => panic!("no room for maintenance is no failure, found {error}"),
            }
        }
        drop(store);
        // Opening needs no room.
        let full = disk.reboot(1);
        assert_eq!(read(&open(&full, Mutants::NONE).unwrap()).unwrap(), committed);
        let after = disk.reboot(2);
        after.set_capacity(None);
        let mut store = open(&after, Mutants::NONE).unwrap();
        assert_eq!(read(&store).unwrap(), committed);
        run_group(&mut store, &group(&committed, &mut numbers)).unwrap();
    }
    assert!(refusals > 10);
}

#[test]
fn a_bit_that_the_disk_wrote_wrong_is_noticed() {
    for seed in 0..64 {
        let (disk, state) = filled(5);
        let mut store = open(&disk, Mutants::NONE).unwrap();
        disk.inject_at_site(site::LOG_APPEND, 0, Fault::BitFlip(seed));
        let mut committed = state;
        let mut numbers = Numbers(5);
        for _ in 0..2 {
            let ops = group(&committed, &mut numbers);
            for op in &ops {
                submit(&mut store, op);
            }
            store.flush(&mut Vec::new()).unwrap();
            committed = prefixes(&committed, &ops).pop().unwrap();
        }
        drop(store);
        refused(&disk.reboot(seed), "a frame written wrong");
    }
}

#[test]
fn a_second_process_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = EmbeddedCore::open(OsDisk, dir.path(), Options::small(), Mutants::NONE).unwrap();
    match EmbeddedCore::open(OsDisk, dir.path(), Options::small(), Mutants::NONE) {
        Err(StoreError::Locked { holder, .. }) => assert_eq!(holder, std::process::id().to_string()),
        other => panic!("found {other:?}"),
    }
    drop(first);
    EmbeddedCore::open(OsDisk, dir.path(), Options::small(), Mutants::NONE).unwrap();

    let disk = FaultDisk::new();
    let first = open(&disk, Mutants::NONE).unwrap();
    assert!(matches!(open(&disk, Mutants::NONE), Err(StoreError::Locked { .. })));
    drop(first);
    open(&disk, Mutants::NONE).unwrap();
}

#[test]
fn a_store_of_a_newer_version_is_refused() {
    let (disk, _) = filled(3);
    let mut format = b"ONCEWARD".to_vec();
    format.extend_from_slice(&(FORMAT_VERSION + 1).to_be_bytes());
    format.extend_from_slice(&crc32c::crc32c(&format).to_be_bytes());
    disk.overwrite(&path("FORMAT"), 0, &format);
    let before = everything(&disk);
    match open(&disk, Mutants::NONE) {
        Err(StoreError::Newer { found, known, .. }) => {
            assert_eq!((found, known), (FORMAT_VERSION + 1, FORMAT_VERSION))
        }
        other => panic!("found {other:?}"),
    }
    assert_eq!(everything(&disk), before);
}
