//! AC-49: a run never starts empty, or from an older place, where state exists. Only a reset starts over, and it says so.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::path::Path;
use std::time::Duration;

use onceward::{Demand, Prepared, RunEnd, RunError, RunOptions};

const MANIFEST: &str = r#"
apiVersion: onceward.dev/v1
kind: Pipeline
metadata: { name: kept }
spec:
  epoch: { interval: 5ms }
  sources:
    made: { type: generator, config: { partitions: 2, keys: 50, rate: 20000 }, eventTime: { field: time } }
  computations:
    counts: { inputs: [made], groupBy: [key], aggregate: { window: { tumbling: 1s }, compute: { n: count() } } }
  sinks:
    out: { inputs: [counts], type: blackhole }
"#;

fn prepare(folder: &Path, state: &Path, text: &str) -> Result<Prepared, RunError> {
    let registry = onceward::registry();
    let pipeline = onceward::pipeline(text, folder, &registry)?;
    let options =
        RunOptions { data_dir: state.to_owned(), workers: 2, rate: None, reset: Default::default() };
    Prepared::new(pipeline, &registry, options)
}

/// A store that a run has left behind, large enough for snapshots and several segments. Answers its epoch.
fn leave_state(folder: &Path, state: &Path) -> u64 {
    let prepared = prepare(folder, state, MANIFEST).unwrap();
    let mut running = onceward::start(prepared).unwrap();
    while running.status().sources[0].rows < 40_000 {
        assert!(running.wait(Duration::from_millis(5)).is_none());
    }
    running.stop();
    assert_eq!(running.wait(Duration::from_secs(60)).unwrap().unwrap(), RunEnd::Stopped);
    prepare(folder, state, MANIFEST).unwrap().epoch().unwrap()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// What must hold of a store that was tampered with: refused, or everything is there.
fn assert_not_empty(folder: &Path, state: &Path, epoch: u64, what: &str) {
    match prepare(folder, state, MANIFEST) {
        Err(RunError::Store(_) | RunError::StoreFailed(_) | RunError::Engine(_)) => {}
        Err(error) => panic!("{what}: refused for another reason: {error}"),
        Ok(prepared) => {
            assert!(prepared.resumed, "{what}: it starts empty");
            assert_eq!(prepared.epoch().unwrap(), epoch, "{what}: it goes on from an older place");
        }
    }
}

#[test]
fn ac_49_a_file_of_the_store_that_is_gone_or_damaged_never_means_an_empty_start() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let epoch = leave_state(folder.path(), &state);
    let names: Vec<_> = std::fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.len() > 2, "{names:?}");
    for name in &names {
        let what = name.to_string_lossy();
        let tampered = folder.path().join("tampered");
        copy(&state, &tampered);
        std::fs::remove_file(tampered.join(name)).unwrap();
        assert_not_empty(folder.path(), &tampered, epoch, &format!("{what} is gone"));
        std::fs::remove_dir_all(&tampered).unwrap();

        copy(&state, &tampered);
        let path = tampered.join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 4;
        if let Some(byte) = bytes.get_mut(middle) {
            *byte ^= 0x55;
        }
        std::fs::write(&path, &bytes).unwrap();
        // Damage beyond what the log holds is no damage.
        assert_not_empty(folder.path(), &tampered, epoch, &format!("{what} is damaged"));
        std::fs::remove_dir_all(&tampered).unwrap();
    }
}

#[test]
fn ac_49_the_state_of_another_pipeline_is_refused_and_a_reset_starts_over() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    leave_state(folder.path(), &state);
    let other = MANIFEST.replace("name: kept", "name: another");
    assert!(matches!(prepare(folder.path(), &state, &other), Err(RunError::OtherPipeline { .. })));
    onceward::offline::demand(&state, Demand::Reset).unwrap();
    let prepared = prepare(folder.path(), &state, MANIFEST).unwrap();
    assert!(!prepared.resumed, "only a reset starts over");
}
