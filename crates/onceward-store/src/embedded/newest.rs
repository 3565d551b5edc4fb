//! The newest entry for each key of a list of runs.

use std::sync::Arc;

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::batch::{Entry, MalformedBatch, TableId, WriteBatch};

/// Keeps this hash apart from the one that routes keys to partitions: within one partition the
/// routing bits are all alike.
const SEED: u64 = 0x0ce4_a2d5;

fn hash(entry: &Entry<'_>) -> u64 {
    xxh3_64_with_seed(entry.key, SEED ^ u64::from(entry.table.0))
}

/// The first bytes of a key as a number, in the order of keys: most comparisons need no more.
fn prefix(key: &[u8]) -> u64 {
    let mut first = [0; 8];
    let len = key.len().min(8);
    first[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(first)
}

/// The newest put or delete for each key in `runs` (oldest first; within a run later wins), sorted by
/// table and key; of one table, or of all.
pub(crate) fn newest<'a>(
    runs: &'a [Arc<Vec<u8>>],
    only: Option<TableId>,
) -> Result<Vec<Entry<'a>>, MalformedBatch> {
    let mut kept: Vec<(u64, Entry<'a>)> = Vec::new();
    let mut index: HashTable<usize> = HashTable::new();
    let mut run_entries = Vec::new();
    for run in runs.iter().rev() {
        run_entries.clear();
        for entry in WriteBatch::iter(run) {
            let entry = entry?;
            if only.is_none_or(|table| table == entry.table) {
                run_entries.push((hash(&entry), entry));
            }
        }
        for (hash, entry) in run_entries.drain(..).rev() {
            let same = |at: &usize| {
                let known = &kept[*at];
                known.0 == hash && known.1.table == entry.table && known.1.key == entry.key
            };
            if index.find(hash, same).is_none() {
                index.insert_unique(hash, kept.len(), |at| kept[*at].0);
                kept.push((hash, entry));
            }
        }
    }
    for (order, entry) in &mut kept {
        *order = prefix(entry.key);
    }
    kept.sort_unstable_by(|(a_order, a), (b_order, b)| {
        (a.table, a_order).cmp(&(b.table, b_order)).then_with(|| a.key.cmp(b.key))
    });
    Ok(kept.into_iter().map(|(_, entry)| entry).collect())
}
