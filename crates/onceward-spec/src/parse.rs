//! From manifest text to a validated pipeline.

use std::path::Path;

use onceward_connector::Registry;

use crate::check;
use crate::code;
use crate::computations;
use crate::diagnostic::{Diagnostic, Errors};
use crate::expand;
use crate::graph;
use crate::keys;
use crate::model::{Pipeline, Place};
use crate::overrides;
use crate::read;
use crate::sinks;
use crate::table::Shape;
use crate::yaml::{self, Node};

/// A manifest and what it may refer to.
pub struct ManifestInput<'a> {
    /// Its text.
    pub text: &'a str,
    /// Its name, for messages.
    pub file_name: &'a str,
    /// The folder that relative paths are relative to.
    pub base_dir: &'a Path,
    /// `--set path=value`, applied in order before anything is checked.
    pub sets: &'a [String],
    /// Looks up environment variables.
    pub env: &'a dyn Fn(&str) -> Option<String>,
}

/// A pipeline that may run.
#[derive(Clone, PartialEq, Debug)]
pub struct Parsed {
    /// The pipeline.
    pub pipeline: Pipeline,
    /// What is probably not meant.
    pub warnings: Vec<Diagnostic>,
}

/// Parses and validates a manifest. Reads nothing but its arguments: a source's files are looked at
/// when the pipeline starts.
///
/// # Errors
/// All problems that could be found, not only the first.
pub fn parse(input: &ManifestInput<'_>, registry: &Registry) -> Result<Parsed, Errors> {
    let (root, mut problems) = yaml::load(input.text);
    let Some(mut root) = root else { return Err(Errors::sorted(problems)) };
    for set in input.sets {
        overrides::apply(&mut root, set, &mut problems);
    }
    expand::expand(&mut root, "", input.text, input.env, &mut problems);
    if let Some(other) = other_kind(&root) {
        problems.push(other);
        return Err(Errors::sorted(problems));
    }
    let start = Place { line: 1, column: 1 };
    check::check(&root, start, "", &Shape::Object(&keys::MANIFEST), &mut problems);
    graph::check_names(&root, &mut problems);
    graph::check_inputs(&root, &mut problems);
    let pipeline = read::read(&root, input.text, input.base_dir, registry, &mut problems);
    computations::check(&root, input.text, &pipeline, registry, &mut problems);
    sinks::check(&root, &pipeline, registry, &mut problems);
    // What rests on the whole is worth saying only of a whole manifest.
    if problems.is_empty() {
        sinks::check_require(&root, &pipeline, registry, &mut problems);
    }
    if !problems.is_empty() {
        return Err(Errors::sorted(problems));
    }
    let mut warnings = Vec::new();
    graph::warn_unused(&root, &mut warnings);
    Ok(Parsed { pipeline, warnings })
}

/// Another kind of manifest would be wrong in every key: it is refused by one sentence.
fn other_kind(root: &Node) -> Option<Diagnostic> {
    let node = root.get("kind")?;
    let kind = node.text().filter(|kind| *kind != keys::KIND)?;
    let message = format!("found the kind {}, expected `{}`", node.found(), keys::KIND);
    let help = match kind {
        "DataFlow" | "DataFlowCron" => "this version reads pipelines only",
        _ => "write `kind: Pipeline`",
    };
    Some(Diagnostic::error(code::UNKNOWN_VERSION, node.place, "kind", message).with_help(help))
}
