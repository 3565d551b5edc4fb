//! The operating system's files.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{Disk, DiskFile, Locking, Site};

/// The file system of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsDisk;

/// A file of the machine.
#[derive(Debug)]
pub struct OsFile(File);

/// A lock held on a file of the machine; the system releases it when the process ends, however it ends.
#[derive(Debug)]
pub struct OsLock {
    _file: File,
}

fn sync_names(dir: &Path) -> io::Result<()> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    File::open(dir)?.sync_all()
}

impl Disk for OsDisk {
    type File = OsFile;
    type Lock = OsLock;

    fn create_dir(&self, _site: Site, dir: &Path) -> io::Result<()> {
        let made: Vec<&Path> =
            dir.ancestors().take_while(|part| !part.as_os_str().is_empty() && !part.exists()).collect();
        fs::create_dir_all(dir)?;
        // A new directory's own name is in its parent; without this the whole store may vanish.
        made.iter().filter_map(|part| part.parent()).try_for_each(sync_names)
    }
    fn create(&self, _site: Site, path: &Path) -> io::Result<OsFile> {
        OpenOptions::new().read(true).write(true).create_new(true).open(path).map(OsFile)
    }
    fn open(&self, path: &Path) -> io::Result<OsFile> {
        OpenOptions::new().read(true).write(true).open(path).map(OsFile)
    }
    fn rename(&self, _site: Site, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }
    fn remove(&self, _site: Site, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }
    fn sync_dir(&self, _site: Site, dir: &Path) -> io::Result<()> {
        sync_names(dir)
    }
    fn space(&self, dir: &Path) -> io::Result<u64> {
        let found = rustix::fs::statvfs(dir)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }
    fn lock(&self, _site: Site, path: &Path, note: &str) -> io::Result<Locking<OsLock>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0)?;
                file.write_all_at(note.as_bytes(), 0)?;
                Ok(Locking::Acquired(OsLock { _file: file }))
            }
            Err(TryLockError::WouldBlock) => {
                Ok(Locking::Held(fs::read_to_string(path).unwrap_or_default().trim().to_owned()))
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl DiskFile for OsFile {
    fn write_at(&self, _site: Site, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.0.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
    fn sync_data(&self, _site: Site) -> io::Result<()> {
        self.0.sync_data()
    }
    fn size(&self) -> io::Result<u64> {
        self.0.metadata().map(|found| found.len())
    }
}
