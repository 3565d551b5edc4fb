//! What holds between outbox, cursor and target, and what breaks without each rule.

use crate::sink::{Bounds, Compare, Fault, Rule, Sink};
use crate::{breaks, holds};

const NOT_ONCE: &str = "not each once and in order";
const FALSE_STOP: &str = "a job stopped although nothing was wrong";
const SKIPPED: &str = "is finished, but the target has";

const WIDE: Bounds = Bounds { rows: 3, jobs: 2, calls: 2, timeouts: 2 };
const NARROW: Bounds = Bounds { timeouts: 1, ..WIDE };

fn sink(bounds: Bounds, compare: Compare, fault: Option<Fault>, without: Option<Rule>) -> Sink {
    Sink { bounds, compare, fault, without }
}
fn all_rules(name: &str, bounds: Bounds, compare: Compare, fault: Option<Fault>, least: usize) {
    holds(name, &sink(bounds, compare, fault, None), least);
}
fn without(rule: Rule, compare: Compare, fault: Option<Fault>, expected: &str) {
    breaks(&format!("{rule:?} off"), &sink(NARROW, compare, fault, Some(rule)), expected);
}

#[test]
fn a_target_that_compares_marker_and_fence_gets_every_row_exactly_once() {
    all_rules("marker and fence", WIDE, Compare::Both, None, 200_000);
}

#[test]
fn a_target_that_only_fences_gets_every_row_exactly_once() {
    all_rules("fence only", WIDE, Compare::Fence, None, 200_000);
}

#[test]
fn a_target_that_only_compares_the_marker_gets_every_row_exactly_once_on_one_branch() {
    all_rules("marker only", WIDE, Compare::Position, None, 200_000);
}

#[test]
fn a_lost_marker_stops_the_sink_and_nothing_is_written_twice() {
    all_rules("marker lost", WIDE, Compare::Both, Some(Fault::MarkerLost), 500_000);
}

#[test]
fn a_target_that_went_back_stops_the_sink_or_is_caught_up() {
    all_rules("target goes back", NARROW, Compare::Both, Some(Fault::TargetGoesBack), 500_000);
}

#[test]
fn a_restored_store_never_takes_another_branchs_rows_for_its_own() {
    all_rules("store goes back", NARROW, Compare::Both, Some(Fault::StoreGoesBack), 500_000);
}

#[test]
fn without_marker_cas_a_timed_out_write_lands_after_its_retry_and_no_zombie_is_needed() {
    let model = sink(Bounds { jobs: 1, ..NARROW }, Compare::Nothing, None, None);
    breaks("MARKER-CAS off", &model, NOT_ONCE);
}

#[test]
fn a_marker_compared_without_the_fence_does_not_keep_two_branches_apart() {
    let model = sink(NARROW, Compare::Position, Some(Fault::StoreGoesBack), None);
    breaks("fence not compared", &model, SKIPPED);
}

#[test]
fn a_fence_compared_without_the_marker_does_not_notice_a_target_that_went_back() {
    let model = sink(NARROW, Compare::Fence, Some(Fault::TargetGoesBack), None);
    breaks("marker not compared", &model, NOT_ONCE);
}

#[test]
fn without_open_order_a_marker_read_before_the_fence_is_out_of_date() {
    without(Rule::ReadAfterFence, Compare::Fence, None, NOT_ONCE);
}

#[test]
fn without_open_order_a_zombie_takes_its_successors_progress_for_damage() {
    without(Rule::ProveAfterFence, Compare::Both, None, FALSE_STOP);
}

#[test]
fn without_the_trust_window_work_resumed_at_finished_is_written_again() {
    without(Rule::ResumeAtMarker, Compare::Fence, None, NOT_ONCE);
}

#[test]
fn without_the_trust_window_a_marker_from_another_branch_hides_rows() {
    without(Rule::NotAboveIntended, Compare::Both, Some(Fault::StoreGoesBack), SKIPPED);
}

#[test]
fn without_the_trust_window_a_target_that_lost_rows_is_written_on() {
    without(Rule::NotBelowMarked, Compare::Both, Some(Fault::TargetGoesBack), NOT_ONCE);
}

#[test]
fn without_marked_a_filtered_row_stops_a_correct_pipeline() {
    without(Rule::MarkedIsKept, Compare::Both, None, FALSE_STOP);
}

#[test]
fn without_intended_bound_to_attempts_a_restored_store_trusts_rows_it_never_sent() {
    without(Rule::IntendedWhenOpen, Compare::Both, Some(Fault::StoreGoesBack), SKIPPED);
}

#[test]
fn intended_raised_with_the_row_is_enough_while_no_store_is_restored() {
    let model = sink(WIDE, Compare::Both, None, Some(Rule::IntendedWhenOpen));
    holds("intended raised with the row", &model, 150_000);
}

#[test]
fn without_opening_an_absent_marker_is_read_as_zero_and_rows_are_written_again() {
    without(Rule::AbsentOnlyWhileOpening, Compare::Both, Some(Fault::MarkerLost), NOT_ONCE);
}
