//! Single values: read, or refused with what was found and what was expected.

use crate::code;
use crate::diagnostic::Diagnostic;
use crate::nearest::{did_you_mean, one_of};
use crate::units::{DURATION_FORM, SIZE_FORM, parse_duration, parse_size};
use crate::yaml::{Kind, Node, Origin, ScalarType};

/// Longest name; names become parts of file names.
pub(crate) const MAX_NAME: usize = 100;
/// What a name looks like, as a regular expression for the schema.
pub(crate) const NAME_PATTERN: &str = "^[A-Za-z0-9_][A-Za-z0-9_-]*$";

/// Reads one kind of value, or says what is wrong with it.
pub(crate) type ReadResult<T> = Result<T, Box<Diagnostic>>;

fn wrong_type(node: &Node, path: &str, expected: &str) -> Box<Diagnostic> {
    let message = format!("found {}, expected {expected}", node.found());
    Box::new(Diagnostic::error(code::WRONG_TYPE, node.place, path, message))
}

fn bad_value(node: &Node, path: &str, expected: &str) -> Box<Diagnostic> {
    let message = format!("found {}, expected {expected}", node.found());
    Box::new(Diagnostic::error(code::BAD_VALUE, node.place, path, message))
}

/// A text. A number or boolean is refused: YAML would have changed it, had it been read as one.
pub(crate) fn text<'a>(node: &'a Node, path: &str) -> ReadResult<&'a str> {
    match node.as_scalar() {
        Some(scalar) if scalar.scalar_type == ScalarType::Text => Ok(&scalar.text),
        Some(scalar) if scalar.scalar_type != ScalarType::Null => {
            let help = match scalar.origin {
                Origin::File(_) => format!("write it in quotes: \"{}\"", scalar.text),
                _ => "put the whole value in quotes".to_owned(),
            };
            Err(Box::new(wrong_type(node, path, "a text").with_help(help)))
        }
        _ => Err(wrong_type(node, path, "a text")),
    }
}

/// A text that is not empty.
pub(crate) fn filled_text<'a>(node: &'a Node, path: &str) -> ReadResult<&'a str> {
    match text(node, path)? {
        "" => Err(Box::new(Diagnostic::error(
            code::BAD_VALUE,
            node.place,
            path,
            "found an empty text, expected at least one character",
        ))),
        text => Ok(text),
    }
}

/// Whether a text can be a name.
pub(crate) fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.len() <= MAX_NAME && text.starts_with(plain) && text.chars().all(|c| plain(c) || c == '-')
}

/// A name. `2024` is one, too, though YAML calls it a number.
pub(crate) fn name<'a>(node: &'a Node, path: &str) -> ReadResult<&'a str> {
    let Some(text) = node.text() else { return Err(wrong_type(node, path, "a name")) };
    if is_name(text) {
        return Ok(text);
    }
    let message = format!("found {}, expected {NAME_FORM}", node.found());
    Err(Box::new(Diagnostic::error(code::BAD_NAME, node.place, path, message)))
}

/// What a name looks like, for messages.
pub(crate) const NAME_FORM: &str =
    "a name of at most 100 letters, digits, `_` and `-` that does not begin with `-`";

/// An expression or aggregate call: the text of any scalar.
pub(crate) fn expression<'a>(node: &'a Node, path: &str, expected: &str) -> ReadResult<&'a str> {
    match node.as_scalar() {
        Some(scalar) if !scalar.text.trim().is_empty() => Ok(&scalar.text),
        Some(_) => Err(Box::new(Diagnostic::error(
            code::WRONG_TYPE,
            node.place,
            path,
            format!("found nothing, expected {expected}"),
        ))),
        None => {
            let error = wrong_type(node, path, expected);
            Err(Box::new(error.with_help("put it in quotes if it begins with `[` or `{`")))
        }
    }
}

/// A function's setting: a scalar with a text of its own.
pub(crate) fn setting<'a>(node: &'a Node, path: &str) -> ReadResult<&'a str> {
    node.text().ok_or_else(|| wrong_type(node, path, "a text, a number or a boolean"))
}

/// `true` or `false`.
pub(crate) fn boolean(node: &Node, path: &str) -> ReadResult<bool> {
    match node.as_scalar() {
        Some(scalar) if scalar.scalar_type == ScalarType::Bool => {
            Ok(scalar.text.eq_ignore_ascii_case("true"))
        }
        _ => Err(wrong_type(node, path, "`true` or `false`")),
    }
}

