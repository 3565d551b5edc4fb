//! What connectors and the engine agree on: records, config schemas, guarantee facts, the source
//! contract and the sink contracts, and the suites every connector must pass.
//!
//! *Architecture invariant:* the engine and the manifest compiler know this crate and never a
//! connector; a connector knows this crate and never the engine.

pub mod config;
pub mod contract;
pub mod error;
pub mod record;
pub mod registry;
pub mod sink;
pub mod source;

pub use config::{Config, ConfigSchema, ConfigValue, Field, FieldKind};
pub use error::ConnectorError;
pub use record::{Codec, Column, CsvSchema, FieldType, Record, RecordBatch};
pub use registry::{Registry, SinkConnector, SourceConnector};
pub use sink::{
    BlockPolicy, PlainWriter, ProgressWriter, RowChunk, Sink, SinkBlock, SinkContract, StreamShape,
    TargetError, Writer,
};
pub use source::{Read, ReadLimits, Source, SourceFacts, SourceReader};
