//! A manifest that changed: what the store must hold before the new one may take over, and what one transaction writes
//! then (SPEC-CHANGE).
//!
//! Everything that was read must be finished, at one common place for every sink and lane: then no row is half on its way,
//! and what comes next meets the new steps, computations and sinks. A part that is reset is a new one under an old name.

use std::collections::{BTreeMap, BTreeSet};

use onceward_protocol::resume::ResumePoint;
use onceward_protocol::{Frontier, Generation, PartitionId, Watermark};
use onceward_store::{EpochCommit, Operation, TableId, WriteBatch};

use crate::error::EngineError;
use crate::layout::{Layout, LayoutPartition, Role};
use crate::plan::Plan;
use crate::recut::PartitionRows;
use crate::stored::{Stored, encode_count, encode_lane, lane_key, sink_of_row, subs_key, version_key};

/// Everything stored of a pipeline, by partition.
pub struct Holdings {
    stored: BTreeMap<PartitionId, (PartitionRows, Stored)>,
}

impl Holdings {
    /// Takes the rows apart.
    pub fn new(rows: BTreeMap<PartitionId, PartitionRows>) -> Result<Self, EngineError> {
        let parse = |(id, rows): (PartitionId, PartitionRows)| {
            let stored = rows.parse(&id)?;
            Ok((id, (rows, stored)))
        };
        Ok(Holdings { stored: rows.into_iter().map(parse).collect::<Result<_, EngineError>>()? })
    }
    fn of(&self, id: &PartitionId) -> Option<&Stored> {
        self.stored.get(id).map(|(_, stored)| stored)
    }
    fn finished(&self, id: &PartitionId) -> Frontier {
        self.of(id).and_then(|stored| stored.resume.as_ref()).map_or(Frontier::START, ResumePoint::frontier)
    }

    /// What is still under way, in words; `None` if everything that was read is finished at one common place. Parts named
    /// in `reset` do not count.
    pub fn under_way(&self, layout: &Layout, reset: &BTreeSet<String>) -> Option<String> {
        for partition in layout.partitions() {
            let label = partition.id.label();
            let Some(stored) = self.of(&partition.id) else { continue };
            let owed = stored.outbox.iter().filter(|(_, chunks)| !chunks.is_empty()).map(|(sink, _)| sink);
            let referred = stored.references.iter().filter(|(_, counts)| counts.counted != counts.taken);
            let mut sinks = owed.chain(referred.map(|(sink, _)| sink));
            let sink = sinks.find(|sink| !reset.contains(*sink));
            if let Some(sink) = sink {
                return Some(format!("{label} owes rows to sink {sink}"));
            }
            if stored.exchange.values().any(|chunks| !chunks.is_empty()) {
                return Some(format!("{label} has messages that another computation has not taken"));
            }
            if let Role::Keyed { keyed, range } = &partition.role {
                if reset.contains(&layout.keyed[*keyed].name) {
                    continue;
                }
                if range.retired {
                    return Some(format!("{label} was re-cut and still delivers"));
                }
                if let Some(source) = self.ahead(layout, stored, reset) {
                    return Some(format!(
                        "{label} has taken rows of {source} that are not finished everywhere"
                    ));
                }
            }
        }
        None
    }

    /// A source partition that a consumer stands at another place of than the partition itself.
    fn ahead(&self, layout: &Layout, stored: &Stored, reset: &BTreeSet<String>) -> Option<String> {
        let partitions = layout.partitions();
        let sources = partitions.iter().filter(|partition| match partition.role {
            Role::Source { source, .. } => !reset.contains(&layout.sources[source].name),
            Role::Keyed { .. } => false,
        });
        for source in sources {
            let mut suffix = Vec::new();
            onceward_protocol::codec::put_bytes(&mut suffix, &source.id.encode());
            let at = self.finished(&source.id);
            let differs = |(key, lane): (&Vec<u8>, &onceward_protocol::recut::LaneState)| {
                key.ends_with(&suffix) && (lane.taken != at || !lane.subs.is_empty())
            };
            if stored.lanes.iter().any(differs) {
                return Some(source.id.label());
            }
        }
        None
    }
}

