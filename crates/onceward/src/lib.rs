//! The Onceward library: prepare a pipeline against a store and run it in this process.
//!
//! A pipeline may name functions written in Rust. This one numbers the messages of every key:
//!
//! ```
//! use onceward::{Context, Function, FunctionError, Message, ProcessFunction};
//!
//! struct Number;
//!
//! impl ProcessFunction for Number {
//!     fn on_message(&mut self, message: &Message<'_>, context: &mut dyn Context) -> Result<(), FunctionError> {
//!         let seen = context.state("seen").map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()));
//!         context.set_state("seen", &(seen + 1).to_le_bytes());
//!         let key = String::from_utf8_lossy(message.key);
//!         context.emit(format!(r#"{{"of":{key},"number":{}}}"#, seen + 1).as_bytes());
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let manifest = r#"
//! apiVersion: onceward.dev/v1
//! kind: Pipeline
//! metadata: { name: numbered }
//! spec:
//!   sources:
//!     made: { type: generator, config: { rows: 1000, keys: 10 } }
//!   computations:
//!     numbered: { inputs: [made], groupBy: [key], process: { function: number } }
//!   sinks:
//!     out: { inputs: [numbered], type: file, config: { path: out, format: jsonl } }
//! "#;
//! let mut registry = onceward::registry();
//! registry.add_function("number", Function::process(|_| Ok(Number)));
//! let folder = tempfile::tempdir()?;
//! let pipeline = onceward::pipeline(manifest, folder.path(), &registry)?;
//! let options = onceward::RunOptions { data_dir: folder.path().join("state"), workers: 2, rate: None, reset: Default::default() };
//! let prepared = onceward::Prepared::new(pipeline, &registry, options)?;
//! let mut running = onceward::start(prepared)?;
//! let end = running.wait(std::time::Duration::from_secs(60)).ok_or("still running")??;
//! assert_eq!(end, onceward::RunEnd::Completed);
//! assert_eq!(running.status().sinks[0].delivered, 1000);
//! # Ok(())
//! # }
//! ```
//!
//! To test a function without files, threads or waiting, and to kill it after every step that the engine makes, see
//! [`harness`].
//!
//! *Architecture invariant:* this crate knows threads, clocks and connectors; every decision about
//! epochs, lanes, markers and time is made by the engine, which it only steps.

pub mod error;
pub mod harness;
pub mod offline;
pub mod prepare;
mod respec;
pub mod runtime;
pub mod status;

pub use error::RunError;
pub use onceward_connector::{
    Context, Function, FunctionError, Message, MessageFunction, Parents, ProcessFunction, Registry, Timer,
    TimerKind,
};
pub use onceward_engine::controller::Command;
pub use onceward_protocol::state::{Demand, PipelineState};
pub use prepare::{Prepared, RunOptions, pipeline, registry};
pub use runtime::{Remote, RunEnd, Running, start};
pub use status::{ComputationStatus, JobStatus, LogLine, SinkStatus, SourceStatus, Status};
