//! `rescale` and `reset`.

use std::io::{self, BufRead, IsTerminal, Write};

use onceward::{Demand, offline};

use super::client::{self, Heard, PATIENCE, look};
use super::error::ControlError;
use super::target::Target;
use super::wire::{Answer, Request};
use crate::args::control::{PipelineArgs, RescaleArgs, ResetArgs};
use crate::console;
use crate::failure::Failure;
use crate::figures::Report;

/// `rescale`.
pub fn rescale(args: &RescaleArgs) -> Result<(), Failure> {
    let (pipeline, computation, ranges) = words(args)?;
    let target = Target::of(&PipelineArgs { pipeline, data_dir: args.data_dir.clone() })?;
    let before = look(&target)?;
    let request = Request::Rescale { computation, ranges };
    match client::ask(&target.data_dir, &request, PATIENCE, || offline::overview(&target.data_dir))? {
        Heard::Process(Answer::Done(text)) => {
            let words = target.words();
            console::print(&format!("{}: {text}; `onceward status {words}` shows them\n", before.pipeline))
        }
        Heard::Process(Answer::Refused(reason)) => {
            let (pipeline, state) = (before.pipeline, before.state);
            Err(ControlError::Refused { pipeline, state, reason }.into())
        }
        Heard::Process(_) => Err(client::unexpected(&target.data_dir).into()),
        Heard::Store(overview) => Err(ControlError::NoProcess {
            pipeline: overview.pipeline.clone(),
            state: Report::stored(overview).standing(),
            why: "key ranges are cut only while it works. Start it with `onceward run MANIFEST`, then type this again",
        }
        .into()),
    }
}

/// `[PIPELINE] COMPUTATION N`, or without N and with `--auto`.
fn words(args: &RescaleArgs) -> Result<(Option<String>, String, Option<u32>), ControlError> {
    let usage = |found: &str| {
        ControlError::Usage(format!(
            "found {found}. Expected `onceward rescale [PIPELINE] COMPUTATION N`, or --auto instead of N, for example `onceward rescale by_user 8`"
        ))
    };
    let mut words = args.words.clone();
    let ranges = match args.auto {
        true => None,
        false => {
            let last = words.pop().unwrap_or_default();
            Some(
                last.parse()
                    .map_err(|_| usage(&format!("{last:?} where a number of key ranges should be")))?,
            )
        }
    };
    let computation = words.pop().ok_or_else(|| usage("no computation"))?;
    let pipeline = words.pop();
    if words.is_empty() { Ok((pipeline, computation, ranges)) } else { Err(usage("too many words")) }
}

/// `reset`.
pub fn reset(args: &ResetArgs) -> Result<(), Failure> {
    if args.pipeline.pipeline.is_none() && args.pipeline.data_dir.is_none() {
        let text = "found no pipeline to reset. Expected its name, its manifest or --data-dir DIR: what is removed is named";
        return Err(ControlError::Usage(text.to_owned()).into());
    }
    let target = Target::of(&args.pipeline)?;
    let report = look(&target)?;
    let (name, words) = (&report.pipeline, target.words());
    let runs = |process: u32| ControlError::Refused {
        pipeline: name.clone(),
        state: report.state.clone(),
        reason: format!(
            "process {process} runs it, and a reset removes what it works on. Nothing was removed; `onceward stop {words}` first"
        ),
    };
    if let Some(process) = report.process {
        return Err(runs(process).into());
    }
    if !args.yes && !confirm(&report, &target)? {
        return Err(ControlError::Unconfirmed(name.clone()).into());
    }
    // Whoever has begun to run it meanwhile is not disturbed: the store is theirs.
    let question = Request::Status { jobs: false };
    match client::ask(&target.data_dir, &question, PATIENCE, || {
        offline::demand(&target.data_dir, Demand::Reset)
    })? {
        Heard::Process(Answer::Status(report)) => Err(runs(report.process.unwrap_or_default()).into()),
        Heard::Process(_) => Err(client::unexpected(&target.data_dir).into()),
        Heard::Store(_) => console::print(&format!(
            "{name} is reset: the next run starts new\n\
             What its sinks have written is NOT removed. Before the next run, remove it or move it away, or set other \
             targets in the manifest: file and sqlite sinks refuse a target that the old pipeline has written to, all others \
             write every row again\n"
        )),
    }
}

/// Asks at the terminal; without one nobody can answer, and that is a no.
fn confirm(report: &Report, target: &Target) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Ok(false);
    }
    let mut error = io::stderr().lock();
    let _ = write!(
        error,
        "{} is {}, epoch {}. A reset removes {}: positions, windows, state, and what is still owed to sinks. It cannot be \
         undone. What the sinks have written stays.\nReset {}? Type yes: ",
        report.pipeline,
        report.standing(),
        report.epoch,
        target.data_dir.display(),
        report.pipeline,
    );
    let _ = error.flush();
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    Ok(read.is_ok() && answer.trim() == "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(
        words_given: &[&str],
        auto: bool,
    ) -> Result<(Option<String>, String, Option<u32>), ControlError> {
        words(&RescaleArgs {
            words: words_given.iter().map(ToString::to_string).collect(),
            auto,
            data_dir: None,
        })
    }

    #[test]
    fn the_words_of_a_rescale_are_read_from_behind() {
        assert_eq!(parse(&["c", "4"], false).unwrap(), (None, "c".into(), Some(4)));
        assert_eq!(parse(&["p", "c", "4"], false).unwrap(), (Some("p".into()), "c".into(), Some(4)));
        assert_eq!(parse(&["c"], true).unwrap(), (None, "c".into(), None));
        assert_eq!(parse(&["p", "c"], true).unwrap(), (Some("p".into()), "c".into(), None));
        for (words, auto) in [
            (&["c"][..], false),
            (&["4"], false),
            (&["c", "-1"], false),
            (&["p", "c", "4"], true),
            (&["a", "p", "c", "4"], false),
        ] {
            assert!(matches!(parse(words, auto), Err(ControlError::Usage(_))), "{words:?}");
        }
    }
}
