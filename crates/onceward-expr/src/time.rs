//! Points in time and spans of time, to the nanosecond; calendar arithmetic in UTC.

/// A point in time between the years 0001 and 9999.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Timestamp {
    /// Whole seconds since 1970-01-01T00:00:00Z, towards the past.
    pub seconds: i64,
    /// 0 to 999,999,999.
    pub nanos: u32,
}

/// A span of time, of at most 10,000 years either way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Duration {
    /// Whole seconds, towards the past.
    pub seconds: i64,
    /// 0 to 999,999,999.
    pub nanos: u32,
}

/// 0001-01-01T00:00:00Z
const MIN_SECONDS: i64 = -62_135_596_800;
/// 9999-12-31T23:59:59Z
const MAX_SECONDS: i64 = 253_402_300_799;
/// 10,000 years, the bound of a duration.
const MAX_DURATION_SECONDS: i64 = 315_576_000_000;
const NANOS: i128 = 1_000_000_000;

impl Timestamp {
    /// `None` outside of the years 0001 to 9999 or with more than 999,999,999 nanoseconds.
    pub fn new(seconds: i64, nanos: u32) -> Option<Self> {
        ((MIN_SECONDS..=MAX_SECONDS).contains(&seconds) && i128::from(nanos) < NANOS)
            .then_some(Timestamp { seconds, nanos })
    }
    pub(crate) fn total_nanos(self) -> i128 {
        i128::from(self.seconds) * NANOS + i128::from(self.nanos)
    }
    pub(crate) fn from_total_nanos(nanos: i128) -> Option<Self> {
        let (seconds, nanos) = split_nanos(nanos)?;
        Timestamp::new(seconds, nanos)
    }
    /// Microseconds since 1970, rounded towards the past.
    pub fn micros(self) -> i64 {
        self.seconds * 1_000_000 + i64::from(self.nanos / 1000)
    }
    /// Appends RFC 3339 with `Z` and only the fraction digits needed.
    pub fn write(self, out: &mut Vec<u8>) {
        let civil = Civil::from_seconds(self.seconds);
        push_digits(out, civil.year as u32, 4);
        for (mark, value) in
            [(b'-', civil.month), (b'-', civil.day), (b'T', civil.hour), (b':', civil.minute)]
        {
            out.push(mark);
            push_digits(out, value, 2);
        }
        out.push(b':');
        push_digits(out, civil.second, 2);
        push_fraction(out, self.nanos);
        out.push(b'Z');
    }
}

impl Duration {
    /// `None` beyond 10,000 years.
    pub fn new(seconds: i64, nanos: u32) -> Option<Self> {
        Self::from_total_nanos(i128::from(seconds) * NANOS + i128::from(nanos))
    }
    pub(crate) fn total_nanos(self) -> i128 {
        i128::from(self.seconds) * NANOS + i128::from(self.nanos)
    }
    pub(crate) fn from_total_nanos(nanos: i128) -> Option<Self> {
        if nanos.abs() > i128::from(MAX_DURATION_SECONDS) * NANOS {
            return None;
        }
        let (seconds, nanos) = split_nanos(nanos)?;
        Some(Duration { seconds, nanos })
    }
    /// Appends seconds with only the fraction digits needed, for example `-1.5s`.
    pub fn write(self, out: &mut Vec<u8>) {
        let total = self.total_nanos();
        if total < 0 {
            out.push(b'-');
        }
        let magnitude = total.unsigned_abs();
        let (seconds, nanos) = (magnitude / NANOS as u128, magnitude % NANOS as u128);
        out.extend_from_slice(seconds.to_string().as_bytes());
        push_fraction(out, nanos as u32);
        out.push(b's');
    }
    /// Reads a sequence of numbers with units, for example `1h30m`, `-1.5s`, `250ms`, `0`.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, mut rest) = match text.as_bytes() {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            all => (false, all),
        };
        if rest == b"0" {
            return Duration::from_total_nanos(0);
        }
        if rest.is_empty() {
            return None;
        }
        let mut total = 0i128;
        while !rest.is_empty() {
            let number = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
            let amount = crate::decimal::Decimal::parse_bytes(&rest[..number])?;
            let unit =
                rest[number..].iter().take_while(|byte| !byte.is_ascii_digit() && **byte != b'.').count();
            let nanos: i64 = match &rest[number..number + unit] {
                b"h" => 3_600_000_000_000,
                b"m" => 60_000_000_000,
                b"s" => 1_000_000_000,
                b"ms" => 1_000_000,
                b"us" | b"\xc2\xb5s" => 1000,
                b"ns" => 1,
                _ => return None,
            };
            total = total.checked_add(amount.checked_mul(nanos.into())?.truncated())?;
            rest = &rest[number + unit..];
        }
        Duration::from_total_nanos(if negative { -total } else { total })
    }
}

