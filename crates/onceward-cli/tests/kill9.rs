//! The guarantee on the real binary: whatever kills it in between, the output is that of a run that
//! nobody disturbed, byte for byte after sorting.
//!
//! `ONCEWARD_KILLS` sets the number of kills (default 50, at least 40 of which must lie between the
//! first and the last commit); the seed of every run is printed.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper that cannot go on fails the test")]

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

mod delays;

use delays::Random;

const BINARY: &str = env!("CARGO_BIN_EXE_onceward");
const ROWS: u64 = 600_000;
/// How long an undisturbed run of the rate-limited input takes.
const SECONDS: u64 = 90;
/// How long all killed runs may live together: less, so that none of them reaches the end.
const LIVES_MS: u64 = 66_000;

/// Four files of rows in about time order, and a manifest with a path of its own for rows and windows.
fn write_project(dir: &Path) {
    for part in 0..4u64 {
        let mut text = String::new();
        let mut mix = part + 1;
        for number in 0..ROWS / 4 {
            mix = mix.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let second = number * 7000 / (ROWS / 4) + (mix >> 40) % 50;
            let (hour, minute) = (second / 3600, second / 60 % 60);
            writeln!(
                text,
                r#"{{"id":"{part}-{number}","user":"u{}","at":"2026-01-01T{hour:02}:{minute:02}:{:02}Z","amount":{}.{:02}}}"#,
                (mix >> 33) % 700,
                second % 60,
                (mix >> 45) % 900,
                (mix >> 20) % 100,
            )
            .unwrap();
        }
        std::fs::write(dir.join(format!("orders-{part}.jsonl")), text).unwrap();
    }
    let manifest = r#"apiVersion: onceward.dev/v1
kind: Pipeline
metadata: { name: kill9 }
spec:
  require: exactly_once
  sources:
    orders:
      type: file
      config: { path: orders-*.jsonl, format: jsonl }
      eventTime: { field: at, outOfOrderness: 60s }
  computations:
    large:
      inputs: [orders]
      steps:
        - filter: amount > 200.5
    by_user:
      inputs: [large]
      groupBy: [user]
      aggregate:
        window: { tumbling: 1m }
        compute: { orders: count(), total: sum(amount), largest: max(amount), mean: avg(amount) }
  sinks:
    rows:
      inputs: [large]
      type: file
      config: { path: out/rows, format: jsonl, rollInterval: 300ms }
    totals:
      inputs: [by_user]
      type: file
      config: { path: out/totals, format: jsonl, rollInterval: 300ms }
"#;
    std::fs::write(dir.join("pipeline.yaml"), manifest).unwrap();
}

fn command(dir: &Path, rate: Option<u64>) -> Command {
    let mut command = Command::new(BINARY);
    command.current_dir(dir).args(["run", "pipeline.yaml", "--plain", "--data-dir", "store"]);
    if let Some(rate) = rate {
        command.args(["--rate", &rate.to_string()]);
    }
    command
}

/// Runs to the end; answers the largest epoch that was reported.
fn run_to_the_end(dir: &Path, rate: Option<u64>) -> u64 {
    let output = command(dir, rate).output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    text.lines().filter_map(epoch_of).max().unwrap_or(0)
}

/// The epoch that a line names: `epoch=12` or `epoch 12`.
fn epoch_of(line: &str) -> Option<u64> {
    let rest = line.split_once("epoch")?.1;
    let digits: String = rest[1..].chars().take_while(|digit| digit.is_ascii_digit()).collect();
    digits.parse().ok()
}

/// All rows of one sink, sorted.
fn rows(dir: &Path, sink: &str) -> Vec<String> {
    let mut rows = Vec::new();
    for entry in std::fs::read_dir(dir.join("out").join(sink)).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            rows.extend(std::fs::read_to_string(path).unwrap().lines().map(str::to_owned));
        }
    }
    rows.sort();
    rows
}

fn assert_equal_output(undisturbed: &Path, disturbed: &Path) {
    for sink in ["rows", "totals"] {
        let (expected, found) = (rows(undisturbed, sink), rows(disturbed, sink));
        assert!(!expected.is_empty());
        assert_eq!(expected.len(), found.len(), "number of rows of sink {sink}");
        if let Some((expected, found)) =
            expected.iter().zip(&found).find(|(expected, found)| expected != found)
        {
            panic!("sink {sink}: expected {expected}, found {found}");
        }
    }
}

fn undisturbed() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    write_project(dir.path());
    run_to_the_end(dir.path(), None);
    dir
}

/// A run whose standard error is watched for epochs by a thread of its own.
struct Watched {
    child: Child,
    /// Hears of the first line.
    first_line: std::sync::mpsc::Receiver<()>,
    reader: std::thread::JoinHandle<(u64, String)>,
}

