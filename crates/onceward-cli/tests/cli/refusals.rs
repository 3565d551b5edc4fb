//! Runs that are refused, with what to do, and leave everything as it was.

use rustix::process::Signal;

use crate::asking::wait_for_rows;
use crate::project::{MANIFEST, Project};

#[test]
fn a_completed_pipeline_is_not_run_again() {
    let (project, expected) = Project::with_rows(1_000, 1);
    project.run(&[]).expect(0);
    // Not a failure: a loop that starts it until it succeeds comes to its end.
    let ended = project.run(&[]).expect(0);
    assert!(!ended.stderr.contains("error: "), "{ended:#?}");
    assert!(
        ended.stderr.contains("nothing to do: OW-5503: pipeline sums has already completed"),
        "{ended:#?}"
    );
    assert!(ended.stderr.contains("./.onceward/sums"), "{ended:#?}");
    assert_eq!(ended.stdout, "");
    assert_eq!(project.rows("out", 0), expected);
}

#[test]
fn a_changed_manifest_is_refused_by_the_name_of_the_change() {
    let (project, expected) = Project::with_rows(40_000, 4);
    let mut run = project.watch(&["--rate", "5000", "--plain"]);
    run.wait_for_progress();
    run.signal(Signal::TERM);
    run.finish().expect(0);

    project.edit("tumbling: 1h", "tumbling: 2h");
    let ended = project.run(&[]).expect(1);
    assert!(ended.stderr.contains("error: OW-5502: "), "{ended:#?}");
    let change = r#"spec.computations.per_key.aggregate.window.tumbling: was "1h", is "2h""#;
    assert!(ended.stderr.contains(change), "{ended:#?}");

    project.edit("tumbling: 2h", "tumbling: 1h");
    let live = ["--set", "spec.epoch.interval=50ms", "--set", "spec.shutdownTimeout=10s"];
    project.run(&live).expect(0);
    assert_eq!(project.rows("out", 0), expected);
}

#[test]
fn state_that_a_change_would_orphan_is_dropped_only_by_name() {
    let (project, _) = Project::with_rows(40_000, 4);
    let run = project.watch(&["--rate", "8000", "--plain"]);
    wait_for_rows(&project.data_dir(), 5_000);
    project.onceward(&["stop"]).expect(0);
    run.finish().expect(0);
    project.edit("tumbling: 1h", "tumbling: 2h");
    let refused = project.run(&[]).expect(1);
    assert!(
        refused.stderr.contains("error: OW-5502: ") && refused.stderr.contains("--reset NAME"),
        "{refused:#?}"
    );
    let unknown = project.run(&["--reset", "per_ky"]).expect(1);
    assert!(
        unknown.stderr.contains("error: OW-5517: ") && unknown.stderr.contains("per_key"),
        "{unknown:#?}"
    );
    let ended = project.run(&["--reset", "per_key"]).expect(0);
    assert!(ended.stdout.starts_with("sums completed in "), "{ended:#?}");
    let two_hours = |row: &String| row.contains("T00:00:00Z") || row.contains("T02:00:00Z");
    assert!(project.rows("out", 0).iter().any(two_hours));
}

#[test]
fn a_corrected_manifest_is_taken_while_nothing_is_committed() {
    let (project, expected) = Project::with_rows(1_000, 1);
    project.edit("groupBy:", "steps: [{ filter: nobody_has_this == 1 }]\n      groupBy:");
    let ended = project.run(&[]).expect(1);
    assert!(ended.stderr.contains("OW-4001"), "{ended:#?}");
    project.edit("steps: [{ filter: nobody_has_this == 1 }]\n      groupBy:", "groupBy:");
    project.run(&[]).expect(0);
    assert_eq!(project.rows("out", 0), expected);
}

#[test]
fn two_sinks_on_one_folder_are_refused_before_anything_starts() {
    let (project, _) = Project::with_rows(10, 1);
    let manifest = std::fs::read_to_string(project.folder().join("pipeline.yaml")).unwrap();
    let sink = manifest[manifest.find("  sinks:").unwrap()..].lines().skip(1).collect::<Vec<_>>().join("\n");
    let name = sink.trim_start().split(':').next().unwrap().to_owned();
    let second = sink.replacen(&name, "again", 1);
    std::fs::write(project.folder().join("pipeline.yaml"), format!("{}\n{second}\n", manifest.trim_end()))
        .unwrap();
    let ended = project.run(&[]).expect(1);
    assert!(ended.stderr.contains("OW-5511"), "{ended:#?}");
}

#[test]
fn another_pipelines_data_directory_is_refused() {
    let (project, _) = Project::with_rows(100, 1);
    project.run(&["--data-dir", "state"]).expect(0);
    project.edit("name: sums", "name: others");
    let ended = project.run(&["--data-dir", "state"]).expect(1);
    assert!(ended.stderr.contains("error: OW-5501: "), "{ended:#?}");
    assert!(ended.stderr.contains("pipeline sums") && ended.stderr.contains("others"), "{ended:#?}");
}

#[test]
fn a_data_directory_in_use_is_refused_and_its_run_goes_on() {
    let (project, expected) = Project::with_rows(20_000, 4);
    let mut run = project.watch(&["--rate", "5000", "--plain"]);
    run.wait_for("the start", |line| line == "starting new");
    let ended = project.run(&[]).expect(1);
    assert!(ended.stderr.contains("error: OW-2001: "), "{ended:#?}");
    run.finish().expect(0);
    assert_eq!(project.rows("out", 0), expected);
}

#[test]
fn a_source_without_files_is_named_with_its_line() {
    let project = Project::new(MANIFEST);
    let ended = project.run(&[]).expect(1);
    assert!(ended.stderr.contains("error: source rows: OW-3002: "), "{ended:#?}");
    assert!(ended.stderr.contains("\n  --> pipeline.yaml:7:"), "{ended:#?}");
}

#[test]
fn a_row_that_cannot_be_read_stops_the_run_and_is_named() {
    let project = Project::new(MANIFEST);
    let good = "{\"key\":\"a\",\"value\":2,\"at\":\"2026-05-01T10:00:00Z\"}\n";
    project.write(
        "data/rows.jsonl",
        &format!("{good}{good}{{\"key\":\"a\",\"value\":\"x\",\"at\":\"2026-05-01T10:00:00Z\"}}\n"),
    );
    let ended = project.run(&[]).expect(1);
    assert!(ended.stderr.contains("error: OW-4001: ") && ended.stderr.contains("position 3"), "{ended:#?}");
    assert!(ended.stderr.contains("\n  --> pipeline.yaml:"), "{ended:#?}");
}

#[test]
fn control_characters_in_a_message_do_not_reach_the_terminal() {
    let project = Project::new(&MANIFEST.replace("data/*.jsonl", "data/\\u001b[2J*.jsonl"));
    let ended = project.run(&[]);
    assert_ne!(ended.code, Some(0), "{ended:#?}");
    assert!(!ended.stderr.contains('\u{1b}'), "{ended:#?}");
}
