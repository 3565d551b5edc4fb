//! Progress on a terminal: one line per source, computation and sink, redrawn in place.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use onceward::{PipelineState, Status};

use super::rate::RowRate;
use crate::figures::text;

/// How often the lines are redrawn.
pub const EVERY: Duration = Duration::from_millis(200);

/// Steps of a source's bar.
const STEPS: u64 = 1000;

/// The lines on the terminal.
pub struct Live {
    all: MultiProgress,
    head: ProgressBar,
    /// With whether it has its bar: a source may know its size only once it is read.
    sources: Vec<(ProgressBar, bool)>,
    computations: Vec<ProgressBar>,
    sinks: Vec<ProgressBar>,
}

impl Live {
    /// Makes the lines for everything that the status names.
    pub fn new(status: &Status) -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let names = status.sources.iter().map(|source| &source.name);
        let names = names.chain(status.computations.iter().map(|computation| &computation.name));
        let width =
            names.chain(status.sinks.iter().map(|sink| &sink.name)).map(String::len).max().unwrap_or(0);
        let line = |template: &str, name: &str| {
            let bar = all.add(ProgressBar::new(STEPS));
            set_template(&bar, template);
            bar.set_prefix(format!("{name:<width$}"));
            bar
        };
        Live {
            head: line("{wide_msg}", ""),
            sources: status
                .sources
                .iter()
                .map(|source| (line("  source       {prefix} {wide_msg}", &source.name), false))
                .collect(),
            computations: status
                .computations
                .iter()
                .map(|computation| line("  computation  {prefix} {wide_msg}", &computation.name))
                .collect(),
            sinks: status
                .sinks
                .iter()
                .map(|sink| line("  sink         {prefix} {wide_msg}", &sink.name))
                .collect(),
            all,
        }
    }

    /// Redraws the lines.
    pub fn draw(&mut self, now: Duration, status: &Status, rate: &RowRate) {
        let owed: u64 = status.sinks.iter().map(|sink| sink.owed).sum();
        // What is usual needs no word.
        let state = match status.state {
            PipelineState::Working => String::new(),
            state => format!("{state}  "),
        };
        self.head.set_message(format!(
            "{state}epoch {}  {} rows/s  lag {} rows owed to sinks  {}",
            text::grouped(status.epoch),
            text::grouped(rate.total()),
            text::grouped(owed),
            text::duration(now),
        ));
        for (index, ((bar, barred), source)) in self.sources.iter_mut().zip(&status.sources).enumerate() {
            if !*barred && source.progress.is_some() {
                set_template(bar, "  source       {prefix} [{bar:20}] {wide_msg}");
                *barred = true;
            }
            let done = source.progress.map_or(String::new(), |part| format!("{}  ", text::percent(part)));
            bar.set_position((source.progress.unwrap_or(0.0).clamp(0.0, 1.0) * STEPS as f64) as u64);
            bar.set_message(format!(
                "{done}{} rows  {}/s  {}/{} parts done",
                text::grouped(source.rows),
                text::grouped(rate.of(index)),
                source.ended,
                source.partitions,
            ));
        }
        for (bar, computation) in self.computations.iter().zip(&status.computations) {
            bar.set_message(format!(
                "{} in  {} out  {} late  {} keys  watermark {}  epoch {}",
                text::grouped(computation.rows_in),
                text::grouped(computation.rows_out),
                text::grouped(computation.late),
                text::grouped(computation.keys),
                text::watermark(computation.watermark),
                text::grouped(computation.epoch),
            ));
        }
        for (bar, sink) in self.sinks.iter().zip(&status.sinks) {
            let (delivered, owed) = (text::grouped(sink.delivered), text::grouped(sink.owed));
            bar.set_message(format!("{delivered} delivered  {owed} owed"));
        }
    }

    /// Prints a line above the others.
    pub fn say(&self, line: &str) {
        let _ = self.all.println(line);
    }

    /// Takes the lines away.
    pub fn clear(self) {
        let lines = self.sources.iter().map(|(bar, _)| bar).chain(&self.computations).chain(&self.sinks);
        for bar in lines.chain([&self.head]) {
            bar.finish_and_clear();
        }
        let _ = self.all.clear();
    }
}

/// The templates are constants of ours; a line whose style cannot be set still shows its figures.
fn set_template(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
}
