//! The names in a store's directory, and the file that says which format it has.

use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskFile, site};
use crate::error::StoreError;

/// The newest format this code reads, and the one it writes.
pub const FORMAT_VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"ONCEWARD";
pub(crate) const FORMAT_NAME: &str = "FORMAT";
const FORMAT_TEMPORARY: &str = "FORMAT.tmp";
const FORMAT_LEN: usize = 16;
/// The name of the file whose lock keeps a second process out.
pub(crate) const LOCK_NAME: &str = "LOCK";
/// Ends the name of a snapshot that is being written.
const TEMPORARY: &str = ".tmp";
const SEGMENT_PREFIX: &str = "log-";
const SNAPSHOT_PREFIX: &str = "snapshot-";
const DIGITS: usize = 20;

/// Turns the system's answer into an error that names the file.
pub(crate) fn refused<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> StoreError + 'a {
    move |source| match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            StoreError::Full { path: path.to_owned() }
        }
        _ => StoreError::Io { action, path: path.to_owned(), source },
    }
}

pub(crate) fn damaged(path: &Path, offset: u64, what: impl Into<String>) -> StoreError {
    StoreError::Damaged { path: path.to_owned(), offset, what: what.into() }
}

pub(crate) fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{SEGMENT_PREFIX}{number:0DIGITS$}"))
}

pub(crate) fn snapshot_path(dir: &Path, sequence: u64) -> PathBuf {
    dir.join(format!("{SNAPSHOT_PREFIX}{sequence:0DIGITS$}"))
}

pub(crate) fn snapshot_temporary(dir: &Path, sequence: u64) -> PathBuf {
    dir.join(format!("{SNAPSHOT_PREFIX}{sequence:0DIGITS$}{TEMPORARY}"))
}

/// What a store's directory holds. Other names are nobody's of ours, and are left alone.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Numbers of log segments, ascending.
    pub segments: Vec<u64>,
    /// Sequence numbers of snapshots, ascending.
    pub snapshots: Vec<u64>,
    /// Files that a crash left half-written.
    pub unfinished: Vec<PathBuf>,
    /// Whether the format file is there.
    pub format: bool,
}

fn number(name: &str, prefix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?;
    (digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| digits.parse().ok())?
}

impl Listing {
    pub(crate) fn read<D: Disk>(disk: &D, dir: &Path) -> Result<Self, StoreError> {
        let mut found = Listing::default();
        for name in disk.list(dir).map_err(refused("list", dir))? {
            if name == FORMAT_NAME {
                found.format = true;
            } else if name == FORMAT_TEMPORARY {
                found.unfinished.push(dir.join(name));
            } else if let Some(segment) = number(&name, SEGMENT_PREFIX) {
                found.segments.push(segment);
            } else if let Some(snapshot) = number(&name, SNAPSHOT_PREFIX) {
                found.snapshots.push(snapshot);
            } else if name.strip_suffix(TEMPORARY).and_then(|name| number(name, SNAPSHOT_PREFIX)).is_some() {
                found.unfinished.push(dir.join(name));
            }
        }
        Ok(found)
    }
}

/// Refuses a directory of a newer version.
pub(crate) fn check_format<D: Disk>(disk: &D, dir: &Path) -> Result<(), StoreError> {
    let path = dir.join(FORMAT_NAME);
    let file = disk.open(&path).map_err(refused("open", &path))?;
    let mut bytes = [0; FORMAT_LEN + 1];
    let len = file.read_at(0, &mut bytes).map_err(refused("read", &path))?;
    let content = &bytes[..FORMAT_LEN];
    let (body, sum) = content.split_at(FORMAT_LEN - 4);
    if len != FORMAT_LEN || !body.starts_with(MAGIC) || crc32c::crc32c(body).to_be_bytes() != *sum {
        return Err(damaged(
            &path,
            0,
            "found something else than a store's format, expected 16 bytes with magic and checksum",
        ));
    }
    let found = body[MAGIC.len()..].iter().fold(0, |value, byte| value << 8 | u32::from(*byte));
    if found > FORMAT_VERSION {
        return Err(StoreError::Newer { path, found, known: FORMAT_VERSION });
    }
    Ok(())
}

/// Writes the format file: the last step of making a store, so that its absence means "never used".
pub(crate) fn write_format<D: Disk>(disk: &D, dir: &Path) -> Result<(), StoreError> {
    let mut content = MAGIC.to_vec();
    content.extend_from_slice(&FORMAT_VERSION.to_be_bytes());
    let sum = crc32c::crc32c(&content);
    content.extend_from_slice(&sum.to_be_bytes());
    let temporary = dir.join(FORMAT_TEMPORARY);
    let path = dir.join(FORMAT_NAME);
    let file = disk.create(site::FORMAT_CREATE, &temporary).map_err(refused("create", &temporary))?;
    file.write_at(site::FORMAT_WRITE, 0, &content).map_err(refused("write", &temporary))?;
    file.sync_data(site::FORMAT_SYNC).map_err(refused("sync", &temporary))?;
    disk.rename(site::FORMAT_RENAME, &temporary, &path).map_err(refused("rename", &temporary))?;
    disk.sync_dir(site::DIR_SYNC, dir).map_err(refused("sync", dir))
}
