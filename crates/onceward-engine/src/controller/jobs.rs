//! Leases and jobs: who is alive, who gets what, and what a job's end means.

use onceward_protocol::Generation;
use onceward_protocol::balance::{WorkerLoad, place};
use onceward_protocol::lease::{AbortReason, Lease, WorkerId};
use onceward_protocol::state::PipelineState;
use onceward_store::Operation;

use super::{
    Action, After, Assignment, Controller, ControllerEnd, Happening, JobReport, Phase, Told, Worker,
};
use crate::job::{Event, JobEnd};
use crate::layout::Role;

impl Controller {
    pub(super) fn heartbeat(
        &mut self,
        worker: WorkerId,
        sent_at: i64,
        jobs: &[JobReport],
        out: &mut Vec<Action>,
    ) {
        let known = self.workers.entry(worker).or_insert(Worker { heard: self.now, alive: false });
        known.heard = self.now;
        if !known.alive {
            known.alive = true;
            out.push(Action::Log(Happening::WorkerThere(worker)));
        }
        for report in jobs {
            let (partition, generation) = (report.partition, report.generation);
            if self.leases.renew(partition, generation, worker, self.now, self.config.lease_us) {
                self.loads.report(report);
            } else {
                out.push(Action::Drop { worker, partition, generation });
            }
        }
        out.push(Action::Renewed { worker, sent_at });
    }

    /// Its jobs are replaced. Should it still be there, it fences itself, and nothing that it commits counts.
    pub(super) fn lose_worker(&mut self, worker: WorkerId, out: &mut Vec<Action>) {
        let Some(known) = self.workers.get_mut(&worker) else { return };
        if !std::mem::replace(&mut known.alive, false) {
            return;
        }
        out.push(Action::Log(Happening::WorkerLost(worker)));
        for partition in self.leases.of_worker(worker) {
            self.replace(partition, AbortReason::LostWorker, out);
        }
    }

    pub(super) fn check_workers(&mut self, out: &mut Vec<Action>) {
        let silent = |worker: &Worker| worker.alive && worker.heard + self.config.lease_us <= self.now;
        let lost: Vec<WorkerId> =
            self.workers.iter().filter(|(_, worker)| silent(worker)).map(|(id, _)| *id).collect();
        lost.into_iter().for_each(|worker| self.lose_worker(worker, out));
    }

    /// Every lease is looked at in every cycle.
    pub(super) fn check_leases(&mut self, out: &mut Vec<Action>) {
        for partition in self.leases.expired(self.now) {
            self.replace(partition, AbortReason::Expired, out);
        }
    }

    /// The job did not say that it ended: it may still be there.
    fn replace(&mut self, partition: u32, reason: AbortReason, out: &mut Vec<Action>) {
        self.abort(partition, reason, out);
        let is_parent = self.is_retiring(partition);
        let Some(slot) = self.slots.get_mut(&partition) else { return };
        slot.strays += 1;
        slot.told = Told::Nothing;
        // The children's parents run no more: what they have committed is what counts.
        slot.phase = if is_parent { Phase::Ended } else { Phase::Waiting };
    }

    /// Gives waiting partitions to workers, all in one transaction.
    pub(super) fn place(&mut self) {
        if !self.state.has_jobs() || self.closing {
            return;
        }
        let alive = self.workers.values().filter(|worker| worker.alive).count();
        if self.expects_until.is_some_and(|until| alive < self.config.workers && self.now < until) {
            return;
        }
        self.expects_until = None;
        let mut workers: Vec<WorkerLoad> = self
            .workers
            .iter()
            .filter(|(_, worker)| worker.alive)
            .map(|(worker, _)| {
                let jobs = self.leases.of_worker(*worker);
                let load = jobs.iter().map(|partition| self.loads.of(*partition)).sum();
                WorkerLoad { worker: *worker, jobs: jobs.len() as u32, load }
            })
            .collect();
        let waiting: Vec<u32> = self
            .slots
            .iter()
            .filter(|(_, slot)| slot.phase == Phase::Waiting)
            .map(|(partition, _)| *partition)
            .collect();
        let mut grants = Vec::new();
        for partition in waiting {
            let prefers = self.slots.get_mut(&partition).and_then(|slot| slot.prefers.take());
            let preferred = workers.iter().any(|worker| Some(worker.worker) == prefers);
            let load = self.loads.of(partition);
            let worker = if preferred { prefers } else { place(&mut workers, load) };
            let Some(worker) = worker else { return };
            let generation = self.generation(partition);
            if let Some(slot) = self.slots.get_mut(&partition) {
                slot.phase = Phase::Granting;
            }
            grants.push((partition, worker, generation));
        }
        if grants.is_empty() {
            return;
        }
        let operations = grants
            .iter()
            .filter_map(|(partition, _, generation)| {
                Some(Operation::Grant(self.slots.get(partition)?.partition.id.clone(), *generation))
            })
            .collect();
        self.queue(operations, None, After::Granted(grants));
    }

