//! Explicit-state model check of the protocol at small bounds.
//!
//! With every rule on, every reachable state keeps the invariants and can be led to completion. With
//! any one rule off, the search finds the shortest way to the damage that the rule prevents; run with
//! `--nocapture` to read it. What is modelled, and the same in words: docs/design/model.md.

mod lane_rules;
mod lanes;
mod recut;
mod recut_rules;
mod recut_state;
mod search;
mod sink;
mod sink_rules;

use search::{Explored, Model, explore};

/// A search that grows beyond this has bounds that are too wide.
const MOST_STATES: usize = 6_000_000;

/// Every rule is on: nothing may be wrong. `least` guards against a model that stopped moving.
fn holds(name: &str, model: &impl Model, least: usize) {
    let (explored, trace) = match explore(model, MOST_STATES) {
        Ok(Explored { states, steps, depth }) => {
            println!("{name}: {states} states, {steps} steps, depth {depth}");
            (states, String::new())
        }
        Err(found) => (0, found.to_string()),
    };
    assert!(explored >= least, "{name}: {explored} states, expected at least {least}; {trace}");
}

/// A rule is off: the search must find it, and find what the rule is there to prevent.
fn breaks(name: &str, model: &impl Model, expected: &str) {
    let found = match explore(model, MOST_STATES) {
        Ok(explored) => format!("no counterexample in {} states", explored.states),
        Err(found) => found.to_string(),
    };
    println!("{name}: {found}");
    assert!(found.contains(expected), "{name}: expected '{expected}', found {found}");
}
