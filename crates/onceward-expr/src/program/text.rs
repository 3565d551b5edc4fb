//! Functions over text.

use std::borrow::Cow;

use super::context::{MAX_ITEMS, MAX_TEXT};
use super::operators::bounded;
use crate::error::EvalError;
use crate::value::Value;

type Outcome<'a> = Result<Value<'a>, EvalError>;

fn string<'a>(function: &'static str, value: Value<'a>) -> Result<Cow<'a, str>, EvalError> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(EvalError::types(function, &[other.type_name()])),
    }
}

/// Characters of a string, bytes of bytes, items of a list, entries of a map.
pub(super) fn size(value: Value<'_>) -> Outcome<'_> {
    let size = match value.resolve()? {
        Value::String(text) => text.chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(items) => items.len(),
        Value::Map(entries) => entries.len(),
        other => return Err(EvalError::types("size", &[other.type_name()])),
    };
    Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

pub(super) fn contains<'a>(text: Value<'a>, part: Value<'a>) -> Outcome<'a> {
    Ok(Value::Bool(string("contains", text)?.contains(&*string("contains", part)?)))
}

pub(super) fn starts_with<'a>(text: Value<'a>, part: Value<'a>) -> Outcome<'a> {
    Ok(Value::Bool(string("startsWith", text)?.starts_with(&*string("startsWith", part)?)))
}

pub(super) fn ends_with<'a>(text: Value<'a>, part: Value<'a>) -> Outcome<'a> {
    Ok(Value::Bool(string("endsWith", text)?.ends_with(&*string("endsWith", part)?)))
}

pub(super) fn lower_ascii(text: Value<'_>) -> Outcome<'_> {
    let mut text = string("lowerAscii", text)?;
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        text.to_mut().make_ascii_lowercase();
    }
    Ok(Value::String(text))
}

pub(super) fn upper_ascii(text: Value<'_>) -> Outcome<'_> {
    let mut text = string("upperAscii", text)?;
    if text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        text.to_mut().make_ascii_uppercase();
    }
    Ok(Value::String(text))
}

/// Without white space at both ends.
pub(super) fn trim(text: Value<'_>) -> Outcome<'_> {
    Ok(Value::String(match string("trim", text)? {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim()),
        Cow::Owned(text) => Cow::Owned(text.trim().to_owned()),
    }))
}

/// The pieces between separators; an empty separator gives the characters.
pub(super) fn split<'a>(text: Value<'a>, separator: Value<'a>) -> Outcome<'a> {
    let (text, separator) = (string("split", text)?, string("split", separator)?);
    let pieces: Vec<Value<'a>> = match text {
        Cow::Borrowed(text) => pieces(text, &separator).map(Value::from).collect(),
        Cow::Owned(text) => pieces(&text, &separator).map(|piece| Value::from(piece.to_owned())).collect(),
    };
    bounded(pieces.len(), MAX_ITEMS, "a list")?;
    Ok(Value::list(pieces))
}

fn pieces<'t: 's, 's>(text: &'t str, separator: &'s str) -> Box<dyn Iterator<Item = &'t str> + 's> {
    // One more than allowed is enough to know that there are too many.
    if separator.is_empty() {
        Box::new(text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]).take(MAX_ITEMS + 1))
    } else {
        Box::new(text.split(separator).take(MAX_ITEMS + 1))
    }
}

/// Every occurrence replaced.
pub(super) fn replace<'a>(text: Value<'a>, from: Value<'a>, to: Value<'a>) -> Outcome<'a> {
    let (text, from, to) = (string("replace", text)?, string("replace", from)?, string("replace", to)?);
    let count = if from.is_empty() { text.chars().count() + 1 } else { text.matches(&*from).count() };
    if count == 0 {
        return Ok(Value::String(text));
    }
    bounded(text.len().saturating_add(count.saturating_mul(to.len())), MAX_TEXT, "a text")?;
    Ok(Value::String(Cow::Owned(text.replace(&*from, &to))))
}
