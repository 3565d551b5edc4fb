//! What is wrong with a manifest: every problem with its place, all of them at once.

use std::fmt;

use crate::code;
use crate::model::Place;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// The manifest is refused.
    Error,
    /// It runs, but probably not as meant.
    Warning,
}

/// One problem.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// Stable: see [`crate::code`]; a connector's own code where it found the problem.
    pub code: &'static str,
    /// What was found and what was expected.
    pub message: String,
    /// Where; line 0 for a value that did not come from the file (`--set`).
    pub place: Place,
    /// The field: `spec.sources.flights.config.path`. Empty for the file as a whole.
    pub path: String,
    /// What to do.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error.
    pub fn error(
        code: &'static str,
        place: Place,
        path: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        let (path, message) = (path.into(), message.into());
        Diagnostic { severity: Severity::Error, code, message, place, path, help: None }
    }
    /// A warning.
    pub fn warning(
        code: &'static str,
        place: Place,
        path: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, place, path, message) }
    }
    /// The same with what to do.
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
    /// The same with what to do, if there is something to suggest.
    pub fn with_help_opt(mut self, help: Option<String>) -> Self {
        self.help = help.or(self.help);
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place.line > 0 {
            write!(f, "{}:{}: ", self.place.line, self.place.column)?;
        }
        write!(f, "{}: {}", self.code, self.message)?;
        if !self.path.is_empty() {
            write!(f, " (at {})", self.path)?;
        }
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

/// Why a manifest is refused: at least one error, in manifest order, and the warnings beside them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Errors {
    /// All problems.
    pub items: Vec<Diagnostic>,
}

impl Errors {
    /// The problems in manifest order; what has no place comes first. What is not plain YAML is not
    /// said to be an unknown key as well.
    pub(crate) fn sorted(mut items: Vec<Diagnostic>) -> Self {
        let odd: Vec<Place> =
            items.iter().filter(|item| item.code == code::NOT_PLAIN_YAML).map(|item| item.place).collect();
        items.retain(|item| item.code != code::UNKNOWN_KEY || !odd.contains(&item.place));
        items.sort_by_key(|item| (item.place.line, item.place.column));
        items.dedup();
        Errors { items }
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.items.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{item}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}
