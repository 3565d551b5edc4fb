//! The calls that write to a target, one trait per way of keeping the promise (DESIGN section 6).
//!
//! Calls of one writer never overlap. A row's position and payload are fixed before its first attempt and never
//! change, whatever job makes the next one; blocks may be cut differently from attempt to attempt, except for
//! [`TokenWriter`], whose borders are committed first (BORDERS-BEFORE-ATTEMPT).

use onceward_protocol::{Fence, Marker, Position};

use crate::error::ConnectorError;
use crate::sink::SinkBlock;

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

/// A target that keeps the last position per producer, the [`SinkIdentity`](onceward_protocol::SinkIdentity) that
/// [`Sink::writer`](crate::Sink::writer) was given. It needs no fence: a row that an older writer, or our own late
/// retry, brings again is the same row and is dropped.
pub trait SequenceWriter: Send {
    /// Writes the rows of the block above the last position that the target holds for this producer, and sets that
    /// position to the block's last: one step, all or nothing, durable before success is answered. Rows at or below
    /// it are dropped, which is success, also if they are all of the block.
    ///
    /// `after` is the last row that the target confirmed before this block, [`Position::ORIGIN`] if none: never the
    /// finished position, which also moves past filtered rows that no target saw. If `after` is above what the
    /// target holds, rows are missing there, and the block is refused with `Definite` and without effect. After
    /// `Unknown` the same block may be written again.
    fn write(&mut self, block: &SinkBlock, after: Position) -> Result<(), TargetError>;
}

/// Names one block for ever: a function of the sink's name in the target (SINK-NAME), the first and last position
/// and a digest of the rows. Built by the engine, compared by the target as text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockToken {
    /// Letters, digits, `-`, `_`, `.` and `:`.
    pub text: String,
}

/// How long a target remembers tokens: the condition under which its sink is exactly-once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenMemory {
    /// At least this many of the newest tokens, of all writers together; `None` if their number is not bounded.
    pub count: Option<u64>,
    /// At least this long, in microseconds; `None` if age does not matter.
    pub age_us: Option<i64>,
}

/// A target that drops a block whose token it remembers. It has no fence and no progress to read.
pub trait TokenWriter: Send {
    /// Writes the block as one: all or nothing, durable before success is answered. If the target remembers `token`,
    /// nothing is written, which is success. `Definite` only if nothing was written (DEFINITE-REJECT); after `Unknown`
    /// the same block may be written again under the same token.
    fn write(&mut self, block: &SinkBlock, token: &BlockToken) -> Result<(), TargetError>;
    /// How long the target remembers, as configured there; may ask it.
    fn memory(&self) -> TokenMemory;
}

/// A target that only writes: the contracts `Plain`, `VersionedUpsert` and `IdempotencyKey`.
///
/// - `VersionedUpsert`: the target keeps [`RowVersion::of`](crate::RowVersion::of) each row beside the row and applies
///   a row only if its version is newer than the one kept for its key. A repeat, an overtaken retry and an older
///   writer are thereby without effect, in any order. A delete keeps its version as a tombstone. A row whose key is
///   held by another [`RowVersion::origin`](crate::RowVersion) is refused with `Definite`: two origins have no order.
/// - `IdempotencyKey`: each row is sent under [`idempotency_key`](crate::idempotency_key), the same in every attempt of
///   every job, and different from that of every other row.
/// - `Plain`: rows come again after `Unknown`.
pub trait PlainWriter: Send {
    /// Writes and flushes the block: every row that `Ok` covers is durable in the target. After `Unknown` any part of
    /// the block may be there; after `Definite` nothing of it was applied.
    fn write(&mut self, block: &SinkBlock) -> Result<(), TargetError>;
}

/// A writer by its contract.
pub enum Writer {
    /// See [`ProgressWriter`].
    Progress(Box<dyn ProgressWriter>),
    /// See [`SequenceWriter`].
    Sequence(Box<dyn SequenceWriter>),
    /// See [`TokenWriter`].
    Token(Box<dyn TokenWriter>),
    /// See [`PlainWriter`].
    Plain(Box<dyn PlainWriter>),
}
