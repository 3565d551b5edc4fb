//! Files and other light connectors: the `file` source, the `file` sink and the `stdout` sink.
//!
//! *Architecture invariant:* this crate knows the connector contracts and the protocol's types, never
//! the engine. Everything that is exactly-once about it is in two places: the token of
//! [`source`], which proves that the bytes before a place are still the same, and the numbered
//! manifests of [`sink`], each of which can be created once only.

use std::sync::Arc;

use onceward_connector::Registry;

pub mod compression;
pub mod sink;
pub mod source;
pub mod stdout;

/// Adds the connectors of this crate: source `file`, sinks `file` and `stdout`.
pub fn register(registry: &mut Registry) {
    registry.add_source(Arc::new(source::FileSourceConnector));
    registry.add_sink(Arc::new(sink::FileSinkConnector));
    registry.add_sink(Arc::new(stdout::StdoutConnector));
}
