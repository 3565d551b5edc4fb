//! SUBRANGE-FRONTIER: what an ancestor has taken stays taken, and nothing else does.

use onceward_protocol::recut::{LaneState, Recut, RecutError, SubFrontier};
use onceward_protocol::{Frontier, KeyRange, LanePoint, Mutant, Mutants, Position, Watermark};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::given;

/// Ranges are cut at multiples of one 16th, so that they meet often.
const PARTS: u64 = 16;

fn cell(number: u64) -> u64 {
    number << 60
}
fn parts(first: u64, last: u64) -> KeyRange {
    KeyRange { first: cell(first), last: cell(last) | ((1 << 60) - 1) }
}
fn any_range() -> impl Strategy<Value = KeyRange> {
    (0..PARTS, 0..PARTS).prop_map(|(a, b)| parts(a.min(b), a.max(b)))
}
fn small_frontier() -> impl Strategy<Value = Frontier> {
    (0..5u64).prop_map(|at| if at == 0 { Frontier::START } else { Frontier::at(point(at)) })
}
fn lane_state() -> impl Strategy<Value = LaneState> {
    let sub = (any_range(), small_frontier()).prop_map(|(range, frontier)| SubFrontier { range, frontier });
    (small_frontier(), -3..3i64, vec(sub, 0..3)).prop_map(|(taken, watermark, subs)| LaneState {
        taken,
        watermark: Watermark(watermark),
        subs,
    })
}
fn point(at: u64) -> LanePoint {
    LanePoint::new(Position::at(at), 0)
}
/// Neighbours with their states, and a range that reaches into some of them.
fn family() -> impl Strategy<Value = (Vec<(KeyRange, Option<LaneState>)>, KeyRange)> {
    (vec(1..PARTS, 0..4), vec(of(lane_state()), 4), any_range()).prop_map(|(mut cuts, states, child)| {
        cuts.extend([0, PARTS]);
        cuts.sort_unstable();
        cuts.dedup();
        let ranges = cuts.windows(2).map(|cut| parts(cut[0], cut[1] - 1));
        (ranges.zip(states.into_iter().cycle()).collect(), child)
    })
}
fn inherit(child: KeyRange, parents: &[(KeyRange, Option<LaneState>)], mutants: Mutants) -> LaneState {
    let parents: Vec<_> = parents.iter().map(|(range, state)| (*range, state.as_ref())).collect();
    LaneState::inherit(child, &parents, mutants)
}
fn has(state: &LaneState, hash: u64, at: LanePoint) -> bool {
    state.taken.covers(at) || state.covered(hash, at)
}

