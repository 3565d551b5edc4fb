//! Getting hold of the store, and saying so when a run cannot be asked for anything.

use std::io;
use std::thread;
use std::time::Instant;

use onceward::{Prepared, Registry, RunError, RunOptions};
use onceward_spec::Pipeline;
use onceward_store::StoreError;

use crate::console;
use crate::control::{LOOK_EVERY, PATIENCE, connect};

/// Prepares a run. Another command may be looking into the store at this moment, so one that is in use without a run is
/// tried for a while.
pub fn prepare(pipeline: &Pipeline, registry: &Registry, options: &RunOptions) -> Result<Prepared, RunError> {
    let began = Instant::now();
    loop {
        match Prepared::new(pipeline.clone(), registry, options.clone()) {
            Err(RunError::Store(StoreError::Locked { .. }))
                if began.elapsed() < PATIENCE && !matches!(connect(&options.data_dir), Ok(Some(_))) =>
            {
                thread::sleep(LOOK_EVERY);
            }
            other => return other,
        }
    }
}

/// A run that does its work is worth more than one that can be asked for things.
pub fn without_control(error: &io::Error) {
    console::say(&format!(
        "warning: OW-6015: cannot make the socket control.sock in the data directory: {error}. Expected a file system \
         that takes sockets, with room. `onceward status`, `pause`, `stop` and the like do not reach this run; SIGTERM does"
    ));
}
