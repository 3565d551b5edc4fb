//! The partitions of a store, numbered in the order in which they were first granted.

use std::collections::BTreeMap;
use std::path::PathBuf;

use onceward_protocol::{PartitionHead, PartitionId};

use super::layout::damaged;
use super::table::Rows;
use crate::batch::TableId;
use crate::error::StoreError;

/// One partition.
#[derive(Debug)]
pub(crate) struct Partition {
    pub id: PartitionId,
    /// What is committed.
    pub head: PartitionHead,
    /// The head if everything submitted becomes durable: verdicts are made against this one.
    pub submitted: PartitionHead,
    /// Whether anything of it is durable.
    pub durable: bool,
    /// What is committed.
    pub rows: Rows,
}

/// All partitions; the log names them by their index.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    list: Vec<Partition>,
    index: BTreeMap<PartitionId, usize>,
}

impl Partitions {
    /// The index of a partition that is known.
    pub(crate) fn find(&self, id: &PartitionId) -> Option<usize> {
        self.index.get(id).copied()
    }
    /// Adds a partition that is not known yet.
    pub(crate) fn add(&mut self, id: PartitionId, head: PartitionHead, durable: bool, rows: Rows) -> usize {
        let index = self.list.len();
        self.index.insert(id.clone(), index);
        self.list.push(Partition { id, head, submitted: head, durable, rows });
        index
    }
    pub(crate) fn get(&self, index: usize) -> Option<&Partition> {
        self.list.get(index)
    }
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut Partition> {
        self.list.get_mut(index)
    }
    /// In order of index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Partition> {
        self.list.iter()
    }
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }
    /// In order of id; only what is durable.
    pub(crate) fn ids(&self) -> Vec<PartitionId> {
        let durable = |index: &usize| self.list.get(*index).is_some_and(|partition| partition.durable);
        self.index.iter().filter(|(_, index)| durable(index)).map(|(id, _)| id.clone()).collect()
    }
}

/// What is committed of a partition at one moment. It holds on to that moment and can be read in any
/// thread while the store goes on.
#[derive(Clone, Debug)]
pub struct PartitionView {
    pub(crate) head: PartitionHead,
    pub(crate) rows: Rows,
    pub(crate) dir: PathBuf,
}

impl PartitionView {
    /// Owner and last commit.
    pub fn head(&self) -> PartitionHead {
        self.head
    }
    /// Visits the rows of one table in key order.
    pub fn scan(&self, table: TableId, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
        self.rows.scan(table, visit).map_err(|malformed| damaged(&self.dir, 0, malformed.to_string()))
    }
}
