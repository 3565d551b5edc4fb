//! Manifests: strict parsing with the line of every value, defaults, validation, JSON Schema and the
//! guarantee report.
//!
//! A manifest goes through these stages, each in a module of its own: text to a tree with places
//! (`yaml`), `--set` (`overrides`), variables (`expand`), the walk along the field tables (`check`,
//! with the tables in `keys`), the graph of names (`graph`), the model (`read`, `model`) and the rules
//! that span several fields (`computations`, `grouping`, `functions`, `event_time`, `sinks`).
//! Problems are collected through all of them. From the model are derived: the guarantee report
//! (`guarantee`, with what each element says in `promise`), the form of each outbox (`outbox`), and what a
//! manifest changes against the one that made the state (`canonical`, `change`).
//!
//! *Architecture invariant:* nothing here does I/O, and no connector is known by more than the tables
//! and promises that the registry gives. The field tables are the only list of keys: the checker, the
//! JSON Schema and the reference in the docs come from them.

mod aggregate;
mod canonical;
mod change;
mod check;
pub mod code;
mod computations;
mod config;
mod diagnostic;
mod event_time;
mod expand;
mod expression;
mod functions;
mod graph;
mod grouping;
mod guarantee;
mod keys;
pub mod model;
mod nearest;
mod outbox;
mod overrides;
mod parse;
mod promise;
mod read;
mod reference;
mod render;
mod schema;
mod shape;
mod sinks;
mod streams;
mod table;
#[cfg(test)]
mod tests;
mod units;
mod value;
mod yaml;

pub use canonical::{canonical, diff};
pub use change::{Change, ChangeClass, changes};
pub use diagnostic::{Diagnostic, Errors, Severity};
pub use guarantee::{GuaranteeReport, MAX_PATHS, report};
pub use model::*;
pub use outbox::{Outbox, outbox};
pub use parse::{ManifestInput, Parsed, parse};
pub use reference::reference;
pub use render::render;
pub use schema::json_schema;
pub use shape::{WINDOW_END, WINDOW_START, stream_shape};
pub use streams::{Producer, streams};
pub use units::{format_duration, parse_duration, parse_size};
