//! CHAIN, GEN-PER-JOB and OWN-COMMIT as the store asks about them.

use onceward_protocol::chain::own_commit;
use onceward_protocol::{Branch, Fenced, Generation, Head, Mutants, PartitionHead};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use crate::given;

fn job(number: u64) -> Generation {
    Generation { number, nonce: 1000 + number, branch: Branch(0) }
}
fn few() -> impl Strategy<Value = Generation> {
    (1..4u64).prop_map(job)
}
fn few_heads() -> impl Strategy<Value = Head> {
    (few(), 1..4u64).prop_map(|(generation, epoch)| Head { generation, epoch })
}

proptest! {
    #[test]
    fn a_commit_is_permitted_to_the_owner_on_top_of_the_head_and_to_nobody_else(
        granted in of(few()), head in of(few_heads()), asking in few(), epoch in 0..5u64, predecessor in of(few_heads()),
    ) {
        let partition = PartitionHead { granted, last_number: 3, head };
        let permit = partition.permit(asking, epoch, predecessor, Mutants::NONE);
        let owner = granted == Some(asking);
        let chained = head == predecessor && head.is_none_or(|head| epoch > head.epoch);
        match permit {
            Ok(permit) => {
                prop_assert!(owner && chained);
                prop_assert_eq!(permit.next(), Head { generation: asking, epoch });
                let after = partition.committed(permit);
                prop_assert_eq!(after, PartitionHead { head: Some(Head { generation: asking, epoch }), ..partition });
            }
            Err(Fenced::NotOwner { granted: owner_now, asked }) => {
                prop_assert!(!owner);
                prop_assert_eq!((owner_now, asked), (granted, asking));
            }
            Err(Fenced::Chain { stored, named }) => {
                prop_assert!(owner && !chained);
                prop_assert_eq!((stored, named), (head, predecessor));
            }
        }
    }

    #[test]
    fn a_grant_revokes_every_other_job(partition in of(given::head()), old in given::generation(), new in given::generation(), epoch in any::<u64>()) {
        let partition = PartitionHead { head: partition, ..PartitionHead::default() }.grant(old).grant(new);
        prop_assert_eq!(partition.granted, Some(new));
        let refused = partition.permit(old, epoch, partition.head, Mutants::NONE);
        let same_number = Generation { number: new.number, ..old };
        if old != new {
            let by_owner = matches!(refused, Err(Fenced::NotOwner { .. }));
            prop_assert!(by_owner);
        }
        if same_number != new {
            prop_assert!(partition.permit(same_number, epoch, partition.head, Mutants::NONE).is_err());
        }
    }

    #[test]
    fn a_grant_keeps_the_head_and_never_lowers_the_number(head in of(given::head()), grants in vec(given::generation(), 1..6)) {
        let mut partition = PartitionHead { head, ..PartitionHead::default() };
        for generation in grants {
            let before = partition.last_number;
            partition = partition.grant(generation);
            prop_assert_eq!(partition.last_number, before.max(generation.number));
            prop_assert_eq!(partition.head, head);
        }
    }

    #[test]
    fn pipelined_epochs_are_permitted_in_their_order_only(order in Just([1u64, 2, 3, 4]).prop_shuffle()) {
        let mut partition = PartitionHead::default().grant(job(1));
        let head = |epoch| (epoch > 0).then_some(Head { generation: job(1), epoch });
        for epoch in order {
            let expected = partition.head == head(epoch - 1);
            match partition.permit(job(1), epoch, head(epoch - 1), Mutants::NONE) {
                Ok(permit) => {
                    prop_assert!(expected);
                    partition = partition.committed(permit);
                }
                Err(_) => prop_assert!(!expected),
            }
        }
    }

    #[test]
    fn an_epoch_is_permitted_once(head in of(few_heads()), epoch in 4..9u64) {
        let partition = PartitionHead { head, ..PartitionHead::default() }.grant(job(1));
        let permit = partition.permit(job(1), epoch, head, Mutants::NONE);
        prop_assert!(permit.is_ok());
        if let Ok(permit) = permit {
            let after = partition.committed(permit);
            prop_assert!(after.permit(job(1), epoch, head, Mutants::NONE).is_err());
            prop_assert!(after.permit(job(1), epoch, after.head, Mutants::NONE).is_err());
        }
    }

    #[test]
    fn an_unknown_commit_is_mine_only_if_my_generation_is_at_or_past_it(stored in of(few_heads()), mine in few(), epoch in 1..4u64) {
        let expected = match stored {
            Some(head) => head.generation == mine && head.epoch >= epoch,
            None => false,
        };
        prop_assert_eq!(own_commit(stored, mine, epoch), expected);
    }

    #[test]
    fn a_generation_with_another_nonce_or_branch_is_another_job(stored in given::head()) {
        let Head { generation, epoch } = stored;
        prop_assert!(own_commit(Some(stored), generation, epoch));
        let other = Generation { nonce: generation.nonce.wrapping_add(1), ..generation };
        prop_assert!(!own_commit(Some(stored), other, epoch));
        let other = Generation { branch: Branch(generation.branch.0.wrapping_add(1)), ..generation };
        prop_assert!(!own_commit(Some(stored), other, epoch));
    }
}

#[test]
fn nobody_commits_to_a_partition_that_is_granted_to_nobody() {
    assert!(PartitionHead::default().permit(job(1), 1, None, Mutants::NONE).is_err());
}
