//! Opening: what the directory holds becomes the last committed state, or a refusal.
//!
//! First everything is read and judged, and nothing changed; then what a crash left behind is put in
//! order. The rules, with their reasons, are in `docs/store-format.md`.

use std::path::{Path, PathBuf};

use onceward_protocol::Mutants;

use super::frame::Group;
use super::layout::{Listing, check_format, damaged, refused, segment_path, snapshot_path, write_format};
use super::log::Log;
use super::options::Options;
use super::partition::Partitions;
use super::replay::{Replay, Tail};
use super::segment::{Segment, ZERO_PIECE, create_segment};
use super::snapshot::{SnapshotPoint, read_snapshot};
use crate::disk::{Disk, DiskFile, Site, site};
use crate::error::StoreError;

/// An opened directory.
#[derive(Debug)]
pub(crate) struct Recovered<F> {
    pub partitions: Partitions,
    pub log: Log<F>,
    /// The newest snapshot's sequence number and size.
    pub snapshot: Option<(u64, u64)>,
}

/// Reads the directory and puts it in order. The lock must be held.
pub(crate) fn recover<D: Disk>(
    disk: &D,
    dir: &Path,
    options: &Options,
    mutants: Mutants,
) -> Result<Recovered<D::File>, StoreError> {
    let listing = Listing::read(disk, dir)?;
    if !listing.format {
        return found(disk, dir, options, &listing);
    }
    check_format(disk, dir)?;
    let (point, partitions, snapshot) = match listing.snapshots.last() {
        Some(sequence) => {
            let (point, partitions, size) = read_snapshot(disk, dir, *sequence)?;
            (point, partitions, Some((*sequence, size)))
        }
        None => (SnapshotPoint { sequence: 0, segment: 1 }, Partitions::default(), None),
    };
    let (obsolete, segments): (Vec<u64>, Vec<u64>) =
        listing.segments.iter().partition(|number| **number < point.segment);
    for (number, expected) in segments.iter().zip(point.segment..) {
        if *number != expected {
            return Err(damaged(
                &segment_path(dir, expected),
                0,
                "the file is missing, expected a log segment",
            ));
        }
    }
    if segments.is_empty() {
        return Err(damaged(
            &segment_path(dir, point.segment),
            0,
            "the file is missing, expected a log segment",
        ));
    }
    let mut replay = Replay::new(dir, point, partitions, mutants);
    for number in &segments {
        replay.segment(disk, *number)?;
    }
    let (partitions, tail, next_sequence, since_snapshot) = replay.finish()?;

    // From here on the directory is known to be good, and is changed. A process may have been killed
    // between a rename and its sync: names come first, removals after.
    disk.sync_dir(site::DIR_SYNC, dir).map_err(refused("sync", dir))?;
    tidy(disk, dir, &listing, &obsolete, &segments, tail.number)?;
    repair(&tail)?;
    let older = segments.into_iter().filter(|number| *number < tail.number).collect();
    let Tail { number, path, file, end, size, .. } = tail;
    let log = Log {
        active: Segment { number, path, file, used: end, size },
        spare: None,
        older,
        next_sequence,
        since_snapshot,
        written: 0,
        group: Group::new(),
        spare_pending: false,
        spare_denied: false,
    };
    Ok(Recovered { partitions, log, snapshot })
}

/// Makes a new store. The format file comes last: where it is, the first segment is too.
fn found<D: Disk>(
    disk: &D,
    dir: &Path,
    options: &Options,
    listing: &Listing,
) -> Result<Recovered<D::File>, StoreError> {
    let leftover = match (listing.segments.as_slice(), listing.snapshots.as_slice()) {
        ([], []) => None,
        ([1], []) => Some(segment_path(dir, 1)),
        _ => return Err(damaged(dir, 0, "found a log or snapshot, expected the FORMAT file beside it")),
    };
    if let Some(path) = &leftover {
        let file = disk.open(path).map_err(refused("open", path))?;
        if super::replay::scan(&file, path, 1, 0, false)?.used_up_to.is_some() {
            return Err(damaged(
                dir,
                0,
                "found a log that was written to, expected the FORMAT file beside it",
            ));
        }
    }
    for path in leftover.iter().chain(&listing.unfinished) {
        disk.remove(site::UNFINISHED_REMOVE, path).map_err(refused("remove", path))?;
    }
    let active = create_segment(disk, dir, 1, options.size_of_segment(1))?;
    write_format(disk, dir)?;
    let log = Log {
        active,
        spare: None,
        older: Vec::new(),
        next_sequence: 1,
        since_snapshot: 0,
        written: 0,
        group: Group::new(),
        spare_pending: false,
        spare_denied: false,
    };
    Ok(Recovered { partitions: Partitions::default(), log, snapshot: None })
}

/// Removes what nothing needs: half-written files, what the snapshot replaces, and segments behind
/// the end of the log, which hold nothing that is whole.
fn tidy<D: Disk>(
    disk: &D,
    dir: &Path,
    listing: &Listing,
    obsolete: &[u64],
    segments: &[u64],
    active: u64,
) -> Result<(), StoreError> {
    let remove = |site: Site, path: PathBuf| disk.remove(site, &path).map_err(refused("remove", &path));
    for path in &listing.unfinished {
        remove(site::UNFINISHED_REMOVE, path.clone())?;
    }
    let older = listing.snapshots.len().saturating_sub(1);
    for sequence in &listing.snapshots[..older] {
        remove(site::SNAPSHOT_REMOVE, snapshot_path(dir, *sequence))?;
    }
    for number in obsolete.iter().chain(segments.iter().filter(|number| **number > active)) {
        remove(site::SEGMENT_REMOVE, segment_path(dir, *number))?;
    }
    if segments.last().is_some_and(|last| *last > active) {
        // Were such a segment to come back after new frames were written before it, its torn frame would
        // follow whole ones, and look like damage.
        disk.sync_dir(site::DIR_SYNC, dir).map_err(refused("sync", dir))?;
    }
    Ok(())
}

/// Puts zeros over a torn end, and writes the last frame once more: if its sync failed and only the
/// process died, it is readable and yet not durable, and no second sync would make it so.
fn repair<F: DiskFile>(tail: &Tail<F>) -> Result<(), StoreError> {
    let Tail { path, file, .. } = tail;
    if let Some((offset, frame)) = &tail.last_frame {
        file.write_at(site::LOG_REPAIR, *offset, frame).map_err(refused("repair", path))?;
    }
    let mut offset = tail.end;
    let torn_end = tail.torn_up_to.unwrap_or(offset);
    let zeros =
        vec![0; ZERO_PIECE.min(usize::try_from(torn_end.saturating_sub(offset)).unwrap_or(ZERO_PIECE))];
    while offset < torn_end {
        let len = (torn_end - offset).min(zeros.len() as u64);
        let piece = &zeros[..usize::try_from(len).unwrap_or(zeros.len())];
        file.write_at(site::LOG_REPAIR, offset, piece).map_err(refused("repair", path))?;
        offset += len;
    }
    if tail.last_frame.is_some() || torn_end > tail.end {
        file.sync_data(site::LOG_REPAIR_SYNC).map_err(refused("sync", path))?;
    }
    Ok(())
}
