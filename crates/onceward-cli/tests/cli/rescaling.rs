//! Key ranges are cut and joined while a pipeline runs, and results are as if they were not.

use serde_json::Value;

use crate::asking::{figures, until, wait_for_rows};
use crate::project::Project;

const MANIFEST: &str = r#"apiVersion: onceward.dev/v1
kind: Pipeline
metadata: { name: sums }
spec:
  require: exactly_once
  sources:
    made:
      type: generator
      config: { rows: 120000, partitions: 2, keys: 500, step: 10ms }
      eventTime: { field: time, outOfOrderness: 1s }
  computations:
    by_key:
      inputs: [made]
      groupBy: [key]
      partitions: 2
      aggregate: { window: { tumbling: 1m }, compute: { rows: count(), total: sum(value) } }
  sinks:
    sums: { inputs: [by_key], type: file, config: { path: out, format: jsonl } }
"#;

/// Waits until `by_key` has so many ranges, and none that is retired.
#[track_caller]
fn wait_for_ranges(project: &Project, ranges: u64) -> Value {
    until(&format!("{ranges} ranges"), || {
        let report = figures(&project.data_dir())?;
        let computation = &report["computations"][0];
        let settled = computation["ranges"] == ranges && computation["retired"] == 0;
        settled.then_some(report)
    })
}

#[test]
fn ranges_go_up_and_down_while_running_and_the_result_is_the_same() {
    let undisturbed = Project::new(MANIFEST);
    undisturbed.run(&[]).expect(0);
    let expected = undisturbed.rows("out", 0);

    let project = Project::new(MANIFEST);
    let run = project.watch(&["--rate", "10000", "--plain"]);
    wait_for_rows(&project.data_dir(), 2_000);
    let asked = project.onceward(&["rescale", "sums", "by_key", "5"]).expect(0);
    assert!(asked.stdout.starts_with("sums: by_key goes from 2 to 5 key ranges"), "{asked:#?}");
    let up = wait_for_ranges(&project, 5);
    assert!(up["layout"].as_u64() > Some(3), "{up}");
    let shown = project.onceward(&["status", "--jobs"]).expect(0);
    let header =
        "computations  rows in  rows out  late  repeats dropped  expired  keys  ranges  retired  watermark";
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<Vec<String>> = shown.stdout.lines().map(words).collect();
    let at = lines.iter().position(|line| *line == words(header)).unwrap_or_else(|| panic!("{shown:#?}"));
    assert_eq!(lines[at + 1][0], "by_key");
    assert_eq!(lines[at + 1][7..9], ["5", "0"], "{shown:#?}");
    assert!(shown.stdout.contains("\nby_key[v") && shown.stdout.contains("\nmade/1 "), "{shown:#?}");

    project.onceward(&["rescale", "by_key", "1"]).expect(0);
    wait_for_ranges(&project, 1);
    project.onceward(&["rescale", "by_key", "--auto"]).expect(0);
    wait_for_ranges(&project, 2);
    let logged = project.onceward(&["logs"]).expect(0);
    assert!(logged.stdout.contains("Z  by_key: 2 key range(s) become 1: there are more"), "{logged:#?}");

    let ended = run.finish().expect(0);
    assert_eq!(project.rows("out", 0), expected);
    assert_eq!(ended.row("sources", "made")[0], "120,000");
    assert_eq!(ended.row("computations", "by_key")[..2], ["120,000", &grouped(expected.len())]);
    assert_eq!(ended.row("sinks", "sums"), [grouped(expected.len()).as_str(), "0"]);
}

fn grouped(number: usize) -> String {
    assert!((1_000..1_000_000).contains(&number));
    format!("{},{:03}", number / 1_000, number % 1_000)
}

#[test]
fn a_rescale_that_cannot_be_is_refused_and_says_what_can() {
    let project = Project::new(MANIFEST);
    let run = project.watch(&["--rate", "100000", "--plain"]);
    wait_for_rows(&project.data_dir(), 1);
    let refused = project.onceward(&["rescale", "by_ky", "4"]).expect(1);
    assert!(
        refused.stderr.contains("OW-6010") && refused.stderr.contains("there are: by_key"),
        "{refused:#?}"
    );
    let refused = project.onceward(&["rescale", "by_key", "0"]).expect(1);
    assert!(refused.stderr.contains("a computation has 1 to 4096 key ranges"), "{refused:#?}");
    let refused = project.onceward(&["rescale", "by_key"]).expect(2);
    assert!(refused.stderr.contains("OW-6014: found \"by_key\" where a number"), "{refused:#?}");
    run.finish().expect(0);
    let refused = project.onceward(&["rescale", "by_key", "4"]).expect(1);
    assert!(refused.stderr.contains("OW-6013: no process runs pipeline sums (completed)"), "{refused:#?}");
}
