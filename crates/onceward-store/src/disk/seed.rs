//! Choices drawn from a seed that the caller supplies: the same seed, the same choices.

/// A small generator (splitmix64).
#[derive(Clone, Debug)]
pub(super) struct Choices(u64);

/// How much of what was not synced survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mood {
    Nothing,
    Everything,
    Prefix(u64),
    Coins,
}

/// Decides for a row of un-synced changes which ones survive a power loss.
#[derive(Clone, Debug)]
pub(super) struct Survivors {
    choices: Choices,
    mood: Mood,
    seen: u64,
}

impl Choices {
    pub(super) fn new(seed: u64) -> Self {
        Choices(seed)
    }
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
    pub(super) fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }
    /// A number below `limit`; 0 if there is none.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { self.next() % limit }
    }
    /// Survivors among about `count` changes. The extremes are drawn often: they find the most.
    pub(super) fn survivors(&mut self, count: u64) -> Survivors {
        let mood = match self.below(5) {
            0 => Mood::Nothing,
            1 => Mood::Everything,
            2 => Mood::Prefix(self.below(count + 1)),
            _ => Mood::Coins,
        };
        Survivors { choices: Choices(self.next()), mood, seen: 0 }
    }
}

impl Survivors {
    /// Whether the next change survives.
    pub(super) fn next(&mut self) -> bool {
        self.seen += 1;
        match self.mood {
            Mood::Nothing => false,
            Mood::Everything => true,
            Mood::Prefix(len) => self.seen <= len,
            Mood::Coins => self.choices.coin(),
        }
    }
}