proptest! {
    #[test]
    fn a_child_has_seen_exactly_what_the_owner_of_the_key_had((parents, child) in family()) {
        let state = inherit(child, &parents, Mutants::NONE);
        for hash in (0..PARTS).map(cell).filter(|hash| child.contains(*hash)) {
            for at in (1..6).map(point) {
                let (_, owner) = parents.iter().find(|(range, _)| range.contains(hash)).unwrap();
                let seen = owner.as_ref().is_some_and(|owner| has(owner, hash, at));
                prop_assert_eq!(has(&state, hash, at), seen, "hash {:x} at {:?}", hash, at);
            }
        }
    }

    #[test]
    fn a_key_that_nobody_owned_has_seen_nothing((mut parents, child) in family(), gone in any::<Index>()) {
        let (gone, _) = parents.remove(gone.index(parents.len()));
        let state = inherit(child, &parents, Mutants::NONE);
        for hash in (0..PARTS).map(cell).filter(|hash| child.contains(*hash) && gone.contains(*hash)) {
            prop_assert!(!has(&state, hash, point(1)));
            prop_assert_eq!(state.watermark, Watermark::NONE);
        }
    }

    #[test]
    fn a_child_promises_no_later_time_than_any_parent((parents, child) in family()) {
        let state = inherit(child, &parents, Mutants::NONE);
        let overlapping = parents.iter().filter(|(range, _)| range.overlaps(child));
        let least = overlapping.map(|(_, state)| state.as_ref().map_or(Watermark::NONE, |state| state.watermark));
        prop_assert_eq!(Some(state.watermark), least.min());
    }

    #[test]
    fn parents_that_are_equally_far_leave_no_sub_ranges(taken in small_frontier(), cut in 1..PARTS) {
        let state = LaneState { taken, watermark: Watermark(1), subs: Vec::new() };
        let parents = [(parts(0, cut - 1), Some(state.clone())), (parts(cut, PARTS - 1), Some(state.clone()))];
        prop_assert_eq!(inherit(KeyRange::ALL, &parents, Mutants::NONE), state);
    }

    /// Nothing comes on the lane, so that no part is ever dropped: there must not be more of them each time.
    #[test]
    fn a_range_that_is_cut_and_joined_again_is_as_it_was(
        (parents, child) in family(), cuts in vec(any::<u64>(), 1..6)
    ) {
        let parents: Vec<_> = parents.into_iter().map(|(range, state)| {
            let subs = Vec::new();
            (range, state.map(|state| LaneState { subs, ..state }))
        }).collect();
        let before = inherit(child, &parents, Mutants::NONE);
        let mut state = before.clone();
        for at in cuts {
            let Some(recut) = Recut::split(child, child.first + at % (child.last - child.first)) else { continue };
            let whole = [(child, Some(state))];
            let halves = recut.children.iter().map(|half| (*half, Some(inherit(*half, &whole, Mutants::NONE))));
            state = inherit(child, &halves.collect::<Vec<_>>(), Mutants::NONE);
        }
        prop_assert_eq!(state, before);
    }

    #[test]
    fn sub_ranges_are_dropped_only_when_the_frontier_has_reached_them_all(state in lane_state()) {
        let mut after = state.clone();
        after.coalesce();
        for hash in (0..PARTS).map(cell) {
            for at in (1..6).map(point) {
                prop_assert_eq!(has(&after, hash, at), has(&state, hash, at));
            }
        }
        let furthest = state.subs.iter().map(|sub| sub.frontier).max();
        prop_assert_eq!(after.subs.is_empty(), furthest.is_none_or(|furthest| furthest <= state.taken));
    }

    #[test]
    fn sub_ranges_come_back_as_they_were_stored(
        subs in vec((given::range(), given::frontier()), 0..5), cut in any::<Index>()
    ) {
        let subs: Vec<_> = subs.into_iter().map(|(range, frontier)| SubFrontier { range, frontier }).collect();
        let bytes = LaneState { subs: subs.clone(), ..LaneState::default() }.encode_subs();
        prop_assert_eq!(LaneState::decode_subs(&bytes), Some(subs));
        prop_assert_eq!(LaneState::decode_subs(&bytes[..cut.index(bytes.len())]), None);
        let followed = [&bytes[..], &[0]].concat();
        prop_assert_eq!(LaneState::decode_subs(&followed), None);
    }

    #[test]
    fn arbitrary_bytes_are_no_sub_ranges_or_exactly_those(bytes in vec(any::<u8>(), 0..80)) {
        if let Some(subs) = LaneState::decode_subs(&bytes) {
            prop_assert_eq!(LaneState { subs, ..LaneState::default() }.encode_subs(), bytes);
        }
    }
}

/// What happens to a computation: an owner takes the next message of its lane, or ranges are cut and joined.
#[derive(Clone, Debug)]
enum Step {
    Take(usize, u8),
    Split(usize, u64),
    Merge(usize),
}
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..8usize, 1..4u8).prop_map(|(range, count)| Step::Take(range, count)),
        1 => (0..8usize, 0..PARTS).prop_map(|(range, at)| Step::Split(range, at)),
        1 => (0..8usize).prop_map(Step::Merge),
    ];
    vec(step, 0..40)
}

/// A lane of messages with the keys that they have, and the ranges that take it.
struct Lane {
    keys: Vec<u64>,
    owners: Vec<(KeyRange, LaneState)>,
    /// How often each message was applied.
    applied: Vec<u32>,
    mutants: Mutants,
}

impl Lane {
    fn take(&mut self, owner: usize) {
        let (range, state) = &mut self.owners[owner];
        let next = (1..=self.keys.len() as u64).map(point).find(|at| !state.taken.covers(*at));
        let Some(at) = next else { return };
        let number = at.position.major as usize - 1;
        let hash = self.keys[number];
        if range.contains(hash) && !state.covered(hash, at) {
            self.applied[number] += 1;
        }
        state.taken = Frontier::at(at);
        state.coalesce();
    }
    fn recut(&mut self, recut: &Recut) {
        assert_eq!(recut.check(), Ok(()));
        let (first, last) = (recut.parents[0].first, recut.parents[recut.parents.len() - 1].last);
        let (parents, others): (Vec<_>, Vec<_>) =
            self.owners.drain(..).partition(|(range, _)| first <= range.first && range.last <= last);
        let parents: Vec<_> = parents.into_iter().map(|(range, state)| (range, Some(state))).collect();
        let children = recut.children.iter().map(|child| (*child, inherit(*child, &parents, self.mutants)));
        self.owners = others.into_iter().chain(children).collect();
        self.owners.sort_by_key(|(range, _)| range.first);
    }
    fn step(&mut self, step: &Step) {
        match step {
            Step::Take(owner, count) => {
                let owner = owner % self.owners.len();
                (0..*count).for_each(|_| self.take(owner));
            }
            Step::Split(owner, at) => {
                let (range, _) = self.owners[owner % self.owners.len()];
                if let Some(recut) = Recut::split(range, cell(*at)) {
                    self.recut(&recut);
                }
            }
            Step::Merge(left) if self.owners.len() > 1 => {
                let left = left % (self.owners.len() - 1);
                let recut = Recut::merge(self.owners[left].0, self.owners[left + 1].0).unwrap();
                self.recut(&recut);
            }
            Step::Merge(_) => {}
        }
    }
}

