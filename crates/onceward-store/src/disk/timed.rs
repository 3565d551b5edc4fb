//! A disk that measures how long the log's syncs take. Only the threaded store uses it: the store
//! itself reads no clock.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::{Disk, DiskFile, Locking, Site, site};
use crate::service::Histogram;

/// Wraps a disk; notes the duration of every [`site::LOG_SYNC`] in microseconds.
#[derive(Clone, Debug)]
pub(crate) struct Timed<D> {
    inner: D,
    syncs: Arc<Histogram>,
}

/// A file of a [`Timed`] disk.
#[derive(Debug)]
pub(crate) struct TimedFile<F> {
    inner: F,
    syncs: Arc<Histogram>,
}

impl<D: Disk> Timed<D> {
    pub(crate) fn new(inner: D, syncs: Arc<Histogram>) -> Self {
        Timed { inner, syncs }
    }
    fn file(&self, inner: D::File) -> TimedFile<D::File> {
        TimedFile { inner, syncs: Arc::clone(&self.syncs) }
    }
}

impl<D: Disk> Disk for Timed<D> {
    type File = TimedFile<D::File>;
    type Lock = D::Lock;

    fn create_dir(&self, site: Site, dir: &Path) -> io::Result<()> {
        self.inner.create_dir(site, dir)
    }
    fn create(&self, site: Site, path: &Path) -> io::Result<Self::File> {
        self.inner.create(site, path).map(|file| self.file(file))
    }
    fn open(&self, path: &Path) -> io::Result<Self::File> {
        self.inner.open(path).map(|file| self.file(file))
    }
    fn rename(&self, site: Site, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(site, from, to)
    }
    fn remove(&self, site: Site, path: &Path) -> io::Result<()> {
        self.inner.remove(site, path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }
    fn sync_dir(&self, site: Site, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(site, dir)
    }
    fn space(&self, dir: &Path) -> io::Result<u64> {
        self.inner.space(dir)
    }
    fn lock(&self, site: Site, path: &Path, note: &str) -> io::Result<Locking<Self::Lock>> {
        self.inner.lock(site, path, note)
    }
}

impl<F: DiskFile> DiskFile for TimedFile<F> {
    fn write_at(&self, site: Site, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_at(site, offset, bytes)
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(offset, buffer)
    }
    fn sync_data(&self, at: Site) -> io::Result<()> {
        if at != site::LOG_SYNC {
            return self.inner.sync_data(at);
        }
        let start = Instant::now();
        let answer = self.inner.sync_data(at);
        self.syncs.record(u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX));
        answer
    }
    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }
}
