//! What is settled before anything is written: the storage can refuse, and the folder is ours.

use std::io;
use std::path::Path;

use onceward_connector::{ConnectorError, TargetError};
use onceward_protocol::{Fence, SinkIdentity};
use serde::{Deserialize, Serialize};

use super::error::definite;
use super::layout::Layout;
use super::storage::Storage;

/// Which pipeline creation a folder belongs to.
#[derive(PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Owner {
    version: u32,
    creation: String,
    pipeline: String,
    sink: String,
}

/// Makes the folders, durable down to the staging folder.
pub fn make_folders(storage: &dyn Storage, layout: &Layout) -> Result<(), TargetError> {
    for folder in layout.folders() {
        storage.create_folder(folder).map_err(|error| definite("making the folder", folder, &error))?;
    }
    // A folder found here may have been made by a process that died before it was durable.
    for folder in layout.folders() {
        storage.sync_folder(folder).map_err(|error| definite("syncing the folder", folder, &error))?;
    }
    let above = layout.folders()[1].parent().unwrap_or(Path::new(""));
    storage.sync_folder(above).map_err(|error| definite("syncing the folder", above, &error))
}

/// Proves that the storage refuses to create a name twice; without that there is no fence. Leaves
/// nothing behind.
pub fn probe(storage: &dyn Storage, layout: &Layout, fence: Fence) -> Result<(), TargetError> {
    let file = layout.staging().join(format!("probe-{fence}"));
    let name = layout.staging().join(format!("probe-{fence}-name"));
    let result = probe_names(storage, layout.folder(), &file, &name);
    for path in [&name, &file] {
        match storage.remove(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound && result.is_ok() => {
                return Err(definite("removing", path, &error));
            }
            _ => {}
        }
    }
    result
}

fn probe_names(storage: &dyn Storage, folder: &Path, file: &Path, name: &Path) -> Result<(), TargetError> {
    let cannot = |found: String| {
        TargetError::Definite(ConnectorError::new(
            "OW-3102",
            format!(
                "the storage under {} cannot keep exactly-once: {found}. Expected a file system on which the second \
                 creation of a name fails; set `path` to a local disk or another such file system",
                folder.display()
            ),
        ))
    };
    storage.write_private(file, b"probe\n").map_err(|error| definite("writing", file, &error))?;
    match storage.link(file, name) {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
            return Err(definite("linking", name, &error));
        }
        Err(error) => return Err(cannot(format!("a file cannot be given a second name ({error})"))),
    }
    match storage.link(file, name) {
        Ok(()) => Err(cannot("it created the same name twice".into())),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(cannot(format!("a second creation of a name fails with another error ({error})"))),
    }
}

/// Claims the folder for the pipeline's creation, or says whose it is.
pub fn claim(
    storage: &dyn Storage,
    layout: &Layout,
    identity: &SinkIdentity,
    fence: Fence,
) -> Result<(), TargetError> {
    let ours = Owner {
        version: 1,
        creation: identity.partition.creation().to_string(),
        pipeline: identity.pipeline.clone(),
        sink: identity.sink.clone(),
    };
    let path = layout.owner();
    let unreadable = |error: serde_json::Error| {
        TargetError::Definite(ConnectorError::new(
            "OW-3108",
            format!(
                "the owner file {} cannot be read: {error}. It is written once and never changed: restore it from a copy, \
                 or set another `path`",
                path.display()
            ),
        ))
    };
    let exists = storage.exists(&path).map_err(|error| definite("looking at", &path, &error))?;
    if !exists {
        let mut content = serde_json::to_vec(&ours).map_err(unreadable)?;
        content.push(b'\n');
        let temporary = layout.staging().join(format!("owner-{fence}"));
        storage
            .write_private(&temporary, &content)
            .map_err(|error| definite("writing", &temporary, &error))?;
        let linked = storage.link(&temporary, &path);
        let _ = storage.remove(&temporary);
        match linked {
            Ok(()) => {}
            // Another partition of this sink was faster, or another pipeline: the content tells.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(definite("creating", &path, &error)),
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        storage.sync_folder(folder).map_err(|error| definite("syncing the folder", folder, &error))?;
    }
    let content = storage.read(&path).map_err(|error| definite("reading", &path, &error))?;
    let owner: Owner = serde_json::from_slice(&content).map_err(unreadable)?;
    if owner.creation == ours.creation {
        return Ok(());
    }
    let sink_folder = path.parent().unwrap_or(Path::new(""));
    Err(TargetError::Definite(ConnectorError::config(
        "OW-3101",
        "path",
        format!(
            "the folder {} belongs to another creation of a pipeline: found pipeline {} created as {}, expected {} created \
             as {}. Set another `path`, or, if the files of the other creation are no longer wanted, remove them together \
             with {}",
            layout.folder().display(),
            owner.pipeline,
            owner.creation,
            ours.pipeline,
            ours.creation,
            sink_folder.display()
        ),
    )))
}
