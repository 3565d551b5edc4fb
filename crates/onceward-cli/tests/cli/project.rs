//! A folder with a manifest, input and output, and what must come out of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::process::{Ended, Watched, finish, onceward};

/// Counts and sums values per key in windows of an hour, from JSONL to JSONL.
pub const MANIFEST: &str = r#"apiVersion: onceward.dev/v1
kind: Pipeline
metadata: { name: sums }
spec:
  require: exactly_once
  sources:
    rows:
      type: file
      config: { path: "data/*.jsonl", format: jsonl }
      eventTime: { field: at, outOfOrderness: 1h }
  computations:
    even:
      inputs: [rows]
      steps:
        - filter: value % 2 == 0
    per_key:
      inputs: [even]
      groupBy: [key]
      aggregate:
        window: { tumbling: 1h }
        compute: { count: count(), total: sum(value), least: min(value), most: max(value) }
  sinks:
    sums:
      inputs: [per_key]
      type: file
      config: { path: out, format: jsonl }
"#;

/// A project in a folder of its own.
pub struct Project {
    folder: TempDir,
}

impl Project {
    /// With a manifest and no data.
    pub fn new(manifest: &str) -> Self {
        let project = Project { folder: tempfile::tempdir().expect("a folder") };
        project.write("pipeline.yaml", manifest);
        project
    }
    /// [`MANIFEST`] with `rows` rows over some files, and the output that they must give, sorted.
    pub fn with_rows(rows: u64, files: u64) -> (Self, Vec<String>) {
        let project = Project::new(MANIFEST);
        let mut texts = vec![String::new(); files as usize];
        let mut windows: BTreeMap<(u64, u64), (u64, u64, u64, u64)> = BTreeMap::new();
        for value in 0..rows {
            let (key, minute) = (value % 7, value * 600 / rows);
            let (hour, file) = (minute / 60, (value * files / rows) as usize);
            let at = format!("2026-05-01T{hour:02}:{:02}:00Z", minute % 60);
            writeln!(texts[file], r#"{{"key":"k{key}","value":{value},"at":"{at}"}}"#).expect("a String");
            if value % 2 == 0 {
                let window = windows.entry((key, hour)).or_insert((0, 0, u64::MAX, 0));
                *window = (window.0 + 1, window.1 + value, window.2.min(value), window.3.max(value));
            }
        }
        for (index, text) in texts.iter().enumerate() {
            project.write(&format!("data/rows-{index:03}.jsonl"), text);
        }
        let expected = windows.iter().map(|((key, hour), (count, total, least, most))| {
            format!(
                r#"{{"key":"k{key}","window_start":"2026-05-01T{hour:02}:00:00Z","window_end":"2026-05-01T{:02}:00:00Z","count":{count},"total":{total},"least":{least},"most":{most}}}"#,
                hour + 1
            )
        });
        let mut expected: Vec<String> = expected.collect();
        expected.sort();
        (project, expected)
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
    /// Writes a file and the folders above it.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.folder().join(name);
        fs::create_dir_all(path.parent().expect("below the folder")).expect("folders");
        fs::write(path, text).expect("written");
    }
    /// Replaces a part of the manifest.
    pub fn edit(&self, from: &str, to: &str) {
        let path = self.folder().join("pipeline.yaml");
        let text = fs::read_to_string(&path).expect("read");
        assert!(text.contains(from), "{from} in {text}");
        fs::write(path, text.replace(from, to)).expect("written");
    }
    /// Runs a command of the binary to its end.
    pub fn onceward(&self, args: &[&str]) -> Ended {
        finish(onceward(self.folder(), args))
    }
    /// `run pipeline.yaml` and more, to its end.
    pub fn run(&self, more: &[&str]) -> Ended {
        self.onceward(&[&["run", "pipeline.yaml"], more].concat())
    }
    /// `run pipeline.yaml` and more, watched.
    pub fn watch(&self, more: &[&str]) -> Watched {
        Watched::start(onceward(self.folder(), &[&["run", "pipeline.yaml"], more].concat()))
    }
    /// The rows of all visible files in a folder, sorted; `skip` lines at the start of each are no rows.
    pub fn rows(&self, folder: &str, skip: usize) -> Vec<String> {
        rows(&self.folder().join(folder), skip)
    }
}

/// The rows of all visible files in a folder, sorted.
pub fn rows(folder: &Path, skip: usize) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let files: Vec<PathBuf> =
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file()).collect();
    let mut rows: Vec<String> = files
        .iter()
        .flat_map(|path| {
            let text = fs::read_to_string(path).expect("UTF-8");
            text.lines().skip(skip).map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    rows.sort();
    rows
}
