//! Sessions of a lane (SESSION-BOUND).

use crate::generation::Generation;
use crate::mutants::{Mutant, Mutants};

/// A lane by the numbers its pipeline run gave to producer, stream and consumer. The persisted name
/// of a lane is (producing PartitionId, stream name, consuming PartitionId).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LaneKey {
    /// The producing partition's number.
    pub producer: u32,
    /// The stream's number.
    pub stream: u32,
    /// The consuming partition's number.
    pub consumer: u32,
}

/// One conversation over a lane: opened by a handshake with the consuming job, dying with either
/// job. Everything sent carries it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Session {
    /// The lane.
    pub lane: LaneKey,
    /// The producing job.
    pub producer: Generation,
    /// The consuming job.
    pub consumer: Generation,
    /// Drawn at random by the consuming job for each open.
    pub nonce: u64,
}

/// The consumer's side of a session: which one is open, and which sequence number comes next.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionGate {
    open: Option<Session>,
    next: u64,
}

/// What to do with something that arrived on a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is next in the open session.
    Accept,
    /// It belongs to no open session: drop it without an answer.
    Discard,
    /// Something before it is missing: the session must be opened anew.
    Gap,
}

impl SessionGate {
    /// Opens `session`; whatever was open before is closed by that.
    pub fn open(&mut self, session: Session) {
        self.open = Some(session);
        self.next = 0;
    }
    /// Closes whatever is open.
    pub fn close(&mut self) {
        self.open = None;
    }
    /// The open session.
    pub fn session(&self) -> Option<Session> {
        self.open
    }
    /// Judges something that carries `session` and the dense number `sequence`.
    pub fn judge(&mut self, session: Session, sequence: u64, mutants: Mutants) -> Verdict {
        if mutants.has(Mutant::SessionOutlivesJob) {
            return Verdict::Accept;
        }
        if self.open != Some(session) {
            return Verdict::Discard;
        }
        if sequence != self.next {
            return Verdict::Gap;
        }
        self.next += 1;
        Verdict::Accept
    }
}
