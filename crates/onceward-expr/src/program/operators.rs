//! Arithmetic and comparison: exact or an error.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::access;
use super::context::{Code, Context, MAX_ITEMS, MAX_TEXT, code};
use crate::decimal::Decimal;
use crate::error::EvalError;
use crate::syntax::Binary;
use crate::time::{Duration, Timestamp};
use crate::value::Value;

pub(super) fn not(value: Value<'_>) -> Result<Value<'_>, EvalError> {
    match value {
        Value::Bool(value) => Ok(Value::Bool(!value)),
        other => Err(EvalError::types("!", &[other.type_name()])),
    }
}

pub(super) fn negate(value: Value<'_>) -> Result<Value<'_>, EvalError> {
    let overflow = EvalError::Overflow { operation: "-" };
    match value.resolve()? {
        Value::Int(value) => value.checked_neg().map(Value::Int).ok_or(overflow),
        Value::Decimal(value) => value.checked_neg().map(Value::Decimal).ok_or(overflow),
        Value::Double(value) => Ok(Value::Double(-value)),
        Value::Duration(value) => {
            Duration::from_total_nanos(-value.total_nanos()).map(Value::Duration).ok_or(overflow)
        }
        other => Err(EvalError::types("-", &[other.type_name()])),
    }
}

pub(super) fn binary(operator: Binary, left: Code, right: Code) -> Code {
    match operator {
        Binary::Equal => code(move |context| equal(context, left(context)?, right(context)?, true)),
        Binary::Unequal => code(move |context| equal(context, left(context)?, right(context)?, false)),
        Binary::In => code(move |context| {
            let item = left(context)?;
            access::contains(context, &item, right(context)?)
        }),
        Binary::Less | Binary::LessOrEqual | Binary::Greater | Binary::GreaterOrEqual => {
            code(move |context| {
                let (left, right) = (left(context)?, right(context)?);
                order(operator, left, right)
            })
        }
        Binary::Add => code(move |context| add(context, left(context)?, right(context)?)),
        Binary::Subtract => code(move |context| subtract(left(context)?, right(context)?)),
        Binary::Multiply => code(move |context| multiply(left(context)?, right(context)?)),
        Binary::Divide => code(move |context| divide(left(context)?, right(context)?)),
        Binary::Remainder => code(move |context| remainder(left(context)?, right(context)?)),
    }
}

fn equal<'a>(
    context: &Context<'_, 'a>,
    left: Value<'a>,
    right: Value<'a>,
    wanted: bool,
) -> Result<Value<'a>, EvalError> {
    context.charge_for(&left)?;
    Ok(Value::Bool(left.equals(&right)? == wanted))
}

/// Whether an order satisfies a comparison.
#[inline]
pub(super) fn holds(operator: Binary, order: Ordering) -> bool {
    match operator {
        Binary::Equal => order.is_eq(),
        Binary::Unequal => order.is_ne(),
        Binary::Less => order.is_lt(),
        Binary::LessOrEqual => order.is_le(),
        Binary::Greater => order.is_gt(),
        _ => order.is_ge(),
    }
}

pub(super) fn order<'a>(operator: Binary, left: Value<'a>, right: Value<'a>) -> Result<Value<'a>, EvalError> {
    let (left, right) = (number(left)?, number(right)?);
    if let Some(order) = left.compare(&right) {
        return Ok(Value::Bool(holds(operator, order)));
    }
    // Every comparison with NaN is false.
    if left.is_number() && right.is_number() {
        return Ok(Value::Bool(false));
    }
    Err(EvalError::types(operator.symbol(), &[left.type_name(), right.type_name()]))
}

