//! Reading the log: where it ends, and whether what is missing can only be what was never durable.
//!
//! A frame is written only after the one before it is durable. So a frame that is not whole is the
//! torn end of the log if nothing whole follows it, and damage if anything does.

use std::path::{Path, PathBuf};

use onceward_protocol::codec::Reader;
use onceward_protocol::{Mutants, PartitionHead, PartitionId};

use super::frame::{HEADER, Header, PAGE, Record, page_up};
use super::layout::{damaged, refused, segment_path};
use super::partition::Partitions;
use super::segment::ZERO_PIECE;
use super::snapshot::SnapshotPoint;
use super::table::Rows;
use crate::batch::WriteBatch;
use crate::disk::{Disk, DiskFile};
use crate::error::StoreError;

/// The segment in which the log ends.
#[derive(Debug)]
pub(crate) struct Tail<F> {
    pub number: u64,
    pub path: PathBuf,
    pub file: F,
    /// Where the next frame goes.
    pub end: u64,
    pub size: u64,
    /// Where the remains of a torn frame end, if there are any.
    pub torn_up_to: Option<u64>,
    /// The last frame and its offset.
    pub last_frame: Option<(u64, Vec<u8>)>,
}

/// What lies behind the end of a segment's frames.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// Where a whole header was found.
    pub header_at: Option<u64>,
    /// The end of the last piece that is not all zeros.
    pub used_up_to: Option<u64>,
}

/// Reads a segment from `start`, a multiple of the page size, to its end. `skip_first` leaves out the
/// header at `start` itself, which was judged already.
pub(crate) fn scan<F: DiskFile>(
    file: &F,
    path: &Path,
    segment: u64,
    start: u64,
    skip_first: bool,
) -> Result<Rest, StoreError> {
    let zeros = vec![0; ZERO_PIECE];
    let mut piece = vec![0; ZERO_PIECE];
    let mut rest = Rest::default();
    let mut offset = start;
    loop {
        let read = file.read_at(offset, &mut piece).map_err(refused("read", path))?;
        let found = &piece[..read];
        if found != &zeros[..read] {
            for (page, at) in found.chunks(PAGE as usize).zip((offset..).step_by(PAGE as usize)) {
                if page != &zeros[..page.len()] {
                    rest.used_up_to = Some(at + page.len() as u64);
                }
                let judged = skip_first && at == start;
                if rest.header_at.is_none() && !judged && Header::decode(page, segment, at).is_some() {
                    rest.header_at = Some(at);
                }
            }
        }
        offset += read as u64;
        if read < piece.len() {
            return Ok(rest);
        }
    }
}

enum Found {
    /// No frame was ever written here.
    Nothing,
    /// A whole frame, header included.
    Frame(Header, Vec<u8>),
    /// Something that is no whole frame.
    Broken(&'static str),
}

fn read_frame<F: DiskFile>(
    file: &F,
    path: &Path,
    segment: u64,
    offset: u64,
    size: u64,
) -> Result<Found, StoreError> {
    let mut header = [0; HEADER];
    let read = file.read_at(offset, &mut header).map_err(refused("read", path))?;
    if header[..read].iter().all(|byte| *byte == 0) {
        return Ok(Found::Nothing);
    }
    let Some(decoded) = Header::decode(&header[..read], segment, offset) else {
        return Ok(Found::Broken("no valid frame header"));
    };
    let whole = decoded.len.saturating_add(HEADER as u64);
    if whole > size.saturating_sub(offset) {
        return Ok(Found::Broken("a frame that is longer than the file"));
    }
    let mut frame = vec![0; usize::try_from(whole).unwrap_or(usize::MAX)];
    let read = file.read_at(offset, &mut frame).map_err(refused("read", path))?;
    if read < frame.len() || crc32c::crc32c(&frame[HEADER..]) != decoded.sum {
        return Ok(Found::Broken("a frame whose checksum does not match"));
    }
    Ok(Found::Frame(decoded, frame))
}

/// Applies the log, segment by segment in order.
pub(crate) struct Replay<'d, F> {
    dir: &'d Path,
    point: SnapshotPoint,
    partitions: Partitions,
    mutants: Mutants,
    /// The sequence number that comes next; unknown before the first frame after a snapshot.
    next: Option<u64>,
    tail: Option<Tail<F>>,
    /// Where the log ended: nothing whole may follow.
    ended: Option<(PathBuf, u64, &'static str)>,
    since_snapshot: u64,
}

impl<'d, F: DiskFile> Replay<'d, F> {
    pub(crate) fn new(dir: &'d Path, point: SnapshotPoint, partitions: Partitions, mutants: Mutants) -> Self {
        let next = (point.sequence == 0).then_some(1);
        Replay { dir, point, partitions, mutants, next, tail: None, ended: None, since_snapshot: 0 }
    }

