//! TRUST-WINDOW and OPENING as decided after a marker was read.

use onceward_protocol::{Cursor, CursorPhase, Fence, Marker, OpenDecision, Position, StopReason};
use proptest::option::of;
use proptest::prelude::*;

const MINE: Fence = Fence(1);
const THEIRS: Fence = Fence(2);

fn position() -> impl Strategy<Value = Position> {
    (0..5u64, 0..2u32).prop_map(|(major, minor)| Position::new(major, minor))
}
fn cursor() -> impl Strategy<Value = Cursor> {
    let phase = prop_oneof![Just(CursorPhase::New), Just(CursorPhase::Opening), Just(CursorPhase::Open)];
    (phase, position(), position(), position()).prop_map(|(phase, finished, marked, intended)| Cursor {
        phase,
        finished,
        marked,
        intended,
        fence: Some(MINE),
    })
}

proptest! {
    #[test]
    fn a_marker_is_trusted_only_between_marked_and_intended(cursor in cursor(), at in position()) {
        let expected = if at < cursor.marked {
            OpenDecision::Stop(StopReason::MarkerBehind { marker: at, marked: cursor.marked })
        } else if at > cursor.intended {
            OpenDecision::Stop(StopReason::MarkerAhead { marker: at, intended: cursor.intended })
        } else {
            OpenDecision::Resume(if at > cursor.finished { at } else { cursor.finished })
        };
        prop_assert_eq!(cursor.decide(Some(Marker { position: at, fence: MINE }), MINE), expected);
    }

    #[test]
    fn work_never_resumes_before_the_marker_or_before_finished(cursor in cursor(), marker in of(position())) {
        let marker = marker.map(|position| Marker { position, fence: MINE });
        if let OpenDecision::Resume(from) = cursor.decide(marker, MINE) {
            prop_assert!(from >= cursor.finished);
            prop_assert!(marker.is_some_and(|marker| from >= marker.position));
        }
    }

    #[test]
    fn under_another_fence_nothing_is_done_whatever_the_marker_says(cursor in cursor(), at in position()) {
        let marker = Marker { position: at, fence: THEIRS };
        prop_assert_eq!(cursor.decide(Some(marker), MINE), OpenDecision::Fenced);
    }

    #[test]
    fn an_absent_marker_is_created_only_before_the_sink_was_open(cursor in cursor()) {
        let expected = match cursor.phase {
            CursorPhase::New | CursorPhase::Opening => OpenDecision::Create,
            CursorPhase::Open => OpenDecision::Stop(StopReason::MarkerMissing),
        };
        prop_assert_eq!(cursor.decide(None, MINE), expected);
    }
}

#[test]
fn a_filtered_tail_does_not_stop_the_sink() {
    let at = Position::at;
    let cursor = Cursor {
        phase: CursorPhase::Open,
        finished: at(9),
        marked: at(5),
        intended: at(9),
        fence: Some(MINE),
    };
    let marker = Marker { position: at(5), fence: MINE };
    assert_eq!(cursor.decide(Some(marker), MINE), OpenDecision::Resume(at(9)));
}
