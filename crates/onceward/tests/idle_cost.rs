//! What restarts cost a pipeline that has nothing to do: after a hundred of them neither the process nor the store has grown.
//! A thousand idle epochs are the store's own tests (`idle`), because an idle job commits once in a while only.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::Path;
use std::time::Duration;

use onceward::{Prepared, RunEnd, RunOptions};

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

/// Resident memory of this process, bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
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
fn after_a_hundred_restarts_neither_memory_nor_store_has_grown() {
    const SEGMENT: u64 = 64 << 20;
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..2_000)
        .map(|number| format!("{{\"k\":\"k{}\",\"t\":\"2024-01-01T00:00:00Z\"}}\n", number % 500))
        .collect();
    std::fs::write(folder.path().join("lines.jsonl"), rows).unwrap();
    // What is allocated once and for all is there after a few runs.
    (0..20).for_each(|_| run(folder.path()));
    let (memory, store) = (resident(), size(&folder.path().join("state")));
    (0..100).for_each(|_| run(folder.path()));
    let (after, store_after) = (resident(), size(&folder.path().join("state")));
    assert!(after <= memory + memory / 20, "memory went from {memory} to {after}");
    assert!(store_after <= store + SEGMENT, "the store went from {store} to {store_after}");
    println!("memory {memory} -> {after}, store {store} -> {store_after}");
}
