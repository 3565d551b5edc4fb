//! Which worker runs which partition: how messages between jobs find their way.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use onceward_engine::LaneMessage;

use super::Post;

/// Nobody runs it.
const NOBODY: u32 = u32::MAX;

/// The table that all workers share. It is changed before a job begins, so that whoever it invites finds the way back.
pub(crate) struct Routes {
    version: AtomicU64,
    table: Mutex<Arc<Vec<u32>>>,
    posts: Vec<Sender<Post>>,
}

impl Routes {
    pub(crate) fn new(posts: Vec<Sender<Post>>) -> Self {
        Routes { version: AtomicU64::new(0), table: Mutex::new(Arc::new(Vec::new())), posts }
    }
    /// From now on `worker` runs `partition`.
    pub(crate) fn set(&self, partition: u32, worker: u32) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = Arc::make_mut(&mut table);
        if entries.len() <= partition as usize {
            entries.resize(partition as usize + 1, NOBODY);
        }
        entries[partition as usize] = worker;
        self.version.fetch_add(1, Ordering::Release);
    }
    /// Sends to a worker; one that is gone gets nothing.
    pub(crate) fn post(&self, worker: u32, post: Post) {
        if let Some(sender) = self.posts.get(worker as usize) {
            let _ = sender.send(post);
        }
    }
    /// How many workers there are.
    pub(crate) fn workers(&self) -> u32 {
        self.posts.len() as u32
    }
}

/// One worker's copy of the table, renewed when it has changed.
pub(crate) struct Router {
    routes: Arc<Routes>,
    seen: u64,
    table: Arc<Vec<u32>>,
    own: u32,
}

impl Router {
    pub(crate) fn new(routes: Arc<Routes>, own: u32) -> Self {
        Router { routes, seen: u64::MAX, table: Arc::new(Vec::new()), own }
    }
    /// Hands a message on, or back if it is for a job of this very worker. One for a job that nobody runs is dropped:
    /// when it begins it asks its producers and consumers anew.
    pub(crate) fn lane(&mut self, to: u32, message: LaneMessage) -> Option<LaneMessage> {
        let version = self.routes.version.load(Ordering::Acquire);
        if version != self.seen {
            self.table = self.routes.table.lock().unwrap_or_else(PoisonError::into_inner).clone();
            self.seen = version;
        }
        match self.table.get(to as usize).copied() {
            Some(worker) if worker == self.own => Some(message),
            Some(worker) if worker != NOBODY => {
                self.routes.post(worker, Post::Lane(to, message));
                None
            }
            _ => None,
        }
    }
}
