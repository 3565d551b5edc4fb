//! The engine's guarantees, one sentence per test. Real jobs are built from a plan and stepped by hand:
//! the driver in `world` carries out one request at a time, and a test decides what is carried out, what
//! waits and what is lost.
//!
//! The driver itself checks five rules in every test: an acknowledgement never exceeds what is stored, what is
//! written was intended by a durable epoch, a block with a token has its borders stored, a row leaves the outbox only
//! after the target has it, and a job that has ended asks for nothing.

#[cfg(test)]
mod crashes;
#[cfg(test)]
mod desk;
#[cfg(test)]
mod idle;
#[cfg(test)]
mod manifest;
#[cfg(test)]
mod shelf;
#[cfg(test)]
mod target;
#[cfg(test)]
mod world;

#[cfg(test)]
mod acknowledgements;
#[cfg(test)]
mod aggregates;
#[cfg(test)]
mod all_sinks;
#[cfg(test)]
mod at_most_once;
#[cfg(test)]
mod backpressure;
#[cfg(test)]
mod borders;
#[cfg(test)]
mod by_reference;
#[cfg(test)]
mod consumer_lanes;
#[cfg(test)]
mod drains;
#[cfg(test)]
mod gate;
#[cfg(test)]
mod open_order;
#[cfg(test)]
mod operators;
#[cfg(test)]
mod poison;
#[cfg(test)]
mod producer_lanes;
#[cfg(test)]
mod progress;
#[cfg(test)]
mod sequence;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod stored_forms;
#[cfg(test)]
mod trust_window;
#[cfg(test)]
mod windows;
