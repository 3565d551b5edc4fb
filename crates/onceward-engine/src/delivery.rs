//! Delivery of one sink's outbox on one partition: OPEN-ORDER, OPENING, TRUST-WINDOW, MARKER-CAS.
//!
//! Rows enter the outbox with an epoch and leave it with a later one, after the target has confirmed
//! them. In between the target may be attempted any number of times; its own marker tells what arrived.

use std::collections::VecDeque;
use std::sync::Arc;

use onceward_connector::{BlockPolicy, RowChunk, SinkBlock, SinkContract, TargetError};
use onceward_protocol::{Cursor, CursorPhase, Fence, Marker, Mutant, Mutants, OpenDecision, Position};
use onceward_store::{TableId, WriteBatch};

use crate::entropy::Nonces;
use crate::error::EngineError;
use crate::job::{JobEnd, Request, SinkStats, TargetAnswer, TargetCall};
use crate::stored::{
    Stored, by_reference_key, cursor_key, encode_chunk, encode_count, outbox_key, taken_key,
};

/// Opens in a row that may end without an answer before the job gives up.
pub const MAX_OPENS: u32 = 20;
/// First pause after an open without an answer; doubles up to [`MAX_BACKOFF_US`].
const FIRST_BACKOFF_US: i64 = 100_000;
/// Longest pause between opens.
const MAX_BACKOFF_US: i64 = 10_000_000;
/// Owed rows above which the job must not take more input.
pub const MAX_OWED_BYTES: usize = 256 << 20;

/// Where a sink stands. Every state names what it waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Not opened yet: nothing was ever owed to it in this job.
    Closed,
    /// The target, to take the fence.
    Fencing(Fence),
    /// The next epoch, to prove the generation.
    ToProve(Fence),
    /// That epoch's commit.
    Proving(Fence, u64),
    /// The target, to tell the marker.
    Reading(Fence),
    /// The target, to create the marker.
    Creating(Fence),
    /// The next epoch, to record `open`.
    ToOpen(Fence),
    /// That epoch's commit.
    Opening(Fence, u64),
    /// Rows, or the block's closing.
    Open(Fence),
    /// The target, to write the block that ends here.
    Writing(Fence, Position),
    /// Time, to open again.
    Backoff(i64),
}

/// What a sink is called and how it behaves.
#[derive(Clone, Debug)]
pub struct SinkPlan {
    /// Number in the plan.
    pub number: u32,
    /// Name in the manifest.
    pub name: String,
    /// Its contract.
    pub contract: SinkContract,
    /// When blocks close.
    pub policy: BlockPolicy,
    /// Whether a source may owe it ranges of itself instead of rows.
    pub by_reference: bool,
    /// Broken rules, for the simulator.
    pub mutants: Mutants,
}

/// The delivery of one sink on one partition.
pub struct Delivery {
    plan: SinkPlan,
    partition: String,
    cursor: Cursor,
    cursor_dirty: bool,
    state: State,
    opens: u32,
    /// Committed rows that are owed, in order, with the epoch that stored each chunk.
    owed: VecDeque<(u64, Arc<RowChunk>)>,
    /// Rows of epochs on their way to the store.
    in_epochs: VecDeque<(u64, Arc<RowChunk>)>,
    /// Rows of the epoch being gathered.
    gathering: RowChunk,
    /// Finished chunks whose rows are still stored.
    to_delete: Vec<u64>,
    /// What the target's marker was when it was last seen or set.
    marker: Position,
    /// Rows up to here are not owed any more.
    done: Position,
    owed_rows: usize,
    owed_bytes: usize,
    block_since: Option<i64>,
    flush: bool,
    /// What is owed is a range of the source: rows are kept in memory only, read again after a restart, and have
    /// the source's own positions. Decided when the partition first owes the sink anything, and kept.
    by_reference: bool,
    by_reference_stored: bool,
    /// The last row pushed by reference: a re-read brings it again.
    pushed: Position,
    /// Nothing may be opened or written while an ancestor is undrained (ANCESTOR-GATE).
    gated: bool,
    /// No further call is started (QUIET-PAUSE).
    halted: bool,
    /// Rows ever put into this outbox by closed epochs.
    taken: u64,
}

