//! The note that the engine keeps for a place in a file: enough to go on from there, and to prove
//! that what lies before is still what was read.

use onceward_protocol::codec::{Reader, put_varint};

use super::digest::Proof;

/// The first byte of every token of this form.
const VERSION: u8 = 1;

/// A place between two records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// Bytes of the decompressed stream before it.
    pub offset: u64,
    /// Records before it; the last one's position.
    pub ordinal: u64,
    /// Line ends before it, for messages to people.
    pub lines: u64,
}

/// A place, its proof, and the file as it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    /// Where to go on.
    pub place: Place,
    /// The digest of everything before.
    pub proof: Proof,
    /// The file's size in bytes.
    pub size: u64,
    /// The file's modification time, nanoseconds since 1970.
    pub modified_ns: i64,
    /// Bytes of the file itself read so far, for progress display.
    pub raw_offset: u64,
}

impl Token {
    /// Bytes as stored.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(56);
        out.push(VERSION);
        put_varint(&mut out, self.place.offset);
        put_varint(&mut out, self.place.ordinal);
        put_varint(&mut out, self.place.lines);
        out.extend_from_slice(&self.proof.chain.to_be_bytes());
        out.extend_from_slice(&self.proof.tail.to_be_bytes());
        put_varint(&mut out, self.size);
        out.extend_from_slice(&self.modified_ns.to_be_bytes());
        put_varint(&mut out, self.raw_offset);
        out
    }
    /// The inverse of [`Token::encode`]; `None` for bytes it did not write.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = Reader::new(bytes);
        if input.byte()? != VERSION {
            return None;
        }
        let place = Place { offset: input.varint()?, ordinal: input.varint()?, lines: input.varint()? };
        let proof = Proof { chain: input.u64()?, tail: input.u64()? };
        let size = input.varint()?;
        let modified_ns = input.i64()?;
        let raw_offset = input.varint()?;
        input.is_empty().then_some(Token { place, proof, size, modified_ns, raw_offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_token_survives_the_round_trip_and_no_shorter_or_longer_bytes_are_taken(
            offset: u64, ordinal: u64, lines: u64, chain: u64, tail: u64, size: u64, modified_ns: i64, raw_offset: u64,
        ) {
            let token = Token {
                place: Place { offset, ordinal, lines },
                proof: Proof { chain, tail },
                size, modified_ns, raw_offset,
            };
            let mut bytes = token.encode();
            prop_assert_eq!(Token::decode(&bytes), Some(token));
            bytes.push(0);
            prop_assert_eq!(Token::decode(&bytes), None);
            prop_assert_eq!(Token::decode(&bytes[..bytes.len() - 2]), None);
        }
    }
}
