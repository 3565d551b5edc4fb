//! JSON values as SQLite values, without losing a digit.

use std::borrow::Cow;

use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, Value as Owned, ValueRef};

/// A value to bind.
#[derive(Clone, PartialEq, Debug)]
pub enum Value<'a> {
    /// Absent, or JSON `null`.
    Null,
    /// A whole number within 64 bits; `true` is 1, `false` is 0.
    Integer(i64),
    /// A number whose digits a double gives back as they were.
    Real(f64),
    /// Any other number: its digits as they stand.
    Digits(&'a str),
    /// A text, or the JSON text of a list or an object.
    Text(Cow<'a, str>),
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Value::Null => ToSqlOutput::Owned(Owned::Null),
            Value::Integer(value) => ToSqlOutput::Owned(Owned::Integer(*value)),
            Value::Real(value) => ToSqlOutput::Owned(Owned::Real(*value)),
            Value::Digits(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Value::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        })
    }
}

impl<'a> Value<'a> {
    /// The value of a JSON text.
    pub fn of(json: &'a str) -> Result<Self, serde_json::Error> {
        Ok(match json.as_bytes().first() {
            Some(b'n') => Value::Null,
            Some(b't') => Value::Integer(1),
            Some(b'f') => Value::Integer(0),
            Some(b'-' | b'0'..=b'9') => number(json),
            Some(b'"') if !json.contains('\\') => Value::Text(Cow::Borrowed(&json[1..json.len() - 1])),
            Some(b'"') => Value::Text(Cow::Owned(serde_json::from_str(json)?)),
            _ => Value::Text(Cow::Borrowed(json)),
        })
    }
}

fn number(text: &str) -> Value<'_> {
    if let Ok(whole) = text.parse::<i64>() {
        return Value::Integer(whole);
    }
    if !text.contains(['.', 'e', 'E']) {
        return Value::Digits(text);
    }
    match text.parse::<f64>() {
        // Shortest form of a double: at most 17 digits that name it and no other.
        Ok(double) if double.is_finite() && digits(&format!("{double:e}")) == digits(text) => {
            Value::Real(double)
        }
        _ => Value::Digits(text),
    }
}

/// A decimal number as sign, digits without zeros at either end, and the exponent of the last of them; zero has none.
fn digits(text: &str) -> Option<(bool, String, i64)> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent: i64 = exponent.parse().ok()?;
    let all = format!("{whole}{fraction}");
    let significant = all.trim_start_matches('0');
    let trimmed = significant.trim_end_matches('0');
    if trimmed.is_empty() {
        return Some((negative, String::new(), 0));
    }
    let dropped = (significant.len() - trimmed.len()) as i64;
    let exponent = exponent.checked_sub(fraction.len() as i64)?.checked_add(dropped)?;
    Some((negative, trimmed.to_owned(), exponent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(json: &str) -> Value<'_> {
        Value::of(json).expect("a JSON value")
    }

    #[test]
    fn whole_numbers_within_64_bits_are_integers_and_larger_ones_keep_their_digits() {
        assert_eq!(of("9223372036854775807"), Value::Integer(i64::MAX));
        assert_eq!(of("-9223372036854775808"), Value::Integer(i64::MIN));
        assert_eq!(of("9007199254740993"), Value::Integer(9_007_199_254_740_993));
        for beyond in ["9223372036854775808", "-9223372036854775809", "123456789012345678901234567890"] {
            assert_eq!(of(beyond), Value::Digits(beyond));
        }
    }

    #[test]
    fn a_decimal_is_a_double_only_if_no_digit_is_lost() {
        assert_eq!(of("0.1"), Value::Real(0.1));
        assert_eq!(of("12.30"), Value::Real(12.3));
        assert_eq!(of("5.0"), Value::Real(5.0));
        assert_eq!(of("-1.5E+3"), Value::Real(-1500.0));
        assert_eq!(of("0.0"), Value::Real(0.0));
        for exact in
            ["0.1234567890123456789", "1e999", "1e-999", "9007199254740993.0", "1.00000000000000000001"]
        {
            assert_eq!(of(exact), Value::Digits(exact));
        }
    }

    #[test]
    fn texts_are_unescaped_and_nested_values_stay_json() {
        assert_eq!(of(r#""a\n\u00e9""#), Value::Text("a\né".into()));
        assert_eq!(of(r#""plain""#), Value::Text("plain".into()));
        assert_eq!(of(r#"{"a": [1.0,2]}"#), Value::Text(r#"{"a": [1.0,2]}"#.into()));
        assert_eq!(
            (of("null"), of("true"), of("false")),
            (Value::Null, Value::Integer(1), Value::Integer(0))
        );
        assert!(Value::of(r#""\ud800""#).is_err());
    }

    proptest! {
        #[test]
        fn a_number_that_becomes_a_double_is_the_same_number(text in "-?(0|[1-9][0-9]{0,20})\\.[0-9]{1,20}(e-?[0-9]{1,2})?") {
            if let Value::Real(double) = of(&text) {
                // The exact expansion of the double, cut to the digits given, is the text's own value.
                prop_assert_eq!(digits(&double.to_string()), digits(&text));
            }
        }
        #[test]
        fn fifteen_digits_always_fit(whole in 0u64..10_000_000, fraction in 0u32..10_000_000) {
            let text = format!("{whole}.{fraction:07}");
            prop_assert!(matches!(of(&text), Value::Real(_)), "{}", text);
        }
    }
}
