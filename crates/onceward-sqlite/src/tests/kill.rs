//! A process that is killed at any moment: what it confirmed is there, what it had begun is there whole or not at all.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::*;

const PATH: &str = "ONCEWARD_SQLITE_KILLED_WRITER";
const ROWS: u64 = 2000;

/// Not a test by itself: the process that [`a_killed_process_leaves_whole_blocks_and_their_marker`] kills.
#[test]
fn the_process_that_is_killed() {
    let Some(path) = std::env::var_os(PATH) else { return };
    let sink = sink(Path::new(&path), "append", &["id"], &[]);
    let mut writer = progress(&sink, &identity(1, 0));
    let fence = Fence(u128::from(std::process::id()));
    let mut marker = open(writer.as_mut(), fence).expect("opens");
    // Ends by itself once nobody listens.
    loop {
        let last = marker.position.major + ROWS;
        println!("\nbegun {last}");
        writer.write(&block(marker.position.major + 1, last), marker, at(last, fence)).expect("writes");
        println!("\nconfirmed {last}");
        marker = at(last, fence);
    }
}

fn start(path: &Path) -> Child {
    Command::new(std::env::current_exe().expect("this test"))
        .args(["tests::kill::the_process_that_is_killed", "--exact", "--nocapture"])
        .env(PATH, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts")
}

#[test]
fn a_killed_process_leaves_whole_blocks_and_their_marker() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("rows.db");
    for begun in 1..=6 {
        let mut child = start(&path);
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let (mut confirmed, mut seen) = (0, 0);
        for line in lines {
            let line = line.expect("text");
            if let Some(last) = line.strip_prefix("confirmed ") {
                confirmed = last.parse().expect("a number");
            }
            if line.starts_with("begun ") {
                seen += 1;
            }
            // Killed inside the write that this line announces, or soon after.
            if seen == begun {
                child.kill().expect("is there");
                break;
            }
        }
        child.wait().expect("ended");
        assert_eq!(seen, begun, "the process ended by itself");

        let sink = sink(&path, "append", &["id"], &[]);
        let mut writer = progress(&sink, &identity(1, 0));
        let marker = open(writer.as_mut(), Fence(begun)).expect("opens");
        assert!(marker.position.major >= confirmed, "confirmed {confirmed}, found {}", marker.position);
        assert_eq!(marker.position.major % ROWS, 0, "half a block");
        assert_eq!(ids(&path), (1..=marker.position.major).collect::<Vec<_>>());
    }
}

#[test]
fn a_writer_that_is_dropped_inside_its_transaction_leaves_nothing() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("rows.db");
    let sink = sink(&path, "append", &["id"], &[]);
    let mut writer = progress(&sink, &identity(1, 0));
    let start = open(writer.as_mut(), A).expect("opens");
    writer.write(&block(1, 3), start, at(3, A)).expect("writes");
    // Moves the marker and writes rows as `write` does, and dies before the commit.
    let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        sink.database().transaction(|connection| -> Result<(), TargetError> {
            connection.execute("UPDATE onceward_progress SET position_major = '9'", []).expect("SQL");
            connection.execute("INSERT INTO rows VALUES (4)", []).expect("SQL");
            panic!("the process dies here");
        })
    }));
    assert!(died.is_err());
    assert_eq!(ids(&path), [1, 2, 3]);
    assert_eq!(writer.read_marker().expect("reads"), Some(at(3, A)));
    writer.write(&block(4, 5), at(3, A), at(5, A)).expect("goes on");
    assert_eq!(ids(&path), [1, 2, 3, 4, 5]);
}
