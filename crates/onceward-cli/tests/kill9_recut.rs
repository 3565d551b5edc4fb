//! The guarantee while key ranges are cut and joined: the real binary is killed in the middle of such steps, and the
//! output is that of a run that nobody disturbed.
//!
//! Each run is told to have more or fewer ranges over its socket, and is killed when its log says that a step has begun
//! and not yet that it is done. A kill has hit a step if the layout that the store then holds is the one from before.
//! `ONCEWARD_SEED` repeats the delays; the seed of every run is printed.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails the test")]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

mod delays;

use delays::Random;

const BINARY: &str = env!("CARGO_BIN_EXE_onceward");
const KILLS: usize = 20;
/// Kills that must have hit a step.
const MUST_HIT: usize = 10;
/// Rows that each run adds at least.
const ROWS_PER_KILL: u64 = 20_000;
/// After this something counts as never happening.
const STUCK: Duration = Duration::from_secs(60);
/// Many keys in windows that stay open for long, so that a step has something to move.
const MANIFEST: &str = r#"apiVersion: onceward.dev/v1
kind: Pipeline
metadata: { name: recut }
spec:
  require: exactly_once
  sources:
    made:
      type: generator
      config: { rows: 600000, partitions: 2, keys: 20000, step: 10ms }
      eventTime: { field: time, outOfOrderness: 1s }
  computations:
    by_key:
      inputs: [made]
      groupBy: [key]
      partitions: 2
      aggregate: { window: { tumbling: 5m }, compute: { rows: count(), total: sum(value), largest: max(value) } }
  sinks:
    totals: { inputs: [by_key], type: file, config: { path: out, format: jsonl, rollInterval: 300ms } }
"#;

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.current_dir(dir).args(args).args(["--data-dir", "store"]);
    command
}

fn project() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("pipeline.yaml"), MANIFEST).unwrap();
    dir
}

fn run_to_the_end(dir: &Path) {
    let output = command(dir, &["run", "pipeline.yaml", "--plain"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

/// All rows, sorted.
fn rows(dir: &Path) -> Vec<String> {
    let mut rows = Vec::new();
    for entry in std::fs::read_dir(dir.join("out")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            rows.extend(std::fs::read_to_string(path).unwrap().lines().map(str::to_owned));
        }
    }
    rows.sort();
    rows
}

/// Everything that a run answers; nothing if nobody is there.
fn ask(dir: &Path, request: &Value) -> Vec<Value> {
    let Ok(mut stream) = UnixStream::connect(dir.join("store/control.sock")) else { return Vec::new() };
    if writeln!(stream, "{request}").is_err() {
        return Vec::new();
    }
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.filter_map(|line| serde_json::from_str(&line).ok()).collect()
}

fn status(dir: &Path) -> Option<Value> {
    let request = serde_json::json!({"status": {"jobs": false}});
    ask(dir, &request).first().map(|answer| answer["status"].clone())
}

/// What the store holds while no process has it.
fn stored_layout(dir: &Path) -> u64 {
    let output = command(dir, &["status", "--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["process"], Value::Null, "{report}");
    report["layout"].as_u64().unwrap()
}

/// A run that is killed with the test.
struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(dir: &Path) -> Run {
    let mut command = command(dir, &["run", "pipeline.yaml", "--plain", "--rate", "12000"]);
    Run(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(began.elapsed() < STUCK, "never: {what}");
        std::thread::sleep(Duration::from_micros(300));
    }
}

/// The lines that a run has logged.
fn log(dir: &Path) -> Vec<String> {
    let lines = ask(dir, &serde_json::json!({"logs": {"follow": false}}));
    lines.iter().filter_map(|line| line["line"]["text"].as_str().map(str::to_owned)).collect()
}

/// A kill, and where it met the pipeline.
struct Kill {
    /// The layout before the step.
    before: u64,
    /// Whether the step cuts, and does not join.
    cuts: bool,
    /// Rows that had been read.
    rows: u64,
}

/// One run that goes on for some rows and some steps, and is killed in the next step.
fn killed_in_a_step(dir: &Path, kill: u64, random: &mut Random) -> Kill {
    let mut run = start(dir);
    let mut steps = random.below(3);
    let rows = until("rows", || {
        assert!(run.0.try_wait().unwrap().is_none(), "the run has ended by itself");
        status(dir)?["sources"][0]["rows"].as_u64().filter(|rows| *rows >= kill * ROWS_PER_KILL)
    });
    let mut wanted = 0;
    let killed = until("a step to kill in", || {
        assert!(run.0.try_wait().unwrap().is_none(), "the run has ended by itself");
        let report = status(dir)?;
        let ranges = report["computations"][0]["ranges"].as_u64()?;
        if wanted == 0 || ranges == wanted {
            // Up and down in turns, and further than one step.
            wanted = if ranges < 4 { 5 + random.below(6) } else { 1 + random.below(2) };
            let rescale = serde_json::json!({"rescale": {"computation": "by_key", "ranges": wanted}});
            if !ask(dir, &rescale).iter().any(|answer| answer["done"].is_string()) {
                // What an earlier run has begun is not over yet.
                wanted = 0;
            }
            return None;
        }
        // The layout is looked at before the log: what is stored later is no older.
        let lines = log(dir);
        let begun = lines.iter().rposition(|line| line.contains(" become "))?;
        let is_over = |line: &String| line.contains("key range(s) now") || line.contains("given up");
        let done = lines.iter().filter(|line| is_over(line)).count() as u64;
        if lines[begun..].iter().any(is_over) || done < steps {
            return None;
        }
        steps = done;
        Some((report["layout"].as_u64()?, lines[begun].contains(" 1 key range(s) become")))
    });
    std::thread::sleep(Duration::from_micros(random.below(3_000)));
    run.0.kill().unwrap();
    run.0.wait().unwrap();
    Kill { before: killed.0, cuts: killed.1, rows }
}

#[test]
fn twenty_kills_while_ranges_are_cut_and_joined_leave_the_output_of_an_undisturbed_run() {
    let undisturbed = project();
    run_to_the_end(undisturbed.path());
    let expected = rows(undisturbed.path());

    let dir = project();
    let dir = dir.path();
    let mut random = Random::new();
    let (mut cuts_hit, mut joins_hit) = (0, 0);
    for number in 0..KILLS {
        let Kill { before, cuts, rows } = killed_in_a_step(dir, number as u64, &mut random);
        let after = stored_layout(dir);
        let hit = after == before;
        println!("kill {number} after {rows} rows: cuts {cuts}, layout {before} before and {after} after");
        cuts_hit += usize::from(hit && cuts);
        joins_hit += usize::from(hit && !cuts);
    }
    println!("{cuts_hit} cuts and {joins_hit} joins were hit");
    run_to_the_end(dir);
    let found = rows(dir);
    assert_eq!(expected.len(), found.len(), "number of rows");
    let different = expected.iter().zip(&found).find(|(expected, found)| expected != found);
    assert_eq!(different, None);
    assert!(cuts_hit + joins_hit >= MUST_HIT, "only {cuts_hit} cuts and {joins_hit} joins of {KILLS} kills");
    assert!(cuts_hit > 0 && joins_hit > 0, "{cuts_hit} cuts and {joins_hit} joins");
}
