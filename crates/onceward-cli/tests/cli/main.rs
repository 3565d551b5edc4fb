//! The binary as users have it: real processes, real files, real signals.

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
