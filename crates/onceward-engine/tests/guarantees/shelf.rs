//! The store of one partition: rows in a map, behind the real fence.

use std::collections::BTreeMap;

use onceward_engine::Stored;
use onceward_protocol::{CommitOutcome, Mutants, PartitionHead};
use onceward_store::{EpochCommit, TableId, WriteBatch};

use crate::target::text;

#[derive(Clone, Debug, Default)]
pub struct Shelf {
    pub head: PartitionHead,
    pub rows: BTreeMap<(TableId, Vec<u8>), Vec<u8>>,
    /// Outbox rows are not kept: for tests that owe more than memory should hold twice.
    pub forget_outbox: bool,
}

impl Shelf {
    pub fn commit(&mut self, commit: &EpochCommit) -> CommitOutcome {
        let permit = self.head.permit(commit.generation, commit.epoch, commit.predecessor, Mutants::NONE);
        let permit = match permit {
            Ok(permit) => permit,
            Err(fenced) => return CommitOutcome::Fenced(fenced),
        };
        for entry in WriteBatch::iter(commit.writes.as_bytes()) {
            let entry = entry.unwrap();
            let key = (entry.table, entry.key.to_vec());
            match entry.value {
                Some(_) if self.forget_outbox && entry.table == TableId::OUTBOX => {}
                Some(value) => {
                    self.rows.insert(key, value.to_vec());
                }
                None => {
                    self.rows.remove(&key);
                }
            }
        }
        self.head = self.head.committed(permit);
        CommitOutcome::Committed
    }
    pub fn stored(&self) -> Stored {
        let mut stored = Stored { head: self.head, ..Stored::default() };
        for ((table, key), value) in &self.rows {
            stored.take(*table, key, value).unwrap();
        }
        stored
    }
    /// The rows owed to `sink`.
    pub fn outbox(&self, sink: &str) -> Vec<String> {
        let chunks = self.stored().outbox.remove(sink).unwrap_or_default();
        chunks
            .iter()
            .flat_map(|(_, chunk)| chunk.iter().map(|(_, row)| text(row)).collect::<Vec<_>>())
            .collect()
    }
}