/// A whole number within bounds.
pub(crate) fn integer(node: &Node, path: &str, min: i64, max: i64) -> ReadResult<i64> {
    let expected = match (min, max) {
        (i64::MIN, i64::MAX) => "a whole number".to_owned(),
        (min, i64::MAX) => format!("a whole number, at least {min}"),
        (i64::MIN, max) => format!("a whole number, at most {max}"),
        (min, max) => format!("a whole number from {min} to {max}"),
    };
    let scalar = node
        .as_scalar()
        .filter(|scalar| scalar.scalar_type == ScalarType::Int)
        .ok_or_else(|| wrong_type(node, path, &expected))?;
    let text = scalar.text.as_str();
    let parsed = if let Some(digits) = text.strip_prefix("0x") {
        i64::from_str_radix(digits, 16)
    } else if let Some(digits) = text.strip_prefix("0o") {
        i64::from_str_radix(digits, 8)
    } else {
        text.parse()
    };
    match parsed {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(bad_value(node, path, &expected)),
    }
}

/// A duration in microseconds.
pub(crate) fn duration(node: &Node, path: &str, min_us: i64) -> ReadResult<i64> {
    let text = match node.as_scalar() {
        Some(scalar) if scalar.scalar_type == ScalarType::Text => &scalar.text,
        Some(scalar) if scalar.scalar_type == ScalarType::Int => {
            let error = wrong_type(node, path, DURATION_FORM);
            let help = match scalar.origin {
                Origin::Expanded(_) => "give the number a unit".to_owned(),
                _ => format!("give the number a unit: `{}s` if it means seconds", scalar.text),
            };
            return Err(Box::new(error.with_help(help)));
        }
        _ => return Err(wrong_type(node, path, DURATION_FORM)),
    };
    match parse_duration(text) {
        Some(us) if us >= min_us => Ok(us),
        Some(_) => {
            let least = crate::units::format_duration(min_us);
            Err(bad_value(node, path, &format!("a duration of at least `{least}`")))
        }
        None => Err(bad_value(node, path, DURATION_FORM)),
    }
}

/// A size in bytes.
pub(crate) fn size(node: &Node, path: &str, min: u64) -> ReadResult<u64> {
    let text = match node.as_scalar() {
        Some(scalar) if matches!(scalar.scalar_type, ScalarType::Text | ScalarType::Int) => &scalar.text,
        _ => return Err(wrong_type(node, path, SIZE_FORM)),
    };
    match parse_size(text) {
        Some(bytes) if bytes >= min => Ok(bytes),
        Some(_) => Err(bad_value(node, path, &format!("a size of at least {min} bytes"))),
        None => Err(bad_value(node, path, SIZE_FORM)),
    }
}

/// One of some words.
pub(crate) fn word<'a>(node: &'a Node, path: &str, words: &[&'static str]) -> ReadResult<&'a str> {
    let expected = one_of(words.iter().copied());
    let Some(text) = node.text() else { return Err(wrong_type(node, path, &expected)) };
    if words.contains(&text) {
        return Ok(text);
    }
    let message = format!("found {}, expected {expected}", node.found());
    let error = Diagnostic::error(code::UNKNOWN_WORD, node.place, path, message);
    Err(Box::new(error.with_help_opt(did_you_mean(text, words.iter().copied()))))
}

/// A list, possibly empty.
pub(crate) fn list<'a>(node: &'a Node, path: &str, of: &str) -> ReadResult<&'a [Node]> {
    match &node.kind {
        Kind::Sequence(items) => Ok(items),
        Kind::Scalar(scalar) if scalar.scalar_type != ScalarType::Null => {
            let help = match scalar.origin {
                Origin::File(_) if !scalar.text.contains('\n') => format!("write `[{}]`", scalar.text),
                _ => "write it as a list, in `[ ]`".to_owned(),
            };
            Err(Box::new(wrong_type(node, path, &format!("a list of {of}")).with_help(help)))
        }
        _ => Err(wrong_type(node, path, &format!("a list of {of}"))),
    }
}

/// A map, possibly empty.
pub(crate) fn map<'a>(node: &'a Node, path: &str, of: &str) -> ReadResult<&'a [crate::yaml::Entry]> {
    match &node.kind {
        Kind::Mapping(entries) => Ok(entries),
        _ => Err(wrong_type(node, path, &format!("a map of {of}"))),
    }
}
