//! Rows on standard output: nothing else is there, and a reader that goes is no panic.

use std::io::{BufRead, BufReader};

use crate::project::{MANIFEST, Project};

/// With a `stdout` sink behind the sums and no `require`.
fn printing(rows: u64) -> (Project, Vec<String>) {
    let (project, expected) = Project::with_rows(rows, 1);
    project.edit("  require: exactly_once\n", "");
    project.edit("type: file\n      config: { path: out, format: jsonl }", "type: stdout");
    (project, expected)
}

#[test]
fn standard_output_holds_the_rows_and_nothing_else() {
    let (project, expected) = printing(10_000);
    let ended = project.run(&[]).expect(0);
    let mut rows: Vec<&str> = ended.stdout.lines().collect();
    rows.sort();
    assert_eq!(rows, expected);
    assert!(ended.stderr.contains("sums completed in "), "{ended:#?}");
    assert!(ended.stderr.contains("rows -> even -> per_key -> sums  at-least-once"), "{ended:#?}");
}

#[test]
fn without_require_one_line_warns_and_names_the_weakest_element() {
    let (project, _) = printing(10);
    let ended = project.run(&[]).expect(0);
    let warnings: Vec<&str> = ended.stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert_eq!(warnings.len(), 1, "{ended:#?}");
    assert!(warnings[0].contains("at-least-once") && warnings[0].contains("sink sums"), "{ended:#?}");

    let (project, _) = printing(10);
    project.edit("spec:\n", "spec:\n  require: at_least_once\n");
    let ended = project.run(&[]).expect(0);
    assert!(!ended.stderr.contains("warning"), "{ended:#?}");
}

#[test]
fn a_reader_of_rows_that_goes_is_an_error_and_no_panic() {
    let (project, _) = Project::with_rows(40_000, 1);
    project.edit("exactly_once", "at_least_once");
    project.edit(
        "inputs: [per_key]\n      type: file\n      config: { path: out, format: jsonl }",
        "inputs: [rows]\n      type: stdout",
    );
    let mut run = project.watch(&["--plain"]);
    let mut first = String::new();
    BufReader::new(run.take_stdout()).read_line(&mut first).expect("a row");
    let ended = run.finish().expect(1);
    assert!(first.starts_with("{\"key\":"), "{first}");
    assert!(ended.stderr.contains("OW-3120") && !ended.stderr.contains("panic"), "{ended:#?}");
    assert!(ended.stderr.contains("\n  --> pipeline.yaml:"), "{ended:#?}");
}

#[test]
fn a_reader_of_the_table_that_goes_changes_nothing() {
    let project = Project::new(MANIFEST);
    project.write("data/rows.jsonl", "{\"key\":\"a\",\"value\":2,\"at\":\"2026-05-01T10:00:00Z\"}\n");
    let mut run = project.watch(&[]);
    drop(run.take_stdout());
    let ended = run.finish().expect(0);
    assert!(!ended.stderr.contains("panic"), "{ended:#?}");
    assert_eq!(project.rows("out", 0).len(), 1);
}
