//! What a keyed job does with its messages, apart from lanes, epochs and delivery.

use onceward_protocol::{PartitionId, Position};

use crate::error::EngineError;
use crate::fused::StepFailure;
use crate::job::JobEnd;
use crate::process::Process;
use crate::windows::Windows;

/// Whose operator it is, for messages.
#[derive(Clone, Debug)]
pub struct OperatorName {
    /// The computation.
    pub computation: String,
    /// The partition.
    pub partition: PartitionId,
}

impl OperatorName {
    /// A message or result that cannot be processed.
    #[cold]
    pub fn poison(&self, position: Position, failure: StepFailure) -> JobEnd {
        JobEnd::Failed(EngineError::Poison {
            stream: self.computation.clone(),
            partition: self.partition.label(),
            position,
            step: failure.step,
            reason: failure.reason,
        })
    }
}

/// Either kind of operator.
pub enum Operator {
    /// `aggregate`.
    Windows(Box<Windows>),
    /// `process`.
    Process(Box<Process>),
    /// A retired partition: its state is with its children, it only drains (ANCESTOR-GATE).
    Retired,
}

impl Operator {
    /// Keys held.
    pub fn keys(&self) -> u64 {
        match self {
            Operator::Windows(windows) => windows.keys(),
            Operator::Process(process) => process.keys(),
            Operator::Retired => 0,
        }
    }
    /// Whether nothing waits for a clock or the watermark.
    pub fn is_empty(&self) -> bool {
        match self {
            Operator::Windows(windows) => windows.is_empty(),
            Operator::Process(process) => !process.has_timers(),
            Operator::Retired => true,
        }
    }
}
