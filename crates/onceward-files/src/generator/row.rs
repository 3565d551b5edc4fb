//! One row from its place: `{"id":"0-1","key":"k7","time":"2024-01-01T00:00:00.000000Z","value":42,"pad":"xx"}`.
//!
//! What a row holds is a promise: pipelines go on in the middle of a partition, with another version of this program.

use xxhash_rust::xxh3::xxh3_64;

use super::keys::Keys;

/// `value` is below this.
const VALUES: u64 = 1_000_000;
/// The latest time: the last microsecond of the year 9999.
const LAST_US: i64 = 253_402_300_799_999_999;
const DAY_US: i64 = 86_400_000_000;
/// Bytes of the field `pad` without its content.
const PAD_BYTES: usize = r#","pad":"""#.len();

/// Everything that a row is computed from, its place aside.
#[derive(Debug)]
pub struct Rows {
    /// Chooses among equally good contents.
    pub seed: i64,
    /// How keys are drawn.
    pub keys: Keys,
    /// Bytes to fill a row up to.
    pub size: Option<usize>,
    /// `time` of row 1, in microseconds since 1970.
    pub start_us: i64,
    /// From row to row.
    pub step_us: i64,
}

impl Rows {
    /// The same for everything that gives the same rows, and only for that.
    pub fn digest(&self) -> u64 {
        let keys = match &self.keys {
            Keys::Uniform(count) => format!("uniform {count}"),
            Keys::Skewed { columns, exponent } => format!("zipf {} {:x}", columns.len(), exponent.to_bits()),
        };
        let Rows { seed, size, start_us, step_us, .. } = self;
        xxh3_64(format!("1 {seed} {keys} {size:?} {start_us} {step_us}").as_bytes())
    }

    /// Writes the rows of one partition.
    pub fn writer(&self, partition: u32) -> RowWriter<'_> {
        let mut prefix = br#"{"id":""#.to_vec();
        push_number(&mut prefix, u64::from(partition));
        prefix.push(b'-');
        let stream =
            mix((self.seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ mix(u64::from(partition) + 1));
        RowWriter { rows: self, prefix, stream, day: i64::MIN, date: [0; 10] }
    }
}

/// Writes the rows of one partition.
pub struct RowWriter<'r> {
    rows: &'r Rows,
    /// What every row starts with.
    prefix: Vec<u8>,
    stream: u64,
    /// The day that `date` is.
    day: i64,
    date: [u8; 10],
}

