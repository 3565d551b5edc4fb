//! Sink cursors and markers (TRUST-WINDOW, OPENING, SINK-CURSOR, MARKER-CAS).

use crate::generation::Fence;
use crate::message::Position;

/// What a target keeps for us and compares in every write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marker {
    /// The last outbox position whose effects are in the target.
    pub position: Position,
    /// The open that wrote it.
    pub fence: Fence,
}

/// Where the opening of a sink stands (OPENING).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CursorPhase {
    /// Never opened.
    #[default]
    New,
    /// `opening` is committed: a marker may still be absent.
    Opening,
    /// `open` is committed: a missing marker is never zero again.
    Open,
}

/// One sink's progress on one partition, as stored (SINK-CURSOR).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cursor {
    /// Where the opening stands.
    pub phase: CursorPhase,
    /// Everything up to here is in the target and no longer owed.
    pub finished: Position,
    /// The last marker value known to be in the target.
    pub marked: Position,
    /// Committed before the first attempt, never lowered.
    pub intended: Position,
    /// The fence of the latest open that was proved by a commit.
    pub fence: Option<Fence>,
}

/// What a job may do after reading the marker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenDecision {
    /// Write what is owed after this position.
    Resume(Position),
    /// Create the marker: it is absent and may be.
    Create,
    /// Another open came after ours: end without side effects.
    Fenced,
    /// Stop and say why; never guess.
    Stop(StopReason),
}

/// Why a sink must stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StopReason {
    /// The marker was there and is gone.
    #[error("the target has lost our progress marker")]
    MarkerMissing,
    /// The marker is older than what the target is known to have held.
    #[error("the target's progress marker {marker} is behind {marked}, which it held before")]
    MarkerBehind {
        /// What the target holds.
        marker: Position,
        /// What it held.
        marked: Position,
    },
    /// The marker is ahead of everything that was ever attempted.
    #[error("the target's progress marker {marker} is ahead of {intended}, the last position attempted")]
    MarkerAhead {
        /// What the target holds.
        marker: Position,
        /// The last position that may have been attempted.
        intended: Position,
    },
}

impl Cursor {
    /// Decides after the marker was read under `fence` (TRUST-WINDOW: trusted only if
    /// marked <= marker <= intended; work resumes at max(marker, finished)).
    pub fn decide(&self, marker: Option<Marker>, fence: Fence) -> OpenDecision {
        match (marker, self.phase) {
            (None, CursorPhase::Open) => OpenDecision::Stop(StopReason::MarkerMissing),
            (None, _) => OpenDecision::Create,
            (Some(marker), _) if marker.fence != fence => OpenDecision::Fenced,
            (Some(marker), _) if marker.position < self.marked => {
                OpenDecision::Stop(StopReason::MarkerBehind { marker: marker.position, marked: self.marked })
            }
            (Some(marker), _) if marker.position > self.intended => {
                OpenDecision::Stop(StopReason::MarkerAhead {
                    marker: marker.position,
                    intended: self.intended,
                })
            }
            (Some(marker), _) => OpenDecision::Resume(marker.position.max(self.finished)),
        }
    }
    /// Bytes as persisted.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(56);
        out.push(match self.phase {
            CursorPhase::New => 0,
            CursorPhase::Opening => 1,
            CursorPhase::Open => 2,
        });
        for position in [self.finished, self.marked, self.intended] {
            out.extend_from_slice(&position.encode());
        }
        if let Some(fence) = self.fence {
            out.extend_from_slice(&fence.0.to_be_bytes());
        }
        out
    }
    /// The inverse of [`Cursor::encode`].
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = crate::codec::Reader::new(bytes);
        let phase = match input.byte()? {
            0 => CursorPhase::New,
            1 => CursorPhase::Opening,
            2 => CursorPhase::Open,
            _ => return None,
        };
        let finished = Position::decode(input.array()?);
        let marked = Position::decode(input.array()?);
        let intended = Position::decode(input.array()?);
        let fence = if input.is_empty() { None } else { Some(Fence(u128::from_be_bytes(input.array()?))) };
        input.is_empty().then_some(Cursor { phase, finished, marked, intended, fence })
    }
}
