//! Re-cutting key ranges while the pipeline works, one step at a time.
//!
//! The parents end, a generation of the re-cut takes them (so that nothing of theirs can commit any more), what they
//! have is read, and one transaction moves it and writes the new layout (RECUT-ATOMIC). A retired parent gets a job of
//! its own once more, until its outbox is empty and that is recorded (ANCESTOR-GATE); then it leaves the layout.

use std::collections::BTreeSet;

use onceward_protocol::lease::AbortReason;
use onceward_protocol::recut::Recut;
use onceward_protocol::state::PipelineState;
use onceward_protocol::{Generation, PartitionId};
use onceward_store::Operation;

use super::{Action, After, Controller, ControllerEnd, Happening, Loading, Phase, Told};
use crate::job::Event;
use crate::layout::{LayoutRange, Role};
use crate::recut::{Child, Parent, PartitionRows, commits, delivered};
use crate::stored::lane_key;

/// A step of re-cutting that is under way.
#[derive(Debug)]
pub(super) struct Recutting {
    keyed: usize,
    recut: Recut,
    parents: Vec<u32>,
    step: Step,
    /// One per parent, from the grant on.
    generations: Vec<Generation>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// The parents' jobs are ending.
    Ending,
    /// The parents are being taken: from here on what was begun is finished.
    Taking,
    /// They are to be read.
    Taken,
    /// They are being read and re-cut.
    Moving,
}

/// A retired range that says that it is drained, and is to leave the layout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draining {
    partition: u32,
    generation: Generation,
}

impl Controller {
    /// Whether the partition is a parent whose end is waited for.
    pub(super) fn is_retiring(&self, partition: u32) -> bool {
        self.recutting.as_ref().is_some_and(|recutting| recutting.parents.contains(&partition))
    }

    fn range(&self, partition: u32) -> Option<LayoutRange> {
        match self.slots.get(&partition)?.partition.role {
            Role::Keyed { range, .. } => Some(range),
            Role::Source { .. } => None,
        }
    }

    /// Begins a step, if every parent runs. Answers whether it did.
    pub(super) fn begin_recut(
        &mut self,
        keyed: usize,
        recut: Recut,
        why: &'static str,
        out: &mut Vec<Action>,
    ) -> bool {
        let Some(layout) = self.layout.keyed.get(keyed) else { return false };
        let parents: Vec<u32> = layout
            .live()
            .filter(|range| recut.parents.contains(&range.range))
            .map(|range| range.number)
            .collect();
        let run = |partition: &u32| {
            self.slots.get(partition).is_some_and(|slot| slot.phase == Phase::Running && slot.begun)
        };
        if self.recutting.is_some() || parents.len() != recut.parents.len() || !parents.iter().all(run) {
            return false;
        }
        out.push(Action::Log(Happening::RecutBegun {
            computation: layout.name.clone(),
            parents: parents.len(),
            children: recut.children.len(),
            why,
        }));
        for partition in &parents {
            self.tell(*partition, Told::Retire, Event::Retire, out);
        }
        self.recutting =
            Some(Recutting { keyed, recut, parents, step: Step::Ending, generations: Vec::new() });
        true
    }

    /// The pipeline is ending: a step that has not moved anything yet is not begun any more.
    pub(super) fn cancel_recut(&mut self) {
        let ending = |recutting: &mut Recutting| recutting.step == Step::Ending;
        if let Some(recutting) = self.recutting.take_if(ending) {
            for partition in recutting.parents {
                if let Some(slot) = self.slots.get_mut(&partition).filter(|slot| slot.phase == Phase::Ended) {
                    slot.phase = Phase::Waiting;
                }
            }
        }
    }

