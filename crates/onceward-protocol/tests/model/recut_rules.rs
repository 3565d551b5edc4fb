//! What holds while key ranges are re-cut, and what breaks without each rule.

use onceward_protocol::Mutant;

use crate::recut::{Bounds, Recutting, Rule};
use crate::{breaks, holds};

const STATE: &str = "a key's state has not each message once and in order";
const ARRIVED: &str = "the consumer has not each message of a key once and in order";
const STUCK: &str = "no way leads to its completion";

const TWICE: Bounds = Bounds {
    messages: 3,
    keys: 2,
    jobs: 1,
    split: false,
    forgets: true,
    recuts: 2,
    leaders: 0,
    consumers: 1,
};

fn all_rules(name: &str, bounds: Bounds, least: usize) {
    holds(name, &Recutting { bounds, without: None }, least);
}
fn without(rule: Rule, bounds: Bounds, expected: &str) {
    breaks(&format!("{rule:?} off"), &Recutting { bounds, without: Some(rule) }, expected);
}

#[test]
fn sizes() {
    all_rules("two re-cuts m4", Bounds { messages: 4, ..TWICE }, 1);
    all_rules("two jobs", Bounds { jobs: 2, ..TWICE }, 1);
    all_rules("3 keys two re-cuts", Bounds { keys: 3, ..TWICE }, 1);
    all_rules("leaders 3", Bounds { leaders: 2, ..TWICE }, 1);
    all_rules("three re-cuts", Bounds { recuts: 3, messages: 2, ..TWICE }, 1);
    all_rules("split 2 jobs", Bounds { split: true, jobs: 2, recuts: 1, ..TWICE }, 1);
    all_rules("split m4", Bounds { split: true, messages: 4, ..TWICE }, 1);
    all_rules("split3 2 m2", Bounds { split: true, messages: 2, keys: 3, ..TWICE }, 1);
}
#[test]
fn rules() {
    let l1 = Bounds { leaders: 1, ..TWICE };
    let l2 = Bounds { leaders: 2, ..TWICE };
    let c2 = Bounds { consumers: 2, ..TWICE };
    without(Rule::ReadInside, l1, "");
    without(Rule::RevokeInside, TWICE, "");
    without(Rule::LayoutCompared, l2, "");
    without(Rule::SubsKept, TWICE, "");
    without(Rule::MissingIsUnseen, TWICE, "");
    without(Rule::RetiredDrains, TWICE, "");
    without(Rule::DrainedBeforeGone, TWICE, "");
    without(Rule::GateReachesFar, TWICE, "");
    without(Rule::LargestVersion, c2, "");
    without(Rule::Shared(Mutant::ChainNotCompared), TWICE, "");
    without(Rule::Shared(Mutant::ChildForgetsFrontier), TWICE, "");
    without(Rule::Shared(Mutant::FrontiersMergedByMaximum), TWICE, "");
    without(Rule::Shared(Mutant::GateIgnoresAncestor), TWICE, "");
    without(Rule::Shared(Mutant::OutboxDroppedEarly), TWICE, "");
    without(Rule::Shared(Mutant::RetiredLaneAccepted), TWICE, "");
}