/// Unread numbers are read, unread containers are left alone: no arithmetic takes them but `+`.
fn number(value: Value<'_>) -> Result<Value<'_>, EvalError> {
    match value {
        Value::Json(_) => value.resolve(),
        other => Ok(other),
    }
}

/// Two numbers of one kind: CEL's kinds as they are, decimals joined by ints and uints, doubles by decimals.
enum Pair {
    Int(i64, i64),
    Uint(u64, u64),
    Decimal(Decimal, Decimal),
    Double(f64, f64),
}

#[inline]
fn pair(left: &Value<'_>, right: &Value<'_>) -> Option<Pair> {
    Some(match (left, right) {
        (Value::Int(a), Value::Int(b)) => Pair::Int(*a, *b),
        (Value::Uint(a), Value::Uint(b)) => Pair::Uint(*a, *b),
        (Value::Double(a), Value::Double(b)) => Pair::Double(*a, *b),
        (Value::Decimal(a), Value::Double(b)) => Pair::Double(a.to_f64(), *b),
        (Value::Double(a), Value::Decimal(b)) => Pair::Double(*a, b.to_f64()),
        (Value::Decimal(a), other) => Pair::Decimal(*a, other.to_decimal()?),
        (other, Value::Decimal(b)) => Pair::Decimal(other.to_decimal()?, *b),
        _ => return None,
    })
}

fn exact<'a>(operation: &'static str, value: Option<Value<'a>>) -> Result<Value<'a>, EvalError> {
    value.ok_or(EvalError::Overflow { operation })
}

fn add<'a>(context: &Context<'_, 'a>, left: Value<'a>, right: Value<'a>) -> Result<Value<'a>, EvalError> {
    let (left, right) = (number(left)?, number(right)?);
    if let Some(pair) = pair(&left, &right) {
        return exact(
            "+",
            match pair {
                Pair::Int(a, b) => a.checked_add(b).map(Value::Int),
                Pair::Uint(a, b) => a.checked_add(b).map(Value::Uint),
                Pair::Decimal(a, b) => a.checked_add(b).map(Value::Decimal),
                Pair::Double(a, b) => Some(Value::Double(a + b)),
            },
        );
    }
    context.charge_for(&left)?;
    context.charge_for(&right)?;
    match (left, right) {
        (Value::String(a), Value::String(b)) => {
            bounded(a.len() + b.len(), MAX_TEXT, "a text")?;
            Ok(Value::String(Cow::Owned([&*a, &*b].concat())))
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            bounded(a.len() + b.len(), MAX_TEXT, "a text")?;
            Ok(Value::Bytes(Cow::Owned([&*a, &*b].concat())))
        }
        (Value::List(a), Value::List(b)) => {
            bounded(a.len() + b.len(), MAX_ITEMS, "a list")?;
            Ok(Value::list(a.iter().chain(b.iter()).cloned().collect()))
        }
        (Value::Timestamp(time), Value::Duration(span)) | (Value::Duration(span), Value::Timestamp(time)) => {
            exact("+", moved(time, span.total_nanos()))
        }
        (Value::Duration(a), Value::Duration(b)) => exact("+", span(a.total_nanos() + b.total_nanos())),
        (left, right) => Err(EvalError::types("+", &[left.type_name(), right.type_name()])),
    }
}

pub(super) fn bounded(len: usize, limit: usize, what: &'static str) -> Result<(), EvalError> {
    if len > limit { Err(EvalError::Limit { what, limit }) } else { Ok(()) }
}

fn moved<'a>(time: Timestamp, nanos: i128) -> Option<Value<'a>> {
    Timestamp::from_total_nanos(time.total_nanos() + nanos).map(Value::Timestamp)
}

fn span<'a>(nanos: i128) -> Option<Value<'a>> {
    Duration::from_total_nanos(nanos).map(Value::Duration)
}

fn subtract<'a>(left: Value<'a>, right: Value<'a>) -> Result<Value<'a>, EvalError> {
    let (left, right) = (number(left)?, number(right)?);
    let value = match pair(&left, &right) {
        Some(Pair::Int(a, b)) => a.checked_sub(b).map(Value::Int),
        Some(Pair::Uint(a, b)) => a.checked_sub(b).map(Value::Uint),
        Some(Pair::Decimal(a, b)) => a.checked_sub(b).map(Value::Decimal),
        Some(Pair::Double(a, b)) => Some(Value::Double(a - b)),
        None => match (&left, &right) {
            (Value::Timestamp(a), Value::Timestamp(b)) => span(a.total_nanos() - b.total_nanos()),
            (Value::Timestamp(a), Value::Duration(b)) => moved(*a, -b.total_nanos()),
            (Value::Duration(a), Value::Duration(b)) => span(a.total_nanos() - b.total_nanos()),
            _ => return Err(EvalError::types("-", &[left.type_name(), right.type_name()])),
        },
    };
    exact("-", value)
}

fn multiply<'a>(left: Value<'a>, right: Value<'a>) -> Result<Value<'a>, EvalError> {
    let (left, right) = (number(left)?, number(right)?);
    let value = match pair(&left, &right) {
        Some(Pair::Int(a, b)) => a.checked_mul(b).map(Value::Int),
        Some(Pair::Uint(a, b)) => a.checked_mul(b).map(Value::Uint),
        Some(Pair::Decimal(a, b)) => a.checked_mul(b).map(Value::Decimal),
        Some(Pair::Double(a, b)) => Some(Value::Double(a * b)),
        None => return Err(EvalError::types("*", &[left.type_name(), right.type_name()])),
    };
    exact("*", value)
}

fn divide<'a>(left: Value<'a>, right: Value<'a>) -> Result<Value<'a>, EvalError> {
    let (left, right) = (number(left)?, number(right)?);
    let value = match pair(&left, &right) {
        Some(Pair::Int(_, 0) | Pair::Uint(_, 0)) => return Err(EvalError::DivisionByZero),
        Some(Pair::Decimal(_, b)) if b.is_zero() => return Err(EvalError::DivisionByZero),
        Some(Pair::Int(a, b)) => a.checked_div(b).map(Value::Int),
        Some(Pair::Uint(a, b)) => a.checked_div(b).map(Value::Uint),
        Some(Pair::Decimal(a, b)) => a.checked_div(b).map(Value::Decimal),
        Some(Pair::Double(a, b)) => Some(Value::Double(a / b)),
        None => return Err(EvalError::types("/", &[left.type_name(), right.type_name()])),
    };
    exact("/", value)
}

fn remainder<'a>(left: Value<'a>, right: Value<'a>) -> Result<Value<'a>, EvalError> {
    let (left, right) = (number(left)?, number(right)?);
    let value = match pair(&left, &right) {
        Some(Pair::Int(_, 0) | Pair::Uint(_, 0)) => return Err(EvalError::DivisionByZero),
        Some(Pair::Int(a, b)) => a.checked_rem(b).map(Value::Int),
        Some(Pair::Uint(a, b)) => a.checked_rem(b).map(Value::Uint),
        _ => return Err(EvalError::types("%", &[left.type_name(), right.type_name()])),
    };
    exact("%", value)
}