    pub(super) fn go_on_recutting(&mut self, out: &mut Vec<Action>) {
        let Some(recutting) = &self.recutting else { return };
        if recutting.step != Step::Ending {
            return;
        }
        let phase = |partition: &u32| self.slots.get(partition).map(|slot| slot.phase);
        if recutting.parents.iter().any(|partition| phase(partition) == Some(Phase::Completed)) {
            out.push(Action::Log(Happening::RecutCancelled));
            return self.cancel_recut();
        }
        if !recutting.parents.iter().all(|partition| phase(partition) == Some(Phase::Ended)) {
            return;
        }
        let parents = recutting.parents.clone();
        let generations: Vec<Generation> =
            parents.iter().map(|partition| self.generation(*partition)).collect();
        let operations = parents
            .iter()
            .zip(&generations)
            .filter_map(|(partition, generation)| Some(Operation::Grant(self.id(*partition)?, *generation)))
            .collect();
        if let Some(recutting) = &mut self.recutting {
            recutting.generations = generations;
            recutting.step = Step::Taking;
        }
        self.queue(operations, None, After::RecutGranted);
    }

    fn id(&self, partition: u32) -> Option<PartitionId> {
        self.slots.get(&partition).map(|slot| slot.partition.id.clone())
    }

    /// LOAD-AFTER-GRANT: from now on nothing of the parents can change.
    pub(super) fn load_parents(&mut self, out: &mut Vec<Action>) {
        if let Some(recutting) = &mut self.recutting {
            recutting.step = Step::Taken;
        }
        self.load_next(out);
    }

    /// One load at a time: of a re-cut first.
    pub(super) fn load_next(&mut self, out: &mut Vec<Action>) {
        if self.loading.is_some() || self.record_is_busy() {
            return;
        }
        let taken = self.recutting.as_mut().filter(|recutting| recutting.step == Step::Taken);
        if let Some(recutting) = taken {
            recutting.step = Step::Moving;
            let parents = recutting.parents.clone();
            let ids = parents.into_iter().filter_map(|partition| self.id(partition)).collect();
            self.loading = Some(Loading::Recut);
            out.push(Action::Load(ids));
        } else if let Some(drained) = self.draining.front().copied()
            && self.recutting.as_ref().is_none_or(|recutting| recutting.step == Step::Ending)
            && let Some(id) = self.id(drained.partition)
        {
            self.loading = Some(Loading::Drained);
            out.push(Action::Load(vec![id]));
        }
    }

    pub(super) fn loaded(&mut self, rows: Vec<PartitionRows>) -> Result<(), ControllerEnd> {
        match self.loading.take() {
            Some(Loading::Recut) => self.move_rows(&rows).map_err(ControllerEnd::Failed),
            Some(Loading::Drained) => self.remove_drained(&rows).map_err(ControllerEnd::Failed),
            None => Ok(()),
        }
    }

    fn move_rows(&mut self, rows: &[PartitionRows]) -> Result<(), crate::EngineError> {
        let Some(recutting) = &self.recutting else { return Ok(()) };
        let fits = self.layout.recut(recutting.keyed, &recutting.recut);
        let Some(layout) = fits else { return Err(misfit(&recutting.recut)) };
        let computation = &layout.keyed[recutting.keyed];
        let children: Vec<(PartitionId, LayoutRange)> = computation
            .live()
            .filter(|range| range.version == layout.version)
            .map(|range| (layout.range_id(&computation.name, range), *range))
            .collect();
        let ids: Vec<PartitionId> =
            recutting.parents.iter().filter_map(|partition| self.id(*partition)).collect();
        let parents: Vec<Parent<'_>> = recutting
            .parents
            .iter()
            .zip(&ids)
            .zip(&recutting.generations)
            .zip(rows)
            .filter_map(|(((partition, id), generation), rows)| {
                let range = self.range(*partition)?;
                Some(Parent { partition: id, range, generation: *generation, rows })
            })
            .collect();
        let mut nonces = self.nonces.clone();
        let children: Vec<Child<'_>> = children
            .iter()
            .map(|(id, range)| Child {
                partition: id,
                range: range.range,
                generation: Generation { number: 1, nonce: nonces.next_u64(), branch: self.term.branch },
            })
            .collect();
        let operator = self.plan.operator(recutting.keyed);
        let lanes = self.lanes_into(&recutting.parents);
        let writes = commits(operator, &parents, &children, &lanes, self.config.mutants)?;
        let grants = children.iter().map(|child| Operation::Grant(child.partition.clone(), child.generation));
        let operations = grants.chain(writes.into_iter().map(Operation::Commit)).collect();
        self.nonces = nonces;
        self.queue(operations, Some(layout), After::Recut);
        Ok(())
    }

