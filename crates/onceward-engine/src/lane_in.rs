//! The consumer's side of a lane: SESSION-BOUND, LANE-PREFIX, TAKEN / COMMITTED.

use std::collections::VecDeque;

use onceward_protocol::recut::LaneState;
use onceward_protocol::session::SessionGate;
use onceward_protocol::{Frontier, Generation, LaneKey, Mutants, Session, Verdict};
use onceward_store::{TableId, WriteBatch};

use crate::job::Request;
use crate::lane::{LaneBatch, LaneMessage};
use crate::stored::{encode_lane, subs_key};

/// One lane as its consumer sees it.
pub struct LaneIn {
    key: LaneKey,
    gate: SessionGate,
    queue: VecDeque<Box<LaneBatch>>,
    /// Entries of the head batch that are already taken.
    cursor: usize,
    /// Watermarks of the head batch that are already in force.
    watermark_cursor: usize,
    /// First sequence number that has not left the queue.
    below: u64,
    /// Under this name frontier and watermark are stored.
    stored_key: Vec<u8>,
    /// What has been taken into memory, and the watermark as of that place.
    pub state: LaneState,
    /// Whether the stored record has sub-ranges.
    stored_subs: bool,
    /// What a committed epoch contains.
    pub committed: Frontier,
    /// Whether taken or watermark moved since the last epoch was closed.
    pub dirty: bool,
    /// Nothing has come for a while: what has is taken, and the lane follows the others' watermark.
    idle: bool,
    /// The layout has retired the producer: the lane goes with the next epoch.
    pub leaving: bool,
}

impl LaneIn {
    /// A lane with what is stored of it.
    pub fn new(key: LaneKey, stored_key: Vec<u8>, stored: Option<LaneState>) -> Self {
        let state = stored.unwrap_or_default();
        LaneIn {
            key,
            gate: SessionGate::default(),
            queue: VecDeque::new(),
            cursor: 0,
            watermark_cursor: 0,
            below: 0,
            stored_key,
            stored_subs: !state.subs.is_empty(),
            committed: state.taken,
            state,
            dirty: false,
            idle: false,
            leaving: false,
        }
    }
    /// The lane.
    pub fn key(&self) -> LaneKey {
        self.key
    }
    /// The open session.
    pub fn session(&self) -> Option<Session> {
        self.gate.session()
    }
    /// The producing job announced itself. The session that is open with it already stays.
    pub fn hello(&mut self, producer: Generation, consumer: Generation, nonce: u64, out: &mut Vec<Request>) {
        if self.gate.session().is_none_or(|known| known.producer != producer) {
            self.open(producer, consumer, nonce, out);
        }
    }
    /// Opens a new session to the producing job: it starts at the committed frontier, and whatever of an
    /// older session is still queued is dropped.
    pub fn open(&mut self, producer: Generation, consumer: Generation, nonce: u64, out: &mut Vec<Request>) {
        if self.gate.session().is_some_and(|known| known.producer.number > producer.number) {
            return;
        }
        let session = Session { lane: self.key, producer, consumer, nonce };
        self.gate.open(session);
        self.idle = false;
        self.queue.clear();
        self.cursor = 0;
        self.watermark_cursor = 0;
        self.below = 0;
        let message = LaneMessage::Open { session, frontier: self.committed };
        out.push(Request::Lane { to: self.key.producer, message });
    }
    /// Takes a batch into the queue, or not.
    pub fn receive(&mut self, batch: Box<LaneBatch>, mutants: Mutants) -> Verdict {
        let verdict = self.gate.judge(batch.session, batch.sequence, mutants);
        if verdict == Verdict::Accept {
            self.idle = false;
            self.queue.push_back(batch);
        }
        verdict
    }
    /// Takes the head batch out for processing; give it back with [`LaneIn::put_back`] or end it with
    /// [`LaneIn::finish_head`].
    pub fn take_head(&mut self) -> Option<(Box<LaneBatch>, usize, usize)> {
        self.queue.pop_front().map(|batch| (batch, self.cursor, self.watermark_cursor))
    }
    /// Gives a batch back of which a prefix was taken (LANE-PREFIX).
    pub fn put_back(&mut self, batch: Box<LaneBatch>, cursor: usize, watermark_cursor: usize) {
        self.queue.push_front(batch);
        self.cursor = cursor;
        self.watermark_cursor = watermark_cursor;
    }
    /// The head batch was taken whole.
    pub fn finish_head(&mut self, batch: &LaneBatch, out: &mut Vec<Request>) {
        self.cursor = 0;
        self.watermark_cursor = 0;
        if self.state.taken < batch.through {
            self.state.taken = batch.through;
        }
        self.state.coalesce();
        self.dirty = true;
        self.below = self.below.max(batch.sequence + 1);
        if let Some(session) = self.gate.session() {
            let message = LaneMessage::Credit { session, below: self.below };
            out.push(Request::Lane { to: self.key.producer, message });
        }
    }
    /// Writes frontier and watermark.
    pub fn write(&mut self, writes: &mut WriteBatch) {
        let state = &self.state;
        writes.put(TableId::META, &self.stored_key, &encode_lane(state.taken, state.watermark));
        if self.stored_subs && state.subs.is_empty() {
            writes.delete(TableId::META, &subs_key(&self.stored_key));
            self.stored_subs = false;
        }
    }
    /// Removes what is stored: the layout retires the producer in the same epoch.
    pub fn remove(&self, writes: &mut WriteBatch) {
        writes.delete(TableId::META, &self.stored_key);
        writes.delete(TableId::META, &subs_key(&self.stored_key));
    }
    /// The producer says that nothing has come for a while.
    pub fn rest(&mut self, session: Session) {
        self.idle |= self.gate.session() == Some(session);
    }
    /// Whether the lane waits for a source that brings nothing, and everything that it brought is taken.
    pub fn is_idle(&self) -> bool {
        self.idle && self.queue.is_empty()
    }
    /// Whether something is queued.
    pub fn has_input(&self) -> bool {
        !self.queue.is_empty()
    }
    /// Acknowledges `frontier` to the producer.
    pub fn acknowledge(&self, frontier: Frontier, out: &mut Vec<Request>) {
        if let Some(session) = self.gate.session() {
            out.push(Request::Lane {
                to: self.key.producer,
                message: LaneMessage::Ack { session, frontier },
            });
        }
    }
}
