//! The sink contracts (DESIGN section 6). Payload rows are JSON objects, one each, without line ends.

use std::sync::Arc;

use onceward_protocol::{Fence, Marker, Position, SinkIdentity};

use crate::error::ConnectorError;

/// How a sink keeps its promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SinkContract {
    /// Each write compares the progress marker with what we expect and sets the next.
    ProgressInTarget,
    /// Write, then confirm: at-least-once.
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

/// Why a call to a target did not succeed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TargetError {
    /// A newer open owns the target: nothing was written, nothing may be.
    #[error("OW-3901: fenced: {0}")]
    Fenced(String),
    /// It may or may not have been applied: open again and read the marker.
    #[error("OW-3902: outcome unknown: {0}")]
    Unknown(String),
    /// It was definitely not applied, and trying again at once would not help.
    #[error(transparent)]
    Definite(#[from] ConnectorError),
}

/// A target that keeps our progress beside our data. The engine calls in the order of OPEN-ORDER:
/// `take_fence`, a commit in the store, `read_marker`, then `create_marker` (only while opening) or
/// `write`s. Calls of one writer never overlap.
pub trait ProgressWriter: Send {
    /// Makes every older open unable to write, before anything is read. The marker's position, if there
    /// is a marker, is kept; its fence becomes `fence`.
    fn take_fence(&mut self, fence: Fence) -> Result<(), TargetError>;
    /// The marker, `None` if absent.
    fn read_marker(&mut self) -> Result<Option<Marker>, TargetError>;
    /// Creates the marker if absent; fails with `Fenced` if it is not `fence` that holds the target.
    fn create_marker(&mut self, marker: Marker) -> Result<(), TargetError>;
    /// Writes the block and sets the marker from `expected` to `next`, all or nothing (MARKER-CAS).
    fn write(&mut self, block: &SinkBlock, expected: Marker, next: Marker) -> Result<(), TargetError>;
}

/// A target that only writes.
pub trait PlainWriter: Send {
    /// Writes and flushes the block.
    fn write(&mut self, block: &SinkBlock) -> Result<(), TargetError>;
}

/// A writer by its contract.
pub enum Writer {
    /// See [`ProgressWriter`].
    Progress(Box<dyn ProgressWriter>),
    /// See [`PlainWriter`].
    Plain(Box<dyn PlainWriter>),
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
