//! Commands to a pipeline: over a socket to the process that runs it, or in the store if none does.
//!
//! *Architecture invariant:* nothing is decided here about states; a command becomes a question to the run's controller
//! or to the library, and the answer becomes text and an exit code.

mod changes;
mod client;
mod demands;
mod error;
mod looks;
mod server;
mod socket;
mod target;
mod wire;

pub use changes::{rescale, reset};
pub use client::{LOOK_EVERY, PATIENCE};
pub use demands::{pause, resume, stop};
pub use error::ControlError;
pub use looks::{list, logs, status};
pub use server::Server;
pub use socket::{Bound, connect};
