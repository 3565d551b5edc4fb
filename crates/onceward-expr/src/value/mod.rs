//! Values: what a field holds and an expression gives.

mod binary;
mod compare;
mod key;
pub(crate) mod nested;
mod write;

use std::borrow::Cow;
use std::sync::Arc;

use crate::decimal::Decimal;
use crate::error::EvalError;
use crate::time::{Duration, Timestamp, parse_timestamp};

/// The entries of a map, in the order they were found; keys are distinct.
pub type Entries<'a> = Vec<(Value<'a>, Value<'a>)>;

/// A value; borrows from the record where it can.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// null
    Null,
    /// true or false
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// An unsigned whole number.
    Uint(u64),
    /// An exact number with fractional digits, or a whole one beyond `Int`.
    Decimal(Decimal),
    /// A floating-point number; only `double()` makes one.
    Double(f64),
    /// Text.
    String(Cow<'a, str>),
    /// Bytes.
    Bytes(Cow<'a, [u8]>),
    /// A point in time.
    Timestamp(Timestamp),
    /// A span of time.
    Duration(Duration),
    /// A list.
    List(Arc<Vec<Value<'a>>>),
    /// A map; keys are `Bool`, `Int`, `Uint` or `String`.
    Map(Arc<Entries<'a>>),
    /// A nested JSON object or array that nobody has read yet, or a JSON number that no exact form can hold.
    Json(Cow<'a, [u8]>),
}

impl<'a> Value<'a> {
    /// A list.
    pub fn list(items: Vec<Value<'a>>) -> Self {
        Value::List(Arc::new(items))
    }

    /// A map; of equal keys the later counts in every lookup, so give distinct ones.
    pub fn map(entries: Entries<'a>) -> Self {
        Value::Map(Arc::new(entries))
    }

    /// The type's name for messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Decimal(_) => "decimal",
            Value::Double(_) => "double",
            Value::String(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::Timestamp(_) => "timestamp",
            Value::Duration(_) => "duration",
            Value::List(_) => "list",
            Value::Map(_) => "map",
            Value::Json(bytes) => match bytes.first() {
                Some(b'{') => "map",
                Some(b'[') => "list",
                _ => "number beyond 38 digits",
            },
        }
    }

    /// The value without borrows.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Null => Value::Null,
            Value::Bool(value) => Value::Bool(value),
            Value::Int(value) => Value::Int(value),
            Value::Uint(value) => Value::Uint(value),
            Value::Decimal(value) => Value::Decimal(value),
            Value::Double(value) => Value::Double(value),
            Value::String(text) => Value::String(Cow::Owned(text.into_owned())),
            Value::Bytes(bytes) => Value::Bytes(Cow::Owned(bytes.into_owned())),
            Value::Timestamp(value) => Value::Timestamp(value),
            Value::Duration(value) => Value::Duration(value),
            Value::List(items) => Value::list(items.iter().map(|item| item.clone().into_owned()).collect()),
            Value::Map(entries) => Value::map(
                entries
                    .iter()
                    .map(|(key, value)| (key.clone().into_owned(), value.clone().into_owned()))
                    .collect(),
            ),
            Value::Json(bytes) => Value::Json(Cow::Owned(bytes.into_owned())),
        }
    }

    /// Reads one level of an unread JSON value; every other value stays as it is.
    pub fn resolve(self) -> Result<Value<'a>, EvalError> {
        match self {
            Value::Json(Cow::Borrowed(bytes)) => nested::read(bytes),
            Value::Json(Cow::Owned(bytes)) => nested::read(&bytes).map(Value::into_owned),
            other => Ok(other),
        }
    }

    /// The exact number, if this is an int, a uint or a decimal.
    pub fn to_decimal(&self) -> Option<Decimal> {
        match self {
            Value::Int(value) => Some(Decimal::from(*value)),
            Value::Uint(value) => Some(Decimal::from(*value)),
            Value::Decimal(value) => Some(*value),
            _ => None,
        }
    }

    /// Microseconds since 1970, rounded towards the past, of a timestamp or of text that [`parse_timestamp`]
    /// reads.
    pub fn to_event_time_us(&self) -> Option<i64> {
        match self {
            Value::Timestamp(value) => Some(value.micros()),
            Value::String(text) => parse_timestamp(text).map(Timestamp::micros),
            _ => None,
        }
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Value::Int(value)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Value::String(Cow::Borrowed(value))
    }
}

impl From<String> for Value<'_> {
    fn from(value: String) -> Self {
        Value::String(Cow::Owned(value))
    }
}
