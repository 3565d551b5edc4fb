//! How a partition's load is spread over its key range: what the controller needs to cut it in two equal halves.

use onceward_protocol::KeyRange;

/// Parts of a key range that are counted apart.
pub const BUCKETS: usize = 16;

/// Counts messages by where their hash lies in the range.
#[derive(Clone, Debug)]
pub struct LoadMeter {
    first: u64,
    shift: u32,
    counts: [u64; BUCKETS],
}

impl LoadMeter {
    /// A meter for `range`.
    pub fn new(range: KeyRange) -> Self {
        // The smallest power of two that covers the range with `BUCKETS` parts.
        let width = range.last - range.first;
        let shift = (64 - width.leading_zeros()).saturating_sub(BUCKETS.trailing_zeros());
        LoadMeter { first: range.first, shift, counts: [0; BUCKETS] }
    }
    /// Counts a message.
    #[inline]
    pub fn count(&mut self, hash: u64) {
        let bucket = (hash.wrapping_sub(self.first) >> self.shift) as usize;
        self.counts[bucket & (BUCKETS - 1)] += 1;
    }
    /// Messages by part of the range, since the job began.
    pub fn counts(&self) -> [u64; BUCKETS] {
        self.counts
    }
    /// The first hash of a part.
    pub fn first_of(&self, bucket: usize) -> u64 {
        self.first.saturating_add((bucket as u64) << self.shift)
    }
}
