//! Expressions: CEL's syntax and semantics, compiled to closures over lazily scanned fields, with exact
//! numbers. The differences to CEL are few and listed at [`Program`].
//!
//! The way of a record: a [`Scanner`] finds in one pass where the fields of a [`FieldSet`] are and notes it
//! in [`Slots`]; a [`Row`] is the record with its slots; a [`Program`] evaluates on a row and gives a
//! [`Value`] that borrows from the record wherever it can.
//!
//! ```
//! use onceward_connector::Codec;
//! use onceward_expr::{FieldSet, Program, Row, Scanner, Slots};
//!
//! let mut fields = FieldSet::new();
//! let late = Program::compile("has(delay) && delay > 15", &mut fields)?;
//! let fare = Program::compile("fare * 1.10", &mut fields)?;
//! let scanner = Scanner::new(&Codec::Json, &fields);
//! let mut slots = Slots::new(&fields);
//!
//! let record = br#"{"carrier": "UA", "delay": 20, "fare": 12.30}"#;
//! scanner.scan(record, &mut slots)?;
//! let row = Row::new(record, &slots, &scanner);
//! assert!(late.test(&row)?);
//! let mut json = Vec::new();
//! fare.write_json(&row, &mut json)?;
//! assert_eq!(json, b"13.5300");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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
pub use error::{BadArgument, BadValue, CompileError, EvalError, ScanError};
pub use fields::{FieldSet, Slots};
pub use program::Program;
pub use scan::{Row, Scanner, record_to_json};
pub use time::{Duration, Timestamp, parse_timestamp};
pub use value::{Entries, Value};
