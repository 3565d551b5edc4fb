//! Where a pipeline stands, and where it may go from there.

use std::fmt;

use crate::lease::AbortReason;

/// Where a pipeline stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PipelineState {
    /// Jobs run.
    Working,
    /// Nothing new is read; what is under way is finished.
    Draining,
    /// No job, no lease; `onceward run` goes on.
    Stopped,
    /// Jobs are ending where they are.
    Pausing,
    /// Nothing runs; what was under way is stored and goes on with a resume.
    Paused,
    /// All bounded input is delivered. Only a reset starts it again.
    Completed,
}

impl PipelineState {
    /// All of them.
    pub const ALL: [PipelineState; 6] = [
        PipelineState::Working,
        PipelineState::Draining,
        PipelineState::Stopped,
        PipelineState::Pausing,
        PipelineState::Paused,
        PipelineState::Completed,
    ];
    /// The name people see.
    pub fn name(self) -> &'static str {
        match self {
            PipelineState::Working => "working",
            PipelineState::Draining => "draining",
            PipelineState::Stopped => "stopped",
            PipelineState::Pausing => "pausing",
            PipelineState::Paused => "paused",
            PipelineState::Completed => "completed",
        }
    }
    /// Whether jobs may hold leases.
    pub fn has_jobs(self) -> bool {
        matches!(self, PipelineState::Working | PipelineState::Draining | PipelineState::Pausing)
    }
    /// The reason under which the last leases are aborted when the state is reached; `None` where jobs run.
    pub fn ends_leases(self) -> Option<AbortReason> {
        match self {
            PipelineState::Stopped => Some(AbortReason::Stopped),
            PipelineState::Paused => Some(AbortReason::Paused),
            PipelineState::Completed => Some(AbortReason::Completed),
            PipelineState::Working | PipelineState::Draining | PipelineState::Pausing => None,
        }
    }
}

impl fmt::Display for PipelineState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a user asks of a pipeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Demand {
    /// Start it: `onceward run`. After a crash of the whole process a pipeline is found in whatever state it was.
    Run,
    /// End where it is, keep everything.
    Pause,
    /// Go on after a pause.
    Resume,
    /// Finish what is under way, then end; without `drain` end at once.
    Stop {
        /// Whether to finish what is under way.
        drain: bool,
    },
    /// Forget what was done and start over with the next run.
    Reset,
}

/// Where `demand` leads from `state`, or why it leads nowhere and what to type instead.
pub fn next(state: PipelineState, demand: Demand) -> Result<PipelineState, &'static str> {
    use PipelineState::{Completed, Draining, Paused, Pausing, Stopped, Working};
    match (state, demand) {
        (Working | Stopped, Demand::Run) => Ok(Working),
        // The process ended in the middle: what was asked for last still holds.
        (Draining | Pausing, Demand::Run) => Ok(state),
        (Paused, Demand::Run) => {
            Err("it is paused; `onceward resume` goes on, `onceward reset` starts it over")
        }
        (Completed, Demand::Run) => Err("it has completed; `onceward reset` starts it over"),

        (Working | Draining, Demand::Pause) => Ok(Pausing),
        (Pausing | Paused, Demand::Pause) => Ok(state),
        (Stopped, Demand::Pause) => Err("it is stopped already; `onceward run` goes on"),
        (Completed, Demand::Pause) => Err("it has completed: nothing runs; `onceward reset` starts it over"),

        (Working | Pausing | Paused, Demand::Resume) => Ok(Working),
        (Draining, Demand::Resume) => {
            Err("it is draining; wait until it has stopped, then `onceward run` goes on")
        }
        (Stopped, Demand::Resume) => Err("it is stopped, not paused; `onceward run` goes on"),
        (Completed, Demand::Resume) => Err("it has completed; `onceward reset` starts it over"),

        (Working | Draining, Demand::Stop { drain: true }) => Ok(Draining),
        (Pausing | Paused, Demand::Stop { drain: true }) => Err(
            "it is paused, so nothing under way can be finished; `onceward resume` first, or `onceward stop --no-drain`",
        ),
        (Working | Draining | Pausing | Paused, Demand::Stop { drain: false }) => Ok(Stopped),
        (Stopped, Demand::Stop { .. }) => Ok(Stopped),
        (Completed, Demand::Stop { .. }) => {
            Err("it has completed: nothing runs; `onceward reset` starts it over")
        }

        (Stopped | Paused | Completed, Demand::Reset) => Ok(Stopped),
        (Working | Draining, Demand::Reset) => {
            Err("its jobs run; `onceward stop` first, then `onceward reset`")
        }
        (Pausing, Demand::Reset) => {
            Err("its jobs are ending; `onceward stop --no-drain` first, then `onceward reset`")
        }
    }
}

/// What the controller sees happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Milestone {
    /// Every source is read to its end and everything is delivered.
    Delivered,
    /// Nothing is under way any more.
    Drained,
    /// No job has a call open, or every sink is fenced (QUIET-PAUSE).
    Quiet,
}

/// Where a milestone leads. One that does not belong to the state changes nothing: it was overtaken by a demand.
pub fn reached(state: PipelineState, milestone: Milestone) -> PipelineState {
    match (state, milestone) {
        (PipelineState::Working, Milestone::Delivered) => PipelineState::Completed,
        (PipelineState::Draining, Milestone::Drained) => PipelineState::Stopped,
        (PipelineState::Pausing, Milestone::Quiet) => PipelineState::Paused,
        _ => state,
    }
}
