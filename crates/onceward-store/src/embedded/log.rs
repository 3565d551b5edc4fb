//! The end of the log: the segment that is written to, and the one that waits.

use std::path::Path;

use super::frame::{Group, page_up};
use super::layout::refused;
use super::options::Options;
use super::segment::{Segment, create_segment};
use crate::disk::{Disk, DiskFile, site};
use crate::error::StoreError;

/// The log of an open store.
#[derive(Debug)]
pub(crate) struct Log<F> {
    pub active: Segment<F>,
    /// The next segment, made ahead of need.
    pub spare: Option<Segment<F>>,
    /// Numbers of segments before the active one that still exist.
    pub older: Vec<u64>,
    /// The sequence number of the next frame.
    pub next_sequence: u64,
    /// Bytes that the frames since the last snapshot take up, each to the end of its last page.
    pub since_snapshot: u64,
    /// Bytes of frames written since the store was opened.
    pub written: u64,
    /// What is gathered for the next flush.
    pub group: Group,
    /// Whether a job that makes the spare segment is under way.
    pub spare_pending: bool,
    /// Whether there was no room for a spare segment; it is not tried again ahead of need.
    pub spare_denied: bool,
}

impl<F: DiskFile> Log<F> {
    /// The number and size of the segment to make ahead of need, if it is time.
    pub(crate) fn wants_spare(&self, options: &Options) -> Option<(u64, u64)> {
        let wanted = self.spare.is_none() && !self.spare_pending && !self.spare_denied;
        let number = self.active.number + 1;
        (wanted && self.active.used.saturating_mul(2) >= self.active.size)
            .then(|| (number, options.size_of_segment(number)))
    }

    /// Writes the gathered group and makes it durable: one write, one sync. After an error nobody
    /// knows what is on the device; the log must not be written to again.
    pub(crate) fn write_group<D: Disk<File = F>>(
        &mut self,
        disk: &D,
        dir: &Path,
        options: &Options,
    ) -> Result<(), StoreError> {
        if self.group.is_empty() {
            return Ok(());
        }
        let len = self.group.len();
        // While a background job makes the next segment, its name is taken: better to grow the old
        // one than to wait.
        if self.active.used > 0 && self.active.used + len > self.active.size && !self.spare_pending {
            self.roll(disk, dir, options, len)?;
        }
        let active = &mut self.active;
        let frame = self.group.seal(active.number, active.used, self.next_sequence);
        active
            .file
            .write_at(site::LOG_APPEND, active.used, frame)
            .map_err(refused("append to", &active.path))?;
        active.file.sync_data(site::LOG_SYNC).map_err(refused("sync", &active.path))?;
        active.used = page_up(active.used + len);
        // As much as it takes up: a log of tiny frames is mostly the room between them, and an idle
        // store writes nothing else.
        self.since_snapshot += page_up(len);
        self.written += len;
        self.next_sequence += 1;
        self.group.clear();
        Ok(())
    }

    fn roll<D: Disk<File = F>>(
        &mut self,
        disk: &D,
        dir: &Path,
        options: &Options,
        len: u64,
    ) -> Result<(), StoreError> {
        let number = self.active.number + 1;
        let next = match self.spare.take() {
            Some(spare) => spare,
            None => create_segment(disk, dir, number, options.size_of_segment(number).max(page_up(len)))?,
        };
        let full = std::mem::replace(&mut self.active, next);
        self.older.push(full.number);
        self.spare_denied = false;
        Ok(())
    }
}
