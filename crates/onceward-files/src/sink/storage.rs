//! The few things the sink asks of a file system, as a seam at which tests break it.

use std::io;
use std::path::Path;

/// Durable, exclusive file operations.
pub trait Storage: Send + Sync {
    /// Makes a folder and those above it, each entry durable in its parent.
    fn create_folder(&self, path: &Path) -> io::Result<()>;
    /// Creates or overwrites a file that nobody else knows of, with its content durable.
    fn write_private(&self, path: &Path, content: &[u8]) -> io::Result<()>;
    /// Gives a file a second name; fails with `AlreadyExists` if that name is taken.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Renames a file in one step; fails with `AlreadyExists` if the new name is taken.
    fn publish(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the entries of a folder durable.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    /// The names in a folder.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// A file's content.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Whether a name is taken.
    fn exists(&self, path: &Path) -> io::Result<bool>;
}

/// The local file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalStorage;

impl Storage for LocalStorage {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        if path.as_os_str().is_empty() || path.is_dir() {
            return Ok(());
        }
        let parent = path.parent().unwrap_or(Path::new(""));
        self.create_folder(parent)?;
        match std::fs::create_dir(path) {
            Ok(()) => self.sync_folder(parent),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            Err(error) => Err(error),
        }
    }
    fn write_private(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let mut file = std::fs::File::create(path)?;
        io::Write::write_all(&mut file, content)?;
        file.sync_all()
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::hard_link(from, to)
    }
    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // A file system without the flag: look first. Only a foreign writer could come between.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::OPNOTSUPP) => {
                if self.exists(to)? {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                std::fs::rename(from, to)
            }
            done => done.map_err(io::Error::from),
        }
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }
    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        std::fs::File::open(path)?.sync_all()
    }
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(path)? {
            // What is not UTF-8 is none of ours.
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    }
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        match std::fs::symlink_metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}
