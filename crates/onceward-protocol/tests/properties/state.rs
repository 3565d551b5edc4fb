//! Where a pipeline may go, and what it says when it may not.

use onceward_protocol::state::{Demand, Milestone, PipelineState, next, reached};
use proptest::prelude::*;
use proptest::sample::select;

use PipelineState::{Completed, Draining, Paused, Pausing, Stopped, Working};

const DEMANDS: [Demand; 6] = [
    Demand::Run,
    Demand::Pause,
    Demand::Resume,
    Demand::Stop { drain: true },
    Demand::Stop { drain: false },
    Demand::Reset,
];
const MILESTONES: [Milestone; 3] = [Milestone::Delivered, Milestone::Drained, Milestone::Quiet];

/// By demand, then by state; `None` where it is refused.
#[test]
fn every_demand_leads_where_the_table_says() {
    let states = [Working, Draining, Stopped, Pausing, Paused, Completed];
    let no = None;
    let table: [(Demand, [Option<PipelineState>; 6]); 6] = [
        (Demand::Run, [Some(Working), Some(Draining), Some(Working), Some(Pausing), no, no]),
        (Demand::Pause, [Some(Pausing), Some(Pausing), no, Some(Pausing), Some(Paused), no]),
        (Demand::Resume, [Some(Working), no, no, Some(Working), Some(Working), no]),
        (Demand::Stop { drain: true }, [Some(Draining), Some(Draining), Some(Stopped), no, no, no]),
        (
            Demand::Stop { drain: false },
            [Some(Stopped), Some(Stopped), Some(Stopped), Some(Stopped), Some(Stopped), no],
        ),
        (Demand::Reset, [no, no, Some(Stopped), no, Some(Stopped), Some(Stopped)]),
    ];
    for (demand, row) in table {
        for (state, expected) in states.into_iter().zip(row) {
            assert_eq!(next(state, demand).ok(), expected, "{demand:?} when {state}");
        }
    }
}

#[test]
fn every_refusal_says_where_it_stands_and_what_to_type() {
    for state in PipelineState::ALL {
        for demand in DEMANDS {
            if let Err(reason) = next(state, demand) {
                assert!(reason.contains("`onceward "), "{demand:?} when {state}: {reason}");
                assert!(reason.starts_with("it") && reason.len() < 120, "{demand:?} when {state}: {reason}");
            }
        }
    }
}

#[test]
fn what_a_refusal_says_to_type_is_possible() {
    let typed = |text: &str| match text {
        "onceward run" => Demand::Run,
        "onceward resume" => Demand::Resume,
        "onceward reset" => Demand::Reset,
        "onceward stop" => Demand::Stop { drain: true },
        "onceward stop --no-drain" => Demand::Stop { drain: false },
        other => panic!("no such command: {other}"),
    };
    for state in PipelineState::ALL {
        for reason in DEMANDS.iter().filter_map(|demand| next(state, *demand).err()) {
            let first = typed(reason.split('`').nth(1).unwrap());
            let at = if reason.contains("wait until it has stopped") { Stopped } else { state };
            assert!(next(at, first).is_ok(), "{state}: {reason}");
        }
    }
}

proptest! {
    #[test]
    fn only_a_reset_leaves_completion(demand in select(&DEMANDS[..]), milestone in select(&MILESTONES[..])) {
        if let Ok(state) = next(Completed, demand) {
            prop_assert_eq!((demand, state), (Demand::Reset, Stopped));
        }
        prop_assert_eq!(reached(Completed, milestone), Completed);
    }

    /// Rest is reached through its own milestone only, and then no lease is live.
    #[test]
    fn rest_is_reached_only_by_its_own_milestone(
        state in select(&PipelineState::ALL[..]), milestone in select(&MILESTONES[..])
    ) {
        let after = reached(state, milestone);
        if after != state {
            prop_assert!(matches!(
                (state, milestone, after),
                (Working, Milestone::Delivered, Completed)
                    | (Draining, Milestone::Drained, Stopped)
                    | (Pausing, Milestone::Quiet, Paused)
            ));
            prop_assert!(!after.has_jobs());
        }
    }

    #[test]
    fn no_job_holds_a_lease_at_rest(state in select(&PipelineState::ALL[..])) {
        prop_assert_eq!(state.has_jobs(), state.ends_leases().is_none());
        prop_assert!(state.ends_leases().is_none_or(|reason| !reason.replaces()));
    }
}
