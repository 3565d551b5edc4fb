//! Snapshot files: every partition's head and folded rows as of one sequence number of the log, in
//! blocks that each carry a checksum and their place.

use std::path::Path;
use std::sync::Arc;

use onceward_protocol::chain::Head;
use onceward_protocol::codec::{Reader, put_bytes};
use onceward_protocol::{Generation, Mutant, Mutants, PartitionHead, PartitionId};

use super::layout::{damaged, refused, snapshot_path, snapshot_temporary};
use super::partition::Partitions;
use super::segment::SYNC_EVERY;
use super::table::{Base, Rows};
use crate::disk::{Disk, DiskFile, site};
use crate::error::StoreError;

const MAGIC: [u8; 4] = *b"OWB1";
const BLOCK_HEADER: usize = 24;
/// Rows are cut into blocks of this size.
const BLOCK_BYTES: usize = 256 << 10;
/// A block that claims to be longer was not written by this code.
const MAX_BLOCK_BYTES: usize = 4 << 20;
/// Blocks are gathered into writes of about this size.
const WRITE_BYTES: usize = 1 << 20;

const START: u32 = 1;
const PARTITION: u32 = 2;
const ROWS: u32 = 3;
const END: u32 = 4;

/// What a snapshot is made of: immutable, so that it can be written while the store goes on.
#[derive(Debug)]
pub(crate) struct SnapshotPart {
    pub id: PartitionId,
    pub head: PartitionHead,
    pub rows: Rows,
}

/// The place in the log that a snapshot stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SnapshotPoint {
    /// Everything up to this frame is in the snapshot.
    pub sequence: u64,
    /// The segment that holds this frame; every earlier one is no longer needed.
    pub segment: u64,
}

struct Writer<F> {
    file: F,
    buffer: Vec<u8>,
    written: u64,
    synced: u64,
    /// Whether data is synced at all; only a mutant leaves it out.
    syncs: bool,
    ordinal: u32,
}

impl<F: DiskFile> Writer<F> {
    fn block(&mut self, kind: u32, payload: &[u8]) -> std::io::Result<()> {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&MAGIC);
        self.buffer.extend_from_slice(&[0; 4]);
        self.buffer.extend_from_slice(&self.ordinal.to_be_bytes());
        self.buffer.extend_from_slice(&kind.to_be_bytes());
        self.buffer.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        self.buffer.extend_from_slice(payload);
        let sum = crc32c::crc32c(&self.buffer[start + 8..]);
        self.buffer[start + 4..start + 8].copy_from_slice(&sum.to_be_bytes());
        self.ordinal = self.ordinal.wrapping_add(1);
        if self.buffer.len() >= WRITE_BYTES { self.drain() } else { Ok(()) }
    }
    fn drain(&mut self) -> std::io::Result<()> {
        if !self.buffer.is_empty() {
            self.file.write_at(site::SNAPSHOT_WRITE, self.written, &self.buffer)?;
            self.written += self.buffer.len() as u64;
            self.buffer.clear();
            if self.syncs && self.written - self.synced >= SYNC_EVERY {
                self.file.sync_data(site::SNAPSHOT_SYNC)?;
                self.synced = self.written;
            }
        }
        Ok(())
    }
}

fn put_head(out: &mut Vec<u8>, head: &PartitionHead) {
    out.extend_from_slice(&head.last_number.to_be_bytes());
    out.push(u8::from(head.granted.is_some()) | u8::from(head.head.is_some()) << 1);
    if let Some(granted) = head.granted {
        out.extend_from_slice(&granted.encode());
    }
    if let Some(last) = head.head {
        out.extend_from_slice(&last.generation.encode());
        out.extend_from_slice(&last.epoch.to_be_bytes());
    }
}

fn read_head(input: &mut Reader<'_>) -> Option<PartitionHead> {
    let last_number = input.u64()?;
    let present = input.byte()?;
    if present > 3 {
        return None;
    }
    let granted = if present & 1 == 1 { Some(Generation::decode(input.array()?)) } else { None };
    let head = if present & 2 == 2 {
        Some(Head { generation: Generation::decode(input.array()?), epoch: input.u64()? })
    } else {
        None
    };
    Some(PartitionHead { granted, last_number, head })
}

