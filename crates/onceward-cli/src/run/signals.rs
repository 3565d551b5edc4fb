//! SIGTERM and Ctrl-C: the first asks for a clean stop, the second ends the process at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// The exit code of a run that was ended before its clean stop was done.
pub const EXIT_INTERRUPTED: i32 = 130;

/// Whether a stop was asked for.
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Listens from now on. The second signal ends the process inside the signal handler, so that it
    /// works wherever our threads are; the store and the sinks are safe against that at any moment.
    pub fn listen() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: a signal first looks for an earlier one, then leaves its own mark.
            flag::register_conditional_shutdown(signal, EXIT_INTERRUPTED, asked.clone())?;
            flag::register(signal, asked.clone())?;
        }
        Ok(StopFlag(asked))
    }

    /// Whether a stop was asked for.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
