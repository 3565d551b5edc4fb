//! A run to the end gives exactly what the data says.

use crate::project::{MANIFEST, Project};

#[test]
fn jsonl_in_and_jsonl_out() {
    let (project, expected) = Project::with_rows(10_000, 3);
    let ended = project.run(&[]).expect(0);
    assert_eq!(project.rows("out", 0), expected);
    assert_eq!(ended.row("sources", "rows"), ["10,000", "3/3"]);
    let rows_out = expected.len().to_string();
    assert_eq!(ended.row("computations", "per_key")[..3], ["5,000", &rows_out, "0"]);
    assert_eq!(ended.row("sinks", "sums"), [&rows_out, "0"]);
    assert_eq!(ended.row("paths", "rows -> even -> per_key -> sums"), ["exactly-once"]);
    assert!(
        ended.stderr.contains("pipeline sums, data directory ./.onceward/sums\nstarting new\n"),
        "{ended:#?}"
    );
    assert!(!ended.stderr.contains("warning"), "{ended:#?}");
    assert!(project.folder().join(".onceward/sums").is_dir());
}

#[test]
fn csv_in_and_csv_out() {
    let project = Project::new(MANIFEST);
    project.edit(
        r#"{ path: "data/*.jsonl", format: jsonl }"#,
        r#"{ path: "data/*.csv", format: csv, types: { value: decimal, at: timestamp }, nullValues: ["NA"] }"#,
    );
    project.edit("value % 2 == 0", "has(value)");
    project.edit("{ path: out, format: jsonl }", "{ path: out, format: csv }");
    let csv = "key,value,at\n\
               a,1.10,2026-05-01T10:00:00Z\n\
               a,2.205,2026-05-01T10:59:59.999Z\n\
               \"b, c\",-3,2026-05-01T10:30:00Z\n\
               a,NA,2026-05-01T10:30:00Z\n\
               a,7,2026-05-01T11:00:00Z\n";
    project.write("data/rows.csv", csv);
    project.run(&[]).expect(0);
    let expected = [
        "\"b, c\",2026-05-01T10:00:00Z,2026-05-01T11:00:00Z,1,-3,-3,-3",
        "a,2026-05-01T10:00:00Z,2026-05-01T11:00:00Z,2,3.305,1.10,2.205",
        "a,2026-05-01T11:00:00Z,2026-05-01T12:00:00Z,1,7,7,7",
    ];
    assert_eq!(project.rows("out", 1), expected);
}

#[test]
fn set_and_data_dir_and_workers_are_used() {
    let (project, expected) = Project::with_rows(1_000, 2);
    let set = "spec.sinks.sums.config.path=elsewhere";
    let ended = project.run(&["--set", set, "--data-dir", "state", "--workers", "1"]).expect(0);
    assert_eq!(project.rows("elsewhere", 0), expected);
    assert!(project.rows("out", 0).is_empty());
    assert!(ended.stderr.contains("data directory state\n"), "{ended:#?}");
    assert!(project.folder().join("state").is_dir());
    assert!(!project.folder().join(".onceward").exists());
}

#[test]
fn the_data_directory_can_come_from_the_environment_and_an_option_beats_it() {
    let (project, _) = Project::with_rows(10, 1);
    let run = |args: &[&str]| {
        let mut command = crate::process::onceward(project.folder(), args);
        command.env("ONCEWARD_DATA_DIR", "from_env");
        crate::process::finish(command)
    };
    run(&["run", "pipeline.yaml"]).expect(0);
    assert!(project.folder().join("from_env").is_dir());
    let set = ["--set", "spec.sinks.sums.config.path=second"];
    run(&[&["run", "pipeline.yaml", "--data-dir", "from_option"], &set[..]].concat()).expect(0);
    assert!(project.folder().join("from_option").is_dir());
}

#[test]
fn paths_are_relative_to_the_manifest_and_the_data_directory_to_the_current_folder() {
    let (project, expected) = Project::with_rows(100, 1);
    let elsewhere = tempfile::tempdir().expect("a folder");
    let manifest = project.folder().join("pipeline.yaml");
    let args = ["run", manifest.to_str().expect("UTF-8")];
    crate::process::finish(crate::process::onceward(elsewhere.path(), &args)).expect(0);
    assert_eq!(project.rows("out", 0), expected);
    assert!(elsewhere.path().join(".onceward/sums").is_dir());
}

#[test]
fn plain_progress_is_printed_from_the_first_epoch_to_the_last() {
    let (project, expected) = Project::with_rows(10_000, 3);
    let ended = project.run(&["--plain"]).expect(0);
    let lines: Vec<&str> = ended.stderr.lines().filter(|line| line.starts_with("progress ")).collect();
    let names = |line: &str| {
        let fields = line.split(' ').skip(1).filter_map(|field| field.split_once('='));
        fields.map(|(name, _)| name.to_owned()).take(5).collect::<Vec<_>>()
    };
    assert_eq!(names(lines[0]), ["epoch", "rows", "rows_per_s", "owed", "watermark"]);
    assert!(lines[0].starts_with("progress epoch=0 rows=0 rows_per_s=0 owed=0 watermark=- "), "{ended:#?}");
    let last = lines.last().expect("a line");
    assert_eq!(names(last), names(lines[0]));
    let delivered =
        format!(" owed=0 watermark=end delivered={} late=0 parts=3/3 read.rows=100% ", expected.len());
    assert!(last.contains(" rows=10000 ") && last.contains(&delivered), "{ended:#?}");
}
