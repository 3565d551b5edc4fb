//! What the `sqlite` sink promises, on real database files.

use std::path::Path;
use std::sync::Arc;

use onceward_connector::{
    Config, ConfigValue, ConnectorError, PlainWriter, ProgressWriter, RowChunk, Sink, SinkBlock, StreamShape,
    TargetError, Writer,
};
use onceward_protocol::identity::PartitionKind;
use onceward_protocol::{Creation, Fence, Marker, PartitionId, Position, SinkIdentity};
use rusqlite::Connection;

use crate::sink::SqliteSink;

mod config;
mod contract;
mod kill;
mod refusal;
mod types;
mod zombie;

const A: Fence = Fence(0xA);
const B: Fence = Fence(u128::MAX);

fn config(path: &Path, mode: &str, columns: &[&str], key: &[&str]) -> Config {
    let texts = |names: &[&str]| ConfigValue::List(names.iter().map(|name| (*name).to_owned()).collect());
    let mut config = Config::default();
    config.set("path", ConfigValue::Path(path.to_owned()));
    config.set("table", ConfigValue::String("Rows".into()));
    config.set("mode", ConfigValue::String(mode.into()));
    if !columns.is_empty() {
        config.set("columns", texts(columns));
    }
    if !key.is_empty() {
        config.set("key", texts(key));
    }
    // One lock attempt of another connection is enough to wait for.
    config.set("busyTimeout", ConfigValue::Duration(5_000_000));
    config
}

fn sink(path: &Path, mode: &str, columns: &[&str], key: &[&str]) -> SqliteSink {
    SqliteSink::new(&config(path, mode, columns, key), &StreamShape::default()).expect("a good config")
}

fn identity(creation: u128, index: u32) -> SinkIdentity {
    let kind = PartitionKind::Range { computation: "by_carrier".into(), layout: 1, index };
    SinkIdentity {
        pipeline: "flights".into(),
        sink: "hourly".into(),
        partition: PartitionId::new(Creation(creation), kind),
        partition_slug: format!("by_carrier-{index:04}"),
    }
}

fn progress(sink: &SqliteSink, identity: &SinkIdentity) -> Box<dyn ProgressWriter> {
    match sink.writer(identity).expect("a writer") {
        Writer::Progress(writer) => writer,
        _ => panic!("no progress writer"),
    }
}

fn versioned(sink: &SqliteSink, identity: &SinkIdentity) -> Box<dyn PlainWriter> {
    match sink.writer(identity).expect("a writer") {
        Writer::Plain(writer) => writer,
        _ => panic!("no plain writer"),
    }
}

fn at(major: u64, fence: Fence) -> Marker {
    Marker { position: Position::at(major), fence }
}

/// Opens as the engine does, and answers the marker.
fn open(writer: &mut dyn ProgressWriter, fence: Fence) -> Result<Marker, TargetError> {
    writer.take_fence(fence)?;
    if let Some(marker) = writer.read_marker()? {
        return Ok(marker);
    }
    let start = Marker { position: Position::ORIGIN, fence };
    writer.create_marker(start)?;
    Ok(start)
}

fn block_of(first: u64, rows: &[&str]) -> SinkBlock {
    let mut chunk = RowChunk::default();
    for (row, position) in rows.iter().zip(first..) {
        chunk.push(Position::at(position), row.as_bytes());
    }
    SinkBlock { parts: vec![(Arc::new(chunk), 0..rows.len())] }
}

/// The rows `{"id":N}` at the positions N.
fn block(first: u64, last: u64) -> SinkBlock {
    let rows: Vec<String> = (first..=last).map(|id| format!("{{\"id\":{id}}}")).collect();
    block_of(first, &rows.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The ids in the table, in order, read over a connection of its own.
fn ids(path: &Path) -> Vec<u64> {
    let connection = Connection::open(path).expect("opens");
    let mut rows = connection.prepare("SELECT id FROM rows ORDER BY id").expect("a table");
    let ids = rows.query_map([], |row| row.get::<_, i64>(0)).expect("reads");
    ids.map(|id| id.expect("a whole number") as u64).collect()
}

fn run_sql(path: &Path, sql: &str) {
    Connection::open(path).expect("opens").execute_batch(sql).expect("good SQL");
}

fn definite(result: Result<impl std::fmt::Debug, TargetError>) -> ConnectorError {
    match result {
        Err(TargetError::Definite(error)) => error,
        other => panic!("expected Definite, found {other:?}"),
    }
}
