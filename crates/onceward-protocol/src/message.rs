//! Positions and message ids (ID-UNIQUE).

use crate::identity::PartitionId;

/// A position in a root partition: ordered, dense or not. For a file `major` is the row's ordinal,
/// starting at 1; for a transform partition it is (epoch, index), fixed by the commit that stored
/// the message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Position {
    /// Row ordinal, offset, log sequence number or epoch.
    pub major: u64,
    /// Index below `major`, 0 where the system has none.
    pub minor: u32,
}

impl Position {
    /// The position before every other; no message has it.
    pub const ORIGIN: Position = Position { major: 0, minor: 0 };
    /// A position of a system that numbers with one integer.
    pub const fn at(major: u64) -> Self {
        Position { major, minor: 0 }
    }
    /// A position with both parts.
    pub const fn new(major: u64, minor: u32) -> Self {
        Position { major, minor }
    }
    /// Order-preserving bytes.
    pub fn encode(self) -> [u8; 12] {
        let mut out = [0; 12];
        out[..8].copy_from_slice(&self.major.to_be_bytes());
        out[8..].copy_from_slice(&self.minor.to_be_bytes());
        out
    }
    /// The inverse of [`Position::encode`].
    pub fn decode(bytes: [u8; 12]) -> Self {
        let mut input = crate::codec::Reader::new(&bytes);
        Position { major: input.u64().unwrap_or(0), minor: input.u32().unwrap_or(0) }
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.minor {
            0 => write!(f, "{}", self.major),
            minor => write!(f, "{}.{minor}", self.major),
        }
    }
}

/// A message's place within one lane. The root partition is the lane's producer, so it is not
/// repeated; `child` numbers, in evaluation order, the outputs that one root message put into this
/// stream: the child indices of the fused steps, flattened. Order-preserving.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LanePoint {
    /// The root message's position.
    pub position: Position,
    /// Which of the root message's outputs.
    pub child: u32,
}

impl LanePoint {
    /// The point of the `child`-th output of the root message at `position`.
    pub const fn new(position: Position, child: u32) -> Self {
        LanePoint { position, child }
    }
    /// The point that is at or after everything derived from `position`.
    pub const fn through(position: Position) -> Self {
        LanePoint { position, child: u32::MAX }
    }
    /// Order-preserving bytes.
    pub fn encode(self) -> [u8; 16] {
        let mut out = [0; 16];
        out[..12].copy_from_slice(&self.position.encode());
        out[12..].copy_from_slice(&self.child.to_be_bytes());
        out
    }
    /// The inverse of [`LanePoint::encode`].
    pub fn decode(bytes: [u8; 16]) -> Self {
        let mut input = crate::codec::Reader::new(&bytes);
        let position = Position { major: input.u64().unwrap_or(0), minor: input.u32().unwrap_or(0) };
        LanePoint { position, child: input.u32().unwrap_or(0) }
    }
}

/// The globally unique, deterministic, order-preserving id of a message: what user code sees, and
/// what goes into headers and deduplication tokens.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MessageId {
    /// A source partition, or a transform partition that materialised the message.
    pub root: PartitionId,
    /// The position in the root.
    pub position: Position,
    /// The child index of each fused step since the root.
    pub children: Vec<u32>,
}

impl MessageId {
    /// The byte form: the root length-prefixed (self-delimiting), then fixed-width components, so
    /// that within one root byte order is id order, and a parent sorts before its children.
    pub fn encode(&self) -> Vec<u8> {
        let root = self.root.encode();
        let mut out = Vec::with_capacity(root.len() + 20 + 4 * self.children.len());
        crate::codec::put_bytes(&mut out, &root);
        out.extend_from_slice(&self.position.encode());
        for child in &self.children {
            out.extend_from_slice(&child.to_be_bytes());
        }
        out
    }
    /// The inverse of [`MessageId::encode`]; `None` for bytes it did not write.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = crate::codec::Reader::new(bytes);
        let root = PartitionId::decode(input.bytes()?)?;
        let position = Position::decode(input.array()?);
        let mut children = Vec::new();
        while !input.is_empty() {
            children.push(input.u32()?);
        }
        Some(MessageId { root, position, children })
    }
}
