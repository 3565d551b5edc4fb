//! `pause`, `resume`, `stop`: ask, and wait until it is so.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use onceward::{Demand, PipelineState, offline};

use super::client::{self, Heard, LOOK_EVERY, PATIENCE, look};
use super::error::ControlError;
use super::target::Target;
use super::wire::{Answer, Request};
use crate::args::control::{DemandArgs, StopArgs};
use crate::console;
use crate::failure::Failure;
use crate::figures::{Report, text};

/// When to say what is waited for.
const SAY_AFTER: Duration = Duration::from_secs(2);

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    Pause,
    Resume,
    Stop { drain: bool },
}

/// What a look at the state means for a wish.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Reached,
    NotYet,
    Lost(&'static str),
}

/// `pause`.
pub fn pause(args: &DemandArgs) -> Result<(), Failure> {
    carry_out(&Target::of(&args.pipeline)?, Wish::Pause, args.no_wait)
}

/// `resume`.
pub fn resume(args: &DemandArgs) -> Result<(), Failure> {
    carry_out(&Target::of(&args.pipeline)?, Wish::Resume, args.no_wait)
}

/// `stop`.
pub fn stop(args: &StopArgs) -> Result<(), Failure> {
    let wish = Wish::Stop { drain: !args.no_drain };
    carry_out(&Target::of(&args.demand.pipeline)?, wish, args.demand.no_wait)
}

fn carry_out(target: &Target, wish: Wish, no_wait: bool) -> Result<(), Failure> {
    let before = look(target)?;
    let name = &before.pipeline;
    let answer = client::ask(&target.data_dir, &wish.request(), PATIENCE, || {
        offline::demand(&target.data_dir, wish.demand())
    })?;
    match answer {
        Heard::Store(state) => console::print(&format!("{name} {}\n", wish.without_process(target, state))),
        Heard::Process(Answer::Refused(reason)) => {
            let state = client::look(target).map_or(before.state, |report| report.state);
            Err(ControlError::Refused { pipeline: before.pipeline, state, reason }.into())
        }
        Heard::Process(Answer::Done(text)) if no_wait => console::print(&format!("{name}: {text}\n")),
        Heard::Process(Answer::Done(_)) => {
            let report = wait(target, wish)?;
            let epoch = text::grouped(report.epoch);
            console::print(&format!("{name} is {}, epoch {epoch}\n", report.state))
        }
        Heard::Process(_) => Err(client::unexpected(&target.data_dir).into()),
    }
}

