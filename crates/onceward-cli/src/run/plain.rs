//! Progress as plain lines, for logs: `progress epoch=12 rows=336776 ...`. Names and order of the first
//! five figures are stable; more may be added behind them. The last one is where the pipeline stands.

use std::fmt::Write as _;
use std::time::Duration;

use onceward::Status;
use onceward_protocol::Watermark;

use super::rate::RowRate;
use crate::figures::text;

/// How often a line is printed.
pub const EVERY: Duration = Duration::from_secs(2);

/// One line.
pub fn line(status: &Status, rate: &RowRate) -> String {
    let rows: u64 = status.sources.iter().map(|source| source.rows).sum();
    let owed: u64 = status.sinks.iter().map(|sink| sink.owed).sum();
    let delivered: u64 = status.sinks.iter().map(|sink| sink.delivered).sum();
    let late: u64 = status.computations.iter().map(|computation| computation.late).sum();
    let ended: usize = status.sources.iter().map(|source| source.ended).sum();
    let parts: usize = status.sources.iter().map(|source| source.partitions).sum();
    let least = status.computations.iter().map(|computation| computation.watermark).min();
    let mut out = format!(
        "progress epoch={} rows={rows} rows_per_s={} owed={owed} watermark={} delivered={delivered} late={late} parts={ended}/{parts}",
        status.epoch,
        rate.total(),
        text::watermark(least.unwrap_or(Watermark::NONE)),
    );
    for source in &status.sources {
        if let Some(progress) = source.progress {
            // Writing to a String cannot fail.
            let _ = write!(out, " read.{}={}", source.name, text::percent(progress));
        }
    }
    for computation in &status.computations {
        let (name, watermark) = (&computation.name, text::watermark(computation.watermark));
        let _ = write!(out, " watermark.{name}={watermark} keys.{name}={}", computation.keys);
    }
    let _ = write!(out, " state={}", status.state);
    out
}
