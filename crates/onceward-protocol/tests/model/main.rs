//! Explicit-state model check of the protocol at small bounds.
//!
//! With every rule on, every reachable state keeps the invariants and can be led to completion. With
//! any one rule off, the search finds the shortest way to the damage that the rule prevents; run with
//! `--nocapture` to read it. What is modelled, and the same in words: docs/design/model.md.

mod lane_rules;
mod lanes;
mod search;
mod sink;
mod sink_rules;

use search::{Model, explore};

/// A search that grows beyond this has bounds that are too wide.
const MOST_STATES: usize = 6_000_000;

/// Every rule is on: nothing may be wrong. `least` guards against a model that stopped moving.
fn holds(name: &str, model: &impl Model, least: usize) {
    let outcome = explore(model, MOST_STATES);
    assert!(outcome.is_ok(), "{name}: {}", outcome.err().map_or_else(String::new, |found| found.to_string()));
    for explored in outcome {
        let search::Explored { states, steps, depth } = explored;
        println!("{name}: {states} states, {steps} steps, depth {depth}");
        assert!(states >= least, "{name}: only {states} states, expected at least {least}");
    }
}

/// A rule is off: the search must find it, and find what the rule is there to prevent.
fn breaks(name: &str, model: &impl Model, expected: &str) {
    let outcome = explore(model, MOST_STATES);
    assert!(outcome.is_err(), "{name}: no counterexample, expected one that says '{expected}'");
    for found in outcome.err() {
        println!("{name}: {found}");
        assert!(found.broken.contains(expected), "{name}: expected '{expected}', found {found}");
    }
}
