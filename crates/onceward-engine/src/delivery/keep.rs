//! How what is owed to a sink is kept (DESIGN 6), and the figures that are stored with it.

use onceward_protocol::Position;
use onceward_protocol::codec::{Reader, put_varint};
use onceward_store::{TableId, WriteBatch};

use super::SinkPlan;
use crate::error::EngineError;
use crate::stored::{Stored, encode_count, loss_key, reference_key, taken_key};

/// Figures of an outbox by reference. Rows are made again after a restart, so a number of rows means nothing
/// without the position up to which it counts. That they are stored also says that the cursor's positions are
/// those of the partition's own rows and not those of epochs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReferenceCounts {
    /// Rows up to `counted`, all of which the target has.
    pub delivered: u64,
    /// The last row that `delivered` counts.
    pub counted: Position,
    /// The last row that an epoch contained.
    pub taken: Position,
}

impl ReferenceCounts {
    /// Bytes as persisted.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(34);
        put_varint(&mut out, self.delivered);
        out.extend_from_slice(&self.counted.encode());
        out.extend_from_slice(&self.taken.encode());
        out
    }
    /// The inverse of [`ReferenceCounts::encode`].
    pub fn decode(input: &mut Reader<'_>) -> Option<Self> {
        Some(ReferenceCounts {
            delivered: input.varint()?,
            counted: Position::decode(input.array()?),
            taken: Position::decode(input.array()?),
        })
    }
}

/// Figures of a sink that may lose rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LossCounts {
    /// Rows that the target has confirmed.
    pub delivered: u64,
    /// Rows that it has not, and that will not be tried (again).
    pub dropped: u64,
}

impl LossCounts {
    /// Bytes as persisted.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.delivered);
        put_varint(&mut out, self.dropped);
        out
    }
    /// The inverse of [`LossCounts::encode`].
    pub fn decode(input: &mut Reader<'_>) -> Option<Self> {
        Some(LossCounts { delivered: input.varint()?, dropped: input.varint()? })
    }
}

/// How what is owed is kept.
pub(super) enum Keep {
    /// Stored with the epoch that took it, until the target has it.
    Value {
        /// Rows that closed epochs ever put into the outbox.
        taken: u64,
        /// Those of them that were dropped while the sink was written at most once.
        dropped: u64,
    },
    /// In memory: after a restart it is read and made again.
    Reference {
        counts: ReferenceCounts,
        /// The last row pushed; at or below it a row is read again.
        pushed: Position,
    },
    /// In memory: after a restart it is lost.
    Memory {
        taken: u64,
        counts: LossCounts,
        /// Whether a crash has lost rows that are stored as neither delivered nor dropped.
        lost: bool,
    },
}

impl Keep {
    /// As the plan says and the stored form allows; with the reason if it does not.
    pub(super) fn of(plan: &SinkPlan, partition: &str, stored: &Stored) -> (Self, Option<EngineError>) {
        let name = &plan.name;
        let counts = stored.references.get(name).copied();
        let taken = stored.taken.get(name).copied();
        let losses = stored.losses.get(name).copied();
        let owed = stored.outbox.get(name).is_some_and(|chunks| !chunks.is_empty());
        let by_value = taken.is_some() || owed || stored.cursors.contains_key(name);
        let refuse = |found: &str| Some(changed(name, partition, found));
        match (plan.at_most_once, counts) {
            // Decided when the partition first owed the sink anything: positions of the two forms have no order.
            (None, Some(counts)) => (Keep::Reference { counts, pushed: counts.counted }, None),
            (None, None) if plan.by_reference && !by_value => {
                (Keep::Reference { counts: ReferenceCounts::default(), pushed: Position::ORIGIN }, None)
            }
            (None, None) => {
                let dropped = losses.map_or(0, |losses| losses.dropped);
                (Keep::Value { taken: taken.unwrap_or(0), dropped }, None)
            }
            (Some(_), counts) => {
                let refusal = match counts {
                    Some(_) => refuse("by reference"),
                    None => refuse("by value, of which rows are still owed").filter(|_| owed),
                };
                (Keep::memory(taken.unwrap_or(0), losses), refusal)
            }
        }
    }
    /// Of what was taken and is neither confirmed nor dropped nobody knows: a crash has lost it.
    fn memory(taken: u64, losses: Option<LossCounts>) -> Self {
        let mut counts = losses.unwrap_or(LossCounts { delivered: taken, dropped: 0 });
        let unconfirmed = taken.saturating_sub(counts.delivered);
        let lost = unconfirmed > counts.dropped;
        counts.dropped = counts.dropped.max(unconfirmed);
        Keep::Memory { taken, counts, lost }
    }
    /// Whether the figures differ from what is stored.
    pub(super) fn is_news(&self) -> bool {
        matches!(self, Keep::Memory { lost: true, .. })
    }

    /// An epoch takes `rows`, the last at `last`; writes the figures.
    pub(super) fn write_epoch(
        &mut self,
        sink: &str,
        rows: u64,
        last: Option<Position>,
        writes: &mut WriteBatch,
    ) {
        match self {
            Keep::Value { taken, .. } => {
                *taken += rows;
                if rows > 0 {
                    writes.put(TableId::META, &taken_key(sink), &encode_count(*taken));
                }
            }
            Keep::Reference { counts, .. } => {
                counts.taken = counts.taken.max(last.unwrap_or(Position::ORIGIN));
                writes.put(TableId::META, &reference_key(sink), &counts.encode());
            }
            Keep::Memory { taken, counts, .. } => {
                *taken += rows;
                writes.put(TableId::META, &taken_key(sink), &encode_count(*taken));
                writes.put(TableId::META, &loss_key(sink), &counts.encode());
            }
        }
    }
    /// The target has `rows` more, the last at `last`.
    pub(super) fn deliver(&mut self, rows: u64, last: Position) {
        match self {
            Keep::Value { .. } => {}
            Keep::Reference { counts, .. } => {
                counts.delivered += rows;
                counts.counted = counts.counted.max(last);
            }
            Keep::Memory { counts, .. } => counts.delivered += rows,
        }
    }
    /// `rows` more will not be in the target, as far as we know.
    pub(super) fn lose(&mut self, rows: u64) {
        if let Keep::Memory { counts, .. } = self {
            counts.dropped += rows;
        }
    }
    /// Rows delivered and dropped, if `waiting` are owed or on their way there and `gathering` of them are in no
    /// epoch yet.
    pub(super) fn figures(&self, waiting: u64, gathering: u64) -> (u64, u64) {
        match self {
            Keep::Value { taken, dropped } => {
                ((taken + gathering).saturating_sub(waiting).saturating_sub(*dropped), *dropped)
            }
            Keep::Reference { counts, .. } => (counts.delivered, 0),
            Keep::Memory { counts, .. } => (counts.delivered, counts.dropped),
        }
    }
}

fn changed(sink: &str, partition: &str, found: &str) -> EngineError {
    EngineError::Plan(format!(
        "sink {sink} of {partition} was written {found}, and the manifest asks for `delivery: at_most_once`, which \
         cannot go on from there: what is owed might be written again. Start over, let the old manifest deliver what \
         it owes first, or give the sink another name"
    ))
}
