//! `explain`: what a pipeline guarantees, and why.

use crate::args::ExplainArgs;
use crate::console;
use crate::failure::Failure;
use crate::manifest::Manifest;

/// Prints the guarantee report.
pub fn explain(args: &ExplainArgs) -> Result<(), Failure> {
    let manifest = Manifest::load(&args.manifest.path, &args.manifest.sets.values)?;
    let report = onceward_spec::report(&manifest.pipeline, &onceward::registry());
    let text = if args.json { format!("{:#}\n", report.to_json()) } else { report.to_text() };
    console::print(&text)
}
