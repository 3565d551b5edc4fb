//! Maintenance that runs beside commits, and ends late.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails the test")]

mod workload;

use std::path::Path;

use onceward_protocol::{Mutant, Mutants};
use onceward_store::contract::{epoch, generation, partition, writes};
use onceward_store::disk::{Fault, FaultDisk, site};
use onceward_store::{EmbeddedCore, MaintenanceJob, MaintenanceKind, Options, Store, StoreError};
use workload::{DIR, Numbers, State, group, prefixes, read, submit};

const RESTLESS: Options =
    Options { first_segment_bytes: 8192, segment_bytes: 8192, fold_min_bytes: 0, snapshot_min_bytes: 4096 };

fn open(disk: &FaultDisk) -> EmbeddedCore<FaultDisk> {
    EmbeddedCore::open(disk.clone(), Path::new(DIR), RESTLESS, Mutants::NONE).unwrap()
}

#[test]
fn jobs_that_end_late_lose_nothing() {
    for seed in 0..60 {
        let mut disk = FaultDisk::new();
        let mut store = open(&disk);
        let mut numbers = Numbers(seed);
        let mut committed = State::new();
        let mut waiting: Vec<(u64, MaintenanceJob)> = Vec::new();
        for round in 0..60 {
            let ops = group(&committed, &mut numbers);
            ops.iter().for_each(|op| submit(&mut store, op));
            // Jobs are handed out, run and finished before, between and after what is submitted.
            while let Some(job) = store.maintenance() {
                assert!(waiting.iter().all(|(_, other)| other.kind() != job.kind()), "two jobs of a kind");
                waiting.push((round + numbers.below(5), job));
            }
            store.flush(&mut Vec::new()).unwrap();
            committed = prefixes(&committed, &ops).pop().unwrap();
            let (due, later): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(at, _)| *at <= round);
            waiting = later;
            for (_, job) in due {
                let done = job.run(&disk);
                store.finish_maintenance(done).unwrap();
            }
            assert_eq!(read(&store).unwrap(), committed, "seed {seed} round {round}");
            if numbers.below(8) == 0 {
                drop(store);
                waiting.clear();
                disk = disk.reboot(seed + round);
                store = open(&disk);
                assert_eq!(read(&store).unwrap(), committed, "seed {seed} round {round}");
            }
        }
    }
}

#[test]
fn a_partition_that_is_not_flushed_is_in_no_snapshot() {
    let disk = FaultDisk::new();
    let options = Options { snapshot_min_bytes: 0, ..RESTLESS };
    let mut store = EmbeddedCore::open(disk.clone(), Path::new(DIR), options, Mutants::NONE).unwrap();
    store.grant(&partition(0), generation(1));
    store.flush(&mut Vec::new()).unwrap();
    store.grant(&partition(1), generation(1));
    store.maintain().unwrap();
    assert!(disk.trace().contains(&site::SNAPSHOT_RENAME));
    let lost = open(&disk.reboot(1));
    assert_eq!(lost.partitions().unwrap(), [partition(0)]);
    store.flush(&mut Vec::new()).unwrap();
    let kept = open(&disk.reboot(2));
    assert_eq!(kept.partitions().unwrap(), [partition(0), partition(1)]);
}

#[test]
fn commits_wait_for_a_snapshot_that_is_far_behind_unless_the_store_stopped() {
    let disk = FaultDisk::new();
    let mut store = open(&disk);
    let mut numbers = Numbers(1);
    let mut committed = State::new();
    let mut tables = None;
    while !store.overdue() {
        assert!(disk.ops() < 1_000, "a snapshot that never ends is never overdue");
        let ops = group(&committed, &mut numbers);
        ops.iter().for_each(|op| submit(&mut store, op));
        store.flush(&mut Vec::new()).unwrap();
        committed = prefixes(&committed, &ops).pop().unwrap();
        while let Some(job) = store.maintenance() {
            match job.kind() {
                MaintenanceKind::Segment => drop(store.finish_maintenance(job.run(&disk)).unwrap()),
                MaintenanceKind::Tables => tables = Some(job),
            }
        }
    }
    disk.inject_at_site(site::LOG_SYNC, 0, Fault::Refused);
    store.grant(&partition(0), generation(99));
    store.flush(&mut Vec::new()).unwrap_err();
    assert!(store.finish_maintenance(tables.unwrap().run(&disk)).is_err());
    assert!(!store.overdue());
}

#[test]
fn a_late_segment_is_not_waited_for() {
    let disk = FaultDisk::new();
    let mut store = open(&disk);
    let mut numbers = Numbers(1);
    let mut committed = State::new();
    let mut job = None;
    for _ in 0..30 {
        let ops = group(&committed, &mut numbers);
        ops.iter().for_each(|op| submit(&mut store, op));
        store.flush(&mut Vec::new()).unwrap();
        committed = prefixes(&committed, &ops).pop().unwrap();
        job = job.or_else(|| store.maintenance());
    }
    let created = disk.trace().iter().filter(|at| **at == site::SEGMENT_CREATE).count();
    assert_eq!(created, 1, "the job's segment was made by somebody else");
    assert_eq!(read(&open(&disk.reboot(3))).unwrap(), committed);
    let done = job.filter(|job| job.kind() == MaintenanceKind::Segment).unwrap().run(&disk);
    store.finish_maintenance(done).unwrap();
}

#[test]
fn a_log_that_its_own_rules_would_have_refused_is_not_believed() {
    let disk = FaultDisk::new();
    let mutants = Mutants::only(Mutant::ChainNotCompared);
    let mut store = EmbeddedCore::open(disk.clone(), Path::new(DIR), Options::small(), mutants).unwrap();
    store.grant(&partition(0), generation(2));
    store.commit(epoch(&partition(0), generation(1), 1, None, writes(&[("a", Some("zombie"))])));
    store.flush(&mut Vec::new()).unwrap();
    drop(store);
    let opened = EmbeddedCore::open(disk.reboot(1), Path::new(DIR), Options::small(), Mutants::NONE);
    assert!(matches!(opened, Err(StoreError::Damaged { .. })));
}
