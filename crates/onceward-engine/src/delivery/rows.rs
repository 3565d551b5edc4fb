//! The rows of one outbox: gathered, in epochs on their way to the store, owed.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use onceward_connector::{BlockPolicy, RowChunk, SinkBlock};
use onceward_protocol::{Mutant, Position};
use onceward_store::{TableId, WriteBatch};

use super::SinkPlan;
use super::keep::Keep;
use crate::job::SinkStats;
use crate::stored::{encode_chunk, outbox_key};

/// Owed rows above which the job must not take more input.
pub const MAX_OWED_BYTES: usize = 256 << 20;

/// A chunk of which some rows are owed.
struct Owed {
    /// The epoch that contains it.
    epoch: u64,
    chunk: Arc<RowChunk>,
    /// The rows that are owed.
    rows: Range<usize>,
    /// Its stored rows are deleted already (only ever by a broken rule).
    deleted: bool,
}

impl Owed {
    fn row(&self, index: usize) -> Option<(Position, &[u8])> {
        self.chunk.row(index).filter(|_| self.rows.contains(&index))
    }
    fn first(&self) -> Option<Position> {
        self.row(self.rows.start).map(|(position, _)| position)
    }
    fn last(&self) -> Option<Position> {
        self.row(self.rows.end.checked_sub(1)?).map(|(position, _)| position)
    }
    /// How many of the rows are at or before `position`.
    fn through(&self, position: Position) -> usize {
        if self.last().is_none_or(|last| last <= position) {
            return self.rows.len();
        }
        self.chunk.rows_through(position).saturating_sub(self.rows.start)
    }
    fn bytes_of(&self, rows: Range<usize>) -> usize {
        if rows.len() == self.chunk.len() {
            return self.chunk.bytes();
        }
        rows.filter_map(|index| self.chunk.row(index)).map(|(_, row)| row.len()).sum()
    }
}

/// The rows of one outbox.
pub(super) struct Rows {
    sink: String,
    keep: Keep,
    /// Rows of the epoch being gathered.
    gathering: RowChunk,
    /// Rows of epochs on their way to the store.
    in_epochs: VecDeque<(u64, Arc<RowChunk>)>,
    /// Rows of committed epochs that are owed, in order.
    owed: VecDeque<Owed>,
    owed_rows: usize,
    owed_bytes: usize,
    /// Finished chunks whose rows are still stored.
    to_delete: Vec<u64>,
    /// Rows up to here are not owed any more.
    done: Position,
    /// Figures have changed since they were recorded.
    counts_dirty: bool,
    /// Bytes that may wait if they may also be lost.
    queue_bytes: usize,
    /// Nothing is owed any more: what comes is dropped.
    shut: bool,
    dropped_early: bool,
}

impl Rows {
    /// What is stored; everything up to `done` is finished.
    pub(super) fn new(plan: &SinkPlan, keep: Keep, done: Position, chunks: Vec<(u64, RowChunk)>) -> Self {
        let queue = plan.at_most_once.map_or(0, |limits| limits.queue_bytes);
        let mut rows = Rows {
            sink: plan.name.clone(),
            counts_dirty: keep.is_news(),
            keep,
            gathering: RowChunk::default(),
            in_epochs: VecDeque::new(),
            owed: VecDeque::new(),
            owed_rows: 0,
            owed_bytes: 0,
            to_delete: Vec::new(),
            done,
            queue_bytes: usize::try_from(queue).unwrap_or(usize::MAX),
            shut: false,
            dropped_early: plan.mutants.has(Mutant::OutboxDroppedEarly),
        };
        for (epoch, chunk) in chunks {
            rows.owe(epoch, Arc::new(chunk));
        }
        rows.finish(done);
        rows
    }
    pub(super) fn is_by_reference(&self) -> bool {
        matches!(self.keep, Keep::Reference { .. })
    }
    fn is_by_value(&self) -> bool {
        matches!(self.keep, Keep::Value { .. })
    }
    /// Whether what is owed may be lost.
    pub(super) fn is_lossy(&self) -> bool {
        matches!(self.keep, Keep::Memory { .. })
    }

