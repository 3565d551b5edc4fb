//! Timestamps and durations: what is read, what is refused, how it is written.

use onceward_expr::{Timestamp, Value, parse_timestamp};
use proptest::prelude::*;

fn written(text: &str) -> Option<String> {
    parse_timestamp(text)
        .map(|timestamp| crate::json(&Value::Timestamp(timestamp)).trim_matches('"').to_owned())
}

#[test]
fn the_documented_forms_are_read() {
    for (text, expected) in [
        ("2013-01-01T05:00:00Z", "2013-01-01T05:00:00Z"),
        ("2013-01-01t05:00:00z", "2013-01-01T05:00:00Z"),
        ("2013-01-01T05:00:00-05:00", "2013-01-01T10:00:00Z"),
        ("2013-01-01T00:30:00+02:00", "2012-12-31T22:30:00Z"),
        ("2013-01-01 05:00:00", "2013-01-01T05:00:00Z"),
        ("2013-01-01 05:00:00.5", "2013-01-01T05:00:00.5Z"),
        ("2013-01-01 05:00:00+01:00", "2013-01-01T04:00:00Z"),
        ("2013-01-01", "2013-01-01T00:00:00Z"),
        ("2013-01-01T05:00:00.123456789Z", "2013-01-01T05:00:00.123456789Z"),
        ("2013-01-01T05:00:00.120Z", "2013-01-01T05:00:00.12Z"),
        ("2000-02-29", "2000-02-29T00:00:00Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999999Z"),
    ] {
        assert_eq!(written(text).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn anything_else_is_refused() {
    for text in [
        "",
        "2013",
        "2013-1-1",
        "2013-02-29",
        "1900-02-29",
        "2013-13-01",
        "2013-00-01",
        "2013-01-00",
        "2013-04-31",
        "2013-01-01T05:00:00",
        "2013-01-01T05:00Z",
        "2013-01-01T24:00:00Z",
        "2013-01-01T05:60:00Z",
        "2013-01-01T05:00:60Z",
        "2013-01-01T05:00:00.Z",
        "2013-01-01T05:00:00.1234567890Z",
        "2013-01-01T05:00:00+2:00",
        "2013-01-01T05:00:00+0200",
        "2013-01-01x05:00:00Z",
        "2013-01-01 ",
        "0000-01-01",
        "0001-01-01T00:00:00+01:00",
        "2013-01-01T05:00:00Z ",
        "١٠١٣-01-01",
    ] {
        assert_eq!(parse_timestamp(text), None, "{text}");
    }
}

#[test]
fn event_time_is_rounded_towards_the_past() {
    let micros = |text: &str| Value::from(text).to_event_time_us();
    assert_eq!(micros("1970-01-01T00:00:00.000001999Z"), Some(1));
    assert_eq!(micros("1969-12-31T23:59:59.999999999Z"), Some(-1));
    assert_eq!(micros("soon"), None);
    assert_eq!(Value::Int(5).to_event_time_us(), None);
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(seconds in -62_135_596_800i64..=253_402_300_799, nanos in 0u32..1_000_000_000) {
        let timestamp = Timestamp::new(seconds, nanos).unwrap();
        let text = crate::json(&Value::Timestamp(timestamp));
        prop_assert_eq!(parse_timestamp(text.trim_matches('"')), Some(timestamp));
    }

    #[test]
    fn days_follow_each_other(day in 0i64..3_652_058) {
        let at = |day: i64| {
            let text = crate::json(&Value::Timestamp(Timestamp::new(-62_135_596_800 + day * 86_400, 0).unwrap()));
            let number = |from: usize, len: usize| text[from..from + len].parse::<u32>().unwrap();
            (number(1, 4), number(6, 2), number(9, 2))
        };
        let ((y, m, d), next) = (at(day), at(day + 1));
        let leap = y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
        let last = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][m as usize - 1];
        let expected = if d < last { (y, m, d + 1) } else if m < 12 { (y, m + 1, 1) } else { (y + 1, 1, 1) };
        prop_assert_eq!(next, expected);
    }
}
