//! The time of a run: the wall clock, made so that it never goes back and never stands still.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Microseconds since 1970. A wall clock that is set forward is followed; one that is set back is not: time goes on from
/// where it was, at the pace of the monotonic clock.
pub(crate) struct Clock {
    started: Instant,
    base: AtomicI64,
}

fn wall() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

impl Clock {
    pub(crate) fn new() -> Self {
        Clock { started: Instant::now(), base: AtomicI64::new(wall()) }
    }
    pub(crate) fn now(&self) -> i64 {
        self.at(wall(), i64::try_from(self.started.elapsed().as_micros()).unwrap_or(i64::MAX))
    }
    fn at(&self, wall: i64, elapsed: i64) -> i64 {
        let base = wall.saturating_sub(elapsed);
        self.base.fetch_max(base, Ordering::Relaxed).max(base).saturating_add(elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_a_clock_that_is_set_forward_and_outlives_one_that_is_set_back() {
        let clock = Clock { started: Instant::now(), base: AtomicI64::new(1_000) };
        assert_eq!(clock.at(1_010, 10), 1_010);
        assert_eq!(clock.at(5_020, 20), 5_020);
        // Set back by an hour: goes on at the old pace.
        assert_eq!(clock.at(30, 30), 5_030);
        assert_eq!(clock.at(40, 40), 5_040);
    }
}
