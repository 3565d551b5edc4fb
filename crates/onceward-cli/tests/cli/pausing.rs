//! Pausing, resuming and stopping by command: nothing is lost, nothing is repeated, and states outlive processes.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::Signal;
use serde_json::Value;

use crate::asking::{figures, rows_read, until, wait_for_rows};
use crate::project::Project;

#[test]
fn a_pause_stands_still_and_a_resume_goes_on_to_the_same_result() {
    let (project, expected) = Project::with_rows(40_000, 4);
    let mut run = project.watch(&["--rate", "8000", "--plain"]);
    wait_for_rows(&project.data_dir(), 5_000);
    let paused = project.onceward(&["pause", "sums"]).expect(0);
    assert!(paused.stdout.starts_with("sums is paused, epoch "), "{paused:#?}");
    run.wait_for("the pause in the run's display", |line| line.starts_with("paused: nothing is read"));

    let still = project.status(&["sums", "--jobs"]);
    let files = (project.sizes("out"), project.sizes(".onceward"));
    assert_eq!(still["state"], "paused");
    assert!(rows_read(&still) < 40_000, "{still}");
    run.wait_for("a line of progress", |line| {
        line.starts_with("progress ") && line.ends_with("state=paused")
    });
    assert_eq!(project.status(&["sums", "--jobs"]), still);
    assert_eq!((project.sizes("out"), project.sizes(".onceward")), files);
    // A second pause has nothing to do, and a drain nothing that it could finish.
    project.onceward(&["pause", "sums"]).expect(0);
    let refused = project.onceward(&["stop", "sums"]).expect(1);
    assert!(refused.stderr.contains("error: OW-6010: pipeline sums was found paused: "), "{refused:#?}");

    let resumed = project.onceward(&["resume", "sums"]).expect(0);
    assert!(resumed.stdout.starts_with("sums is working, epoch "), "{resumed:#?}");
    let ended = run.finish().expect(0);
    assert!(ended.stdout.starts_with("sums completed in "), "{ended:#?}");
    assert_eq!(project.rows("out", 0), expected);
    assert_eq!(ended.row("sources", "rows")[0], "40,000");
}

/// Whatever ends a run while it is paused.
fn ends_while_paused(signal: Signal) -> String {
    let (project, expected) = Project::with_rows(40_000, 4);
    let run = project.watch(&["--rate", "8000", "--plain"]);
    wait_for_rows(&project.data_dir(), 5_000);
    project.onceward(&["pause"]).expect(0);
    run.signal(signal);
    let ended = run.finish();
    assert_eq!(ended.code, if signal == Signal::KILL { None } else { Some(0) }, "{ended:#?}");

    assert_eq!(project.status(&[])["state"], "paused");
    let refused = project.run(&[]).expect(1);
    assert!(
        refused.stderr.contains("error: OW-5512: pipeline sums does not run: it is paused"),
        "{refused:#?}"
    );
    let resumed = project.onceward(&["resume", "sums"]).expect(0);
    assert!(resumed.stdout.contains("sums may run again"), "{resumed:#?}");
    project.run(&[]).expect(0);
    assert_eq!(project.rows("out", 0), expected);
    ended.stdout
}

#[test]
fn a_run_that_is_killed_while_paused_stays_paused() {
    ends_while_paused(Signal::KILL);
}

#[test]
fn a_run_that_ends_while_paused_stays_paused_and_says_so() {
    let summary = ends_while_paused(Signal::TERM);
    assert!(summary.contains("while paused; `onceward resume sums` lets it run again"), "{summary}");
}

#[test]
fn a_stop_without_drain_ends_the_run_and_the_next_goes_on() {
    let (project, expected) = Project::with_rows(40_000, 4);
    let run = project.watch(&["--rate", "8000", "--plain"]);
    wait_for_rows(&project.data_dir(), 5_000);
    let stopped = project.onceward(&["stop", "sums", "--no-drain"]).expect(0);
    assert!(stopped.stdout.starts_with("sums is stopped, epoch "), "{stopped:#?}");
    // Whoever has heard that may use the store.
    assert_eq!(project.status(&[])["process"], Value::Null);
    let ended = run.finish().expect(0);
    assert!(ended.stdout.starts_with("sums stopped after "), "{ended:#?}");
    assert_ne!(project.rows("out", 0), expected, "it was not stopped on the way");
    project.run(&[]).expect(0);
    assert_eq!(project.rows("out", 0), expected);
}

#[test]
fn a_paused_run_can_be_stopped_as_it_is() {
    let (project, expected) = Project::with_rows(40_000, 4);
    let run = project.watch(&["--rate", "8000", "--plain"]);
    wait_for_rows(&project.data_dir(), 5_000);
    project.onceward(&["pause"]).expect(0);
    project.onceward(&["stop", "--no-drain"]).expect(0);
    let ended = run.finish().expect(0);
    assert!(ended.stdout.starts_with("sums stopped after "), "{ended:#?}");
    project.run(&[]).expect(0);
    assert_eq!(project.rows("out", 0), expected);
}

