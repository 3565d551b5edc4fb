//! What restarts cost a pipeline that has nothing to do: after a hundred of them neither what a process
//! holds nor the store has grown.
//! A thousand idle epochs are the store's own tests (`idle`), because an idle job commits once in a while only.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::Path;
use std::time::Duration;

use onceward::{Prepared, RunEnd, RunOptions};
use onceward_store::{EmbeddedStore, Options, TableId};

const MANIFEST: &str = r#"
apiVersion: onceward.dev/v1
kind: Pipeline
metadata: { name: idle }
spec:
  epoch: { interval: 1ms }
  sources:
    lines: { type: file, config: { path: lines.jsonl, format: jsonl, bounded: false }, eventTime: { field: t } }
  computations:
    counts: { inputs: [lines], groupBy: [k], partitions: 4, aggregate: { window: { tumbling: 1h }, compute: { n: count() } } }
  sinks:
    out: { inputs: [counts], type: file, config: { path: out, format: jsonl } }
"#;

/// Bytes of every row that a process loads: its memory is made of them.
fn held(folder: &Path) -> usize {
    let store = EmbeddedStore::open(&folder.join("state"), Options::default()).unwrap();
    let handle = store.handle();
    let mut bytes = 0;
    for partition in handle.partitions().unwrap() {
        for table in (0..8).map(TableId) {
            let rows = handle.scan(&partition, table).unwrap();
            bytes += rows.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        }
    }
    store.close();
    bytes
}

fn size(folder: &Path) -> u64 {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

/// One run of a pipeline that has nothing to do, from the grant of every partition to the end of every job.
fn run(folder: &Path) {
    let registry = onceward::registry();
    let pipeline = onceward::pipeline(MANIFEST, folder, &registry).unwrap();
    let options =
        RunOptions { data_dir: folder.join("state"), workers: 2, rate: None, reset: Default::default() };
    let prepared = Prepared::new(pipeline, &registry, options).unwrap();
    let mut running = onceward::start(prepared).unwrap();
    while running.status().jobs.iter().any(|job| job.worker.is_none()) {
        assert!(running.wait(Duration::from_millis(1)).is_none());
    }
    running.stop();
    assert_eq!(running.wait(Duration::from_secs(60)).unwrap().unwrap(), RunEnd::Stopped);
}

#[test]
fn after_a_hundred_restarts_neither_what_is_held_nor_the_store_has_grown() {
    const SEGMENT: u64 = 64 << 20;
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..2_000)
        .map(|number| format!("{{\"k\":\"k{}\",\"t\":\"2024-01-01T00:00:00Z\"}}\n", number % 500))
        .collect();
    std::fs::write(folder.path().join("lines.jsonl"), rows).unwrap();
    // The first runs take up the rows.
    (0..10).for_each(|_| run(folder.path()));
    let state = folder.path().join("state");
    let (memory, store) = (held(folder.path()), size(&state));
    (0..100).for_each(|_| run(folder.path()));
    let (memory_after, store_after) = (held(folder.path()), size(&state));
    assert!(memory > 5_000, "{memory}: the keys are there");
    assert!(memory_after <= memory + memory / 20, "what is held went from {memory} to {memory_after}");
    assert!(store_after <= store + SEGMENT, "the store went from {store} to {store_after}");
}
