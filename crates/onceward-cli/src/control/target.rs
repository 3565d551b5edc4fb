//! Which pipeline is meant: by name, by manifest, or by data directory.

use std::path::{Path, PathBuf};

use onceward_store::EmbeddedStore;

use super::error::ControlError;
use crate::args::control::PipelineArgs;
use crate::failure::Failure;
use crate::manifest::Manifest;

/// Where a pipeline's state is, and what it must be called.
pub struct Target {
    /// The store.
    pub data_dir: PathBuf,
    /// The name that it must have, if one was given.
    pub name: Option<String>,
    /// What to type for it.
    words: String,
}

/// Where pipelines that were run from here have their states.
pub fn home() -> PathBuf {
    [".", ".onceward"].iter().collect()
}

/// The stores of a folder, sorted. What a reset has left half-removed is none.
pub fn stores(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let whole = |path: &PathBuf| path.extension().is_none_or(|extension| extension != "discarded");
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut stores: Vec<PathBuf> = paths.filter(|path| whole(path) && EmbeddedStore::exists(path)).collect();
    stores.sort();
    stores
}

impl Target {
    /// What the arguments mean.
    pub fn of(args: &PipelineArgs) -> Result<Self, Failure> {
        let name = args.pipeline.as_deref().map(|word| name(word, args.data_dir.is_none())).transpose()?;
        if let Some(data_dir) = &args.data_dir {
            let words = format!("--data-dir {}", data_dir.display());
            return Ok(Target { data_dir: data_dir.clone(), name, words });
        }
        let name = match name {
            Some(name) => name,
            None => only_one()?,
        };
        let data_dir = home().join(&name);
        if !EmbeddedStore::exists(&data_dir) {
            return Err(ControlError::Unknown { name, folder: home(), known: names() }.into());
        }
        Ok(Target { data_dir, words: name.clone(), name: Some(name) })
    }

    /// What to type behind a command for this pipeline.
    pub fn words(&self) -> &str {
        &self.words
    }

    /// Refuses a pipeline that is not the one that was named.
    pub fn check(&self, found: &str) -> Result<(), ControlError> {
        match &self.name {
            Some(wanted) if wanted != found => Err(ControlError::OtherPipeline {
                data_dir: self.data_dir.clone(),
                found: found.to_owned(),
                wanted: wanted.clone(),
            }),
            _ => Ok(()),
        }
    }
}

/// A word is a manifest if it looks like a file, or if it is one and no pipeline has that name.
fn name(word: &str, is_looked_up: bool) -> Result<String, Failure> {
    let looks_like_a_file = word.contains('/') || word.ends_with(".yaml") || word.ends_with(".yml");
    let is_known = is_looked_up && EmbeddedStore::exists(&home().join(word));
    if looks_like_a_file || (!is_known && Path::new(word).is_file()) {
        return Manifest::load(Path::new(word), &[]).map(|manifest| manifest.pipeline.name);
    }
    Ok(word.to_owned())
}

fn names() -> Vec<String> {
    let name = |path: &PathBuf| Some(path.file_name()?.to_string_lossy().into_owned());
    stores(&home()).iter().filter_map(name).collect()
}

fn only_one() -> Result<String, ControlError> {
    let mut known = names();
    match (known.len(), known.pop()) {
        (1, Some(name)) => Ok(name),
        (_, last) => {
            known.extend(last);
            Err(ControlError::Unnamed { folder: home(), known })
        }
    }
}
