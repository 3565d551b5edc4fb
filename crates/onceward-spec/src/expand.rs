//! `${env:NAME}`, `${NAME}` and `${NAME:default}` in values; `$${` stands for a literal `${`.

use crate::check::join;
use crate::code;
use crate::diagnostic::Diagnostic;
use crate::yaml::{Kind, Node, Origin, Scalar, ScalarType, Style};

/// Where variables come from.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Replaces the variables in all values of the tree. Keys are names and stay as they are, and so does
/// what came from `--set`: the shell has already seen it.
pub(crate) fn expand(
    node: &mut Node,
    path: &str,
    source: &str,
    env: Environment<'_>,
    problems: &mut Vec<Diagnostic>,
) {
    match &mut node.kind {
        Kind::Mapping(entries) => {
            for entry in entries {
                expand(&mut entry.value, &join(path, &entry.key), source, env, problems);
            }
        }
        Kind::Sequence(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                expand(item, &format!("{path}[{index}]"), source, env, problems);
            }
        }
        Kind::Scalar(scalar) => {
            if scalar.origin == Origin::Override || !scalar.text.contains("${") {
                return;
            }
            match replace(&scalar.text, env) {
                Ok(text) => set_expanded(scalar, text),
                Err(problem) => {
                    let place = node.place_at(problem.offset, source);
                    let error = Diagnostic::error(problem.code, place, path, problem.message);
                    problems.push(error.with_help(problem.help));
                }
            }
        }
    }
}

fn set_expanded(scalar: &mut Scalar, text: String) {
    let raw = std::mem::replace(&mut scalar.text, text);
    scalar.origin = Origin::Expanded(raw);
    if scalar.style == Style::Plain {
        scalar.scalar_type = ScalarType::of_plain(&scalar.text);
    }
}

struct Problem {
    offset: usize,
    code: &'static str,
    message: String,
    help: String,
}

fn replace(text: &str, env: Environment<'_>) -> Result<String, Problem> {
    let mut out = String::new();
    let mut at = 0;
    while let Some(found) = text[at..].find("${") {
        let start = at + found;
        if text[at..start].ends_with('$') {
            out.push_str(&text[at..start]);
            out.push('{');
            at = start + 2;
            continue;
        }
        out.push_str(&text[at..start]);
        let Some(length) = text[start..].find('}') else {
            return Err(bad_reference(start, &text[start..]));
        };
        let reference = &text[start..=start + length];
        out.push_str(&lookup(start, reference, env)?);
        at = start + length + 1;
    }
    out.push_str(&text[at..]);
    Ok(out)
}

/// The value of one `${...}`.
fn lookup(offset: usize, reference: &str, env: Environment<'_>) -> Result<String, Problem> {
    let inner = &reference[2..reference.len() - 1];
    let (name, default) = match inner.split_once(':') {
        Some(("env", name)) => (name, None),
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    if !is_variable(name) {
        return Err(bad_reference(offset, reference));
    }
    if let Some(value) = env(name) {
        return Ok(value);
    }
    default.map(str::to_owned).ok_or_else(|| Problem {
        offset,
        code: code::VARIABLE_MISSING,
        message: format!("the environment variable `{name}` is not set"),
        help: format!("set it, or give a default: `${{{name}:value}}`"),
    })
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn bad_reference(offset: usize, found: &str) -> Problem {
    Problem {
        offset,
        code: code::BAD_REFERENCE,
        message: format!(
            "found `{}`, expected `${{env:NAME}}`, `${{NAME}}` or `${{NAME:default}}`",
            found.chars().take(60).collect::<String>()
        ),
        help: "write `$${` for a literal `${`".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<String, String> {
        let env = |name: &str| match name {
            "DIR" => Some("/data".to_owned()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${DIR}".to_owned()),
            _ => None,
        };
        replace(text, &env).map_err(|problem| format!("{} at {}", problem.code, problem.offset))
    }

    #[test]
    fn references() {
        for (text, expected) in [
            ("${env:DIR}/x", Ok("/data/x")),
            ("${DIR}", Ok("/data")),
            ("${DIR:other}", Ok("/data")),
            ("${NONE:other}", Ok("other")),
            ("${NONE:}", Ok("")),
            ("${NONE:a:b}", Ok("a:b")),
            ("${EMPTY:other}", Ok("")),
            ("${NESTED}", Ok("${DIR}")),
            ("a$${DIR}b", Ok("a${DIR}b")),
            ("$${DIR}${DIR}", Ok("${DIR}/data")),
            ("$5 {DIR}", Ok("$5 {DIR}")),
            ("x${env:NONE}", Err("OW-1030 at 1")),
            ("${NONE}", Err("OW-1030 at 0")),
            ("${}", Err("OW-1031 at 0")),
            ("${DIR", Err("OW-1031 at 0")),
            ("${A B}", Err("OW-1031 at 0")),
            ("${env:}", Err("OW-1031 at 0")),
        ] {
            assert_eq!(expanded(text), expected.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
    }
}
