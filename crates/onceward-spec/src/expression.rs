//! Expressions: compiled to see that they compile, with the place of the error inside the manifest.

use onceward_expr::{FieldSet, Program};

use crate::code;
use crate::diagnostic::Diagnostic;
use crate::nearest::{did_you_mean, one_of};
use crate::yaml::Node;

/// An expression in a scalar of the manifest.
pub(crate) struct Site<'a> {
    /// The scalar.
    pub(crate) node: &'a Node,
    /// Where the expression begins in the scalar's text.
    pub(crate) offset: usize,
    /// The expression.
    pub(crate) text: &'a str,
    /// The scalar's path.
    pub(crate) path: &'a str,
}

/// Compiles an expression; with `known` fields, refuses what reads another field.
pub(crate) fn check(site: &Site<'_>, known: Option<&[String]>, source: &str, problems: &mut Vec<Diagnostic>) {
    let mut fields = FieldSet::new();
    if let Err(error) = Program::compile(site.text, &mut fields) {
        let place = site.node.place_at(site.offset + error.offset, source);
        let message = format!("in the expression: {}", error.message);
        let help = error.help.clone();
        problems.push(Diagnostic::error(error.code, place, site.path, message).with_help_opt(help));
        return;
    }
    let Some(known) = known else { return };
    for name in fields.names().iter().filter(|name| !known.contains(name)) {
        let offset = site.offset + find_word(site.text, name).unwrap_or(0);
        let place = site.node.place_at(offset, source);
        problems.push(unknown_field(name, known, place, site.path));
    }
}

/// The error for a field that nothing before gives.
pub(crate) fn unknown_field(
    name: &str,
    known: &[String],
    place: crate::model::Place,
    path: &str,
) -> Diagnostic {
    let names = known.iter().map(String::as_str);
    let message = format!("the input has no field `{name}`, it has {}", one_of(names.clone()));
    Diagnostic::error(code::UNKNOWN_FIELD, place, path, message).with_help_opt(did_you_mean(name, names))
}

/// The first place of a whole word.
fn find_word(text: &str, word: &str) -> Option<usize> {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).map(|(at, _)| at).find(|at| {
        !text[..*at].ends_with(|c| part(c) || c == '.') && !text[at + word.len()..].starts_with(part)
    })
}
