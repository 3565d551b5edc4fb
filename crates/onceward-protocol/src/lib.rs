//! The protocol of Onceward as types and pure functions.
//!
//! Every rule has a name (ID-UNIQUE, CHAIN, MARKER-CAS, ...); the names are explained in
//! `ARCHITECTURE.md` and used in comments, assertions and tests.
//!
//! *Architecture invariant:* nothing here does I/O, reads a clock, draws a random number, spawns or
//! locks. Entropy and time are arguments. What is decided here is decided the same way in the
//! running engine, in the simulator and in the model check.

pub mod balance;
pub mod chain;
pub mod codec;
pub mod cursor;
pub mod frontier;
pub mod generation;
pub mod guarantee;
pub mod identity;
pub mod idset;
pub mod keyrange;
pub mod lease;
pub mod message;
pub mod mutants;
pub mod recut;
pub mod resume;
pub mod routing;
pub mod session;
pub mod state;
pub mod watermark;

pub use chain::{CommitOutcome, CommitPermit, Fenced, Head, PartitionHead};
pub use cursor::{Cursor, CursorPhase, Marker, OpenDecision, StopReason};
pub use frontier::Frontier;
pub use generation::{Fence, Generation};
pub use identity::{Branch, Creation, PartitionId, SinkIdentity};
pub use keyrange::{KeyRange, routing_hash};
pub use message::{LanePoint, MessageId, Position};
pub use mutants::{Mutant, Mutants};
pub use session::{LaneKey, Session, SessionGate, Verdict};
pub use watermark::Watermark;
