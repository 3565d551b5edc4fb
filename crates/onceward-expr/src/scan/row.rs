//! A scanned record: what programs evaluate on.

use std::borrow::Cow;
use std::sync::Arc;

use super::Scanner;
use super::json::{self, JsonProblem};
use crate::error::{BadValue, EvalError};
use crate::fields::{Kind, Slot, Slots};
use crate::time::parse_timestamp_bytes;
use crate::value::Value;
use crate::value::nested::number_value;

/// One record with its scanned fields.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    record: &'a [u8],
    slots: &'a Slots,
    scanner: &'a Scanner,
}

impl<'a> Row<'a> {
    /// The record, what [`Scanner::scan`] found in it, and that scanner.
    #[inline]
    pub fn new(record: &'a [u8], slots: &'a Slots, scanner: &'a Scanner) -> Self {
        Row { record, slots, scanner }
    }

    /// The value of a field, `None` if it is absent.
    #[inline]
    pub fn field(&self, slot: usize) -> Result<Option<Value<'a>>, EvalError> {
        let place = self.slots.get(slot);
        if place.kind == Kind::Absent {
            return Ok(None);
        }
        let bytes = place.bytes(self.record);
        read(place.kind, bytes, || self.scanner.name(slot)).map(Some).map_err(EvalError::from)
    }

    /// Whether the field is there; a null in JSON is.
    #[inline]
    pub fn has(&self, slot: usize) -> bool {
        self.slots.get(slot).kind != Kind::Absent
    }

    /// Appends a field as JSON, `false` if it is absent. A field of a JSON record is copied byte for byte,
    /// so that numbers and nested values stay exactly as found.
    pub fn write_field_json(&self, slot: usize, out: &mut Vec<u8>) -> Result<bool, EvalError> {
        let place = self.slots.get(slot);
        let bytes = place.bytes(self.record);
        match place.kind {
            Kind::Absent => return Ok(false),
            Kind::JsonString | Kind::JsonEscaped => {
                out.push(b'"');
                out.extend_from_slice(bytes);
                out.push(b'"');
            }
            Kind::JsonNumber if json::is_number(bytes) => out.extend_from_slice(bytes),
            Kind::JsonNested => out.extend_from_slice(bytes),
            kind => read(kind, bytes, || self.scanner.name(slot))?.write_json(out)?,
        }
        Ok(true)
    }

    #[inline(always)]
    pub(crate) fn slot(&self, slot: usize) -> (Slot, &'a [u8]) {
        let place = self.slots.get(slot);
        (place, place.bytes(self.record))
    }

    #[cold]
    pub(crate) fn absent(&self, slot: usize) -> EvalError {
        EvalError::Absent { field: self.scanner.name(slot) }
    }
}

/// Makes the value of a present field.
#[inline]
pub(crate) fn read<'a>(
    kind: Kind,
    bytes: &'a [u8],
    name: impl Fn() -> Arc<str>,
) -> Result<Value<'a>, BadValue> {
    let bad = |expected| BadValue::new(&name(), bytes, expected);
    Ok(match kind {
        Kind::JsonString => {
            Value::String(Cow::Borrowed(json::plain_text(bytes).ok_or_else(|| bad("UTF-8 text"))?))
        }
        Kind::JsonEscaped => Value::String(
            json::unescape(bytes).map(Cow::Owned).map_err(|JsonProblem { problem, .. }| bad(problem))?,
        ),
        Kind::JsonNumber => number_value(bytes).ok_or_else(|| bad("a JSON number"))?,
        Kind::JsonNested => Value::Json(Cow::Borrowed(bytes)),
        Kind::True => Value::Bool(true),
        Kind::False => Value::Bool(false),
        Kind::Null | Kind::Absent => Value::Null,
        Kind::CsvString => {
            Value::String(Cow::Borrowed(std::str::from_utf8(bytes).map_err(|_| bad("UTF-8 text"))?))
        }
        Kind::CsvDoubled => Value::String(Cow::Owned(
            std::str::from_utf8(bytes).map_err(|_| bad("UTF-8 text"))?.replace("\"\"", "\""),
        )),
        Kind::CsvInt => Value::Int(parse_int(bytes).ok_or_else(|| bad("an int, -2^63 to 2^63-1"))?),
        Kind::CsvDecimal => Value::Decimal(
            crate::Decimal::parse_bytes(bytes).ok_or_else(|| bad("a decimal of at most 38 digits"))?,
        ),
        Kind::CsvBool if bytes.eq_ignore_ascii_case(b"true") => Value::Bool(true),
        Kind::CsvBool if bytes.eq_ignore_ascii_case(b"false") => Value::Bool(false),
        Kind::CsvBool => return Err(bad("a bool, `true` or `false`")),
        Kind::CsvTimestamp => Value::Timestamp(
            parse_timestamp_bytes(bytes)
                .ok_or_else(|| bad("a timestamp, RFC 3339 or `YYYY-MM-DD HH:MM:SS`"))?,
        ),
    })
}

/// A whole number with an optional sign.
#[inline]
pub(crate) fn parse_int(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes.split_first()? {
        (b'-', rest) => (true, rest),
        (b'+', rest) => (false, rest),
        _ => (false, bytes),
    };
    if digits.is_empty() {
        return None;
    }
    let digit = |byte: &u8| Some(i64::from(byte.wrapping_sub(b'0'))).filter(|digit| *digit < 10);
    if digits.len() <= 18 {
        let value = digits.iter().try_fold(0i64, |value, byte| Some(value * 10 + digit(byte)?))?;
        return Some(if negative { -value } else { value });
    }
    // Downwards, because the negative range is the larger one.
    let value =
        digits.iter().try_fold(0i64, |value, byte| value.checked_mul(10)?.checked_sub(digit(byte)?))?;
    if negative { Some(value) } else { value.checked_neg() }
}
