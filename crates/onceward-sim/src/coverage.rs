//! What a series of runs has reached; a run of the simulator that never got to the dangerous places
//! proves nothing.

use std::collections::BTreeMap;

use onceward_store::disk::site;

use crate::target;

/// Counters over one or many seeds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Seeds.
    pub seeds: u64,
    /// Scheduler steps.
    pub steps: u64,
    /// Messages in the input.
    pub messages: u64,
    /// Power losses, by the store write or target call at which they came.
    pub crashes: BTreeMap<&'static str, u64>,
    /// Jobs replaced while they ran on as zombies.
    pub replaced: u64,
    /// Workers that were cut off.
    pub lost_workers: u64,
    /// Controllers that another one took over from.
    pub lost_controllers: u64,
    /// Steps of re-cutting begun that split a range.
    pub splits: u64,
    /// Steps of re-cutting begun that merged two.
    pub merges: u64,
    /// Steps of re-cutting finished.
    pub recuts: u64,
    /// Fewest finished steps of any seed.
    pub fewest_recuts: u64,
    /// Retired ranges that were drained and left the layout.
    pub drained_parents: u64,
    /// Jobs moved between workers.
    pub moves: u64,
    /// Pauses reached.
    pub pauses: u64,
    /// Stops reached.
    pub stops: u64,
    /// Commits of zombies that the store refused.
    pub refused_commits: u64,
    /// Calls that the target refused because of a newer fence.
    pub refused_calls: u64,
    /// Calls that were applied and then timed out.
    pub applied_then_timed_out: u64,
    /// Calls that timed out and were applied later.
    pub applied_late: u64,
    /// Failed fsyncs.
    pub failed_syncs: u64,
    /// Snapshots and other maintenance jobs finished.
    pub maintenance: u64,
    /// Fewest power losses of any seed.
    pub fewest_crashes: u64,
}

impl Coverage {
    /// Power losses.
    pub fn total_crashes(&self) -> u64 {
        self.crashes.values().sum()
    }
    /// Adds another seed's counters.
    pub fn add(&mut self, other: &Coverage) {
        let fewest = other.total_crashes();
        self.fewest_crashes = if self.seeds == 0 { fewest } else { self.fewest_crashes.min(fewest) };
        let recuts = other.recuts;
        self.fewest_recuts = if self.seeds == 0 { recuts } else { self.fewest_recuts.min(recuts) };
        self.seeds += other.seeds;
        self.steps += other.steps;
        self.messages += other.messages;
        for (site, count) in &other.crashes {
            *self.crashes.entry(site).or_insert(0) += count;
        }
        self.replaced += other.replaced;
        self.lost_workers += other.lost_workers;
        self.lost_controllers += other.lost_controllers;
        self.splits += other.splits;
        self.merges += other.merges;
        self.recuts += other.recuts;
        self.drained_parents += other.drained_parents;
        self.moves += other.moves;
        self.pauses += other.pauses;
        self.stops += other.stops;
        self.refused_commits += other.refused_commits;
        self.refused_calls += other.refused_calls;
        self.applied_then_timed_out += other.applied_then_timed_out;
        self.applied_late += other.applied_late;
        self.failed_syncs += other.failed_syncs;
        self.maintenance += other.maintenance;
    }
    /// What is missing for the run to prove anything; empty if nothing is.
    pub fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for place in site::ALL.into_iter().chain(target::KINDS) {
            if !self.crashes.contains_key(place) {
                missing.push(format!("no crash at {place}"));
            }
        }
        let counted = [
            (self.refused_commits, "no zombie commit was refused"),
            (self.refused_calls, "no call was refused by a target"),
            (self.applied_then_timed_out, "no call timed out after it was applied"),
            (self.applied_late, "no call was applied late"),
            (self.failed_syncs, "no fsync failed"),
            (self.maintenance, "no snapshot was taken"),
            (self.lost_workers, "no worker was lost"),
            (self.lost_controllers, "no controller was lost"),
            (self.splits, "no range was split"),
            (self.merges, "no ranges were merged"),
            (self.drained_parents, "no retired range was drained"),
            (self.moves, "no job was moved"),
            (self.pauses, "no pause was reached"),
            (self.stops, "no stop was reached"),
        ];
        missing.extend(counted.iter().filter(|(count, _)| *count == 0).map(|(_, what)| (*what).to_owned()));
        if self.fewest_recuts == 0 {
            missing.push("a seed had no split or merge".to_owned());
        }
        if self.fewest_crashes < 20 {
            missing.push(format!("a seed had only {} crashes", self.fewest_crashes));
        }
        missing
    }
}
