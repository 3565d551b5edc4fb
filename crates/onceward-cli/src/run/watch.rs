//! Waiting for the end of a run: showing how it goes, hearing signals.

use std::time::Duration;

use onceward::{PipelineState, RunEnd, RunError, Running};
use onceward_spec::format_duration;

use super::display::Display;
use super::signals::StopFlag;

/// How often signals are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often the state is looked at; gathering it takes a while with thousands of partitions.
const STATE_EVERY: Duration = Duration::from_millis(500);
/// How long threads may take to notice that the run was given up; one that waits for a target may never.
const ABANDON_WITHIN: Duration = Duration::from_secs(2);

/// Waits for the end; asks for a clean stop when a signal has come, and gives up when that takes too long. `words` are
/// what to type behind a command for this pipeline.
pub fn watch(
    running: &mut Running,
    stop: &StopFlag,
    display: &mut Display,
    shutdown_timeout_us: i64,
    words: &str,
) -> Result<RunEnd, RunError> {
    let timeout = Duration::from_micros(shutdown_timeout_us.unsigned_abs());
    let mut stopping_since = None;
    let (mut state, mut looked) = (PipelineState::Working, Duration::ZERO);
    loop {
        if let Some(end) = running.wait(LOOK_EVERY) {
            return end;
        }
        display.update(|| running.status());
        if stopping_since.is_none() && display.elapsed().saturating_sub(looked) >= STATE_EVERY {
            looked = display.elapsed();
            let found = running.status().state;
            if found != state {
                state = found;
                if let Some(line) = notice(state, words) {
                    display.say(&line);
                }
            }
        }
        match stopping_since {
            None if stop.is_set() => {
                display.say("stopping: finishing the open epoch (Ctrl-C again to exit at once)");
                stopping_since = Some(display.elapsed());
                running.stop();
            }
            Some(since) if display.elapsed().saturating_sub(since) >= timeout => {
                let limit = format_duration(shutdown_timeout_us);
                display.say(&format!("giving up: the clean stop took longer than shutdownTimeout ({limit})"));
                running.abandon();
                return running.wait(ABANDON_WITHIN).unwrap_or(Err(RunError::StoppedEarly));
            }
            _ => {}
        }
    }
}

/// What somebody else has asked for.
fn notice(state: PipelineState, words: &str) -> Option<String> {
    Some(match state {
        PipelineState::Working => "working again".to_owned(),
        PipelineState::Draining => "stopping on request: finishing what is under way".to_owned(),
        PipelineState::Pausing => "pausing on request: jobs end where they are".to_owned(),
        PipelineState::Paused => format!(
            "paused: nothing is read or written; `onceward resume {words}` goes on, Ctrl-C ends this process and leaves the \
             pipeline paused"
        ),
        PipelineState::Stopped | PipelineState::Completed => return None,
    })
}
