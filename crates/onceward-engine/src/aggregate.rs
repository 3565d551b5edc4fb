//! Aggregates: exact, one column of accumulators per computed name.

use onceward_expr::{Decimal, Value};
use onceward_protocol::codec::{Reader, put_varint};
use onceward_spec::AggregateFunction;

use crate::key_index::prefetch;

/// Fractional digits that `avg` keeps beyond those of its input; the rest is rounded half to even. Zeros at the
/// end are not written.
pub const AVG_EXTRA_SCALE: u8 = 9;

/// A smallest or largest value.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Extreme {
    /// Nothing yet.
    #[default]
    None,
    /// The common case, kept inline.
    Int(i64),
    /// Anything else that can be ordered.
    Other(Box<Value<'static>>),
}

/// The accumulators of one computed name, by entry number.
#[derive(Clone, Debug)]
pub enum Column {
    /// Rows, or rows with an argument.
    Count {
        /// Per entry.
        counts: Vec<u64>,
        /// Whether an argument decides.
        argument: bool,
    },
    /// Sum and how many were summed.
    Sum(Vec<(Decimal, u64)>),
    /// Smallest.
    Min(Vec<Extreme>),
    /// Largest.
    Max(Vec<Extreme>),
    /// Sum and count.
    Avg(Vec<(Decimal, u64)>),
}

impl Column {
    /// An empty column.
    pub fn new(function: AggregateFunction, argument: bool) -> Self {
        match function {
            AggregateFunction::Count => Column::Count { counts: Vec::new(), argument },
            AggregateFunction::Sum => Column::Sum(Vec::new()),
            AggregateFunction::Min => Column::Min(Vec::new()),
            AggregateFunction::Max => Column::Max(Vec::new()),
            AggregateFunction::Avg => Column::Avg(Vec::new()),
        }
    }
    /// Adds an entry that has seen nothing.
    pub fn grow(&mut self) {
        match self {
            Column::Count { counts, .. } => counts.push(0),
            Column::Sum(sums) | Column::Avg(sums) => sums.push((Decimal::ZERO, 0)),
            Column::Min(extremes) | Column::Max(extremes) => extremes.push(Extreme::None),
        }
    }
    /// Asks for the line of one entry.
    #[inline]
    pub fn prefetch(&self, entry: usize) {
        match self {
            Column::Count { counts, .. } => prefetch(&counts[entry]),
            Column::Sum(sums) | Column::Avg(sums) => prefetch(&sums[entry]),
            Column::Min(extremes) | Column::Max(extremes) => prefetch(&extremes[entry]),
        }
    }
    /// Removes the last entry.
    pub fn pop(&mut self) {
        match self {
            Column::Count { counts, .. } => {
                counts.pop();
            }
            Column::Sum(sums) | Column::Avg(sums) => {
                sums.pop();
            }
            Column::Min(extremes) | Column::Max(extremes) => {
                extremes.pop();
            }
        }
    }
    /// Takes one message. Reads its argument, if it has one, off the front of `args`. A null argument is
    /// not there. Nothing is changed when the answer is an error.
    #[inline]
    pub fn update(&mut self, entry: usize, args: &mut &[u8]) -> Result<(), String> {
        if let Column::Count { counts, argument: false } = self {
            counts[entry] += 1;
            return Ok(());
        }
        let (value, rest) = Value::decode(args).ok_or("a shuffled argument is malformed")?;
        if !matches!(value, Value::Null) {
            match self {
                Column::Count { counts, .. } => counts[entry] += 1,
                Column::Sum(sums) | Column::Avg(sums) => {
                    let (sum, count) = &mut sums[entry];
                    let number = value.to_decimal().ok_or_else(|| not_a_number(&value))?;
                    *sum = sum.checked_add(number).ok_or("the exact sum needs more than 38 digits")?;
                    *count += 1;
                }
                Column::Min(extremes) => extreme(&mut extremes[entry], value, std::cmp::Ordering::Less)?,
                Column::Max(extremes) => extreme(&mut extremes[entry], value, std::cmp::Ordering::Greater)?,
            }
        }
        *args = rest;
        Ok(())
    }
    /// Appends the stored form of one entry.
    #[inline]
    pub fn encode(&self, entry: usize, out: &mut Vec<u8>) {
        match self {
            Column::Count { counts, .. } => put_varint(out, counts[entry]),
            Column::Sum(sums) | Column::Avg(sums) => {
                let (sum, count) = sums[entry];
                put_varint(out, count);
                Value::Decimal(sum).encode(out);
            }
            Column::Min(extremes) | Column::Max(extremes) => match &extremes[entry] {
                Extreme::None => Value::Null.encode(out),
                Extreme::Int(value) => Value::Int(*value).encode(out),
                Extreme::Other(value) => value.encode(out),
            },
        }
    }
    /// Adds an entry from its stored form.
    pub fn decode_push(&mut self, bytes: &mut &[u8]) -> Option<()> {
        match self {
            Column::Count { counts, .. } => {
                let mut input = Reader::new(bytes);
                counts.push(input.varint()?);
                *bytes = input.rest();
            }
            Column::Sum(sums) | Column::Avg(sums) => {
                let mut input = Reader::new(bytes);
                let count = input.varint()?;
                let (value, rest) = Value::decode(input.rest())?;
                sums.push((value.to_decimal()?, count));
                *bytes = rest;
            }
            Column::Min(extremes) | Column::Max(extremes) => {
                let (value, rest) = Value::decode(bytes)?;
                extremes.push(match value {
                    Value::Null => Extreme::None,
                    Value::Int(value) => Extreme::Int(value),
                    other => Extreme::Other(Box::new(other.into_owned())),
                });
                *bytes = rest;
            }
        }
        Some(())
    }
    /// Appends one entry's result as JSON: null where nothing was counted, except for `count`.
    pub fn write_json(&self, entry: usize, out: &mut Vec<u8>) -> Result<(), String> {
        let value = match self {
            Column::Count { counts, .. } => Value::Uint(counts[entry]),
            Column::Sum(sums) => match sums[entry] {
                (_, 0) => Value::Null,
                (sum, _) => Value::Decimal(sum),
            },
            Column::Avg(sums) => match sums[entry] {
                (_, 0) => Value::Null,
                (sum, count) => Value::Decimal(
                    sum.div_round(count, AVG_EXTRA_SCALE)
                        .ok_or("the average needs more than 38 digits")?
                        .normalized(),
                ),
            },
            Column::Min(extremes) | Column::Max(extremes) => match &extremes[entry] {
                Extreme::None => Value::Null,
                Extreme::Int(value) => Value::Int(*value),
                Extreme::Other(value) => return value.write_json(out).map_err(|error| error.to_string()),
            },
        };
        value.write_json(out).map_err(|error| error.to_string())
    }
}

