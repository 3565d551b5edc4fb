//! Who owns a key: the routing table of a computation whose ranges need not be equal.

use crate::keyrange::KeyRange;

/// Bits of the hash that find the first candidate.
const GUESS_BITS: u32 = 10;

/// Which of the ranges of a computation owns a hash: in constant time unless many ranges share one 1,024th of the
/// key space, then in the logarithm of how many do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routing {
    firsts: Vec<u64>,
    /// By the hash's upper bits: the last range that begins at or before the first hash with these bits. One entry
    /// more, for the upper bound of the last.
    guess: Vec<u32>,
}

impl Routing {
    /// A table of `ranges`, which are in order and tile the whole key space; `None` if they do not.
    pub fn new(ranges: &[KeyRange]) -> Option<Routing> {
        let (first, last) = (ranges.first()?, ranges.last()?);
        let whole = first.first == 0 && last.last == u64::MAX;
        let tiles = ranges.iter().all(|range| range.first <= range.last)
            && ranges.windows(2).all(|pair| pair[0].is_followed_by(pair[1]));
        if !(whole && tiles) {
            return None;
        }
        let firsts: Vec<u64> = ranges.iter().map(|range| range.first).collect();
        let mut guess: Vec<u32> = (0..1u64 << GUESS_BITS)
            .map(|bits| {
                let hash = bits << (64 - GUESS_BITS);
                (firsts.partition_point(|first| *first <= hash) - 1) as u32
            })
            .collect();
        guess.push(firsts.len() as u32 - 1);
        Some(Routing { firsts, guess })
    }
    /// The number of the range that owns `hash`.
    #[inline]
    pub fn index_of(&self, hash: u64) -> usize {
        let bits = (hash >> (64 - GUESS_BITS)) as usize;
        let (low, high) = (self.guess[bits] as usize, self.guess[bits + 1] as usize);
        low + self.firsts[low + 1..=high].partition_point(|first| *first <= hash)
    }
    /// How many ranges there are, never none.
    #[expect(clippy::len_without_is_empty, reason = "a table without ranges cannot be made")]
    pub fn len(&self) -> usize {
        self.firsts.len()
    }
}
