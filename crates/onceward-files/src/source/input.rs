//! One open file: its bytes after decompression, and the proof that it stays the file it was.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use onceward_connector::ConnectorError;

use crate::compression::{Compression, Decoder};

/// What tells a file from another one, and from itself after a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Bytes.
    pub size: u64,
    /// Modification time, nanoseconds since 1970.
    pub modified_ns: i64,
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Identity {
            size: metadata.size(),
            modified_ns: metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec()),
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
    fn same_file(&self, other: &Identity) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// An open file.
pub struct Input {
    path: PathBuf,
    file: File,
    decoder: Decoder,
    identity: Identity,
    /// Whether the file may grow while it is read.
    follow: bool,
}

impl Input {
    /// Opens a file at its start.
    pub fn open(path: &Path, compression: Compression, follow: bool) -> Result<Self, ConnectorError> {
        let opened = || -> io::Result<Input> {
            // Opening a pipe would wait for its other end.
            if !std::fs::metadata(path)?.is_file() {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
            }
            let file = File::open(path)?;
            let identity = Identity::of(&file.metadata()?);
            let decoder = Decoder::new(compression, file.try_clone()?, 0)?;
            Ok(Input { path: path.to_owned(), file, decoder, identity, follow })
        };
        opened().map_err(|error| io_error(path, "cannot be opened", &error))
    }
    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// The file as it was at the last look.
    pub fn identity(&self) -> Identity {
        self.identity
    }
    /// Bytes of the file itself read so far.
    pub fn raw_offset(&self) -> u64 {
        self.decoder.raw_offset()
    }
    /// Goes to a byte of an uncompressed file.
    pub fn seek(&mut self, offset: u64) -> Result<(), ConnectorError> {
        let mut seek = || -> io::Result<Decoder> {
            self.file.seek(SeekFrom::Start(offset))?;
            Decoder::new(Compression::None, self.file.try_clone()?, offset)
        };
        self.decoder = seek().map_err(|error| io_error(&self.path, "cannot be read", &error))?;
        Ok(())
    }
    /// Reads the next bytes; 0 at the end. What is returned was read from the file as it was opened:
    /// the look at size and time comes after the bytes.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ConnectorError> {
        let count = loop {
            match self.decoder.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // A file cut off or rewritten under us looks damaged first: name the true reason.
                    self.check_unchanged()?;
                    return Err(read_error(&self.path, &error));
                }
                Ok(count) => break count,
            }
        };
        self.check_unchanged()?;
        Ok(count)
    }

    fn check_unchanged(&mut self) -> Result<(), ConnectorError> {
        let look = || -> io::Result<(Identity, Option<Identity>)> {
            let open = Identity::of(&self.file.metadata()?);
            let named = match std::fs::metadata(&self.path) {
                Ok(metadata) => Some(Identity::of(&metadata)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
            Ok((open, named))
        };
        let (open, named) = look().map_err(|error| io_error(&self.path, "cannot be looked at", &error))?;
        let before = self.identity;
        let name = self.path.display();
        match named {
            None => return Err(changed(format!("the file {name} was removed while it was being read"))),
            Some(named) if !named.same_file(&before) => {
                return Err(changed(format!(
                    "the file {name} was replaced by another one while it was being read"
                )));
            }
            Some(_) => {}
        }
        if self.follow {
            if open.size < before.size {
                return Err(changed(format!(
                    "the file {name} shrank while it was being followed: found {} bytes, expected {} or more",
                    open.size, before.size
                )));
            }
            self.identity = open;
        } else if open.size != before.size {
            let how = if open.size < before.size { "shrank" } else { "grew" };
            return Err(changed(format!(
                "the file {name} {how} while it was being read: found {} bytes, expected {}",
                open.size, before.size
            )));
        } else if open.modified_ns != before.modified_ns {
            return Err(changed(format!(
                "the file {name} was written to while it was being read: its modification time moved from {} to {}",
                seconds(before.modified_ns),
                seconds(open.modified_ns)
            )));
        }
        Ok(())
    }
}

fn seconds(ns: i64) -> String {
    format!("{}.{:09}", ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000))
}

fn changed(found: String) -> ConnectorError {
    ConnectorError::new(
        "OW-3011",
        format!(
            "{found}. Rows must be readable again from the same places, so files have to stay as they are until the \
             pipeline has finished them. Put the file back as it was and start again, or reset the pipeline; write new \
             data to new files, or set `bounded: false` if this one grows at its end"
        ),
    )
}

fn read_error(path: &Path, error: &io::Error) -> ConnectorError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => ConnectorError::new(
            "OW-3016",
            format!(
                "the compressed file {} ends in the middle of its data. Expected a complete file: copy it again, then \
                 start again",
                path.display()
            ),
        ),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::Other => {
            ConnectorError::new(
                "OW-3016",
                format!(
                    "the file {} cannot be decompressed: {error}. Check that `compression` says what the file is, and that \
                 the file is whole",
                    path.display()
                ),
            )
        }
        _ => io_error(path, "cannot be read", error),
    }
}

/// An error of the file system about one file or folder.
pub fn io_error(path: &Path, what: &str, error: &io::Error) -> ConnectorError {
    ConnectorError::new(
        "OW-3010",
        format!("{} {what}: {error}. Check that it is there and that this user may read it", path.display()),
    )
}
