//! What one step of re-cutting writes: the parents' rows move to the children that own their keys, in one
//! transaction (RECUT-ATOMIC, SUBRANGE-FRONTIER).
//!
//! State, timers, ids and lanes move. What is owed stays: the outbox and the materialised lanes of a parent are emptied
//! by a drain-only job under the parent's own identity (ANCESTOR-GATE).

use std::collections::{BTreeMap, BTreeSet};

use onceward_protocol::codec::{Reader, order_i64};
use onceward_protocol::recut::LaneState;
use onceward_protocol::{Generation, KeyRange, Mutants, PartitionHead, PartitionId, routing_hash};
use onceward_spec::OperatorSpec;
use onceward_store::{EpochCommit, TableId, WriteBatch};

use crate::error::EngineError;
use crate::layout::LayoutRange;
use crate::stored::{
    Counters, IDS, Stored, clock_key, counters_key, encode_count, encode_lane, id_counters_key, subs_key,
    version_key,
};

/// Everything stored of one partition, as it is stored.
#[derive(Clone, Debug, Default)]
pub struct PartitionRows {
    /// Owner and last commit.
    pub head: PartitionHead,
    /// Every row, table by table in key order.
    pub rows: Vec<(TableId, Vec<u8>, Vec<u8>)>,
}

impl PartitionRows {
    /// Reads the tables that an engine writes. `scan` visits the rows of one.
    pub fn read<E>(
        head: PartitionHead,
        mut scan: impl FnMut(TableId, &mut dyn FnMut(&[u8], &[u8])) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut rows = Vec::new();
        for table in crate::stored::TABLES {
            scan(table, &mut |key, value| rows.push((table, key.to_vec(), value.to_vec())))?;
        }
        Ok(PartitionRows { head, rows })
    }
    /// Takes the rows apart.
    pub fn parse(&self, partition: &PartitionId) -> Result<Stored, EngineError> {
        let mut stored = Stored { head: self.head, ..Stored::default() };
        for (table, key, value) in &self.rows {
            stored.take(*table, key, value).ok_or_else(|| malformed(partition, *table, key))?;
        }
        Ok(stored)
    }
    /// A commit that removes every row, on top of the last commit.
    pub fn removal(&self, partition: &PartitionId, generation: Generation) -> EpochCommit {
        let mut writes = WriteBatch::default();
        self.rows.iter().for_each(|(table, key, _)| writes.delete(*table, key));
        EpochCommit::after(partition.clone(), generation, self.head.head, writes)
    }
}

fn malformed(partition: &PartitionId, table: TableId, key: &[u8]) -> EngineError {
    EngineError::Stored { partition: partition.label(), what: format!("{table:?} row {key:02x?}") }
}

/// A range that is retired, with everything that is stored of it.
#[derive(Clone, Copy, Debug)]
pub struct Parent<'a> {
    /// Its identity.
    pub partition: &'a PartitionId,
    /// What it owned.
    pub range: LayoutRange,
    /// The generation under which its last commit of this kind is made.
    pub generation: Generation,
    /// What is stored.
    pub rows: &'a PartitionRows,
}

/// A range that takes over.
#[derive(Clone, Copy, Debug)]
pub struct Child<'a> {
    /// Its identity.
    pub partition: &'a PartitionId,
    /// What it owns.
    pub range: KeyRange,
    /// The generation of its first commit.
    pub generation: Generation,
}

