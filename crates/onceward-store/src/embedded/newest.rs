//! The newest entry for each key of a list of runs.
//!
//! Entries are first dealt into buckets by hash, so that the keys of one bucket stay in the processor's
//! cache while repeats are dropped; looking every entry up in one large table costs several times more.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::batch::{Entry, MalformedBatch, TableId, WriteBatch};

/// Keeps this hash apart from the one that routes keys to partitions: within one partition the
/// routing bits are all alike.
const SEED: u64 = 0x0ce4_a2d5;
/// About so many bytes of runs go into one bucket.
const BUCKET_BYTES: u64 = 1 << 20;
const MAX_BUCKETS: u64 = 512;

/// Where an entry is.
#[derive(Clone, Copy)]
struct Place {
    hash: u32,
    run: u32,
    offset: usize,
}

/// The newest put or delete for each key in `runs` (oldest first; within a run later wins), sorted by
/// table and key; of one table, or of all.
pub(crate) fn newest<'a>(
    runs: &'a [Arc<Vec<u8>>],
    only: Option<TableId>,
) -> Result<Vec<Entry<'a>>, MalformedBatch> {
    let mut tables: BTreeMap<TableId, Vec<Entry<'a>>> = BTreeMap::new();
    for bucket in deal(runs, only)? {
        keep_newest(runs, &bucket, &mut tables)?;
    }
    let mut sorted = Vec::with_capacity(tables.values().map(Vec::len).sum());
    for (_, rows) in tables {
        sort_into(rows, &mut sorted);
    }
    Ok(sorted)
}

/// Deals the entries into buckets, oldest first in each. All entries of a key are in one bucket.
fn deal(runs: &[Arc<Vec<u8>>], only: Option<TableId>) -> Result<Vec<Vec<Place>>, MalformedBatch> {
    let bytes: u64 = runs.iter().map(|run| run.len() as u64).sum();
    let count = (bytes / BUCKET_BYTES).clamp(1, MAX_BUCKETS).next_power_of_two();
    let mut buckets = vec![Vec::new(); usize::try_from(count).unwrap_or(1)];
    for (run, bytes) in runs.iter().enumerate() {
        let run = u32::try_from(run).map_err(|_| MalformedBatch)?;
        let mut entries = WriteBatch::iter(bytes);
        loop {
            let offset = bytes.len() - entries.rest().len();
            let Some(entry) = entries.next() else { break };
            let entry = entry?;
            if only.is_none_or(|table| table == entry.table) {
                let hash = xxh3_64_with_seed(entry.key, SEED ^ u64::from(entry.table.0));
                // The lower half is for the bucket's own table.
                let bucket = usize::try_from((hash >> 32) & (count - 1)).unwrap_or(0);
                buckets[bucket].push(Place { hash: hash as u32, run, offset });
            }
        }
    }
    Ok(buckets)
}

fn keep_newest<'a>(
    runs: &'a [Arc<Vec<u8>>],
    bucket: &[Place],
    tables: &mut BTreeMap<TableId, Vec<Entry<'a>>>,
) -> Result<(), MalformedBatch> {
    // A table takes its position from the lowest bits and a tag from the highest: spread over both.
    let spread = |hash: u32| u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut kept: Vec<(u32, Entry<'a>)> = Vec::new();
    let mut index: HashTable<usize> = HashTable::new();
    for place in bucket.iter().rev() {
        let bytes: &'a [u8] = &runs[place.run as usize][place.offset..];
        let entry = WriteBatch::iter(bytes).next().ok_or(MalformedBatch)??;
        let same = |at: &usize| {
            let (hash, known) = &kept[*at];
            *hash == place.hash && known.table == entry.table && known.key == entry.key
        };
        if index.find(spread(place.hash), same).is_none() {
            index.insert_unique(spread(place.hash), kept.len(), |at| spread(kept[*at].0));
            kept.push((place.hash, entry));
        }
    }
    for (_, entry) in kept {
        tables.entry(entry.table).or_default().push(entry);
    }
    Ok(())
}

/// Sorts the rows of one table by key. Keys are mostly told apart by the eight bytes behind what all of
/// them start with, without a look at the keys themselves.
fn sort_into<'a>(rows: Vec<Entry<'a>>, sorted: &mut Vec<Entry<'a>>) {
    let Some(first) = rows.first() else { return };
    let common = rows.iter().fold(first.key.len(), |common, row| {
        first.key[..common].iter().zip(row.key).take_while(|(a, b)| a == b).count()
    });
    let order = |key: &[u8]| {
        let mut bytes = [0; 8];
        let rest = &key[common..];
        let len = rest.len().min(8);
        bytes[..len].copy_from_slice(&rest[..len]);
        u64::from_be_bytes(bytes)
    };
    let mut ordered: Vec<(u64, Entry<'a>)> = rows.into_iter().map(|row| (order(row.key), row)).collect();
    ordered.sort_unstable_by(|(a, left), (b, right)| a.cmp(b).then_with(|| left.key.cmp(right.key)));
    sorted.extend(ordered.into_iter().map(|(_, row)| row));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_buckets_answer_like_a_map() {
        // Enough for several buckets; keys with and without a common start; repeats and deletes.
        let mut model = BTreeMap::new();
        let mut runs = Vec::new();
        let mut at = 1u64;
        for run in 0..8 {
            let mut batch = WriteBatch::default();
            while batch.as_bytes().len() < 1 << 20 {
                at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let number = (at >> 33) % 30_000;
                let table = TableId((number % 3) as u8);
                let key = if number % 3 == 2 { number.to_string() } else { format!("user-account-{number}") };
                let value = (at >> 20 & 7 > 0).then(|| at.to_be_bytes().repeat(1 + run % 2));
                match &value {
                    Some(value) => batch.put(table, key.as_bytes(), value),
                    None => batch.delete(table, key.as_bytes()),
                }
                model.insert((table, key.into_bytes()), value);
            }
            runs.push(Arc::new(batch.into_bytes()));
        }
        for only in [None, Some(TableId(0)), Some(TableId(2))] {
            let found = newest(&runs, only).unwrap();
            let expected = model.iter().filter(|((table, _), _)| only.is_none_or(|only| only == *table));
            assert!(found.len() > 5_000);
            assert!(
                found
                    .iter()
                    .map(|entry| ((entry.table, entry.key), entry.value))
                    .eq(expected.map(|((table, key), value)| ((*table, key.as_slice()), value.as_deref())))
            );
        }
    }
}
