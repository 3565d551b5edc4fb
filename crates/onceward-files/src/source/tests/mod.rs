//! What the `file` source guarantees, each test by the guarantee's name.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use onceward_connector::{Config, ConfigValue, ConnectorError, Read, ReadLimits, Source, SourceReader};
use onceward_protocol::Position;

use super::FileSource;
use super::reader::CHUNK_BYTES;
use crate::compression::Compression;

mod change;
mod config;
mod follow;
mod reading;

pub const EVERYTHING: ReadLimits = ReadLimits { rows: usize::MAX, bytes: usize::MAX };

pub fn text(value: &str) -> ConfigValue {
    ConfigValue::String(value.to_owned())
}

pub fn texts(values: &[&str]) -> ConfigValue {
    ConfigValue::List(values.iter().map(|value| (*value).to_owned()).collect())
}

/// A config of a glob, a format and more keys.
pub fn config(path: PathBuf, format: &str, more: &[(&str, ConfigValue)]) -> Config {
    let mut config = Config::default();
    config.set("path", ConfigValue::Path(path));
    config.set("format", text(format));
    for (key, value) in more {
        config.set(key, value.clone());
    }
    config
}

pub fn source(path: PathBuf, format: &str, more: &[(&str, ConfigValue)]) -> FileSource {
    FileSource::new(&config(path, format, more), CHUNK_BYTES).expect("a good config")
}

/// Like [`source`], but asks the file for a few bytes at a time.
pub fn chunked(chunk: usize, path: PathBuf, format: &str, more: &[(&str, ConfigValue)]) -> FileSource {
    FileSource::new(&config(path, format, more), chunk).expect("a good config")
}

pub fn write(path: &Path, content: impl AsRef<[u8]>) {
    let content = Compression::by_extension(path).compress(content.as_ref().to_vec()).expect("compresses");
    std::fs::write(path, content).expect("writes");
    age(path, 1000);
}

pub fn append(path: &Path, content: &str) {
    let mut file = File::options().append(true).open(path).expect("opens");
    file.write_all(content.as_bytes()).expect("appends");
}

/// Sets the modification time, so that no test depends on the clock's grain.
pub fn age(path: &Path, seconds: u64) {
    let file = File::options().append(true).open(path).expect("opens");
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).expect("sets the time");
}

pub fn open(source: &dyn Source, partition: &str) -> Box<dyn SourceReader> {
    source.open(partition, Position::ORIGIN, &[]).expect("opens")
}

pub fn refused(source: &dyn Source, partition: &str, position: Position, token: &[u8]) -> ConnectorError {
    match source.open(partition, position, token) {
        Ok(_) => panic!("{partition} opened after {position}"),
        Err(error) => error,
    }
}

/// One read that must give rows: payloads, last position, token.
pub fn some(reader: &mut dyn SourceReader, rows: usize) -> (Vec<String>, Position, Vec<u8>) {
    match reader.read(ReadLimits { rows, bytes: usize::MAX }).expect("reads") {
        Read::Batch { batch, token } => {
            let rows = batch.records().iter();
            let rows =
                rows.map(|record| String::from_utf8_lossy(batch.payload(record)).into_owned()).collect();
            (rows, batch.records().last().expect("a record").position, token)
        }
        other => panic!("expected rows, found {other:?}"),
    }
}

/// Everything up to the end or the first `Idle`.
pub fn rest(reader: &mut dyn SourceReader) -> Result<Vec<String>, ConnectorError> {
    let mut rows = Vec::new();
    while let Read::Batch { batch, .. } = reader.read(EVERYTHING)? {
        let records = batch.records().iter();
        rows.extend(records.map(|record| String::from_utf8_lossy(batch.payload(record)).into_owned()));
    }
    Ok(rows)
}

/// `{"n":1}` and so on, one per line.
pub fn lines(numbers: std::ops::RangeInclusive<u32>) -> String {
    numbers.map(|number| format!("{{\"n\":{number}}}\n")).collect()
}
