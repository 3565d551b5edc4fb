//! Full id sets: telling repeats where the order of a lane cannot (FLOOR-MONOTONE).
//!
//! Ids of messages form a floor per root and a set above it; no clock is involved. Ids that clients choose have no
//! order, so they live for a stated time of event time, and one that is too old to judge is *expired*: counted, and never
//! taken as processed.

use std::collections::BTreeSet;

use crate::frontier::Frontier;
use crate::message::LanePoint;
use crate::watermark::Watermark;

/// What is known of an id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum IdVerdict {
    /// It was not seen: process it.
    New,
    /// It was seen: drop it.
    Repeat,
    /// It may have been seen and forgotten: neither process it nor take it as processed; count it.
    Expired,
}

/// The ids of one root that were seen: all up to a floor, and some above it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IdSet {
    floor: Frontier,
    above: BTreeSet<LanePoint>,
}

impl IdSet {
    /// A set as stored. Ids at or below the floor are dropped.
    pub fn new(floor: Frontier, above: impl IntoIterator<Item = LanePoint>) -> Self {
        IdSet { floor, above: above.into_iter().filter(|point| !floor.covers(*point)).collect() }
    }
    /// Everything up to here was seen.
    pub fn floor(&self) -> Frontier {
        self.floor
    }
    /// What was seen above the floor, in order.
    pub fn above(&self) -> impl Iterator<Item = LanePoint> {
        self.above.iter().copied()
    }
    /// How many ids are kept.
    pub fn len(&self) -> usize {
        self.above.len()
    }
    /// Whether no id is kept above the floor.
    pub fn is_empty(&self) -> bool {
        self.above.is_empty()
    }
    /// Whether `point` was seen. Never expired: the floor remembers.
    pub fn judge(&self, point: LanePoint) -> IdVerdict {
        if self.floor.covers(point) || self.above.contains(&point) {
            IdVerdict::Repeat
        } else {
            IdVerdict::New
        }
    }
    /// Notes `point` as seen. Answers whether it is to be stored: not if it was seen already.
    pub fn insert(&mut self, point: LanePoint) -> bool {
        !self.floor.covers(point) && self.above.insert(point)
    }
    /// Raises the floor to `to`, the root's committed finished position: nothing at or below it is sent again. Answers
    /// the ids to delete, in the same epoch as the new floor is stored. The floor never falls; a lower `to` changes
    /// nothing.
    pub fn raise_floor(&mut self, to: Frontier) -> Vec<LanePoint> {
        self.floor = self.floor.max(to);
        let mut gone = Vec::new();
        while let Some(first) = self.above.first().copied().filter(|point| self.floor.covers(*point)) {
            self.above.pop_first();
            gone.push(first);
        }
        gone
    }
}

/// The event time up to which ids that clients chose may have been forgotten, if they are kept for `keep_us`; `None` while
/// nothing is.
pub fn forgotten_through(watermark: Watermark, keep_us: i64) -> Option<i64> {
    (watermark != Watermark::NONE).then(|| watermark.0.saturating_sub(keep_us))
}

/// Judges an id that a client chose. `known` is whether it is remembered; `event_time` is its message's.
pub fn judge_client(event_time: i64, watermark: Watermark, keep_us: i64, known: bool) -> IdVerdict {
    if known {
        IdVerdict::Repeat
    } else if forgotten_through(watermark, keep_us).is_some_and(|forgotten| event_time <= forgotten) {
        IdVerdict::Expired
    } else {
        IdVerdict::New
    }
}
