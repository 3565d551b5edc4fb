//! What travels on a lane.

use onceward_protocol::{Frontier, Generation, LaneKey, LanePoint, Session, Watermark};

/// One message in a batch: its point, its key's routing hash (computed once, carried on), its event
/// time, and where key and arguments lie in the batch's buffer. The key comes first, the arguments follow.
#[derive(Clone, Copy, Debug)]
pub struct LaneEntry {
    /// The message's place in the lane.
    pub point: LanePoint,
    /// Routing hash of the key.
    pub hash: u64,
    /// Microseconds since 1970.
    pub event_time: i64,
    /// First byte of the key.
    pub start: u32,
    /// Bytes of the key.
    pub key_len: u32,
    /// Bytes of the arguments.
    pub args_len: u32,
}

/// Messages of one lane, in lane order, and everything that is true after them.
#[derive(Clone, Debug)]
pub struct LaneBatch {
    /// The session it belongs to.
    pub session: Session,
    /// Dense within the session, from 0.
    pub sequence: u64,
    /// The messages, points strictly growing.
    pub entries: Vec<LaneEntry>,
    /// Keys and arguments.
    pub bytes: Vec<u8>,
    /// Watermarks, each in force before the entry with that index.
    pub watermarks: Vec<(u32, Watermark)>,
    /// Everything of the lane up to here is in this batch or before it.
    pub through: Frontier,
}

impl LaneBatch {
    /// One entry's key.
    #[inline]
    pub fn key(&self, entry: &LaneEntry) -> &[u8] {
        let start = entry.start as usize;
        &self.bytes[start..start + entry.key_len as usize]
    }
    /// One entry's arguments.
    #[inline]
    pub fn args(&self, entry: &LaneEntry) -> &[u8] {
        let start = entry.start as usize + entry.key_len as usize;
        &self.bytes[start..start + entry.args_len as usize]
    }
}

/// Everything that two jobs say to each other.
#[derive(Clone, Debug)]
pub enum LaneMessage {
    /// Consumer to producer: I am here, announce yourself.
    Invite {
        /// The lane.
        lane: LaneKey,
        /// The consuming job.
        consumer: Generation,
    },
    /// Producer to consumer: I am here, open a session.
    Hello {
        /// The lane.
        lane: LaneKey,
        /// The producing job.
        producer: Generation,
    },
    /// Consumer to producer: a session, starting after what I have committed.
    Open {
        /// The session.
        session: Session,
        /// The consumer's committed frontier.
        frontier: Frontier,
    },
    /// Producer to consumer: messages.
    Batch(Box<LaneBatch>),
    /// Producer to consumer: after everything sent so far nothing has come for a while (`idleAfter`), so that the lane
    /// must not hold the watermark until the next batch.
    Idle {
        /// The session.
        session: Session,
    },
    /// Consumer to producer: batches below this sequence number have left my queue.
    Credit {
        /// The session.
        session: Session,
        /// First sequence number not yet taken.
        below: u64,
    },
    /// Consumer to producer: everything up to here is in a committed epoch (ACK-IMPLIES-DURABLE).
    Ack {
        /// The session.
        session: Session,
        /// The committed frontier.
        frontier: Frontier,
    },
}

impl LaneMessage {
    /// The lane it is about.
    pub fn lane(&self) -> LaneKey {
        match self {
            LaneMessage::Invite { lane, .. } | LaneMessage::Hello { lane, .. } => *lane,
            LaneMessage::Open { session, .. }
            | LaneMessage::Idle { session }
            | LaneMessage::Credit { session, .. }
            | LaneMessage::Ack { session, .. } => session.lane,
            LaneMessage::Batch(batch) => batch.session.lane,
        }
    }
}
