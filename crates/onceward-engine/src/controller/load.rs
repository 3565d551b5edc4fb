//! What jobs have to do, and what follows from it: moves between workers, splits and merges.

use std::collections::BTreeMap;

use onceward_protocol::balance::{
    BUCKETS, JobLoad, RangeLoad, RecutPlan, RecutReason, ResizeBounds, bucket_shift, rebalance, resize,
};
use onceward_protocol::lease::WorkerId;
use onceward_protocol::{Generation, KeyRange};

use super::{Action, Controller, Phase, Told};
use crate::job::Event;

/// Ranges that each worker should have: one more than it can run at once evens out what the others wait for.
const RANGES_PER_WORKER: u64 = 2;

/// What one job says of itself with a heartbeat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobReport {
    /// The partition's number.
    pub partition: u32,
    /// The job.
    pub generation: Generation,
    /// Messages taken by this job.
    pub load: u64,
    /// How a sample of them is spread over the range's parts; all zero for a source.
    pub buckets: [u64; BUCKETS],
}

/// A job is moved if it has at least one part in so many of all load.
const WORTH_MOVING: u64 = 20;

/// One message in so many is looked at for its part of the range.
const SAMPLE: usize = 16;

/// Counts what a job takes, and a sample of it by part of the range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoadMeter {
    first: u64,
    shift: u32,
    messages: u64,
    buckets: [u64; BUCKETS],
}

impl LoadMeter {
    /// A meter for `range`.
    pub fn new(range: KeyRange) -> Self {
        LoadMeter { first: range.first, shift: bucket_shift(range), messages: 0, buckets: [0; BUCKETS] }
    }
    /// Counts messages by their keys' hashes.
    #[inline]
    pub fn note(&mut self, hashes: impl ExactSizeIterator<Item = u64>) {
        self.messages += hashes.len() as u64;
        for hash in hashes.step_by(SAMPLE) {
            let part = (hash.wrapping_sub(self.first) >> self.shift) as usize;
            if let Some(count) = self.buckets.get_mut(part) {
                *count += 1;
            }
        }
    }
    /// Messages so far.
    pub fn messages(&self) -> u64 {
        self.messages
    }
    /// Of the sample, by part.
    pub fn buckets(&self) -> [u64; BUCKETS] {
        self.buckets
    }
}

#[derive(Clone, Copy, Debug)]
struct Known {
    generation: Generation,
    last: JobReport,
    /// As of the last look.
    base: JobReport,
    /// In the last span.
    load: u64,
    buckets: [u64; BUCKETS],
}

/// Loads by partition, as of the last look.
#[derive(Default)]
pub(super) struct Loads {
    known: BTreeMap<u32, Known>,
}

impl Loads {
    pub(super) fn report(&mut self, report: &JobReport) {
        let zero = JobReport { load: 0, buckets: [0; BUCKETS], ..*report };
        let known = self.known.entry(report.partition).or_insert(Known {
            generation: report.generation,
            last: *report,
            base: zero,
            load: 0,
            buckets: [0; BUCKETS],
        });
        if known.generation != report.generation {
            known.generation = report.generation;
            known.base = zero;
        }
        known.last = *report;
    }
    pub(super) fn forget(&mut self, partition: u32) {
        self.known.remove(&partition);
    }
    /// A span is over.
    fn turn(&mut self) {
        for known in self.known.values_mut() {
            known.load = known.last.load.saturating_sub(known.base.load);
            for (part, count) in known.buckets.iter_mut().enumerate() {
                *count = known.last.buckets[part].saturating_sub(known.base.buckets[part]);
            }
            known.base = known.last;
        }
    }
    pub(super) fn of(&self, partition: u32) -> u64 {
        self.known.get(&partition).map_or(0, |known| known.load)
    }
    fn buckets(&self, partition: u32) -> [u64; BUCKETS] {
        self.known.get(&partition).map_or([0; BUCKETS], |known| known.buckets)
    }
}

impl Controller {
    /// Looks at the loads once per span, and takes one step at most: a re-cut that is asked for first.
    pub(super) fn balance(&mut self, out: &mut Vec<Action>) {
        if self.now < self.next_balance {
            return;
        }
        self.next_balance = self.now.saturating_add(self.config.balance_us);
        self.loads.turn();
        let moves = |slot: &super::Slot| slot.told == Told::Retire && slot.phase == Phase::Running;
        if !self.may_recut() || self.slots.values().any(moves) {
            return;
        }
        for keyed in 0..self.layout.keyed.len() {
            let Some(plan) = self.due_recut(keyed) else { continue };
            let why = match plan.reason {
                RecutReason::TooFew => "there are fewer than asked for",
                RecutReason::TooMany => "there are more than asked for",
                RecutReason::Overloaded => "it has too much to do",
                RecutReason::Underloaded => "they have too little to do",
            };
            if self.begin_recut(keyed, plan.recut, why, out) {
                // The next step towards the wanted number need not wait for a span.
                if matches!(plan.reason, RecutReason::TooFew | RecutReason::TooMany) {
                    self.next_balance = self.now.saturating_add(self.config.balance_us / 20);
                }
                return;
            }
        }
        self.move_one(out);
    }

    fn alive(&self) -> Vec<WorkerId> {
        self.workers.iter().filter(|(_, worker)| worker.alive).map(|(id, _)| *id).collect()
    }

    fn due_recut(&self, keyed: usize) -> Option<RecutPlan> {
        let computation = &self.layout.keyed[keyed];
        let bounds = self.plan.bounds(keyed);
        let (min, max) = computation.wanted.map_or(bounds, |wanted| (wanted, wanted));
        let ranges: Vec<RangeLoad> = computation
            .live()
            .map(|range| RangeLoad {
                range: range.range,
                load: self.loads.of(range.number),
                hot: false,
                buckets: self.loads.buckets(range.number),
            })
            .collect();
        let total: u64 = ranges.iter().map(|range| range.load).sum();
        let in_bounds = (min as usize..=max as usize).contains(&ranges.len());
        if in_bounds && (min == max || total < self.config.idle_load) {
            return None;
        }
        let target = total / (self.alive().len().max(1) as u64 * RANGES_PER_WORKER);
        resize(&ranges, ResizeBounds { min, max, target: target.max(1) })
    }

    /// A job leaves a worker that has too much for one that has less.
    fn move_one(&mut self, out: &mut Vec<Action>) {
        let jobs: Vec<JobLoad> = self
            .leases
            .iter()
            .filter(|(partition, _)| {
                self.slots.get(partition).is_some_and(|slot| slot.phase == Phase::Running && slot.begun)
            })
            .map(|(partition, lease)| JobLoad {
                partition,
                worker: lease.worker,
                load: self.loads.of(partition),
            })
            .collect();
        let total: u64 = jobs.iter().map(|job| job.load).sum();
        if total < self.config.idle_load {
            return;
        }
        let Some(due) = rebalance(&jobs, &self.alive()) else { return };
        // A move costs what its producers read again, an epoch or two of everything: a light job is not worth it.
        if self.loads.of(due.partition).saturating_mul(WORTH_MOVING) < total {
            return;
        }
        if let Some(slot) = self.slots.get_mut(&due.partition) {
            slot.prefers = Some(due.to);
        }
        self.tell(due.partition, Told::Retire, Event::Retire, out);
    }
}
