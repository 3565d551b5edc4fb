//! The binary as users have it: real processes, real files, real signals.
#![expect(clippy::expect_used, clippy::panic, reason = "a helper that cannot go on fails the test")]

mod explain;
mod flights;
mod init;
mod manifests;
mod process;
mod project;
mod refusals;
mod running;
mod signals;
mod stdout;
