//! Contract suites: what every connector of a kind must pass, as plain functions that panic-free
//! report the first violation. One file per contract.
//!
//! A suite works on a fresh target through what the sink itself gives: its writers, and a way to look at the rows. An
//! attempt that was applied but timed out is a call made again; a zombie, or our own retry that arrives late, is a
//! call of an older writer made after those of a newer one.

use std::sync::Arc;

use onceward_protocol::identity::PartitionKind;
use onceward_protocol::{Creation, PartitionId, Position, SinkIdentity};

use crate::sink::{RowChunk, SinkBlock};
use crate::writer::TargetError;

mod plain;
mod progress;
mod sequence;
mod source;
#[cfg(test)]
mod tests;
mod token;
mod upsert;

pub use plain::{KeyTarget, PlainTarget, idempotency_key_writer, plain_writer};
pub use progress::{ProgressTarget, progress_writer};
pub use sequence::{SequenceTarget, sequence_writer};
pub use source::source;
pub use token::{TokenTarget, token_writer};
pub use upsert::{UpsertTarget, versioned_upsert_writer};

/// The identity of a source partition.
fn source_identity(creation: u128, sink: &str, partition: &str) -> SinkIdentity {
    let kind = PartitionKind::Source {
        source: "orders".into(),
        creation: Creation(creation),
        name: partition.to_owned(),
    };
    identity(creation, sink, kind, partition)
}

/// The identity of a key range of one computation.
fn range_identity(layout: u32, index: u32) -> SinkIdentity {
    let kind = PartitionKind::Range { computation: "by_key".into(), layout, index };
    identity(1, "totals", kind, &format!("by_key-{layout:04}-{index:04}"))
}

fn identity(creation: u128, sink: &str, kind: PartitionKind, slug: &str) -> SinkIdentity {
    SinkIdentity {
        pipeline: "contract".into(),
        sink: sink.to_owned(),
        partition: PartitionId::new(Creation(creation), kind),
        partition_slug: slug.to_owned(),
    }
}

/// A block of the rows numbered `first..=last` at the positions of these numbers.
fn block(first: u64, last: u64) -> SinkBlock {
    block_of((first..=last).map(|number| (Position::at(number), row(number))))
}

/// A block of rows at growing positions.
fn block_of(rows: impl IntoIterator<Item = (Position, String)>) -> SinkBlock {
    let mut chunk = RowChunk::default();
    for (position, row) in rows {
        chunk.push(position, row.as_bytes());
    }
    let rows = chunk.len();
    SinkBlock { parts: vec![(Arc::new(chunk), 0..rows)] }
}

fn row(number: u64) -> String {
    format!("{{\"id\":{number}}}")
}

fn ok(step: &str, result: Result<(), TargetError>) -> Result<(), String> {
    result.map_err(|error| format!("{step}: expected success, found {error}"))
}

fn fenced(step: &str, result: Result<(), TargetError>) -> Result<(), String> {
    match result {
        Err(TargetError::Fenced(_)) => Ok(()),
        other => Err(format!("{step}: expected Fenced, found {other:?}")),
    }
}

fn refused(step: &str, result: Result<(), TargetError>) -> Result<(), String> {
    match result {
        Err(TargetError::Fenced(_) | TargetError::Definite(_)) => Ok(()),
        other => Err(format!("{step}: expected a refusal, found {other:?}")),
    }
}

fn definite(step: &str, result: Result<(), TargetError>) -> Result<(), String> {
    match result {
        Err(TargetError::Definite(_)) => Ok(()),
        other => Err(format!("{step}: expected Definite, found {other:?}")),
    }
}

/// Checks that exactly the expected rows are there, in any order, each as often as expected.
fn same_rows(step: &str, mut found: Vec<String>, mut expected: Vec<String>) -> Result<(), String> {
    found.sort();
    expected.sort();
    if found == expected {
        return Ok(());
    }
    let missing: Vec<&String> = excess(&expected, &found);
    let too_many: Vec<&String> = excess(&found, &expected);
    Err(format!("{step}: missing are {missing:?}, unexpected or twice are {too_many:?}"))
}

/// What the first of two sorted lists has more of.
fn excess<'a>(list: &'a [String], other: &[String]) -> Vec<&'a String> {
    let count = |rows: &[String], row: &String| {
        rows.partition_point(|there| there <= row) - rows.partition_point(|there| there < row)
    };
    let mut more: Vec<&String> = list.iter().filter(|row| count(list, row) > count(other, row)).collect();
    more.dedup();
    more
}