    /// The stored names of the lanes that lead into these partitions.
    fn lanes_into(&self, partitions: &[u32]) -> BTreeSet<Vec<u8>> {
        let slots = partitions.iter().filter_map(|partition| self.slots.get(partition));
        slots
            .flat_map(|slot| self.plan.wiring(&self.layout, &slot.partition).producers)
            .map(|lane| lane_key(&lane.stream, &lane.producer))
            .collect()
    }

    pub(super) fn recut_done(&mut self, out: &mut Vec<Action>) {
        let Some(recutting) = self.recutting.take() else { return };
        let version = self.layout.version;
        for slot in self.slots.values_mut() {
            if let Role::Keyed { range, .. } = slot.partition.role {
                let is_child = range.version == version;
                if is_child {
                    slot.number = slot.number.max(1);
                }
                if recutting.parents.contains(&slot.partition.number) {
                    slot.phase = Phase::Waiting;
                    slot.told = Told::Nothing;
                }
            }
        }
        self.wake_consumers(recutting.keyed, out);
        let ranges = self.layout.keyed[recutting.keyed].live().count();
        let computation = self.layout.keyed[recutting.keyed].name.clone();
        out.push(Action::Log(Happening::RecutDone { computation, ranges, layout: version }));
    }

    /// A consumer that had completed gets lanes of producers that are new to it: another job takes them.
    fn wake_consumers(&mut self, keyed: usize, out: &mut Vec<Action>) {
        let stage = self.plan.stage_of(keyed);
        let behind = |slot: &super::Slot| {
            slot.phase == Phase::Completed && self.plan.stage(&slot.partition.role) > stage
        };
        let woken: Vec<u32> =
            self.slots.iter().filter(|(_, slot)| behind(slot)).map(|(partition, _)| *partition).collect();
        for partition in woken {
            self.drop_job(partition, AbortReason::Recut, out);
            if let Some(slot) = self.slots.get_mut(&partition) {
                slot.phase = Phase::Waiting;
            }
        }
    }

    /// A retired range has nothing left to deliver, and that is recorded.
    pub(super) fn drained(&mut self, partition: u32, generation: Generation) {
        self.draining.push_back(Draining { partition, generation });
    }

    /// Whether the partition is drained and on its way out of the layout.
    pub(super) fn has_drained(&self, partition: u32) -> bool {
        self.draining.iter().any(|drained| drained.partition == partition)
    }

    fn remove_drained(&mut self, rows: &[PartitionRows]) -> Result<(), crate::EngineError> {
        let (Some(drained), Some(rows)) = (self.draining.front().copied(), rows.first()) else {
            return Ok(());
        };
        let Some(id) = self.id(drained.partition) else { return Ok(()) };
        let confirmed = delivered(&rows.parse(&id)?);
        let Some(layout) = self.layout.without_drained(drained.partition, &confirmed) else {
            return Ok(());
        };
        let removal = Operation::Commit(rows.removal(&id, drained.generation));
        self.queue(vec![removal, Operation::Revoke(id)], Some(layout), After::Removed(drained.partition));
        Ok(())
    }

    pub(super) fn removed(&mut self, partition: u32, out: &mut Vec<Action>) {
        self.draining.retain(|drained| drained.partition != partition);
        if let Some(slot) = self.slots.remove(&partition) {
            out.push(Action::Log(Happening::Drained(slot.partition.id.label())));
        }
        self.loads.forget(partition);
    }

    /// Whether ranges may be re-cut now.
    pub(super) fn may_recut(&self) -> bool {
        self.state == PipelineState::Working
            && !self.stopping
            && self.recutting.is_none()
            && !self.record_is_busy()
            && self.failure.is_none()
    }
}

fn misfit(recut: &Recut) -> crate::EngineError {
    crate::EngineError::Invariant {
        partition: "the layout".to_owned(),
        rule: "RECUT-ATOMIC",
        detail: format!("{recut:?} does not fit the ranges that are live"),
    }
}
