//! Calendar fields of timestamps, in UTC or at a fixed offset, and the same names on durations.

use crate::error::EvalError;
use crate::time::{self, Civil, Duration};
use crate::value::Value;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    FullYear,
    /// 0 to 11
    Month,
    /// 1 to 31
    Date,
    /// 0 to 30
    DayOfMonth,
    /// 0 is Sunday
    DayOfWeek,
    /// 0 to 365
    DayOfYear,
    Hours,
    Minutes,
    Seconds,
    Milliseconds,
}

pub(super) fn part<'a>(
    part: Part,
    value: Value<'a>,
    zone: Option<Value<'a>>,
) -> Result<Value<'a>, EvalError> {
    let timestamp = match (value, &zone) {
        (Value::Timestamp(timestamp), _) => timestamp,
        (Value::Duration(span), None) => return duration_part(part, span),
        (other, _) => return Err(EvalError::types("a calendar field", &[other.type_name()])),
    };
    let offset = zone.map_or(Ok(0), zone_offset)?;
    let civil = Civil::from_seconds(timestamp.seconds + offset);
    Ok(Value::Int(match part {
        Part::FullYear => civil.year,
        Part::Month => i64::from(civil.month) - 1,
        Part::Date => i64::from(civil.day),
        Part::DayOfMonth => i64::from(civil.day) - 1,
        // 1970-01-01 was a Thursday.
        Part::DayOfWeek => (civil.days + 4).rem_euclid(7),
        Part::DayOfYear => civil.days - time::days_from_civil(civil.year, 1, 1),
        Part::Hours => i64::from(civil.hour),
        Part::Minutes => i64::from(civil.minute),
        Part::Seconds => i64::from(civil.second),
        Part::Milliseconds => i64::from(timestamp.nanos / 1_000_000),
    }))
}

/// The whole span in the unit, towards zero; milliseconds are those within the second.
fn duration_part<'a>(part: Part, span: Duration) -> Result<Value<'a>, EvalError> {
    let nanos = span.total_nanos();
    let value = match part {
        Part::Hours => nanos / 3_600_000_000_000,
        Part::Minutes => nanos / 60_000_000_000,
        Part::Seconds => nanos / 1_000_000_000,
        Part::Milliseconds => nanos / 1_000_000 % 1000,
        _ => return Err(EvalError::types("a calendar date", &["duration"])),
    };
    i64::try_from(value).map(Value::Int).map_err(|_| EvalError::Overflow { operation: "a duration's field" })
}

/// `UTC`, `Z`, `+02:00`, `-02:00` or, as CEL allows, `02:00`.
fn zone_offset(zone: Value<'_>) -> Result<i64, EvalError> {
    let Value::String(zone) = zone else {
        return Err(EvalError::types("a time zone", &[zone.type_name()]));
    };
    let offset = match &*zone {
        "UTC" => Some(0),
        text if text.starts_with(|first: char| first.is_ascii_digit()) => {
            time::zone_seconds(format!("+{text}").as_bytes())
        }
        text => time::zone_seconds(text.as_bytes()),
    };
    offset.ok_or_else(|| EvalError::argument("a time zone", &zone, "UTC or an offset like +02:00"))
}