#[test]
fn without_waiting_the_answer_says_what_was_begun() {
    let (project, expected) = Project::with_rows(40_000, 4);
    let run = project.watch(&["--rate", "8000", "--plain"]);
    wait_for_rows(&project.data_dir(), 5_000);
    let asked = project.onceward(&["pause", "--no-wait"]).expect(0);
    assert!(asked.stdout.starts_with("sums: pausing"), "{asked:#?}");
    until("paused", || figures(&project.data_dir()).filter(|report| report["state"] == "paused"));
    project.onceward(&["resume", "--no-wait"]).expect(0);
    run.finish().expect(0);
    assert_eq!(project.rows("out", 0), expected);
}

const ENDLESS: &str = r#"apiVersion: onceward.dev/v1
kind: Pipeline
metadata: { name: sums }
spec:
  require: exactly_once
  sources:
    made:
      type: generator
      config: { partitions: 2, keys: 40, rate: 8000, step: 10ms }
      eventTime: { field: time, outOfOrderness: 1s }
  computations:
    by_key:
      inputs: [made]
      groupBy: [key]
      partitions: 2
      aggregate: { window: { tumbling: 10s }, compute: { rows: count(), total: sum(value) } }
  sinks:
    all: { inputs: [made], type: file, config: { path: all, format: jsonl } }
    sums: { inputs: [by_key], type: file, config: { path: out, format: jsonl } }
"#;

/// What a stop of [`ENDLESS`] must leave: every row that was read is written once, and every window is right. Answers how
/// many rows there are.
#[track_caller]
fn check_drained(project: &Project) -> u64 {
    let rows: Vec<Value> =
        project.rows("all", 0).iter().map(|row| serde_json::from_str(row).expect("JSON")).collect();
    let mut of_partition: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    let mut windows: BTreeMap<(&str, String), (u64, u64)> = BTreeMap::new();
    for row in &rows {
        let (partition, number) = row["id"].as_str().and_then(|id| id.split_once('-')).expect("an id");
        of_partition.entry(partition).or_default().insert(number.parse().expect("a number"));
        let time = row["time"].as_str().expect("a time");
        let start = format!("{}0Z", &time[.."2024-01-01T00:00:0".len()]);
        let window = windows.entry((row["key"].as_str().expect("a key"), start)).or_default();
        *window = (window.0 + 1, window.1 + row["value"].as_u64().expect("a value"));
    }
    for numbers in of_partition.values() {
        assert_eq!(numbers.last().copied(), Some(numbers.len() as u64), "rows are missing");
    }
    let distinct: usize = of_partition.values().map(BTreeSet::len).sum();
    assert_eq!(distinct, rows.len(), "rows are written twice");
    let mut seen = BTreeSet::new();
    for row in project.rows("out", 0) {
        let row: Value = serde_json::from_str(&row).expect("JSON");
        let key =
            (row["key"].as_str().expect("a key"), row["window_start"].as_str().expect("a start").to_owned());
        let found = (row["rows"].as_u64(), row["total"].as_u64());
        let expected = windows.get(&key).copied().expect("a window of rows that were read");
        assert_eq!(found, (Some(expected.0), Some(expected.1)), "{row}");
        assert!(seen.insert((key.0.to_owned(), key.1)), "{row} is written twice");
    }
    assert!(!seen.is_empty());
    rows.len() as u64
}

#[test]
fn a_stop_drains_everything_that_was_read_and_the_next_run_goes_on() {
    let project = Project::new(ENDLESS);
    let mut before = 0;
    for _ in 0..3 {
        let run = project.watch(&["--plain"]);
        wait_for_rows(&project.data_dir(), before + 12_000);
        // What is asked for right after a pause meets jobs that have just begun again.
        project.onceward(&["pause"]).expect(0);
        project.onceward(&["resume"]).expect(0);
        let stopped = project.onceward(&["stop", "sums"]).expect(0);
        assert!(stopped.stdout.starts_with("sums is stopped, epoch "), "{stopped:#?}");
        let ended = run.finish().expect(0);
        assert!(ended.stdout.starts_with("sums stopped after "), "{ended:#?}");
        let rows = check_drained(&project);
        assert!(rows >= before + 12_000, "{rows}");
        before = rows;
        let figure = |cell: &str| cell.replace(',', "").parse::<u64>().expect("a number");
        assert_eq!(figure(&ended.row("sources", "made")[0]), rows);
        let delivered = ended.row("sinks", "all");
        assert_eq!((figure(&delivered[0]), figure(&delivered[1])), (rows, 0));
        assert_eq!(figure(&ended.row("computations", "by_key")[0]), rows);
        assert_eq!(ended.row("sinks", "sums")[1], "0");
        assert_eq!(project.list(&[]).len(), 1);
        assert_eq!(project.status(&[])["state"], "stopped");
    }
}