    /// Reads and applies one segment.
    pub(crate) fn segment<D: Disk<File = F>>(&mut self, disk: &D, number: u64) -> Result<(), StoreError> {
        let path = segment_path(self.dir, number);
        let file = disk.open(&path).map_err(refused("open", &path))?;
        let size = file.size().map_err(refused("read", &path))?;
        let mut end = 0;
        let mut last_frame = None;
        let broken = loop {
            if self.ended.is_some() {
                break None;
            }
            match read_frame(&file, &path, number, end, size)? {
                Found::Nothing => break None,
                Found::Broken(what) => break Some(what),
                Found::Frame(header, frame) => {
                    self.frame(&path, &header, &frame[HEADER..])?;
                    last_frame = Some((end, frame));
                    end = header.end();
                }
            }
        };
        let rest = scan(&file, &path, number, end, broken.is_some())?;
        if let Some(later) = rest.header_at {
            let (path, at, what) = self.ended.take().unwrap_or((path, end, broken.unwrap_or("zeros")));
            let what = format!(
                "found {what}, expected a frame, for a later one is at byte {later} of segment {number}; this is not a torn end"
            );
            return Err(damaged(&path, at, what));
        }
        if self.ended.is_none() && (broken.is_some() || rest.used_up_to.is_some() || last_frame.is_none()) {
            self.ended = Some((path.clone(), end, broken.unwrap_or("zeros")));
        }
        // A segment without a whole frame is not the log's last one, unless it is the only one.
        if last_frame.is_some() || self.tail.is_none() {
            let torn_up_to = rest.used_up_to;
            self.tail = Some(Tail { number, path, file, end, size, torn_up_to, last_frame });
        }
        Ok(())
    }

    fn frame(&mut self, path: &Path, header: &Header, payload: &[u8]) -> Result<(), StoreError> {
        let expected = self.next.unwrap_or(header.sequence);
        if header.sequence != expected
            || expected > self.point.sequence.saturating_add(1) && self.next.is_none()
        {
            let what = format!(
                "found frame {}, expected {}",
                header.sequence,
                self.next.unwrap_or(self.point.sequence + 1)
            );
            return Err(damaged(path, header.offset, what));
        }
        self.next = Some(header.sequence + 1);
        if header.sequence <= self.point.sequence {
            return Ok(());
        }
        self.since_snapshot += page_up(HEADER as u64 + header.len);
        let mut input = Reader::new(payload);
        for _ in 0..header.records {
            if Record::read(&mut input).and_then(|record| self.apply(record)).is_none() {
                return Err(damaged(
                    path,
                    header.offset,
                    "found a record that contradicts what is before it",
                ));
            }
        }
        if !input.is_empty() {
            return Err(damaged(path, header.offset, "found more records than the header says"));
        }
        Ok(())
    }

    /// `None` if the record cannot be one that this store wrote.
    fn apply(&mut self, record: Record<'_>) -> Option<()> {
        match record {
            Record::Declare { partition, id } => {
                let id = PartitionId::decode(id)?;
                if partition != self.partitions.len() as u64 || self.partitions.find(&id).is_some() {
                    return None;
                }
                self.partitions.add(id, PartitionHead::default(), true, Rows::default());
            }
            Record::Grant { partition, generation } => {
                let partition = self.partitions.get_mut(usize::try_from(partition).ok()?)?;
                partition.head = partition.head.grant(generation);
                partition.submitted = partition.head;
            }
            Record::Revoke { partition } => {
                let partition = self.partitions.get_mut(usize::try_from(partition).ok()?)?;
                partition.head.granted = None;
                partition.submitted = partition.head;
            }
            Record::Commit { partition, generation, epoch, writes } => {
                let partition = self.partitions.get_mut(usize::try_from(partition).ok()?)?;
                // What was written had passed the fence: it passes it again.
                let permit =
                    partition.head.permit(generation, epoch, partition.head.head, self.mutants).ok()?;
                if !WriteBatch::iter(writes).all(|entry| entry.is_ok()) {
                    return None;
                }
                partition.head = partition.head.committed(permit);
                partition.submitted = partition.head;
                partition.rows.push(writes.to_vec());
            }
        }
        Some(())
    }

    /// The state, the end of the log, its next sequence number, and its bytes since the snapshot.
    pub(crate) fn finish(self) -> Result<(Partitions, Tail<F>, u64, u64), StoreError> {
        let next = self.next.unwrap_or(0);
        let Some(tail) = self.tail.filter(|_| next > self.point.sequence) else {
            let what = format!(
                "the log ends before frame {}, which the snapshot says was durable",
                self.point.sequence
            );
            return Err(damaged(&segment_path(self.dir, self.point.segment), 0, what));
        };
        Ok((self.partitions, tail, next, self.since_snapshot))
    }
}
