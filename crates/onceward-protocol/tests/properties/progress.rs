//! CONTIGUOUS-PROGRESS: the finished place never passes anything that is not finished.

use onceward_protocol::resume::{Progress, ResumePoint};
use onceward_protocol::{Frontier, Position};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::given;

#[derive(Clone, Debug)]
enum Happening {
    /// Reading goes on by so many rows, or reads again what was read.
    Read { back: u64, forward: u64 },
    /// The end was read.
    End,
    /// The lanes' and sinks' frontiers, of which the minimum counts.
    Finish(Vec<u64>),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => (0..3u64, 1..5u64).prop_map(|(back, forward)| Happening::Read { back, forward }),
        1 => Just(Happening::End),
        4 => vec(0..30u64, 1..4).prop_map(Happening::Finish),
    ]
}

fn place(row: u64, end: bool) -> ResumePoint {
    ResumePoint {
        position: Position::at(row),
        token: row.to_be_bytes().to_vec(),
        rows: row,
        end,
        ..ResumePoint::start()
    }
}
fn through(row: u64) -> Frontier {
    if row == 0 { Frontier::START } else { Frontier::through(Position::at(row)) }
}

proptest! {
    #[test]
    fn finished_is_the_last_place_at_or_before_everything_that_is_finished(happenings in vec(happening(), 0..40)) {
        let mut progress = Progress::new(ResumePoint::start());
        let mut places = vec![ResumePoint::start()];
        let mut least = Frontier::START;
        let mut row = 0;
        for happening in happenings {
            match happening {
                Happening::Read { back, forward } => {
                    row = (row + forward).saturating_sub(back).max(1);
                    let point = place(row, false);
                    if places.last().is_some_and(|last| last.frontier() < point.frontier()) {
                        places.push(point.clone());
                    }
                    progress.read_to(point);
                }
                Happening::End => {
                    let point = place(row, true);
                    if places.last().is_some_and(|last| last.frontier() < Frontier::END) {
                        places.push(point.clone());
                    }
                    progress.read_to(point);
                }
                Happening::Finish(frontiers) => {
                    let frontier = frontiers.into_iter().map(through).min().unwrap_or(Frontier::START);
                    let before = progress.finished().cloned();
                    let moved = progress.finish(frontier);
                    least = least.max(frontier);
                    prop_assert_eq!(moved, progress.finished() != before.as_ref());
                    if moved {
                        prop_assert!(progress.finished().is_some_and(|place| place.frontier() <= frontier));
                    }
                }
            }
            // `least` may have grown past what was read then: what was read since is finished only by
            // the next call, so the expected place is the last one known at some call.
            let finished = progress.finished().cloned().unwrap_or_else(ResumePoint::start);
            prop_assert!(places.contains(&finished));
            prop_assert!(finished.frontier() <= least);
            prop_assert_eq!(progress.read(), places.last());
            let open = places.iter().filter(|place| place.frontier() > finished.frontier()).count();
            prop_assert_eq!(progress.open(), open);
        }
        progress.finish(least);
        let expected = places.iter().rfind(|place| place.frontier() <= least);
        prop_assert_eq!(progress.finished(), expected);
    }

    #[test]
    fn a_rewind_starts_at_the_last_place_that_skips_nothing(
        rows in vec(1..5u64, 0..12), finished in 0..40u64, needed in 0..60u64,
    ) {
        let mut progress = Progress::new(ResumePoint::start());
        let mut places = vec![0];
        for step in rows {
            let row = places[places.len() - 1] + step;
            places.push(row);
            progress.read_to(place(row, false));
        }
        progress.finish(through(finished));
        let first = progress.finished().map_or(0, |place| place.rows);
        let expected = places.into_iter().rfind(|row| *row >= first && *row <= needed);
        prop_assert_eq!(progress.at_or_before(through(needed)).map(|place| place.rows), expected);
    }

    #[test]
    fn what_was_finished_is_never_offered_again(rows in 2..20u64, needed in 0..20u64) {
        let mut progress = Progress::new(ResumePoint::start());
        (1..=rows).for_each(|row| progress.read_to(place(row, false)));
        progress.finish(through(rows));
        prop_assert_eq!(progress.at_or_before(through(needed)).is_some(), needed >= rows);
    }

    #[test]
    fn a_place_stands_for_everything_up_to_it(point in given::resume_point()) {
        let frontier = point.frontier();
        prop_assert_eq!(frontier.is_end(), point.end || point.position == Position::new(u64::MAX, u32::MAX));
        if !point.end {
            prop_assert_eq!(frontier.covers_position(point.position), point.position != Position::ORIGIN);
        }
    }
}
