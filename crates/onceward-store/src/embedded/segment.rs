//! One file of the log, filled with zeros before it is used: a write into it changes no metadata, so
//! that making it durable costs one device write.

use std::io;
use std::path::{Path, PathBuf};

use super::layout::{refused, segment_path};
use crate::disk::{Disk, DiskFile, site};
use crate::error::StoreError;

/// Zeros are written in pieces of this size.
pub(crate) const ZERO_PIECE: usize = 1 << 20;

/// Files written in the background are synced in steps of so many bytes: one large sync at the end would
/// hold up the commits that share the device with it.
pub(crate) const SYNC_EVERY: u64 = 4 << 20;

/// A segment that is or will be written to.
#[derive(Debug)]
pub(crate) struct Segment<F> {
    pub number: u64,
    pub path: PathBuf,
    pub file: F,
    /// Where the next frame goes.
    pub used: u64,
    /// How far the zeros reach.
    pub size: u64,
}

/// Creates segment `number`, filled with zeros, durable with its name.
pub(crate) fn create_segment<D: Disk>(
    disk: &D,
    dir: &Path,
    number: u64,
    size: u64,
) -> Result<Segment<D::File>, StoreError> {
    let path = segment_path(dir, number);
    let file = disk.create(site::SEGMENT_CREATE, &path).map_err(refused("create", &path))?;
    let zeroed = zero(&file, size).map_err(refused("fill with zeros", &path));
    if let Err(error) = zeroed {
        // What there is of it is worth nothing, and may be what fills the device. If it cannot be
        // removed now, the next open does.
        let _ = disk.remove(site::SEGMENT_REMOVE, &path);
        return Err(error);
    }
    disk.sync_dir(site::DIR_SYNC, dir).map_err(refused("sync", dir))?;
    Ok(Segment { number, path, file, used: 0, size })
}

fn zero<F: DiskFile>(file: &F, size: u64) -> io::Result<()> {
    let zeros = vec![0; ZERO_PIECE.min(usize::try_from(size).unwrap_or(ZERO_PIECE))];
    let mut offset = 0;
    while offset < size {
        let len = (size - offset).min(zeros.len() as u64);
        file.write_at(site::SEGMENT_ZERO, offset, &zeros[..usize::try_from(len).unwrap_or(zeros.len())])?;
        offset += len;
        if offset < size && offset.is_multiple_of(SYNC_EVERY) {
            file.sync_data(site::SEGMENT_SYNC)?;
        }
    }
    file.sync_data(site::SEGMENT_SYNC)
}
