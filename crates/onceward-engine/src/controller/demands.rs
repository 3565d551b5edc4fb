//! What users ask for, and how a pipeline comes to an end: drained stage by stage, halted, or done.

use onceward_protocol::lease::AbortReason;
use onceward_protocol::state::{Demand, PipelineState, next};
use onceward_store::Operation;

use super::{Action, After, Command, Controller, ControllerEnd, Phase, Settling, Told};
use crate::error::EngineError;
use crate::job::Event;
use crate::layout::Layout;

impl Controller {
    pub(super) fn asked(&mut self, command: &Command) -> Result<String, String> {
        match command {
            Command::Demand(demand) => self.demanded(*demand),
            Command::Rescale { computation, ranges } => self.rescale(computation, *ranges),
        }
    }

    fn demanded(&mut self, demand: Demand) -> Result<String, String> {
        if self.closing && self.state == PipelineState::Pausing && !self.stopping {
            return Err("its last lease is ending this very moment; ask again".to_owned());
        }
        if self.stopping || self.closing {
            return match demand {
                Demand::Stop { .. } => Ok("it is stopping already".to_owned()),
                _ => Err("it is stopping; wait for its end, then `onceward run` goes on".to_owned()),
            };
        }
        if demand == Demand::Resume && self.state == PipelineState::Working {
            return Ok("it is working already".to_owned());
        }
        let state = next(self.state, demand)?;
        if state == PipelineState::Working
            && let Some(error) = &self.failure
        {
            return Err(format!("a job has failed, so the run ends: {error}"));
        }
        if state == self.state {
            return Ok(format!("it is {state} already"));
        }
        if state == PipelineState::Stopped && self.state.has_jobs() {
            // Jobs finish their epochs first; the record says so when the last lease is gone.
            self.stopping = true;
            return Ok("stopping: open epochs are finished, sinks confirm".to_owned());
        }
        self.state = state;
        self.settling = Settling::No;
        if state == PipelineState::Working {
            let resumes = |partition: u32| !self.is_retiring(partition) && !self.has_drained(partition);
            let ended: Vec<u32> = self.ended().filter(|partition| resumes(*partition)).collect();
            for partition in ended {
                if let Some(slot) = self.slots.get_mut(&partition) {
                    slot.phase = Phase::Waiting;
                }
            }
        }
        Ok(match state {
            PipelineState::Draining => "draining: nothing new is read, what is under way is finished",
            PipelineState::Pausing => "pausing: jobs end where they are",
            PipelineState::Working => "working again",
            PipelineState::Stopped => "stopped",
            PipelineState::Paused => "paused",
            PipelineState::Completed => "completed",
        }
        .to_owned())
    }

    fn rescale(&mut self, computation: &str, ranges: Option<u32>) -> Result<String, String> {
        const MOST: u32 = 4096;
        if self.state != PipelineState::Working || self.stopping {
            return Err(format!("it is {}: key ranges are cut only while it works", self.state()));
        }
        let names =
            || self.layout.keyed.iter().map(|keyed| keyed.name.as_str()).collect::<Vec<_>>().join(", ");
        let Some(keyed) = self.layout.keyed.iter().position(|keyed| keyed.name == computation) else {
            return Err(match names() {
                names if names.is_empty() => {
                    format!(
                        "there is no computation {computation}: nothing in this pipeline is grouped by a key"
                    )
                }
                names => format!("there is no keyed computation {computation}; there are: {names}"),
            });
        };
        if ranges.is_some_and(|ranges| !(1..=MOST).contains(&ranges)) {
            return Err(format!("a computation has 1 to {MOST} key ranges"));
        }
        if self.record_is_busy() || self.recutting.is_some() {
            return Err("a step of re-cutting is under way; try again in a moment".to_owned());
        }
        let mut layout = Layout::clone(&self.layout);
        layout.keyed[keyed].wanted = ranges;
        let has = layout.keyed[keyed].live().count();
        self.queue(Vec::new(), Some(layout), After::Noted);
        self.next_balance = self.now;
        Ok(match ranges {
            Some(ranges) => {
                format!("{computation} goes from {has} to {ranges} key ranges, one step at a time")
            }
            None => format!("{computation} has {has} key ranges; the manifest's numbers hold again"),
        })
    }