impl Delivery {
    /// Takes up what is stored.
    pub fn new(plan: SinkPlan, partition: &str, stored: &mut Stored) -> Self {
        let known = stored.cursors.get(&plan.name).copied();
        let cursor = known.unwrap_or_default();
        let fresh = known.is_none() && !stored.taken.contains_key(&plan.name);
        let by_reference_stored = stored.by_reference.contains(&plan.name);
        let mut delivery = Delivery {
            partition: partition.to_owned(),
            cursor,
            cursor_dirty: false,
            state: State::Closed,
            opens: 0,
            owed: VecDeque::new(),
            in_epochs: VecDeque::new(),
            gathering: RowChunk::default(),
            to_delete: Vec::new(),
            marker: cursor.marked,
            done: cursor.finished,
            owed_rows: 0,
            owed_bytes: 0,
            block_since: None,
            flush: false,
            by_reference: by_reference_stored || (plan.by_reference && fresh),
            by_reference_stored,
            pushed: cursor.finished,
            gated: false,
            halted: false,
            taken: stored.taken.get(&plan.name).copied().unwrap_or(0),
            plan,
        };
        for (epoch, chunk) in stored.outbox.remove(&delivery.plan.name).unwrap_or_default() {
            delivery.add_owed(epoch, Arc::new(chunk));
        }
        delivery
    }
    fn add_owed(&mut self, epoch: u64, chunk: Arc<RowChunk>) {
        self.owed_rows += chunk.len();
        self.owed_bytes += chunk.bytes();
        self.owed.push_back((epoch, chunk));
    }
    /// The sink's number.
    pub fn number(&self) -> u32 {
        self.plan.number
    }
    /// Puts a row into the epoch being gathered.
    pub fn push(&mut self, position: Position, row: &[u8]) {
        self.gathering.push(position, row);
    }
    /// Whether what is owed is a range of the source.
    pub fn is_by_reference(&self) -> bool {
        self.by_reference
    }
    /// Puts a row into the epoch being gathered under the source's own position; one that was pushed before, or is
    /// finished, is ignored.
    pub fn push_at(&mut self, position: Position, row: &[u8]) {
        if position > self.pushed {
            self.pushed = position;
            self.gathering.push(position, row);
        }
    }
    /// The first row pushed by reference that the target has not confirmed: the source's finished place stays below
    /// it (CONTIGUOUS-PROGRESS).
    pub fn unfinished(&self) -> Option<Position> {
        if !self.by_reference {
            return None;
        }
        let stored = self.owed.iter().chain(&self.in_epochs).map(|(_, chunk)| &**chunk);
        let mut chunks = stored.chain([&self.gathering]);
        let chunk = chunks.find(|chunk| chunk.last().is_some_and(|last| last > self.done))?;
        chunk.row(chunk.rows_through(self.done)).map(|(position, _)| position)
    }
    /// Payload bytes in the epoch being gathered.
    pub fn gathered_bytes(&self) -> usize {
        self.gathering.bytes()
    }
    /// Whether the job must wait before it takes more input.
    pub fn is_full(&self) -> bool {
        let in_epochs: usize = self.in_epochs.iter().map(|(_, chunk)| chunk.bytes()).sum();
        self.owed_bytes + in_epochs + self.gathering.bytes() > MAX_OWED_BYTES
    }
    /// Current figures.
    pub fn figures(&self) -> SinkStats {
        let gathering = self.gathering.len() as u64;
        let in_epochs: usize = self.in_epochs.iter().map(|(_, chunk)| chunk.len()).sum();
        let owed = self.owed_rows as u64 + in_epochs as u64 + gathering;
        if self.by_reference {
            return SinkStats { sink: self.plan.number, delivered: self.taken, owed };
        }
        SinkStats { sink: self.plan.number, delivered: (self.taken + gathering).saturating_sub(owed), owed }
    }
    /// Close and write blocks as soon as there is anything in them: the input has ended, or a stop.
    pub fn set_flush(&mut self) {
        self.flush = true;
    }
    /// Opens or closes the gate. What is open already stays open.
    pub fn set_gate(&mut self, closed: bool) {
        self.gated = closed;
    }
    /// Starts no further call.
    pub fn halt(&mut self) {
        self.halted = true;
    }
    /// Whether no call is under way.
    pub fn is_quiet(&self) -> bool {
        !matches!(self.state, State::Fencing(_) | State::Reading(_) | State::Creating(_) | State::Writing(..))
    }
    /// Whether nothing is owed and everything is recorded.
    pub fn is_settled(&self) -> bool {
        self.owed.is_empty()
            && self.in_epochs.is_empty()
            && self.gathering.is_empty()
            && !self.cursor_dirty
            && self.to_delete.is_empty()
            && matches!(self.state, State::Closed | State::Open(_))
    }
    /// Whether something waits for the next commit; `urgent` if it should not wait for the interval.
    pub fn wants_commit(&self) -> (bool, bool) {
        let proof = matches!(self.state, State::ToProve(_) | State::ToOpen(_));
        let dirty = proof || self.cursor_dirty || !self.to_delete.is_empty() || !self.gathering.is_empty();
        (dirty, proof || (self.flush && dirty))
    }

