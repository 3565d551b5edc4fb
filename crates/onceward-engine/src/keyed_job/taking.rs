//! A keyed job takes messages and fires what is due: a prefix of each lane (LANE-PREFIX), repeats dropped, the rest
//! handed to the operator.

use onceward_protocol::idset::IdVerdict;
use onceward_protocol::{Frontier, Position, Watermark};

use super::KeyedJob;
use crate::error::EngineError;
use crate::fused::StepFailure;
use crate::ids::Ids;
use crate::job::{JobEnd, Request};
use crate::lane::LaneBatch;
use crate::operator::Operator;
use crate::process::Clocks;
use crate::windows::{Refused, Taken};

/// How many messages ahead their index lines are asked for.
const SLOT_AHEAD: usize = 16;
/// How many messages ahead their entries are asked for.
const ENTRY_AHEAD: usize = 8;

impl KeyedJob {
    pub(super) fn epoch_has_room(&self) -> bool {
        let limits = &self.limits;
        self.epoch_rows + self.emission.gathered_rows() < limits.max_rows
            && self.epoch_bytes + self.emission.gathered_bytes() < limits.max_bytes
            && !self.emission.is_full()
    }
    pub(super) fn room(&self) -> u64 {
        self.limits.max_rows.saturating_sub(self.epoch_rows + self.emission.gathered_rows())
    }

    /// Takes a prefix of each lane in turn, and fires what the watermark or a clock has passed.
    pub(super) fn gather(&mut self, now: i64, out: &mut Vec<Request>) -> Result<(), JobEnd> {
        if self.retired {
            return Ok(());
        }
        // The commit clock stands still within an epoch and never goes back.
        if self.epoch_rows == 0 {
            self.system_time = self.system_time.max(now);
        }
        loop {
            self.fire(now)?;
            if !self.epoch_has_room() {
                return Ok(());
            }
            let count = self.lanes.len();
            let next = (0..count)
                .map(|step| (self.next_lane + step) % count)
                .find(|lane| self.lanes[*lane].has_input());
            let Some(index) = next else { return Ok(()) };
            self.next_lane = (index + 1) % count;
            self.take_batch(now, index, out)?;
        }
    }

    pub(super) fn take_batch(
        &mut self,
        now: i64,
        index: usize,
        out: &mut Vec<Request>,
    ) -> Result<(), JobEnd> {
        let Some((batch, mut cursor, mut marks)) = self.lanes[index].take_head() else { return Ok(()) };
        let room = usize::try_from(self.room()).unwrap_or(usize::MAX);
        let stop = batch.entries.len().min(cursor.saturating_add(room));
        while cursor < stop {
            // Up to the next watermark the effective one stands still.
            let until = match batch.watermarks.get(marks) {
                Some((at, watermark)) if *at as usize <= cursor => {
                    self.advance(index, *watermark);
                    marks += 1;
                    // Timers act on state: they fire at the watermark's place in the lane, not when the batch ends.
                    if let Operator::Process(_) = &self.operator {
                        self.fire(now)?;
                        if !self.epoch_has_room() {
                            break;
                        }
                    }
                    continue;
                }
                Some((at, _)) => stop.min(*at as usize),
                None => stop,
            };
            self.take_entries(now, index, &batch, cursor, until)?;
            cursor = until;
        }
        self.lanes[index].dirty = true;
        if cursor < batch.entries.len() {
            self.lanes[index].put_back(batch, cursor, marks);
            return Ok(());
        }
        for (_, watermark) in &batch.watermarks[marks..] {
            self.advance(index, *watermark);
        }
        self.epoch_bytes += batch.bytes.len() as u64;
        self.lanes[index].finish_head(&batch, out);
        // One that speaks again is followed by those that rest, whether its watermark moved or not.
        if self.has_idle_lanes() {
            self.move_effective();
        }
        Ok(())
    }

