//! The embedded store with its threads: one that writes the log, two for maintenance.
//!
//! The log thread takes what is queued, submits it, flushes once and answers: commits that arrive
//! while a flush is under way share the next one.

mod handle;
mod histogram;
mod log_thread;

use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use onceward_protocol::Mutants;

use crate::disk::{Disk, OsDisk, Timed};
use crate::embedded::{EmbeddedCore, FORMAT_NAME, Options};
use crate::error::StoreError;
use log_thread::{Request, run};

pub use handle::{Stats, StoreHandle};
pub use histogram::Histogram;

/// How many requests may wait for the log thread; whoever submits more waits.
pub const QUEUE_LIMIT: usize = 1024;
/// The log thread stops gathering a group once it has so many bytes of writes.
pub const GROUP_BYTES_LIMIT: usize = 64 << 20;

/// What handles and threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    failure: Mutex<Option<String>>,
    syncs: Arc<Histogram>,
    flushes: Histogram,
    gauges: handle::Gauges,
}

/// An open store. Dropping it closes it: what was submitted is answered first.
#[derive(Debug)]
pub struct EmbeddedStore {
    handle: StoreHandle,
    thread: Option<JoinHandle<()>>,
}

impl EmbeddedStore {
    /// Whether `dir` holds a store. Opening one would make it.
    pub fn exists(dir: &Path) -> bool {
        dir.join(FORMAT_NAME).is_file()
    }

    /// Opens the store in `dir`, or makes one.
    pub fn open(dir: &Path, options: Options) -> Result<Self, StoreError> {
        EmbeddedStore::open_on(OsDisk, dir, options)
    }

    /// Opens the store in `dir` of another file system.
    pub fn open_on<D>(disk: D, dir: &Path, options: Options) -> Result<Self, StoreError>
    where
        D: Disk,
    {
        let syncs = Arc::new(Histogram::default());
        let shared = Arc::new(Shared {
            failure: Mutex::new(None),
            syncs: Arc::clone(&syncs),
            flushes: Histogram::default(),
            gauges: handle::Gauges::default(),
        });
        let disk = Timed::new(disk, syncs);
        let core = EmbeddedCore::open(disk.clone(), dir, options, Mutants::NONE)?;
        let (sender, receiver) = sync_channel(QUEUE_LIMIT);
        let finished = sender.clone();
        let thread = {
            let shared = Arc::clone(&shared);
            thread::Builder::new()
                .name("onceward-log".to_owned())
                .spawn(move || run(core, disk, receiver, finished, &shared))
                .map_err(|source| StoreError::Io {
                    action: "start a thread for",
                    path: dir.to_owned(),
                    source,
                })?
        };
        Ok(EmbeddedStore { handle: StoreHandle { sender, shared, dir: dir.into() }, thread: Some(thread) })
    }

    /// A handle for any thread.
    pub fn handle(&self) -> StoreHandle {
        self.handle.clone()
    }

    /// Answers what was submitted, stops the threads and releases the directory.
    pub fn close(self) {}
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        // Should the log thread be gone already, there is nobody to tell.
        let _ = self.handle.sender.send(Request::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
