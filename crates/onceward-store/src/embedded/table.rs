//! The rows of a partition: a sorted base, and the runs of writes on top of it.
//!
//! Nothing here is updated per entry while an epoch commits: a committed batch becomes a run as it
//! is. Base and runs hold the encoding of [`WriteBatch`](crate::WriteBatch); the base's is sorted by
//! table and key, has each key once, and no deletes.

use std::ops::Range;
use std::sync::Arc;

use crate::batch::{Entries, Entry, MalformedBatch, TableId, WriteBatch};
use crate::embedded::newest::newest;

/// Small batches are gathered in one run up to this size, so that many tiny epochs cost no memory.
const GATHER_RUN_BYTES: usize = 256 << 10;
/// What counts as a small batch.
const GATHER_BATCH_BYTES: usize = 16 << 10;

/// Folded rows: sorted, each key once.
#[derive(Debug, Default)]
pub(crate) struct Base {
    bytes: Vec<u8>,
    tables: Vec<(TableId, Range<usize>)>,
}

impl Base {
    /// Takes bytes that a base once consisted of; an error if they are not sorted or malformed.
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Result<Self, MalformedBatch> {
        let mut tables: Vec<(TableId, Range<usize>)> = Vec::new();
        let mut entries = WriteBatch::iter(&bytes);
        let mut last: Option<Entry<'_>> = None;
        loop {
            let start = bytes.len() - entries.rest().len();
            let Some(entry) = entries.next() else { break };
            let entry = entry?;
            let sorted = last.is_none_or(|last| (last.table, last.key) < (entry.table, entry.key));
            if !sorted || entry.value.is_none() {
                return Err(MalformedBatch);
            }
            let end = bytes.len() - entries.rest().len();
            extend_table(&mut tables, entry.table, start..end);
            last = Some(entry);
        }
        Ok(Base { bytes, tables })
    }
    /// The encoded rows.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    fn entries(&self, table: Option<TableId>) -> Entries<'_> {
        let Some(table) = table else { return WriteBatch::iter(&self.bytes) };
        let found = self.tables.iter().find(|(id, _)| *id == table);
        WriteBatch::iter(found.map_or(&[], |(_, range)| &self.bytes[range.clone()]))
    }
}

fn extend_table(tables: &mut Vec<(TableId, Range<usize>)>, table: TableId, range: Range<usize>) {
    match tables.last_mut() {
        Some((id, known)) if *id == table => known.end = range.end,
        _ => tables.push((table, range)),
    }
}

/// Everything committed of one partition, as of one moment; cheap to clone, never changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    base: Arc<Base>,
    /// Encoded batches, oldest first.
    runs: Vec<Arc<Vec<u8>>>,
    run_bytes: u64,
}