    /// Ends what is to end, and sees when everything has ended.
    pub(super) fn wind_down(&mut self, out: &mut Vec<Action>) -> Result<(), ControllerEnd> {
        if self.closing || !self.state.has_jobs() {
            return Ok(());
        }
        if self.stopping || self.state != PipelineState::Working {
            self.cancel_recut();
            if self.recutting.is_some() {
                return Ok(());
            }
        }
        match self.state {
            _ if self.stopping => self.stop_without_draining(out),
            PipelineState::Pausing => self.halt(out),
            PipelineState::Draining => self.drain(out),
            _ => {}
        }
        let all = |done: fn(Phase) -> bool| self.slots.values().all(|slot| done(slot.phase));
        let quiet = all(|phase| matches!(phase, Phase::Ended | Phase::Completed));
        let completed = all(|phase| phase == Phase::Completed);
        let last = match self.state {
            _ if self.failure.is_some() && quiet => PipelineState::Stopped,
            _ if completed => PipelineState::Completed,
            _ if self.stopping && quiet => PipelineState::Stopped,
            PipelineState::Draining if quiet => PipelineState::Stopped,
            PipelineState::Pausing if quiet => PipelineState::Paused,
            _ => return Ok(()),
        };
        // A parent that has said that it is drained is taken from the layout first.
        if !self.draining.is_empty() || self.out.is_some() || !self.waiting.is_empty() {
            return Ok(());
        }
        // A job that was given up may still have a call open.
        match self.settling {
            Settling::No => {
                self.next_settle += 1;
                self.settling = Settling::Asked(self.next_settle);
                out.push(Action::Settle(self.next_settle));
            }
            Settling::Asked(_) => {}
            Settling::Done => self.close(last, out),
        }
        Ok(())
    }

    /// One transaction takes the leases of all jobs and says where the pipeline stands: a late commit is fenced.
    fn close(&mut self, state: PipelineState, out: &mut Vec<Action>) {
        let reason = state.ends_leases().unwrap_or(AbortReason::Stopped);
        let leased: Vec<u32> = self.leases.iter().map(|(partition, _)| partition).collect();
        leased.into_iter().for_each(|partition| self.drop_job(partition, reason, out));
        let operations =
            self.slots.values().map(|slot| Operation::Revoke(slot.partition.id.clone())).collect();
        let layout = Layout { state, ..Layout::clone(&self.layout) };
        self.closing = true;
        self.queue(operations, Some(layout), After::Closed);
    }

    pub(super) fn closed(&mut self) -> Result<(), ControllerEnd> {
        self.closing = false;
        self.settling = Settling::No;
        self.stopping = false;
        self.state = self.layout.state;
        for slot in self.slots.values_mut() {
            slot.phase = Phase::Ended;
            slot.told = Told::Nothing;
        }
        match (self.state, self.failure.take()) {
            (_, Some(error)) => Err(ControllerEnd::Failed(error)),
            (PipelineState::Completed, None) => Err(ControllerEnd::Completed),
            (PipelineState::Stopped, None) => Err(ControllerEnd::Stopped),
            // Paused: the run waits for a resume, or for a stop.
            _ => Ok(()),
        }
    }

    /// A job has ended as it was asked to.
    pub(super) fn stopped(&mut self, partition: u32, out: &mut Vec<Action>) {
        let winding = self.stopping || self.state != PipelineState::Working;
        let is_parent = self.is_retiring(partition);
        let reason = match self.state {
            PipelineState::Pausing => AbortReason::Paused,
            _ => AbortReason::Stopped,
        };
        self.abort(partition, reason, out);
        if let Some(slot) = self.slots.get_mut(&partition) {
            // Resumed while it was ending: another job goes on, or the re-cut.
            slot.phase = if winding || is_parent { Phase::Ended } else { Phase::Waiting };
            slot.told = Told::Nothing;
        }
    }

