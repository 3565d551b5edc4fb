//! Watermarks repeat at the same places, and windows tile time.

use onceward_protocol::Watermark;
use onceward_protocol::watermark::{BoundedDisorder, Tumbling};
use proptest::collection::vec;
use proptest::prelude::*;

fn time() -> impl Strategy<Value = i64> {
    prop_oneof![4 => -1000..1000i64, 1 => any::<i64>(), 1 => Just(i64::MAX), 1 => Just(i64::MIN + 1)]
}
fn size() -> impl Strategy<Value = i64> {
    prop_oneof![4 => 1..100i64, 1 => 1..=i64::MAX]
}

proptest! {
    #[test]
    fn a_watermark_depends_on_the_prefix_and_not_on_where_reading_started(
        bound in 0..=i64::MAX, rows in vec(time(), 0..30), cut in any::<prop::sample::Index>(),
    ) {
        let cut = cut.index(rows.len() + 1);
        let watermarks = |mut disorder: BoundedDisorder, rows: &[i64]| {
            let each = rows.iter().map(|row| {
                disorder.observe(*row);
                disorder.watermark()
            });
            (each.collect::<Vec<_>>(), disorder)
        };
        let (whole, _) = watermarks(BoundedDisorder::new(bound, i64::MIN), &rows);
        let (_, prefix) = watermarks(BoundedDisorder::new(bound, i64::MIN), &rows[..cut]);
        let (again, _) = watermarks(BoundedDisorder::new(bound, prefix.max_seen()), &rows[cut..]);
        prop_assert_eq!(&again[..], &whole[cut..]);
    }

    #[test]
    fn a_watermark_never_goes_back_and_stays_its_bound_behind_the_newest_row(bound in 0..=i64::MAX, rows in vec(time(), 1..30)) {
        let mut disorder = BoundedDisorder::new(bound, i64::MIN);
        prop_assert_eq!(disorder.watermark(), Watermark::NONE);
        let mut newest = i64::MIN;
        for row in rows {
            let before = disorder.watermark();
            disorder.observe(row);
            newest = newest.max(row);
            prop_assert!(disorder.watermark() >= before);
            prop_assert_eq!(disorder.watermark(), Watermark(newest.saturating_sub(bound)));
        }
    }

    #[test]
    fn the_effective_watermark_is_the_least_of_the_lanes(lanes in vec(any::<i64>().prop_map(Watermark), 0..6)) {
        let effective = Watermark::min_over(lanes.iter().copied());
        prop_assert!(lanes.iter().all(|lane| effective <= *lane));
        prop_assert!(lanes.contains(&effective) || (lanes.is_empty() && effective == Watermark::END));
    }

    #[test]
    fn every_time_falls_into_the_one_window_around_it(size in size(), at in time()) {
        let window = Tumbling { size, allowed_lateness: 0 };
        match window.start_of(at) {
            Some(start) => {
                prop_assert!(start <= at);
                prop_assert_eq!(start.rem_euclid(size), 0);
                prop_assert!(window.end_of(start).is_some_and(|end| at < end));
                prop_assert_eq!(window.start_of(start), Some(start));
            }
            None => {
                let start = i128::from(at).div_euclid(i128::from(size)) * i128::from(size);
                // 0001-01-01 and the end of 9999: what a window is written as must be a time that can be read.
                let (first, last) = (-62_135_596_800_000_000, 253_402_300_799_999_999);
                let fits = start >= first && start + i128::from(size) <= last;
                prop_assert!(!fits);
            }
        }
    }

    #[test]
    fn a_window_closes_at_its_end_plus_the_lateness_and_stays_closed(
        size in size(), lateness in 0..=i64::MAX, at in time(), early in any::<i64>(), later in any::<i64>(),
    ) {
        let window = Tumbling { size, allowed_lateness: lateness };
        if let Some(start) = window.start_of(at) {
            let due = i128::from(start) + i128::from(size) + i128::from(lateness);
            let (early, later) = (early.min(later), early.max(later));
            prop_assert_eq!(window.closed(start, Watermark(later)), due.min(i64::MAX.into()) <= i128::from(later));
            prop_assert!(!window.closed(start, Watermark(early)) || window.closed(start, Watermark(later)));
            prop_assert!(window.closed(start, Watermark::END));
            prop_assert!(!window.closed(start, Watermark::NONE));
        }
    }

    #[test]
    fn a_row_within_the_bound_is_never_late(size in 1..100i64, bound in 0..200i64, rows in vec(-500..500i64, 1..30), back in 0..=200i64) {
        let window = Tumbling { size, allowed_lateness: 0 };
        let mut disorder = BoundedDisorder::new(bound, i64::MIN);
        rows.iter().for_each(|row| disorder.observe(*row));
        let row = disorder.max_seen() - back.min(bound);
        let start = window.start_of(row);
        prop_assert!(start.is_some_and(|start| !window.closed(start, disorder.watermark())));
    }
}

proptest! {
    #[test]
    fn the_next_boundary_is_the_first_watermark_that_closes_another_window(
        size in 1i64..100_000, lateness in 0i64..100_000, at in -1_000_000i64..1_000_000,
    ) {
        let window = Tumbling { size, allowed_lateness: lateness };
        let boundary = window.next_boundary(Watermark(at));
        prop_assert!(boundary > at);
        // No window closes after `at` and before the boundary, and one closes right at it.
        let closing = |watermark: i64| (watermark - lateness).div_euclid(size);
        prop_assert_eq!(closing(boundary - 1), closing(at));
        let start = boundary - lateness - size;
        prop_assert_eq!(start.rem_euclid(size), 0);
        prop_assert!(window.closed(start, Watermark(boundary)) && !window.closed(start, Watermark(boundary - 1)));
    }
}
