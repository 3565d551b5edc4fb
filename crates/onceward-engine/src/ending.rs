//! How far a job is on its way to its end: the same for every kind of job.

use crate::job::Event;
use crate::output::Outputs;

/// How far a job is on its way to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It runs.
    No,
    /// Deliver what is owed, then end.
    Stop {
        /// Whether to wait, too, until consumers have committed what was put out.
        drain: bool,
    },
    /// Start nothing new at targets, end when none is under way (QUIET-PAUSE).
    Halt,
    /// Commit what is taken, then end; a successor goes on.
    Retire,
}

impl Ending {
    /// Takes an event that asks for an end, and tells the sinks; any other changes nothing.
    pub fn ask(&mut self, event: &Event, outputs: &mut Outputs) {
        match event {
            Event::Stop { drain } => {
                *self = Ending::Stop { drain: *drain };
                outputs.stop();
            }
            Event::Halt => {
                *self = Ending::Halt;
                outputs.halt();
            }
            Event::Retire => {
                *self = Ending::Retire;
                outputs.halt();
            }
            _ => {}
        }
    }
}
