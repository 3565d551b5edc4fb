//! A pipeline that does nothing, or is restarted again and again, costs no more than it did at first.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails the test")]

use std::path::Path;

use onceward_protocol::{CommitOutcome, Mutants, PartitionId};
use onceward_store::contract::{generation, partition};
use onceward_store::disk::{Disk, DiskFile, FaultDisk, OsDisk};
use onceward_store::{EmbeddedCore, EpochCommit, Operation, Options, Store, TableId, WriteBatch};

const PARTITIONS: u32 = 4;
const EPOCHS: u64 = 1_000;
/// The costs are looked at after so many epochs, and the store is then opened again, if it is at all.
const STRETCH: u64 = 10;

fn size<D: Disk>(disk: &D, dir: &Path) -> u64 {
    let names = disk.list(dir).unwrap();
    names.iter().map(|name| disk.open(&dir.join(name)).unwrap().size().unwrap()).sum()
}

fn flush<D: Disk>(store: &mut EmbeddedCore<D>) {
    let mut outcomes = Vec::new();
    store.flush(&mut outcomes).unwrap();
    assert!(outcomes.iter().all(|outcome| outcome.outcome == CommitOutcome::Committed), "{outcomes:?}");
    store.maintain().unwrap();
}

/// The next epoch of whoever owns the partition.
fn next<D: Disk>(store: &EmbeddedCore<D>, partition: PartitionId, writes: WriteBatch) -> EpochCommit {
    let head = store.head(&partition).unwrap();
    let epoch = head.head.map_or(1, |head| head.epoch + 1);
    EpochCommit { partition, generation: head.granted.unwrap(), epoch, predecessor: head.head, writes }
}

/// Opens the store as a restart does: every partition gets a new job.
fn restart<D: Disk>(disk: &D, dir: &Path, options: Options) -> EmbeddedCore<D> {
    let mut store = EmbeddedCore::open(disk.clone(), dir, options, Mutants::NONE).unwrap();
    let grants = (0..PARTITIONS).map(partition).map(|partition| {
        let number = store.head(&partition).unwrap().last_number + 1;
        Operation::Grant(partition, generation(number))
    });
    let grants = grants.collect();
    store.transact(grants);
    flush(&mut store);
    store
}

fn row_count<D: Disk>(store: &EmbeddedCore<D>) -> usize {
    let mut rows = 0;
    for partition in store.partitions().unwrap() {
        for table in 0..=u8::MAX {
            store.scan(&partition, TableId(table), &mut |_, _| rows += 1).unwrap();
        }
    }
    rows
}

/// Whether the store is opened again after every stretch: a restart counts the log anew and puts the directory in
/// order, which a store that runs on has to do for itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Restarts {
    Never,
    AfterEveryStretch,
}

struct Cost {
    /// Of the directory, before and after each stretch of epochs.
    sizes: Vec<u64>,
    /// Of the tables in memory, likewise.
    tables: Vec<u64>,
}

/// Fills a store, then runs epochs with what `writes` makes, one partition at a time.
fn idle<D: Disk>(
    disk: &D,
    dir: &Path,
    options: Options,
    restarts: Restarts,
    writes: impl Fn(u64) -> WriteBatch,
) -> Cost {
    let mut store = restart(disk, dir, options);
    for index in 0..PARTITIONS {
        let mut rows = writes(0);
        for key in 0..100u8 {
            rows.put(TableId::STATE, &[key], &[7; 20]);
        }
        store.commit(next(&store, partition(index), rows));
    }
    flush(&mut store);
    let (partitions, rows) = (store.partitions().unwrap(), row_count(&store));
    let mut cost = Cost { sizes: vec![size(disk, dir)], tables: vec![store.table_bytes()] };
    for epoch in 0..EPOCHS {
        store.commit(next(&store, partition(epoch as u32 % PARTITIONS), writes(epoch)));
        flush(&mut store);
        if (epoch + 1).is_multiple_of(STRETCH) {
            if restarts == Restarts::AfterEveryStretch {
                drop(store);
                store = restart(disk, dir, options);
            }
            cost.sizes.push(size(disk, dir));
            cost.tables.push(store.table_bytes());
        }
    }
    assert_eq!(store.partitions().unwrap(), partitions);
    assert_eq!(row_count(&store), rows);
    let restarted = if restarts == Restarts::Never { 0 } else { EPOCHS / STRETCH };
    assert_eq!(store.head(&partition(0)).unwrap().last_number, 1 + restarted);
    cost
}

fn nothing(_: u64) -> WriteBatch {
    WriteBatch::default()
}

/// What an idle job may still write: one row, over and over.
fn one_row(epoch: u64) -> WriteBatch {
    let mut writes = WriteBatch::default();
    writes.put(TableId::META, b"progress", &epoch.to_be_bytes());
    writes
}

#[test]
fn a_thousand_idle_epochs_and_a_hundred_restarts_stay_within_one_segment() {
    let options = Options::default();
    let dir = tempfile::tempdir().unwrap();
    let cost = idle(&OsDisk, dir.path(), options, Restarts::AfterEveryStretch, nothing);
    let last = *cost.sizes.last().unwrap();
    assert!(last <= cost.sizes[0] + options.first_segment_bytes, "{} became {last}", cost.sizes[0]);
    assert_eq!(cost.tables.first(), cost.tables.last());
}

#[test]
fn a_store_that_is_idle_for_ever_does_not_grow() {
    // A thousand epochs, of a page each, fill a segment many times over; those between two restarts do not
    // fill one, so that the log has to be counted across restarts.
    let segment = 64 << 10;
    assert!((STRETCH + 1) * 4096 < segment && segment < EPOCHS * 4096 / 50);
    let options = Options {
        first_segment_bytes: segment,
        segment_bytes: segment,
        fold_min_bytes: u64::MAX,
        snapshot_min_bytes: segment,
    };
    for (restarts, writes) in [
        (Restarts::AfterEveryStretch, nothing as fn(u64) -> WriteBatch),
        (Restarts::AfterEveryStretch, one_row),
        (Restarts::Never, nothing),
        (Restarts::Never, one_row),
    ] {
        let disk = FaultDisk::new();
        let cost = idle(&disk, Path::new("/store"), options, restarts, writes);
        // The one that is written to, the one before it until a snapshot covers it, and the one that waits;
        // and beside them the snapshot, which is as small as the rows.
        let most = cost.sizes.iter().max().unwrap();
        assert!(*most <= 3 * segment + (16 << 10), "{most} bytes on the disk, restarts: {restarts:?}");
        // Overwritten rows stay until the next snapshot, at most.
        let most = cost.tables.iter().max().unwrap();
        assert!(*most <= cost.tables[0] + segment, "{most} bytes in memory, at first {}", cost.tables[0]);
    }
}
