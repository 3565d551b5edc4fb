//! `init`: a first pipeline that runs at once.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use crate::args::InitArgs;
use crate::console;
use crate::failure::Failure;
use crate::schema;

const MANIFEST: &str = include_str!("pipeline.yaml");
const ORDERS: &str = include_str!("orders.jsonl");

/// Writes the files, or none of them if one exists.
pub fn init(args: &InitArgs) -> Result<(), Failure> {
    let schema = schema::text();
    let files: Vec<_> =
        [("pipeline.yaml", MANIFEST), ("data/orders.jsonl", ORDERS), ("onceward.schema.json", &schema)]
            .into_iter()
            .map(|(name, text)| (args.dir.join(name), text))
            .collect();
    if let Some((path, _)) = files.iter().find(|(path, _)| path.symlink_metadata().is_ok()) {
        return Err(Failure::Exists { path: path.clone() });
    }
    for (path, text) in &files {
        write_new(path, text)?;
        console::say(&format!("wrote {}", path.display()));
    }
    console::say(&format!("run it: onceward run {}", args.dir.join("pipeline.yaml").display()));
    Ok(())
}

/// Also a file that appears after the look for it is not overwritten.
fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::Exists { path: path.to_owned() },
        _ => Failure::Write { path: path.to_owned(), source },
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}
