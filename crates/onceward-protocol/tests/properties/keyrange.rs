//! Every hash has one owner, and it is the same for ever.

use onceward_protocol::{KeyRange, routing_hash};
use proptest::prelude::*;

use crate::given;

/// Persisted for ever: a changed value here means that keys lose their state.
#[test]
fn the_routing_hash_never_changes() {
    let ramp = |len: usize| (0..len).map(|at| (at % 251) as u8).collect::<Vec<u8>>();
    let vectors: [(&[u8], u64); 9] = [
        (b"", 0x2d06_8005_38d3_94c2),
        (b"a", 0xe6c6_32b6_1e96_4e1f),
        (b"UA", 0x97a2_8631_d178_5ee8),
        (b"abc", 0x78af_5f94_892f_3950),
        (b"carrier-0001", 0x4940_7633_802f_439f),
        (&ramp(17), 0x9ef3_41a9_9de3_7328),
        (&ramp(129), 0xec76_42b4_31ba_3e5a),
        (&ramp(241), 0x02e8_cd95_421c_6d02),
        (&ramp(2000), 0x8d38_fc31_dc9d_9fab),
    ];
    for (key, hash) in vectors {
        assert_eq!(routing_hash(key), hash, "of {key:?}");
    }
}

proptest! {
    #[test]
    fn ranges_tile_the_hash_space(count in 1u32..2000) {
        let ranges = KeyRange::split(count);
        prop_assert_eq!(ranges.len(), count as usize);
        prop_assert_eq!(ranges[0].first, 0);
        prop_assert_eq!(ranges[ranges.len() - 1].last, u64::MAX);
        for pair in ranges.windows(2) {
            prop_assert!(pair[0].first <= pair[0].last);
            prop_assert_eq!(pair[0].last.checked_add(1), Some(pair[1].first));
        }
    }

    #[test]
    fn ranges_differ_in_size_by_one_at_most(count in 2u32..2000) {
        let sizes = KeyRange::split(count).into_iter().map(|range| range.last - range.first);
        let (least, most) = sizes.fold((u64::MAX, 0), |(least, most), size| (least.min(size), most.max(size)));
        prop_assert!(most - least <= 1);
    }

    #[test]
    fn the_index_of_a_hash_is_the_range_that_owns_it(count in 1u32..2000, hash in any::<u64>()) {
        let ranges = KeyRange::split(count);
        let owners: Vec<usize> = (0..ranges.len()).filter(|at| ranges[*at].contains(hash)).collect();
        prop_assert_eq!(owners, vec![KeyRange::index_of(hash, count) as usize]);
    }

    #[test]
    fn the_borders_of_a_range_belong_to_it(count in 1u32..2000) {
        for (index, range) in KeyRange::split(count).into_iter().enumerate() {
            prop_assert_eq!(KeyRange::index_of(range.first, count) as usize, index);
            prop_assert_eq!(KeyRange::index_of(range.last, count) as usize, index);
        }
    }

    #[test]
    fn no_hash_lies_outside_however_many_ranges_there_are(count in 1u32.., hash in any::<u64>()) {
        prop_assert!(KeyRange::index_of(hash, count) < count);
        prop_assert_eq!(KeyRange::index_of(u64::MAX, count), count - 1);
    }
}

#[test]
fn there_is_always_at_least_one_range() {
    assert_eq!(KeyRange::split(0), [KeyRange { first: 0, last: u64::MAX }]);
}

proptest! {
    #[test]
    fn what_two_ranges_share_belongs_to_both_and_nothing_else_does(
        a in given::range(), b in given::range(), hash in given::number()
    ) {
        let both = a.contains(hash) && b.contains(hash);
        prop_assert_eq!(a.intersect(b).is_some_and(|range| range.contains(hash)), both);
        prop_assert_eq!(a.intersect(b), b.intersect(a));
        prop_assert_eq!(a.overlaps(b), a.intersect(b).is_some());
    }

    #[test]
    fn a_range_is_as_wide_as_what_it_is_cut_into(range in given::range(), at in any::<u64>()) {
        if range.first == range.last {
            prop_assert_eq!(range.width(), 1);
            return Ok(());
        }
        let at = range.last - at % (range.last - range.first);
        let halves = [KeyRange { last: at - 1, ..range }, KeyRange { first: at, ..range }];
        prop_assert!(halves[0].is_followed_by(halves[1]) && !halves[1].is_followed_by(halves[0]));
        prop_assert_eq!(halves[0].width() + halves[1].width(), range.width());
        prop_assert_eq!(KeyRange::ALL.width(), 1 << 64);
    }

    #[test]
    fn ranges_come_back_and_sort_as_they_are_stored(a in given::range(), b in given::range()) {
        prop_assert_eq!(KeyRange::decode(a.encode()), Some(a));
        prop_assert_eq!(a.encode().cmp(&b.encode()), a.cmp(&b));
        if a.first < a.last {
            prop_assert_eq!(KeyRange::decode(KeyRange { first: a.last, last: a.first }.encode()), None);
        }
    }
}
