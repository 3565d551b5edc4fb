//! Targets that drop a block whose token they remember: BORDERS-BEFORE-ATTEMPT.
//!
//! Where a block begins and ends is committed before it is sent for the first time, and whoever sends it again, this
//! job or a successor, sends exactly these rows under the same token.

use std::sync::Arc;

use onceward_connector::{BlockToken, SinkBlock, target_name};
use onceward_protocol::codec::{Reader, put_varint};
use onceward_protocol::{PartitionId, Position, SinkIdentity};
use onceward_store::{TableId, WriteBatch};
use xxhash_rust::xxh3::Xxh3;

use super::Step;
use super::core::{Core, Due};
use crate::job::{JobEnd, TargetAnswer, TargetCall};
use crate::stored::borders_key;

/// Where a block begins and ends, and what is in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Borders {
    /// The first row.
    pub first: Position,
    /// The last row.
    pub last: Position,
    /// How many rows.
    pub rows: u64,
    /// XXH3-128 over positions, lengths and payloads.
    pub digest: u128,
}

impl Borders {
    /// The borders of `block`; `None` if it has no row.
    pub fn of(block: &SinkBlock) -> Option<Self> {
        let mut digest = Xxh3::new();
        for (position, row) in block.rows() {
            digest.update(&position.encode());
            digest.update(&(row.len() as u64).to_be_bytes());
            digest.update(row);
        }
        let (first, _) = block.rows().next()?;
        Some(Borders { first, last: block.last()?, rows: block.len() as u64, digest: digest.digest128() })
    }
    /// Bytes as persisted.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(50);
        out.extend_from_slice(&self.first.encode());
        out.extend_from_slice(&self.last.encode());
        put_varint(&mut out, self.rows);
        out.extend_from_slice(&self.digest.to_be_bytes());
        out
    }
    /// The inverse of [`Borders::encode`].
    pub fn decode(input: &mut Reader<'_>) -> Option<Self> {
        Some(Borders {
            first: Position::decode(input.array()?),
            last: Position::decode(input.array()?),
            rows: input.varint()?,
            digest: u128::from_be_bytes(input.array()?),
        })
    }
}

impl std::fmt::Display for Borders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} rows {}..={} with digest {:032x}", self.rows, self.first, self.last, self.digest)
    }
}

/// Where the block stands. Every state names what it waits for.
#[derive(Debug)]
enum State {
    /// Rows, or the block's closing.
    Idle,
    /// The rows of a block that an earlier job may have sent.
    Replay(Borders),
    /// The next epoch, to record the borders.
    ToRecord(Arc<SinkBlock>, Borders),
    /// That epoch's commit.
    Recording(Arc<SinkBlock>, Borders, u64),
    /// This time, to send the block.
    Ready(Arc<SinkBlock>, Borders, i64),
    /// The target, to write it.
    Writing(Arc<SinkBlock>, Borders),
}

/// A target that remembers tokens.
#[derive(Debug)]
pub(super) struct Bordered {
    state: State,
    /// What the target knows this outbox by (SINK-NAME).
    name: String,
    /// The stored borders are of a block that is confirmed.
    clear: bool,
}

impl Bordered {
    pub(super) fn new(core: &Core, partition: &PartitionId, stored: Option<Borders>) -> Self {
        let name = target_name(&SinkIdentity {
            pipeline: String::new(),
            sink: core.plan.name.clone(),
            partition: partition.clone(),
            partition_slug: String::new(),
        });
        // What may be lost is never sent again: its rows are gone.
        let replay = stored.filter(|borders| !core.rows.is_lossy() && borders.last > core.cursor.finished);
        Bordered {
            name,
            clear: stored.is_some() && replay.is_none(),
            state: replay.map_or(State::Idle, State::Replay),
        }
    }
    pub(super) fn is_at_rest(&self) -> bool {
        matches!(self.state, State::Idle) && !self.clear
    }
    pub(super) fn needs_epoch(&self) -> bool {
        matches!(self.state, State::ToRecord(..))
    }
    /// Whether stored borders are to be removed.
    pub(super) fn is_dirty(&self) -> bool {
        self.clear
    }
    pub(super) fn attempt(&self) -> Option<Position> {
        match &self.state {
            State::Writing(_, borders) => Some(borders.last),
            _ => None,
        }
    }
    /// The first row of a block that an earlier job has recorded and that is not complete again.
    pub(super) fn promised(&self) -> Option<Position> {
        match &self.state {
            State::Replay(borders) => Some(borders.first),
            _ => None,
        }
    }
    /// Whether the rows of a recorded block are not all there again.
    pub(super) fn waits_for_a_read(&self, core: &Core) -> bool {
        match &self.state {
            State::Replay(borders) => {
                core.rows.is_by_reference() && core.rows.last_taken() < Some(borders.last)
            }
            _ => false,
        }
    }

