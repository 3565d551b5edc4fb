//! Expressions: CEL's syntax and semantics, compiled to closures over lazily scanned fields, with exact
//! numbers. The differences to CEL are few and listed at [`Program`].
//!
//! The way of a record: a [`Scanner`] finds in one pass where the fields of a [`FieldSet`] are and notes it
//! in [`Slots`]; a [`Row`] is the record with its slots; a [`Program`] evaluates on a row and gives a
//! [`Value`] that borrows from the record wherever it can.
//!
//! *Architecture invariant:* nothing here does I/O, reads a clock, draws a random number or depends on
//! anything but its arguments: an expression gives the same value for the same record for ever.

mod decimal;
mod error;
mod fields;
mod program;
mod scan;
mod syntax;
mod time;
mod value;
mod wide;

pub use decimal::{Decimal, MAX_SCALE, QUOTIENT_SCALE};
pub use error::{BadValue, CompileError, EvalError, ScanError};
pub use fields::{FieldSet, Slots};
pub use program::Program;
pub use scan::{Row, Scanner, record_to_json};
pub use time::{Duration, Timestamp, parse_timestamp};
pub use value::{Entries, Value};
