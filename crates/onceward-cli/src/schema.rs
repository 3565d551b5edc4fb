//! `schema`: the JSON Schema of manifests.

use crate::console;
use crate::failure::Failure;

/// The schema of this build, as text.
pub fn text() -> String {
    format!("{:#}\n", onceward_spec::json_schema(&onceward::registry()))
}

/// Prints the schema.
pub fn schema() -> Result<(), Failure> {
    console::print(&text())
}
