//! What connectors and the engine agree on: records, config schemas, guarantee facts, the source
//! contract and the sink contracts, and the suites every connector must pass.
//!
//! *Architecture invariant:* the engine and the manifest compiler know this crate and never a
//! connector; a connector knows this crate and never the engine.

pub mod config;
pub mod contract;
pub mod error;
pub mod fields;
pub mod function;
pub mod record;
pub mod registry;
pub mod row_name;
pub mod sink;
pub mod source;
pub mod writer;

pub use config::{Config, ConfigSchema, ConfigValue, Field, FieldKind};
pub use error::ConnectorError;
pub use fields::Fields;
pub use function::{
    Context, Function, FunctionError, FunctionKind, Message, MessageFunction, Parents, ProcessFunction,
    Timer, TimerKind,
};
pub use record::{Codec, Column, CsvSchema, FieldType, Record, RecordBatch};
pub use registry::{Registry, SinkConnector, SourceConnector};
pub use row_name::{RowVersion, idempotency_key, target_name};
pub use sink::{BlockPolicy, RowChunk, Sink, SinkBlock, SinkContract, StreamShape};
pub use source::{Read, ReadLimits, Source, SourceFacts, SourceReader};
pub use writer::{
    BlockToken, PlainWriter, ProgressWriter, SequenceWriter, TargetError, TokenMemory, TokenWriter, Writer,
};
