//! The errors of the engine.

use onceward_connector::ConnectorError;
use onceward_protocol::{Position, StopReason};

/// Why a job, and with it the pipeline, failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EngineError {
    /// A message that a step cannot process. The pipeline fails rather than skip it.
    #[error(
        "OW-4001: stream {stream}, partition {partition}, position {position}, {step}: {reason}. Nothing after this message was taken. Fix the data and start again; with a changed step start over, unless nothing was committed yet"
    )]
    Poison {
        /// The stream the message is on.
        stream: String,
        /// The partition it came from.
        partition: String,
        /// Its position there.
        position: Position,
        /// The step, as in the manifest.
        step: String,
        /// What the step said.
        reason: String,
    },
    /// A source said so.
    #[error("source partition {partition}: {error}")]
    Source {
        /// The partition.
        partition: String,
        /// What it said.
        error: ConnectorError,
    },
    /// A target said so.
    #[error("sink {sink} of {partition}: {error}")]
    Target {
        /// The sink.
        sink: String,
        /// The partition whose outbox it empties.
        partition: String,
        /// What it said.
        error: ConnectorError,
    },
    /// A target whose progress marker cannot be trusted (TRUST-WINDOW, OPENING).
    #[error(
        "OW-4002: sink {sink} of {partition} stopped: {reason}. Somebody changed or restored the target; nothing was written. Restore the target's marker, or write to a new target"
    )]
    Marker {
        /// The sink.
        sink: String,
        /// The partition.
        partition: String,
        /// What is wrong with the marker.
        reason: StopReason,
    },
    /// A target whose answers stayed unknown.
    #[error(
        "OW-4003: sink {sink} of {partition}: {attempts} opens in a row ended without an answer, the last with: {reason}"
    )]
    TargetUnreachable {
        /// The sink.
        sink: String,
        /// The partition.
        partition: String,
        /// How many.
        attempts: u32,
        /// The last reason.
        reason: String,
    },
    /// Stored bytes that this version did not write.
    #[error(
        "OW-4004: {partition}: the stored {what} cannot be read; the store was written by another version or damaged. Nothing was changed"
    )]
    Stored {
        /// The partition.
        partition: String,
        /// Which record.
        what: String,
    },
    /// A rule of the protocol does not hold. Always a bug; the job ends before it can do harm.
    #[error(
        "OW-4005: {partition}: invariant {rule} is broken: {detail}. Please report this; what was committed is safe"
    )]
    Invariant {
        /// The partition.
        partition: String,
        /// The rule's name.
        rule: &'static str,
        /// What was seen.
        detail: String,
    },
    /// A plan that cannot be built from a manifest.
    #[error("OW-4006: {0}")]
    Plan(String),
    /// A value that an aggregate cannot take.
    #[error(
        "OW-4007: computation {computation}, key {key}, {column}: {reason}. Nothing of this epoch was committed. Fix the data and start again; with a changed argument start over, unless nothing was committed yet"
    )]
    Aggregate {
        /// The computation.
        computation: String,
        /// The group key, as JSON.
        key: String,
        /// The computed name.
        column: String,
        /// What is wrong.
        reason: String,
    },
}