/// The commits of one step: each parent gives up what moves, each child begins with what is its own. `lanes` are the
/// stored names of the lanes of the newest layout: what a parent has of any other is of a producer that is gone.
pub fn commits(
    operator: &OperatorSpec,
    parents: &[Parent<'_>],
    children: &[Child<'_>],
    lanes: &BTreeSet<Vec<u8>>,
    mutants: Mutants,
) -> Result<Vec<EpochCommit>, EngineError> {
    let stored: Vec<Stored> =
        parents.iter().map(|parent| parent.rows.parse(parent.partition)).collect::<Result<_, _>>()?;
    let mut writes: Vec<WriteBatch> = children.iter().map(|_| WriteBatch::default()).collect();
    let mut removals = Vec::with_capacity(parents.len());
    for parent in parents {
        let mut removal = WriteBatch::default();
        for (table, key, value) in &parent.rows.rows {
            if !moves(*table, key) {
                continue;
            }
            removal.delete(*table, key);
            if *table == TableId::META {
                continue;
            }
            let hash =
                key_hash(operator, *table, key).ok_or_else(|| malformed(parent.partition, *table, key))?;
            let owner = children.iter().position(|child| child.range.contains(hash));
            if let Some(owner) = owner {
                writes[owner].put(*table, key, value);
            }
        }
        let (partition, head) = (parent.partition.clone(), parent.rows.head.head);
        removals.push(EpochCommit::after(partition, parent.generation, head, removal));
    }
    for (child, writes) in children.iter().zip(&mut writes) {
        inherit_lanes(child, parents, &stored, lanes, writes, mutants);
        inherit_clock(&stored, writes);
    }
    if let Some(first) = writes.first_mut() {
        inherit_counters(&stored, first);
    }
    let begin = |(child, writes): (&Child<'_>, WriteBatch)| {
        EpochCommit::after(child.partition.clone(), child.generation, None, writes)
    };
    Ok(removals.into_iter().chain(children.iter().zip(writes).map(begin)).collect())
}

/// Whether a row goes to the children; what does not belongs to the outbox and stays until it is drained.
fn moves(table: TableId, key: &[u8]) -> bool {
    match table {
        TableId::STATE | TableId::TIMERS => true,
        TableId::META => crate::stored::is_input_row(key),
        table => table == IDS,
    }
}

/// The routing hash of the group key in a row's key.
fn key_hash(operator: &OperatorSpec, table: TableId, key: &[u8]) -> Option<u64> {
    let group = match (operator, table) {
        (OperatorSpec::Windows(_), TableId::STATE) => key.get(8..)?,
        (_, TableId::TIMERS) => Reader::new(key.get(1 + order_i64(0).len()..)?).bytes()?,
        _ => Reader::new(key).bytes()?,
    };
    Some(routing_hash(group))
}

/// DEFAULT-DENY: a child takes the largest layout version of its parents, and that version's lanes. Rows alone do not
/// tell which those are, because a lane of which nothing was taken has none: a lane that only a parent of an older version
/// has a row of is one of them if its producer is in the newest layout still.
fn inherit_lanes(
    child: &Child<'_>,
    parents: &[Parent<'_>],
    stored: &[Stored],
    lanes: &BTreeSet<Vec<u8>>,
    writes: &mut WriteBatch,
    mutants: Mutants,
) {
    let overlapping =
        || parents.iter().zip(stored).filter(|(parent, _)| parent.range.range.overlaps(child.range));
    let version = overlapping()
        .map(|(parent, stored)| stored.version.unwrap_or(parent.range.version))
        .max()
        .unwrap_or_default();
    writes.put(TableId::META, version_key(), &encode_count(u64::from(version)));
    let keys: BTreeSet<&Vec<u8>> = overlapping()
        .flat_map(|(_, stored)| stored.lanes.keys())
        .filter(|key| lanes.contains(*key))
        .collect();
    for key in keys {
        let states: Vec<(KeyRange, Option<&LaneState>)> =
            overlapping().map(|(parent, stored)| (parent.range.range, stored.lanes.get(key))).collect();
        let state = LaneState::inherit(child.range, &states, mutants);
        writes.put(TableId::META, key, &encode_lane(state.taken, state.watermark));
        if !state.subs.is_empty() {
            writes.put(TableId::META, &subs_key(key), &state.encode_subs());
        }
    }
}

fn inherit_clock(stored: &[Stored], writes: &mut WriteBatch) {
    if let Some(clock) = stored.iter().filter_map(|stored| stored.clock).max() {
        writes.put(TableId::META, clock_key(), &clock.to_be_bytes());
    }
}

/// Figures are of the computation, not of its keys: the first child goes on counting for all parents.
fn inherit_counters(stored: &[Stored], writes: &mut WriteBatch) {
    let mut sum = Counters::default();
    for counters in stored.iter().map(|stored| &stored.counters) {
        sum.rows_in += counters.rows_in;
        sum.late += counters.late;
        sum.rows_out += counters.rows_out;
        sum.expired += counters.expired;
        sum.repeated += counters.repeated;
    }
    writes.put(TableId::META, counters_key(), &sum.encode());
    if sum.expired + sum.repeated > 0 {
        writes.put(TableId::META, id_counters_key(), &sum.encode_ids());
    }
}

/// Rows that the targets of a drained partition have confirmed, by sink.
pub fn delivered(stored: &Stored) -> BTreeMap<String, u64> {
    let taken = stored.taken.iter().map(|(sink, rows)| {
        let dropped = stored.losses.get(sink).map_or(0, |loss| loss.dropped);
        (sink.clone(), rows.saturating_sub(dropped))
    });
    taken.collect()
}
