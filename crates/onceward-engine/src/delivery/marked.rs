//! Progress in the target: OPEN-ORDER, OPENING, TRUST-WINDOW, MARKER-CAS.
//!
//! The target may be attempted any number of times; its own marker tells what arrived. After an unknown outcome
//! nothing goes on under the same fence.

use onceward_protocol::{CursorPhase, Fence, Marker, OpenDecision, Position};

use super::Step;
use super::core::{Core, Due};
use crate::entropy::Nonces;
use crate::error::EngineError;
use crate::job::{JobEnd, TargetAnswer, TargetCall};

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
    /// Leave to ask for the marker.
    Proved(Fence),
    /// The target, to tell the marker.
    Reading(Fence),
    /// Leave to create the marker.
    ToCreate(Fence),
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

/// A target that compares the marker in every write.
pub(super) struct Marked {
    state: State,
    /// What the target's marker was when it was last seen or set.
    marker: Position,
}

impl Marked {
    pub(super) fn new(marker: Position) -> Self {
        Marked { state: State::Closed, marker }
    }
    pub(super) fn is_at_rest(&self) -> bool {
        matches!(self.state, State::Closed | State::Open(_))
    }
    pub(super) fn needs_epoch(&self) -> bool {
        matches!(self.state, State::ToProve(_) | State::ToOpen(_))
    }
    pub(super) fn attempt(&self) -> Option<Position> {
        match self.state {
            State::Writing(_, last) => Some(last),
            _ => None,
        }
    }

    /// The epoch that is being closed, whose last row is `last`, proves the generation or records the opening.
    pub(super) fn write_epoch(&mut self, core: &mut Core, epoch: u64, last: Option<Position>) {
        match self.state {
            State::ToProve(fence) => {
                core.cursor.fence = Some(fence);
                if core.cursor.phase == CursorPhase::New {
                    core.cursor.phase = CursorPhase::Opening;
                }
                core.touch_cursor();
                self.state = State::Proving(fence, epoch);
            }
            State::ToOpen(fence) => {
                core.cursor.phase = CursorPhase::Open;
                core.intend(core.rows.last_taken());
                core.touch_cursor();
                self.state = State::Opening(fence, epoch);
            }
            // `intended` follows attempts, not rows: raised before the marker was read, it could catch up with the
            // marker of another branch.
            State::Opening(..) | State::Open(_) | State::Writing(..) => core.intend(last),
            _ => {}
        }
    }
    pub(super) fn committed(&mut self, epoch: u64) {
        match self.state {
            State::Proving(fence, proof) if proof <= epoch => self.state = State::Proved(fence),
            State::Opening(fence, proof) if proof <= epoch => self.state = State::Open(fence),
            _ => {}
        }
    }

    pub(super) fn next(&mut self, core: &mut Core, now: i64, nonces: &mut Nonces) -> Step {
        match self.state {
            State::Closed if core.rows.nothing_owed() => Step::Wait(None),
            State::Backoff(until) if until > now => Step::Wait(Some(until)),
            State::Closed | State::Backoff(_) => {
                let fence = Fence(nonces.next_u128());
                self.state = State::Fencing(fence);
                Step::Call(TargetCall::TakeFence(fence))
            }
            State::Proved(fence) => {
                self.state = State::Reading(fence);
                Step::Call(TargetCall::ReadMarker)
            }
            State::ToCreate(fence) => {
                self.marker = core.cursor.finished;
                self.state = State::Creating(fence);
                Step::Call(TargetCall::CreateMarker(Marker { position: self.marker, fence }))
            }
            State::Open(fence) => match core.due_block(now) {
                Due::Nothing => Step::Wait(None),
                Due::At(time) => Step::Wait(Some(time)),
                Due::Block(block, last) => {
                    core.rows.attempted(last);
                    self.state = State::Writing(fence, last);
                    let expected = Marker { position: self.marker, fence };
                    let next = Marker { position: last, fence };
                    Step::Call(TargetCall::Write { block, expected, next })
                }
            },
            _ => Step::Wait(None),
        }
    }

    pub(super) fn answered(&mut self, core: &mut Core, answer: TargetAnswer) -> Result<(), JobEnd> {
        match (self.state, answer) {
            (State::Fencing(fence), TargetAnswer::Done) => self.state = State::ToProve(fence),
            (State::Reading(fence), TargetAnswer::Marker(marker)) => self.read(core, fence, marker)?,
            (State::Creating(fence), TargetAnswer::Done) => {
                core.progressed();
                core.mark(self.marker);
                self.state = State::ToOpen(fence);
            }
            (State::Writing(fence, last), TargetAnswer::Done) => {
                core.progressed();
                self.marker = last;
                core.mark(last);
                core.finish(last);
                self.state = State::Open(fence);
            }
            (state, answer) => return Err(core.unexpected(answer, &format!("{state:?}"))),
        }
        Ok(())
    }

    fn read(&mut self, core: &mut Core, fence: Fence, marker: Option<Marker>) -> Result<(), JobEnd> {
        match core.cursor.decide(marker, fence) {
            OpenDecision::Fenced => {
                return Err(JobEnd::Fenced(format!(
                    "another open of sink {} came after ours",
                    core.plan.name
                )));
            }
            OpenDecision::Stop(reason) => {
                return Err(JobEnd::Failed(EngineError::Marker {
                    sink: core.plan.name.clone(),
                    partition: core.partition.clone(),
                    reason,
                }));
            }
            OpenDecision::Create => self.state = State::ToCreate(fence),
            OpenDecision::Resume(from) => {
                // Opening alone is no progress: a target that never takes a block is given up.
                if from > core.rows.done() {
                    core.progressed();
                }
                if let Some(marker) = marker {
                    self.marker = marker.position;
                    core.mark(marker.position);
                }
                core.finish(from);
                self.state = State::ToOpen(fence);
            }
        }
        Ok(())
    }

    /// Open again, later each time.
    pub(super) fn again(&mut self, until: i64) {
        self.state = State::Backoff(until);
    }
    /// The block was definitely not applied and is given up: the marker is what it was.
    pub(super) fn go_on(&mut self) {
        if let State::Writing(fence, _) = self.state {
            self.state = State::Open(fence);
        }
    }
}