fn wait(target: &Target, wish: Wish) -> Result<Report, ControlError> {
    let began = Instant::now();
    let (mut said, mut moved) = (false, false);
    loop {
        let found = match look(target) {
            // The process is ending and has the store for as long as that takes.
            Err(ControlError::Held { .. }) => None,
            other => Some(other?),
        };
        if let Some(report) = &found {
            let state = report.state();
            match wish.judge(state, report.process.is_some(), moved) {
                Verdict::Reached => return Ok(report.clone()),
                Verdict::NotYet => {}
                Verdict::Lost(why) => {
                    let (pipeline, found) = (report.pipeline.clone(), report.standing());
                    return Err(ControlError::NotReached { pipeline, wanted: wish.wanted(), found, why });
                }
            }
            moved |= wish.is_under_way(state);
        }
        if !said && began.elapsed() >= SAY_AFTER {
            said = true;
            console::say(&waiting(found.as_ref(), wish, &target.data_dir));
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn waiting(found: Option<&Report>, wish: Wish, data_dir: &Path) -> String {
    let ends = "Ctrl-C ends the waiting and nothing else";
    let Some(report) = found else {
        return format!("waiting until the process has let go of {}; {ends}", data_dir.display());
    };
    let owed: u64 = report.sinks.iter().flatten().map(|sink| sink.owed).sum();
    let owed = if owed > 0 { format!(", {} rows owed to sinks", text::grouped(owed)) } else { String::new() };
    format!("waiting until {} is {}: it is {}{owed}; {ends}", report.pipeline, wish.wanted(), report.state)
}

impl Wish {
    fn demand(self) -> Demand {
        match self {
            Wish::Pause => Demand::Pause,
            Wish::Resume => Demand::Resume,
            Wish::Stop { drain } => Demand::Stop { drain },
        }
    }

    fn request(self) -> Request {
        match self {
            Wish::Pause => Request::Pause,
            Wish::Resume => Request::Resume,
            Wish::Stop { drain } => Request::Stop { drain },
        }
    }

    fn wanted(self) -> &'static str {
        match self {
            Wish::Pause => "paused",
            Wish::Resume => "working",
            Wish::Stop { .. } => "stopped",
        }
    }

    /// The sentence for what was done in the store.
    fn without_process(self, target: &Target, state: PipelineState) -> String {
        let words = target.words();
        match self {
            Wish::Pause => {
                format!("is {state}, and no process runs it; `onceward resume {words}` lets it run again")
            }
            Wish::Resume => {
                "may run again, and no process runs it; `onceward run MANIFEST` goes on".to_owned()
            }
            Wish::Stop { .. } => {
                format!("is {state}, and no process runs it; `onceward run MANIFEST` goes on")
            }
        }
    }

    /// Whether the state shows that the wish is being fulfilled. The answer to a wish comes before the state shows it.
    fn is_under_way(self, state: Option<PipelineState>) -> bool {
        match self {
            Wish::Pause => state == Some(PipelineState::Pausing),
            Wish::Stop { .. } => state == Some(PipelineState::Draining),
            Wish::Resume => false,
        }
    }

    /// `moved` says that the wish was seen under way.
    fn judge(self, state: Option<PipelineState>, has_process: bool, moved: bool) -> Verdict {
        use PipelineState::{Completed, Draining, Paused, Pausing, Stopped, Working};
        const GONE: &str = "the process ended before it was done; type the command again";
        let Some(state) = state else { return Verdict::Lost("this version does not know that state") };
        match (self, state) {
            (Wish::Pause, Paused) | (Wish::Resume, Working | Completed) => Verdict::Reached,
            // A stop is done when the store is free: a reset, or another run, may follow at once.
            (Wish::Stop { .. }, Stopped | Completed) if !has_process => Verdict::Reached,
            (Wish::Stop { .. }, Stopped | Completed) => Verdict::NotYet,
            (Wish::Pause, Completed) => Verdict::Lost("everything was delivered before"),
            (Wish::Pause | Wish::Resume, Stopped) => {
                Verdict::Lost("somebody stopped it; `onceward run` goes on")
            }
            (_, Working | Draining | Pausing | Paused) if !has_process => Verdict::Lost(GONE),
            (Wish::Pause | Wish::Stop { .. }, Working) if moved => {
                Verdict::Lost("somebody resumed it meanwhile; type the command again")
            }
            (Wish::Stop { .. }, Pausing | Paused) if moved => {
                Verdict::Lost("somebody paused it meanwhile; `onceward stop --no-drain` ends it as it is")
            }
            _ => Verdict::NotYet,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PipelineState::{Completed, Draining, Paused, Pausing, Stopped, Working};

    fn judge(wish: Wish, state: PipelineState, has_process: bool, moved: bool) -> Verdict {
        wish.judge(Some(state), has_process, moved)
    }

    #[test]
    fn the_state_before_the_wish_shows_is_waited_over() {
        for (wish, before) in [
            (Wish::Pause, Working),
            (Wish::Stop { drain: true }, Working),
            (Wish::Stop { drain: false }, Paused),
            (Wish::Resume, Paused),
            (Wish::Resume, Pausing),
        ] {
            assert_eq!(judge(wish, before, true, false), Verdict::NotYet);
        }
    }

    #[test]
    fn a_stop_is_reached_when_the_process_is_gone() {
        let stop = Wish::Stop { drain: true };
        for state in [Stopped, Completed] {
            assert_eq!(judge(stop, state, true, true), Verdict::NotYet);
            assert_eq!(judge(stop, state, false, true), Verdict::Reached);
        }
    }

    #[test]
    fn nothing_is_waited_for_that_cannot_come() {
        let all = [Wish::Pause, Wish::Resume, Wish::Stop { drain: true }, Wish::Stop { drain: false }];
        for wish in all {
            for state in [Draining, Pausing] {
                assert!(matches!(judge(wish, state, false, true), Verdict::Lost(_)), "{state}");
            }
        }
        assert!(matches!(judge(Wish::Pause, Working, true, true), Verdict::Lost(_)));
        assert!(matches!(judge(Wish::Pause, Completed, false, true), Verdict::Lost(_)));
        assert!(matches!(judge(Wish::Stop { drain: true }, Paused, true, true), Verdict::Lost(_)));
    }
}
