//! The writes of one epoch, encoded as they are stored: built without an allocation per entry.

use onceward_protocol::codec::{Reader, put_varint};

/// A table of a partition. Tables are ordered by key and independent of each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TableId(pub u8);

impl TableId {
    /// Frontiers, cursors, resume points, counters: few rows, written often.
    pub const META: TableId = TableId(0);
    /// Keyed state: many rows.
    pub const STATE: TableId = TableId(1);
    /// What sinks are owed.
    pub const OUTBOX: TableId = TableId(2);
    /// Timers, ordered by time.
    pub const TIMERS: TableId = TableId(3);
}

/// Puts and deletes, in order; a later entry for a key wins. Encoded form, repeated: table (1 byte),
/// key length shifted left once with the low bit set for a delete (varint), value length
/// (varint, puts only), key, value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteBatch {
    bytes: Vec<u8>,
    entries: usize,
}

impl WriteBatch {
    /// An empty batch that reuses `buffer`.
    pub fn reusing(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        WriteBatch { bytes: buffer, entries: 0 }
    }
    /// Sets `key` to `value`.
    #[inline]
    pub fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) {
        self.bytes.push(table.0);
        put_varint(&mut self.bytes, (key.len() as u64) << 1);
        put_varint(&mut self.bytes, value.len() as u64);
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.entries += 1;
    }
    /// Removes `key`; removing an absent key is allowed.
    #[inline]
    pub fn delete(&mut self, table: TableId, key: &[u8]) {
        self.bytes.push(table.0);
        put_varint(&mut self.bytes, ((key.len() as u64) << 1) | 1);
        self.bytes.extend_from_slice(key);
        self.entries += 1;
    }
    /// Number of puts and deletes.
    pub fn len(&self) -> usize {
        self.entries
    }
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }
    /// The encoded form.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
    /// The encoded form, owned.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
    /// Reads an encoded form.
    pub fn iter(bytes: &[u8]) -> Entries<'_> {
        Entries { input: Reader::new(bytes) }
    }
}

/// One put (`value` is `Some`) or delete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// Which table.
    pub table: TableId,
    /// The key.
    pub key: &'a [u8],
    /// The value; `None` for a delete.
    pub value: Option<&'a [u8]>,
}

/// Iterates over an encoded batch; a malformed form is an `Err` and ends the iteration.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    input: Reader<'a>,
}

/// An encoded batch that no version of this code wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a stored write batch is malformed")]
pub struct MalformedBatch;

impl<'a> Entries<'a> {
    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.input.rest()
    }
    fn read(&mut self) -> Option<Entry<'a>> {
        let table = TableId(self.input.byte()?);
        let tagged = self.input.varint()?;
        let key_len = usize::try_from(tagged >> 1).ok()?;
        if tagged & 1 == 1 {
            return Some(Entry { table, key: self.input.take(key_len)?, value: None });
        }
        let value_len = usize::try_from(self.input.varint()?).ok()?;
        let key = self.input.take(key_len)?;
        Some(Entry { table, key, value: Some(self.input.take(value_len)?) })
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, MalformedBatch>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.input.is_empty() {
            return None;
        }
        let entry = self.read();
        if entry.is_none() {
            self.input = Reader::new(&[]);
        }
        Some(entry.ok_or(MalformedBatch))
    }
}
