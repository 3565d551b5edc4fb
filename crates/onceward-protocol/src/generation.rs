//! Generations name jobs (GEN-PER-JOB); fences name opens of a target (OPEN-ORDER).

use crate::identity::Branch;

/// Names one job: a number that grows with every grant of its partition, and a random nonce so that
/// two branches of a restored store can never mint the same one. Never reused, not even by a restart
/// on the same worker.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Generation {
    /// Grows with every grant of the partition.
    pub number: u64,
    /// Drawn at random for each grant.
    pub nonce: u64,
    /// The branch of the store that granted it.
    pub branch: Branch,
}

impl Generation {
    /// Bytes as persisted.
    pub fn encode(self) -> [u8; 24] {
        let mut out = [0; 24];
        out[..8].copy_from_slice(&self.number.to_be_bytes());
        out[8..16].copy_from_slice(&self.nonce.to_be_bytes());
        out[16..].copy_from_slice(&self.branch.0.to_be_bytes());
        out
    }
    /// The inverse of [`Generation::encode`].
    pub fn decode(bytes: [u8; 24]) -> Self {
        let mut input = crate::codec::Reader::new(&bytes);
        Generation {
            number: input.u64().unwrap_or(0),
            nonce: input.u64().unwrap_or(0),
            branch: Branch(input.u64().unwrap_or(0)),
        }
    }
}

impl std::fmt::Display for Generation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{:016x}", self.number, self.nonce)
    }
}

/// A fresh fence: drawn for every open of a target, so that whatever an earlier open left behind,
/// even our own, is told apart by the target itself (OPEN-ORDER, MARKER-CAS).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Fence(pub u128);

impl std::fmt::Display for Fence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
