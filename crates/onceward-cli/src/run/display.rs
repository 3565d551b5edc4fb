//! Progress while a pipeline runs, as lines that are redrawn or as lines that stay.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use onceward::Status;

use super::live::{self, Live};
use super::plain;
use super::rate::RowRate;
use crate::console;

/// Shows how a run goes on.
pub struct Display {
    /// `None` for plain lines.
    live: Option<Live>,
    rate: RowRate,
    started: Instant,
    shown: Duration,
}

impl Display {
    /// `plain` asks for plain lines. `data_on_stdout` says that rows are printed on standard output, which
    /// would tear redrawn lines apart if both are the same terminal.
    pub fn new(plain: bool, data_on_stdout: bool, status: &Status) -> Self {
        let torn = data_on_stdout && io::stdout().is_terminal();
        let redrawn = !plain && !torn && io::stderr().is_terminal();
        let mut display = Display {
            live: redrawn.then(|| Live::new(status)),
            rate: RowRate::new(status),
            started: Instant::now(),
            shown: Duration::ZERO,
        };
        display.show(status);
        display
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Shows the figures if it is time to.
    pub fn update(&mut self, status: impl FnOnce() -> Status) {
        let now = self.elapsed();
        let every = if self.live.is_some() { live::EVERY } else { plain::EVERY };
        if now.saturating_sub(self.shown) < every {
            return;
        }
        self.shown = now;
        let status = status();
        self.rate.observe(now, &status);
        self.show(&status);
    }

    fn show(&mut self, status: &Status) {
        match &mut self.live {
            Some(live) => live.draw(self.started.elapsed(), status, &self.rate),
            None => console::say(&plain::line(status, &self.rate)),
        }
    }

    /// Prints a line that stays.
    pub fn say(&self, line: &str) {
        match &self.live {
            Some(live) => live.say(line),
            None => console::say(line),
        }
    }

    /// The run has ended, well or not: the last figures stay as a line, or redrawn lines make room for
    /// what follows.
    pub fn finish(mut self, status: &Status) -> Duration {
        let took = self.elapsed();
        match self.live.take() {
            Some(live) => live.clear(),
            None => {
                self.rate.observe(took, status);
                self.show(status);
            }
        }
        took
    }
}
