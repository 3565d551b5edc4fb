//! The Onceward library: prepare a pipeline against a store and run it in this process.
//!
//! *Architecture invariant:* this crate knows threads, clocks and connectors; every decision about
//! epochs, lanes, markers and time is made by the engine, which it only steps.

pub mod error;
pub mod prepare;
pub mod runtime;
pub mod status;

pub use error::RunError;
pub use prepare::{Prepared, RunOptions, registry};
pub use runtime::{RunEnd, Running, start};
pub use status::{ComputationStatus, SinkStatus, SourceStatus, Status};
