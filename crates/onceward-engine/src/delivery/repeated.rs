//! Targets that are written without a marker: the same block again until it is confirmed. What a repeat does is the
//! contract's: a sequence drops it, a version is not newer, a key is known, a plain target has the rows twice.

use std::sync::Arc;

use onceward_connector::{SinkBlock, SinkContract};
use onceward_protocol::Position;

use super::Step;
use super::core::{Core, Due};
use crate::job::{JobEnd, TargetAnswer, TargetCall};

#[derive(Debug, Default)]
enum State {
    /// Rows, or the block's closing.
    #[default]
    Idle,
    /// The target, to write the block that ends here.
    Writing(Arc<SinkBlock>, Position),
    /// Time, to write the same block again.
    Backoff(Arc<SinkBlock>, Position, i64),
}

/// A target that needs no opening.
#[derive(Debug, Default)]
pub(super) struct Repeated {
    state: State,
}

impl Repeated {
    pub(super) fn is_at_rest(&self) -> bool {
        matches!(self.state, State::Idle)
    }
    pub(super) fn attempt(&self) -> Option<Position> {
        match self.state {
            State::Writing(_, last) => Some(last),
            State::Idle | State::Backoff(..) => None,
        }
    }

    pub(super) fn next(&mut self, core: &mut Core, now: i64) -> Step {
        let (block, last) = match &self.state {
            State::Backoff(_, _, until) if *until > now => return Step::Wait(Some(*until)),
            State::Backoff(block, last, _) => (block.clone(), *last),
            State::Writing(..) => return Step::Wait(None),
            State::Idle => match core.due_block(now) {
                Due::Nothing => return Step::Wait(None),
                Due::At(time) => return Step::Wait(Some(time)),
                Due::Block(block, last) => (block, last),
            },
        };
        core.rows.attempted(last);
        self.state = State::Writing(block.clone(), last);
        Step::Call(match core.plan.contract {
            // Not the finished position: that may have passed rows which no target saw.
            SinkContract::Sequence => TargetCall::SequenceWrite { block, after: core.cursor.marked },
            _ => TargetCall::PlainWrite(block),
        })
    }

    pub(super) fn answered(&mut self, core: &mut Core, answer: TargetAnswer) -> Result<(), JobEnd> {
        match (&self.state, answer) {
            (State::Writing(_, last), TargetAnswer::Done) => {
                core.progressed();
                core.mark(*last);
                core.finish(*last);
                self.state = State::Idle;
                Ok(())
            }
            (_, answer) => Err(core.unexpected(answer, "a block was written")),
        }
    }

    /// Write the same block again, later each time.
    pub(super) fn again(&mut self, until: i64) {
        if let State::Writing(block, last) = std::mem::take(&mut self.state) {
            self.state = State::Backoff(block, last, until);
        }
    }
    /// The block is given up.
    pub(super) fn go_on(&mut self) {
        self.state = State::Idle;
    }
}
