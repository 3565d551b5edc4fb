//! Why a test stopped, or why a pipeline is not crash-proof.

use onceward_connector::ConnectorError;
use onceward_engine::EngineError;
use onceward_engine::stored::LoadError;
use onceward_store::StoreError;

use crate::error::RunError;

/// Why a test cannot go on, or why [`crash_test`](super::crash_test) found fault.
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    /// The manifest, or the store in memory.
    #[error(transparent)]
    Run(Box<RunError>),
    /// A name that the manifest does not have.
    #[error("OW-5561: found no {kind} {found}, expected {}", expected(known))]
    Unknown {
        /// What was asked for.
        kind: &'static str,
        /// The name that was given.
        found: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// A job failed, as the whole pipeline would. [`Harness::kill`](super::Harness::kill) starts it again.
    #[error("OW-5562: {partition} failed: {error}")]
    Failed {
        /// The partition whose job it was.
        partition: String,
        /// Why it failed.
        error: Box<EngineError>,
    },
    /// A job ended in a way that no test asks for.
    #[error(
        "OW-5563: the job of {partition} ended: {how}. The harness has neither a second owner nor a failing store; please report this"
    )]
    Ended {
        /// The partition.
        partition: String,
        /// How.
        how: String,
    },
    /// More follows from one call than fits between two ticks of the clock.
    #[error(
        "OW-5564: no rest after {epochs} epochs in a row, expected all that follows from one call in fewer; push less at once, or report this"
    )]
    Restless {
        /// How many epochs were made.
        epochs: i64,
    },
    /// Something that the source cannot be given.
    #[error("OW-5565: source {source_name}: {reason}")]
    Input {
        /// The source.
        source_name: String,
        /// What was found and what is possible.
        reason: String,
    },
    /// A kill, or another cut of batches, changed what came out.
    #[error(
        "OW-5566: not crash-proof: {circumstances}: {difference}. What a process function must remember belongs in its state, set in the same call; nothing else survives, and nothing may depend on how messages are cut into batches"
    )]
    NotCrashProof {
        /// After which step the pipeline was killed, and how it was read.
        circumstances: String,
        /// What came out instead of what.
        difference: String,
    },
    /// A key that is no JSON.
    #[error("OW-5567: found the key {found}, expected a JSON object with the fields of groupBy: {reason}")]
    Key {
        /// What was given.
        found: String,
        /// What is wrong with it.
        reason: String,
    },
}

fn expected(known: &[String]) -> String {
    match known {
        [] => "none: the manifest has no such thing".to_owned(),
        [only] => only.clone(),
        several => format!("one of {}", several.join(", ")),
    }
}

impl From<RunError> for HarnessError {
    fn from(error: RunError) -> Self {
        HarnessError::Run(Box::new(error))
    }
}
impl From<EngineError> for HarnessError {
    fn from(error: EngineError) -> Self {
        RunError::from(error).into()
    }
}
impl From<StoreError> for HarnessError {
    fn from(error: StoreError) -> Self {
        RunError::from(error).into()
    }
}
impl From<LoadError> for HarnessError {
    fn from(error: LoadError) -> Self {
        RunError::from(error).into()
    }
}

/// An answer that a captured target never gives.
pub(super) fn foreign_call(what: &str) -> ConnectorError {
    ConnectorError::new(
        "OW-5568",
        format!("found {what}, expected a call of a sink with progress in the target"),
    )
}