    pub(super) fn take_entries(
        &mut self,
        now: i64,
        index: usize,
        batch: &LaneBatch,
        from: usize,
        until: usize,
    ) -> Result<(), JobEnd> {
        self.counters_dirty = true;
        self.meter.note(batch.entries[from..until].iter().map(|entry| entry.hash));
        let plain = self.lanes[index].state.subs.is_empty() && self.ids.is_none();
        if let Operator::Windows(_) = &self.operator
            && plain
        {
            return self.take_windowed(index, batch, from, until);
        }
        let mut accepted = std::mem::take(&mut self.accepted);
        accepted.clear();
        for number in from..until {
            if self.is_new(index, batch, number)? {
                accepted.push(number as u32);
            }
        }
        let result = self.take_accepted(now, index, batch, &accepted);
        self.accepted = accepted;
        result
    }

    /// Counts a message as taken unless it is a repeat.
    pub(super) fn is_new(&mut self, index: usize, batch: &LaneBatch, number: usize) -> Result<bool, JobEnd> {
        let entry = &batch.entries[number];
        let lane = &mut self.lanes[index];
        if lane.state.taken.covers(entry.point) {
            self.repeats += 1;
            return Ok(false);
        }
        let by_ancestor = lane.state.covered(entry.hash, entry.point);
        lane.state.taken = Frontier::at(entry.point);
        self.epoch_rows += 1;
        if by_ancestor {
            self.repeats += 1;
            return Ok(false);
        }
        self.counters.rows_in += 1;
        if let Some(ids) = &mut self.ids {
            match ids.judge(batch, entry, lane.state.watermark) {
                Some(IdVerdict::New) => {}
                Some(IdVerdict::Repeat) => {
                    self.counters.repeated += 1;
                    return Ok(false);
                }
                Some(IdVerdict::Expired) => {
                    self.counters.expired += 1;
                    return Ok(false);
                }
                None => {
                    let reason = "the message carries no id".to_owned();
                    let step = format!("{} dedupBy", self.computation);
                    return Err(self.poison(index, entry.point.position, StepFailure { step, reason }));
                }
            }
        }
        Ok(true)
    }

    pub(super) fn take_accepted(
        &mut self,
        now: i64,
        index: usize,
        batch: &LaneBatch,
        accepted: &[u32],
    ) -> Result<(), JobEnd> {
        let watermark = self.lanes[index].state.watermark;
        let clocks = self.clocks(now);
        let with_ids = self.ids.is_some();
        match &mut self.operator {
            Operator::Process(process) => {
                let root = &self.plans[index].producer;
                process.take(batch, accepted, with_ids, root, clocks, &mut self.emission)
            }
            Operator::Windows(_) => {
                for number in accepted {
                    self.take_one_windowed(index, batch, *number as usize, watermark)?;
                }
                Ok(())
            }
            Operator::Retired => Ok(()),
        }
    }

    /// The hot path: no sub-ranges, no ids.
    pub(super) fn take_windowed(
        &mut self,
        index: usize,
        batch: &LaneBatch,
        from: usize,
        until: usize,
    ) -> Result<(), JobEnd> {
        for (number, entry) in batch.entries.iter().enumerate().take(until).skip(from) {
            let Operator::Windows(windows) = &mut self.operator else { return Ok(()) };
            // Two stages ahead: first the index line, later the entry that it names.
            if let Some(ahead) = batch.entries.get(number + SLOT_AHEAD) {
                windows.state().prefetch_slot(ahead.hash);
            }
            if let Some(ahead) = batch.entries.get(number + ENTRY_AHEAD) {
                windows.state().prefetch_entry(ahead.hash);
            }
            let lane = &mut self.lanes[index];
            if lane.state.taken.covers(entry.point) {
                // A repeat after a session reset, or the lane is out of order: within one batch points grow.
                self.repeats += 1;
                continue;
            }
            lane.state.taken = Frontier::at(entry.point);
            self.counters.rows_in += 1;
            self.epoch_rows += 1;
            match windows.take(batch.key(entry), batch.args(entry), entry, lane.state.watermark) {
                Ok(Taken::InWindow) => {}
                Ok(Taken::Late) => self.late(index, batch, number)?,
                Err(refused) => return Err(self.refused(index, entry.point.position, *refused)),
            }
        }
        Ok(())
    }

