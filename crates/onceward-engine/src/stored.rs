//! What a job finds in the store when it starts, and the keys under which it is kept.

use std::collections::BTreeMap;

use onceward_connector::RowChunk;
use onceward_protocol::codec::{Reader, put_bytes, put_str, put_varint};
use onceward_protocol::resume::ResumePoint;
use onceward_protocol::{Cursor, Frontier, PartitionHead, PartitionId, Position, Watermark};
use onceward_store::{Store, StoreError, TableId};

use crate::error::EngineError;

const LANE: u8 = b'l';
const CURSOR: u8 = b'c';
const RESUME: u8 = b'r';
const COUNTERS: u8 = b'n';
const OUTBOXED: u8 = b'o';
const TAKEN: u8 = b't';

/// The key of a lane's frontier.
pub fn lane_key(stream: &str, producer: &PartitionId) -> Vec<u8> {
    let mut key = vec![LANE];
    put_str(&mut key, stream);
    put_bytes(&mut key, &producer.encode());
    key
}
/// The key of a sink's cursor (SINK-CURSOR: one per sink and partition).
pub fn cursor_key(sink: &str) -> Vec<u8> {
    let mut key = vec![CURSOR];
    put_str(&mut key, sink);
    key
}
/// The key of the number of rows ever put into a sink's outbox.
pub fn taken_key(sink: &str) -> Vec<u8> {
    let mut key = vec![TAKEN];
    put_str(&mut key, sink);
    key
}
/// The stored form of a number of rows.
pub fn encode_count(count: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, count);
    out
}
/// The key of a source partition's finished place.
pub fn resume_key() -> &'static [u8] {
    &[RESUME]
}
/// The key of the frontier up to which a source's rows are in its outbox.
pub fn outboxed_key() -> &'static [u8] {
    &[OUTBOXED]
}
/// The key of the lifetime counters.
pub fn counters_key() -> &'static [u8] {
    &[COUNTERS]
}
/// The key of an outbox chunk.
pub fn outbox_key(sink: &str, epoch: u64) -> Vec<u8> {
    let mut key = Vec::new();
    put_str(&mut key, sink);
    key.extend_from_slice(&epoch.to_be_bytes());
    key
}

/// The stored form of a lane's frontier and the watermark as of that place (WATERMARK-IN-LANE).
pub fn encode_lane(frontier: Frontier, watermark: Watermark) -> Vec<u8> {
    let mut value = watermark.0.to_be_bytes().to_vec();
    frontier.encode(&mut value);
    value
}

/// The stored form of a chunk of rows.
pub fn encode_chunk(chunk: &RowChunk) -> Vec<u8> {
    let mut value = Vec::with_capacity(chunk.bytes() + chunk.len() * 14 + 8);
    put_varint(&mut value, chunk.len() as u64);
    for (position, payload) in chunk.iter() {
        value.extend_from_slice(&position.encode());
        put_bytes(&mut value, payload);
    }
    value
}

/// Reads all of `bytes`; `None` if something is left.
fn whole<'a, T>(bytes: &'a [u8], read: impl FnOnce(&mut Reader<'a>) -> Option<T>) -> Option<T> {
    let mut input = Reader::new(bytes);
    let value = read(&mut input)?;
    input.is_empty().then_some(value)
}

fn decode_chunk(value: &[u8]) -> Option<RowChunk> {
    let mut input = Reader::new(value);
    let mut chunk = RowChunk::default();
    for _ in 0..input.varint()? {
        let position = Position::decode(input.array()?);
        if chunk.last().is_some_and(|last| last >= position) {
            return None;
        }
        chunk.push(position, input.bytes()?);
    }
    input.is_empty().then_some(chunk)
}

/// Figures over a partition's whole life.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Messages taken.
    pub rows_in: u64,
    /// Messages that came after their window had fired.
    pub late: u64,
    /// Rows put into outboxes.
    pub rows_out: u64,
}