    /// Puts a row into the epoch being gathered.
    pub(super) fn push(&mut self, position: Position, row: &[u8]) {
        if let Keep::Reference { pushed, .. } = &mut self.keep {
            if position <= *pushed {
                return;
            }
            *pushed = position;
        }
        self.gathering.push(position, row);
    }
    pub(super) fn gathered_rows(&self) -> u64 {
        self.gathering.len() as u64
    }
    /// Rows being gathered that no epoch contained before.
    pub(super) fn new_rows(&self) -> u64 {
        let Keep::Reference { counts, .. } = &self.keep else { return self.gathered_rows() };
        if self.gathering.row(0).is_some_and(|(first, _)| first > counts.taken) {
            return self.gathered_rows();
        }
        self.gathering.iter().filter(|(position, _)| *position > counts.taken).count() as u64
    }
    pub(super) fn gathered_bytes(&self) -> usize {
        self.gathering.bytes()
    }
    /// The first row that is owed, or will be.
    pub(super) fn first(&self) -> Option<Position> {
        let owed = self.owed.front().and_then(Owed::first);
        let in_epochs = || self.in_epochs.front().and_then(|(_, chunk)| chunk.row(0));
        owed.or_else(|| in_epochs().or_else(|| self.gathering.row(0)).map(|(position, _)| position))
    }
    /// The last row of a closed epoch.
    pub(super) fn last_taken(&self) -> Option<Position> {
        self.in_epochs.back().and_then(|(_, chunk)| chunk.last()).or_else(|| self.last_owed())
    }
    /// The last row that is owed.
    pub(super) fn last_owed(&self) -> Option<Position> {
        self.owed.back().and_then(Owed::last)
    }
    pub(super) fn done(&self) -> Position {
        self.done
    }
    /// Whether the job must wait before it takes more input. What may be lost waits for nothing.
    pub(super) fn is_full(&self) -> bool {
        let in_epochs: usize = self.in_epochs.iter().map(|(_, chunk)| chunk.bytes()).sum();
        !self.is_lossy() && self.owed_bytes + in_epochs + self.gathering.bytes() > MAX_OWED_BYTES
    }
    /// Whether what is owed fills a block.
    pub(super) fn fills(&self, policy: &BlockPolicy) -> bool {
        self.owed_rows >= policy.max_rows || self.owed_bytes >= policy.max_bytes
    }
    /// Whether no row is owed now.
    pub(super) fn nothing_owed(&self) -> bool {
        self.owed.is_empty()
    }
    /// Whether every row is in a committed epoch.
    pub(super) fn is_recorded(&self) -> bool {
        self.in_epochs.is_empty() && self.gathering.is_empty()
    }
    /// Whether no row is owed, now or later.
    pub(super) fn is_empty(&self) -> bool {
        self.owed.is_empty() && self.is_recorded()
    }
    /// Whether figures or deletions wait to be recorded.
    pub(super) fn is_dirty(&self) -> bool {
        self.counts_dirty || !self.to_delete.is_empty()
    }
    /// Current figures.
    pub(super) fn figures(&self, sink: u32) -> SinkStats {
        let gathering = self.gathered_rows();
        let in_epochs: usize = self.in_epochs.iter().map(|(_, chunk)| chunk.len()).sum();
        let owed = (self.owed_rows + in_epochs) as u64 + gathering;
        let (delivered, dropped) = self.keep.figures(owed, gathering);
        SinkStats { sink, delivered, owed, dropped }
    }

    /// Closes the epoch being gathered. Answers its last row.
    pub(super) fn write_epoch(&mut self, epoch: u64, writes: &mut WriteBatch) -> Option<Position> {
        for stored in self.to_delete.drain(..) {
            writes.delete(TableId::OUTBOX, &outbox_key(&self.sink, stored));
        }
        let chunk = std::mem::take(&mut self.gathering);
        let (rows, last) = (chunk.len() as u64, chunk.last());
        if rows > 0 || self.counts_dirty {
            self.keep.write_epoch(&self.sink, rows, last, writes);
            self.counts_dirty = false;
        }
        if rows > 0 {
            if self.is_by_value() {
                writes.put(TableId::OUTBOX, &outbox_key(&self.sink, epoch), &encode_chunk(&chunk));
            }
            self.in_epochs.push_back((epoch, Arc::new(chunk)));
        }
        last
    }
    /// An epoch is committed: its rows are owed from now on.
    pub(super) fn committed(&mut self, epoch: u64) {
        while self.in_epochs.front().is_some_and(|(stored, _)| *stored <= epoch) {
            let Some((stored, chunk)) = self.in_epochs.pop_front() else { return };
            if let Some(chunk) = self.admit(chunk) {
                self.owe(stored, chunk);
            }
        }
        self.finish(self.done);
    }
    /// What may be lost waits only as far as there is room: whole rows, the others are dropped and counted.
    fn admit(&mut self, chunk: Arc<RowChunk>) -> Option<Arc<RowChunk>> {
        if !self.is_lossy() {
            return Some(chunk);
        }
        let mut room = if self.shut { 0 } else { self.queue_bytes.saturating_sub(self.owed_bytes) };
        if !self.shut && chunk.bytes() <= room {
            return Some(chunk);
        }
        let mut admitted = RowChunk::default();
        for (position, row) in chunk.iter().filter(|_| !self.shut) {
            if row.len() <= room {
                room -= row.len();
                admitted.push(position, row);
            }
        }
        self.keep.lose((chunk.len() - admitted.len()) as u64);
        self.counts_dirty = true;
        (!admitted.is_empty()).then(|| Arc::new(admitted))
    }
    fn owe(&mut self, epoch: u64, chunk: Arc<RowChunk>) {
        self.owed_rows += chunk.len();
        self.owed_bytes += chunk.bytes();
        self.owed.push_back(Owed { epoch, rows: 0..chunk.len(), chunk, deleted: false });
    }

