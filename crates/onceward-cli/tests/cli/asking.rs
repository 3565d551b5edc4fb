//! Asking a pipeline for things, as users do and as programs do.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process::{Ended, finish, onceward};
use crate::project::Project;

/// After this a state counts as never reached.
const STUCK: Duration = Duration::from_secs(120);

/// Where the first pipeline of [`Project`] keeps its state.
pub const SUMS: &str = ".onceward/sums";

/// Asks until the answer is right.
#[track_caller]
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    while began.elapsed() < STUCK {
        if let Some(answer) = ask() {
            return answer;
        }
        std::thread::yield_now();
    }
    panic!("never: {what}");
}

/// Sends a line to a run and reads one; `None` if nobody is there.
pub fn ask(data_dir: &Path, request: &str) -> Option<Value> {
    let mut stream = UnixStream::connect(data_dir.join("control.sock")).ok()?;
    // Who is turned away may find the answer there before the question has been sent.
    let _ = writeln!(stream, "{request}");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

/// State and figures of a running pipeline.
pub fn figures(data_dir: &Path) -> Option<Value> {
    ask(data_dir, r#"{"status":{"jobs":true}}"#).map(|answer| answer["status"].clone())
}

/// Rows that all sources have read.
pub fn rows_read(report: &Value) -> u64 {
    report["sources"].as_array().expect("sources").iter().filter_map(|source| source["rows"].as_u64()).sum()
}

/// Waits until a run has read so many rows and has committed some.
#[track_caller]
pub fn wait_for_rows(data_dir: &Path, rows: u64) -> Value {
    until("rows", || {
        figures(data_dir).filter(|report| rows_read(report) >= rows && report["epoch"].as_u64() > Some(1))
    })
}

impl Project {
    /// The state directory of the pipeline.
    pub fn data_dir(&self) -> std::path::PathBuf {
        self.folder().join(SUMS)
    }
    /// `status --json`, read.
    #[track_caller]
    pub fn status(&self, more: &[&str]) -> Value {
        let ended = self.onceward(&[&["status", "--json"], more].concat()).expect(0);
        serde_json::from_str(&ended.stdout).expect("JSON")
    }
    /// What `list` says, without its header.
    #[track_caller]
    pub fn list(&self, more: &[&str]) -> Vec<String> {
        let ended = self.onceward(&[&["list"], more].concat()).expect(0);
        ended.stdout.lines().skip(1).map(str::to_owned).collect()
    }
    /// A command with something at its standard input.
    pub fn onceward_at(&self, stdin: std::process::Stdio, args: &[&str]) -> Ended {
        let mut command = onceward(self.folder(), args);
        command.stdin(stdin);
        finish(command)
    }
    /// Every file below a folder with its size.
    pub fn sizes(&self, folder: &str) -> Vec<(std::path::PathBuf, u64)> {
        let mut found = Vec::new();
        let mut folders = vec![self.folder().join(folder)];
        while let Some(folder) = folders.pop() {
            // A sink that has not been written to has no folder.
            for entry in std::fs::read_dir(folder).into_iter().flatten() {
                let entry = entry.expect("an entry");
                let kind = entry.file_type().expect("a type");
                if kind.is_dir() {
                    folders.push(entry.path());
                } else {
                    found.push((entry.path(), entry.metadata().expect("metadata").len()));
                }
            }
        }
        found.sort();
        found
    }
}
