//! The simulator passes with every rule on, catches every mutant, and repeats itself.

#![expect(clippy::panic, reason = "a helper of tests")]

use onceward_protocol::{Mutant, Mutants};
use onceward_sim::{Coverage, Settings, run_seed};

/// Seeds within which a broken rule must show.
const SEEDS_PER_MUTANT: u64 = 200;

#[test]
fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
    for seed in 0..4 {
        let first = run_seed(seed, Settings::default()).unwrap();
        assert_eq!(first, run_seed(seed, Settings::default()).unwrap());
        assert_ne!(first.trace, run_seed(seed + 1000, Settings::default()).unwrap().trace);
    }
}

#[test]
fn seeds_hold_every_guarantee_and_reach_what_they_must() {
    let mut coverage = Coverage::default();
    for seed in 0..120 {
        let report = run_seed(seed, Settings::default()).unwrap_or_else(|violation| panic!("{violation:?}"));
        assert!(report.coverage.messages >= 10_000);
        assert!(report.coverage.total_crashes() >= 20, "seed {seed}: {:?}", report.coverage);
        coverage.add(&report.coverage);
    }
    assert_eq!(coverage.missing(), Vec::<String>::new());
}

fn assert_caught(mutant: Mutant) {
    let settings = Settings { mutants: Mutants::only(mutant), ..Settings::default() };
    let caught = (0..SEEDS_PER_MUTANT).find_map(|seed| run_seed(seed, settings).err());
    let violation = caught.unwrap_or_else(|| panic!("{} survived {SEEDS_PER_MUTANT} seeds", mutant.name()));
    println!("{} caught by seed {}: {}", mutant.name(), violation.seed, violation.what);
}

#[test]
fn a_frontier_that_is_not_persisted_is_caught() {
    assert_caught(Mutant::FrontierNotPersisted);
}

#[test]
fn a_chain_that_is_not_compared_is_caught() {
    assert_caught(Mutant::ChainNotCompared);
}

#[test]
fn an_acknowledgement_before_the_commit_is_caught() {
    assert_caught(Mutant::AckBeforeCommit);
}

#[test]
fn an_acknowledged_taken_frontier_is_caught() {
    assert_caught(Mutant::TakenFrontierAcked);
}

#[test]
fn a_session_that_outlives_its_job_is_caught() {
    assert_caught(Mutant::SessionOutlivesJob);
}

#[test]
fn a_snapshot_renamed_before_its_data_is_synced_is_caught() {
    assert_caught(Mutant::SnapshotRenamedUnsynced);
}

#[test]
fn a_marker_set_without_comparing_is_caught() {
    assert_caught(Mutant::MarkerNotCompared);
}

#[test]
fn a_child_that_forgets_the_frontier_of_its_parent_is_caught() {
    assert_caught(Mutant::ChildForgetsFrontier);
}

#[test]
fn frontiers_merged_by_maximum_are_caught() {
    assert_caught(Mutant::FrontiersMergedByMaximum);
}

#[test]
fn a_gate_that_ignores_an_undrained_ancestor_is_caught() {
    assert_caught(Mutant::GateIgnoresAncestor);
}

#[test]
fn an_outbox_entry_dropped_before_the_target_confirmed_is_caught() {
    assert_caught(Mutant::OutboxDroppedEarly);
}

#[test]
fn a_retired_lane_accepted_as_new_is_caught() {
    assert_caught(Mutant::RetiredLaneAccepted);
}
