//! Aggregate calls: `count()`, `sum(fare * 2)`.

use crate::model::AggregateFunction;
use crate::nearest::did_you_mean;

/// What is expected, for messages.
pub(crate) const FORM: &str =
    "one aggregate call: `count()`, `count(x)`, `sum(x)`, `min(x)`, `max(x)` or `avg(x)`";

const FUNCTIONS: &[(&str, AggregateFunction)] = &[
    ("count", AggregateFunction::Count),
    ("sum", AggregateFunction::Sum),
    ("min", AggregateFunction::Min),
    ("max", AggregateFunction::Max),
    ("avg", AggregateFunction::Avg),
];

/// A call with its argument and the argument's offset in the text.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) function: AggregateFunction,
    pub(crate) argument: Option<(&'a str, usize)>,
}

/// Why a text is none.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct CallError {
    pub(crate) offset: usize,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

/// The name a manifest uses.
pub(crate) fn name(function: AggregateFunction) -> &'static str {
    FUNCTIONS.iter().find(|(_, known)| *known == function).map_or("", |(name, _)| name)
}

/// Parses one call; the argument is left to the expression compiler.
pub(crate) fn parse(text: &str) -> Result<Call<'_>, CallError> {
    let error = |offset, message: String, help| Err(CallError { offset, message, help });
    let lead = text.len() - text.trim_start().len();
    let call = text.trim();
    let name_end = call.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(call.len());
    let (name, rest) = call.split_at(name_end);
    let blank = rest.len() - rest.trim_start().len();
    let Some(inside) = rest.trim_start().strip_prefix('(').filter(|_| !name.is_empty()) else {
        let help = FUNCTIONS.iter().any(|(known, _)| *known == name).then(|| format!("write `{name}(...)`"));
        return error(lead, format!("found `{call}`, expected {FORM}"), help);
    };
    let Some((_, function)) = FUNCTIONS.iter().find(|(known, _)| *known == name) else {
        let help = did_you_mean(name, FUNCTIONS.iter().map(|(name, _)| *name));
        return error(lead, format!("unknown aggregate function `{name}`, expected {FORM}"), help);
    };
    let start = lead + name_end + blank + 1;
    let Some(length) = closing(inside) else {
        return error(start - 1, "the `(` is not closed".to_owned(), None);
    };
    if !inside[length + 1..].trim().is_empty() {
        let help = "compute with results in a `map` step of a computation behind this one".to_owned();
        let message = format!("found more after the call `{name}(...)`, expected {FORM}");
        return error(start + length + 1, message, Some(help));
    }
    let argument = &inside[..length];
    let offset = start + argument.len() - argument.trim_start().len();
    match (argument.trim(), function) {
        ("", AggregateFunction::Count) => Ok(Call { function: *function, argument: None }),
        ("*", AggregateFunction::Count) => error(
            offset,
            "found `count(*)`, expected `count()`".to_owned(),
            Some("write `count()`".to_owned()),
        ),
        ("", _) => error(offset, format!("`{name}()` has no argument, expected an expression"), None),
        (argument, _) => Ok(Call { function: *function, argument: Some((argument, offset)) }),
    }
}

/// The offset of the `)` that closes a `(` just before the text; quotes are skipped.
fn closing(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut depth = 0usize;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => return Some(at),
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            quote @ (b'"' | b'\'') => {
                let raw = at > 0 && matches!(bytes[at - 1], b'r' | b'R');
                at = quoted_end(bytes, at, quote, raw)?;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// The offset behind a quoted text that begins at `start`.
fn quoted_end(bytes: &[u8], start: usize, quote: u8, raw: bool) -> Option<usize> {
    let triple = [quote; 3];
    let mark: &[u8] = if bytes[start..].starts_with(&triple) { &triple } else { &triple[..1] };
    let mut at = start + mark.len();
    while at < bytes.len() {
        if bytes[at] == b'\\' && !raw {
            at += 2;
        } else if bytes[at..].starts_with(mark) {
            return Some(at + mark.len());
        } else {
            at += 1;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use AggregateFunction::*;

    #[test]
    fn calls() {
        let call = |function, argument| Ok(Call { function, argument });
        assert_eq!(parse("count()"), call(Count, None));
        assert_eq!(parse(" count ( ) "), call(Count, None));
        assert_eq!(parse("count(x)"), call(Count, Some(("x", 6))));
        assert_eq!(parse("sum( a + (b) )"), call(Sum, Some(("a + (b)", 5))));
        assert_eq!(parse("min(size(\")\"))"), call(Min, Some(("size(\")\")", 4))));
        assert_eq!(parse(r#"max(r"\")"#), call(Max, Some((r#"r"\""#, 4))));
        assert_eq!(parse(r#"avg("""a")"""[0])"#), call(Avg, Some((r#""""a")"""[0]"#, 4))));
    }

    #[test]
    fn what_is_no_call_is_refused_at_its_place() {
        for (text, offset) in [
            ("", 0),
            ("count", 0),
            ("  total(x)", 2),
            ("sum(x", 3),
            ("sum(a) + max(b)", 6),
            ("sum()", 4),
            ("count(*)", 6),
            ("sum(\"x)", 3),
        ] {
            assert_eq!(parse(text).map_err(|error| error.offset).err(), Some(offset), "{text}");
        }
        assert_eq!(parse("averge(x)").map_err(|error| error.help), Err(None));
        assert_eq!(parse("summ(x)").map_err(|e| e.help), Err(Some("did you mean `sum`?".to_owned())));
    }
}
