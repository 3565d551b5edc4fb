//! A keyed job's epochs: when one is closed, what it holds, and when the last one was.

use onceward_protocol::{Mutant, Watermark};
use onceward_store::{TableId, WriteBatch};

use super::{Effects, KeyedJob, LanePlan};
use crate::ending::Ending;
use crate::job::{JobEnd, Request};
use crate::operator::Operator;
use crate::stored::{clock_key, counters_key, encode_count, id_counters_key, version_key};

impl KeyedJob {
    pub(super) fn wants_commit(&self, now: i64) -> (bool, bool) {
        let (sinks_dirty, sinks_urgent) = self.emission.outputs.wants_commit();
        let lanes = self.lanes.iter().any(|lane| lane.dirty);
        let idle = self.clock.is_idle(now);
        let exchange = self.emission.exchange.is_dirty();
        let dirty = lanes || sinks_dirty || exchange || self.counters_dirty;
        let last = dirty && (self.ending != Ending::No || self.input_ended() || self.retired);
        let version = self.wanted_version.is_some();
        (dirty || idle || version, sinks_urgent || last || version)
    }

    pub(super) fn close_epoch(&mut self, now: i64, out: &mut Vec<Request>) {
        let (dirty, urgent) = self.wants_commit(now);
        let full = !self.epoch_has_room();
        if !dirty || !self.ledger.has_room() || !(urgent || full || self.clock.due(dirty) <= now) {
            return;
        }
        let epoch = self.ledger.current();
        let mut writes = WriteBatch::default();
        self.write_operator(&mut writes);
        let (version, entering) = self.write_version(&mut writes);
        let mut frontiers = Vec::new();
        for lane in self.lanes.iter_mut().filter(|lane| lane.dirty) {
            lane.dirty = false;
            if !self.mutants.has(Mutant::FrontierNotPersisted) {
                lane.write(&mut writes);
            }
            if self.mutants.has(Mutant::AckBeforeCommit) {
                lane.acknowledge(lane.state.taken, out);
            }
            frontiers.push((lane.key(), lane.state.taken));
        }
        self.counters.rows_out += self.emission.gathered_rows();
        self.emission.write_epoch(epoch, &mut writes);
        if self.counters_dirty {
            writes.put(TableId::META, counters_key(), &self.counters.encode());
            if self.ids.is_some() {
                writes.put(TableId::META, id_counters_key(), &self.counters.encode_ids());
            }
        }
        self.counters_dirty = false;
        self.epoch_rows = 0;
        self.epoch_bytes = 0;
        self.clock.restart(now);
        out.push(Request::Commit(self.ledger.close(writes, Effects { frontiers, version, entering })));
    }

    pub(super) fn write_operator(&mut self, writes: &mut WriteBatch) {
        match &mut self.operator {
            Operator::Windows(windows) => windows.write_changes(writes),
            Operator::Process(process) => {
                process.write_changes(writes);
                writes.put(TableId::META, clock_key(), &self.system_time.to_be_bytes());
            }
            Operator::Retired => {}
        }
        if let Some(ids) = &mut self.ids {
            ids.write_changes(self.effective, writes);
        }
    }

    /// A frontier is removed in the same epoch as the layout version that retires its producer.
    pub(super) fn write_version(&mut self, writes: &mut WriteBatch) -> (Option<u32>, Vec<LanePlan>) {
        let Some(version) = self.wanted_version.take() else { return (None, Vec::new()) };
        writes.put(TableId::META, version_key(), &encode_count(u64::from(version)));
        let mut index = 0;
        while index < self.lanes.len() {
            if self.lanes[index].leaving {
                self.lanes[index].remove(writes);
                self.lanes.remove(index);
                self.plans.remove(index);
            } else {
                index += 1;
            }
        }
        let entering = std::mem::take(&mut self.joining);
        self.entering += entering.len();
        self.index_lanes();
        (Some(version), entering)
    }

    pub(super) fn input_ended(&self) -> bool {
        let waiting = !self.joining.is_empty() || self.entering > 0;
        !waiting && !self.retired && self.lanes.iter().all(|lane| lane.state.taken.is_end())
    }
    pub(super) fn has_fired_all(&self) -> bool {
        self.input_ended() && self.operator.is_empty()
    }
    pub(super) fn has_completed(&self) -> bool {
        self.has_fired_all()
            && self.lanes.iter().all(|lane| lane.committed.is_end())
            && (self.emission.exchange.is_empty() || self.promised == Watermark::END)
    }

    /// Whether the job is over, and how.
    pub(super) fn end(&self) -> Option<JobEnd> {
        if !self.ledger.is_settled() {
            return None;
        }
        let recorded = !self.counters_dirty && !self.lanes.iter().any(|lane| lane.dirty);
        let delivered = recorded && self.emission.is_settled();
        let drained = delivered && self.emission.exchange.is_drained();
        // Behind a closed gate nothing can leave: it is stored, and leaves when the ancestor is drained.
        let kept = recorded && self.emission.is_gated() && self.emission.outputs.is_quiet();
        match self.ending {
            Ending::Halt if recorded && self.emission.outputs.is_quiet() => Some(JobEnd::Stopped),
            Ending::Retire if recorded && self.emission.outputs.is_quiet() => Some(JobEnd::Retired),
            Ending::Halt | Ending::Retire => None,
            _ if self.retired && drained => Some(JobEnd::Drained),
            Ending::Stop { drain } if drained || ((delivered || kept) && !drain) => {
                let completed = !self.retired && drained && self.has_completed();
                Some(if completed { JobEnd::Completed } else { JobEnd::Stopped })
            }
            _ if !self.retired && drained && self.has_completed() => Some(JobEnd::Completed),
            _ => None,
        }
    }
}
