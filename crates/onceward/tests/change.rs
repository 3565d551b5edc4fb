//! SPEC-CHANGE: after a stop with drain a manifest may change what needs one; state, numbers and rows go on as if nothing
//! had been. Without a drain, or where state would be orphaned, it is refused before anything happens.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use onceward::{
    Command, Context, Demand, Function, FunctionError, Message, PipelineState, Prepared, ProcessFunction,
    Registry, RunEnd, RunError, RunOptions, Running,
};
use serde_json::Value;

/// Numbers the messages of every key, and says which one it was.
struct Number;

impl ProcessFunction for Number {
    fn on_message(&mut self, message: &Message<'_>, context: &mut dyn Context) -> Result<(), FunctionError> {
        let seen =
            context.state("seen").map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()));
        context.set_state("seen", &(seen + 1).to_le_bytes());
        let key = String::from_utf8_lossy(message.key);
        let row = String::from_utf8_lossy(message.payload);
        let id = row.split('"').nth(3).unwrap_or_default();
        context.emit(format!(r#"{{"of":{key},"number":{},"id":"{id}"}}"#, seen + 1).as_bytes());
        Ok(())
    }
}

fn registry() -> Registry {
    let mut registry = onceward::registry();
    registry.add_function("number", Function::process(|_| Ok(Number)));
    registry
}

/// `computations` and `sinks` are lines behind the ones that every version has.
fn manifest(group_by: &str, computations: &str, sinks: &str) -> String {
    format!(
        r#"
apiVersion: onceward.dev/v1
kind: Pipeline
metadata: {{ name: changed }}
spec:
  epoch: {{ interval: 10ms }}
  sources:
    made: {{ type: generator, config: {{ partitions: 2, keys: 7, rate: 4000 }}, eventTime: {{ field: time }} }}
  computations:
    numbered: {{ inputs: [made], groupBy: [{group_by}], partitions: 3, process: {{ function: number }} }}
{computations}
  sinks:
    out: {{ inputs: [numbered], type: file, config: {{ path: out, format: jsonl, maxRows: 500 }} }}
{sinks}
"#
    )
}

/// After this something counts as never happening: a hang is a failure that says where.
const STUCK: Duration = Duration::from_secs(60);

/// Waits until `done`, while the run goes on.
#[track_caller]
fn until(running: &mut Running, mut done: impl FnMut(&Running) -> bool) {
    let began = Instant::now();
    while !done(running) {
        assert!(running.wait(Duration::from_millis(1)).is_none(), "the run has ended");
        assert!(began.elapsed() < STUCK, "the run is stuck: {:?}", running.status());
    }
}

struct Bench {
    folder: tempfile::TempDir,
    /// Rows read by the runs so far.
    read: Cell<u64>,
}

impl Bench {
    fn new() -> Self {
        Bench { folder: tempfile::tempdir().unwrap(), read: Cell::new(0) }
    }
    fn path(&self) -> &Path {
        self.folder.path()
    }
    fn state(&self) -> PathBuf {
        self.path().join("state")
    }
    fn start(&self, manifest: &str, reset: &[&str]) -> Result<Running, RunError> {
        let registry = registry();
        let pipeline = onceward::pipeline(manifest, self.path(), &registry)?;
        let reset: BTreeSet<String> = reset.iter().map(|name| (*name).to_owned()).collect();
        let options = RunOptions { data_dir: self.state(), workers: 2, rate: None, reset };
        onceward::start(Prepared::new(pipeline, &registry, options)?)
    }
    /// Runs until the sink has `rows` more, then drains. Answers how many rows were read in all.
    fn run(&self, manifest: &str, reset: &[&str], rows: u64) -> u64 {
        let mut running = self.start(manifest, reset).unwrap();
        let remote = running.remote();
        assert!(
            remote.status().sources[0].rows >= self.read.get(),
            "earlier runs count from the first look on"
        );
        // The figures of the runs before are there when every partition's job is.
        until(&mut running, |run| run.status().jobs.iter().all(|job| job.worker.is_some()));
        let before = remote.status().sinks[0].delivered;
        until(&mut running, |run| run.status().sinks[0].delivered >= before + rows);
        remote.ask(Command::Demand(Demand::Stop { drain: true })).unwrap();
        assert_eq!(running.wait(Duration::from_secs(60)).unwrap().unwrap(), RunEnd::Stopped);
        let status = running.status();
        assert_eq!(status.sinks.iter().map(|sink| sink.owed).sum::<u64>(), 0, "drained");
        self.read.set(status.sources[0].rows);
        self.read.get()
    }
    fn rows(&self, sink: &str) -> Vec<Value> {
        let mut rows = Vec::new();
        for entry in std::fs::read_dir(self.path().join(sink)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|kind| kind == "jsonl") {
                let text = std::fs::read_to_string(path).unwrap();
                rows.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
            }
        }
        rows
    }
    fn error(&self, manifest: &str, reset: &[&str]) -> RunError {
        match self.start(manifest, reset) {
            Ok(_) => panic!("it started"),
            Err(error) => error,
        }
    }
}

/// Every key is numbered from 1 on without a gap or a repeat, and every row came once.
fn assert_numbered(rows: &[Value], read: u64) {
    assert_eq!(rows.len() as u64, read);
    let ids: BTreeSet<&str> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), rows.len(), "no row twice");
    let mut keys: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for row in rows {
        assert!(keys.entry(row["of"].to_string()).or_default().insert(row["number"].as_u64().unwrap()));
    }
    for numbers in keys.values() {
        assert_eq!((numbers.first(), numbers.len() as u64), (Some(&1), *numbers.last().unwrap()));
    }
}

const SECOND_SINK: &str =
    "    second: { inputs: [numbered], type: file, config: { path: second, format: jsonl, maxRows: 500 } }";
