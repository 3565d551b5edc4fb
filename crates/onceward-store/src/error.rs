//! The errors of a store.

use std::path::PathBuf;

/// Why a store cannot serve. Every one but `Closed` leaves what is on disk as it was.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the directory.
    #[error(
        "OW-2001: the data directory {path} is in use by process {holder}; stop it, or give this run another --data-dir"
    )]
    Locked {
        /// The directory.
        path: PathBuf,
        /// What the lock file says of its holder.
        holder: String,
    },
    /// A newer version wrote the directory.
    #[error(
        "OW-2002: {path} was written by store format {found}; this binary knows up to {known}. Run the newer binary that wrote it"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The newest format this binary knows.
        known: u32,
    },
    /// Bytes are not what was written and durable.
    #[error(
        "OW-2003: {path} is damaged at byte {offset}: {what}. Nothing was changed; restore the directory from a copy"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// What was found and expected.
        what: String,
    },
    /// The file system refused before anything was written.
    #[error("OW-2004: cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// A write or sync failed; the store answers nothing more until it is opened again (DURABLE-PREFIX).
    #[error(
        "OW-2005: the store stopped: {reason}. What was reported committed is safe; free the cause and start again"
    )]
    Poisoned {
        /// The first failure.
        reason: String,
    },
    /// There is no room on the device.
    #[error(
        "OW-2006: no space left for {path}. What was reported committed is safe; free some space and start again"
    )]
    Full {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// The store was closed.
    #[error("OW-2007: the store is closed")]
    Closed,
}
