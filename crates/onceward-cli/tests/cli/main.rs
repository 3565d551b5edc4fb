//! The binary as users have it: real processes, real files, real signals.
#![expect(clippy::expect_used, clippy::panic, reason = "a helper that cannot go on fails the test")]

mod asking;
mod explain;
mod flights;
mod init;
mod listing;
mod manifests;
mod pausing;
mod process;
mod project;
mod refusals;
mod rescaling;
mod resetting;
mod running;
mod signals;
mod sockets;
mod stdout;
