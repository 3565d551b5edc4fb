//! The socket of a run, `control.sock` in its data directory.
//!
//! Whoever binds holds the store's lock, so a socket that is found there belongs to nobody any more. It is bound in a
//! folder that only its owner may enter and then renamed: nobody else can ever connect, and a stale one is replaced in
//! one step.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The socket's name.
pub const NAME: &str = "control.sock";
/// The folder that it is bound in.
const MADE_IN: &str = "control.new";
/// An address of a socket has 108 bytes on Linux, 104 elsewhere, its end included.
const MAX_ADDRESS: usize = 100;

/// A directory under a name that is short enough for an address.
struct Short {
    base: PathBuf,
    /// Keeps the name valid.
    _directory: Option<File>,
}

impl Short {
    fn of(directory: &Path, name: &str) -> io::Result<Self> {
        if directory.as_os_str().len() + 1 + name.len() <= MAX_ADDRESS {
            return Ok(Short { base: directory.to_owned(), _directory: None });
        }
        let open = File::open(directory)?;
        Ok(Short {
            base: PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd())),
            _directory: Some(open),
        })
    }
}

/// A socket that is bound. Its file goes with it.
pub struct Bound {
    listener: UnixListener,
    file: SocketFile,
}

/// The socket's file.
pub struct SocketFile {
    directory: PathBuf,
    /// Tells ours from that of a run that came after.
    identity: (u64, u64),
}

impl Bound {
    /// Binds in a data directory whose store is ours.
    pub fn new(directory: &Path) -> io::Result<Self> {
        let made_in = directory.join(MADE_IN);
        if made_in.exists() {
            fs::remove_dir_all(&made_in)?;
        }
        DirBuilder::new().mode(0o700).create(&made_in)?;
        let short = Short::of(directory, &format!("{MADE_IN}/{NAME}"))?;
        let listener = UnixListener::bind(short.base.join(MADE_IN).join(NAME))?;
        let made = made_in.join(NAME);
        fs::set_permissions(&made, Permissions::from_mode(0o600))?;
        let metadata = fs::symlink_metadata(&made)?;
        fs::rename(&made, directory.join(NAME))?;
        fs::remove_dir(&made_in)?;
        let identity = (metadata.dev(), metadata.ino());
        Ok(Bound { listener, file: SocketFile { directory: directory.to_owned(), identity } })
    }

    /// Where clients come in, and the file by which they find it.
    pub fn split(self) -> (UnixListener, SocketFile) {
        (self.listener, self.file)
    }
}

impl SocketFile {
    /// Connects as a client would.
    pub fn connect(&self) -> io::Result<Option<UnixStream>> {
        connect(&self.directory)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let path = self.directory.join(NAME);
        let ours = fs::symlink_metadata(&path).is_ok_and(|found| (found.dev(), found.ino()) == self.identity);
        if ours {
            // Should it stay, it is stale and the next run replaces it.
            let _ = fs::remove_file(path);
        }
    }
}

/// Connects to the run of a data directory; `None` if there is none.
pub fn connect(directory: &Path) -> io::Result<Option<UnixStream>> {
    let nobody = |error: &io::Error| {
        use io::ErrorKind::{ConnectionRefused, NotADirectory, NotFound};
        matches!(error.kind(), NotFound | ConnectionRefused | NotADirectory)
    };
    let found = Short::of(directory, NAME).and_then(|short| UnixStream::connect(short.base.join(NAME)));
    match found {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if nobody(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_only_our_own_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        assert!(connect(folder.path()).unwrap().is_none());
        drop(UnixListener::bind(folder.path().join(NAME)).unwrap());
        assert!(connect(folder.path()).unwrap().is_none(), "nobody listens");

        let first = Bound::new(folder.path()).unwrap();
        let mode = fs::metadata(folder.path().join(NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(connect(folder.path()).unwrap().is_some());

        let second = Bound::new(folder.path()).unwrap();
        drop(first);
        assert!(connect(folder.path()).unwrap().is_some(), "the first has removed the second's");
        drop(second);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_rest_of_a_bind_that_was_killed_is_no_obstacle() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(MADE_IN)).unwrap();
        drop(UnixListener::bind(folder.path().join(MADE_IN).join(NAME)).unwrap());
        let bound = Bound::new(folder.path()).unwrap();
        assert!(connect(folder.path()).unwrap().is_some());
        drop(bound);
    }
}
