//! The file layer: everything the embedded store asks of an operating system, as two traits.
//!
//! All of it is synchronous. Every operation that changes something carries a [`Site`], the static
//! name of the place in the store that asked for it, so that a simulator can crash at each of them.

mod fault;
mod inode;
mod os;
mod seed;
pub mod site;
mod timed;

use std::fmt::Debug;
use std::io;
use std::path::Path;

pub use fault::{Crashed, Fault, FaultDisk, FaultFile, FaultLock, is_crash};
pub use os::{OsDisk, OsFile, OsLock};
pub use site::Site;
pub(crate) use timed::Timed;

/// What became of an attempt to take a lock.
#[derive(Debug)]
pub enum Locking<L> {
    /// The lock is ours until the value is dropped.
    Acquired(L),
    /// Somebody else has it; the text is the note they left.
    Held(String),
}

/// A file system, as far as a store needs one. A clone is another handle to the same file system.
pub trait Disk: Clone + Debug + Send + 'static {
    /// An open file.
    type File: DiskFile;
    /// A lock that is held; dropping it releases the lock.
    type Lock: Debug + Send;

    /// Creates a directory and its parents, durably, unless it is there.
    fn create_dir(&self, site: Site, dir: &Path) -> io::Result<()>;
    /// Creates a file for reading and writing; an error if it exists.
    fn create(&self, site: Site, path: &Path) -> io::Result<Self::File>;
    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Self::File>;
    /// Gives a file another name in the same directory, replacing what had it. Durable only after
    /// [`Disk::sync_dir`].
    fn rename(&self, site: Site, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file's name. Durable only after [`Disk::sync_dir`].
    fn remove(&self, site: Site, path: &Path) -> io::Result<()>;
    /// The names in a directory, sorted. Names that are not UTF-8 are left out: no store wrote them.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, site: Site, dir: &Path) -> io::Result<()>;
    /// How many bytes may still be written below `dir`.
    fn space(&self, dir: &Path) -> io::Result<u64>;
    /// Takes the exclusive lock of the file at `path`, created if absent, and leaves `note` in it.
    fn lock(&self, site: Site, path: &Path, note: &str) -> io::Result<Locking<Self::Lock>>;
}

/// An open file. Offsets and sizes are in bytes.
pub trait DiskFile: Debug + Send + 'static {
    /// Writes all of `bytes` at `offset`. On an error any part of them may have been written.
    fn write_at(&self, site: Site, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Reads until `buffer` is full or the file ends; answers how much was read.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// Makes everything written durable, and the size as far as it is needed to read it.
    fn sync_data(&self, site: Site) -> io::Result<()>;
    /// The file's size.
    fn size(&self) -> io::Result<u64>;
}