impl Counters {
    /// Bytes as persisted.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for value in [self.rows_in, self.late, self.rows_out] {
            put_varint(&mut out, value);
        }
        out
    }
    fn decode(value: &[u8]) -> Option<Self> {
        let mut input = Reader::new(value);
        let counters =
            Counters { rows_in: input.varint()?, late: input.varint()?, rows_out: input.varint()? };
        input.is_empty().then_some(counters)
    }
}

/// Everything stored of one partition, read after the grant is durable (LOAD-AFTER-GRANT).
#[derive(Debug, Default)]
pub struct Stored {
    /// Owner and last commit.
    pub head: PartitionHead,
    /// Frontier and watermark by lane key.
    pub lanes: BTreeMap<Vec<u8>, (Frontier, Watermark)>,
    /// Cursor by sink name.
    pub cursors: BTreeMap<String, Cursor>,
    /// Rows ever put into the outbox, by sink name.
    pub taken: BTreeMap<String, u64>,
    /// The finished place of a source partition.
    pub resume: Option<ResumePoint>,
    /// Up to where a source's rows are in its outbox: as far as its lanes' consumers or further.
    pub outboxed: Frontier,
    /// Lifetime figures.
    pub counters: Counters,
    /// Outbox chunks by sink name, with the epoch that stored each, in order.
    pub outbox: BTreeMap<String, Vec<(u64, RowChunk)>>,
    /// Rows of the state table, in key order.
    pub state: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Why loading failed.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A stored record is not what this version writes.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Stored {
    /// Reads a partition through the `Store` trait.
    pub fn load(store: &dyn Store, partition: &PartitionId) -> Result<Self, LoadError> {
        Stored::read(partition, store.head(partition)?, |table, visit| store.scan(partition, table, visit))
    }

    /// Reads a partition whose `head` is known, table by table: `scan` visits the rows of one. For drivers that
    /// reach the store through another thread.
    pub fn read(
        partition: &PartitionId,
        head: PartitionHead,
        mut scan: impl FnMut(TableId, &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError>,
    ) -> Result<Self, LoadError> {
        let mut stored = Stored { head, ..Stored::default() };
        for table in [TableId::META, TableId::OUTBOX, TableId::STATE] {
            let mut bad = None;
            scan(table, &mut |key, value| {
                if stored.take(table, key, value).is_none() {
                    bad.get_or_insert_with(|| format!("{table:?} row {key:02x?}"));
                }
            })?;
            if let Some(what) = bad {
                return Err(EngineError::Stored { partition: partition.label(), what }.into());
            }
        }
        Ok(stored)
    }

    /// Takes one row; `None` if it is not what this version writes.
    pub fn take(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Option<()> {
        match table {
            TableId::STATE => self.state.push((key.to_vec(), value.to_vec())),
            TableId::OUTBOX => {
                let (sink, epoch) = whole(key, |input| Some((input.str()?.to_owned(), input.u64()?)))?;
                self.outbox.entry(sink).or_default().push((epoch, decode_chunk(value)?));
            }
            TableId::META => match *key.first()? {
                LANE => {
                    let lane = whole(value, |input| {
                        let watermark = Watermark(input.i64()?);
                        Some((Frontier::decode(input)?, watermark))
                    })?;
                    self.lanes.insert(key.to_vec(), lane);
                }
                CURSOR => {
                    let sink = whole(&key[1..], |input| input.str().map(str::to_owned))?;
                    self.cursors.insert(sink, Cursor::decode(value)?);
                }
                TAKEN => {
                    let sink = whole(&key[1..], |input| input.str().map(str::to_owned))?;
                    self.taken.insert(sink, whole(value, Reader::varint)?);
                }
                RESUME if key == resume_key() => self.resume = Some(ResumePoint::decode(value)?),
                OUTBOXED if key == outboxed_key() => self.outboxed = whole(value, Frontier::decode)?,
                COUNTERS if key == counters_key() => self.counters = Counters::decode(value)?,
                _ => return None,
            },
            _ => return None,
        }
        Some(())
    }
}
