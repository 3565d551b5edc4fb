//! A transaction that is larger than every size the store is made for.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails the test")]

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use onceward_protocol::{CommitOutcome, Fenced, Mutants};
use onceward_store::contract::{epoch, generation, partition};
use onceward_store::disk::OsDisk;
use onceward_store::{EmbeddedCore, EmbeddedStore, Operation, Options, Store, TableId, WriteBatch};

const PARTITIONS: u32 = 4;
const ROWS: u32 = 25;
const ROW_BYTES: usize = 1 << 20;

/// 100 MiB of rows for jobs that it grants the partitions to.
fn transaction() -> Vec<Operation> {
    let steps = (0..PARTITIONS).flat_map(|index| {
        let mut writes = WriteBatch::default();
        for row in 0..ROWS {
            writes.put(TableId::STATE, &row.to_be_bytes(), &vec![row as u8 + 1; ROW_BYTES]);
        }
        let (p, g) = (partition(index), generation(1));
        [Operation::Grant(p.clone(), g), Operation::Commit(epoch(&p, g, 1, None, writes))]
    });
    steps.collect()
}

fn open(dir: &Path) -> EmbeddedCore<OsDisk> {
    EmbeddedCore::open(OsDisk, dir, Options::default(), Mutants::NONE).unwrap()
}

fn assert_all_there(store: &dyn Store) {
    for index in 0..PARTITIONS {
        let mut rows = 0;
        let mut check = |key: &[u8], value: &[u8]| {
            assert_eq!(key, (rows as u32).to_be_bytes());
            assert!(value.len() == ROW_BYTES && value.iter().all(|byte| *byte == rows as u8 + 1));
            rows += 1;
        };
        store.scan(&partition(index), TableId::STATE, &mut check).unwrap();
        assert_eq!(rows, ROWS as usize);
    }
}

#[test]
fn a_transaction_of_100_megabytes_is_one_group_whole_or_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(dir.path(), Options::default()).unwrap();
    let handle = store.handle();
    assert_eq!(handle.transact(transaction()), CommitOutcome::Committed);
    assert_eq!(handle.stats().sequence, 1);
    let again = handle.transact(transaction());
    assert!(matches!(again, CommitOutcome::Fenced(Fenced::NotOwner { .. })), "{again:?}");
    store.close();

    // From whatever there is by now: the log alone, or a snapshot as well.
    let mut store = open(dir.path());
    assert_all_there(&store);
    store.maintain().unwrap();
    assert!(store.snapshot_bytes() > 100 << 20);
    drop(store);
    assert_all_there(&open(dir.path()));
}

#[test]
fn a_transaction_of_100_megabytes_that_is_torn_is_not_there_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.transact(transaction());
    store.flush(&mut Vec::new()).unwrap();
    drop(store);
    let log = dir.path().join(format!("log-{:020}", 1));
    let file = OpenOptions::new().write(true).open(&log).unwrap();
    // One sector, far behind the zeros that the segment began with.
    file.write_all_at(&[0; 512], 64 << 20).unwrap();
    let store = open(dir.path());
    assert_eq!(store.partitions().unwrap(), []);
    assert_eq!(store.sequence(), 0);
}
