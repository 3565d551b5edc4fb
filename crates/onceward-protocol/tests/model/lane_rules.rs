//! What holds between source, lane, consumer and store, and what breaks without each rule.

use onceward_protocol::Mutant;

use crate::lanes::{Bounds, Lanes, Rule};
use crate::{breaks, holds};

const NOT_ONCE: &str = "not each exactly once and in order";
const ACKED_TOO_EARLY: &str = "is acknowledged, but only";
const REVOKED: &str = "committed after its lease was revoked";

const ONE_EACH: Bounds =
    Bounds { messages: 2, producers: 1, consumers: 1, net: 2, disturbances: 1, queue: 0 };
const TWO_CONSUMERS: Bounds = Bounds { consumers: 2, ..ONE_EACH };

fn without(rule: Rule, bounds: Bounds, expected: &str) {
    breaks(&format!("{rule:?} off"), &Lanes { bounds, without: Some(rule) }, expected);
}
fn all_rules(name: &str, bounds: Bounds, least: usize) {
    holds(name, &Lanes { bounds, without: None }, least);
}

#[test]
fn two_jobs_on_each_side_deliver_every_message_exactly_once() {
    all_rules("two jobs each", Bounds { producers: 2, disturbances: 0, ..TWO_CONSUMERS }, 500_000);
}

#[test]
fn two_jobs_on_each_side_survive_a_lost_packet() {
    all_rules("two jobs each, disturbed", Bounds { producers: 2, net: 1, ..TWO_CONSUMERS }, 900_000);
}

#[test]
fn two_consuming_jobs_survive_a_disturbed_lane() {
    all_rules("two consumers, three packets", Bounds { net: 3, ..TWO_CONSUMERS }, 200_000);
    all_rules("two consumers, queue", Bounds { queue: 2, ..TWO_CONSUMERS }, 150_000);
}

#[test]
fn two_producing_jobs_survive_a_disturbed_lane() {
    all_rules("two producers", Bounds { producers: 2, ..ONE_EACH }, 30_000);
}

#[test]
fn three_messages_survive_two_disturbances() {
    all_rules(
        "three messages",
        Bounds { messages: 3, net: 3, disturbances: 2, queue: 1, ..ONE_EACH },
        100_000,
    );
}

#[test]
fn without_chain_a_later_epoch_is_applied_before_a_lost_one() {
    without(Rule::Chain, TWO_CONSUMERS, NOT_ONCE);
}

#[test]
fn without_the_owner_compare_a_revoked_job_commits() {
    without(Rule::OwnerCompare, TWO_CONSUMERS, REVOKED);
}

#[test]
fn without_generation_per_job_a_job_takes_its_predecessors_commit_for_its_own() {
    without(Rule::GenerationPerJob, TWO_CONSUMERS, ACKED_TOO_EARLY);
}

#[test]
fn without_load_after_grant_a_job_applies_again_what_the_zombie_committed() {
    without(Rule::LoadAfterGrant, TWO_CONSUMERS, NOT_ONCE);
}

#[test]
fn without_own_commit_an_unknown_outcome_is_acknowledged() {
    without(Rule::OwnCommit, TWO_CONSUMERS, ACKED_TOO_EARLY);
}

#[test]
fn without_session_bound_a_batch_of_an_older_session_takes_the_place_of_a_missing_one() {
    without(Rule::SessionBound, Bounds { messages: 3, net: 3, disturbances: 2, ..ONE_EACH }, NOT_ONCE);
}

#[test]
fn without_the_dense_sequence_a_lost_batch_is_skipped() {
    without(Rule::DenseSequence, ONE_EACH, NOT_ONCE);
}

#[test]
fn without_lane_prefix_a_later_message_covers_an_earlier_one() {
    without(Rule::LanePrefix, Bounds { queue: 2, ..ONE_EACH }, NOT_ONCE);
}

#[test]
fn without_the_committed_frontier_what_is_only_taken_is_acknowledged() {
    without(Rule::AckCommitted, ONE_EACH, ACKED_TOO_EARLY);
}

#[test]
fn without_the_taken_frontier_a_session_reset_applies_twice() {
    without(Rule::DropTaken, ONE_EACH, NOT_ONCE);
}

#[test]
fn without_ack_implies_durable_an_epoch_under_way_is_acknowledged() {
    without(Rule::AckImpliesDurable, ONE_EACH, ACKED_TOO_EARLY);
}

#[test]
fn without_a_persisted_frontier_the_next_job_applies_again() {
    without(Rule::FrontierPersisted, TWO_CONSUMERS, NOT_ONCE);
}

#[test]
fn without_contiguous_progress_the_source_forgets_what_is_not_finished() {
    without(Rule::ContiguousProgress, ONE_EACH, "the source is finished up to");
}

#[test]
fn the_switches_shared_with_the_simulator_are_caught_here_too() {
    without(Rule::Shared(Mutant::ChainNotCompared), TWO_CONSUMERS, REVOKED);
    without(Rule::Shared(Mutant::SessionOutlivesJob), TWO_CONSUMERS, NOT_ONCE);
}
