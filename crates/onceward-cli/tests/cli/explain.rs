//! `explain`: the level of every path, why, and what `require` makes of it.

use serde_json::Value;

use crate::project::{MANIFEST, Project};

/// A second sink, on standard output.
fn with_stdout() -> Project {
    let project = Project::new(MANIFEST);
    project.edit("  sinks:\n", "  sinks:\n    look: { inputs: [even], type: stdout }\n");
    project
}

#[test]
fn it_needs_no_data_and_names_level_reason_and_conditions() {
    let project = Project::new(MANIFEST);
    let ended = project.onceward(&["explain", "pipeline.yaml"]).expect(0);
    for part in [
        "sums: exactly-once\n",
        "rows -> even -> per_key -> sums: exactly-once\n",
        "source rows: ",
        "as long as",
    ] {
        assert!(ended.stdout.contains(part), "{part}: {ended:#?}");
    }
    assert!(!project.folder().join(".onceward").exists());
}

#[test]
fn a_stdout_sink_is_the_weakest_element() {
    let project = with_stdout();
    project.edit("  require: exactly_once\n", "");
    let ended = project.onceward(&["explain", "pipeline.yaml"]).expect(0);
    let weakest: Vec<&str> = ended.stdout.lines().filter(|line| line.ends_with("<- weakest")).collect();
    assert_eq!(weakest.len(), 1, "{ended:#?}");
    assert!(weakest[0].starts_with("  sink look: at-least-once"), "{ended:#?}");

    let ended = project.onceward(&["explain", "pipeline.yaml", "--json"]).expect(0);
    let report: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(report["level"], "at_least_once");
    let path = |route: &str| {
        let paths = report["paths"].as_array().expect("paths");
        paths.iter().find(|path| path["route"] == route).unwrap_or_else(|| panic!("no {route}")).clone()
    };
    assert_eq!(path("rows -> even -> look")["level"], "at_least_once");
    assert_eq!(path("rows -> even -> look")["weakest"], "sink look");
    assert_eq!(path("rows -> even -> per_key -> sums")["level"], "exactly_once");
}

#[test]
fn require_exactly_once_refuses_a_stdout_sink_and_names_it() {
    let project = with_stdout();
    for command in ["explain", "validate", "run"] {
        let ended = project.onceward(&[command, "pipeline.yaml"]).expect(2);
        assert!(ended.stderr.contains("OW-1081") && ended.stderr.contains("sink look"), "{ended:#?}");
    }
}
