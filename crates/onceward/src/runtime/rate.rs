//! A limit on rows per second over all sources.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How much lost time is made up for.
const CATCH_UP: Duration = Duration::from_millis(200);

/// A shared budget of rows.
pub(crate) struct Rate {
    per_second: f64,
    next: Mutex<Instant>,
}

impl Rate {
    pub(crate) fn new(per_second: u64) -> Self {
        Rate { per_second: per_second.max(1) as f64, next: Mutex::new(Instant::now()) }
    }
    /// Rows that one read may take: a fiftieth of a second's worth, so that the flow is even.
    pub(crate) fn rows_per_read(&self) -> usize {
        ((self.per_second / 50.0) as usize).max(1)
    }
    /// Takes `rows` from the budget if it allows a read now; else says how long to wait. Time lost between
    /// reads is made up for, up to [`CATCH_UP`].
    pub(crate) fn reserve(&self, rows: usize) -> Result<(), Duration> {
        let now = Instant::now();
        let mut next = self.lock();
        if *next > now {
            return Err(*next - now);
        }
        let floor = now.checked_sub(CATCH_UP).unwrap_or(now);
        *next = floor.max(*next) + Duration::from_secs_f64(rows as f64 / self.per_second);
        Ok(())
    }
    /// Gives back what a read reserved and did not use.
    pub(crate) fn give_back(&self, rows: usize) {
        let mut next = self.lock();
        if let Some(earlier) = next.checked_sub(Duration::from_secs_f64(rows as f64 / self.per_second)) {
            *next = earlier;
        }
    }
    fn lock(&self) -> std::sync::MutexGuard<'_, Instant> {
        self.next.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
