//! The type of a plain scalar, by the core schema of YAML 1.2.

/// What an unquoted text means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ScalarType {
    Null,
    Bool,
    Int,
    Float,
    Text,
}

impl ScalarType {
    /// Resolves an unquoted text.
    pub(crate) fn of_plain(text: &str) -> Self {
        match text {
            "" | "~" | "null" | "Null" | "NULL" => return ScalarType::Null,
            "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => return ScalarType::Bool,
            ".nan" | ".NaN" | ".NAN" => return ScalarType::Float,
            _ => {}
        }
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
            return ScalarType::Float;
        }
        let all = |digits: &str, ok: fn(&u8) -> bool| !digits.is_empty() && digits.bytes().all(|b| ok(&b));
        if all(unsigned, u8::is_ascii_digit)
            || text.strip_prefix("0x").is_some_and(|digits| all(digits, u8::is_ascii_hexdigit))
            || text.strip_prefix("0o").is_some_and(|digits| all(digits, |b| (b'0'..=b'7').contains(b)))
        {
            return ScalarType::Int;
        }
        if is_float(unsigned) { ScalarType::Float } else { ScalarType::Text }
    }
    /// What it is called in messages.
    pub(crate) fn label(self) -> &'static str {
        match self {
            ScalarType::Null => "nothing",
            ScalarType::Bool => "a boolean",
            ScalarType::Int => "a whole number",
            ScalarType::Float => "a fraction",
            ScalarType::Text => "a text",
        }
    }
}

fn is_float(unsigned: &str) -> bool {
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent_ok = exponent.is_none_or(|text| {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        !unsigned.is_empty() && digits(unsigned)
    });
    digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty()) && exponent_ok
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_schema() {
        for (text, expected) in [
            ("", ScalarType::Null),
            ("~", ScalarType::Null),
            ("null", ScalarType::Null),
            ("nUll", ScalarType::Text),
            ("true", ScalarType::Bool),
            ("yes", ScalarType::Text),
            ("0", ScalarType::Int),
            ("-12", ScalarType::Int),
            ("+12", ScalarType::Int),
            ("0x1F", ScalarType::Int),
            ("0o17", ScalarType::Int),
            ("0x", ScalarType::Text),
            ("-0x1", ScalarType::Text),
            ("1.5", ScalarType::Float),
            (".5", ScalarType::Float),
            ("5.", ScalarType::Float),
            ("1e9", ScalarType::Float),
            ("1e", ScalarType::Text),
            ("-.inf", ScalarType::Float),
            (".", ScalarType::Text),
            ("-", ScalarType::Text),
            ("1.2.3", ScalarType::Text),
            ("24h", ScalarType::Text),
            ("NA", ScalarType::Text),
        ] {
            assert_eq!(ScalarType::of_plain(text), expected, "{text:?}");
        }
    }
}
