//! Nonces from a seed that the driver supplies.

/// A stream of nonces. The driver seeds it from real entropy, the simulator from its own seed.
#[derive(Clone, Debug)]
pub struct Nonces(u64);

impl Nonces {
    /// Starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Nonces(seed)
    }
    /// The next nonce (splitmix64).
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// A nonce of twice the width.
    pub fn next_u128(&mut self) -> u128 {
        (u128::from(self.next_u64()) << 64) | u128::from(self.next_u64())
    }
}
