//! How many rows a rate allows by now. Knows no clock: the time is an argument.

/// Credit that is kept while nobody reads, in microseconds of the rate: afterwards rows come at the rate again, not all
/// that were missed at once.
const KEPT_US: u64 = 1_000_000;

/// A rate in rows per second, and what of it is not used yet.
#[derive(Debug)]
pub struct Pace {
    rate: u64,
    last_us: u64,
    /// In rows times a million.
    credit: u128,
}

impl Pace {
    /// Starts at time 0 without credit. `rate` is above zero.
    pub fn new(rate: u64) -> Self {
        Pace { rate, last_us: 0, credit: 0 }
    }

    /// How many of the wanted rows may come at `now_us`.
    pub fn allowed(&mut self, now_us: u64, wanted: u64) -> u64 {
        let passed = now_us.saturating_sub(self.last_us);
        self.last_us = self.last_us.max(now_us);
        let most = u128::from(self.rate) * u128::from(KEPT_US);
        self.credit = (self.credit + u128::from(self.rate) * u128::from(passed)).min(most);
        u64::try_from(self.credit / 1_000_000).unwrap_or(u64::MAX).min(wanted)
    }

    /// That many came.
    pub fn took(&mut self, rows: u64) {
        self.credit = self.credit.saturating_sub(u128::from(rows) * 1_000_000);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_at_the_rate_whatever_the_moments_of_asking() {
        let mut pace = Pace::new(1500);
        let mut came = 0;
        for now in (0..=10_000_000).step_by(777) {
            let rows = pace.allowed(now, u64::MAX);
            pace.took(rows);
            came += rows;
        }
        assert_eq!(came, 15_000 - 1, "the last moment asked at is just before ten seconds");
    }

    #[test]
    fn a_slow_rate_is_not_rounded_away_and_a_pause_is_not_made_up_for() {
        let mut pace = Pace::new(1);
        assert_eq!(pace.allowed(999_999, 5), 0);
        assert_eq!(pace.allowed(1_000_000, 5), 1);
        pace.took(1);
        assert_eq!(pace.allowed(100_000_000, 50), 1, "one second's worth");
        pace.took(1);
        assert_eq!(pace.allowed(100_000_000, 50), 0);
        assert_eq!(pace.allowed(50, 50), 0, "a clock that goes back gives nothing");
    }
}
