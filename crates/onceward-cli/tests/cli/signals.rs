//! Stopping, killing, and going on: the output is as if nothing had happened.

use rustix::process::Signal;

use crate::project::Project;

const STOPPING: &str = "stopping: finishing the open epoch (Ctrl-C again to exit at once)";

fn stop_and_go_on(signal: Signal) {
    let (project, expected) = Project::with_rows(40_000, 4);
    let mut run = project.watch(&["--rate", "5000", "--plain"]);
    let read = run.wait_for_progress();
    assert!(read < 40_000, "{read}");
    run.signal(signal);
    let stopped = run.finish().expect(0);
    assert!(stopped.stderr.contains(STOPPING), "{stopped:#?}");
    assert!(stopped.stdout.contains("sums stopped after "), "{stopped:#?}");
    assert_ne!(project.rows("out", 0), expected, "it was not stopped on the way");

    let ended = project.run(&[]).expect(0);
    let epoch = ended.stderr.split("\nresuming from epoch ").nth(1).and_then(|rest| rest.lines().next());
    let epoch: u64 = epoch.and_then(|epoch| epoch.parse().ok()).unwrap_or_else(|| panic!("{ended:#?}"));
    assert!(epoch > 1 && ended.stderr.contains(&format!("\nprogress epoch={epoch} ")), "{ended:#?}");
    assert_eq!(project.rows("out", 0), expected);
    assert_eq!(ended.row("sources", "rows")[0], "40,000");
    assert_eq!(ended.row("computations", "per_key")[..3], ["20,000", &expected.len().to_string(), "0"]);
}

#[test]
fn sigterm_stops_cleanly_and_the_next_run_goes_on() {
    stop_and_go_on(Signal::TERM);
}

#[test]
fn ctrl_c_stops_cleanly_and_the_next_run_goes_on() {
    stop_and_go_on(Signal::INT);
}

#[test]
fn a_kill_loses_nothing_and_repeats_nothing() {
    let (project, expected) = Project::with_rows(40_000, 4);
    let mut run = project.watch(&["--rate", "5000", "--plain"]);
    run.wait_for_progress();
    run.signal(Signal::KILL);
    assert_eq!(run.finish().code, None);
    assert_ne!(project.rows("out", 0), expected, "it was not killed on the way");
    let ended = project.run(&[]).expect(0);
    assert!(ended.stderr.contains("\nresuming from epoch "), "{ended:#?}");
    assert_eq!(project.rows("out", 0), expected);
}

/// Rows to a standard output that nobody reads: the sink can never confirm, so a clean stop never ends.
fn stuck(shutdown_timeout: &str) -> (Project, Vec<String>) {
    let (project, expected) = Project::with_rows(40_000, 4);
    project.edit("exactly_once\n", &format!("at_least_once\n  shutdownTimeout: {shutdown_timeout}\n"));
    let sink = "    look: { inputs: [rows], type: stdout }\n";
    project.edit("  sinks:\n", &format!("  sinks:\n{sink}"));
    (project, expected)
}

#[test]
fn a_second_signal_exits_at_once_and_the_next_run_completes() {
    let (project, expected) = stuck("600s");
    let mut run = project.watch(&["--plain"]);
    run.wait_for_progress();
    run.signal(Signal::INT);
    run.wait_for("a clean stop", |line| line == STOPPING);
    run.signal(Signal::TERM);
    run.finish_unread().expect(130);
    project.run(&[]).expect(0);
    assert_eq!(project.rows("out", 0), expected);
}

#[test]
fn a_stop_that_takes_longer_than_the_shutdown_timeout_is_given_up() {
    let (project, expected) = stuck("200ms");
    let mut run = project.watch(&["--plain"]);
    run.wait_for_progress();
    run.signal(Signal::TERM);
    let ended = run.finish_unread().expect(130);
    assert!(
        ended.stderr.contains("giving up: the clean stop took longer than shutdownTimeout (200ms)"),
        "{ended:#?}"
    );
    assert!(ended.stderr.contains("error: OW-5505: "), "{ended:#?}");
    project.run(&[]).expect(0);
    assert_eq!(project.rows("out", 0), expected);
}

/// More files than are read at once: those that an earlier run has finished must not hold up the others.
#[test]
fn many_finished_files_do_not_keep_a_resumed_run_from_the_rest() {
    let (project, expected) = Project::with_rows(40_000, 40);
    let mut run = project.watch(&["--rate", "5000", "--plain"]);
    run.wait_for("16 files", |line| {
        let done = line.split(" parts=").nth(1).and_then(|parts| parts.split('/').next()?.parse().ok());
        done >= Some(16)
    });
    run.signal(Signal::TERM);
    run.finish().expect(0);
    assert_ne!(project.rows("out", 0), expected, "it was not stopped on the way");
    project.run(&[]).expect(0);
    assert_eq!(project.rows("out", 0), expected);
}
