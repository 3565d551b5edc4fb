//! What is there, and how a pipeline is named.

use std::fs::File;

use rustix::process::Signal;

use crate::asking::wait_for_rows;
use crate::process::Watched;
use crate::project::Project;

/// `run` of the same manifest under another name.
fn run_as(name: &str, more: &[&str], project: &Project) -> Watched {
    let (name_set, path_set) =
        (format!("metadata.name={name}"), format!("spec.sinks.sums.config.path=out-{name}"));
    let args = ["--plain", "--set", &name_set, "--set", &path_set];
    project.watch(&[&args, more].concat())
}

#[test]
fn every_state_is_listed_and_reads_well() {
    let (project, _) = Project::with_rows(40_000, 4);
    let slow = ["--rate", "4000"];
    let dir = |name: &str| project.folder().join(".onceward").join(name);
    run_as("a-completed", &[], &project).finish().expect(0);
    let begin = |name: &str| {
        let run = run_as(name, &slow, &project);
        wait_for_rows(&dir(name), 100);
        run
    };
    let _working = begin("b-working");
    let _resting = begin("c-resting");
    project.onceward(&["pause", "c-resting"]).expect(0);
    let killed = begin("d-killed");
    killed.signal(Signal::KILL);
    killed.finish();
    let paused = begin("e-paused");
    project.onceward(&["pause", "e-paused"]).expect(0);
    paused.signal(Signal::KILL);
    paused.finish();
    let stopped = begin("f-stopped");
    project.onceward(&["stop", "f-stopped"]).expect(0);
    stopped.finish().expect(0);
    run_as("g-damaged", &[], &project).finish().expect(0);
    std::fs::write(dir("g-damaged").join("FORMAT"), "nonsense").expect("written");
    run_as("h-held", &[], &project).finish().expect(0);
    let lock = File::options().write(true).open(dir("h-held").join("LOCK")).expect("opened");
    lock.lock().expect("locked");
    // None of these is a pipeline.
    project.write(".onceward/notes.txt", "x");
    project.write(".onceward/folder/file", "x");
    std::fs::create_dir(dir("empty")).expect("made");

    let list = project.list(&[]);
    let found = |name: &str| -> Vec<String> {
        let line = list.iter().find(|line| line.ends_with(&format!("./.onceward/{name}")));
        let line = line.unwrap_or_else(|| panic!("no {name}: {list:#?}"));
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    assert_eq!(list.len(), 8, "{list:#?}");
    for (name, state, has_process) in [
        ("a-completed", "completed", false),
        ("b-working", "working", true),
        ("c-resting", "paused", true),
        ("d-killed", "working, no process (ended without a stop)", false),
        ("e-paused", "paused", false),
        ("f-stopped", "stopped", false),
    ] {
        let cells = found(name);
        assert_eq!(cells[..2], [name, state], "{list:#?}");
        assert_eq!(cells[2] != "-", has_process, "{list:#?}");
        assert!(cells[3].replace(',', "").parse::<u64>().expect("an epoch") > 0, "{list:#?}");
        let report = project.status(&[name]);
        assert_eq!(report["process"].is_number(), has_process, "{report}");
        assert!(state.starts_with(report["state"].as_str().expect("a state")), "{report}");
    }
    assert_eq!(
        found("g-damaged")[..2],
        ["-", "cannot be looked at: OW-2003, see `onceward status`"],
        "{list:#?}"
    );
    assert_eq!(found("h-held")[..2], ["-", "in use, does not answer"], "{list:#?}");
    // A look makes nothing.
    assert_eq!(std::fs::read_dir(dir("empty")).expect("read").count(), 0);
    assert_eq!(std::fs::read_dir(dir("folder")).expect("read").count(), 1);

    let held = project.onceward(&["status", "h-held"]).expect(1);
    assert!(held.stderr.contains("error: OW-6008: "), "{held:#?}");
    let data_dir = project.folder().join(".onceward/a-completed");
    let all =
        project.onceward(&["list", "--json", "--data-dir", data_dir.to_str().expect("UTF-8")]).expect(0);
    let all: serde_json::Value = serde_json::from_str(&all.stdout).expect("JSON");
    let states: Vec<&str> =
        all.as_array().expect("rows").iter().filter_map(|row| row["state"].as_str()).collect();
    assert_eq!(states, ["completed", "working", "paused", "working", "paused", "stopped"]);
    assert!(all[6]["error"].as_str().is_some_and(|error| error.starts_with("OW-2003")), "{all}");
}

#[test]
fn a_pipeline_is_named_by_name_by_manifest_by_directory_or_not_at_all() {
    let (project, _) = Project::with_rows(100, 1);
    let none = project.onceward(&["status"]).expect(2);
    assert!(none.stderr.contains("error: OW-6006: ") && none.stderr.contains("holds none"), "{none:#?}");
    project.run(&[]).expect(0);
    for args in [
        &["sums"][..],
        &["pipeline.yaml"],
        &["./pipeline.yaml"],
        &[],
        &["--data-dir", ".onceward/sums"],
        &["sums", "--data-dir", ".onceward/sums"],
    ] {
        assert_eq!(project.status(args)["pipeline"], "sums");
    }
    let other = project.onceward(&["stop", "others", "--data-dir", ".onceward/sums"]).expect(2);
    assert!(other.stderr.contains("error: OW-6007: "), "{other:#?}");
    let unknown = project.onceward(&["status", "sum"]).expect(2);
    assert!(unknown.stderr.contains("error: OW-6005: ") && unknown.stderr.contains("(sums)"), "{unknown:#?}");
    let missing = project.onceward(&["status", "other.yaml"]).expect(2);
    assert!(missing.stderr.contains("error: OW-6001: "), "{missing:#?}");
    let nothing = project.onceward(&["status", "--data-dir", "data"]).expect(1);
    assert!(nothing.stderr.contains("error: OW-5513: data holds no pipeline"), "{nothing:#?}");
    assert_eq!(project.sizes("data").len(), 1, "a look has made a store");

    run_as("second", &[], &project).finish().expect(0);
    let both = project.onceward(&["status"]).expect(2);
    assert!(both.stderr.contains("OW-6006") && both.stderr.contains("2 (second, sums)"), "{both:#?}");
}

#[test]
fn a_run_waits_for_a_command_that_looks() {
    let (project, expected) = Project::with_rows(40_000, 1);
    let run = project.watch(&["--rate", "8000", "--plain"]);
    wait_for_rows(&project.data_dir(), 1_000);
    project.onceward(&["stop", "--no-drain"]).expect(0);
    run.finish().expect(0);
    // Somebody has the store, as a command that looks has for a moment.
    let lock = File::options().write(true).open(project.data_dir().join("LOCK")).expect("opened");
    lock.lock().expect("locked");
    let mut run = project.watch(&["--plain"]);
    run.wait_for("its first line", |line| line.starts_with("pipeline sums"));
    // That takes a while, in which the run finds the store in use again and again.
    assert!(project.list(&[])[0].contains("in use, does not answer"));
    drop(lock);
    run.finish().expect(0);
    assert_eq!(project.rows("out", 0), expected);
}
