//! The crash test: a scenario is run again and again, killed after another step each time, and must always end the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use onceward_connector::Registry;

use super::error::HarnessError;
use super::kept::StateEntry;
use super::setup::Setup;
use super::{Harness, kept};

/// How many kills are tried per way of reading; a longer scenario is killed at so many places, evenly spread.
pub const MAX_KILLS: u64 = 400;
/// Rows that a message names at most.
const SHOWN: usize = 3;

/// What a crash test did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CrashReport {
    /// Steps of the scenario without a kill.
    pub steps: u64,
    /// Runs that were killed once.
    pub kills: u64,
}

/// What a scenario leaves behind.
#[derive(PartialEq, Eq)]
struct Outcome {
    /// Sorted: between keys and partitions there is no order.
    outputs: BTreeMap<String, Vec<String>>,
    states: BTreeMap<String, Vec<StateEntry>>,
}

/// Runs `scenario` once in peace, then again from the start for every step that the engine makes in it, killed after
/// that step and restarted; all of that twice, with rows read as they were pushed and with rows read one by one. Every run
/// must leave the same rows in every sink, in any order, and the same state.
///
/// # Panics
///
/// If a run ends differently, naming the step after which it was killed; and if the scenario fails.
#[track_caller]
pub fn assert_crash_proof(
    manifest: &str,
    registry: &Registry,
    scenario: impl Fn(&mut Harness) -> Result<(), HarnessError>,
) {
    let result = crash_test(manifest, registry, scenario);
    assert!(result.is_ok(), "{}", result.err().map(|error| error.to_string()).unwrap_or_default());
}

/// The same as [`assert_crash_proof`], for a test that wants the report or the error.
pub fn crash_test(
    manifest: &str,
    registry: &Registry,
    scenario: impl Fn(&mut Harness) -> Result<(), HarnessError>,
) -> Result<CrashReport, HarnessError> {
    let setup = Arc::new(Setup::new(manifest, registry)?);
    let run = |read_rows, kill_after| {
        let mut harness = Harness::of(setup.clone(), read_rows, kill_after)?;
        let naming = Naming(kill_after);
        let result = scenario(&mut harness);
        drop(naming);
        Ok::<_, HarnessError>((harness, result))
    };
    let (harness, result) = run(usize::MAX, None)?;
    result?;
    let expected = Outcome::of(&harness)?;
    let mut report = CrashReport { steps: harness.steps(), kills: 0 };
    for read_rows in [usize::MAX, 1] {
        let (harness, result) = run(read_rows, None)?;
        let steps = harness.steps();
        verdict(&expected, &harness, result, read_rows)?;
        for step in places(steps) {
            let (harness, result) = run(read_rows, Some(step))?;
            verdict(&expected, &harness, result, read_rows)?;
            report.kills += harness.kills();
        }
    }
    Ok(report)
}

/// After which of `steps` steps to kill.
fn places(steps: u64) -> impl Iterator<Item = u64> {
    let kills = steps.min(MAX_KILLS);
    (1..=kills).map(move |kill| kill * steps / kills.max(1))
}

/// Says which run it was if the scenario's own assertions panic.
struct Naming(Option<u64>);

impl Drop for Naming {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(step) = self.0
        {
            eprintln!("the scenario panicked in the run that is killed after step {step}");
        }
    }
}

/// Compares a run with the one in peace.
fn verdict(
    expected: &Outcome,
    harness: &Harness,
    result: Result<(), HarnessError>,
    read_rows: usize,
) -> Result<(), HarnessError> {
    let difference = match result {
        Ok(()) => Outcome::of(harness)?.difference(expected),
        Err(error) => Some(format!("the scenario failed with {error}")),
    };
    let Some(difference) = difference else { return Ok(()) };
    let place = match harness.machine.killed_after() {
        Some(place) => format!("killed after {place}, and restarted"),
        None => "without a kill".to_owned(),
    };
    let reading = if read_rows == 1 { ", with rows read one by one" } else { "" };
    Err(HarnessError::NotCrashProof { circumstances: format!("{place}{reading}"), difference })
}

impl Outcome {
    fn of(harness: &Harness) -> Result<Self, HarnessError> {
        let setup = &harness.machine.setup;
        let mut outputs = BTreeMap::new();
        for sink in &setup.plan.pipeline.sinks {
            let mut rows = harness.outputs(&sink.name)?;
            rows.sort();
            outputs.insert(sink.name.clone(), rows);
        }
        let mut states = BTreeMap::new();
        for (computation, _) in setup.processes() {
            states.insert(computation.to_owned(), kept::states(&harness.machine, computation)?);
        }
        Ok(Outcome { outputs, states })
    }
    /// What is different from `expected`, in words.
    fn difference(&self, expected: &Outcome) -> Option<String> {
        for (sink, rows) in &self.outputs {
            let wanted = expected.outputs.get(sink).map_or(&[][..], Vec::as_slice);
            if rows != wanted {
                let (missing, extra) = (without(wanted, rows), without(rows, wanted));
                return Some(format!(
                    "sink {sink} missed {} and got in excess {}",
                    shown(&missing),
                    shown(&extra)
                ));
            }
        }
        for (computation, found) in &self.states {
            let wanted = expected.states.get(computation).map_or(&[][..], Vec::as_slice);
            if found != wanted {
                let text = |entry: &&StateEntry| {
                    format!("{} {} = {:?}", entry.key, entry.name, String::from_utf8_lossy(&entry.value))
                };
                let found_only: Vec<String> =
                    found.iter().filter(|entry| !wanted.contains(entry)).map(|entry| text(&entry)).collect();
                let wanted_only: Vec<String> =
                    wanted.iter().filter(|entry| !found.contains(entry)).map(|entry| text(&entry)).collect();
                return Some(format!(
                    "the state of {computation} is {} instead of {}",
                    shown(&found_only),
                    shown(&wanted_only)
                ));
            }
        }
        None
    }
}

/// The rows of `all` that `others` does not have as often; both are sorted.
fn without(all: &[String], others: &[String]) -> Vec<String> {
    let mut others = others.iter().peekable();
    let mut left = Vec::new();
    for row in all {
        while others.next_if(|other| *other < row).is_some() {}
        if others.next_if(|other| *other == row).is_none() {
            left.push(row.clone());
        }
    }
    left
}

fn shown(rows: &[String]) -> String {
    match rows.len() {
        0 => "nothing".to_owned(),
        count if count > SHOWN => format!("{} and {} more", rows[..SHOWN].join(", "), count - SHOWN),
        _ => rows.join(", "),
    }
}
