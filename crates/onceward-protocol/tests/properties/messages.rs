//! Ids order as bytes within a root, and frontiers cover what they say.

use onceward_protocol::{Frontier, LanePoint, MessageId, Position};
use proptest::prelude::*;

use crate::given;

proptest! {
    #[test]
    fn within_one_root_ids_order_as_bytes(root in given::partition(), a in given::message_id(), b in given::message_id()) {
        let (a, b) = (MessageId { root: root.clone(), ..a }, MessageId { root, ..b });
        prop_assert_eq!(a.encode().cmp(&b.encode()), a.cmp(&b));
    }

    #[test]
    fn ids_that_differ_differ_as_bytes(a in given::message_id(), b in given::message_id()) {
        prop_assert_eq!(a == b, a.encode() == b.encode());
    }

    #[test]
    fn a_parent_sorts_before_its_children_and_they_before_the_next_message(
        parent in given::message_id(),
        child in any::<u32>(),
        later in given::position(),
    ) {
        let mut born = parent.clone();
        born.children.push(child);
        prop_assert!(parent < born);
        prop_assert!(parent.encode() < born.encode());
        if parent.position < later {
            let next = MessageId { position: later, children: Vec::new(), ..parent };
            prop_assert!(born.encode() < next.encode());
        }
    }

    #[test]
    fn a_frontier_covers_exactly_what_is_not_after_it(at in given::lane_point(), point in given::lane_point()) {
        prop_assert_eq!(Frontier::at(at).covers(point), point <= at);
        prop_assert!(!Frontier::START.covers(point));
        prop_assert!(Frontier::END.covers(point));
    }

    #[test]
    fn through_a_position_covers_all_it_has_and_nothing_of_the_next(position in given::position(), child in any::<u32>(), other in given::position()) {
        let frontier = Frontier::through(position);
        prop_assert!(frontier.covers(LanePoint::new(position, child)));
        prop_assert!(frontier.covers_position(position));
        prop_assert_eq!(frontier.covers(LanePoint::new(other, child)), other <= position);
    }

    #[test]
    fn a_later_frontier_covers_all_that_an_earlier_one_does(a in given::frontier(), b in given::frontier(), point in given::lane_point()) {
        let (earlier, later) = (a.min(b), a.max(b));
        prop_assert!(!earlier.covers(point) || later.covers(point));
        prop_assert!(Frontier::START <= earlier && later <= Frontier::END);
        prop_assert_eq!(later.is_end(), later == Frontier::END);
    }

    #[test]
    fn a_position_is_shown_with_its_minor_part_only_where_it_has_one(major in any::<u64>(), minor in 1u32..) {
        prop_assert_eq!(Position::at(major).to_string(), major.to_string());
        prop_assert_eq!(Position::new(major, minor).to_string(), format!("{major}.{minor}"));
    }
}
