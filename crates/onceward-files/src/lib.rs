//! Files and other light connectors: the sources `file` and `generator`, the sinks `file`, `stdout` and `blackhole`.
//!
//! *Architecture invariant:* this crate knows the connector contracts and the protocol's types, never
//! the engine. Everything that is exactly-once about it is in two places: the token of
//! [`source`], which proves that the bytes before a place are still the same, and the numbered
//! manifests of [`sink`], each of which can be created once only.

use std::sync::Arc;

use onceward_connector::Registry;

pub mod blackhole;
pub mod compression;
pub mod generator;
pub mod sink;
pub mod source;
pub mod stdout;

/// Adds the connectors of this crate: the sources `file` and `generator`, the sinks `file`, `stdout` and `blackhole`.
pub fn register(registry: &mut Registry) {
    registry.add_source(Arc::new(source::FileSourceConnector));
    registry.add_source(Arc::new(generator::GeneratorConnector));
    registry.add_sink(Arc::new(sink::FileSinkConnector));
    registry.add_sink(Arc::new(stdout::StdoutConnector));
    registry.add_sink(Arc::new(blackhole::BlackholeConnector::default()));
}

#[cfg(test)]
mod tests {
    use onceward_connector::ConfigSchema;

    use super::*;

    const FILE_DOCS: &str = include_str!("../../../docs/connectors/file.md");
    const GENERATOR_DOCS: &str = include_str!("../../../docs/connectors/generator.md");
    const BLACKHOLE_DOCS: &str = include_str!("../../../docs/connectors/blackhole.md");
    const STDOUT_DOCS: &str = include_str!("../../../docs/connectors/stdout.md");

    /// Every key has a row in the docs, with its default.
    fn documents(docs: &str, schema: &ConfigSchema) {
        for field in schema.fields {
            let row = docs.lines().find(|line| line.starts_with(&format!("| `{}` |", field.name)));
            let row = row.unwrap_or_else(|| panic!("{}: no row for `{}`", schema.connector, field.name));
            let default = field.default.map(|default| format!("| `{default}` |"));
            assert!(default.is_none_or(|default| row.contains(&default)), "{}: {row}", schema.connector);
            assert_eq!(row.contains("required |"), field.required, "{}: {row}", schema.connector);
        }
    }

    #[test]
    fn the_docs_name_every_key_and_its_default() {
        let mut registry = Registry::default();
        register(&mut registry);
        let (source_docs, sink_docs) = FILE_DOCS.split_once("## Sink").expect("a section about the sink");
        documents(source_docs, registry.source("file").expect("registered").schema());
        documents(sink_docs, registry.sink("file").expect("registered").schema());
        documents(GENERATOR_DOCS, registry.source("generator").expect("registered").schema());
        documents(BLACKHOLE_DOCS, registry.sink("blackhole").expect("registered").schema());
        documents(STDOUT_DOCS, registry.sink("stdout").expect("registered").schema());
    }
}
