//! Durations, counted in buckets that are at most a sixteenth of their value wide.

use std::sync::atomic::{AtomicU64, Ordering};

const STEPS: usize = 16;
const STEP_BITS: u32 = STEPS.trailing_zeros();
const BUCKETS: usize = (64 - STEP_BITS as usize + 1) * STEPS;

/// Counts values, in microseconds; any thread may record.
#[derive(Debug)]
pub struct Histogram {
    buckets: Box<[AtomicU64]>,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect() }
    }
}

/// Values below 16 have buckets of their own; above, 16 buckets for each power of two.
fn bucket(value: u64) -> usize {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(STEP_BITS + 1);
    shift as usize * STEPS + (value >> shift) as usize
}

/// The largest value of a bucket.
fn upper(bucket: usize) -> u64 {
    let shift = (bucket / STEPS).saturating_sub(1);
    let step = (bucket - shift * STEPS) as u64;
    ((step + 1) << shift).wrapping_sub(1)
}

impl Histogram {
    /// Counts one value.
    pub fn record(&self, micros: u64) {
        if let Some(bucket) = self.buckets.get(bucket(micros)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
    }
    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }
    /// A value that `percent` of all values do not exceed, at most a sixteenth too large; 0 if there
    /// are none.
    pub fn percentile(&self, percent: f64) -> u64 {
        let count = self.count();
        let rank = ((count as f64 * percent / 100.0).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            seen += bucket.load(Ordering::Relaxed);
            if seen >= rank {
                return upper(index);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_falls_into_a_bucket_that_bounds_it_closely() {
        let mut values: Vec<u64> = (0..2000).collect();
        values.extend((0..64).flat_map(|bit| [1u64 << bit, (1 << bit) - 1 + (1 << bit)]));
        for value in values {
            let bound = upper(bucket(value));
            assert!(bound >= value, "{value} {bound}");
            assert!(bound - value <= value / 16, "{value} {bound}");
            assert!(bucket(value) == 0 || upper(bucket(value) - 1) < value, "{value}");
        }
    }

    #[test]
    fn percentiles_count_from_below() {
        let histogram = Histogram::default();
        assert_eq!(histogram.percentile(99.0), 0);
        for value in 1..=100 {
            histogram.record(value / 100 * 1000 + 1);
        }
        assert_eq!(histogram.percentile(50.0), 1);
        assert_eq!(histogram.percentile(99.0), 1);
        assert!(histogram.percentile(100.0) >= 1001);
        assert_eq!(histogram.count(), 100);
    }
}
