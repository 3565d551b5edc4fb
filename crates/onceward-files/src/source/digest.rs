//! The digest of everything read so far, in a form that can be taken up again in the middle.
//!
//! Bytes are hashed in blocks of [`BLOCK_BYTES`] whose digests are chained. A place in the stream is
//! proved by the chain of the whole blocks before it and the digest of the started block, so a reader
//! that takes up a file known to be unchanged re-reads one block at most, and one that must prove
//! the whole prefix re-reads it all; both end with the same state.

use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

/// Bytes per block.
pub const BLOCK_BYTES: u64 = 1024 * 1024;

/// What proves that the bytes before a place are the ones that were read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Proof {
    /// The chained digests of the whole blocks.
    pub chain: u64,
    /// The digest of the started block; of no bytes at a block's border.
    pub tail: u64,
}

/// The running digest.
pub struct Digest {
    chain: u64,
    block: Xxh3,
    in_block: u64,
}

impl Digest {
    /// At a block's border, after blocks whose chain is known; at the start of a stream that is 0.
    pub fn at_block(chain: u64) -> Self {
        Digest { chain, block: Xxh3::new(), in_block: 0 }
    }
    /// Takes the next bytes of the stream.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = (BLOCK_BYTES - self.in_block) as usize;
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.block.update(now);
            self.in_block += now.len() as u64;
            if self.in_block == BLOCK_BYTES {
                self.chain = xxh3_64_with_seed(&self.block.digest().to_be_bytes(), self.chain);
                self.block.reset();
                self.in_block = 0;
            }
            bytes = later;
        }
    }
    /// The proof of everything taken so far.
    pub fn proof(&self) -> Proof {
        Proof { chain: self.chain, tail: self.block.digest() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proof_does_not_depend_on_how_the_bytes_were_cut() {
        let bytes: Vec<u8> =
            (0..2 * BLOCK_BYTES as usize + 77).map(|index| (index * 31 % 251) as u8).collect();
        let mut whole = Digest::at_block(0);
        whole.update(&bytes);
        let mut cut = Digest::at_block(0);
        bytes.chunks(99_991).for_each(|part| cut.update(part));
        assert_eq!(whole.proof(), cut.proof());
    }

    #[test]
    fn one_changed_byte_in_an_early_block_changes_the_proof() {
        let mut bytes = vec![7u8; 3 * BLOCK_BYTES as usize];
        let proof = |bytes: &[u8]| {
            let mut digest = Digest::at_block(0);
            digest.update(bytes);
            digest.proof()
        };
        let before = proof(&bytes);
        bytes[5] ^= 1;
        assert_ne!(before, proof(&bytes));
    }

    #[test]
    fn a_digest_taken_up_at_a_block_border_ends_like_the_unbroken_one() {
        let bytes = vec![9u8; BLOCK_BYTES as usize + 1000];
        let mut unbroken = Digest::at_block(0);
        unbroken.update(&bytes[..BLOCK_BYTES as usize]);
        let mut resumed = Digest::at_block(unbroken.proof().chain);
        resumed.update(&bytes[BLOCK_BYTES as usize..]);
        unbroken.update(&bytes[BLOCK_BYTES as usize..]);
        assert_eq!(unbroken.proof(), resumed.proof());
    }
}
