//! Key ranges of a computation and the routing hash.

/// The hash that routes a key to its partition. **Persisted**: it decides which partition owns a
/// key's state, so it is XXH3-64 with seed 0 and never changes. Tables inside a partition must not
/// reuse its upper bits, which a key range holds constant.
#[inline]
pub fn routing_hash(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}

/// A closed range of routing hashes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeyRange {
    /// First hash of the range.
    pub first: u64,
    /// Last hash of the range.
    pub last: u64,
}

impl KeyRange {
    /// Every hash.
    pub const ALL: KeyRange = KeyRange { first: 0, last: u64::MAX };

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
    /// Whether a hash belongs to both.
    pub fn overlaps(&self, other: KeyRange) -> bool {
        self.first <= other.last && other.first <= self.last
    }
    /// What belongs to both.
    pub fn intersect(&self, other: KeyRange) -> Option<KeyRange> {
        let range = KeyRange { first: self.first.max(other.first), last: self.last.min(other.last) };
        (range.first <= range.last).then_some(range)
    }
    /// How many hashes belong to it.
    pub fn width(&self) -> u128 {
        u128::from(self.last - self.first) + 1
    }
    /// Whether `other` begins right behind it.
    pub fn is_followed_by(&self, other: KeyRange) -> bool {
        self.last.checked_add(1) == Some(other.first)
    }
    /// Order-preserving bytes.
    pub fn encode(self) -> [u8; 16] {
        (u128::from(self.first) << 64 | u128::from(self.last)).to_be_bytes()
    }
    /// The inverse of [`KeyRange::encode`]; `None` for a range that ends before it begins.
    pub fn decode(bytes: [u8; 16]) -> Option<Self> {
        let bits = u128::from_be_bytes(bytes);
        let range = KeyRange { first: (bits >> 64) as u64, last: bits as u64 };
        (range.first <= range.last).then_some(range)
    }
    /// Which of `count` equal ranges owns `hash`: the inverse of [`KeyRange::split`].
    #[inline]
    pub fn index_of(hash: u64, count: u32) -> u32 {
        ((u128::from(hash) * u128::from(count)) >> 64) as u32
    }
}
