//! What a row is called in a target that compares or drops by row: the version of a versioned upsert, the key of an
//! idempotent call. Both are pure functions of the sink's identity and the row's position, so every attempt of every
//! job gives the same.

use onceward_protocol::identity::PartitionKind;
use onceward_protocol::{Position, SinkIdentity};

/// The version that a versioned upsert keeps beside a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowVersion {
    /// Within what versions have an order. A source partition is an origin of its own, since no order is defined
    /// between two; all key ranges of one computation are one origin, also across re-cutting. Contains the creation
    /// and the sink's name (SINK-NAME).
    pub origin: String,
    /// 32 lower-case hexadecimal digits: the layout version that made the partition (0 for a source partition), then
    /// the row's major and minor position. Compared as text or as bytes, the larger is the newer: a key's later range
    /// is newer than its retired ancestors (ANCESTOR-GATE), and within a partition the later row is.
    pub number: String,
}

impl RowVersion {
    /// The version of the row at `position` in the outbox of `identity`.
    pub fn of(identity: &SinkIdentity, position: Position) -> Self {
        let layout = match identity.partition.kind() {
            PartitionKind::Range { layout, .. } => *layout,
            PartitionKind::Source { .. } | PartitionKind::Pipeline => 0,
        };
        RowVersion {
            origin: origin(identity),
            number: format!("{layout:08x}{:016x}{:08x}", position.major, position.minor),
        }
    }
}

/// The name by which a target knows the outbox of `identity` (SINK-NAME): the sink's name, then the partition, with the
/// creation, in hexadecimal. Letters, digits, `-`, `_` and `:`.
pub fn target_name(identity: &SinkIdentity) -> String {
    let partition: String = identity.partition.encode().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}:{partition}", identity.sink)
}

fn origin(identity: &SinkIdentity) -> String {
    match identity.partition.kind() {
        PartitionKind::Range { computation, .. } => {
            format!("{}:{}:{computation}", identity.partition.creation(), identity.sink)
        }
        PartitionKind::Source { .. } | PartitionKind::Pipeline => target_name(identity),
    }
}

/// The key under which the row at `position` in the outbox of `identity` is sent: its [`target_name`] and the position.
/// Letters, digits, `-`, `_`, `.` and `:`.
pub fn idempotency_key(identity: &SinkIdentity, position: Position) -> String {
    format!("{}:{}.{}", target_name(identity), position.major, position.minor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward_protocol::{Creation, PartitionId};

    fn identity(kind: PartitionKind) -> SinkIdentity {
        let partition = PartitionId::new(Creation(7), kind);
        SinkIdentity { pipeline: "p".into(), sink: "out".into(), partition, partition_slug: "slug".into() }
    }
    fn range(layout: u32, index: u32) -> SinkIdentity {
        identity(PartitionKind::Range { computation: "sum".into(), layout, index })
    }

    #[test]
    fn version_numbers_order_as_text_by_layout_then_position() {
        let far = Position::new(u64::MAX - 1, u32::MAX);
        let rows = [(1, Position::at(9)), (1, Position::at(10)), (1, Position::new(10, 2)), (1, far)];
        let rows = rows.into_iter().chain([(2, Position::at(1)), (16, Position::at(1))]);
        let numbers: Vec<String> =
            rows.map(|(layout, at)| RowVersion::of(&range(layout, 0), at).number).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        assert!(numbers.iter().all(|number| number.len() == 32));
    }

    #[test]
    fn ranges_of_one_computation_are_one_origin_and_source_partitions_are_not() {
        let at = Position::at(1);
        let origin = |identity: &SinkIdentity| RowVersion::of(identity, at).origin;
        assert_eq!(origin(&range(1, 0)), origin(&range(2, 5)));
        let source = |name: &str, creation| {
            let name = name.to_owned();
            identity(PartitionKind::Source { source: "in".into(), creation: Creation(creation), name })
        };
        assert_ne!(origin(&source("0", 1)), origin(&source("1", 1)));
        assert_ne!(origin(&source("0", 1)), origin(&source("0", 2)));
    }
}