    /// Writes this sink's part of the epoch that is being closed.
    pub fn write_epoch(&mut self, epoch: u64, writes: &mut WriteBatch) {
        for stored in self.to_delete.drain(..) {
            writes.delete(TableId::OUTBOX, &outbox_key(&self.plan.name, stored));
        }
        if !self.gathering.is_empty() {
            let chunk = std::mem::take(&mut self.gathering);
            if self.by_reference && !self.by_reference_stored {
                writes.put(TableId::META, &by_reference_key(&self.plan.name), &[]);
                self.by_reference_stored = true;
            }
            if !self.by_reference {
                writes.put(TableId::OUTBOX, &outbox_key(&self.plan.name, epoch), &encode_chunk(&chunk));
            }
            if matches!(self.state, State::Opening(..) | State::Open(_) | State::Writing(..)) {
                self.intend(chunk.last());
            }
            if !self.by_reference {
                self.taken += chunk.len() as u64;
                writes.put(TableId::META, &taken_key(&self.plan.name), &encode_count(self.taken));
            }
            self.in_epochs.push_back((epoch, Arc::new(chunk)));
        }
        match self.state {
            State::ToProve(fence) => {
                self.cursor.fence = Some(fence);
                if self.cursor.phase == CursorPhase::New {
                    self.cursor.phase = CursorPhase::Opening;
                }
                self.cursor_dirty = true;
                self.state = State::Proving(fence, epoch);
            }
            State::ToOpen(fence) => {
                self.cursor.phase = CursorPhase::Open;
                let last = self.in_epochs.back().or(self.owed.back()).and_then(|(_, chunk)| chunk.last());
                self.intend(last);
                self.cursor_dirty = true;
                self.state = State::Opening(fence, epoch);
            }
            _ => {}
        }
        if self.cursor_dirty {
            writes.put(TableId::META, &cursor_key(&self.plan.name), &self.cursor.encode());
            if self.by_reference {
                // A re-read must not count twice: what counts is what is finished.
                writes.put(TableId::META, &taken_key(&self.plan.name), &encode_count(self.taken));
            }
            self.cursor_dirty = false;
        }
    }

    /// `intended` is committed before the first attempt and never lowered. It follows attempts, not rows: raised
    /// before the marker was read, it could catch up with the marker of another branch.
    fn intend(&mut self, last: Option<Position>) {
        if let Some(last) = last.filter(|last| *last > self.cursor.intended) {
            self.cursor.intended = last;
            self.cursor_dirty = true;
        }
    }

