//! Frontiers: per lane, how far its messages were taken or committed (TAKEN / COMMITTED).

use crate::message::{LanePoint, Position};

/// Everything at or below this point is done. `Frontier::default()` is "nothing seen".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Frontier(Option<LanePoint>);

impl Frontier {
    /// Nothing seen yet.
    pub const START: Frontier = Frontier(None);
    /// The lane has ended and everything of it is done.
    pub const END: Frontier =
        Frontier(Some(LanePoint::through(Position { major: u64::MAX, minor: u32::MAX })));

    /// Everything up to and with `point`.
    pub const fn at(point: LanePoint) -> Self {
        Frontier(Some(point))
    }
    /// Everything derived from root messages up to and with `position`.
    pub const fn through(position: Position) -> Self {
        Frontier(Some(LanePoint::through(position)))
    }
    /// Whether `point` is already done and must be dropped as a repeat.
    #[inline]
    pub fn covers(self, point: LanePoint) -> bool {
        self.0.is_some_and(|done| point <= done)
    }
    /// Whether everything derived from `position` is done.
    pub fn covers_position(self, position: Position) -> bool {
        self.covers(LanePoint::through(position))
    }
    /// The last point, `None` at the start.
    pub fn point(self) -> Option<LanePoint> {
        self.0
    }
    /// Whether the lane has ended.
    pub fn is_end(self) -> bool {
        self == Frontier::END
    }
    /// Bytes as persisted: empty for the start.
    pub fn encode(self, out: &mut Vec<u8>) {
        match self.0 {
            None => out.push(0),
            Some(point) => {
                out.push(1);
                out.extend_from_slice(&point.encode());
            }
        }
    }
    /// The inverse of [`Frontier::encode`].
    pub fn decode(input: &mut crate::codec::Reader<'_>) -> Option<Self> {
        match input.byte()? {
            0 => Some(Frontier::START),
            1 => Some(Frontier::at(LanePoint::decode(input.array()?))),
            _ => None,
        }
    }
}
