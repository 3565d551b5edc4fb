//! The simulator: the real engine and the real embedded store on a seeded scheduler, a simulated clock,
//! a simulated disk and simulated targets.
//!
//! What it does to them: the machine loses power at any store write and any target call; jobs are
//! replaced while they run on as zombies; targets answer "unknown" before or after applying, and apply
//! late; fsyncs fail; everything is delivered in any order that the contracts allow. What it checks: an
//! oracle knows every row by a unique id (see [`oracle`]).
//!
//! The same seed gives the same trace.

mod control;
pub mod coverage;
pub mod data;
pub mod oracle;
pub mod run;
pub mod source;
pub mod target;
mod world;

pub use coverage::Coverage;
pub use run::{Report, Settings, Violation, run_seed};
