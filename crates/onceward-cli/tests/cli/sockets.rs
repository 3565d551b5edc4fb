//! The socket of a run: who may come, who comes at once, and who comes with nonsense.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::thread;

use rustix::process::Signal;

use crate::asking::{ask, figures, until, wait_for_rows};
use crate::process::{Watched, finish, onceward};
use crate::project::Project;

#[test]
fn the_socket_is_its_owners_and_goes_with_the_run() {
    let (project, expected) = Project::with_rows(40_000, 4);
    let mut run = project.watch(&["--rate", "8000", "--plain"]);
    // Whoever has read that may ask.
    run.wait_for("the start", |line| line == "starting new");
    assert_eq!(figures(&project.data_dir()).expect("an answer")["pipeline"], "sums");
    let socket = project.data_dir().join("control.sock");
    assert_eq!(std::fs::metadata(&socket).expect("it is there").permissions().mode() & 0o777, 0o600);
    run.finish().expect(0);
    assert!(!socket.exists());
    assert_eq!(project.rows("out", 0), expected);
}

#[test]
fn a_stale_socket_of_a_killed_run_is_nobodys_and_is_replaced() {
    let (project, expected) = Project::with_rows(40_000, 4);
    let run = project.watch(&["--rate", "8000", "--plain"]);
    wait_for_rows(&project.data_dir(), 5_000);
    run.signal(Signal::KILL);
    run.finish();
    let socket = project.data_dir().join("control.sock");
    assert!(socket.exists());
    let standing = project.onceward(&["status"]).expect(0);
    let sentence = "sums is working, no process (ended without a stop)\n";
    assert!(standing.stdout.starts_with(sentence), "{standing:#?}");
    let refused = project.onceward(&["stop"]).expect(1);
    assert!(refused.stderr.contains("OW-5514"), "{refused:#?}");
    let logs = project.onceward(&["logs"]).expect(1);
    assert!(logs.stderr.contains("OW-6013") && logs.stderr.contains("running process only"), "{logs:#?}");

    let mut run = project.watch(&["--rate", "8000", "--plain"]);
    run.wait_for("the start", |line| line.starts_with("resuming from epoch "));
    assert_eq!(figures(&project.data_dir()).expect("an answer")["state"], "working");
    run.finish().expect(0);
    assert!(!socket.exists());
    assert_eq!(project.rows("out", 0), expected);
}

#[test]
fn nonsense_on_the_socket_does_not_disturb_the_run() {
    let (project, expected) = Project::with_rows(40_000, 4);
    let mut run = project.watch(&["--rate", "8000", "--plain"]);
    run.wait_for("the start", |line| line == "starting new");
    let connect = || UnixStream::connect(project.data_dir().join("control.sock")).expect("connected");
    let _silent: Vec<UnixStream> = (0..5).map(|_| connect()).collect();
    let mut half = connect();
    half.write_all(b"{\"stop\":").expect("written");
    drop(half);
    for nonsense in [
        "hello",
        "",
        "{}",
        r#""reset""#,
        r#"{"stop":{}}"#,
        r#"{"stop":{"drain":true,"now":1}}"#,
        "\0\u{1b}[2J",
    ] {
        let answer = ask(&project.data_dir(), nonsense);
        // An empty line is no request; everything else is told what is wrong.
        assert!(
            nonsense.is_empty() || answer.as_ref().is_some_and(|answer| answer["failed"].is_string()),
            "{answer:?}"
        );
    }
    let mut long = connect();
    // It is let go of before it has said all that.
    let megabytes = vec![b'x'; 10_000_000];
    assert!(long.write_all(&megabytes).is_err());
    let mut answer = String::new();
    long.read_to_string(&mut answer).expect("an answer");
    assert!(answer.contains("longer than 16384 bytes"), "{answer}");
    // More than are served at a time: the last are told so, and places come back.
    let many: Vec<UnixStream> = (0..80).map(|_| connect()).collect();
    let turned_away = ask(&project.data_dir(), r#"{"status":{"jobs":false}}"#).expect("an answer");
    assert!(turned_away["failed"].as_str().is_some_and(|text| text.contains("64 clients")), "{turned_away}");
    drop(many);
    let report =
        until("a place", || figures(&project.data_dir()).filter(|report| report["state"] == "working"));
    assert_eq!(report["pipeline"], "sums");

    let ended = run.finish().expect(0);
    assert!(!ended.stderr.contains("panic"), "{ended:#?}");
    assert_eq!(project.rows("out", 0), expected);
}

#[test]
fn several_clients_at_once_are_all_served() {
    let (project, expected) = Project::with_rows(40_000, 4);
    let run = project.watch(&["--rate", "8000", "--plain"]);
    wait_for_rows(&project.data_dir(), 5_000);
    let follow = || Watched::start(onceward(project.folder(), &["logs", "sums", "--follow"]));
    let followers = [follow(), follow()];
    thread::scope(|scope| {
        let clients: Vec<_> = (0..2).map(|_| scope.spawn(|| project.onceward(&["pause"]))).collect();
        for client in clients {
            assert!(client.join().expect("joined").expect(0).stdout.starts_with("sums is paused"));
        }
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(|| project.status(&[]))).collect();
        for client in clients {
            assert_eq!(client.join().expect("joined")["state"], "paused");
        }
    });
    project.onceward(&["resume"]).expect(0);
    run.finish().expect(0);
    for follower in followers {
        let ended = follower.finish().expect(0);
        assert!(ended.stderr.contains("the run has ended: completed"), "{ended:#?}");
        let lines: Vec<&str> = ended.stdout.lines().collect();
        let at = |what: &str| lines.iter().position(|line| line.ends_with(what));
        assert!(at("worker 0 is there").is_some() && at("the pipeline is paused").is_some(), "{ended:#?}");
        assert!(at("the pipeline is paused") < at("the pipeline is completed"), "{ended:#?}");
        assert!(lines.iter().all(|line| line.len() > 25 && &line[23..26] == "Z  "), "{ended:#?}");
    }
    assert_eq!(project.rows("out", 0), expected);
}

