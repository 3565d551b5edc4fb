//! Functions that a manifest names: registered in this build, of the kind that the place takes, and
//! content with their settings.

use onceward_connector::{Function, FunctionKind, Registry};

use crate::check::join;
use crate::code;
use crate::diagnostic::Diagnostic;
use crate::grouping::key_place;
use crate::nearest::{did_you_mean, one_of};
use crate::read::read_settings;
use crate::yaml::{Entry, Node};

fn label(kind: FunctionKind) -> &'static str {
    match kind {
        FunctionKind::Message => "message function",
        FunctionKind::Process => "process function",
    }
}

/// Finds the function that a node names, or says what is wrong with it.
fn find<'r>(
    node: &Node,
    path: &str,
    kind: FunctionKind,
    registry: &'r Registry,
    problems: &mut Vec<Diagnostic>,
) -> Option<&'r Function> {
    let name = node.text()?;
    let found = registry.function(name);
    if let Some(function) = found.filter(|function| function.kind() == kind) {
        return Some(function);
    }
    let names = registry.function_names(kind);
    let expected = match names[..] {
        [] => format!("but no {} is registered in this build", label(kind)),
        _ => format!("expected a {} that is registered: {}", label(kind), one_of(names.iter().copied())),
    };
    let what = found.map_or(String::new(), |other| format!(", a {}", label(other.kind())));
    let message = format!("found {}{what}, {expected}", node.found());
    let help = match (found, did_you_mean(name, names)) {
        (Some(_), _) if kind == FunctionKind::Message => {
            "put it into the `process` of a computation with `groupBy`".to_owned()
        }
        (Some(_), _) => "put it into `steps`, as `function`".to_owned(),
        (None, Some(near)) => near,
        (None, None) => {
            "functions are written in Rust and registered by name in the program that runs the pipeline"
                .to_owned()
        }
    };
    problems.push(Diagnostic::error(code::UNKNOWN_FUNCTION, node.place, path, message).with_help(help));
    None
}

/// Checks a step's function.
pub(crate) fn check_step(node: &Node, path: &str, registry: &Registry, problems: &mut Vec<Diagnostic>) {
    find(node, path, FunctionKind::Message, registry, problems);
}

/// Checks `process`: makes the function once, to see whether it takes its settings.
pub(crate) fn check_process(
    computation: &Entry,
    path: &str,
    registry: &Registry,
    problems: &mut Vec<Diagnostic>,
) {
    let Some(entry) = computation.value.entries().iter().find(|entry| entry.key == "process") else { return };
    let path = join(path, "process");
    let Some(node) = entry.value.get("function") else { return };
    let found = find(node, &join(&path, "function"), FunctionKind::Process, registry, problems);
    let Some(Function::Process(make)) = found else { return };
    if let Err(error) = make(&read_settings(&entry.value)) {
        let (place, path) = match entry.value.get("config") {
            Some(_) => (key_place(entry, "config"), join(&path, "config")),
            None => (entry.key_place, path),
        };
        let message = format!("the function {} does not take its settings: {error}", node.found());
        let error = Diagnostic::error(code::FUNCTION_CONFIG, place, path, message);
        problems.push(error.with_help("change its `config`"));
    }
}