/// How often each message is applied once everything was taken.
fn applied(keys: &[u64], steps: &[Step], mutants: Mutants) -> Vec<u32> {
    let keys: Vec<u64> = keys.iter().copied().map(cell).collect();
    let owners = vec![(KeyRange::ALL, LaneState::default())];
    let mut lane = Lane { applied: vec![0; keys.len()], keys, owners, mutants };
    steps.iter().for_each(|step| lane.step(step));
    for owner in 0..lane.owners.len() {
        (0..lane.keys.len()).for_each(|_| lane.take(owner));
    }
    lane.applied
}

proptest! {
    #[test]
    fn however_ranges_are_cut_each_message_is_applied_once(keys in vec(0..PARTS, 1..9), steps in steps()) {
        prop_assert_eq!(applied(&keys, &steps, Mutants::NONE), vec![1; keys.len()]);
    }
}

const TAKE_AHEAD: [Step; 4] = [Step::Take(0, 1), Step::Split(0, 8), Step::Take(1, 3), Step::Merge(0)];

#[test]
fn a_child_that_forgets_its_parents_frontier_applies_again() {
    let split = [Step::Take(0, 1), Step::Split(0, 8)];
    assert_eq!(applied(&[1, 9, 2, 10], &split, Mutants::only(Mutant::ChildForgetsFrontier)), [2, 1, 1, 1]);
}

#[test]
fn a_merge_by_maximum_loses_what_the_slower_parent_has_not_taken() {
    let mutants = Mutants::only(Mutant::FrontiersMergedByMaximum);
    assert_eq!(applied(&[1, 9, 2, 10], &TAKE_AHEAD, mutants), [1, 1, 0, 1]);
}

#[test]
fn a_merge_by_minimum_keeps_what_the_faster_parent_has_taken_apart() {
    assert_eq!(applied(&[1, 9, 2, 10], &TAKE_AHEAD, Mutants::NONE), [1, 1, 1, 1]);
}

proptest! {
    #[test]
    fn a_cut_owns_what_its_parent_owned(range in given::range(), at in any::<u64>()) {
        match Recut::split(range, at) {
            Some(recut) => {
                prop_assert_eq!(recut.check(), Ok(()));
                prop_assert_eq!(recut.children[1].first, at);
            }
            None => prop_assert!(at <= range.first || at > range.last),
        }
    }

    #[test]
    fn a_range_of_more_than_one_hash_can_be_halved(range in given::range()) {
        match Recut::split_even(range) {
            Some(recut) => {
                prop_assert_eq!(recut.check(), Ok(()));
                prop_assert!(recut.children[0].width().abs_diff(recut.children[1].width()) <= 1);
            }
            None => prop_assert_eq!(range.width(), 1),
        }
    }

    #[test]
    fn only_neighbours_can_be_merged(left in any_range(), right in any_range()) {
        let merged = Recut::merge(left, right);
        prop_assert_eq!(merged.is_some(), left.last.checked_add(1) == Some(right.first));
        if let Some(recut) = merged {
            prop_assert_eq!(recut.check(), Ok(()));
        }
    }

    #[test]
    fn a_re_cut_that_passes_gives_every_key_one_owner_and_takes_none_from_others(
        parents in vec(any_range(), 0..4), children in vec(any_range(), 0..4)
    ) {
        let owners = |ranges: &[KeyRange]| -> Vec<usize> {
            (0..PARTS).map(|at| ranges.iter().filter(|range| range.contains(cell(at))).count()).collect()
        };
        let (before, after) = (owners(&parents), owners(&children));
        if (Recut { parents, children }).check().is_ok() {
            prop_assert!(before.iter().all(|count| *count <= 1));
            prop_assert_eq!(before, after);
        }
    }
}

#[test]
fn a_re_cut_that_would_move_keys_is_refused() {
    let refused = |parents: &[KeyRange], children: &[KeyRange]| {
        Recut { parents: parents.to_vec(), children: children.to_vec() }.check().unwrap_err()
    };
    let (low, high, whole) = (parts(0, 7), parts(8, 15), parts(0, 15));
    assert_eq!(refused(&[], &[whole]), RecutError::Empty);
    assert_eq!(refused(&[whole], &[]), RecutError::Empty);
    assert_eq!(refused(&[high, low], &[whole]), RecutError::NotNeighbours(high, low));
    assert_eq!(refused(&[whole], &[low, low]), RecutError::NotNeighbours(low, low));
    assert_eq!(refused(&[whole], &[low]), RecutError::OtherKeys { parents: whole, children: low });
    assert_eq!(refused(&[low, high], &[low, high]), RecutError::Untouched(low));
    let backwards = KeyRange { first: 5, last: 4 };
    assert_eq!(refused(&[whole], &[backwards]), RecutError::Backwards(backwards));
}
