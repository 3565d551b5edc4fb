//! FLOOR-MONOTONE: a floor that only rises, and a set above it.

use std::collections::BTreeSet;

use onceward_protocol::idset::{IdSet, IdVerdict, forgotten_through, judge_client};
use onceward_protocol::{Frontier, LanePoint, Position, Watermark};
use proptest::collection::vec;
use proptest::prelude::*;

fn point(at: u64) -> LanePoint {
    LanePoint::new(Position::at(at / 3), (at % 3) as u32)
}

/// A message is taken, or the root's finished position is known anew (also an older one, out of order).
#[derive(Clone, Debug)]
enum Step {
    Take(u64),
    Floor(u64),
}
fn steps() -> impl Strategy<Value = Vec<Step>> {
    vec(prop_oneof![3 => (0..30u64).prop_map(Step::Take), 1 => (0..30u64).prop_map(Step::Floor)], 0..60)
}

proptest! {
    #[test]
    fn an_id_is_new_once(steps in steps()) {
        let mut ids = IdSet::default();
        let mut seen = BTreeSet::new();
        let mut stored: BTreeSet<LanePoint> = BTreeSet::new();
        for step in steps {
            match step {
                Step::Take(at) => {
                    let expected = if seen.insert(at) { IdVerdict::New } else { IdVerdict::Repeat };
                    prop_assert_eq!(ids.judge(point(at)), expected);
                    let inserted = ids.insert(point(at));
                    prop_assert_eq!(inserted, expected == IdVerdict::New);
                    stored.extend(inserted.then(|| point(at)));
                }
                Step::Floor(to) => {
                    seen.extend(0..=to);
                    let before = ids.floor();
                    for gone in ids.raise_floor(Frontier::at(point(to))) {
                        prop_assert!(stored.remove(&gone), "was not stored");
                    }
                    prop_assert_eq!(ids.floor(), before.max(Frontier::at(point(to))));
                }
            }
            // What is stored is the set, and nothing at or below the floor is kept.
            prop_assert!(ids.above().eq(stored.iter().copied()));
            prop_assert!(stored.iter().all(|kept| !ids.floor().covers(*kept)));
            prop_assert_eq!((ids.len(), ids.is_empty()), (stored.len(), stored.is_empty()));
        }
    }

    #[test]
    fn a_set_is_what_was_stored_of_it(floor in 0..30u64, above in vec(0..30u64, 0..20)) {
        let ids = IdSet::new(Frontier::at(point(floor)), above.iter().map(|at| point(*at)));
        for at in 0..30 {
            let known = at <= floor || above.contains(&at);
            prop_assert_eq!(ids.judge(point(at)) == IdVerdict::Repeat, known);
        }
        prop_assert!(ids.above().all(|kept| !ids.floor().covers(kept)));
    }

    /// However late an id comes again, and whatever was forgotten: it is never processed twice.
    #[test]
    fn an_id_that_may_have_been_forgotten_is_never_new(
        events in vec((0..6u8, -20..20i64), 0..60), keep in 0..15i64
    ) {
        let (mut known, mut processed) = (Vec::<(u8, i64)>::new(), BTreeSet::new());
        let mut watermark = Watermark::NONE;
        for (id, time) in events {
            let remembered = known.iter().any(|(other, _)| *other == id);
            match judge_client(time, watermark, keep, remembered) {
                IdVerdict::New => {
                    // The same id comes with the same event time.
                    prop_assert!(processed.insert((id, time)) || remembered);
                    known.push((id, time));
                }
                IdVerdict::Repeat => prop_assert!(remembered),
                IdVerdict::Expired => prop_assert!(!remembered),
            }
            watermark = watermark.max(Watermark(time - 2));
            let forgotten = forgotten_through(watermark, keep);
            known.retain(|(_, time)| forgotten.is_none_or(|forgotten| *time > forgotten));
        }
    }

    #[test]
    fn a_known_id_is_a_repeat_however_old_it_is(time in any::<i64>(), mark in any::<i64>(), keep in 0..i64::MAX) {
        prop_assert_eq!(judge_client(time, Watermark(mark), keep, true), IdVerdict::Repeat);
    }

    #[test]
    fn before_the_first_watermark_nothing_is_expired(
        time in prop_oneof![any::<i64>(), Just(i64::MIN)], keep in 0..i64::MAX
    ) {
        prop_assert_eq!(judge_client(time, Watermark::NONE, keep, false), IdVerdict::New);
    }

    #[test]
    fn an_id_is_judged_while_it_is_kept(mark in -1000..1000i64, keep in 0..1000i64, age in -1000..2000i64) {
        let expected = if age >= keep { IdVerdict::Expired } else { IdVerdict::New };
        prop_assert_eq!(judge_client(mark - age, Watermark(mark), keep, false), expected);
    }
}
