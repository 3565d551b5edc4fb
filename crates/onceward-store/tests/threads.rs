//! The store with its threads: nobody is left without an answer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use onceward_protocol::CommitOutcome;
use onceward_protocol::chain::Head;
use onceward_store::contract::{epoch, generation, partition, writes};
use onceward_store::disk::{Fault, FaultDisk, site};
use onceward_store::{EmbeddedStore, Options, StoreError, TableId};

#[test]
fn every_submission_is_answered_once_even_by_a_store_that_closes() {
    let dir = tempfile::tempdir().unwrap();
    // A snapshot is always overdue: commits wait for maintenance all the time.
    let options = Options { snapshot_min_bytes: 512, ..Options::small() };
    let store = EmbeddedStore::open(dir.path(), options).unwrap();
    let handle = store.handle();
    let answers = Arc::new(AtomicU64::new(0));
    let last_committed = Arc::new(Mutex::new(0));
    assert_eq!(handle.grant(&partition(0), generation(1)), CommitOutcome::Committed);
    let submitter = std::thread::spawn({
        let (handle, answers, last_committed) =
            (handle.clone(), Arc::clone(&answers), Arc::clone(&last_committed));
        move || {
            for number in 1..=5_000 {
                let before = (number > 1).then_some(Head { generation: generation(1), epoch: number - 1 });
                let value = number.to_string();
                let commit =
                    epoch(&partition(0), generation(1), number, before, writes(&[("last", Some(&value))]));
                let (answers, last_committed) = (Arc::clone(&answers), Arc::clone(&last_committed));
                handle.submit_commit(
                    commit,
                    Box::new(move |outcome| {
                        answers.fetch_add(1, Ordering::SeqCst);
                        if outcome == CommitOutcome::Committed {
                            *last_committed.lock().unwrap() = number;
                        }
                    }),
                );
            }
        }
    });
    while answers.load(Ordering::SeqCst) < 100 {
        std::thread::yield_now();
    }
    drop(store);
    submitter.join().unwrap();
    assert_eq!(answers.load(Ordering::SeqCst), 5_000);
    let late = Arc::clone(&answers);
    let commit = epoch(&partition(0), generation(1), 9_998, None, writes(&[]));
    handle.submit_commit(
        commit,
        Box::new(move |outcome| {
            assert_eq!(outcome, CommitOutcome::Unknown);
            late.fetch_add(1, Ordering::SeqCst);
        }),
    );
    assert_eq!(answers.load(Ordering::SeqCst), 5_001);
    assert_eq!(
        handle.commit(epoch(&partition(0), generation(1), 9_999, None, writes(&[]))),
        CommitOutcome::Unknown
    );
    assert!(matches!(handle.head(&partition(0)), Err(StoreError::Closed)));

    let store = EmbeddedStore::open(dir.path(), Options::small()).unwrap();
    let last = *last_committed.lock().unwrap();
    assert!(last >= 99);
    let rows = store.handle().scan(&partition(0), TableId::STATE).unwrap();
    assert_eq!(rows, [(b"last".to_vec(), last.to_string().into_bytes())]);
}

#[test]
fn threads_that_share_the_log_each_get_their_own_verdict() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { snapshot_min_bytes: 64 << 10, ..Options::small() };
    let store = EmbeddedStore::open(dir.path(), options).unwrap();
    let threads: Vec<_> = (0..4)
        .map(|index| {
            let handle = store.handle();
            std::thread::spawn(move || {
                let p = partition(index);
                assert_eq!(handle.grant(&p, generation(1)), CommitOutcome::Committed);
                let mut before = None;
                for number in 1..=200 {
                    let key = format!("{number:04}");
                    let mine = epoch(&p, generation(1), number, before, writes(&[(&key, Some("x"))]));
                    let stale = mine.clone();
                    assert_eq!(handle.commit(mine), CommitOutcome::Committed);
                    assert!(matches!(handle.commit(stale), CommitOutcome::Fenced(_)));
                    before = Some(Head { generation: generation(1), epoch: number });
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let stats = store.handle().stats();
    assert!(stats.sync_count >= 201 && stats.sequence == stats.sync_count, "{stats:?}");
    store.close();
    let store = EmbeddedStore::open(dir.path(), options).unwrap();
    for index in 0..4 {
        assert_eq!(store.handle().scan(&partition(index), TableId::STATE).unwrap().len(), 200);
    }
}

#[test]
fn a_store_that_stopped_says_why() {
    let disk = FaultDisk::new();
    let store = EmbeddedStore::open_on(disk.clone(), "/store".as_ref(), Options::small()).unwrap();
    let handle = store.handle();
    assert_eq!(handle.grant(&partition(0), generation(1)), CommitOutcome::Committed);
    assert_eq!(handle.failure(), None);
    disk.inject_at_site(site::LOG_SYNC, 0, Fault::FailedSync(1));
    let commit = epoch(&partition(0), generation(1), 1, None, writes(&[("a", Some("1"))]));
    assert_eq!(handle.commit(commit.clone()), CommitOutcome::Unknown);
    assert!(handle.failure().unwrap().contains("cannot sync /store/log-"));
    assert_eq!(handle.commit(commit), CommitOutcome::Unknown);
    assert!(matches!(handle.head(&partition(0)), Err(StoreError::Poisoned { .. })));
    assert!(matches!(handle.partitions(), Err(StoreError::Poisoned { .. })));
}
