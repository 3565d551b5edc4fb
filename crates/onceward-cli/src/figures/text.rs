//! Numbers and times as people read them.

use std::time::Duration;

use onceward_expr::Timestamp;
use onceward_protocol::Watermark;

/// `336,776`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// RFC 3339; `-` before the first watermark, `end` once no more input can come.
pub fn watermark(watermark: Watermark) -> String {
    match watermark {
        Watermark::NONE => "-".to_owned(),
        Watermark::END => "end".to_owned(),
        Watermark(us) => time(us, us.rem_euclid(1_000_000)),
    }
}

/// When something happened, from microseconds since 1970: RFC 3339 in UTC with milliseconds, always as wide.
pub fn moment(us: i64) -> String {
    let milliseconds = us.rem_euclid(1_000_000) / 1000;
    let whole = time(us, 0);
    match whole.strip_suffix('Z') {
        Some(seconds) => format!("{seconds}.{milliseconds:03}Z"),
        None => whole,
    }
}

fn time(us: i64, fraction_us: i64) -> String {
    let nanos = u32::try_from(fraction_us * 1000).unwrap_or(0);
    let Some(time) = Timestamp::new(us.div_euclid(1_000_000), nanos) else {
        return format!("{us}us");
    };
    let mut out = Vec::new();
    time.write(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// `54%`.
pub fn percent(part: f64) -> String {
    // Rounded down: 100 % means that nothing is left.
    format!("{}%", (part.clamp(0.0, 1.0) * 100.0).floor())
}

/// `3.2s`, `4m 07s`, `2h 05m`.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{:.1}s", duration.as_secs_f64()),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (number, text) in
            [(0, "0"), (999, "999"), (1000, "1,000"), (336_776, "336,776"), (1_000_000, "1,000,000")]
        {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn a_watermark_is_a_time_or_says_that_there_is_none() {
        assert_eq!(watermark(Watermark::NONE), "-");
        assert_eq!(watermark(Watermark::END), "end");
        assert_eq!(watermark(Watermark(1_357_034_400_000_000)), "2013-01-01T10:00:00Z");
        assert_eq!(watermark(Watermark(-500_000)), "1969-12-31T23:59:59.5Z");
        assert_eq!(watermark(Watermark(i64::MIN + 1)), "-9223372036854775807us");
    }

    #[test]
    fn a_moment_has_three_digits_behind_the_second() {
        assert_eq!(moment(1_357_034_400_000_000), "2013-01-01T10:00:00.000Z");
        assert_eq!(moment(1_357_034_400_012_999), "2013-01-01T10:00:00.012Z");
        assert_eq!(moment(-1_000), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn what_is_not_done_is_not_100_percent() {
        assert_eq!((percent(0.9999), percent(1.0)), ("99%".into(), "100%".into()));
    }

    #[test]
    fn durations_have_two_units_at_most() {
        for (ms, text) in [(3_240, "3.2s"), (247_000, "4m 07s"), (7_500_000, "2h 05m")] {
            assert_eq!(duration(Duration::from_millis(ms)), text);
        }
    }
}
