//! What every function of the protocol guarantees for all inputs.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "all of this is tests")]

mod balance;
mod chain;
mod cursor;
mod encodings;
mod given;
mod guarantee;
mod idset;
mod keyrange;
mod lease;
mod messages;
mod progress;
mod recut;
mod routing;
mod session;
mod state;
mod time;