/// How a changed manifest takes over.
pub struct Respec<'a> {
    /// The new one, compiled.
    pub plan: &'a Plan,
    /// What there was.
    pub before: &'a Layout,
    /// What there will be.
    pub after: &'a Layout,
    /// What is stored of all that there was.
    pub holdings: &'a Holdings,
    /// Sinks that are gone, are another target now, or are reset: nothing is known of them.
    pub fresh_sinks: &'a BTreeSet<String>,
}

impl Respec<'_> {
    /// The steps of the transaction, without the record itself. `generation` mints one per partition.
    pub fn operations(&self, mut generation: impl FnMut(u64) -> Generation) -> Vec<Operation> {
        let stays: BTreeSet<PartitionId> =
            self.after.partitions().into_iter().map(|partition| partition.id).collect();
        let mut operations = Vec::new();
        for partition in self.before.partitions().iter().filter(|known| !stays.contains(&known.id)) {
            self.remove(partition, &mut generation, &mut operations);
        }
        for partition in self.after.partitions() {
            let mut writes = WriteBatch::default();
            self.forget_sinks(&partition, &mut writes);
            if let Role::Keyed { .. } = partition.role {
                self.lanes(&partition, &mut writes);
            }
            let known = self.holdings.stored.get(&partition.id);
            if !writes.is_empty() {
                let head = known.map(|(rows, _)| rows.head).unwrap_or_default();
                self.commit(&partition.id, head, writes, &mut generation, &mut operations);
            }
            operations.push(Operation::Revoke(partition.id));
        }
        operations
    }

    fn commit(
        &self,
        id: &PartitionId,
        head: onceward_protocol::PartitionHead,
        writes: WriteBatch,
        generation: &mut impl FnMut(u64) -> Generation,
        operations: &mut Vec<Operation>,
    ) {
        let generation = generation(head.last_number + 1);
        operations.push(Operation::Grant(id.clone(), generation));
        operations.push(Operation::Commit(EpochCommit::after(id.clone(), generation, head.head, writes)));
    }

    fn remove(
        &self,
        partition: &LayoutPartition,
        generation: &mut impl FnMut(u64) -> Generation,
        operations: &mut Vec<Operation>,
    ) {
        let Some((rows, _)) = self.holdings.stored.get(&partition.id) else { return };
        let (id, generation) = (&partition.id, generation(rows.head.last_number + 1));
        operations.push(Operation::Grant(id.clone(), generation));
        operations.push(Operation::Commit(rows.removal(id, generation)));
        operations.push(Operation::Revoke(id.clone()));
    }

    /// A sink that is gone, or is another one now, must not find what an old one of its name has left.
    fn forget_sinks(&self, partition: &LayoutPartition, writes: &mut WriteBatch) {
        let Some((rows, _)) = self.holdings.stored.get(&partition.id) else { return };
        let sinks = self.plan.sinks_of(&partition.role);
        let feeds =
            |name: &str| sinks.iter().any(|sink| self.plan.pipeline.sinks[*sink as usize].name == name);
        for (table, key, _) in &rows.rows {
            if let Some(sink) = sink_of_row(*table, key)
                && (self.fresh_sinks.contains(&sink) || !feeds(&sink))
            {
                writes.delete(*table, key);
            }
        }
    }

    /// DEFAULT-DENY: the lanes of the new layout, and no others. One that is new begins where its source stands.
    fn lanes(&self, partition: &LayoutPartition, writes: &mut WriteBatch) {
        let stored = self.holdings.of(&partition.id);
        let producers = self.plan.wiring(self.after, partition).producers;
        let keys: BTreeMap<Vec<u8>, &PartitionId> =
            producers.iter().map(|lane| (lane_key(&lane.stream, &lane.producer), &lane.producer)).collect();
        for key in stored.iter().flat_map(|stored| stored.lanes.keys()) {
            if !keys.contains_key(key) {
                writes.delete(TableId::META, key);
                writes.delete(TableId::META, &subs_key(key));
            }
        }
        for (key, producer) in keys {
            let known = stored.is_some_and(|stored| stored.lanes.contains_key(&key));
            let at = self.holdings.finished(producer);
            if !known && at > Frontier::START {
                writes.put(TableId::META, &key, &encode_lane(at, Watermark::NONE));
            }
        }
        let version = encode_count(u64::from(self.after.version));
        writes.put(TableId::META, version_key(), &version);
    }
}
