//! The `sqlite` sink: rows into a table of a SQLite database, exactly-once.
//!
//! *Architecture invariant:* this crate knows the connector contracts and the protocol's types, never the engine. What
//! is exactly-once about it is one row of the table `onceward_progress`, compared and set in the transaction of the
//! rows ([`progress`]); what is effectively-once, a version beside each row ([`versioned`]).

use std::sync::Arc;

use onceward_connector::Registry;

pub mod database;
pub mod error;
pub mod progress;
pub mod shape;
pub mod sink;
pub mod table;
pub mod value;
pub mod versioned;

#[cfg(test)]
mod tests;

/// Adds the connector of this crate: sink `sqlite`.
pub fn register(registry: &mut Registry) {
    registry.add_sink(Arc::new(sink::SqliteConnector));
}
