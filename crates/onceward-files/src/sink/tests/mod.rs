//! What the `file` sink guarantees, each test by the guarantee's name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use onceward_connector::{
    Config, ConfigValue, ProgressWriter, RowChunk, SinkBlock, StreamShape, TargetError,
};
use onceward_protocol::identity::PartitionKind;
use onceward_protocol::{Creation, Fence, Marker, PartitionId, Position, SinkIdentity};

use super::FileSink;
use super::storage::{LocalStorage, Storage};
use super::writer::FileWriter;
use crate::compression::Compression;

mod contract;
mod crash;
mod refusal;
mod zombie;

/// How many rows the scenarios write, and how many at once.
pub const ROWS: u64 = 6;
const BLOCK: u64 = 2;

pub fn text(value: &str) -> ConfigValue {
    ConfigValue::String(value.to_owned())
}

pub fn config(folder: &Path, format: &str, more: &[(&str, ConfigValue)]) -> Config {
    let mut config = Config::default();
    config.set("path", ConfigValue::Path(folder.to_owned()));
    config.set("format", text(format));
    for (key, value) in more {
        config.set(key, value.clone());
    }
    config
}

pub fn identity(creation: u128) -> SinkIdentity {
    let kind = PartitionKind::Range { computation: "by_carrier".into(), layout: 1, index: 3 };
    SinkIdentity {
        pipeline: "flight-delays".into(),
        sink: "hourly".into(),
        partition: PartitionId::new(Creation(creation), kind),
        partition_slug: "by_carrier-0003".into(),
    }
}

pub fn writer_on(folder: &Path, storage: Arc<dyn Storage>) -> FileWriter {
    let sink = FileSink::new(&config(folder, "jsonl", &[]), &StreamShape::default(), storage)
        .expect("a good config");
    sink.file_writer(&identity(1)).expect("a writer")
}

pub fn block(rows: std::ops::RangeInclusive<u64>) -> SinkBlock {
    let mut chunk = RowChunk::default();
    for number in rows {
        chunk.push(Position::at(number), format!("{{\"id\":{number}}}").as_bytes());
    }
    let rows = chunk.len();
    SinkBlock { parts: vec![(Arc::new(chunk), 0..rows)] }
}

pub fn at(major: u64, fence: u128) -> Marker {
    Marker { position: Position::at(major), fence: Fence(fence) }
}

/// How a job ended that did not write everything.
#[derive(Debug)]
pub struct Ended {
    pub error: TargetError,
    /// The marker before the call that failed, if one had been read.
    pub before: Option<Position>,
}

/// What the engine does with a writer: fence, marker, then everything after the marker.
pub fn job(writer: &mut dyn ProgressWriter, fence: u128) -> Result<(), Ended> {
    let ended = |before: Option<Position>| move |error: TargetError| Ended { error, before };
    writer.take_fence(Fence(fence)).map_err(ended(None))?;
    let found = writer.read_marker().map_err(ended(None))?;
    if found.is_some_and(|marker| marker.fence != Fence(fence)) {
        return Err(Ended { error: TargetError::Fenced("by the marker".into()), before: None });
    }
    let mut marker = at(0, fence);
    match found {
        Some(found) => marker = found,
        None => writer.create_marker(marker).map_err(ended(None))?,
    }
    while marker.position.major < ROWS {
        let last = (marker.position.major + BLOCK).min(ROWS);
        let rows = block(marker.position.major + 1..=last);
        writer.write(&rows, marker, at(last, fence)).map_err(ended(Some(marker.position)))?;
        marker = at(last, fence);
    }
    Ok(())
}

/// The visible tables, sorted by name.
pub fn tables(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

/// The rows of the visible JSONL tables, in order of the tables' names.
pub fn rows(folder: &Path) -> Vec<String> {
    let mut rows = Vec::new();
    for path in tables(folder) {
        let mut content = String::new();
        let file = std::fs::File::open(&path).expect("opens");
        let mut decoder =
            crate::compression::Decoder::new(Compression::by_extension(&path), file, 0).expect("a decoder");
        std::io::Read::read_to_string(&mut decoder, &mut content).expect("reads");
        rows.extend(content.lines().map(str::to_owned));
    }
    rows
}

/// A consumer of the tables: takes the rows and removes the files.
pub fn take(folder: &Path) -> Vec<String> {
    let taken = rows(folder);
    tables(folder).iter().for_each(|path| std::fs::remove_file(path).expect("removes"));
    taken
}

pub fn all_rows() -> Vec<String> {
    (1..=ROWS).map(|number| format!("{{\"id\":{number}}}")).collect()
}

/// The names in the staging folder.
pub fn staged(folder: &Path) -> Vec<String> {
    let path = folder.join(".onceward/hourly/by_carrier-0003/staging");
    if path.exists() { LocalStorage.list(&path).expect("lists") } else { Vec::new() }
}

/// A folder in memory where there is one: the exhaustive tests sync thousands of times.
pub fn fast_dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("temp dir")
}