/// Writes a snapshot and puts it in its place, durably. Answers the folded rows of every part, in
/// order, and the file's size.
pub(crate) fn write_snapshot<D: Disk>(
    disk: &D,
    dir: &Path,
    point: SnapshotPoint,
    parts: &[SnapshotPart],
    mutants: Mutants,
) -> Result<(Vec<Arc<Base>>, u64), StoreError> {
    let temporary = snapshot_temporary(dir, point.sequence);
    let path = snapshot_path(dir, point.sequence);
    let file = disk.create(site::SNAPSHOT_CREATE, &temporary).map_err(refused("create", &temporary))?;
    let syncs = !mutants.has(Mutant::SnapshotRenamedUnsynced);
    let mut writer = Writer { file, buffer: Vec::new(), written: 0, synced: 0, syncs, ordinal: 0 };
    let mut start = Vec::new();
    start.extend_from_slice(&point.sequence.to_be_bytes());
    start.extend_from_slice(&point.segment.to_be_bytes());
    start.extend_from_slice(&(parts.len() as u64).to_be_bytes());
    writer.block(START, &start).map_err(refused("write", &temporary))?;
    let mut bases = Vec::with_capacity(parts.len());
    for part in parts {
        let base = part.rows.fold().map_err(|malformed| damaged(dir, 0, malformed.to_string()))?;
        let mut about = Vec::new();
        put_bytes(&mut about, &part.id.encode());
        put_head(&mut about, &part.head);
        about.extend_from_slice(&(base.bytes().len() as u64).to_be_bytes());
        writer.block(PARTITION, &about).map_err(refused("write", &temporary))?;
        for piece in base.bytes().chunks(BLOCK_BYTES) {
            writer.block(ROWS, piece).map_err(refused("write", &temporary))?;
        }
        bases.push(base);
    }
    writer.block(END, &[]).and_then(|()| writer.drain()).map_err(refused("write", &temporary))?;
    if syncs {
        writer.file.sync_data(site::SNAPSHOT_SYNC).map_err(refused("sync", &temporary))?;
    }
    disk.rename(site::SNAPSHOT_RENAME, &temporary, &path).map_err(refused("rename", &temporary))?;
    disk.sync_dir(site::DIR_SYNC, dir).map_err(refused("sync", dir))?;
    Ok((bases, writer.written))
}

struct BlockReader<'p, F> {
    file: F,
    path: &'p Path,
    offset: u64,
    size: u64,
    ordinal: u32,
}

impl<F: DiskFile> BlockReader<'_, F> {
    fn wrong(&self, what: &str) -> StoreError {
        damaged(self.path, self.offset, format!("{what} in block {} of the snapshot", self.ordinal))
    }
    fn next(&mut self, kind: u32) -> Result<Vec<u8>, StoreError> {
        let mut header = [0; BLOCK_HEADER];
        let read = self.file.read_at(self.offset, &mut header).map_err(refused("read", self.path))?;
        let mut input = Reader::new(&header[..read]);
        let fields =
            (|| Some((input.array::<4>()?, input.u32()?, input.u32()?, input.u32()?, input.u64()?)))();
        let Some((magic, sum, ordinal, found, len)) = fields else {
            return Err(self.wrong("the file ends"));
        };
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if magic != MAGIC || ordinal != self.ordinal || found != kind || len > MAX_BLOCK_BYTES {
            return Err(self.wrong("the header is not the expected one"));
        }
        let mut payload = vec![0; len];
        let start = self.offset + BLOCK_HEADER as u64;
        let read = self.file.read_at(start, &mut payload).map_err(refused("read", self.path))?;
        if read < len || crc32c::crc32c_append(crc32c::crc32c(&header[8..]), &payload) != sum {
            return Err(self.wrong("the checksum does not match"));
        }
        self.offset = start + len as u64;
        self.ordinal = self.ordinal.wrapping_add(1);
        Ok(payload)
    }
}

/// Reads the snapshot of `sequence`. Everything in it was durable before it got its name, so whatever
/// does not match is damage, and is refused.
pub(crate) fn read_snapshot<D: Disk>(
    disk: &D,
    dir: &Path,
    sequence: u64,
) -> Result<(SnapshotPoint, Partitions, u64), StoreError> {
    let path = snapshot_path(dir, sequence);
    let file = disk.open(&path).map_err(refused("open", &path))?;
    let size = file.size().map_err(refused("read", &path))?;
    let mut blocks = BlockReader { file, path: &path, offset: 0, size, ordinal: 0 };
    let start = blocks.next(START)?;
    let mut input = Reader::new(&start);
    let fields = (|| Some((input.u64()?, input.u64()?, input.u64()?)))();
    let Some((_, segment, count)) = fields.filter(|(found, ..)| *found == sequence) else {
        return Err(blocks.wrong("another sequence number than the file's name says"));
    };
    let mut partitions = Partitions::default();
    for _ in 0..count {
        let about = blocks.next(PARTITION)?;
        let mut input = Reader::new(&about);
        let fields =
            (|| Some((PartitionId::decode(input.bytes()?)?, read_head(&mut input)?, input.u64()?)))();
        let Some((id, head, len)) = fields else { return Err(blocks.wrong("a malformed partition")) };
        let len = usize::try_from(len.min(size)).unwrap_or(usize::MAX);
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            bytes.extend_from_slice(&blocks.next(ROWS)?);
        }
        let base = Base::from_bytes(bytes).map_err(|_| blocks.wrong("malformed rows"))?;
        if partitions.find(&id).is_some() {
            return Err(blocks.wrong("a partition for the second time"));
        }
        partitions.add(id, head, true, Rows::from_base(base));
    }
    blocks.next(END)?;
    if blocks.offset != blocks.size {
        return Err(blocks.wrong("bytes behind the end"));
    }
    Ok((SnapshotPoint { sequence, segment }, partitions, size))
}
