//! What can go wrong: compiling an expression, scanning a record, evaluating on a record.

use std::fmt;
use std::sync::Arc;

/// An expression that does not compile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompileError {
    /// Stable: `OW-50` and two digits.
    pub code: &'static str,
    /// First byte of the place in the source text.
    pub offset: usize,
    /// 1-based line of that place.
    pub line: usize,
    /// 1-based column of that place, in characters.
    pub column: usize,
    /// What was found and what was expected.
    pub message: String,
    /// What to do, for example the nearest known function.
    pub help: Option<String>,
}

impl CompileError {
    pub(crate) fn new(code: &'static str, source: &str, offset: usize, message: impl Into<String>) -> Self {
        let before = source.get(..offset).unwrap_or(source);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        CompileError {
            code,
            offset,
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).map_or(0, |line| line.chars().count()) + 1,
            message: message.into(),
            help: None,
        }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: at line {} column {}: {}", self.code, self.line, self.column, self.message)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for CompileError {}

/// A record that is not what its codec says.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ScanError {
    /// The record is not one well-formed JSON object at its top level.
    #[error(
        "OW-5101: malformed JSON at byte {offset}: found {found}, expected {expected}; correct the record"
    )]
    Json {
        /// Byte within the record.
        offset: usize,
        /// What stands there.
        found: String,
        /// What should.
        expected: &'static str,
    },
    /// The line has another number of columns than the header.
    #[error(
        "OW-5102: the line has {found} columns, expected {expected}; correct the line, or the `delimiter` if all lines are affected"
    )]
    Columns {
        /// Columns in the line.
        found: usize,
        /// Columns in the schema.
        expected: usize,
    },
    /// Quotes that follow no rule.
    #[error(
        "OW-5103: malformed CSV at byte {offset}: {problem}; quote the whole field and double the quotes in it"
    )]
    Quote {
        /// Byte within the line.
        offset: usize,
        /// What is wrong.
        problem: &'static str,
    },
    /// A typed column holds something else.
    #[error(transparent)]
    Value(#[from] BadValue),
    /// A record of 4 GiB or more.
    #[error("OW-5104: the record has {found} bytes, expected less than 4 GiB; split it")]
    TooLarge {
        /// Its size in bytes.
        found: usize,
    },
}

/// A field whose text is not of its declared type, or not a value at all.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "OW-5201: field `{field}` holds `{text}`, expected {expected}; correct the data or the declared type"
)]
pub struct BadValue {
    /// The column or field.
    pub field: Arc<str>,
    /// What it holds, shortened.
    pub text: String,
    /// The type, in words.
    pub expected: &'static str,
}

impl BadValue {
    #[cold]
    pub(crate) fn new(field: &Arc<str>, bytes: &[u8], expected: &'static str) -> Self {
        BadValue { field: field.clone(), text: shorten(bytes), expected }
    }
}

/// At most 60 bytes of it, printable.
#[cold]
pub(crate) fn shorten(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.get(..60).unwrap_or(bytes));
    let mut text: String = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if bytes.len() > 60 {
        text.push_str("...");
    }
    text
}

/// What a function was given and cannot take.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "OW-5206: {function} cannot take `{text}`, expected {expected}; correct the data or guard it with a condition"
)]
pub struct BadArgument {
    /// The function.
    pub function: &'static str,
    /// What it was given, shortened.
    pub text: String,
    /// What it takes.
    pub expected: &'static str,
}

/// An evaluation that has no value. Kept small: it travels beside every value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EvalError {
    /// The field or key is not there. Aggregates treat such an argument as not there.
    #[error("OW-5202: `{field}` is absent; guard it with has({field})")]
    Absent {
        /// The path, as far as it is known.
        field: Arc<str>,
    },
    /// A field's text is not of its declared type.
    #[error(transparent)]
    Value(Box<BadValue>),
    /// The operands have types for which there is no such operator or function.
    #[error(
        "OW-5203: {operation} is not defined for {found}; convert with int(), decimal(), string() or another conversion"
    )]
    Type {
        /// The operator or function.
        operation: &'static str,
        /// The types found.
        found: Box<str>,
    },
    /// The exact result does not fit.
    #[error(
        "OW-5204: the exact result of {operation} does not fit its type; use smaller numbers or double()"
    )]
    Overflow {
        /// The operator or function.
        operation: &'static str,
    },
    /// Division or remainder by zero.
    #[error("OW-5205: division by zero; guard it with a condition on the divisor")]
    DivisionByZero,
    /// A conversion or argument that has no meaning.
    #[error(transparent)]
    Argument(Box<BadArgument>),
    /// A list index outside of the list.
    #[error("OW-5207: index {index} is outside of a list of {len}; guard it with size()")]
    Index {
        /// The index.
        index: i64,
        /// The list's size.
        len: usize,
    },
    /// Malformed nested JSON, found when it was read.
    #[error("OW-5208: malformed nested JSON at byte {offset} of the value: {problem}; correct the record")]
    Json {
        /// Byte within the nested value.
        offset: usize,
        /// What is wrong.
        problem: &'static str,
    },
    /// A bound of the language was reached.
    #[error("OW-5209: {what} exceeds the limit of {limit}; make the expression or the data smaller")]
    Limit {
        /// What grew too large.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

impl From<BadValue> for EvalError {
    fn from(error: BadValue) -> Self {
        EvalError::Value(Box::new(error))
    }
}

impl EvalError {
    #[cold]
    pub(crate) fn types(operation: &'static str, found: &[&str]) -> Self {
        EvalError::Type { operation, found: found.join(" and ").into() }
    }
    #[cold]
    pub(crate) fn argument(function: &'static str, text: &str, expected: &'static str) -> Self {
        EvalError::Argument(Box::new(BadArgument { function, text: shorten(text.as_bytes()), expected }))
    }
}