    /// The next block: whole rows from the first that is owed, as many as the policy allows and at least one.
    pub(super) fn block(&self, policy: &BlockPolicy) -> SinkBlock {
        let mut block = SinkBlock::default();
        let (mut rows, mut bytes) = (0, 0);
        for owed in &self.owed {
            let mut until = owed.rows.start;
            for index in owed.rows.clone() {
                let size = owed.chunk.row(index).map_or(0, |(_, row)| row.len());
                if rows > 0 && (rows + 1 > policy.max_rows || bytes + size > policy.max_bytes) {
                    break;
                }
                rows += 1;
                bytes += size;
                until = index + 1;
            }
            if until > owed.rows.start {
                block.parts.push((owed.chunk.clone(), owed.rows.start..until));
            }
            if until < owed.rows.end {
                break;
            }
        }
        block
    }
    /// Everything that is owed up to `last`.
    pub(super) fn block_through(&self, last: Position) -> SinkBlock {
        let mut block = SinkBlock::default();
        for owed in &self.owed {
            let rows = owed.through(last);
            if rows > 0 {
                block.parts.push((owed.chunk.clone(), owed.rows.start..owed.rows.start + rows));
            }
        }
        block
    }
    /// A block up to `last` is being attempted.
    pub(super) fn attempted(&mut self, last: Position) {
        if !self.dropped_early || !self.is_by_value() {
            return;
        }
        for owed in self.owed.iter_mut().filter(|owed| !owed.deleted && owed.last() <= Some(last)) {
            owed.deleted = true;
            self.to_delete.push(owed.epoch);
        }
    }

    /// The target has everything up to `position`.
    pub(super) fn finish(&mut self, position: Position) {
        if let Some((rows, last)) = self.leave(position) {
            self.keep.deliver(rows, last);
        }
    }
    /// What is owed up to `position` is dropped.
    pub(super) fn give_up(&mut self, position: Position) {
        if let Some((rows, _)) = self.leave(position) {
            self.keep.lose(rows);
        }
    }
    /// What is owed up to `position` is not owed any more. Answers how many rows that are, and the last.
    fn leave(&mut self, position: Position) -> Option<(u64, Position)> {
        self.done = self.done.max(position);
        let mut left = None;
        while let Some(front) = self.owed.front_mut() {
            let rows = front.through(self.done);
            let until = front.rows.start + rows;
            if let Some((last, _)) = until.checked_sub(1).and_then(|index| front.row(index)) {
                let before = left.map_or(0, |(before, _)| before);
                left = Some((before + rows as u64, last));
            }
            self.owed_rows -= rows;
            self.owed_bytes -= front.bytes_of(front.rows.start..until);
            front.rows.start = until;
            if !front.rows.is_empty() {
                break;
            }
            let (epoch, deleted) = (front.epoch, front.deleted);
            self.owed.pop_front();
            if self.is_by_value() && !deleted {
                self.to_delete.push(epoch);
            }
        }
        self.counts_dirty |= left.is_some() && !self.is_by_value();
        left
    }

    /// Drops everything after `attempt` and whatever still comes.
    pub(super) fn shut(&mut self, attempt: Option<Position>) {
        self.shut = true;
        let mut dropped = 0;
        for owed in &mut self.owed {
            let keep = attempt.map_or(0, |last| owed.through(last));
            let until = owed.rows.start + keep;
            dropped += owed.rows.end - until;
            self.owed_bytes -= owed.bytes_of(until..owed.rows.end);
            owed.rows.end = until;
        }
        self.owed.retain(|owed| !owed.rows.is_empty());
        self.owed_rows -= dropped;
        self.keep.lose(dropped as u64);
        self.counts_dirty |= dropped > 0;
    }
    /// Whether everything was dropped that waited.
    pub(super) fn is_shut(&self) -> bool {
        self.shut
    }
}