impl Watched {
    fn start(dir: &Path, rate: u64) -> Self {
        let mut child =
            command(dir, Some(rate)).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        let (speaks, first_line) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            let (mut epoch, mut text) = (0, String::new());
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = speaks.send(());
                epoch = epoch_of(&line).unwrap_or(0).max(epoch);
                text.push_str(&line);
                text.push('\n');
            }
            (epoch, text)
        });
        Watched { child, first_line, reader }
    }
}

#[test]
fn fifty_kills_leave_the_output_of_an_undisturbed_run() {
    let kills: usize = std::env::var("ONCEWARD_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(50);
    let expected = undisturbed();
    let dir = tempfile::tempdir().unwrap();
    write_project(dir.path());
    let mut random = Random::new();
    let rate = ROWS / SECONDS;
    let mut resumed_at = Vec::new();
    let mut early_end = false;
    for kill in 0..kills {
        let life = Duration::from_millis(200 + random.below(LIVES_MS * 2 / kills as u64 - 400));
        let mut run = Watched::start(dir.path(), rate);
        let began = Instant::now();
        while began.elapsed() < life && run.child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        early_end |= run.child.try_wait().unwrap().is_some();
        run.child.kill().unwrap();
        run.child.wait().unwrap();
        let (_, text) = run.reader.join().unwrap();
        assert!(!early_end, "the run ended by itself before kill {kill}: {text}");
        // Every start says from which epoch it goes on, unless it was killed before it could.
        let resumed = text.lines().find(|line| line.starts_with("resuming from"));
        resumed_at.push(resumed.and_then(epoch_of).unwrap_or(0));
    }
    let last = run_to_the_end(dir.path(), None);
    // What the k-th start resumed from is what the kill before it left behind.
    let between = resumed_at.iter().skip(1).filter(|epoch| (1..last).contains(*epoch)).count();
    println!("{kills} kills, epochs found after each: {resumed_at:?}, last epoch {last}");
    assert!(
        between + 1 >= kills * 4 / 5,
        "only {between} of {kills} kills lie between the first and the last commit"
    );
    assert_equal_output(expected.path(), dir.path());
}

#[test]
fn a_stop_at_any_moment_is_clean_and_the_next_run_goes_on() {
    let expected = undisturbed();
    let dir = tempfile::tempdir().unwrap();
    write_project(dir.path());
    let mut random = Random::new();
    for _ in 0..12 {
        let life = Duration::from_millis(random.below(1500));
        let mut run = Watched::start(dir.path(), ROWS / 20);
        // It listens to signals before it says anything.
        run.first_line.recv().unwrap();
        std::thread::sleep(life);
        let pid = run.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let status = run.child.wait().unwrap();
        let (_, text) = run.reader.join().unwrap();
        assert_eq!(status.code(), Some(0), "after {life:?}: {text}");
    }
    run_to_the_end(dir.path(), None);
    assert_equal_output(expected.path(), dir.path());
}

#[test]
fn a_full_disk_ends_the_run_with_a_clear_error_and_loses_nothing() {
    let expected = undisturbed();
    let dir = tempfile::tempdir().unwrap();
    let space = dir.path().join("space");
    std::fs::create_dir(&space).unwrap();
    let project = tempfile::tempdir().unwrap();
    write_project(project.path());
    // A small file system of its own, grown step by step until there is room for everything.
    let script = r#"
set -eu
mount -t tmpfs -o size=70m tmpfs "$SPACE"
cp "$PROJECT"/orders-*.jsonl "$PROJECT"/pipeline.yaml "$SPACE"/
cd "$SPACE"
failures=0
for size in 71 76 90 110 140 400; do
  mount -o remount,size=${size}m "$SPACE"
  if "$BINARY" run pipeline.yaml --plain --data-dir store >log 2>&1; then
    echo "completed at ${size}m after $failures failures"
    mkdir -p "$RESULT" && cp -r out "$RESULT"/
    [ "$failures" -gt 0 ] || exit 3
    exit 0
  fi
  failures=$((failures + 1))
  grep -E 'OW-2|OW-3' log >&2 || { cat log >&2; exit 4; }
  : > log
done
exit 5
"#;
    let result = tempfile::tempdir().unwrap();
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", script])
        .env("SPACE", &space)
        .env("PROJECT", project.path())
        .env("BINARY", BINARY)
        .env("RESULT", result.path())
        .output()
        .unwrap();
    let text =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert!(output.status.success(), "status {}: {text}", output.status);
    assert_equal_output(expected.path(), result.path());
}
