//! What a job finds in the store when it starts, and the keys under which it is kept.

use std::collections::BTreeMap;

use onceward_connector::RowChunk;
use onceward_protocol::codec::{Reader, put_bytes, put_str, put_varint};
use onceward_protocol::recut::LaneState;
use onceward_protocol::resume::ResumePoint;
use onceward_protocol::{Cursor, Frontier, PartitionHead, PartitionId, Position, Watermark};
use onceward_store::{Store, StoreError, TableId};

use crate::delivery::{Borders, LossCounts, ReferenceCounts};
use crate::error::EngineError;
use crate::exchange::{EXCHANGE, ExchangeChunk, decode_chunk_key};

const LANE: u8 = b'l';
const CURSOR: u8 = b'c';
const RESUME: u8 = b'r';
const COUNTERS: u8 = b'n';
const OUTBOXED: u8 = b'o';
const TAKEN: u8 = b't';
const REFERENCE: u8 = b'f';
const LOSS: u8 = b'd';
const BORDERS: u8 = b'b';
const SUBS: u8 = b'm';
const VERSION: u8 = b'v';
const CLOCK: u8 = b'k';
const ID_COUNTERS: u8 = b'i';

/// The table of ids that order cannot tell apart (FLOOR-MONOTONE).
pub const IDS: TableId = TableId(5);

/// Every table that jobs write.
pub const TABLES: [TableId; 6] =
    [TableId::META, TableId::OUTBOX, TableId::STATE, TableId::TIMERS, EXCHANGE, IDS];

/// Whether a row of the meta table is about what was taken, not about what is owed: with a re-cut it goes to the
/// children.
pub fn is_input_row(key: &[u8]) -> bool {
    matches!(key.first(), Some(&(LANE | SUBS | VERSION | CLOCK | COUNTERS | ID_COUNTERS)))
}

/// The sink that a row is about; `None` for a row that is about none.
pub fn sink_of_row(table: TableId, key: &[u8]) -> Option<String> {
    match table {
        TableId::OUTBOX => Reader::new(key).str().map(str::to_owned),
        TableId::META => match key.first()? {
            &(CURSOR | TAKEN | REFERENCE | LOSS | BORDERS) => sink_of(key),
            _ => None,
        },
        _ => None,
    }
}

/// The key of a lane's frontier.
pub fn lane_key(stream: &str, producer: &PartitionId) -> Vec<u8> {
    let mut key = vec![LANE];
    put_str(&mut key, stream);
    put_bytes(&mut key, &producer.encode());
    key
}
/// The key of what a merge brought along for a lane, from the lane's own key.
pub fn subs_key(lane_key: &[u8]) -> Vec<u8> {
    let mut key = lane_key.to_vec();
    if let Some(first) = key.first_mut() {
        *first = SUBS;
    }
    key
}
/// The key of the layout version whose lanes a consumer accepts (DEFAULT-DENY).
pub fn version_key() -> &'static [u8] {
    &[VERSION]
}
/// The key of the time of the last epoch, for timers of the commit clock.
pub fn clock_key() -> &'static [u8] {
    &[CLOCK]
}
/// The key of a sink's cursor (SINK-CURSOR: one per sink and partition).
pub fn cursor_key(sink: &str) -> Vec<u8> {
    sink_key(CURSOR, sink)
}
/// The key of the number of rows ever put into a sink's outbox.
pub fn taken_key(sink: &str) -> Vec<u8> {
    sink_key(TAKEN, sink)
}
/// The key of the figures of a sink by reference.
pub fn reference_key(sink: &str) -> Vec<u8> {
    sink_key(REFERENCE, sink)
}
/// The key of the figures of a sink that may lose rows.
pub fn loss_key(sink: &str) -> Vec<u8> {
    sink_key(LOSS, sink)
}
/// The key of the borders of the block that a sink may have been sent (BORDERS-BEFORE-ATTEMPT).
pub fn borders_key(sink: &str) -> Vec<u8> {
    sink_key(BORDERS, sink)
}
fn sink_key(kind: u8, sink: &str) -> Vec<u8> {
    let mut key = vec![kind];
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
/// The key of the lifetime counters of ids.
pub fn id_counters_key() -> &'static [u8] {
    &[ID_COUNTERS]
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

/// The sink in a key of the meta table.
fn sink_of(key: &[u8]) -> Option<String> {
    whole(key.get(1..)?, |input| input.str().map(str::to_owned))
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
    /// Messages whose client-chosen id was too old to know whether it had been seen: not taken.
    pub expired: u64,
    /// Messages dropped because their client-chosen id had been seen.
    pub repeated: u64,
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
    /// What only a computation with ids of its own counts, as persisted.
    pub fn encode_ids(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.expired);
        put_varint(&mut out, self.repeated);
        out
    }
    fn decode(&mut self, input: &mut Reader<'_>) -> Option<()> {
        (self.rows_in, self.late, self.rows_out) = (input.varint()?, input.varint()?, input.varint()?);
        Some(())
    }
    fn decode_ids(&mut self, input: &mut Reader<'_>) -> Option<()> {
        (self.expired, self.repeated) = (input.varint()?, input.varint()?);
        Some(())
    }
}

