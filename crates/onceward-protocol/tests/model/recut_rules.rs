//! What holds while key ranges are re-cut, and what breaks without each rule.

use onceward_protocol::Mutant;

use crate::recut::{Bounds, Recutting, Rule};
use crate::{breaks, holds};

const STATE: &str = "a key's state has not each message once and in order";
const ARRIVED: &str = "the consumer has not each message of a key once and in order";
const FORGOTTEN: &str = "the source has forgotten";
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
const ONCE: Bounds = Bounds { recuts: 1, ..TWICE };
/// The source still has what it would forget, so that a range that starts too early does damage.
const KEEPING: Bounds = Bounds { forgets: false, ..TWICE };

fn all_rules(name: &str, bounds: Bounds, least: usize) {
    holds(name, &Recutting { bounds, without: None }, least);
}
fn without(rule: Rule, bounds: Bounds, expected: &str) {
    breaks(&format!("{rule:?} off"), &Recutting { bounds, without: Some(rule) }, expected);
}

#[test]
fn two_re_cuts_keep_every_message_once_and_in_order() {
    all_rules("two re-cuts", Bounds { messages: 4, ..TWICE }, 100_000);
    all_rules("three keys", Bounds { keys: 3, ..TWICE }, 100_000);
}

#[test]
fn a_range_that_was_cut_and_joined_can_be_cut_again() {
    all_rules("three re-cuts", Bounds { messages: 2, recuts: 3, ..TWICE }, 200_000);
}

#[test]
fn ranges_that_are_not_equally_far_can_be_merged_and_cut() {
    all_rules("merge, then cut", Bounds { split: true, ..TWICE }, 150_000);
    all_rules("three ranges", Bounds { split: true, keys: 3, messages: 2, ..TWICE }, 300_000);
}

#[test]
fn jobs_may_be_replaced_while_ranges_are_re_cut() {
    let bounds = Bounds { jobs: 2, ..ONCE };
    all_rules("two jobs, cut", bounds, 30_000);
    all_rules("two jobs, merge", Bounds { split: true, ..bounds }, 150_000);
}

#[test]
fn leaders_may_decide_first_and_act_later() {
    all_rules("two leaders", Bounds { leaders: 2, ..TWICE }, 40_000);
}

#[test]
fn the_consumer_may_be_behind_with_its_layout_and_be_re_cut_itself() {
    all_rules("two consumers, three messages", Bounds { consumers: 2, ..ONCE }, 25_000);
    all_rules("two consumers, two re-cuts", Bounds { consumers: 2, messages: 2, ..TWICE }, 400_000);
}

#[test]
fn without_recut_atomic_an_epoch_lands_between_the_reading_and_the_revoking() {
    without(Rule::ReadInside, Bounds { leaders: 1, ..TWICE }, FORGOTTEN);
    without(Rule::ReadInside, Bounds { leaders: 1, ..KEEPING }, ARRIVED);
}

#[test]
fn without_recut_atomic_a_parent_goes_on_beside_its_children() {
    without(Rule::RevokeInside, ONCE, ARRIVED);
}

#[test]
fn without_recut_atomic_an_old_leader_cuts_what_was_cut_already() {
    without(Rule::LayoutCompared, Bounds { leaders: 2, ..KEEPING }, ARRIVED);
}

#[test]
fn without_subrange_frontiers_a_merge_by_minimum_applies_again() {
    without(Rule::SubsKept, TWICE, STATE);
}

#[test]
fn without_subrange_frontiers_a_merge_by_maximum_loses() {
    without(Rule::Shared(Mutant::FrontiersMergedByMaximum), TWICE, STATE);
}

#[test]
fn without_subrange_frontiers_a_siblings_value_hides_what_was_not_seen() {
    without(Rule::MissingIsUnseen, TWICE, STATE);
}

#[test]
fn without_subrange_frontiers_a_child_needs_what_is_gone_or_applies_it_again() {
    without(Rule::Shared(Mutant::ChildForgetsFrontier), TWICE, FORGOTTEN);
    without(Rule::Shared(Mutant::ChildForgetsFrontier), KEEPING, STATE);
}

#[test]
fn without_the_ancestor_gate_a_child_overtakes_its_parent() {
    without(Rule::Shared(Mutant::GateIgnoresAncestor), ONCE, ARRIVED);
}

#[test]
fn without_the_ancestor_gate_a_grandchild_overtakes_its_grandparent() {
    without(Rule::GateReachesFar, TWICE, ARRIVED);
}

#[test]
fn without_a_job_that_drains_it_a_retired_parents_outbox_is_never_delivered() {
    without(Rule::RetiredDrains, ONCE, STUCK);
}

#[test]
fn without_waiting_for_the_drain_a_retired_parents_outbox_is_lost() {
    without(Rule::DrainedBeforeGone, ONCE, ARRIVED);
}

#[test]
fn without_default_deny_a_zombie_of_a_drained_range_delivers_again() {
    without(Rule::Shared(Mutant::RetiredLaneAccepted), ONCE, ARRIVED);
}

#[test]
fn without_default_deny_a_merged_consumer_takes_a_known_lane_for_a_new_one() {
    without(Rule::LargestVersion, Bounds { consumers: 2, ..ONCE }, ARRIVED);
}

#[test]
fn an_outbox_that_is_dropped_with_the_attempt_is_lost() {
    without(Rule::Shared(Mutant::OutboxDroppedEarly), ONCE, ARRIVED);
}

#[test]
fn a_revoked_parents_epoch_is_refused_by_the_chain_alone() {
    without(Rule::Shared(Mutant::ChainNotCompared), ONCE, ARRIVED);
}
