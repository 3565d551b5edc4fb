//! The engine: jobs, epochs, deduplication, state, timers, watermarks.
