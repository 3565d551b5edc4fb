//! A reset starts a pipeline over, and never by accident.

use std::fs::File;
use std::io::Write;
use std::process::Stdio;

use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::asking::wait_for_rows;
use crate::process::Ended;
use crate::project::Project;

const KEPT: &str = "What its sinks have written is NOT removed";

#[test]
fn a_reset_makes_a_completed_pipeline_start_new() {
    let (project, expected) = Project::with_rows(1_000, 1);
    project.run(&[]).expect(0);
    let done = project.run(&[]).expect(0);
    assert!(done.stderr.contains("nothing to do: OW-5503"), "{done:#?}");

    let reset = project.onceward(&["reset", "sums", "--yes"]).expect(0);
    assert!(reset.stdout.starts_with("sums is reset") && reset.stdout.contains(KEPT), "{reset:#?}");
    assert!(!project.data_dir().exists());
    assert_eq!(project.rows("out", 0), expected, "what sinks have written is the user's");
    // As it was said: nothing is mixed.
    let refused = project.run(&[]).expect(1);
    assert!(refused.stderr.contains("OW-3101"), "{refused:#?}");
    assert_eq!(project.rows("out", 0), expected);
    std::fs::remove_dir_all(project.folder().join("out")).expect("removed");
    let again = project.run(&[]).expect(0);
    assert!(again.stdout.contains("sums completed in "), "{again:#?}");
    assert_eq!(project.rows("out", 0), expected);
}

#[test]
fn a_reset_is_refused_while_a_process_runs_the_pipeline() {
    let (project, expected) = Project::with_rows(40_000, 4);
    let run = project.watch(&["--rate", "8000", "--plain"]);
    wait_for_rows(&project.data_dir(), 1_000);
    let refused = project.onceward(&["reset", "sums", "--yes"]).expect(1);
    assert!(refused.stderr.contains("error: OW-6010: "), "{refused:#?}");
    assert!(refused.stderr.contains("`onceward stop sums` first"), "{refused:#?}");
    run.finish().expect(0);
    assert_eq!(project.rows("out", 0), expected);
}

#[test]
fn what_a_killed_run_has_under_way_is_not_reset_at_once() {
    let (project, expected) = Project::with_rows(40_000, 4);
    let run = project.watch(&["--rate", "8000", "--plain"]);
    wait_for_rows(&project.data_dir(), 5_000);
    run.signal(Signal::KILL);
    run.finish();
    let refused = project.onceward(&["reset", "sums", "--yes"]).expect(1);
    assert!(refused.stderr.contains("error: OW-5514: pipeline sums is working"), "{refused:#?}");
    project.onceward(&["stop", "sums", "--no-drain"]).expect(0);
    project.onceward(&["reset", "sums", "--yes"]).expect(0);
    // It may not have written anything yet.
    let _ = std::fs::remove_dir_all(project.folder().join("out"));
    project.run(&[]).expect(0);
    assert_eq!(project.rows("out", 0), expected);
}

#[test]
fn nothing_is_reset_unasked() {
    let (project, _) = Project::with_rows(100, 1);
    project.run(&[]).expect(0);
    let refused = project.onceward(&["reset", "sums"]).expect(2);
    assert!(refused.stderr.contains("error: OW-6012: ") && refused.stderr.contains("--yes"), "{refused:#?}");
    let refused = project.onceward(&["reset", "--yes"]).expect(2);
    assert!(refused.stderr.contains("error: OW-6014: "), "{refused:#?}");
    assert_eq!(project.status(&["sums"])["state"], "completed");
}

/// `reset` at a terminal where this is typed.
fn reset_at_terminal(project: &Project, typed: &str) -> Ended {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&ours).expect("granted");
    unlockpt(&ours).expect("unlocked");
    let name = ptsname(&ours, Vec::new()).expect("a name").into_string().expect("UTF-8");
    let theirs = File::options().read(true).write(true).open(name).expect("opened");
    let mut ours = File::from(ours);
    ours.write_all(typed.as_bytes()).expect("typed");
    project.onceward_at(Stdio::from(theirs), &["reset", "sums"])
}

#[test]
fn at_a_terminal_only_yes_is_yes() {
    let (project, _) = Project::with_rows(100, 1);
    project.run(&[]).expect(0);
    for typed in ["no\n", "y\n", "\n"] {
        let refused = reset_at_terminal(&project, typed).expect(2);
        assert!(refused.stderr.contains("Reset sums? Type yes: ") && refused.stderr.contains("OW-6012"));
        assert_eq!(project.status(&[])["state"], "completed");
    }
    let reset = reset_at_terminal(&project, "yes\n").expect(0);
    assert!(reset.stdout.contains(KEPT), "{reset:#?}");
    assert!(!project.data_dir().exists());
}