impl RowWriter<'_> {
    /// Appends row `number`; the first is 1.
    #[inline]
    pub fn push(&mut self, out: &mut Vec<u8>, number: u64) {
        let start = out.len();
        let first = mix(self.stream.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let second = mix(first ^ 0xd6e8_feb8_6659_fd93);
        out.extend_from_slice(&self.prefix);
        push_number(out, number);
        out.extend_from_slice(br#"","key":"k"#);
        push_number(out, self.rows.keys.draw(first));
        out.extend_from_slice(br#"","time":""#);
        self.push_time(out, number);
        out.extend_from_slice(br#"","value":"#);
        push_number(out, ((second >> 32) * VALUES) >> 32);
        if let Some(size) = self.rows.size {
            let filled = out.len() - start + PAD_BYTES + 1;
            out.extend_from_slice(br#","pad":""#);
            out.resize(out.len() + size.saturating_sub(filled), b'x');
            out.push(b'"');
        }
        out.push(b'}');
    }

    #[inline]
    fn push_time(&mut self, out: &mut Vec<u8>, number: u64) {
        let passed = i128::from(self.rows.step_us) * i128::from(number - 1);
        let time = (i128::from(self.rows.start_us) + passed).min(i128::from(LAST_US)) as i64;
        let (day, within) = (time.div_euclid(DAY_US), time.rem_euclid(DAY_US) as u64);
        if day != self.day {
            self.day = day;
            self.date = date(day);
        }
        let (seconds, micros) = ((within / 1_000_000) as u32, (within % 1_000_000) as u32);
        let mut text = *b"T00:00:00.000000Z";
        put(&mut text[1..3], seconds / 3600);
        put(&mut text[4..6], seconds / 60 % 60);
        put(&mut text[7..9], seconds % 60);
        put(&mut text[10..16], micros);
        out.extend_from_slice(&self.date);
        out.extend_from_slice(&text);
    }
}

/// A bijection of 64 bits that leaves no pattern (the finaliser of SplitMix64).
#[inline]
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[inline]
fn push_number(out: &mut Vec<u8>, mut number: u64) {
    let mut text = [0; 20];
    let mut at = text.len();
    loop {
        at -= 1;
        text[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&text[at..]);
}

/// Writes a number into all of `text`, with leading zeros.
#[inline]
fn put(text: &mut [u8], mut number: u32) {
    for digit in text.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// `YYYY-MM-DD` of a day since 1970, proleptic Gregorian, years 0 to 9999.
fn date(day: i64) -> [u8; 10] {
    // Counted in eras of 400 years that start on a 1 March, so that the leap day comes last.
    let day = day + 719_468;
    let (era, day) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = era * 400 + year + i64::from(month <= 2);
    let mut text = *b"0000-00-00";
    put(&mut text[..4], year.clamp(0, 9999) as u32);
    put(&mut text[5..7], month as u32);
    put(&mut text[8..], day as u32);
    text
}

/// Days since 1970 of a date, `None` if there is no such day.
fn day_of(year: i64, month: i64, day: i64) -> Option<i64> {
    let (shifted, from_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, within) = (shifted.div_euclid(400), shifted.rem_euclid(400));
    let days = era * 146_097 + within * 365 + within / 4 - within / 100 + (153 * from_march + 2) / 5 + day
        - 1
        - 719_468;
    let mut text = *b"0000-00-00";
    put(&mut text[..4], u32::try_from(year).ok()?);
    put(&mut text[5..7], u32::try_from(month).ok()?);
    put(&mut text[8..], u32::try_from(day).ok()?);
    (date(days) == text).then_some(days)
}

/// Microseconds since 1970 of `YYYY-MM-DDTHH:MM:SSZ`, with up to six digits of a fraction.
pub fn parse_time(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let numbers = |text: &str, separator: char, widths: [usize; 3]| {
        let mut parts = text.split(separator);
        let numbers = widths.map(|width| {
            let part = parts
                .next()
                .filter(|part| part.len() == width && part.bytes().all(|byte| byte.is_ascii_digit()));
            part.and_then(|part| part.parse::<i64>().ok()).unwrap_or(-1)
        });
        (parts.next().is_none() && !numbers.contains(&-1)).then_some(numbers)
    };
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hours, minutes, seconds] = numbers(time, ':', [2, 2, 2])?;
    if hours > 23 || minutes > 59 || seconds > 59 || fraction.is_empty() || fraction.len() > 6 {
        return None;
    }
    let [micros, ..] = numbers(&format!("{fraction:0<6}-0-0"), '-', [6, 1, 1])?;
    Some(day_of(year, month, day)? * DAY_US + ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_strictly() {
        assert_eq!(parse_time("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(parse_time("2024-02-29T23:59:59.5Z"), Some(1_709_251_199_500_000));
        assert_eq!(parse_time("1969-12-31T23:59:59.000001Z"), Some(-999_999));
        for wrong in [
            "",
            "2024-01-01",
            "2024-01-01T00:00:00",
            "2024-01-01T00:00:00+00:00",
            "2023-02-29T00:00:00Z",
            "2024-13-01T00:00:00Z",
            "2024-00-01T00:00:00Z",
            "2024-01-32T00:00:00Z",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:60:00Z",
            "2024-01-01T00:00:60Z",
            "2024-1-01T00:00:00Z",
            "2024-01-01T00:00:00.Z",
            "2024-01-01T00:00:00.1234567Z",
            "2024-01-01T00:00:+1Z",
            "2024-01-01T00:00:00.+1Z",
        ] {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn every_day_of_four_centuries_is_written_as_it_is_read() {
        let mut text = *b"0000-00-00";
        for day in -719_000..-719_000 + 2 * 146_097 {
            let next = date(day);
            assert!(
                text < next,
                "{:?} is not after {:?}",
                std::str::from_utf8(&next),
                std::str::from_utf8(&text)
            );
            text = next;
            let parsed = parse_time(&format!("{}T00:00:00Z", std::str::from_utf8(&text).expect("digits")));
            assert_eq!(parsed, Some(day * DAY_US));
        }
    }
}
