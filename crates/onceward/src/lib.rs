//! The Onceward library: compile a manifest and run it in this process.
