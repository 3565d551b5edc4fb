//! What every function of the protocol guarantees for all inputs.

mod chain;
mod cursor;
mod encodings;
mod given;
mod guarantee;
mod keyrange;
mod messages;
mod progress;
mod session;
mod time;
