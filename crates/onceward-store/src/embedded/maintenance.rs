//! Work that need not hold up commits: making the next segment, folding, snapshots.
//!
//! A job is self-contained: it works on what never changes. Whoever drives the store runs it wherever
//! it likes and brings back the result.

use std::path::PathBuf;
use std::sync::Arc;

use onceward_protocol::Mutants;

use super::layout::{damaged, segment_path, snapshot_path, snapshot_temporary};
use super::segment::{Segment, create_segment};
use super::snapshot::{SnapshotPart, SnapshotPoint, write_snapshot};
use super::table::{Base, Rows};
use crate::disk::{Disk, site};
use crate::error::StoreError;

/// Jobs of different kinds may run at the same time; the store hands out one of each at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MaintenanceKind {
    /// Making the next log segment.
    Segment,
    /// Folding a partition's rows, or taking a snapshot.
    Tables,
}

#[derive(Debug)]
pub(crate) enum Job {
    Segment { dir: PathBuf, number: u64, size: u64 },
    Fold { dir: PathBuf, partition: usize, rows: Rows },
    Snapshot(SnapshotJob),
}

#[derive(Debug)]
pub(crate) struct SnapshotJob {
    pub dir: PathBuf,
    pub point: SnapshotPoint,
    /// Bytes of the log that the snapshot covers since the one before.
    pub covered: u64,
    pub parts: Vec<SnapshotPart>,
    pub obsolete_segments: Vec<u64>,
    pub obsolete_snapshot: Option<u64>,
    pub mutants: Mutants,
}

/// A piece of work to be run somewhere.
#[derive(Debug)]
#[must_use = "a job that is not run and finished stops all later maintenance"]
pub struct MaintenanceJob(pub(crate) Job);

#[derive(Debug)]
pub(crate) enum Done<D: Disk> {
    Segment(Result<Segment<D::File>, StoreError>),
    Fold { partition: usize, rows: Rows, result: Result<Arc<Base>, StoreError> },
    Snapshot { job: SnapshotJob, result: Result<(Vec<Arc<Base>>, u64), StoreError> },
}

/// A finished job, to be given to the store.
#[derive(Debug)]
#[must_use = "a job that is not run and finished stops all later maintenance"]
pub struct MaintenanceDone<D: Disk>(pub(crate) Done<D>);

/// Memory that the store no longer needs. Freeing it takes time: drop it where nobody waits.
#[derive(Debug, Default)]
pub struct Retired {
    pub(crate) rows: Vec<Rows>,
}

impl MaintenanceJob {
    /// What kind of job it is.
    pub fn kind(&self) -> MaintenanceKind {
        match self.0 {
            Job::Segment { .. } => MaintenanceKind::Segment,
            Job::Fold { .. } | Job::Snapshot(_) => MaintenanceKind::Tables,
        }
    }
    /// Does the work. Whether it succeeded, the store learns from the result.
    pub fn run<D: Disk>(self, disk: &D) -> MaintenanceDone<D> {
        MaintenanceDone(match self.0 {
            Job::Segment { dir, number, size } => Done::Segment(create_segment(disk, &dir, number, size)),
            Job::Fold { dir, partition, rows } => {
                let result = rows.fold().map_err(|malformed| damaged(&dir, 0, malformed.to_string()));
                Done::Fold { partition, rows, result }
            }
            Job::Snapshot(job) => {
                let result = write_snapshot(disk, &job.dir, job.point, &job.parts, job.mutants);
                match &result {
                    // Only now is what it covers without use. What cannot be removed is removed by
                    // the next open.
                    Ok(_) => remove_obsolete(disk, &job),
                    Err(_) => {
                        let unfinished = snapshot_temporary(&job.dir, job.point.sequence);
                        let _ = disk.remove(site::UNFINISHED_REMOVE, &unfinished);
                    }
                }
                Done::Snapshot { job, result }
            }
        })
    }
}

fn remove_obsolete<D: Disk>(disk: &D, job: &SnapshotJob) {
    if let Some(sequence) = job.obsolete_snapshot {
        let _ = disk.remove(site::SNAPSHOT_REMOVE, &snapshot_path(&job.dir, sequence));
    }
    for number in &job.obsolete_segments {
        let _ = disk.remove(site::SEGMENT_REMOVE, &segment_path(&job.dir, *number));
    }
}
