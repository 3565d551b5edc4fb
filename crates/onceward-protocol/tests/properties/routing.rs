//! A key has one owner, whatever the ranges.

use onceward_protocol::KeyRange;
use onceward_protocol::routing::Routing;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::given;

/// Ranges that begin at `cuts`, and at zero.
fn tiles(mut cuts: Vec<u64>) -> Vec<KeyRange> {
    cuts.push(0);
    cuts.sort_unstable();
    cuts.dedup();
    let ends = cuts.iter().skip(1).map(|next| next - 1).chain([u64::MAX]);
    cuts.iter().zip(ends).map(|(first, last)| KeyRange { first: *first, last }).collect()
}
/// Many cuts within one 1,024th of the key space, and elsewhere.
fn cuts() -> impl Strategy<Value = Vec<u64>> {
    let cut = prop_oneof![any::<u64>(), given::number(), (0..1u64 << 54).prop_map(|low| (7 << 54) | low)];
    vec(cut, 0..100)
}

proptest! {
    #[test]
    fn a_hash_goes_to_the_range_that_owns_it(cuts in cuts(), hash in any::<u64>()) {
        let ranges = tiles(cuts);
        let routing = Routing::new(&ranges).unwrap();
        prop_assert_eq!(routing.len(), ranges.len());
        prop_assert!(ranges[routing.index_of(hash)].contains(hash));
        for (index, range) in ranges.iter().enumerate() {
            prop_assert_eq!((routing.index_of(range.first), routing.index_of(range.last)), (index, index));
        }
    }

    #[test]
    fn equal_ranges_route_as_they_always_did(count in 1..3000u32, hashes in vec(any::<u64>(), 100)) {
        let routing = Routing::new(&KeyRange::split(count)).unwrap();
        for hash in hashes {
            prop_assert_eq!(routing.index_of(hash), KeyRange::index_of(hash, count) as usize);
        }
    }

    #[test]
    fn ranges_that_do_not_tile_are_refused(cuts in cuts(), spoilt in any::<prop::sample::Index>(), how in 0..4) {
        let mut ranges = tiles(cuts);
        let at = spoilt.index(ranges.len());
        match how {
            0 => { ranges.remove(at); }
            1 => ranges.insert(at, ranges[at]),
            2 => ranges[at].first = ranges[at].first.wrapping_add(1),
            _ => ranges[at].last = ranges[at].last.wrapping_sub(1),
        }
        prop_assert_eq!(Routing::new(&ranges), None);
    }
}
