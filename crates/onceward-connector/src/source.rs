//! The source contract: partitions that can be read again from a stored place.

use onceward_protocol::Position;

use crate::error::ConnectorError;
use crate::record::{Codec, RecordBatch};

/// What a source promises to the guarantee derivation and the engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceFacts {
    /// Whether it ends by itself.
    pub bounded: bool,
    /// Whether the same place always gives the same rows again.
    pub replayable: bool,
    /// Why, in one clause, for the guarantee report.
    pub reason: String,
    /// What must hold outside Onceward.
    pub conditions: Vec<String>,
}

/// How much one read may return. At least one record is returned if there is one, however large.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadLimits {
    /// Records.
    pub rows: usize,
    /// Payload bytes.
    pub bytes: usize,
}

/// What a read found.
#[derive(Debug)]
pub enum Read {
    /// Records, and the connector's note from which reading can go on after the last of them.
    Batch {
        /// At least one record, positions strictly growing and above all before.
        batch: RecordBatch,
        /// Opaque to the engine; stored with the epoch.
        token: Vec<u8>,
    },
    /// Nothing now; ask again later.
    Idle,
    /// The partition has ended for good.
    End,
}

/// One open partition. Reads may block on a disk or network, within reason.
pub trait SourceReader: Send {
    /// Reads on from where the last read stopped. An error ends the reader; rows returned before it stay valid.
    fn read(&mut self, limits: ReadLimits) -> Result<Read, ConnectorError>;
}

/// A configured source.
pub trait Source: Send + Sync {
    /// What it promises.
    fn facts(&self) -> SourceFacts;
    /// How its payload is to be read; may look at the outside world (a CSV header).
    fn codec(&self) -> Result<Codec, ConnectorError>;
    /// The names of its partitions, in a stable order. Asked once, at the pipeline's first start; the
    /// answer is stored and is the layout from then on.
    fn partitions(&self) -> Result<Vec<String>, ConnectorError>;
    /// Opens a partition after `position`. `token` is what the read that ended at `position` gave;
    /// empty at the start. If the data before the place is not what it was, the error says so by name.
    fn open(
        &self,
        partition: &str,
        position: Position,
        token: &[u8],
    ) -> Result<Box<dyn SourceReader>, ConnectorError>;
    /// The partition's size in the unit of [`Source::progress`], for progress display.
    fn size(&self, _partition: &str) -> Option<u64> {
        None
    }
    /// How far `token` is, in the same unit.
    fn progress(&self, _token: &[u8]) -> Option<u64> {
        None
    }
}
