//! What people who watch a pipeline want to know.

use std::fmt;

use onceward_protocol::lease::{AbortReason, WorkerId};
use onceward_protocol::state::PipelineState;

use crate::error::EngineError;

/// Something that a controller saw or did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Happening {
    /// A worker is there.
    WorkerThere(WorkerId),
    /// A worker is lost; its jobs are replaced.
    WorkerLost(WorkerId),
    /// A lease ended.
    LeaseEnded {
        /// The partition.
        partition: String,
        /// Who ran it.
        worker: WorkerId,
        /// Why.
        reason: AbortReason,
    },
    /// A job cannot go on.
    JobFailed {
        /// The partition.
        partition: String,
        /// Why.
        error: EngineError,
    },
    /// Where the pipeline stands now.
    State(PipelineState),
    /// A step of re-cutting has begun.
    RecutBegun {
        /// The computation.
        computation: String,
        /// Ranges that are cut or joined.
        parents: usize,
        /// What becomes of them.
        children: usize,
        /// Why.
        why: &'static str,
    },
    /// A step of re-cutting was given up before it changed anything.
    RecutCancelled,
    /// A step of re-cutting is done.
    RecutDone {
        /// The computation.
        computation: String,
        /// Its ranges now.
        ranges: usize,
        /// The layout's version.
        layout: u32,
    },
    /// A retired range has delivered what it owed and left the layout.
    Drained(String),
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Happening::WorkerThere(worker) => write!(f, "{worker} is there"),
            Happening::WorkerLost(worker) => write!(f, "{worker} is lost; others take its jobs"),
            Happening::LeaseEnded { partition, worker, reason } => {
                write!(f, "lease of {partition} on {worker} ended: {reason}")
            }
            Happening::JobFailed { partition, error } => write!(f, "job of {partition} failed: {error}"),
            Happening::State(state) => write!(f, "the pipeline is {state}"),
            Happening::RecutBegun { computation, parents, children, why } => {
                write!(f, "{computation}: {parents} key range(s) become {children}: {why}")
            }
            Happening::RecutCancelled => write!(f, "a step of re-cutting was given up; nothing had changed"),
            Happening::RecutDone { computation, ranges, layout } => {
                write!(f, "{computation} has {ranges} key range(s) now, layout {layout}")
            }
            Happening::Drained(partition) => write!(f, "{partition} has delivered what it owed and is gone"),
        }
    }
}
