//! The producer's side of a lane.

use onceward_protocol::{Frontier, Generation, LaneKey, LanePoint, Session, Watermark};

use crate::job::Request;
use crate::lane::{LaneBatch, LaneEntry, LaneMessage};

/// How many batches may lie in a consumer's queue per lane.
pub const LANE_WINDOW: u64 = 8;

/// One lane as its producer sees it.
pub struct LaneOut {
    key: LaneKey,
    session: Option<Session>,
    sequence: u64,
    credit_below: u64,
    sent: Frontier,
    acked: Frontier,
    entries: Vec<LaneEntry>,
    bytes: Vec<u8>,
    watermarks: Vec<(u32, Watermark)>,
}

impl LaneOut {
    /// A lane without a session. `acked` is what the producer's own store record proves.
    pub fn new(key: LaneKey, acked: Frontier) -> Self {
        LaneOut {
            key,
            session: None,
            sequence: 0,
            credit_below: 0,
            sent: acked,
            acked,
            entries: Vec::new(),
            bytes: Vec::new(),
            watermarks: Vec::new(),
        }
    }
    /// The lane.
    pub fn key(&self) -> LaneKey {
        self.key
    }
    /// How far the lane was sent in this session.
    pub fn sent(&self) -> Frontier {
        self.sent
    }
    /// What the consumer has committed.
    pub fn acked(&self) -> Frontier {
        self.acked
    }
    /// Whether a batch may be sent now.
    pub fn is_ready(&self) -> bool {
        self.session.is_some() && self.sequence < self.credit_below
    }
    /// Whether a session is open.
    pub fn is_open(&self) -> bool {
        self.session.is_some()
    }

    /// Tells the consumer that the job is there.
    pub fn hello(&self, own: Generation, out: &mut Vec<Request>) {
        let message = LaneMessage::Hello { lane: self.key, producer: own };
        out.push(Request::Lane { to: self.key.consumer, message });
    }
    /// Takes what the consumer says. Answers where a session that it opened starts.
    pub fn take(
        &mut self,
        message: &LaneMessage,
        own: Generation,
        out: &mut Vec<Request>,
    ) -> Option<Frontier> {
        match message {
            LaneMessage::Invite { .. } => self.hello(own, out),
            LaneMessage::Open { session, frontier } => {
                return self.open(*session, *frontier, own).then_some(*frontier);
            }
            LaneMessage::Ack { session, frontier } => drop(self.acknowledge(*session, *frontier)),
            LaneMessage::Credit { session, below } => self.credit(*session, *below),
            LaneMessage::Hello { .. } | LaneMessage::Batch(_) | LaneMessage::Idle { .. } => {}
        }
        None
    }
    /// The layout changed: lanes that stay are kept as they are, new ones begin with what was acknowledged as
    /// `acked` and are announced.
    pub fn rewire(
        lanes: &mut Vec<LaneOut>,
        keys: impl IntoIterator<Item = LaneKey>,
        acked: Frontier,
        own: Generation,
        out: &mut Vec<Request>,
    ) {
        let mut old = std::mem::take(lanes);
        for key in keys {
            match old.iter().position(|lane| lane.key == key) {
                Some(index) => lanes.push(old.swap_remove(index)),
                None => {
                    let lane = LaneOut::new(key, acked);
                    lane.hello(own, out);
                    lanes.push(lane);
                }
            }
        }
    }

    /// A consumer opens a session; `own` is this producer's generation. An older consumer than the one
    /// known is a zombie, and so is one whose committed frontier is behind what the partition has
    /// acknowledged: both are ignored. Answers whether a session was opened.
    pub fn open(&mut self, session: Session, frontier: Frontier, own: Generation) -> bool {
        if session.producer != own || session.lane != self.key {
            return false;
        }
        if self.session.is_some_and(|known| known.consumer.number > session.consumer.number) {
            return false;
        }
        if frontier < self.acked {
            return false;
        }
        self.session = Some(session);
        self.sequence = 0;
        self.credit_below = LANE_WINDOW;
        self.sent = frontier;
        self.acked = self.acked.max(frontier);
        self.discard();
        true
    }
    /// Takes an acknowledgement of the open session.
    pub fn acknowledge(&mut self, session: Session, frontier: Frontier) -> bool {
        let mine = self.session == Some(session);
        if mine {
            self.acked = self.acked.max(frontier);
            // An epoch that was on its way when the session was opened: no need to send it again.
            self.sent = self.sent.max(frontier);
        }
        mine
    }
    /// Takes a credit of the open session.
    pub fn credit(&mut self, session: Session, below: u64) {
        if self.session == Some(session) {
            self.credit_below = self.credit_below.max(below + LANE_WINDOW);
        }
    }

    /// Adds a message to the batch being built, unless this session was already sent it.
    #[inline]
    pub fn push(&mut self, point: LanePoint, hash: u64, event_time: i64, key: &[u8], args: &[u8]) {
        if self.sent.covers(point) {
            return;
        }
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(args);
        self.entries.push(LaneEntry {
            point,
            hash,
            event_time,
            start,
            key_len: key.len() as u32,
            args_len: args.len() as u32,
        });
    }
    /// Adds a watermark at this place of the lane.
    #[inline]
    pub fn watermark(&mut self, watermark: Watermark) {
        let index = self.entries.len() as u32;
        match self.watermarks.last_mut() {
            Some((at, last)) if *at == index => *last = watermark,
            Some((_, last)) if *last == watermark => {}
            _ => self.watermarks.push((index, watermark)),
        }
    }
    /// Tells the consumer that nothing has come for a while. Before the session is open there is nobody to tell.
    pub fn rest(&self, out: &mut Vec<Request>) {
        if let Some(session) = self.session {
            out.push(Request::Lane { to: self.key.consumer, message: LaneMessage::Idle { session } });
        }
    }
    /// Drops what was built and not sent: it is computed again.
    pub fn discard(&mut self) {
        self.entries.clear();
        self.bytes.clear();
        self.watermarks.clear();
    }
    /// Sends what was built, with the promise that it is everything through `through`.
    pub fn flush(&mut self, through: Frontier, out: &mut Vec<Request>) {
        let Some(session) = self.session else { return };
        if through <= self.sent {
            self.watermarks.clear();
            return;
        }
        // The next batch is most likely about as large; after the end there is none.
        let room = |len: usize| if through.is_end() { 0 } else { len + len / 4 };
        let (entries, bytes) = (room(self.entries.len()), room(self.bytes.len()));
        let batch = LaneBatch {
            session,
            sequence: self.sequence,
            entries: std::mem::replace(&mut self.entries, Vec::with_capacity(entries)),
            bytes: std::mem::replace(&mut self.bytes, Vec::with_capacity(bytes)),
            watermarks: std::mem::take(&mut self.watermarks),
            through,
        };
        self.sequence += 1;
        self.sent = through;
        out.push(Request::Lane { to: self.key.consumer, message: LaneMessage::Batch(Box::new(batch)) });
    }
}
