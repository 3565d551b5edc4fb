//! Processes of the binary: run to the end, or watched and signalled on the way.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// After this a process counts as stuck and is killed, so that its test fails and does not wait for ever.
const STUCK: Duration = Duration::from_secs(180);

/// Kills a process that is stuck, until the guard is dropped.
fn guard(child: &Child) -> Sender<()> {
    let (guard, done) = channel();
    let pid = Pid::from_child(child);
    std::thread::spawn(move || {
        if done.recv_timeout(STUCK) == Err(RecvTimeoutError::Timeout) {
            let _ = kill_process(pid, Signal::KILL);
        }
    });
    guard
}

/// A command in a folder, without what the surroundings set for it.
pub fn onceward(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onceward"));
    command.current_dir(folder).args(args).stdin(Stdio::null()).env_remove("ONCEWARD_DATA_DIR");
    command
}

/// How a process ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// The same, if it ended with this exit code.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }
    /// The rest of the final table's row that begins with these words, split at blanks.
    #[track_caller]
    pub fn row(&self, table: &str, name: &str) -> Vec<String> {
        let rows = self.stdout.split("\n\n").find(|block| block.starts_with(table));
        let row = rows.and_then(|rows| rows.lines().find(|line| line.starts_with(&format!("{name} "))));
        let row = row.unwrap_or_else(|| panic!("no {name} in {table}: {self:#?}"));
        row[name.len()..].split_whitespace().map(str::to_owned).collect()
    }
}

/// Runs a command to its end.
pub fn finish(mut command: Command) -> Ended {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("the binary starts");
    let _guard = guard(&child);
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A process that is watched. It is killed with the test that has it.
pub struct Watched {
    child: Child,
    _guard: Sender<()>,
    lines: Receiver<String>,
    seen: Vec<String>,
    stdout: Option<ChildStdout>,
}

impl Watched {
    /// Starts a command.
    pub fn start(mut command: Command) -> Self {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let stdout = child.stdout.take();
        Watched { _guard: guard(&child), child, lines, seen: Vec::new(), stdout }
    }

    /// Waits for a line on standard error.
    #[track_caller]
    pub fn wait_for(&mut self, what: &str, matches: impl Fn(&str) -> bool) -> String {
        while let Ok(line) = self.lines.recv() {
            self.seen.push(line.clone());
            if matches(&line) {
                return line;
            }
        }
        panic!("ended without {what}: {:#?}", self.seen);
    }

    /// Waits until epochs are committed and rows are read, and says how many rows.
    #[track_caller]
    pub fn wait_for_progress(&mut self) -> u64 {
        let figure = |line: &str, name: &str| -> Option<u64> {
            line.strip_prefix("progress ")?.split(' ').find_map(|part| part.strip_prefix(name)?.parse().ok())
        };
        let moved = |line: &str| figure(line, "epoch=") > Some(1) && figure(line, "rows=") > Some(0);
        let line = self.wait_for("progress", moved);
        figure(&line, "rows=").expect("it has rows")
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it can be signalled");
    }

    /// Its standard output.
    pub fn take_stdout(&mut self) -> ChildStdout {
        self.stdout.take().expect("not taken before")
    }

    /// Waits for the end.
    pub fn finish(mut self) -> Ended {
        let mut stdout = String::new();
        if let Some(mut pipe) = self.stdout.take() {
            pipe.read_to_string(&mut stdout).expect("UTF-8");
        }
        self.end(stdout)
    }

    /// Waits for the end without reading standard output, which stays open meanwhile.
    pub fn finish_unread(mut self) -> Ended {
        let _held = self.stdout.take();
        self.end(String::new())
    }

    fn end(&mut self, stdout: String) -> Ended {
        let status = self.child.wait().expect("it ends");
        self.seen.extend(self.lines.iter());
        Ended { code: status.code(), stdout, stderr: self.seen.join("\n") }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
