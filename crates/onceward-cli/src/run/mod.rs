//! `run`: start a pipeline, show how it goes, stop it when asked.

mod display;
mod error;
mod live;
mod plain;
mod rate;
mod signals;
mod start;
mod summary;
mod watch;

use std::path::PathBuf;
use std::thread::available_parallelism;

use onceward::{RunEnd, RunError, RunOptions};
use onceward_spec::{GuaranteeReport, Pipeline};

use crate::args::RunArgs;
use crate::console;
use crate::control::{Bound, Server};
use crate::failure::Failure;
use crate::manifest::Manifest;
use display::Display;
use signals::StopFlag;

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

    let words = match &args.data_dir {
        Some(given) => format!("--data-dir {}", given.display()),
        None => name.clone(),
    };
    let workers = workers(args, &manifest.pipeline);
    let reset = args.reset.iter().cloned().collect();
    let options = RunOptions { data_dir: data_dir.clone(), workers, rate: args.rate, reset };
    let failed = |error: RunError| error::failure(&error, &manifest);
    let prepared = match start::prepare(&manifest.pipeline, &registry, &options) {
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
    let resumed = prepared.resumed;
    // The store is ours, so the socket is. It listens before anything is said: who has read that can use it.
    let bound = Bound::new(&data_dir).map_err(|error| start::without_control(&error)).ok();
    let mut running = onceward::start(prepared).map_err(failed)?;
    let server = bound.and_then(|bound| {
        Server::start(bound, &name, running.remote()).map_err(|error| start::without_control(&error)).ok()
    });
    match resumed {
        true => console::say(&format!("resuming from epoch {epoch}")),
        false => console::say("starting new"),
    }

    let data_on_stdout = manifest.pipeline.sinks.iter().any(|sink| sink.connector == "stdout");
    // What is stored counts from the first line on, also before the jobs have loaded it.
    let mut first = running.status();
    first.epoch = first.epoch.max(epoch);
    let mut display = Display::new(args.plain, data_on_stdout, &first);
    let timeout_us = manifest.pipeline.shutdown_timeout_us;
    let end = watch::watch(&mut running, &stop, &mut display, timeout_us, &words);
    if let Some(server) = server {
        server.end(&how(&end));
    }
    let status = running.status();
    let took = display.finish(&status);
    let summary = summary::summary(&name, &words, end.map_err(failed)?, took, &status, &report);
    if data_on_stdout {
        console::say(&summary);
        return Ok(());
    }
    console::print(&summary)
}

/// The end of a run in a few words.
fn how(end: &Result<RunEnd, RunError>) -> String {
    match end {
        Ok(RunEnd::Completed) => "completed".to_owned(),
        Ok(RunEnd::Stopped) => "stopped".to_owned(),
        Ok(RunEnd::Paused) => "ended while paused".to_owned(),
        Err(error) => format!("failed: {error}"),
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
