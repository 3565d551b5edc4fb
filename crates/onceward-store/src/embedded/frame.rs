//! The frame around one group of the log, and its records.
//!
//! A frame is bound to its place: its header carries segment, offset and sequence number under a
//! checksum, so that stale, recycled or misplaced bytes never pass for a frame.

use onceward_protocol::codec::{Reader, put_bytes, put_varint};
use onceward_protocol::{Generation, PartitionId};

/// Frames start at multiples of this, so that writing one never rewrites a page that is durable.
pub(crate) const PAGE: u64 = 4096;
/// Length of a frame's header in bytes.
pub(crate) const HEADER: usize = 48;
const MAGIC: [u8; 4] = *b"OWF1";
/// Copy and checksum go in pieces of this size, so that a byte is fetched from memory once.
const PIECE: usize = 32 << 10;
/// So much memory of a group is used again for the next.
const KEPT_BYTES: usize = 64 << 20;

/// The place and content of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    /// The segment's number.
    pub segment: u64,
    /// Where in the segment the header starts.
    pub offset: u64,
    /// Dense over the whole log, from 1.
    pub sequence: u64,
    /// Length of the payload.
    pub len: u64,
    /// CRC32C of the payload.
    pub sum: u32,
    /// Number of records in it.
    pub records: u32,
}

/// The next multiple of [`PAGE`].
pub(crate) fn page_up(offset: u64) -> u64 {
    offset.div_ceil(PAGE) * PAGE
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[..4].copy_from_slice(&MAGIC);
        out[8..16].copy_from_slice(&self.segment.to_be_bytes());
        out[16..24].copy_from_slice(&self.offset.to_be_bytes());
        out[24..32].copy_from_slice(&self.sequence.to_be_bytes());
        out[32..40].copy_from_slice(&self.len.to_be_bytes());
        out[40..44].copy_from_slice(&self.sum.to_be_bytes());
        out[44..48].copy_from_slice(&self.records.to_be_bytes());
        let sum = crc32c::crc32c(&out[8..]);
        out[4..8].copy_from_slice(&sum.to_be_bytes());
        out
    }
    /// The header at `offset` of `segment`; `None` if these bytes were not written as one there.
    pub(crate) fn decode(bytes: &[u8], segment: u64, offset: u64) -> Option<Self> {
        let mut input = Reader::new(bytes.get(..HEADER)?);
        if input.array()? != MAGIC || input.u32()? != crc32c::crc32c(input.rest()) {
            return None;
        }
        let header = Header {
            segment: input.u64()?,
            offset: input.u64()?,
            sequence: input.u64()?,
            len: input.u64()?,
            sum: input.u32()?,
            records: input.u32()?,
        };
        (header.segment == segment && header.offset == offset).then_some(header)
    }
    /// Where the next frame starts.
    pub(crate) fn end(&self) -> u64 {
        page_up(self.offset.saturating_add(HEADER as u64).saturating_add(self.len))
    }
}

/// What a record says. Partitions are named by the number that a `Declare` gave them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Record<'a> {
    Declare { partition: u64, id: &'a [u8] },
    Grant { partition: u64, generation: Generation },
    Revoke { partition: u64 },
    Commit { partition: u64, generation: Generation, epoch: u64, writes: &'a [u8] },
}

const DECLARE: u8 = 1;
const GRANT: u8 = 2;
const REVOKE: u8 = 3;
const COMMIT: u8 = 4;

impl<'a> Record<'a> {
    /// Reads the next record; `None` if it is malformed.
    pub(crate) fn read(input: &mut Reader<'a>) -> Option<Self> {
        let kind = input.byte()?;
        let partition = input.varint()?;
        Some(match kind {
            DECLARE => Record::Declare { partition, id: input.bytes()? },
            GRANT => Record::Grant { partition, generation: Generation::decode(input.array()?) },
            REVOKE => Record::Revoke { partition },
            COMMIT => Record::Commit {
                partition,
                generation: Generation::decode(input.array()?),
                epoch: input.varint()?,
                writes: input.bytes()?,
            },
            _ => return None,
        })
    }
}

/// The group that is being gathered: one frame, ready to be written.
#[derive(Debug)]
pub(crate) struct Group {
    /// Room for the header, then the payload.
    buffer: Vec<u8>,
    sum: u32,
    records: u32,
}

impl Group {
    pub(crate) fn new() -> Self {
        Group { buffer: vec![0; HEADER], sum: 0, records: 0 }
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.records == 0
    }
    /// Length of the whole frame.
    pub(crate) fn len(&self) -> u64 {
        self.buffer.len() as u64
    }
    pub(crate) fn declare(&mut self, partition: u64, id: &PartitionId) {
        self.record(DECLARE, partition, |buffer| put_bytes(buffer, &id.encode()));
    }
    pub(crate) fn grant(&mut self, partition: u64, generation: Generation) {
        self.record(GRANT, partition, |buffer| buffer.extend_from_slice(&generation.encode()));
    }
    pub(crate) fn revoke(&mut self, partition: u64) {
        self.record(REVOKE, partition, |_| {});
    }
    pub(crate) fn commit(&mut self, partition: u64, generation: Generation, epoch: u64, writes: &[u8]) {
        self.record(COMMIT, partition, |buffer| {
            buffer.extend_from_slice(&generation.encode());
            put_varint(buffer, epoch);
            put_varint(buffer, writes.len() as u64);
        });
        self.buffer.reserve(writes.len());
        for piece in writes.chunks(PIECE) {
            self.buffer.extend_from_slice(piece);
            self.sum = crc32c::crc32c_append(self.sum, piece);
        }
    }
    fn record(&mut self, kind: u8, partition: u64, rest: impl FnOnce(&mut Vec<u8>)) {
        let start = self.buffer.len();
        self.buffer.push(kind);
        put_varint(&mut self.buffer, partition);
        rest(&mut self.buffer);
        self.sum = crc32c::crc32c_append(self.sum, &self.buffer[start..]);
        self.records += 1;
    }
    /// The frame as it is written at `offset` of `segment`.
    pub(crate) fn seal(&mut self, segment: u64, offset: u64, sequence: u64) -> &[u8] {
        let len = (self.buffer.len() - HEADER) as u64;
        let header = Header { segment, offset, sequence, len, sum: self.sum, records: self.records };
        self.buffer[..HEADER].copy_from_slice(&header.encode());
        &self.buffer
    }
    /// Forgets the records and keeps the memory, but not that of an uncommonly large group.
    pub(crate) fn clear(&mut self) {
        self.buffer.truncate(HEADER);
        self.buffer.shrink_to(KEPT_BYTES);
        self.sum = 0;
        self.records = 0;
    }
}