impl Rows {
    pub(crate) fn from_base(base: Base) -> Self {
        Rows { base: Arc::new(base), runs: Vec::new(), run_bytes: 0 }
    }
    /// Puts a committed batch on top.
    pub(crate) fn push(&mut self, mut batch: Vec<u8>) {
        if batch.is_empty() {
            return;
        }
        self.run_bytes += batch.len() as u64;
        if batch.len() <= GATHER_BATCH_BYTES
            && let Some(last) = self.runs.last_mut().and_then(Arc::get_mut)
            && last.len() + batch.len() <= GATHER_RUN_BYTES
        {
            last.extend_from_slice(&batch);
            return;
        }
        // A run lives long; room that the batch had to grow in would live with it.
        batch.shrink_to_fit();
        self.runs.push(Arc::new(batch));
    }
    /// Bytes of runs that are not yet folded.
    pub(crate) fn run_bytes(&self) -> u64 {
        self.run_bytes
    }
    /// Bytes of folded rows.
    pub(crate) fn base_bytes(&self) -> u64 {
        self.base.bytes.len() as u64
    }
    /// Visits the rows of one table in key order.
    pub(crate) fn scan(
        &self,
        table: TableId,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), MalformedBatch> {
        self.merge(Some(table), |entry, value| visit(entry.key, value))
    }
    /// The same rows, folded. Costs time in proportion to all of them.
    pub(crate) fn fold(&self) -> Result<Arc<Base>, MalformedBatch> {
        if self.runs.is_empty() {
            return Ok(Arc::clone(&self.base));
        }
        let mut folded = WriteBatch::reusing(Vec::with_capacity(self.base.bytes.len()));
        let mut tables = Vec::new();
        self.merge(None, |entry, value| {
            let start = folded.as_bytes().len();
            folded.put(entry.table, entry.key, value);
            extend_table(&mut tables, entry.table, start..folded.as_bytes().len());
        })?;
        let mut bytes = folded.into_bytes();
        bytes.shrink_to_fit();
        Ok(Arc::new(Base { bytes, tables }))
    }
    /// Replaces what `folded` consisted of, a state of these rows earlier on, by its fold. Answers what
    /// is no longer needed.
    pub(crate) fn replace(&mut self, folded: &Rows, base: Arc<Base>) -> Rows {
        let newer = self.runs.split_off(folded.runs.len().min(self.runs.len()));
        let run_bytes = self.run_bytes.saturating_sub(folded.run_bytes);
        std::mem::replace(self, Rows { base, runs: newer, run_bytes })
    }
    fn merge(
        &self,
        table: Option<TableId>,
        mut emit: impl FnMut(Entry<'_>, &[u8]),
    ) -> Result<(), MalformedBatch> {
        let mut changes = newest(&self.runs, table)?.into_iter().peekable();
        for row in self.base.entries(table) {
            let row = row?;
            let place = (row.table, row.key);
            while let Some(change) = changes.next_if(|change| (change.table, change.key) < place) {
                if let Some(value) = change.value {
                    emit(change, value);
                }
            }
            // The same key: what is in the runs is newer, be it a value or a delete.
            let (entry, value) = match changes.next_if(|change| (change.table, change.key) == place) {
                Some(change) => (change, change.value),
                None => (row, row.value),
            };
            if let Some(value) = value {
                emit(entry, value);
            }
        }
        for change in changes {
            if let Some(value) = change.value {
                emit(change, value);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Change = (u8, u8, Option<u8>);

    fn encode(changes: &[Change]) -> Vec<u8> {
        let mut batch = WriteBatch::default();
        for (table, key, value) in changes {
            match value {
                Some(value) => batch.put(TableId(*table), &[*key], &[*value]),
                None => batch.delete(TableId(*table), &[*key]),
            }
        }
        batch.into_bytes()
    }

    fn read(rows: &Rows, table: u8) -> Vec<(u8, u8)> {
        let mut found = Vec::new();
        rows.scan(TableId(table), &mut |key, value| found.push((key[0], value[0]))).unwrap();
        found
    }

    proptest! {
        #[test]
        fn rows_equal_a_map_however_they_were_folded(
            batches in prop::collection::vec(
                prop::collection::vec((0u8..3, 0u8..12, prop::option::of(any::<u8>())), 0..12), 0..12),
            fold_after in prop::collection::vec(any::<bool>(), 12),
            folding_from in prop::collection::vec(0usize..3, 12),
        ) {
            let mut rows = Rows::default();
            let mut model = BTreeMap::new();
            let mut earlier = vec![rows.clone()];
            for (index, batch) in batches.iter().enumerate() {
                rows.push(encode(batch));
                for (table, key, value) in batch {
                    match value {
                        Some(value) => model.insert((*table, *key), *value),
                        None => model.remove(&(*table, *key)),
                    };
                }
                earlier.push(rows.clone());
                if fold_after[index] {
                    // A background fold works on a state from before the last batches.
                    let from = earlier[earlier.len() - 1 - folding_from[index].min(earlier.len() - 1)].clone();
                    let base = from.fold().unwrap();
                    prop_assert_eq!(Base::from_bytes(base.bytes().to_vec()).unwrap().tables, base.tables.clone());
                    rows.replace(&from, base);
                    earlier = vec![rows.clone()];
                }
                for table in 0..3 {
                    let expected: Vec<_> = model.iter()
                        .filter(|((id, _), _)| *id == table).map(|((_, key), value)| (*key, *value)).collect();
                    prop_assert_eq!(read(&rows, table), expected);
                }
            }
        }

        #[test]
        fn bytes_that_are_no_base_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = Base::from_bytes(bytes);
        }
    }

    #[test]
    fn unsorted_or_deleting_bytes_are_no_base() {
        assert!(Base::from_bytes(encode(&[(0, 1, Some(1)), (0, 2, Some(1))])).is_ok());
        assert!(Base::from_bytes(encode(&[(0, 2, Some(1)), (0, 1, Some(1))])).is_err());
        assert!(Base::from_bytes(encode(&[(0, 1, Some(1)), (0, 1, Some(1))])).is_err());
        assert!(Base::from_bytes(encode(&[(0, 1, None)])).is_err());
    }

    #[test]
    fn many_tiny_epochs_make_few_runs() {
        let mut rows = Rows::default();
        for key in 0..200 {
            rows.push(encode(&[(0, key, Some(1))]));
        }
        assert_eq!(rows.runs.len(), 1);
        assert_eq!(rows.run_bytes(), rows.runs[0].len() as u64);
    }
}
