//! The final table: what went in, what came out, what holds.

use std::time::Duration;

use onceward::{RunEnd, Status};
use onceward_protocol::guarantee::PathReport;
use onceward_spec::GuaranteeReport;

use super::table::{Align, Table};
use super::text;

/// Paths that are listed; `explain` lists all.
const MAX_PATHS: usize = 20;

/// The whole text.
pub fn summary(name: &str, end: RunEnd, took: Duration, status: &Status, report: &GuaranteeReport) -> String {
    let took = text::duration(took);
    let first = match end {
        RunEnd::Completed => format!("{name} completed in {took}, epoch {}", status.epoch),
        RunEnd::Stopped => {
            format!("{name} stopped after {took}, epoch {}; the same command goes on from here", status.epoch)
        }
        RunEnd::Paused => {
            format!("{name} ended after {took} while paused; `onceward resume {name}` lets it run again")
        }
    };
    let mut blocks = vec![first + "\n", sources(status)];
    if !status.computations.is_empty() {
        blocks.push(computations(status));
    }
    blocks.push(sinks(status));
    blocks.push(paths(report));
    blocks.join("\n")
}

fn sources(status: &Status) -> String {
    let mut table =
        Table::new(&[("sources", Align::Left), ("rows", Align::Right), ("parts done", Align::Right)]);
    for source in &status.sources {
        let parts = format!("{}/{}", source.ended, source.partitions);
        table.row(vec![source.name.clone(), text::grouped(source.rows), parts]);
    }
    table.text()
}

fn computations(status: &Status) -> String {
    let numbers = ["rows in", "rows out", "late", "repeats dropped"].map(|name| (name, Align::Right));
    let mut header = vec![("computations", Align::Left)];
    header.extend(numbers);
    let mut table = Table::new(&header);
    for computation in &status.computations {
        let mut row = vec![computation.name.clone()];
        let numbers = [computation.rows_in, computation.rows_out, computation.late, computation.repeats];
        row.extend(numbers.map(text::grouped));
        table.row(row);
    }
    table.text()
}

fn sinks(status: &Status) -> String {
    let mut table =
        Table::new(&[("sinks", Align::Left), ("delivered", Align::Right), ("owed", Align::Right)]);
    for sink in &status.sinks {
        table.row(vec![sink.name.clone(), text::grouped(sink.delivered), text::grouped(sink.owed)]);
    }
    table.text()
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
