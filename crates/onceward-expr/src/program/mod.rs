//! Programs: compiled expressions.

mod access;
mod calendar;
mod compile;
mod context;
mod convert;
mod fast;
mod functions;
mod macros;
mod operators;
mod text;

use std::fmt;

use crate::error::{CompileError, EvalError};
use crate::fields::FieldSet;
use crate::scan::Row;
use crate::syntax;
use crate::value::Value;
use context::Code;

/// A compiled expression.
///
/// The language is CEL, with these differences:
///
/// - A name is a top-level field of the record. Reading an absent one is [`EvalError::Absent`], and
///   `has(field)` takes a bare name as well as a selection. Any name can stand between backticks.
/// - Literals with a point or an exponent are exact decimals, and so are JSON numbers that are no 64-bit
///   integers. Decimals mix with ints and uints in arithmetic; a result that would have to be rounded or
///   wrapped is an error. Only `/` rounds: a quotient is exact if it terminates within 38 digits, otherwise
///   rounded half to even at 20 fractional digits (or at the dividend's, if it has more). An int divided by
///   an int truncates as in CEL; `decimal(x) / y` does not.
/// - Floating-point numbers exist only through `double()`; a decimal that meets one is converted to it.
/// - `decimal()`, `lowerAscii()`, `upperAscii()`, `trim()`, `split()` and `replace()` are there; `type()`,
///   messages and time zone names (other than `UTC`) are not.
/// - `timestamp()` also reads `YYYY-MM-DD HH:MM:SS[.fraction]` and `YYYY-MM-DD`, both in UTC.
/// - There is no clock, no randomness and no I/O, so that a program can be replayed.
///
/// Sizes are bounded: 64 KiB of source, 64 nested brackets, 160 levels of operators, lists of 65,536 items,
/// texts of 1 MiB made by an expression, and a million units of work per evaluation (about one per item
/// visited or 64 bytes handled).
pub struct Program {
    code: Code,
    field: Option<usize>,
    slots: Vec<usize>,
}

impl Program {
    /// Compiles an expression; the fields it reads are interned. After an error `fields` is as it was.
    pub fn compile(source: &str, fields: &mut FieldSet) -> Result<Program, CompileError> {
        let tree = syntax::parse(source)?;
        let mut own = fields.clone();
        let compiled = compile::compile(source, &tree, &mut own)?;
        *fields = own;
        Ok(compiled)
    }

    /// Evaluates on a row.
    #[inline]
    pub fn eval<'a>(&self, row: &Row<'a>) -> Result<Value<'a>, EvalError> {
        context::start(row, |context| (self.code)(context))
    }

    /// Evaluates a condition: anything but true or false is an error.
    #[inline]
    pub fn test(&self, row: &Row<'_>) -> Result<bool, EvalError> {
        match self.eval(row)? {
            Value::Bool(value) => Ok(value),
            other => Err(EvalError::types("a condition", &[other.type_name()])),
        }
    }

    /// Appends the value as JSON. A program that is a field's name alone copies the field byte for byte.
    pub fn write_json(&self, row: &Row<'_>, out: &mut Vec<u8>) -> Result<(), EvalError> {
        match self.field {
            Some(slot) if row.write_field_json(slot, out)? => Ok(()),
            Some(slot) => Err(row.absent(slot)),
            None => self.eval(row)?.write_json(out),
        }
    }

    /// The slot, if the program is a field's name alone.
    pub fn field_slot(&self) -> Option<usize> {
        self.field
    }

    /// The slots it reads, ascending.
    pub fn slots(&self) -> &[usize] {
        &self.slots
    }

    /// The names of the fields it reads, in the order of their slots; `fields` is what it was compiled with.
    pub fn field_names<'f>(&self, fields: &'f FieldSet) -> impl Iterator<Item = &'f str> {
        self.slots.iter().filter_map(|slot| fields.names().get(*slot)).map(String::as_str)
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("field", &self.field)
            .field("slots", &self.slots)
            .finish_non_exhaustive()
    }
}