    /// A job cannot go on. The run fails; a pipeline that is ending ends all the same.
    pub(super) fn failed(&mut self, partition: u32, error: EngineError) -> Result<(), ControllerEnd> {
        if self.state == PipelineState::Working && !self.stopping {
            return Err(ControllerEnd::Failed(error));
        }
        self.failure.get_or_insert(error);
        if let Some(slot) = self.slots.get_mut(&partition) {
            slot.phase = Phase::Ended;
        }
        Ok(())
    }

    fn ended(&self) -> impl Iterator<Item = u32> {
        let ended = self.slots.iter().filter(|(_, slot)| slot.phase == Phase::Ended);
        ended.map(|(partition, _)| *partition)
    }

    fn running(&self, is: impl Fn(u32) -> bool) -> Vec<u32> {
        let running = self.slots.iter().filter(|(_, slot)| slot.phase == Phase::Running);
        running.map(|(partition, _)| *partition).filter(|partition| is(*partition)).collect()
    }

    fn end_job(&mut self, partition: u32, told: Told, event: Event, out: &mut Vec<Action>) {
        let Some(slot) = self.slots.get_mut(&partition) else { return };
        if slot.told >= told {
            return;
        }
        let idle = !slot.begun && slot.told == Told::Nothing;
        self.tell(partition, told, event, out);
        if idle {
            // It has nothing open: beginning it with the end in sight ends it at once.
            self.tell(partition, Told::Nothing, Event::Begin, out);
        }
    }

    fn halt(&mut self, out: &mut Vec<Action>) {
        self.end_waiting();
        for partition in self.running(|_| true) {
            self.end_job(partition, Told::Halt, Event::Halt, out);
        }
    }

    /// Keyed jobs finish first, so that what they commit is still acknowledged to the sources.
    fn stop_without_draining(&mut self, out: &mut Vec<Action>) {
        self.end_waiting();
        let keyed = self.running(|partition| !self.is_source(partition));
        let sources = self.running(|partition| self.is_source(partition));
        let first = if keyed.is_empty() && !self.is_granting() { sources } else { keyed };
        for partition in first {
            self.end_job(partition, Told::Stop, Event::Stop { drain: false }, out);
        }
    }

    fn is_granting(&self) -> bool {
        self.slots.values().any(|slot| slot.phase == Phase::Granting)
    }

    /// What waits for a lease gets none any more.
    fn end_waiting(&mut self) {
        for slot in self.slots.values_mut().filter(|slot| slot.phase == Phase::Waiting) {
            slot.phase = Phase::Ended;
        }
    }

    /// From the sources on: a stage ends when everything that it put out is committed by the next one. With a job that
    /// failed nothing can be handed on any more; the others finish what they have.
    fn drain(&mut self, out: &mut Vec<Action>) {
        let live = |phase: Phase| matches!(phase, Phase::Running | Phase::Waiting | Phase::Granting);
        let stage_of = |partition: u32| {
            self.slots.get(&partition).map_or(0, |slot| self.plan.stage(&slot.partition.role))
        };
        let first = self
            .slots
            .iter()
            .filter(|(_, slot)| live(slot.phase))
            .map(|(partition, _)| stage_of(*partition))
            .min();
        let hopeless = self.failure.is_some();
        let due = self.running(|partition| hopeless || Some(stage_of(partition)) == first);
        for partition in due {
            if hopeless {
                self.end_job(partition, Told::Stop, Event::Stop { drain: false }, out);
                continue;
            }
            self.end_job(partition, Told::Drain, Event::Stop { drain: true }, out);
        }
    }
}
