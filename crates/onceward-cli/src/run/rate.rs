//! Rows per second over the last few seconds.

use std::collections::VecDeque;
use std::time::Duration;

use onceward::Status;

/// How far back the figure looks: long enough to be calm, short enough to show a stall.
const SPAN: Duration = Duration::from_secs(5);

/// Remembers how many rows each source had read when.
pub struct RowRate {
    samples: VecDeque<(Duration, Vec<u64>)>,
}

impl RowRate {
    /// Starts at time 0 with the rows that earlier runs have read.
    pub fn new(status: &Status) -> Self {
        RowRate { samples: VecDeque::from([(Duration::ZERO, rows(status))]) }
    }

    /// Notes the figures at a time since the start. The oldest sample that is kept is the newest that is
    /// at least [`SPAN`] old, or the first.
    pub fn observe(&mut self, now: Duration, status: &Status) {
        self.samples.push_back((now, rows(status)));
        while self.samples.get(1).is_some_and(|(time, _)| now.saturating_sub(*time) >= SPAN) {
            self.samples.pop_front();
        }
    }

    /// Of one source, by its number.
    pub fn of(&self, source: usize) -> u64 {
        let (Some((from, old)), Some((to, new))) = (self.samples.front(), self.samples.back()) else {
            return 0;
        };
        let seconds = to.saturating_sub(*from).as_secs_f64();
        let read = |rows: &[u64]| rows.get(source).copied().unwrap_or(0);
        if seconds > 0.0 { (read(new).saturating_sub(read(old)) as f64 / seconds) as u64 } else { 0 }
    }

    /// Of all sources.
    pub fn total(&self) -> u64 {
        let sources = self.samples.back().map_or(0, |(_, rows)| rows.len());
        (0..sources).map(|source| self.of(source)).sum()
    }
}

fn rows(status: &Status) -> Vec<u64> {
    status.sources.iter().map(|source| source.rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward::SourceStatus;

    fn status(rows: &[u64]) -> Status {
        let source = |rows: &u64| SourceStatus {
            name: "s".into(),
            rows: *rows,
            partitions: 1,
            ended: 0,
            progress: None,
        };
        Status { sources: rows.iter().map(source).collect(), ..Status::default() }
    }

    #[test]
    fn rows_of_earlier_runs_do_not_count() {
        let mut rate = RowRate::new(&status(&[1_000_000]));
        assert_eq!(rate.total(), 0);
        rate.observe(Duration::from_secs(2), &status(&[1_000_200]));
        assert_eq!(rate.total(), 100);
    }

    #[test]
    fn only_the_last_seconds_count_and_a_stall_shows() {
        let mut rate = RowRate::new(&status(&[0, 0]));
        for second in 1..=10 {
            rate.observe(Duration::from_secs(second), &status(&[second * 1000, second * 10]));
        }
        assert_eq!((rate.of(0), rate.of(1), rate.total()), (1000, 10, 1010));
        for second in 11..=20 {
            rate.observe(Duration::from_secs(second), &status(&[10_000, second * 10]));
        }
        assert_eq!((rate.of(0), rate.of(1)), (0, 10));
        assert!(rate.samples.len() <= 7, "{}", rate.samples.len());
    }
}
