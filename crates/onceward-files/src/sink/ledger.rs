//! The numbered manifests: each is created once, with its whole content, and never freed. Creating
//! the next number is the one step that commits, and the one that a fenced writer cannot take.

use std::io;
use std::sync::Arc;

use onceward_connector::TargetError;
use onceward_protocol::{Fence, SinkIdentity};
use xxhash_rust::xxh3::xxh3_64;

use super::error::{creating, definite, unknown};
use super::layout::Layout;
use super::manifest::{Manifest, Table};
use super::storage::Storage;
use onceward_connector::ConnectorError;

/// What became of an attempt at the next number.
#[derive(Debug)]
pub enum Append {
    /// The manifest is there and durable.
    Committed,
    /// The number went to another writer; ours has no effect.
    Taken(Box<Manifest>),
}

/// The manifests of one partition of one sink.
pub struct Ledger {
    /// Where things are.
    pub layout: Layout,
    /// Whose they are.
    pub identity: SinkIdentity,
    /// The file system.
    pub storage: Arc<dyn Storage>,
}

impl Ledger {
    /// The last manifest, read anew.
    pub fn last(&self) -> Result<Option<Manifest>, TargetError> {
        let folder = self.layout.manifests();
        let names = match self.storage.list(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            listed => listed.map_err(|error| definite("listing", folder, &error))?,
        };
        match names.iter().filter_map(|name| Layout::manifest_number(name)).max() {
            Some(number) => self.read(number).map(Some),
            None => Ok(None),
        }
    }

    /// One manifest.
    pub fn read(&self, number: u64) -> Result<Manifest, TargetError> {
        let path = self.layout.manifest(number);
        let bytes = self.storage.read(&path).map_err(|error| definite("reading", &path, &error))?;
        Ok(Manifest::decode(&bytes, number, &self.identity, &path)?)
    }

    /// Makes a table's rows durable under a name without effect.
    pub fn stage(&self, name: &str, content: &[u8]) -> Result<(), TargetError> {
        let path = self.layout.staging().join(name);
        let staged = self.storage.write_private(&path, content);
        let staged = staged.and_then(|()| self.storage.sync_folder(self.layout.staging()));
        staged.map_err(|error| {
            self.discard(name);
            definite("writing", &path, &error)
        })
    }

    /// Removes a staged file that can have no effect any more. What cannot be removed now is removed
    /// by a later open.
    pub fn discard(&self, name: &str) {
        let _ = self.storage.remove(&self.layout.staging().join(name));
    }

    /// Creates the manifest under its number if that is free. An `Unknown` leaves the staged files.
    pub fn append(&self, manifest: &Manifest, fence: Fence) -> Result<Append, TargetError> {
        let path = self.layout.manifest(manifest.number);
        let name = Layout::staged_name(manifest.number, fence, "json");
        let staged = self.layout.staging().join(&name);
        let content = manifest.encode()?;
        self.storage.write_private(&staged, &content).map_err(|error| {
            self.discard(&name);
            definite("writing", &staged, &error)
        })?;
        match self.storage.link(&staged, &path) {
            Ok(()) => {}
            // Not found: a newer open, which took the number, has cleared our staged file away.
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists
                    || (error.kind() == io::ErrorKind::NotFound
                        && self.storage.exists(&path).unwrap_or(false)) =>
            {
                let there = self.storage.read(&path).map_err(|error| unknown("reading", &path, &error))?;
                // Byte-identical: an attempt of ours that timed out after it was applied.
                if there != content {
                    self.discard(&name);
                    let other = Manifest::decode(&there, manifest.number, &self.identity, &path)?;
                    return Ok(Append::Taken(Box::new(other)));
                }
            }
            Err(error) => {
                let answer = creating("creating", &path, &error);
                if matches!(answer, TargetError::Definite(_)) {
                    self.discard(&name);
                }
                return Err(answer);
            }
        }
        let folder = self.layout.manifests();
        self.storage.sync_folder(folder).map_err(|error| unknown("syncing the folder", folder, &error))?;
        self.discard(&name);
        Ok(Append::Committed)
    }

    /// Lets a committed table appear. One that another open has let appear before is left alone, and
    /// so is one that a reader has since taken away.
    pub fn publish(&self, table: &Table) -> Result<(), TargetError> {
        let staged = self.layout.staging().join(&table.staged);
        let visible = self.layout.folder().join(&table.file);
        match self.storage.publish(&staged, &visible) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(self.name_taken(&table.file));
            }
            Err(error) => return Err(unknown("publishing", &visible, &error)),
        }
        let folder = self.layout.folder();
        self.storage.sync_folder(folder).map_err(|error| unknown("syncing the folder", folder, &error))
    }

    /// A file that is not ours has the name of our next table.
    pub fn name_taken(&self, file: &str) -> TargetError {
        TargetError::Definite(ConnectorError::new(
            "OW-3109",
            format!(
                "the file {} is there already and was not written by this sink. It is not overwritten: move it away, or \
                 give this sink a `path` of its own, then start again",
                self.layout.folder().join(file).display()
            ),
        ))
    }

    /// Rolls forward: every table whose manifest is committed but whose file has not appeared yet
    /// appears now. With `fenced_at`, the number of an open of ours, also removes the files of
    /// attempts that can never be committed because their number is gone.
    pub fn recover(&self, fenced_at: Option<u64>) -> Result<(), TargetError> {
        let staging = self.layout.staging();
        let mut names = match self.storage.list(staging) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            listed => listed.map_err(|error| definite("listing", staging, &error))?,
        };
        names.sort();
        for name in names {
            let Some(number) = Layout::staged_number(&name) else {
                // A probe or an owner file of an open that died.
                if fenced_at.is_some() {
                    self.discard(&name);
                }
                continue;
            };
            let path = self.layout.manifest(number);
            let committed =
                self.storage.exists(&path).map_err(|error| definite("looking at", &path, &error))?;
            let table = if committed { self.read(number)?.table } else { None };
            match table {
                Some(table) if table.staged == name => {
                    self.check_staged(&table)?;
                    self.publish(&table)?;
                }
                _ if fenced_at.is_some_and(|open| number <= open) => self.discard(&name),
                _ => {}
            }
        }
        Ok(())
    }

    /// A table that waited in the staging folder must be what its manifest says.
    fn check_staged(&self, table: &Table) -> Result<(), TargetError> {
        let path = self.layout.staging().join(&table.staged);
        let content = match self.storage.read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            read => read.map_err(|error| definite("reading", &path, &error))?,
        };
        if digest(&content) == table.digest {
            return Ok(());
        }
        Err(TargetError::Definite(ConnectorError::new(
            "OW-3112",
            format!(
                "the staged table {} is not what was written: found {} bytes with digest {}, expected {} bytes with digest \
                 {}. The storage lost data it had confirmed; restore the folder and the pipeline's store from one backup",
                path.display(),
                content.len(),
                digest(&content),
                table.bytes,
                table.digest
            ),
        )))
    }
}

/// The digest of a table as it stands in a manifest.
pub fn digest(content: &[u8]) -> String {
    format!("{:016x}", xxh3_64(content))
}
