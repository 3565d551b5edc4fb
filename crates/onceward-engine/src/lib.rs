//! The engine: jobs as synchronous state machines.
//!
//! A driver hands a job one [`Event`] at a time and carries out the [`Request`]s that come back. The
//! threads of the real runtime and the seeded scheduler of the simulator are two such drivers.
//!
//! *Architecture invariant:* nothing here spawns, sleeps, locks, reads a clock, draws a random number
//! or iterates a randomly seeded map. Time and entropy are arguments, I/O is a request.

pub mod aggregate;
pub mod controller;
pub mod delivery;
pub mod emission;
pub mod ending;
pub mod entropy;
pub mod error;
pub mod exchange;
pub mod fused;
pub mod ids;
pub mod job;
pub mod key_index;
pub mod keyed_job;
pub mod lane;
pub mod lane_in;
pub mod lane_out;
pub mod layout;
pub mod ledger;
pub mod operator;
pub mod output;
pub mod plan;
pub mod process;
pub mod recut;
pub mod respec;
pub mod source_job;
pub mod stored;
pub mod window_state;
pub mod windows;

pub use error::EngineError;
pub use job::{Event, Job, JobEnd, JobStats, Request, SinkStats, TargetAnswer, TargetCall};
pub use keyed_job::KeyedJob;
pub use lane::{LaneBatch, LaneMessage};
pub use layout::{Layout, LayoutPartition};
pub use plan::Plan;
pub use source_job::SourceJob;
pub use stored::Stored;
