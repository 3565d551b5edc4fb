//! Durations and sizes as a manifest writes them.

/// Units of a duration in microseconds, largest first.
const DURATIONS: &[(&str, i64)] =
    &[("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000)];

/// Units of a size in bytes.
const SIZES: &[(&str, u64)] = &[
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
    ("", 1),
];

/// What a duration looks like, for messages.
pub(crate) const DURATION_FORM: &str = "a duration such as `250ms`, `10s`, `5m`, `24h`, `7d` or `1h30m`";
/// What a size looks like, for messages.
pub(crate) const SIZE_FORM: &str = "a size such as `64KiB`, `16MiB`, `1GiB`, `100MB` or a number of bytes";

/// Parses a duration to microseconds: parts of number and unit, larger units first, each unit once.
pub fn parse_duration(text: &str) -> Option<i64> {
    let mut rest = text;
    let mut total: i64 = 0;
    let mut next_unit = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: i64 = rest[..digits].parse().ok()?;
        let letters = rest[digits..].find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len() - digits);
        let unit = &rest[digits..digits + letters];
        let index = DURATIONS.iter().position(|(name, _)| *name == unit)?;
        if index < next_unit {
            return None;
        }
        next_unit = index + 1;
        total = total.checked_add(number.checked_mul(DURATIONS[index].1)?)?;
        rest = &rest[digits + letters..];
    }
    (!text.is_empty()).then_some(total)
}

/// The shortest exact spelling of a duration that [`parse_duration`] reads back.
pub fn format_duration(mut us: i64) -> String {
    if us == 0 {
        return "0s".to_owned();
    }
    let mut out = String::new();
    for (unit, size) in DURATIONS {
        let count = us / size;
        if count != 0 {
            out.push_str(&format!("{count}{unit}"));
            us -= count * size;
        }
    }
    if us != 0 {
        // No manifest can say it; kept exact for durations that did not come from one.
        out.push_str(&format!("{us}us"));
    }
    out
}

/// Parses a size to bytes.
pub fn parse_size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let (_, unit) = SIZES.iter().find(|(name, _)| *name == &text[digits..])?;
    number.checked_mul(*unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations() {
        for (text, us) in [
            ("250ms", 250_000),
            ("10s", 10_000_000),
            ("5m", 300_000_000),
            ("24h", 86_400_000_000),
            ("7d", 604_800_000_000),
            ("1h30m", 5_400_000_000),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration(text), Some(us), "{text}");
        }
        for text in
            ["", "10", "s", "-1s", "1.5h", "10 s", "1s1h", "1s2s", "9223372036854775807d", "1us", "1S"]
        {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64KiB", 65_536),
            ("16MiB", 16 << 20),
            ("1GiB", 1 << 30),
            ("2MB", 2_000_000),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in ["", "KiB", "-1", "1.5MiB", "1 MiB", "1mib", "99999999999GiB"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_formatted_duration_reads_back(ms in 0i64..=i64::MAX / 1_000) {
            prop_assert_eq!(parse_duration(&format_duration(ms * 1_000)), Some(ms * 1_000));
        }
    }
}