fn split_nanos(nanos: i128) -> Option<(i64, u32)> {
    let seconds = i64::try_from(nanos.div_euclid(NANOS)).ok()?;
    Some((seconds, nanos.rem_euclid(NANOS) as u32))
}

fn push_digits(out: &mut Vec<u8>, value: u32, width: u32) {
    for place in (0..width).rev() {
        out.push(b'0' + (value / 10u32.pow(place) % 10) as u8);
    }
}

fn push_fraction(out: &mut Vec<u8>, mut nanos: u32) {
    if nanos == 0 {
        return;
    }
    let mut width = 9;
    while nanos.is_multiple_of(10) {
        nanos /= 10;
        width -= 1;
    }
    out.push(b'.');
    push_digits(out, nanos, width);
}

/// A date and time of day.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    /// 1 to 12
    pub(crate) month: u32,
    /// 1 to 31
    pub(crate) day: u32,
    pub(crate) hour: u32,
    pub(crate) minute: u32,
    pub(crate) second: u32,
    /// Days since 1970-01-01.
    pub(crate) days: i64,
}

impl Civil {
    pub(crate) fn from_seconds(seconds: i64) -> Self {
        let days = seconds.div_euclid(86_400);
        let second = seconds.rem_euclid(86_400) as u32;
        // Eras of 400 years that begin on 1 March, so that the leap day is the last of its year.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 } as u32;
        let year = era * 400 + year_of_era + i64::from(month <= 2);
        Civil { year, month, day, hour: second / 3600, minute: second / 60 % 60, second: second % 60, days }
    }
}

/// Days since 1970-01-01 of a date that exists.
pub(crate) fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = i64::from(if month > 2 { month - 3 } else { month + 9 });
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn days_in_month(year: u32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Reads RFC 3339, or `YYYY-MM-DD HH:MM:SS[.fraction]` and `YYYY-MM-DD` in UTC; up to nine fraction digits.
/// A leap second (`:60`) is refused.
pub fn parse_timestamp(text: &str) -> Option<Timestamp> {
    parse_timestamp_bytes(text.as_bytes())
}

pub(crate) fn parse_timestamp_bytes(text: &[u8]) -> Option<Timestamp> {
    let (date, rest) = text.split_first_chunk::<10>()?;
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = date else { return None };
    let year = number(&[*y1, *y2, *y3, *y4])?;
    let (month, day) = (number(&[*m1, *m2])?, number(&[*d1, *d2])?);
    if year == 0 || !(1..=12).contains(&month) || day == 0 || day > days_in_month(year, month) {
        return None;
    }
    let midnight = days_from_civil(i64::from(year), month, day) * 86_400;
    let Some((separator, rest)) = rest.split_first() else {
        return Timestamp::new(midnight, 0);
    };
    let (time, rest) = rest.split_first_chunk::<8>()?;
    let [h1, h2, b':', n1, n2, b':', s1, s2] = time else { return None };
    let (hour, minute, second) = (number(&[*h1, *h2])?, number(&[*n1, *n2])?, number(&[*s1, *s2])?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (nanos, rest) = fraction(rest)?;
    let offset = match (separator, rest) {
        (b' ', []) => 0,
        (b'T' | b't' | b' ', zone) if !zone.is_empty() => zone_seconds(zone)?,
        _ => return None,
    };
    Timestamp::new(midnight + i64::from(hour * 3600 + minute * 60 + second) - offset, nanos)
}

fn fraction(rest: &[u8]) -> Option<(u32, &[u8])> {
    let Some((b'.', rest)) = rest.split_first() else { return Some((0, rest)) };
    let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if len == 0 || len > 9 {
        return None;
    }
    Some((number(&rest[..len])? * 10u32.pow(9 - len as u32), &rest[len..]))
}

/// The seconds east of UTC of `Z` or `+HH:MM`.
pub(crate) fn zone_seconds(zone: &[u8]) -> Option<i64> {
    match zone {
        [b'Z' | b'z'] => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let seconds = i64::from(hours * 3600 + minutes * 60);
            Some(if *sign == b'-' { -seconds } else { seconds })
        }
        _ => None,
    }
}

fn number(digits: &[u8]) -> Option<u32> {
    digits
        .iter()
        .try_fold(0u32, |value, digit| digit.is_ascii_digit().then(|| value * 10 + u32::from(digit - b'0')))
}