    pub(super) fn granted(&mut self, grants: Vec<(u32, WorkerId, Generation)>, out: &mut Vec<Action>) {
        for (partition, worker, generation) in grants {
            let alive = self.workers.get(&worker).is_some_and(|worker| worker.alive);
            let expires_at = self.now.saturating_add(self.config.lease_us);
            let seed = self.nonces.next_u64();
            let Some(slot) = self.slots.get_mut(&partition) else { continue };
            if !alive {
                slot.phase = Phase::Waiting;
                continue;
            }
            if self.leases.grant(partition, Lease { generation, worker, expires_at }).is_err() {
                continue;
            }
            slot.phase = Phase::Running;
            slot.told = Told::Nothing;
            let assignment = Assignment {
                partition: slot.partition.clone(),
                generation,
                layout: self.layout.clone(),
                seed,
            };
            out.push(Action::Assign { worker, assignment });
            self.begin_in_turn(partition, out);
        }
    }

    /// Begins a job, unless it is a bounded source's and too many of those are being read.
    fn begin_in_turn(&mut self, partition: u32, out: &mut Vec<Action>) {
        let active = self.slots.values().filter(|slot| slot.has_turn).count();
        let Some(slot) = self.slots.get_mut(&partition) else { return };
        let takes_turn = match slot.partition.role {
            Role::Source { source, .. } => self.config.bounded.get(source).copied().unwrap_or(false),
            Role::Keyed { .. } => false,
        };
        if takes_turn && !slot.begun && active >= self.config.active_sources {
            return;
        }
        slot.has_turn |= takes_turn && !slot.begun;
        slot.begun = true;
        self.tell(partition, Told::Nothing, Event::Begin, out);
    }

    /// A turn is free.
    pub(super) fn read_to_end(&mut self, partition: u32, out: &mut Vec<Action>) {
        if let Some(slot) = self.slots.get_mut(&partition) {
            slot.has_turn = false;
        }
        let next = self.slots.iter().find(|(_, slot)| !slot.begun && slot.phase == Phase::Running);
        if let Some((next, _)) = next
            && self.state == PipelineState::Working
            && !self.stopping
        {
            self.begin_in_turn(*next, out);
        }
    }

    pub(super) fn job_ended(
        &mut self,
        partition: u32,
        generation: Generation,
        end: JobEnd,
        out: &mut Vec<Action>,
    ) -> Result<(), ControllerEnd> {
        // Whatever a job believes that lost its lease, its successor knows better.
        if !self.is_owned_by(partition, generation) {
            return Ok(());
        }
        let is_parent = self.is_retiring(partition);
        let Some(slot) = self.slots.get_mut(&partition) else { return Ok(()) };
        let label = slot.partition.id.label();
        let rests = slot.fenced_at.is_none_or(|at| at.saturating_add(self.config.lease_us) <= self.now);
        match end {
            JobEnd::Completed => {
                slot.phase = Phase::Completed;
                return Ok(());
            }
            JobEnd::Drained => {
                slot.phase = Phase::Ended;
                self.leases.abort(partition, AbortReason::Recut);
                self.drained(partition, generation);
            }
            JobEnd::Retired if is_parent => {
                slot.phase = Phase::Ended;
                self.abort(partition, AbortReason::Recut, out);
            }
            JobEnd::Retired => {
                slot.phase = Phase::Waiting;
                self.abort(partition, AbortReason::Rebalanced, out);
            }
            JobEnd::Stopped => self.stopped(partition, out),
            JobEnd::Fenced(_) if slot.strays > 0 || rests => {
                // A job that was given up, or a call of ours that took its time, came to the target after our open: a
                // successor takes the fence back. A second time so soon it is somebody else.
                slot.strays = slot.strays.saturating_sub(1);
                slot.fenced_at = Some(self.now);
                slot.phase = if is_parent { Phase::Ended } else { Phase::Waiting };
                self.abort(partition, AbortReason::JobFailed, out);
            }
            JobEnd::Fenced(reason) => return Err(ControllerEnd::Fenced { partition: label, reason }),
            JobEnd::Unknown => return Err(ControllerEnd::StoreFailed),
            JobEnd::Failed(error) => {
                self.abort(partition, AbortReason::JobFailed, out);
                out.push(Action::Log(Happening::JobFailed { partition: label, error: error.clone() }));
                self.failed(partition, error)?;
            }
        }
        Ok(())
    }
}
