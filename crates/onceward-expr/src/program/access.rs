//! Selection, indexing, membership and map construction.

use std::sync::Arc;

use super::compile::Compiled;
use super::context::{Code, Context, code};
use crate::error::EvalError;
use crate::value::{Value, nested};

/// The value of a text key, `None` if the map has none.
pub(super) fn select<'a>(map: Value<'a>, key: &str) -> Result<Option<Value<'a>>, EvalError> {
    use std::borrow::Cow;
    match map {
        Value::Json(Cow::Borrowed(bytes)) if bytes.first() == Some(&b'{') => nested::select(bytes, key),
        Value::Json(Cow::Owned(bytes)) if bytes.first() == Some(&b'{') => {
            Ok(nested::select(&bytes, key)?.map(Value::into_owned))
        }
        Value::Map(entries) => Ok(entries
            .iter()
            .find(|(candidate, _)| matches!(candidate, Value::String(text) if *text == key))
            .map(|(_, value)| value.clone())),
        other => Err(EvalError::types("selection of a key", &[other.type_name()])),
    }
}

/// The value of any key.
fn lookup<'a>(map: Value<'a>, key: &Value<'a>) -> Result<Option<Value<'a>>, EvalError> {
    if let Value::String(key) = key {
        return select(map, key);
    }
    let Value::Map(entries) = map.resolve()? else { return Ok(None) };
    for (candidate, value) in entries.iter() {
        if candidate.equals(key)? {
            return Ok(Some(value.clone()));
        }
    }
    Ok(None)
}

pub(super) fn index(operand: Compiled, index: Compiled) -> Compiled {
    let path = operand.path.unwrap_or_default();
    let absent: Arc<str> = match &index.constant {
        Some(Value::String(key)) => format!("{path}[\"{key}\"]").into(),
        _ => format!("{path}[..]").into(),
    };
    let own_path = absent.to_string();
    let (operand, index) = (operand.code, index.code);
    let at = code(move |context| {
        let (container, index) = (operand(context)?, index(context)?);
        context.charge_for(&container)?;
        if container.type_name() == "map" {
            return match index {
                Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Decimal(_) | Value::String(_) => {
                    lookup(container, &index)?.ok_or_else(|| EvalError::Absent { field: absent.clone() })
                }
                other => Err(EvalError::types("a map's []", &[other.type_name()])),
            };
        }
        match (container.resolve()?, &index) {
            (Value::List(items), Value::Int(_) | Value::Uint(_) | Value::Decimal(_)) => item(&items, &index),
            (container, index) => Err(EvalError::types("[]", &[container.type_name(), index.type_name()])),
        }
    });
    Compiled { code: at, constant: None, field: None, path: Some(own_path) }
}

fn item<'a>(items: &[Value<'a>], index: &Value<'a>) -> Result<Value<'a>, EvalError> {
    let at = index
        .to_decimal()
        .and_then(|index| index.to_i64())
        .ok_or_else(|| EvalError::types("a list's []", &["a number that is no int"]))?;
    usize::try_from(at)
        .ok()
        .and_then(|at| items.get(at))
        .cloned()
        .ok_or(EvalError::Index { index: at, len: items.len() })
}

/// `item in container`
pub(super) fn contains<'a>(
    context: &Context<'_, 'a>,
    item: &Value<'a>,
    container: Value<'a>,
) -> Result<Value<'a>, EvalError> {
    context.charge_for(&container)?;
    match container.resolve()? {
        Value::List(items) => {
            for candidate in items.iter() {
                if candidate.equals(item)? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        Value::Map(entries) => {
            for (key, _) in entries.iter() {
                if key.equals(item)? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        other => Err(EvalError::types("in", &[item.type_name(), other.type_name()])),
    }
}

/// A map from computed keys and values.
pub(super) fn map<'a>(
    context: &Context<'_, 'a>,
    keys: &[Code],
    values: &[Code],
) -> Result<Value<'a>, EvalError> {
    let mut entries: Vec<(Value<'a>, Value<'a>)> = Vec::with_capacity(keys.len());
    for (key, value) in keys.iter().zip(values) {
        let key = key(context)?;
        if !matches!(key, Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::String(_)) {
            return Err(EvalError::types("a map's key", &[key.type_name()]));
        }
        context.charge(1 + entries.len() / 16)?;
        if entries.iter().any(|(known, _)| *known == key) {
            return Err(EvalError::argument("a map", &format!("{key:?}"), "keys that differ"));
        }
        entries.push((key, value(context)?));
    }
    Ok(Value::map(entries))
}