    /// An epoch is committed: its rows are owed from now on, and what waited for it goes on.
    pub fn committed(&mut self, epoch: u64, out: &mut Vec<Request>) {
        while self.in_epochs.front().is_some_and(|(stored, _)| *stored <= epoch) {
            if let Some((stored, chunk)) = self.in_epochs.pop_front() {
                self.add_owed(stored, chunk);
            }
        }
        match self.state {
            State::Proving(fence, proof) if proof <= epoch && !self.halted => {
                self.call(TargetCall::ReadMarker, out);
                self.state = State::Reading(fence);
            }
            State::Opening(fence, proof) if proof <= epoch => self.state = State::Open(fence),
            _ => {}
        }
    }

    /// Does what can be done now. Answers when to be asked again.
    pub fn poll(&mut self, now: i64, nonces: &mut Nonces, out: &mut Vec<Request>) -> Option<i64> {
        if self.halted || self.gated {
            return None;
        }
        match self.state {
            State::Closed if !self.owed.is_empty() => self.open(nonces, out),
            State::Backoff(until) if until <= now => self.open(nonces, out),
            State::Backoff(until) => return Some(until),
            _ => {}
        }
        let State::Open(fence) = self.state else { return None };
        if self.owed.is_empty() {
            self.block_since = None;
            return None;
        }
        let since = *self.block_since.get_or_insert(now);
        let due = since.saturating_add(self.plan.policy.max_age_us);
        let full = self.owed_rows >= self.plan.policy.max_rows
            || self.owed_bytes >= self.plan.policy.max_bytes
            || self.is_full();
        if !(full || self.flush || due <= now) {
            return Some(due);
        }
        self.write_block(fence, out);
        None
    }

    fn open(&mut self, nonces: &mut Nonces, out: &mut Vec<Request>) {
        let fence = Fence(nonces.next_u128());
        match self.plan.contract {
            SinkContract::ProgressInTarget => {
                self.call(TargetCall::TakeFence(fence), out);
                self.state = State::Fencing(fence);
            }
            _ => self.state = State::Open(fence),
        }
    }

