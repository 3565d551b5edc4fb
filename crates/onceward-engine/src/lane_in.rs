//! The consumer's side of a lane: SESSION-BOUND, LANE-PREFIX, TAKEN / COMMITTED.

use std::collections::VecDeque;

use onceward_protocol::session::SessionGate;
use onceward_protocol::{Frontier, Generation, LaneKey, Mutants, Session, Verdict, Watermark};

use crate::job::Request;
use crate::lane::{LaneBatch, LaneMessage};

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
    pub stored_key: Vec<u8>,
    /// What has been taken into memory.
    pub taken: Frontier,
    /// What a committed epoch contains.
    pub committed: Frontier,
    /// The lane's watermark as of `taken`.
    pub watermark: Watermark,
    /// Whether taken or watermark moved since the last epoch was closed.
    pub dirty: bool,
}

impl LaneIn {
    /// A lane with what is stored of it.
    pub fn new(key: LaneKey, stored_key: Vec<u8>, frontier: Frontier, watermark: Watermark) -> Self {
        LaneIn {
            key,
            gate: SessionGate::default(),
            queue: VecDeque::new(),
            cursor: 0,
            watermark_cursor: 0,
            below: 0,
            stored_key,
            taken: frontier,
            committed: frontier,
            watermark,
            dirty: false,
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
        if self.taken < batch.through {
            self.taken = batch.through;
        }
        self.dirty = true;
        self.below = self.below.max(batch.sequence + 1);
        if let Some(session) = self.gate.session() {
            let message = LaneMessage::Credit { session, below: self.below };
            out.push(Request::Lane { to: self.key.producer, message });
        }
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
