//! How far a source partition's rows are finished everywhere (CONTIGUOUS-PROGRESS).

use std::collections::VecDeque;

use crate::frontier::Frontier;
use crate::message::Position;

/// A place where reading may start again: everything up to `position`, with what the reader and the
/// watermark need to go on as if they had never stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResumePoint {
    /// The last row before the place; [`Position::ORIGIN`] at the start.
    pub position: Position,
    /// The connector's own note, for example a byte offset.
    pub token: Vec<u8>,
    /// The newest event time up to here, `i64::MIN` for none.
    pub max_event_time: i64,
    /// Rows up to here.
    pub rows: u64,
    /// Whether the partition ends here.
    pub end: bool,
}

impl ResumePoint {
    /// The start of a partition.
    pub fn start() -> Self {
        ResumePoint {
            position: Position::ORIGIN,
            token: Vec::new(),
            max_event_time: i64::MIN,
            rows: 0,
            end: false,
        }
    }
    /// The frontier of a consumer that has everything up to here.
    pub fn frontier(&self) -> Frontier {
        if self.end {
            Frontier::END
        } else if self.position == Position::ORIGIN {
            Frontier::START
        } else {
            Frontier::through(self.position)
        }
    }
    /// Bytes as persisted.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32 + self.token.len());
        out.push(u8::from(self.end));
        out.extend_from_slice(&self.position.encode());
        out.extend_from_slice(&self.max_event_time.to_be_bytes());
        out.extend_from_slice(&self.rows.to_be_bytes());
        crate::codec::put_bytes(&mut out, &self.token);
        out
    }
    /// The inverse of [`ResumePoint::encode`].
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = crate::codec::Reader::new(bytes);
        let end = input.byte()? != 0;
        let position = Position::decode(input.array()?);
        let max_event_time = input.i64()?;
        let rows = input.u64()?;
        let token = input.bytes()?.to_vec();
        input.is_empty().then_some(ResumePoint { position, token, max_event_time, rows, end })
    }
}

/// The places read past but not yet finished, in order; the first is always finished.
#[derive(Clone, Debug)]
pub struct Progress {
    points: VecDeque<ResumePoint>,
}

impl Progress {
    /// Starts at the stored place.
    pub fn new(finished: ResumePoint) -> Self {
        Progress { points: VecDeque::from([finished]) }
    }
    /// Notes a place that was read up to. One already known (a re-read) changes nothing.
    pub fn read_to(&mut self, point: ResumePoint) {
        if self.points.back().is_some_and(|last| last.frontier() < point.frontier()) {
            self.points.push_back(point);
        }
    }
    /// Finishes everything below `frontier`, the minimum over every lane and sink: highest wins is
    /// forbidden. Answers whether the finished place moved.
    pub fn finish(&mut self, frontier: Frontier) -> bool {
        let mut moved = false;
        while self.points.get(1).is_some_and(|next| next.frontier() <= frontier) {
            self.points.pop_front();
            moved = true;
        }
        moved
    }
    /// The largest place with everything below it finished.
    pub fn finished(&self) -> Option<&ResumePoint> {
        self.points.front()
    }
    /// How many places are open.
    pub fn open(&self) -> usize {
        self.points.len().saturating_sub(1)
    }
    /// The last place at or before `frontier`: where a rewind starts reading.
    pub fn at_or_before(&self, frontier: Frontier) -> Option<&ResumePoint> {
        self.points.iter().rev().find(|point| point.frontier() <= frontier)
    }
    /// The last place read to.
    pub fn read(&self) -> Option<&ResumePoint> {
        self.points.back()
    }
}
