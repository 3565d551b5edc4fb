//! Nested JSON, read one level at a time.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{Entries, Value};
use crate::decimal::Decimal;
use crate::error::{EvalError, shorten};
use crate::fields::{Kind, Slot};
use crate::scan::json::{self, JsonProblem};

fn error(JsonProblem { offset, problem }: JsonProblem) -> EvalError {
    EvalError::Json { offset, problem }
}

/// A JSON number as a value: whole and within 64 bits as an int, else as a decimal, else unread. `None` if it
/// is no number.
#[inline]
pub(crate) fn number_value(bytes: &[u8]) -> Option<Value<'_>> {
    if let Some(value) = short_int(bytes) {
        return Some(Value::Int(value));
    }
    if !json::is_number(bytes) {
        return None;
    }
    if let Some(value) = crate::scan::parse_int(bytes) {
        return Some(Value::Int(value));
    }
    Some(match Decimal::parse_bytes(bytes) {
        Some(value) => Value::Decimal(value),
        None => Value::Json(Cow::Borrowed(bytes)),
    })
}

/// A well-formed JSON integer of at most 18 digits.
#[inline(always)]
pub(crate) fn short_int(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes.split_first()? {
        (b'-', rest) => (true, rest),
        _ => (false, bytes),
    };
    if digits.is_empty() || digits.len() > 18 || (digits[0] == b'0' && digits.len() > 1) {
        return None;
    }
    let mut value = 0i64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + i64::from(digit);
    }
    Some(if negative { -value } else { value })
}

/// Reads one level of an unread value.
pub(crate) fn read(bytes: &[u8]) -> Result<Value<'_>, EvalError> {
    match bytes.first() {
        Some(b'[') => {
            let mut items = Vec::new();
            each_item(bytes, |value| {
                items.push(value);
                Ok(())
            })?;
            Ok(Value::list(items))
        }
        Some(b'{') => read_map(bytes),
        _ => Err(EvalError::argument("a number", &shorten(bytes), "at most 38 digits")),
    }
}

fn read_map(bytes: &[u8]) -> Result<Value<'_>, EvalError> {
    let mut entries: Entries<'_> = Vec::new();
    let mut places: BTreeMap<Cow<'_, str>, usize> = BTreeMap::new();
    each_entry(bytes, |key, slot| {
        let value = slot_value(bytes, slot)?;
        match places.get(&key) {
            Some(place) => entries[*place].1 = value,
            None => {
                places.insert(key.clone(), entries.len());
                entries.push((Value::String(key), value));
            }
        }
        Ok(())
    })?;
    Ok(Value::map(entries))
}

/// The value of a key in an object that was not read yet; the last one if there are several.
pub(crate) fn select<'a>(bytes: &'a [u8], key: &str) -> Result<Option<Value<'a>>, EvalError> {
    let mut found = None;
    each_entry(bytes, |candidate, slot| {
        if candidate == key {
            found = Some(slot);
        }
        Ok(())
    })?;
    found.map(|slot| slot_value(bytes, slot)).transpose()
}

fn slot_value(bytes: &[u8], slot: Slot) -> Result<Value<'_>, EvalError> {
    let start = slot.start as usize;
    let text = slot.bytes(bytes);
    let at = |problem| EvalError::Json { offset: start, problem };
    Ok(match slot.kind {
        Kind::JsonString => {
            Value::String(Cow::Borrowed(json::plain_text(text).ok_or_else(|| at("not UTF-8 text"))?))
        }
        Kind::JsonEscaped => Value::String(Cow::Owned(
            json::unescape(text)
                .map_err(|problem| error(JsonProblem { offset: start + problem.offset, ..problem }))?,
        )),
        Kind::JsonNumber => number_value(text).ok_or_else(|| at("not a JSON number"))?,
        Kind::JsonNested => Value::Json(Cow::Borrowed(text)),
        Kind::True => Value::Bool(true),
        Kind::False => Value::Bool(false),
        _ => Value::Null,
    })
}

fn each_item<'a>(
    bytes: &'a [u8],
    mut each: impl FnMut(Value<'a>) -> Result<(), EvalError>,
) -> Result<(), EvalError> {
    let mut at = json::skip_space(bytes, 1);
    if bytes.get(at) == Some(&b']') {
        return closed(bytes, at);
    }
    loop {
        let (slot, next) = json::value(bytes, at).map_err(error)?;
        each(slot_value(bytes, slot)?)?;
        at = json::skip_space(bytes, next);
        match bytes.get(at) {
            Some(b',') => at = json::skip_space(bytes, at + 1),
            Some(b']') => return closed(bytes, at),
            _ => return Err(EvalError::Json { offset: at, problem: "expected `,` or `]`" }),
        }
    }
}

fn each_entry<'a>(
    bytes: &'a [u8],
    mut each: impl FnMut(Cow<'a, str>, Slot) -> Result<(), EvalError>,
) -> Result<(), EvalError> {
    let mut at = json::skip_space(bytes, 1);
    if bytes.get(at) == Some(&b'}') {
        return closed(bytes, at);
    }
    loop {
        if bytes.get(at) != Some(&b'"') {
            return Err(EvalError::Json { offset: at, problem: "expected a key in double quotes" });
        }
        let (key, next) = json::value(bytes, at).map_err(error)?;
        let Value::String(key) = slot_value(bytes, key)? else {
            return Err(EvalError::Json { offset: at, problem: "expected a key in double quotes" });
        };
        at = json::skip_space(bytes, next);
        if bytes.get(at) != Some(&b':') {
            return Err(EvalError::Json { offset: at, problem: "expected `:`" });
        }
        let (slot, next) = json::value(bytes, json::skip_space(bytes, at + 1)).map_err(error)?;
        each(key, slot)?;
        at = json::skip_space(bytes, next);
        match bytes.get(at) {
            Some(b',') => at = json::skip_space(bytes, at + 1),
            Some(b'}') => return closed(bytes, at),
            _ => return Err(EvalError::Json { offset: at, problem: "expected `,` or `}`" }),
        }
    }
}

/// An unread value may come from outside, so that its end is checked too.
fn closed(bytes: &[u8], at: usize) -> Result<(), EvalError> {
    if at + 1 == bytes.len() {
        Ok(())
    } else {
        Err(EvalError::Json { offset: at + 1, problem: "expected nothing after the value" })
    }
}