    pub(super) fn write_epoch(&mut self, sink: &str, epoch: u64, writes: &mut WriteBatch) {
        if let State::ToRecord(block, borders) = &self.state {
            writes.put(TableId::META, &borders_key(sink), &borders.encode());
            self.state = State::Recording(block.clone(), *borders, epoch);
        } else if self.clear {
            writes.delete(TableId::META, &borders_key(sink));
        }
        self.clear = false;
    }
    pub(super) fn committed(&mut self, epoch: u64) {
        if let State::Recording(block, borders, proof) = &self.state
            && *proof <= epoch
        {
            self.state = State::Ready(block.clone(), *borders, i64::MIN);
        }
    }

    pub(super) fn next(&mut self, core: &mut Core, now: i64, stopping: bool) -> Result<Step, JobEnd> {
        match &self.state {
            State::Replay(borders) => match replayed(core, borders, stopping)? {
                Some(block) => self.state = State::Ready(Arc::new(block), *borders, i64::MIN),
                None => return Ok(Step::Wait(None)),
            },
            State::Idle => match core.due_block(now) {
                Due::Nothing => return Ok(Step::Wait(None)),
                Due::At(time) => return Ok(Step::Wait(Some(time))),
                Due::Block(block, _) => {
                    let Some(borders) = Borders::of(&block) else { return Ok(Step::Wait(None)) };
                    // A block that is never sent twice needs no record.
                    self.state = match core.rows.is_lossy() {
                        true => State::Ready(block, borders, i64::MIN),
                        false => State::ToRecord(block, borders),
                    };
                }
            },
            State::Ready(..) | State::ToRecord(..) | State::Recording(..) | State::Writing(..) => {}
        }
        let State::Ready(block, borders, at) = &self.state else { return Ok(Step::Wait(None)) };
        if *at > now {
            return Ok(Step::Wait(Some(*at)));
        }
        let (block, borders) = (block.clone(), *borders);
        core.rows.attempted(borders.last);
        let call = TargetCall::TokenWrite { block: block.clone(), token: self.token(&borders) };
        self.state = State::Writing(block, borders);
        Ok(Step::Call(call))
    }

    /// A function of creation, sink, partition, borders and content, and of nothing else.
    fn token(&self, borders: &Borders) -> BlockToken {
        let Borders { first, last, digest, .. } = borders;
        let at = |position: &Position| format!("{}.{}", position.major, position.minor);
        BlockToken { text: format!("{}:{}-{}:{digest:032x}", self.name, at(first), at(last)) }
    }

    pub(super) fn answered(&mut self, core: &mut Core, answer: TargetAnswer) -> Result<(), JobEnd> {
        match (&self.state, answer) {
            (State::Writing(_, borders), TargetAnswer::Done) => {
                core.progressed();
                core.mark(borders.last);
                core.finish(borders.last);
                self.go_on();
                Ok(())
            }
            (_, answer) => Err(core.unexpected(answer, "a block was written")),
        }
    }

    /// Send the same block again, later each time.
    pub(super) fn again(&mut self, until: i64) {
        if let State::Writing(block, borders) = &self.state {
            self.state = State::Ready(block.clone(), *borders, until);
        }
    }
    /// The block is confirmed or given up: its borders go with the next epoch.
    pub(super) fn go_on(&mut self) {
        self.state = State::Idle;
        self.clear = true;
    }
}

/// The rows of a recorded block, once they are all owed again. They must be the very same.
fn replayed(core: &Core, borders: &Borders, stopping: bool) -> Result<Option<SinkBlock>, JobEnd> {
    let complete = core.rows.last_owed() >= Some(borders.last);
    let ended = !core.rows.is_by_reference() || (core.flush && !stopping && core.rows.is_recorded());
    if !complete && !ended {
        return Ok(None);
    }
    let block = core.rows.block_through(borders.last);
    match Borders::of(&block) {
        Some(found) if found == *borders => Ok(Some(block)),
        found => {
            let found = found.map_or_else(|| "no row".to_owned(), |found| found.to_string());
            Err(core
                .broken("BORDERS-BEFORE-ATTEMPT", format!("may have sent {borders}, and now has {found}")))
        }
    }
}
