//! What a sink is: its contract (DESIGN section 6), its blocks, its identity. Payload rows are JSON objects, one
//! each, without line ends. How blocks are written is [`crate::writer`]'s.

use std::sync::Arc;

use onceward_protocol::{Position, SinkIdentity};

use crate::error::ConnectorError;
use crate::writer::Writer;

/// How a sink keeps its promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SinkContract {
    /// Each write compares the progress marker with what we expect and sets the next: exactly-once.
    /// [`Writer::Progress`].
    ProgressInTarget,
    /// The target keeps the last position per identity and drops repeats: exactly-once. [`Writer::Sequence`].
    Sequence,
    /// The target drops a block whose token it remembers: exactly-once as long as it does. [`Writer::Token`].
    Token,
    /// The target applies a row only if its [`RowVersion`](crate::RowVersion) is newer than the key's:
    /// effectively-once. [`Writer::Plain`].
    VersionedUpsert,
    /// Every row carries its [`idempotency_key`](crate::idempotency_key), by which the receiver may drop repeats:
    /// at-least-once, or effectively-once if the manifest declares that it does. [`Writer::Plain`].
    IdempotencyKey,
    /// Write, then confirm: at-least-once. [`Writer::Plain`].
    Plain,
}

/// When the open block of a sink is closed and written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockPolicy {
    /// Rows per block, at most.
    pub max_rows: usize,
    /// Payload bytes per block, at most, unless one row alone is larger.
    pub max_bytes: usize,
    /// How long a block stays open after its first row, in microseconds.
    pub max_age_us: i64,
}

/// What is known of a sink's input when the manifest is compiled.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StreamShape {
    /// The field names in order, where the steps before define them.
    pub columns: Option<Vec<String>>,
}

/// Rows in one buffer, as the outbox stores them.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct RowChunk {
    bytes: Vec<u8>,
    rows: Vec<(Position, u32)>,
}

impl RowChunk {
    /// Appends a row; positions must grow.
    pub fn push(&mut self, position: Position, payload: &[u8]) {
        debug_assert!(self.rows.last().is_none_or(|(last, _)| *last < position));
        self.bytes.extend_from_slice(payload);
        self.rows.push((position, self.bytes.len() as u32));
    }
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }
    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
    /// Payload bytes of all rows.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
    /// How many rows lie at or before `position`.
    pub fn rows_through(&self, position: Position) -> usize {
        self.rows.partition_point(|(row, _)| *row <= position)
    }
    /// The last row's position.
    pub fn last(&self) -> Option<Position> {
        self.rows.last().map(|(position, _)| *position)
    }
    /// One row.
    pub fn row(&self, index: usize) -> Option<(Position, &[u8])> {
        let (position, end) = *self.rows.get(index)?;
        let start = if index == 0 { 0 } else { self.rows[index - 1].1 };
        Some((position, &self.bytes[start as usize..end as usize]))
    }
    /// The rows in order.
    pub fn iter(&self) -> impl Iterator<Item = (Position, &[u8])> {
        (0..self.rows.len()).filter_map(|index| self.row(index))
    }
}

/// Rows that are written to the target as one: all or nothing.
#[derive(Debug, Default, Clone)]
pub struct SinkBlock {
    /// Shared chunks with the range of rows taken from each.
    pub parts: Vec<(Arc<RowChunk>, std::ops::Range<usize>)>,
}

impl SinkBlock {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|(_, range)| range.len()).sum()
    }
    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The rows in order.
    pub fn rows(&self) -> impl Iterator<Item = (Position, &[u8])> {
        self.parts.iter().flat_map(|(chunk, range)| range.clone().filter_map(|index| chunk.row(index)))
    }
    /// The last row's position.
    pub fn last(&self) -> Option<Position> {
        let (chunk, range) = self.parts.last()?;
        chunk.row(range.end.checked_sub(1)?).map(|(position, _)| position)
    }
}

/// A configured sink.
pub trait Sink: Send + Sync {
    /// Which contract its writers keep.
    fn contract(&self) -> SinkContract;
    /// When blocks close.
    fn block_policy(&self) -> BlockPolicy;
    /// What the target is, for telling two sinks on one target apart from two targets.
    fn fingerprint(&self) -> String;
    /// Whether it reads the fields of rows. A row that is no JSON object is then refused before it is taken, not when
    /// it is already owed.
    fn reads_fields(&self) -> bool {
        false
    }
    /// A writer for one partition's outbox. Must not touch the target yet.
    fn writer(&self, identity: &SinkIdentity) -> Result<Writer, ConnectorError>;
}
