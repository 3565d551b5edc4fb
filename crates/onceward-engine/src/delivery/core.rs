//! What every way of delivering shares: the rows, the cursor, when a block is due, and how often to try.

use std::sync::Arc;

use onceward_connector::SinkBlock;
use onceward_protocol::{Cursor, Position};
use onceward_store::{TableId, WriteBatch};

use super::SinkPlan;
use super::keep::Keep;
use super::rows::Rows;
use crate::error::EngineError;
use crate::job::{JobEnd, TargetAnswer};
use crate::stored::{Stored, cursor_key};

/// Attempts in a row that may end without an answer before the job gives up.
pub const MAX_OPENS: u32 = 20;
/// First pause after an attempt without an answer; doubles up to [`MAX_BACKOFF_US`].
const FIRST_BACKOFF_US: i64 = 100_000;
/// Longest pause between attempts.
const MAX_BACKOFF_US: i64 = 10_000_000;

/// Whether a block is to be written.
pub(super) enum Due {
    /// This one, now.
    Block(Arc<SinkBlock>, Position),
    /// Not before then.
    At(i64),
    /// Nothing is owed.
    Nothing,
}

/// The part of a delivery that does not depend on the contract.
pub(super) struct Core {
    pub(super) plan: SinkPlan,
    pub(super) partition: String,
    pub(super) cursor: Cursor,
    cursor_dirty: bool,
    pub(super) rows: Rows,
    pub(super) flush: bool,
    block_since: Option<i64>,
    /// Attempts in a row without an answer.
    opens: u32,
}

impl Core {
    /// Takes up what is stored; with the reason why nothing may be written, if there is one.
    pub(super) fn new(plan: SinkPlan, partition: String, stored: &mut Stored) -> (Self, Option<EngineError>) {
        let cursor = stored.cursors.get(&plan.name).copied().unwrap_or_default();
        let (keep, refusal) = Keep::of(&plan, &partition, stored);
        let chunks = stored.outbox.remove(&plan.name).unwrap_or_default();
        let rows = Rows::new(&plan, keep, cursor.finished, chunks);
        let core = Core {
            plan,
            partition,
            cursor,
            cursor_dirty: false,
            rows,
            flush: false,
            block_since: None,
            opens: 0,
        };
        (core, refusal)
    }
    /// Whether anything but rows waits to be recorded.
    pub(super) fn is_dirty(&self) -> bool {
        self.cursor_dirty || self.rows.is_dirty()
    }
    /// The cursor changed.
    pub(super) fn touch_cursor(&mut self) {
        self.cursor_dirty = true;
    }
    /// Records the cursor if it has changed (SINK-CURSOR).
    pub(super) fn write_cursor(&mut self, writes: &mut WriteBatch) {
        if self.cursor_dirty {
            writes.put(TableId::META, &cursor_key(&self.plan.name), &self.cursor.encode());
            self.cursor_dirty = false;
        }
    }

    /// `intended` is committed before the first attempt and never lowered.
    pub(super) fn intend(&mut self, last: Option<Position>) {
        if let Some(last) = last.filter(|last| *last > self.cursor.intended) {
            self.cursor.intended = last;
            self.cursor_dirty = true;
        }
    }
    /// The target is known to hold everything up to `position`.
    pub(super) fn mark(&mut self, position: Position) {
        if self.cursor.marked < position {
            self.cursor.marked = position;
            self.cursor_dirty = true;
        }
    }
    /// Everything up to `position` is in the target.
    pub(super) fn finish(&mut self, position: Position) {
        self.rows.finish(position);
        self.note_finished();
    }
    /// What is owed up to `position` will never be in the target, as far as we know.
    pub(super) fn give_up(&mut self, position: Position) {
        self.rows.give_up(position);
        self.note_finished();
    }
    fn note_finished(&mut self) {
        if self.cursor.finished < self.rows.done() {
            self.cursor.finished = self.rows.done();
            self.cursor_dirty = true;
        }
    }

    /// Whether a block is to be written now: it is full or old enough, or nothing more comes.
    pub(super) fn due_block(&mut self, now: i64) -> Due {
        let Some(due) = self.block_due(now) else { return Due::Nothing };
        if due > now {
            return Due::At(due);
        }
        let block = self.rows.block(&self.plan.policy);
        let Some(last) = block.last() else { return Due::Nothing };
        self.block_since = None;
        Due::Block(Arc::new(block), last)
    }
    fn block_due(&mut self, now: i64) -> Option<i64> {
        if self.rows.nothing_owed() {
            self.block_since = None;
            return None;
        }
        let since = *self.block_since.get_or_insert(now);
        let full = self.rows.fills(&self.plan.policy) || self.rows.is_full();
        Some(if full || self.flush { now } else { since.saturating_add(self.plan.policy.max_age_us) })
    }

    /// The target has answered with something that is progress.
    pub(super) fn progressed(&mut self) {
        self.opens = 0;
    }
    /// After an unknown outcome: when to try again, later each time.
    pub(super) fn again(&mut self, now: i64, reason: String) -> Result<i64, JobEnd> {
        self.opens = self.opens.saturating_add(1);
        // At most once, a target that does not answer costs rows, not the job.
        if self.opens > MAX_OPENS && !self.rows.is_lossy() {
            return Err(JobEnd::Failed(EngineError::TargetUnreachable {
                sink: self.plan.name.clone(),
                partition: self.partition.clone(),
                attempts: self.opens,
                reason,
            }));
        }
        let pause = FIRST_BACKOFF_US.saturating_mul(1 << (self.opens - 1).min(7)).min(MAX_BACKOFF_US);
        Ok(now.saturating_add(pause))
    }

    /// An answer that does not belong to the call.
    #[cold]
    pub(super) fn unexpected(&self, answer: TargetAnswer, state: &str) -> JobEnd {
        self.broken("OPEN-ORDER", format!("answered {answer:?} while {state}"))
    }
    /// A rule of the protocol does not hold.
    #[cold]
    pub(super) fn broken(&self, rule: &'static str, what: String) -> JobEnd {
        JobEnd::Failed(EngineError::Invariant {
            partition: self.partition.clone(),
            rule,
            detail: format!("sink {} {what}", self.plan.name),
        })
    }
}
