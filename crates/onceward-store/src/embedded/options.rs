//! Sizes of the embedded store.

/// When the embedded store grows its log, folds its tables and takes a snapshot. All in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Size of the first log segment; each later one is twice as large, up to `segment_bytes`.
    pub first_segment_bytes: u64,
    /// Size of a full-grown log segment.
    pub segment_bytes: u64,
    /// A partition's recent writes are folded when they exceed this and twice its folded rows.
    pub fold_min_bytes: u64,
    /// A snapshot is taken when the log since the last one exceeds this and twice that snapshot.
    pub snapshot_min_bytes: u64,
}

impl Options {
    /// Sizes so small that a short test or simulation reaches every operation of the store.
    pub const fn small() -> Self {
        Options {
            first_segment_bytes: 16 << 10,
            segment_bytes: 32 << 10,
            fold_min_bytes: 2 << 10,
            snapshot_min_bytes: 8 << 10,
        }
    }
    /// The size of segment `number`, counted from 1.
    pub(crate) fn size_of_segment(&self, number: u64) -> u64 {
        let doublings = u32::try_from(number.saturating_sub(1)).unwrap_or(u32::MAX).min(32);
        self.first_segment_bytes
            .saturating_mul(1 << doublings)
            .min(self.segment_bytes.max(self.first_segment_bytes))
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            first_segment_bytes: 16 << 20,
            segment_bytes: 64 << 20,
            fold_min_bytes: 32 << 20,
            snapshot_min_bytes: 64 << 20,
        }
    }
}
