//! One connection to the database file, opened when it is first needed and dropped after every error, so that no half
//! transaction and no stale view of the file survives one.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use onceward_connector::{ConnectorError, TargetError};
use rusqlite::{Connection, TransactionBehavior};

use crate::error::{before_commit, in_commit};

/// A database file and how long to wait for others that hold it. All writers of one sink share it: SQLite has one
/// writer at a time anyway.
pub struct Database {
    path: PathBuf,
    busy_timeout: Duration,
    connection: Mutex<Option<Connection>>,
}

/// What a transaction did, or why it must not be committed.
pub type Work<T> = Result<T, TargetError>;

impl Database {
    /// Names the file; does not touch it.
    pub fn new(path: PathBuf, busy_timeout: Duration) -> Self {
        Database { path, busy_timeout, connection: Mutex::new(None) }
    }

    /// The file, for messages.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Runs a write transaction: all of `work`, durable, or nothing. `BEGIN IMMEDIATE` takes the write lock before
    /// anything is read, so what `work` compares is what its writes replace.
    pub fn transaction<T>(&self, work: impl FnOnce(&Connection) -> Work<T>) -> Work<T> {
        self.on_connection(|connection| {
            let begun = connection.transaction_with_behavior(TransactionBehavior::Immediate);
            let transaction =
                begun.map_err(|error| before_commit("waiting to write", &self.name(), &error))?;
            let done = work(&transaction)?;
            transaction.commit().map_err(|error| in_commit(&self.name(), &error))?;
            Ok(done)
        })
    }

    /// Reads one thing.
    pub fn read<T>(&self, work: impl FnOnce(&Connection) -> Work<T>) -> Work<T> {
        self.on_connection(|connection| work(connection))
    }

    fn on_connection<T>(&self, work: impl FnOnce(&mut Connection) -> Work<T>) -> Work<T> {
        let mut held = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken out meanwhile: after an error, or a panic, it is dropped, which rolls back and forgets.
        let mut connection = match held.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let done = work(&mut connection)?;
        *held = Some(connection);
        Ok(done)
    }

    fn connect(&self) -> Result<Connection, TargetError> {
        if let Some(folder) = self.path.parent() {
            create_folder(folder).map_err(|error| {
                ConnectorError::new(
                    "OW-3205",
                    format!(
                        "the folder {} cannot be made: {error}. Make it, let this user write there, or set another `path`",
                        folder.display()
                    ),
                )
            })?;
        }
        let named = |doing: &str, error: rusqlite::Error| before_commit(doing, &self.name(), &error);
        let connection = Connection::open(&self.path).map_err(|error| named("opening", error))?;
        connection
            .busy_timeout(self.busy_timeout)
            .map_err(|error| named("setting the busy timeout", error))?;
        let mode: String = connection
            .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))
            .map_err(|error| named("switching to the write-ahead log", error))?;
        if !mode.eq_ignore_ascii_case("wal") {
            return Err(TargetError::Definite(ConnectorError::new(
                "OW-3203",
                format!(
                    "{}: the journal mode is `{mode}`, expected `wal`: the file system lacks what SQLite's write-ahead \
                     log needs. Put the database on a local disk",
                    self.name()
                ),
            )));
        }
        // A confirmed commit survives a power cut; `fullfsync` is what that takes on macOS, and nothing elsewhere.
        for (pragma, value) in [("synchronous", "FULL"), ("fullfsync", "ON"), ("checkpoint_fullfsync", "ON")]
        {
            connection
                .pragma_update(None, pragma, value)
                .map_err(|error| named("setting how commits are synced", error))?;
        }
        Ok(connection)
    }
}

/// Makes a folder and those above it, each entry durable in its parent: SQLite syncs only the folder of the file itself.
fn create_folder(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().unwrap_or(Path::new(""));
    create_folder(parent)?;
    match std::fs::create_dir(path) {
        Ok(()) => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            std::fs::File::open(parent)?.sync_all()
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}
