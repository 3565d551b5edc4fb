//! Reading a manifest, and printing what is wrong with it.

use std::path::{Path, PathBuf};

use onceward_spec::{ManifestInput, Pipeline, model::Place};

use crate::console;
use crate::failure::Failure;

/// A manifest that may run.
pub struct Manifest {
    /// Its name as the user wrote it, for messages.
    pub file_name: String,
    /// What it describes.
    pub pipeline: Pipeline,
}

impl Manifest {
    /// Reads and checks a manifest; problems and warnings are printed on standard error.
    pub fn load(path: &Path, sets: &[String]) -> Result<Self, Failure> {
        let unreadable = |source| Failure::Unreadable { path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        // Absolute, so that a message that names a data file can be understood from anywhere.
        let absolute = std::path::absolute(path).map_err(unreadable)?;
        let base_dir = absolute.parent().map_or_else(|| PathBuf::from("/"), Path::to_owned);
        let file_name = path.display().to_string();
        let input = ManifestInput {
            text: &text,
            file_name: &file_name,
            base_dir: &base_dir,
            sets,
            env: &|name| std::env::var(name).ok(),
        };
        let (pipeline, problems) = match onceward_spec::parse(&input, &onceward::registry()) {
            Ok(parsed) => (Some(parsed.pipeline), parsed.warnings),
            Err(errors) => (None, errors.items),
        };
        if !problems.is_empty() {
            console::say(&onceward_spec::render(&problems, &text, &file_name, console::coloured()));
        }
        pipeline.map(|pipeline| Manifest { file_name, pipeline }).ok_or(Failure::Refused)
    }

    /// Where something stands, for the end of a message; nothing for what is not in the file.
    pub fn place(&self, place: Place) -> String {
        if place.line == 0 {
            return String::new();
        }
        format!("\n  --> {}:{}:{}", self.file_name, place.line, place.column)
    }
}
