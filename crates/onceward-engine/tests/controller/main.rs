//! The controller's guarantees, one sentence per test: a controller, real jobs and the embedded store on a disk in memory
//! are stepped by hand; a test decides what is carried out, what waits and what is lost.
//!
//! The driver itself checks in every test (`rules`): one transaction at a time, each under its term; a job is assigned
//! only when its grant is durable; a state without jobs is recorded in the transaction that takes the last grants, and
//! is not said before; what a user asked for is not overwritten by a record that knows nothing of it.

#[cfg(test)]
mod carry;
#[cfg(test)]
mod look;
#[cfg(test)]
#[expect(dead_code, reason = "shared with the tests of jobs, which use more of it")]
#[path = "../guarantees/manifest.rs"]
mod manifest;
#[cfg(test)]
mod pipelines;
#[cfg(test)]
mod rules;
#[cfg(test)]
#[expect(dead_code, reason = "shared with the tests of jobs, which use more of it")]
#[path = "../guarantees/target.rs"]
mod target;
#[cfg(test)]
mod world;

#[cfg(test)]
mod by_load;
#[cfg(test)]
mod draining;
#[cfg(test)]
mod endings;
#[cfg(test)]
mod fences;
#[cfg(test)]
mod leases;
#[cfg(test)]
mod pausing;
#[cfg(test)]
mod records;
#[cfg(test)]
mod recut_crashes;
#[cfg(test)]
mod recutting;
#[cfg(test)]
mod stale;
#[cfg(test)]
mod turns;

#[cfg(test)]
mod ac_50;
#[cfg(test)]
mod ac_51;