const WINDOWS: &str = "    minutes: { inputs: [made], groupBy: [key], aggregate: { window: { tumbling: 100ms }, compute: { n: count() } } }";
const WINDOWS_SINK: &str =
    "    counts: { inputs: [minutes], type: file, config: { path: counts, format: jsonl, maxRows: 500 } }";

#[test]
fn after_a_drain_sinks_and_computations_come_and_go_and_state_goes_on() {
    let bench = Bench::new();
    let first = bench.run(&manifest("key", "", ""), &[], 1_500);
    assert_numbered(&bench.rows("out"), first);

    // A second sink, and a computation beside the first: they begin where the sources stand.
    let wider = manifest("key", WINDOWS, &format!("{SECOND_SINK}\n{WINDOWS_SINK}"));
    let second = bench.run(&wider, &[], 1_500);
    assert_numbered(&bench.rows("out"), second);
    let old: BTreeSet<String> = bench.rows("out").iter().map(|row| row["id"].to_string()).collect();
    let new: BTreeSet<String> = bench.rows("second").iter().map(|row| row["id"].to_string()).collect();
    assert_eq!(new.len() as u64, second - first);
    assert!(new.is_subset(&old));
    let counted: u64 = bench.rows("counts").iter().map(|row| row["n"].as_u64().unwrap()).sum();
    assert!(counted > 0 && counted <= second - first, "{counted} of {}", second - first);

    // The second sink goes, a step comes in between: computations keep their state.
    let narrower = manifest("key", WINDOWS, WINDOWS_SINK);
    let third = bench.run(&narrower, &[], 1_500);
    assert_numbered(&bench.rows("out"), third);
    assert_eq!(bench.rows("second").len() as u64, second - first, "nothing more");
}

#[test]
fn the_order_of_parts_in_a_manifest_means_nothing() {
    let bench = Bench::new();
    let sinks = WINDOWS_SINK;
    let first = manifest("key", WINDOWS, sinks);
    bench.run(&first, &[], 1_000);
    // `minutes` before `numbered`.
    let numbered = first.lines().find(|line| line.starts_with("    numbered:")).unwrap().to_owned();
    let moved = first.replace(&format!("{numbered}\n{WINDOWS}"), &format!("{WINDOWS}\n{numbered}"));
    assert_ne!(moved, first);
    let read = bench.run(&moved, &[], 1_000);
    assert_numbered(&bench.rows("out"), read);
}

#[test]
fn without_a_drain_the_change_is_refused_and_the_old_manifest_goes_on() {
    let bench = Bench::new();
    let old = manifest("key", "", "");
    let new = manifest("key", "", SECOND_SINK);
    let mut refused = 0;
    for round in 1..=8 {
        let mut running = bench.start(&old, &[]).unwrap();
        until(&mut running, |run| run.status().sinks[0].delivered >= round * 400);
        running.abandon();
        assert!(running.wait(Duration::from_secs(60)).unwrap().is_err());
        match bench.error_or_nothing(&new) {
            Some(error) => {
                refused += 1;
                assert!(error.contains("OW-5516") && error.contains("onceward stop"), "{error}");
            }
            None => break,
        }
    }
    assert!(refused > 0, "an abandoned run was never in the middle of something");
    let read = bench.run(if refused == 8 { &old } else { &new }, &[], 500);
    assert_numbered(&bench.rows("out"), read);
}

impl Bench {
    /// Why the manifest is refused; `None` if nothing happened to be under way and it was taken.
    fn error_or_nothing(&self, manifest: &str) -> Option<String> {
        match self.start(manifest, &[]) {
            Ok(mut running) => {
                running.abandon();
                let _ = running.wait(Duration::from_secs(60));
                None
            }
            Err(error) => Some(error.to_string()),
        }
    }
}

#[test]
fn what_would_orphan_state_is_refused_until_it_is_reset_by_name() {
    let bench = Bench::new();
    let first = bench.run(&manifest("key", "", ""), &[], 1_000);
    let other = manifest("value", "", "");
    let error = bench.error(&other, &[]).to_string();
    assert!(error.contains("OW-5502") && error.contains("--reset NAME"), "{error}");
    assert!(matches!(bench.error(&other, &["nubmered"]), RunError::NothingToReset { .. }));
    // Nothing has changed by being refused.
    let second = bench.run(&manifest("key", "", ""), &[], 500);
    assert_numbered(&bench.rows("out"), second);
    assert!(second > first);
    // On purpose: the computation begins anew where the sources stand.
    let third = bench.run(&other, &["numbered"], 500);
    let rows = bench.rows("out");
    assert_eq!(rows.len() as u64, third);
    let new = rows.iter().filter(|row| row["of"]["value"].is_u64());
    assert!(new.clone().count() as u64 == third - second);
    assert!(new.clone().any(|row| row["number"] == 1));
}

#[test]
fn a_paused_pipeline_is_not_run_and_says_what_to_type() {
    let bench = Bench::new();
    let manifest = manifest("key", "", "");
    let mut running = bench.start(&manifest, &[]).unwrap();
    let remote = running.remote();
    remote.ask(Command::Demand(Demand::Pause)).unwrap();
    until(&mut running, |run| run.status().state == PipelineState::Paused);
    running.stop();
    assert_eq!(running.wait(Duration::from_secs(60)).unwrap().unwrap(), RunEnd::Paused);
    let error = bench.error(&manifest, &[]).to_string();
    assert!(error.contains("OW-5512") && error.contains("onceward resume"), "{error}");
    assert_eq!(onceward::offline::demand(&bench.state(), Demand::Resume).unwrap(), PipelineState::Stopped);
    let read = bench.run(&manifest, &[], 500);
    assert_numbered(&bench.rows("out"), read);
}