    fn write_block(&mut self, fence: Fence, out: &mut Vec<Request>) {
        let mut block = SinkBlock::default();
        let (mut rows, mut bytes) = (0, 0);
        'chunks: for (_, chunk) in &self.owed {
            let mut range = 0..0;
            for (index, (position, payload)) in chunk.iter().enumerate() {
                if position <= self.done {
                    range = index + 1..index + 1;
                    continue;
                }
                let over = rows + 1 > self.plan.policy.max_rows
                    || bytes + payload.len() > self.plan.policy.max_bytes;
                if rows > 0 && over {
                    if !range.is_empty() {
                        block.parts.push((chunk.clone(), range));
                    }
                    break 'chunks;
                }
                rows += 1;
                bytes += payload.len();
                range.end = index + 1;
            }
            if !range.is_empty() {
                block.parts.push((chunk.clone(), range));
            }
        }
        let Some(last) = block.last() else {
            self.finish(self.done);
            return;
        };
        let block = Arc::new(block);
        let call = match self.plan.contract {
            SinkContract::ProgressInTarget => TargetCall::Write {
                block,
                expected: Marker { position: self.marker, fence },
                next: Marker { position: last, fence },
            },
            SinkContract::Sequence => TargetCall::SequenceWrite { block, after: self.cursor.marked },
            _ => TargetCall::PlainWrite(block),
        };
        self.call(call, out);
        if self.plan.mutants.has(Mutant::OutboxDroppedEarly) && !self.by_reference {
            self.to_delete.extend(self.owed.iter().map(|(epoch, _)| *epoch));
        }
        self.state = State::Writing(fence, last);
        self.block_since = None;
    }

    fn call(&self, call: TargetCall, out: &mut Vec<Request>) {
        out.push(Request::Target { sink: self.plan.number, call });
    }

    /// The target's marker is known to be at `position`.
    fn mark(&mut self, position: Position) {
        self.marker = position;
        if self.cursor.marked < position {
            self.cursor.marked = position;
            self.cursor_dirty = true;
        }
    }

    /// Everything up to `position` is in the target.
    fn finish(&mut self, position: Position) {
        let before = self.done;
        self.done = self.done.max(position);
        if self.by_reference {
            let newly = |chunk: &RowChunk| chunk.rows_through(self.done) - chunk.rows_through(before);
            let chunks = self.owed.iter().map(|(_, chunk)| newly(chunk)).take_while(|rows| *rows > 0);
            self.taken += chunks.sum::<usize>() as u64;
        }
        if self.cursor.finished < self.done {
            self.cursor.finished = self.done;
            self.cursor_dirty = true;
        }
        while let Some((epoch, chunk)) = self.owed.front() {
            if chunk.last().is_some_and(|last| last > self.done) {
                break;
            }
            self.owed_rows -= chunk.len();
            self.owed_bytes -= chunk.bytes();
            if !self.by_reference {
                self.to_delete.push(*epoch);
            }
            self.owed.pop_front();
        }
    }

    /// Takes the target's answer.
    pub fn answered(
        &mut self,
        now: i64,
        answer: Result<TargetAnswer, TargetError>,
        out: &mut Vec<Request>,
    ) -> Result<(), JobEnd> {
        let answer = match answer {
            Ok(answer) => answer,
            Err(TargetError::Fenced(reason)) => return Err(JobEnd::Fenced(reason)),
            Err(TargetError::Definite(error)) => {
                return Err(JobEnd::Failed(EngineError::Target {
                    sink: self.plan.name.clone(),
                    partition: self.partition.clone(),
                    error,
                }));
            }
            Err(TargetError::Unknown(reason)) => return self.again(now, reason),
        };
        match (self.state, answer) {
            (State::Fencing(fence), TargetAnswer::Done) => self.state = State::ToProve(fence),
            (State::Reading(fence), TargetAnswer::Marker(marker)) => {
                match self.cursor.decide(marker, fence) {
                    OpenDecision::Fenced => {
                        return Err(JobEnd::Fenced(format!(
                            "another open of sink {} came after ours",
                            self.plan.name
                        )));
                    }
                    OpenDecision::Stop(reason) => {
                        return Err(JobEnd::Failed(EngineError::Marker {
                            sink: self.plan.name.clone(),
                            partition: self.partition.clone(),
                            reason,
                        }));
                    }
                    // Ending: the next job opens again.
                    OpenDecision::Create if self.halted => self.state = State::Backoff(i64::MAX),
                    OpenDecision::Create => {
                        let marker = Marker { position: self.cursor.finished, fence };
                        self.marker = marker.position;
                        self.call(TargetCall::CreateMarker(marker), out);
                        self.state = State::Creating(fence);
                    }
                    OpenDecision::Resume(from) => {
                        // Opening alone is no progress: a target that never takes a block is given up.
                        if from > self.done {
                            self.opens = 0;
                        }
                        if let Some(marker) = marker {
                            self.mark(marker.position);
                        }
                        self.finish(from);
                        self.state = State::ToOpen(fence);
                    }
                }
            }
            (State::Creating(fence), TargetAnswer::Done) => {
                self.opens = 0;
                self.mark(self.marker);
                self.state = State::ToOpen(fence);
            }
            (State::Writing(fence, last), TargetAnswer::Done) => {
                self.opens = 0;
                self.mark(last);
                self.finish(last);
                self.state = State::Open(fence);
            }
            (state, answer) => {
                return Err(JobEnd::Failed(EngineError::Invariant {
                    partition: self.partition.clone(),
                    rule: "OPEN-ORDER",
                    detail: format!("sink {} answered {answer:?} in state {state:?}", self.plan.name),
                }));
            }
        }
        Ok(())
    }

    /// After an unknown outcome nothing goes on under the same fence: open again, later each time.
    fn again(&mut self, now: i64, reason: String) -> Result<(), JobEnd> {
        self.opens += 1;
        if self.opens > MAX_OPENS {
            return Err(JobEnd::Failed(EngineError::TargetUnreachable {
                sink: self.plan.name.clone(),
                partition: self.partition.clone(),
                attempts: self.opens,
                reason,
            }));
        }
        let pause = FIRST_BACKOFF_US.saturating_mul(1 << (self.opens - 1).min(7)).min(MAX_BACKOFF_US);
        self.state = State::Backoff(now.saturating_add(pause));
        Ok(())
    }
}