#[cold]
fn not_a_number(value: &Value<'_>) -> String {
    format!("expected an exact number, found {}", value.type_name())
}

/// Whether `value` replaces `held`. Of equal values written differently (1.0 and 1.00) the one whose stored
/// form is smaller stays, so that the result does not depend on the order in which lanes are merged.
fn goes_before(value: &Value<'_>, held: &Value<'_>, wanted: std::cmp::Ordering) -> Option<bool> {
    let order = value.compare(held)?;
    if order != std::cmp::Ordering::Equal {
        return Some(order == wanted);
    }
    let stored = |value: &Value<'_>| {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        bytes
    };
    Some(stored(value) < stored(held))
}

fn extreme(held: &mut Extreme, value: Value<'_>, wanted: std::cmp::Ordering) -> Result<(), String> {
    let incomparable =
        |held: &Value<'_>| format!("cannot compare {} with {}", value.type_name(), held.type_name());
    let replace = match (&*held, &value) {
        // What could not be written when its window fires must not be taken.
        (_, Value::Double(number)) if !number.is_finite() => {
            return Err(format!("{number} cannot be written as JSON"));
        }
        // What cannot be compared with itself has no order: a list, a map, a number beyond exactness.
        (Extreme::None, value) if value.compare(value).is_none() => {
            return Err(format!("{} has no order", value.type_name()));
        }
        (Extreme::None, _) => true,
        (Extreme::Int(held), Value::Int(value)) => value.cmp(held) == wanted,
        (Extreme::Int(held), other) => {
            let held = Value::Int(*held);
            goes_before(other, &held, wanted).ok_or_else(|| incomparable(&held))?
        }
        (Extreme::Other(held), other) => {
            goes_before(other, held, wanted).ok_or_else(|| incomparable(held))?
        }
    };
    if replace {
        *held = match value {
            Value::Int(value) => Extreme::Int(value),
            other => Extreme::Other(Box::new(other.into_owned())),
        };
    }
    Ok(())
}
