//! Whether operations are accepted, and what they make of the heads of their partitions.

use std::collections::BTreeMap;

use onceward_protocol::{Fenced, Mutant, Mutants, PartitionHead, PartitionId};

use crate::store::{EpochCommit, Operation};

/// The partition's head after `operation`, or why the operation is refused.
pub(crate) fn judge(
    head: PartitionHead,
    operation: &Operation,
    mutants: Mutants,
) -> Result<PartitionHead, Fenced> {
    match operation {
        Operation::Require(_, generation) if head.granted != Some(*generation) => {
            Err(Fenced::NotOwner { granted: head.granted, asked: *generation })
        }
        Operation::Require(..) => Ok(head),
        // Two callers that minted from the same head do not both get the partition (GEN-PER-JOB).
        Operation::Grant(_, generation)
            if generation.number <= head.last_number && !mutants.has(Mutant::ChainNotCompared) =>
        {
            Err(Fenced::NotOwner { granted: head.granted, asked: *generation })
        }
        Operation::Grant(_, generation) => Ok(head.grant(*generation)),
        Operation::Revoke(_) => Ok(PartitionHead { granted: None, ..head }),
        Operation::Commit(EpochCommit { generation, epoch, predecessor, .. }) => {
            head.permit(*generation, *epoch, *predecessor, mutants).map(|permit| head.committed(permit))
        }
    }
}

/// The head of each operation's partition after it, each judged on top of the ones before it; or the first
/// refusal, which is everyone's.
pub(crate) fn judge_all(
    operations: &[Operation],
    submitted: impl Fn(&PartitionId) -> PartitionHead,
    mutants: Mutants,
) -> Result<Vec<PartitionHead>, Fenced> {
    let mut changed: BTreeMap<&PartitionId, PartitionHead> = BTreeMap::new();
    let judged = operations.iter().map(|operation| {
        let partition = operation.partition();
        let head = changed.entry(partition).or_insert_with(|| submitted(partition));
        *head = judge(*head, operation, mutants)?;
        Ok(*head)
    });
    judged.collect()
}