/// Everything stored of one partition, read after the grant is durable (LOAD-AFTER-GRANT).
#[derive(Debug, Default)]
pub struct Stored {
    /// Owner and last commit.
    pub head: PartitionHead,
    /// Frontier and watermark by lane key.
    pub lanes: BTreeMap<Vec<u8>, LaneState>,
    /// The layout version whose lanes are accepted; `None` for the one that created the partition.
    pub version: Option<u32>,
    /// The time of the last epoch, microseconds.
    pub clock: Option<i64>,
    /// Cursor by sink name.
    pub cursors: BTreeMap<String, Cursor>,
    /// Rows ever put into the outbox, by sink name.
    pub taken: BTreeMap<String, u64>,
    /// Figures of sinks by reference, by sink name.
    pub references: BTreeMap<String, ReferenceCounts>,
    /// Figures of sinks that may lose rows, by sink name.
    pub losses: BTreeMap<String, LossCounts>,
    /// The block that a sink may have been sent, by sink name.
    pub borders: BTreeMap<String, Borders>,
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
    /// Rows of the timers table, in key order.
    pub timers: Vec<(Vec<u8>, Vec<u8>)>,
    /// Rows of the ids table, in key order.
    pub ids: Vec<(Vec<u8>, Vec<u8>)>,
    /// Chunks of materialised lanes by group name, with the epoch that stored each, in order.
    pub exchange: BTreeMap<String, Vec<(u64, ExchangeChunk)>>,
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
        for table in TABLES {
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

    fn lane(&mut self, key: Vec<u8>) -> &mut LaneState {
        self.lanes.entry(key).or_default()
    }

    /// Takes one row; `None` if it is not what this version writes.
    pub fn take(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Option<()> {
        match table {
            TableId::STATE => self.state.push((key.to_vec(), value.to_vec())),
            TableId::TIMERS => self.timers.push((key.to_vec(), value.to_vec())),
            IDS => self.ids.push((key.to_vec(), value.to_vec())),
            EXCHANGE => {
                let (group, epoch) = decode_chunk_key(key)?;
                self.exchange.entry(group).or_default().push((epoch, ExchangeChunk::decode(value)?));
            }
            TableId::OUTBOX => {
                let (sink, epoch) = whole(key, |input| Some((input.str()?.to_owned(), input.u64()?)))?;
                self.outbox.entry(sink).or_default().push((epoch, decode_chunk(value)?));
            }
            TableId::META => match *key.first()? {
                LANE => {
                    let (taken, watermark) = whole(value, |input| {
                        let watermark = Watermark(input.i64()?);
                        Some((Frontier::decode(input)?, watermark))
                    })?;
                    let lane = self.lane(key.to_vec());
                    (lane.taken, lane.watermark) = (taken, watermark);
                }
                SUBS => {
                    let mut lane_key = key.to_vec();
                    lane_key[0] = LANE;
                    self.lane(lane_key).subs = LaneState::decode_subs(value)?;
                }
                VERSION if key == version_key() => {
                    self.version = Some(u32::try_from(whole(value, Reader::varint)?).ok()?);
                }
                CLOCK if key == clock_key() => self.clock = Some(whole(value, Reader::i64)?),
                CURSOR => {
                    self.cursors.insert(sink_of(key)?, Cursor::decode(value)?);
                }
                TAKEN => {
                    self.taken.insert(sink_of(key)?, whole(value, Reader::varint)?);
                }
                REFERENCE => {
                    self.references.insert(sink_of(key)?, whole(value, ReferenceCounts::decode)?);
                }
                LOSS => {
                    self.losses.insert(sink_of(key)?, whole(value, LossCounts::decode)?);
                }
                BORDERS => {
                    self.borders.insert(sink_of(key)?, whole(value, Borders::decode)?);
                }
                RESUME if key == resume_key() => self.resume = Some(ResumePoint::decode(value)?),
                OUTBOXED if key == outboxed_key() => self.outboxed = whole(value, Frontier::decode)?,
                COUNTERS if key == counters_key() => whole(value, |input| self.counters.decode(input))?,
                ID_COUNTERS if key == id_counters_key() => {
                    whole(value, |input| self.counters.decode_ids(input))?
                }
                _ => return None,
            },
            _ => return None,
        }
        Some(())
    }
}
