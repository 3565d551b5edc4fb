//! Conversions between types: exact, or an error.

use std::borrow::Cow;

use crate::decimal::Decimal;
use crate::error::EvalError;
use crate::time::{self, Duration, Timestamp};
use crate::value::Value;

type Outcome<'a> = Result<Value<'a>, EvalError>;

/// Unread numbers are read, which fails if no exact form holds them.
fn read(value: Value<'_>) -> Outcome<'_> {
    value.resolve()
}

fn no<'a>(function: &'static str, value: &Value<'_>) -> Outcome<'a> {
    Err(EvalError::types(function, &[value.type_name()]))
}

/// As it is: there are no static types to escape from.
pub(super) fn dynamic(value: Value<'_>) -> Outcome<'_> {
    Ok(value)
}

/// Towards zero.
pub(super) fn int(value: Value<'_>) -> Outcome<'_> {
    let overflow = EvalError::Overflow { operation: "int" };
    Ok(Value::Int(match read(value)? {
        Value::Int(value) => value,
        Value::Uint(value) => i64::try_from(value).map_err(|_| overflow)?,
        Value::Decimal(value) => i64::try_from(value.truncated()).map_err(|_| overflow)?,
        Value::Double(value) => {
            i64::try_from(truncated(value).ok_or(overflow.clone())?).map_err(|_| overflow)?
        }
        Value::String(text) => crate::scan::parse_int(text.as_bytes())
            .ok_or_else(|| EvalError::argument("int", &text, "a whole number of 64 bits"))?,
        Value::Timestamp(value) => value.seconds,
        other => return no("int", &other),
    }))
}

/// Towards zero.
pub(super) fn uint(value: Value<'_>) -> Outcome<'_> {
    let overflow = EvalError::Overflow { operation: "uint" };
    Ok(Value::Uint(match read(value)? {
        Value::Uint(value) => value,
        Value::Int(value) => u64::try_from(value).map_err(|_| overflow)?,
        Value::Decimal(value) => u64::try_from(value.truncated()).map_err(|_| overflow)?,
        Value::Double(value) => {
            u64::try_from(truncated(value).ok_or(overflow.clone())?).map_err(|_| overflow)?
        }
        Value::String(text) => text
            .parse()
            .map_err(|_| EvalError::argument("uint", &text, "a whole number of 64 bits without a sign"))?,
        other => return no("uint", &other),
    }))
}

/// The whole part, if it is well within 128 bits.
fn truncated(value: f64) -> Option<i128> {
    (value.abs() < 1e30).then_some(value as i128)
}

pub(super) fn decimal(value: Value<'_>) -> Outcome<'_> {
    let value = read(value)?;
    Ok(Value::Decimal(match &value {
        Value::Double(number) => {
            Decimal::from_f64(*number).ok_or(EvalError::Overflow { operation: "decimal" })?
        }
        Value::String(text) => Decimal::parse(text)
            .ok_or_else(|| EvalError::argument("decimal", text, "a number of at most 38 digits"))?,
        other => match other.to_decimal() {
            Some(number) => number,
            None => return no("decimal", other),
        },
    }))
}

/// The nearest floating-point number.
pub(super) fn double(value: Value<'_>) -> Outcome<'_> {
    let nearest = |text: &str| text.parse::<f64>().ok();
    Ok(Value::Double(match value {
        Value::Double(value) => value,
        Value::Int(value) => value as f64,
        Value::Uint(value) => value as f64,
        Value::Decimal(value) => value.to_f64(),
        Value::String(text) => {
            nearest(&text).ok_or_else(|| EvalError::argument("double", &text, "a number"))?
        }
        // A number that no exact form holds still has a nearest floating-point number.
        Value::Json(ref bytes) => match std::str::from_utf8(bytes).ok().and_then(nearest) {
            Some(value) => value,
            None => return no("double", &value),
        },
        other => return no("double", &other),
    }))
}

pub(super) fn string(value: Value<'_>) -> Outcome<'_> {
    let written = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        Value::from(String::from_utf8_lossy(&out).into_owned())
    };
    Ok(match value {
        Value::String(_) => value,
        Value::Bool(value) => Value::from(value.to_string()),
        Value::Int(value) => Value::from(value.to_string()),
        Value::Uint(value) => Value::from(value.to_string()),
        Value::Decimal(value) => Value::from(value.to_string()),
        Value::Double(value) => Value::from(value.to_string()),
        Value::Timestamp(value) => written(&|out| value.write(out)),
        Value::Duration(value) => written(&|out| value.write(out)),
        Value::Bytes(Cow::Borrowed(bytes)) => std::str::from_utf8(bytes)
            .map(Value::from)
            .map_err(|_| EvalError::argument("string", &String::from_utf8_lossy(bytes), "UTF-8"))?,
        Value::Bytes(Cow::Owned(bytes)) => String::from_utf8(bytes).map(Value::from).map_err(|error| {
            EvalError::argument("string", &String::from_utf8_lossy(error.as_bytes()), "UTF-8")
        })?,
        other => return no("string", &other),
    })
}

pub(super) fn bool(value: Value<'_>) -> Outcome<'_> {
    Ok(Value::Bool(match value {
        Value::Bool(value) => value,
        Value::String(text) => match &*text {
            "1" | "t" | "true" | "TRUE" | "True" => true,
            "0" | "f" | "false" | "FALSE" | "False" => false,
            other => return Err(EvalError::argument("bool", other, "`true` or `false`")),
        },
        other => return no("bool", &other),
    }))
}

pub(super) fn bytes(value: Value<'_>) -> Outcome<'_> {
    Ok(Value::Bytes(match value {
        Value::Bytes(bytes) => bytes,
        Value::String(Cow::Borrowed(text)) => Cow::Borrowed(text.as_bytes()),
        Value::String(Cow::Owned(text)) => Cow::Owned(text.into_bytes()),
        other => return no("bytes", &other),
    }))
}

/// From text, or from seconds since 1970.
pub(super) fn timestamp(value: Value<'_>) -> Outcome<'_> {
    Ok(Value::Timestamp(match value {
        Value::Timestamp(value) => value,
        Value::String(text) => time::parse_timestamp(&text).ok_or_else(|| {
            EvalError::argument("timestamp", &text, "RFC 3339, for example 2013-01-01T05:00:00Z")
        })?,
        Value::Int(seconds) => {
            Timestamp::new(seconds, 0).ok_or(EvalError::Overflow { operation: "timestamp" })?
        }
        other => return no("timestamp", &other),
    }))
}

pub(super) fn duration(value: Value<'_>) -> Outcome<'_> {
    Ok(Value::Duration(match value {
        Value::Duration(value) => value,
        Value::String(text) => Duration::parse(&text)
            .ok_or_else(|| EvalError::argument("duration", &text, "numbers with units, for example 1h30m"))?,
        other => return no("duration", &other),
    }))
}
