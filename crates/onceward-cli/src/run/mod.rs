//! `run`: start a pipeline, show how it goes, stop it when asked.

mod display;
mod error;
mod live;
mod plain;
mod rate;
mod signals;
mod summary;
mod table;
mod text;

use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::Duration;

use onceward::{Prepared, RunEnd, RunError, RunOptions, Running};
use onceward_spec::{GuaranteeReport, Pipeline, format_duration};

use crate::args::RunArgs;
use crate::console;
use crate::failure::Failure;
use crate::manifest::Manifest;
use display::Display;
use signals::StopFlag;

/// How often signals are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long threads may take to notice that the run was given up; one that waits for a target may never.
const ABANDON_WITHIN: Duration = Duration::from_secs(2);

/// Runs a pipeline to its end or until it is stopped.
pub fn run(args: &RunArgs) -> Result<(), Failure> {
    let stop = StopFlag::listen().map_err(Failure::Signals)?;
    let manifest = Manifest::load(&args.manifest.path, &args.manifest.sets.values)?;
    let name = manifest.pipeline.name.clone();
    let registry = onceward::registry();
    let report = onceward_spec::report(&manifest.pipeline, &registry);
    let data_dir = args.data_dir.clone().unwrap_or_else(|| default_data_dir(&name));
    console::say(&format!("pipeline {name}, data directory {}", data_dir.display()));
    if let Some(warning) = warning(&manifest.pipeline, &report) {
        console::say(&warning);
    }

    let options = RunOptions { data_dir, workers: workers(args, &manifest.pipeline), rate: args.rate };
    let failed = |error: RunError| error::failure(&error, &manifest);
    let prepared = match Prepared::new(manifest.pipeline.clone(), &registry, options) {
        // Not a failure: a loop that starts a run until it succeeds must come to its end.
        Err(done @ RunError::Completed { .. }) => {
            console::say(&format!("nothing to do: {done}"));
            return Ok(());
        }
        other => other.map_err(failed)?,
    };
    for warning in &prepared.warnings {
        console::say(&format!("warning: {warning}"));
    }
    let epoch = prepared.epoch().map_err(failed)?;
    match prepared.resumed {
        true => console::say(&format!("resuming from epoch {epoch}")),
        false => console::say("starting new"),
    }
    let mut running = onceward::start(prepared).map_err(failed)?;

    let data_on_stdout = manifest.pipeline.sinks.iter().any(|sink| sink.connector == "stdout");
    let mut display = Display::new(args.plain, data_on_stdout, &running.status());
    let end = watch(&mut running, &stop, &mut display, manifest.pipeline.shutdown_timeout_us);
    let status = running.status();
    let took = display.finish(&status);
    let summary = summary::summary(&name, end.map_err(failed)?, took, &status, &report);
    if data_on_stdout {
        console::say(&summary);
        return Ok(());
    }
    console::print(&summary)
}

/// Waits for the end; asks for a clean stop when a signal has come, and gives up when that takes too long.
fn watch(
    running: &mut Running,
    stop: &StopFlag,
    display: &mut Display,
    shutdown_timeout_us: i64,
) -> Result<RunEnd, RunError> {
    let timeout = Duration::from_micros(shutdown_timeout_us.unsigned_abs());
    let mut stopping_since = None;
    loop {
        if let Some(end) = running.wait(LOOK_EVERY) {
            return end;
        }
        display.update(|| running.status());
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

fn default_data_dir(name: &str) -> PathBuf {
    [".", ".onceward", name].iter().collect()
}

/// `--workers`, or the manifest's `replicas`, or one per core.
fn workers(args: &RunArgs, pipeline: &Pipeline) -> usize {
    let replicas = pipeline.replicas.map(|replicas| replicas as usize);
    let chosen = args.workers.map(usize::from).or(replicas);
    chosen.unwrap_or_else(|| available_parallelism().map_or(1, usize::from))
}

/// One line that names the weakest element, unless the manifest says what it requires: then the user has
/// chosen, and a manifest that holds less was refused.
fn warning(pipeline: &Pipeline, report: &GuaranteeReport) -> Option<String> {
    let warning = report.warning().filter(|_| pipeline.require.is_none())?;
    Some(format!("warning: {warning}; `spec.require` turns this into an error or accepts it"))
}
