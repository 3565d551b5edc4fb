//! Key ranges of a computation and the routing hash.

/// The hash that routes a key to its partition. **Persisted**: it decides which partition owns a
/// key's state, so it is XXH3-64 with seed 0 and never changes. Tables inside a partition must not
/// reuse its upper bits, which a key range holds constant.
#[inline]
pub fn routing_hash(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}

/// A closed range of routing hashes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyRange {
    /// First hash of the range.
    pub first: u64,
    /// Last hash of the range.
    pub last: u64,
}

impl KeyRange {
    /// Cuts the whole hash space into `count` ranges of equal size; they tile it without gap or overlap.
    pub fn split(count: u32) -> Vec<KeyRange> {
        let count = u128::from(count.max(1));
        // Rounded up: the first hash of a range is the first that `index_of` gives to it.
        let bound = |index: u128| (index << 64).div_ceil(count);
        (0..count)
            .map(|index| KeyRange { first: bound(index) as u64, last: (bound(index + 1) - 1) as u64 })
            .collect()
    }
    /// Whether the range owns `hash`.
    pub fn contains(&self, hash: u64) -> bool {
        (self.first..=self.last).contains(&hash)
    }
    /// Which of `count` equal ranges owns `hash`: the inverse of [`KeyRange::split`].
    #[inline]
    pub fn index_of(hash: u64, count: u32) -> u32 {
        ((u128::from(hash) * u128::from(count)) >> 64) as u32
    }
}
