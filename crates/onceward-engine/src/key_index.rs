//! The hash index of a window's keys: open addressing over 8-byte slots, so that a look-up touches one
//! line of the index, and so that a batch can ask for its lines ahead of time.
//!
//! This is the engine's hottest structure. A general hash table is within a third of it, but offers no
//! way to prefetch; the figures are in `docs/performance.md`.

/// Grown when more than this share of the slots is taken, in 1/8.
const MAX_LOAD_EIGHTHS: usize = 5;
const FIRST_SLOTS: usize = 16;

/// Maps a key's 32-bit hash to the number of its entry. Keys are compared by the caller.
#[derive(Clone, Debug, Default)]
pub struct KeyIndex {
    /// Hash in the upper half, entry number + 1 in the lower; 0 is free.
    slots: Vec<u64>,
    len: usize,
}

impl KeyIndex {
    /// The number of keys.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The entry with this hash for which `is_key` is true.
    #[inline]
    pub fn find(&self, hash: u32, mut is_key: impl FnMut(u32) -> bool) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return None;
            }
            let entry = slot as u32 - 1;
            if (slot >> 32) as u32 == hash && is_key(entry) {
                return Some(entry);
            }
            at = (at + 1) & mask;
        }
    }
    /// Adds an entry whose key is not in the index.
    #[inline]
    pub fn insert(&mut self, hash: u32, entry: u32) {
        if (self.len + 1) * 8 > self.slots.len() * MAX_LOAD_EIGHTHS {
            self.grow();
        }
        self.place(u64::from(hash) << 32 | (u64::from(entry) + 1));
        self.len += 1;
    }
    fn place(&mut self, slot: u64) {
        let mask = self.slots.len() - 1;
        let mut at = (slot >> 32) as usize & mask;
        while self.slots[at] != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
    }
    #[cold]
    fn grow(&mut self) {
        let bigger = (self.slots.len() * 2).max(FIRST_SLOTS);
        let old = std::mem::replace(&mut self.slots, vec![0; bigger]);
        for slot in old.into_iter().filter(|slot| *slot != 0) {
            self.place(slot);
        }
    }
    /// Asks for the line on which `hash` would be found.
    #[inline]
    pub fn prefetch(&self, hash: u32) {
        if !self.slots.is_empty() {
            let at = hash as usize & (self.slots.len() - 1);
            prefetch(&self.slots[at]);
        }
    }
    /// The entry that `hash` most likely leads to, without comparing keys.
    #[inline]
    pub fn guess(&self, hash: u32) -> Option<u32> {
        self.find(hash, |_| true)
    }
}

/// Asks the processor for the line of `value`; nothing else happens.
#[inline]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address has no effect that a program can observe; this one is valid.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
            std::ptr::from_ref(value).cast(),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_found_again_and_no_other() {
        let mut index = KeyIndex::default();
        // Few different hashes, so that keys collide all the time.
        let keys: Vec<(u32, u32)> = (0..5000).map(|entry| (entry % 97 * 31, entry)).collect();
        for (hash, entry) in &keys {
            assert_eq!(index.find(*hash, |found| found == *entry), None);
            index.insert(*hash, *entry);
        }
        assert_eq!(index.len(), keys.len());
        for (hash, entry) in &keys {
            assert_eq!(index.find(*hash, |found| found == *entry), Some(*entry));
        }
        assert_eq!(index.find(13, |_| true), None);
    }
}
