//! Comparisons of a field with a constant, the usual filter, without making values.

use std::cmp::Ordering;

use super::compile::Compiled;
use super::context::{Code, Context, code};
use super::operators;
use crate::error::EvalError;
use crate::fields::Kind;
use crate::syntax::Binary;
use crate::value::{Value, nested};

/// The closure for `field op constant` or `constant op field`, if there is a fast one.
pub(super) fn comparison(operator: Binary, left: &Compiled, right: &Compiled) -> Option<Code> {
    let (slot, constant, operator) = match (left.field, &right.constant, &left.constant, right.field) {
        (Some(slot), Some(constant), ..) => (slot, constant, operator),
        (.., Some(constant), Some(slot)) => (slot, constant, turned(operator)?),
        _ => return None,
    };
    match (operator, constant) {
        (Binary::In | Binary::Add | Binary::Subtract | Binary::Multiply, _) => None,
        (Binary::Divide | Binary::Remainder, _) => None,
        (_, Value::Int(constant)) => Some(int(operator, slot, *constant)),
        (Binary::Equal | Binary::Unequal, Value::String(constant)) => {
            Some(text(operator, slot, constant.clone().into_owned()))
        }
        _ => None,
    }
}

fn turned(operator: Binary) -> Option<Binary> {
    Some(match operator {
        Binary::Equal | Binary::Unequal => operator,
        Binary::Less => Binary::Greater,
        Binary::LessOrEqual => Binary::GreaterOrEqual,
        Binary::Greater => Binary::Less,
        Binary::GreaterOrEqual => Binary::LessOrEqual,
        _ => return None,
    })
}

fn int(operator: Binary, slot: usize, constant: i64) -> Code {
    code(move |context| {
        let (place, bytes) = context.row.slot(slot);
        let found = match place.kind {
            Kind::JsonNumber => nested::short_int(bytes),
            Kind::CsvInt => crate::scan::parse_int(bytes),
            _ => None,
        };
        match found {
            Some(found) => Ok(Value::Bool(operators::holds(operator, found.cmp(&constant)))),
            None => general(context, operator, slot, Value::Int(constant)),
        }
    })
}

fn text(operator: Binary, slot: usize, constant: String) -> Code {
    code(move |context| {
        let (place, bytes) = context.row.slot(slot);
        match place.kind {
            // Equal bytes are as valid as the constant; unequal ones are checked when they are read as text.
            Kind::JsonString | Kind::CsvString if bytes == constant.as_bytes() => {
                Ok(Value::Bool(operators::holds(operator, Ordering::Equal)))
            }
            Kind::JsonString | Kind::CsvString if bytes.is_ascii() => {
                Ok(Value::Bool(operators::holds(operator, Ordering::Less)))
            }
            _ => general(context, operator, slot, Value::String(constant.clone().into())),
        }
    })
}

#[cold]
fn general<'a>(
    context: &Context<'_, 'a>,
    operator: Binary,
    slot: usize,
    constant: Value<'a>,
) -> Result<Value<'a>, EvalError> {
    let found = context.row.field(slot)?.ok_or_else(|| context.row.absent(slot))?;
    match operator {
        Binary::Equal => Ok(Value::Bool(found.equals(&constant)?)),
        Binary::Unequal => Ok(Value::Bool(!found.equals(&constant)?)),
        _ => operators::order(operator, found, constant),
    }
}