    pub(super) fn take_one_windowed(
        &mut self,
        index: usize,
        batch: &LaneBatch,
        number: usize,
        watermark: Watermark,
    ) -> Result<(), JobEnd> {
        let entry = &batch.entries[number];
        let args = self.args(batch, number);
        let Operator::Windows(windows) = &mut self.operator else { return Ok(()) };
        match windows.take(batch.key(entry), args, entry, watermark) {
            Ok(Taken::InWindow) => Ok(()),
            Ok(Taken::Late) => self.late(index, batch, number),
            Err(refused) => Err(self.refused(index, entry.point.position, *refused)),
        }
    }

    /// The arguments of a message, behind its client-chosen id if it has one.
    pub(super) fn args<'a>(&self, batch: &'a LaneBatch, number: usize) -> &'a [u8] {
        let args = batch.args(&batch.entries[number]);
        if self.ids.is_some() { Ids::without_id(args) } else { args }
    }

    /// A late row is counted and, if somebody reads those, put out as it came.
    #[cold]
    pub(super) fn late(&mut self, index: usize, batch: &LaneBatch, number: usize) -> Result<(), JobEnd> {
        self.counters.late += 1;
        if !self.emission.takes_late() {
            return Ok(());
        }
        let entry = &batch.entries[number];
        let args = self.args(batch, number);
        let Operator::Windows(windows) = &self.operator else { return Ok(()) };
        let position = entry.point.position;
        let Some(record) = windows.late_record(args) else {
            let step = format!("{} late rows", self.computation);
            let reason = "a lane message is malformed".to_owned();
            return Err(self.poison(index, position, StepFailure { step, reason }));
        };
        self.emission
            .emit_late(record, entry.event_time)
            .map_err(|failure| self.poison(index, position, failure))
    }

    #[cold]
    pub(super) fn refused(&self, index: usize, position: Position, refused: Refused) -> JobEnd {
        match refused {
            Refused::Column(error) => JobEnd::Failed(error),
            Refused::Time => self.poison(
                index,
                position,
                StepFailure {
                    step: format!("{} window", self.computation),
                    reason: "the event time lies outside of what windows can hold".to_owned(),
                },
            ),
        }
    }
    #[cold]
    pub(super) fn poison(&self, lane: usize, position: Position, failure: StepFailure) -> JobEnd {
        JobEnd::Failed(EngineError::Poison {
            stream: self.plans[lane].stream.clone(),
            partition: self.plans[lane].producer.label(),
            position,
            step: failure.step,
            reason: failure.reason,
        })
    }

    pub(super) fn clocks(&self, now: i64) -> Clocks {
        Clocks { watermark: self.effective, system: self.system_time, real: now }
    }

    pub(super) fn fire(&mut self, now: i64) -> Result<(), JobEnd> {
        let clocks = self.clocks(now);
        while self.epoch_has_room() {
            let room = self.room();
            match &mut self.operator {
                Operator::Windows(windows) => {
                    let Some((rows, bytes)) = windows.fire(self.effective, room, &mut self.emission)? else {
                        break;
                    };
                    self.epoch_rows += rows;
                    self.epoch_bytes += bytes;
                }
                Operator::Process(process) => {
                    let fired = process.fire(clocks, &mut self.emission)?;
                    if fired == 0 {
                        break;
                    }
                    self.epoch_rows += fired;
                }
                Operator::Retired => break,
            }
            self.counters_dirty = true;
        }
        self.promise();
        Ok(())
    }

    /// The output watermark never passes an unfired due timer (WATERMARK-IN-LANE).
    pub(super) fn promise(&mut self) {
        if self.emission.exchange.is_empty() || self.retired {
            return;
        }
        let (held, lateness) = match &self.operator {
            Operator::Windows(windows) => (windows.held_at(), windows.lateness()),
            Operator::Process(process) => (process.held_at(), 0),
            Operator::Retired => return,
        };
        if self.has_fired_all() {
            if self.promised != Watermark::END {
                self.promised = Watermark::END;
                self.emission.watermark(Watermark::END);
                self.emission.exchange.through(Frontier::END);
            }
            return;
        }
        // Results of a window carry its last microsecond, and one that is held for its late rows comes later.
        let behind = self.effective.0.saturating_sub(lateness);
        let promise = Watermark(held.map_or(behind, |held| behind.min(held.saturating_sub(1))));
        if promise > self.promised && self.effective != Watermark::NONE && self.effective != Watermark::END {
            self.promised = promise;
            self.emission.watermark(promise);
        }
    }
}
