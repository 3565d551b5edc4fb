//! `status`, `list`, `logs`: look, and change nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::client::{self, Conversation, PATIENCE};
use super::error::ControlError;
use super::target::{self, Target};
use super::wire::{Answer, Request};
use crate::args::control::{ListArgs, LogsArgs, StatusArgs};
use crate::console;
use crate::failure::Failure;
use crate::figures::{self, Align, Detail, Report, Table, text};

/// A list does not wait long for a single one.
const LIST_PATIENCE: Duration = Duration::from_millis(500);

/// `status`.
pub fn status(args: &StatusArgs) -> Result<(), Failure> {
    let target = Target::of(&args.pipeline)?;
    let report = client::report(&target.data_dir, args.jobs, PATIENCE)?;
    target.check(&report.pipeline)?;
    console::print(&if args.json { json_text(&json!(report)) } else { status_text(&report, &target) })
}

fn json_text(value: &Value) -> String {
    format!("{value:#}\n")
}

fn status_text(report: &Report, target: &Target) -> String {
    let process = report.process.map_or(String::new(), |pid| format!(" (process {pid})"));
    let mut blocks = vec![format!(
        "{} is {}{process}\nepoch {}, layout {}, {} partitions, data directory {}\n",
        report.pipeline,
        report.standing(),
        text::grouped(report.epoch),
        report.layout,
        text::grouped(report.partitions as u64),
        target.data_dir.display(),
    )];
    if report.process.is_none() {
        blocks.push(format!(
            "{}; more figures are there while a process runs it\n",
            next(report, target.words())
        ));
    }
    blocks.extend(report.sources.as_deref().map(figures::sources));
    if let Some(computations) = report.computations.as_deref().filter(|all| !all.is_empty()) {
        blocks.push(figures::computations(computations, Detail::Full));
    }
    blocks.extend(report.sinks.as_deref().map(|sinks| figures::sinks(sinks, Detail::Full)));
    blocks.extend(report.jobs.as_deref().map(figures::jobs));
    blocks.join("\n")
}

/// What lets a pipeline that nobody runs go on.
fn next(report: &Report, words: &str) -> String {
    match report.state.as_str() {
        "completed" => format!("everything was delivered; `onceward reset {words}` starts it over"),
        "paused" => {
            format!("`onceward resume {words}` lets it run again, `onceward run MANIFEST` then goes on")
        }
        "pausing" => "`onceward run MANIFEST` finishes the pause".to_owned(),
        "draining" => "`onceward run MANIFEST` finishes the stop".to_owned(),
        _ => "`onceward run MANIFEST` goes on".to_owned(),
    }
}

/// `list`.
pub fn list(args: &ListArgs) -> Result<(), Failure> {
    let folder = match args.data_dir.as_deref() {
        Some(data_dir) => parent(data_dir)?,
        None => target::home(),
    };
    let found: Vec<(PathBuf, Result<Report, ControlError>)> = target::stores(&folder)
        .into_iter()
        .map(|data_dir| {
            let report = client::report(&data_dir, false, LIST_PATIENCE);
            (data_dir, report)
        })
        .collect();
    if args.json {
        let rows: Vec<Value> = found.iter().map(|(data_dir, report)| list_json(data_dir, report)).collect();
        return console::print(&json_text(&json!(rows)));
    }
    if found.is_empty() {
        console::say(&format!("{} holds no pipeline", folder.display()));
        return Ok(());
    }
    console::print(&list_text(&found))
}

/// The folder that a data directory is in.
fn parent(data_dir: &Path) -> Result<PathBuf, Failure> {
    let absolute = std::path::absolute(data_dir)
        .map_err(|source| Failure::Write { path: data_dir.to_owned(), source })?;
    let written = data_dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    Ok(match (written, absolute.parent()) {
        (Some(written), _) => written.to_owned(),
        (None, Some(parent)) => parent.to_owned(),
        (None, None) => absolute,
    })
}

fn list_json(data_dir: &Path, report: &Result<Report, ControlError>) -> Value {
    let mut row = match report {
        Ok(report) => {
            let (name, state) = (&report.pipeline, &report.state);
            json!({"pipeline": name, "state": state, "process": report.process, "epoch": report.epoch})
        }
        Err(error) => json!({"error": error.to_string()}),
    };
    row["dataDir"] = json!(data_dir.display().to_string());
    row
}

fn list_text(found: &[(PathBuf, Result<Report, ControlError>)]) -> String {
    let mut table = Table::new(&[
        ("pipelines", Align::Left),
        ("state", Align::Left),
        ("process", Align::Right),
        ("epoch", Align::Right),
        ("data directory", Align::Left),
    ]);
    let nothing = || "-".to_owned();
    for (data_dir, report) in found {
        let (name, state, process, epoch) = match report {
            Ok(report) => (
                report.pipeline.clone(),
                report.standing(),
                report.process.map_or_else(nothing, |process| process.to_string()),
                text::grouped(report.epoch),
            ),
            Err(ControlError::Held { holder, .. }) => {
                (nothing(), "in use, does not answer".to_owned(), holder.clone(), nothing())
            }
            Err(error) => {
                let code = error.to_string();
                let code = code.split(':').next().unwrap_or_default();
                (
                    nothing(),
                    format!("cannot be looked at: {code}, see `onceward status`"),
                    nothing(),
                    nothing(),
                )
            }
        };
        table.row(vec![name, state, process, epoch, data_dir.display().to_string()]);
    }
    table.text()
}

/// `logs`.
pub fn logs(args: &LogsArgs) -> Result<(), Failure> {
    let target = Target::of(&args.pipeline)?;
    let report = client::look(&target)?;
    let gone = || ControlError::NoProcess {
        pipeline: report.pipeline.clone(),
        state: report.standing(),
        why: "lines are kept in the running process only. Type this again while `onceward run` is at work",
    };
    let talk = |error| ControlError::talk(target.data_dir.clone(), &error);
    let begun =
        Conversation::begin(&target.data_dir, &Request::Logs { follow: args.follow }).map_err(talk)?;
    let mut conversation = begun.ok_or_else(gone)?;
    if args.follow {
        conversation.wait_for_ever().map_err(talk)?;
    }
    let mut last = 0;
    loop {
        match conversation.next().map_err(talk)? {
            Some(Answer::Line { number, at, text }) => {
                if last > 0 && number > last + 1 {
                    console::say(&format!("{} lines were not kept", number - last - 1));
                }
                last = number;
                let line = format!("{}  {}\n", text::moment(at), console::printable(&text));
                if !console::print_on(&line)? {
                    return Ok(());
                }
            }
            Some(Answer::End(how)) => {
                if !how.is_empty() {
                    console::say(&format!("the run has ended: {}", console::printable(&how)));
                }
                return Ok(());
            }
            Some(Answer::Failed(reason)) => {
                return Err(ControlError::Talk { data_dir: target.data_dir.clone(), reason }.into());
            }
            Some(_) => return Err(client::unexpected(&target.data_dir).into()),
            None => {
                let reason =
                    "it ended without a word, as if it was killed; `onceward run` goes on".to_owned();
                return Err(ControlError::Talk { data_dir: target.data_dir.clone(), reason }.into());
            }
        }
    }
}
