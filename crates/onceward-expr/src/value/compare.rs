//! CEL's equality and order: exact across the numeric types.

use std::cmp::Ordering;

use super::{Entries, Value};
use crate::decimal::Decimal;
use crate::error::EvalError;

impl<'a> Value<'a> {
    pub(crate) fn is_number(&self) -> bool {
        matches!(self, Value::Int(_) | Value::Uint(_) | Value::Decimal(_) | Value::Double(_))
    }

    /// The order of two values of one family: numbers, strings, bytes, booleans, timestamps or durations.
    /// Numbers compare exactly across their types. `None` for anything else, and for NaN.
    #[inline]
    pub fn compare(&self, other: &Value<'_>) -> Option<Ordering> {
        match (self, other) {
            (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
            (Value::String(a), Value::String(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
            (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
            (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.cmp(b)),
            (Value::Duration(a), Value::Duration(b)) => Some(a.cmp(b)),
            (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
            (Value::Double(a), b) => exact(b)?.compare_f64(*a).map(Ordering::reverse),
            (a, Value::Double(b)) => exact(a)?.compare_f64(*b),
            (a, b) => Some(exact(a)?.cmp(&exact(b)?)),
        }
    }

    /// CEL's equality: values of different families are unequal. An error only if unread JSON is malformed.
    pub fn equals(&self, other: &Value<'_>) -> Result<bool, EvalError> {
        match (self, other) {
            (Value::Null, Value::Null) => Ok(true),
            (Value::Json(_), Value::List(_) | Value::Map(_) | Value::Json(_)) => {
                self.clone().resolve()?.equals(other)
            }
            (Value::List(_) | Value::Map(_), Value::Json(_)) => self.equals(&other.clone().resolve()?),
            (Value::Json(_), other) if other.is_number() => {
                if self.is_container() {
                    Ok(false)
                } else {
                    self.clone().resolve()?.equals(other)
                }
            }
            (own, Value::Json(_)) if own.is_number() => other.equals(self),
            (Value::List(a), Value::List(b)) => {
                if a.len() != b.len() {
                    return Ok(false);
                }
                for (a, b) in a.iter().zip(b.iter()) {
                    if !a.equals(b)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Value::Map(a), Value::Map(b)) => maps_equal(a, b),
            (a, b) => Ok(a.compare(b) == Some(Ordering::Equal)),
        }
    }

    fn is_container(&self) -> bool {
        matches!(self, Value::Json(bytes) if matches!(bytes.first(), Some(b'{' | b'[')))
    }
}

fn maps_equal(a: &Entries<'_>, b: &Entries<'_>) -> Result<bool, EvalError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    // Sorted by key first: entry by entry against entry by entry would be quadratic.
    let sorted = |entries: &Entries<'_>| {
        let mut order: Vec<(Vec<u8>, usize)> = entries
            .iter()
            .enumerate()
            .map(|(index, (key, _))| {
                let mut bytes = Vec::new();
                key.encode_key(&mut bytes);
                (bytes, index)
            })
            .collect();
        order.sort_unstable();
        order
    };
    for ((a_key, a_index), (b_key, b_index)) in sorted(a).into_iter().zip(sorted(b)) {
        if a_key != b_key || !a[a_index].1.equals(&b[b_index].1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

#[inline]
fn exact(value: &Value<'_>) -> Option<Decimal> {
    value.to_decimal()
}

/// [`Value::equals`]; values that cannot be read are equal to nothing.
impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.equals(other).unwrap_or(false)
    }
}