#[test]
fn a_follower_that_is_killed_hears_of_nothing_and_one_whose_run_is_killed_says_so() {
    let (project, _) = Project::with_rows(40_000, 4);
    let run = project.watch(&["--rate", "1000", "--plain"]);
    wait_for_rows(&project.data_dir(), 1);
    let follow = || Watched::start(onceward(project.folder(), &["logs", "-f"]));
    let (gone, follower) = (follow(), follow());
    // Not INT: who starts the tests in the background has it ignored.
    gone.signal(Signal::TERM);
    assert_eq!(gone.finish().code, None);
    assert_eq!(project.status(&[])["state"], "working");
    // It follows once it has printed something.
    let mut follower = follower;
    let mut first = [0u8; 1];
    let mut stdout = follower.take_stdout();
    stdout.read_exact(&mut first).expect("a line");
    run.signal(Signal::KILL);
    run.finish();
    let ended = follower.finish_unread().expect(1);
    assert!(
        ended.stderr.contains("error: OW-6009: ") && ended.stderr.contains("without a word"),
        "{ended:#?}"
    );
}

#[test]
fn a_data_directory_with_a_long_path_can_be_controlled() {
    let (project, expected) = Project::with_rows(40_000, 4);
    let long = format!("{}/{}/state", "long-".repeat(30), "path-".repeat(30));
    let run = project.watch(&["--rate", "8000", "--plain", "--data-dir", &long]);
    let data_dir = ["--data-dir", long.as_str()];
    until("rows", || {
        let ended = finish(onceward(project.folder(), &["status", "--json", data_dir[0], data_dir[1]]));
        serde_json::from_str::<serde_json::Value>(&ended.stdout)
            .ok()
            .filter(|report| report["epoch"].as_u64() > Some(1))
    });
    let paused = project.onceward(&["pause", data_dir[0], data_dir[1]]).expect(0);
    assert!(paused.stdout.starts_with("sums is paused"), "{paused:#?}");
    assert!(project.list(&data_dir)[0].starts_with("sums"));
    project.onceward(&["resume", data_dir[0], data_dir[1]]).expect(0);
    let stopped = project.onceward(&["stop", "--no-drain", data_dir[0], data_dir[1]]).expect(0);
    assert!(stopped.stdout.starts_with("sums is stopped"), "{stopped:#?}");
    let ended = run.finish().expect(0);
    assert!(!ended.stderr.contains("warning"), "{ended:#?}");
    project.run(&data_dir).expect(0);
    assert_eq!(project.rows("out", 0), expected);
}
