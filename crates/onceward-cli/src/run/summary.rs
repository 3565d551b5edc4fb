//! The final table: what went in, what came out, what holds.

use std::time::Duration;

use onceward::{RunEnd, Status};
use onceward_protocol::guarantee::PathReport;
use onceward_spec::GuaranteeReport;

use crate::figures::{self, Align, Computation, Detail, Sink, Source, Table, text};

/// Paths that are listed; `explain` lists all.
const MAX_PATHS: usize = 20;

/// The whole text. `words` are what to type behind a command for this pipeline.
pub fn summary(
    name: &str,
    words: &str,
    end: RunEnd,
    took: Duration,
    status: &Status,
    report: &GuaranteeReport,
) -> String {
    let took = text::duration(took);
    let first = match end {
        RunEnd::Completed => format!("{name} completed in {took}, epoch {}", status.epoch),
        RunEnd::Stopped => {
            format!("{name} stopped after {took}, epoch {}; the same command goes on from here", status.epoch)
        }
        RunEnd::Paused => {
            format!("{name} ended after {took} while paused; `onceward resume {words}` lets it run again")
        }
    };
    let mut blocks = vec![first + "\n", figures::sources(&Source::all(status))];
    if !status.computations.is_empty() {
        blocks.push(figures::computations(&Computation::all(status), Detail::Short));
    }
    blocks.push(figures::sinks(&Sink::all(status), Detail::Short));
    blocks.push(paths(report));
    blocks.join("\n")
}

fn paths(report: &GuaranteeReport) -> String {
    let mut table = Table::new(&[("paths", Align::Left), ("guarantee", Align::Left)]);
    for path in report.paths.iter().take(MAX_PATHS) {
        table.row(vec![route(path), path.level.to_string()]);
    }
    let left_out = report.left_out + report.paths.len().saturating_sub(MAX_PATHS) as u64;
    let mut out = table.text();
    if left_out > 0 {
        out.push_str(&format!("and {left_out} more: see `onceward explain`\n"));
    }
    out
}

/// `flights -> by_carrier -> hourly`: an element's name is its kind and the name in the manifest.
fn route(path: &PathReport) -> String {
    let name = |name: &str| name.split_once(' ').map_or(name, |(_, name)| name).to_owned();
    path.elements.iter().map(|element| name(&element.name)).collect::<Vec<_>>().join(" -> ")
}
