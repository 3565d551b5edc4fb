//! Where a job's rows leave it: one delivery per sink, and positions that the epoch fixes.

use onceward_protocol::{PartitionId, Position};
use onceward_store::WriteBatch;

use crate::delivery::{Delivery, SinkPlan};
use crate::entropy::Nonces;
use crate::job::{JobEnd, Request, SinkStats, TargetAnswer};
use crate::stored::Stored;

/// All sinks of one job.
pub struct Outputs {
    deliveries: Vec<Delivery>,
    nonces: Nonces,
    epoch: u64,
    index: u32,
}

impl Outputs {
    /// Takes up what is stored; `epoch` is the first epoch to be gathered.
    pub fn new(
        sinks: &[SinkPlan],
        partition: &PartitionId,
        stored: &mut Stored,
        nonces: Nonces,
        epoch: u64,
    ) -> Self {
        let label = partition.label();
        Outputs {
            deliveries: sinks.iter().map(|plan| Delivery::new(plan.clone(), &label, stored)).collect(),
            nonces,
            epoch,
            index: 0,
        }
    }
    /// Puts a row into the outbox of the epoch being gathered. Its position is (epoch, index): the commit
    /// that stores it fixes it.
    pub fn push(&mut self, sink: u32, row: &[u8]) {
        let position = self.next_position();
        self.index += 1;
        if let Some(delivery) = self.deliveries.iter_mut().find(|delivery| delivery.number() == sink) {
            delivery.push(position, row);
        }
    }
    /// Whether what this sink is owed is a range of the source.
    pub fn is_by_reference(&self, sink: u32) -> bool {
        self.deliveries.iter().any(|delivery| delivery.number() == sink && delivery.is_by_reference())
    }
    /// Puts a row under the source's own position into the epoch being gathered.
    pub fn push_at(&mut self, sink: u32, position: Position, row: &[u8]) {
        self.index += 1;
        if let Some(delivery) = self.deliveries.iter_mut().find(|delivery| delivery.number() == sink) {
            delivery.push_at(position, row);
        }
    }
    /// Whether any sink is owed ranges of the source, and whether any is owed rows.
    pub fn kinds(&self) -> (bool, bool) {
        let by_reference = self.deliveries.iter().any(Delivery::is_by_reference);
        (by_reference, !self.deliveries.iter().all(Delivery::is_by_reference))
    }
    /// The first row by reference that a target has not confirmed.
    pub fn unfinished(&self) -> Option<Position> {
        self.deliveries.iter().filter_map(Delivery::unfinished).min()
    }
    /// Takes the next position of the epoch for a message that is no sink's row.
    pub fn take_position(&mut self) -> Position {
        let position = self.next_position();
        self.index += 1;
        position
    }
    /// The position that the next row will have.
    pub fn next_position(&self) -> Position {
        Position::new(self.epoch, self.index + 1)
    }
    /// Rows in the epoch being gathered.
    pub fn gathered_rows(&self) -> u64 {
        u64::from(self.index)
    }
    /// Payload bytes in the epoch being gathered.
    pub fn gathered_bytes(&self) -> u64 {
        self.deliveries.iter().map(|delivery| delivery.gathered_bytes() as u64).sum()
    }
    /// Whether the job must wait for its targets.
    pub fn is_full(&self) -> bool {
        self.deliveries.iter().any(Delivery::is_full)
    }
    /// See [`Delivery::set_gate`].
    pub fn set_gate(&mut self, closed: bool) {
        self.deliveries.iter_mut().for_each(|delivery| delivery.set_gate(closed));
    }
    /// See [`Delivery::halt`].
    pub fn halt(&mut self) {
        self.deliveries.iter_mut().for_each(Delivery::halt);
    }
    /// See [`Delivery::is_quiet`].
    pub fn is_quiet(&self) -> bool {
        self.deliveries.iter().all(Delivery::is_quiet)
    }
    /// See [`Delivery::is_settled`].
    pub fn is_settled(&self) -> bool {
        self.deliveries.iter().all(Delivery::is_settled)
    }
    /// See [`Delivery::set_flush`].
    pub fn set_flush(&mut self) {
        self.deliveries.iter_mut().for_each(Delivery::set_flush);
    }
    /// See [`Delivery::wants_commit`].
    pub fn wants_commit(&self) -> (bool, bool) {
        self.deliveries.iter().map(Delivery::wants_commit).fold((false, false), |a, b| (a.0 | b.0, a.1 | b.1))
    }
    /// Figures per sink.
    pub fn figures(&self) -> impl Iterator<Item = SinkStats> {
        self.deliveries.iter().map(Delivery::figures)
    }
    /// Writes the sinks' part of the epoch that is being closed.
    pub fn write_epoch(&mut self, epoch: u64, writes: &mut WriteBatch) {
        debug_assert_eq!(epoch, self.epoch);
        for delivery in &mut self.deliveries {
            delivery.write_epoch(epoch, writes);
        }
        self.epoch = epoch + 1;
        self.index = 0;
    }
    /// An epoch is committed.
    pub fn committed(&mut self, epoch: u64, out: &mut Vec<Request>) {
        for delivery in &mut self.deliveries {
            delivery.committed(epoch, out);
        }
    }
    /// A target answered.
    pub fn answered(
        &mut self,
        now: i64,
        sink: u32,
        answer: Result<TargetAnswer, onceward_connector::TargetError>,
        out: &mut Vec<Request>,
    ) -> Result<(), JobEnd> {
        match self.deliveries.iter_mut().find(|delivery| delivery.number() == sink) {
            Some(delivery) => delivery.answered(now, answer, out),
            None => Ok(()),
        }
    }
    /// Lets every sink do what it can; answers the earliest time to be asked again.
    pub fn poll(&mut self, now: i64, out: &mut Vec<Request>) -> Option<i64> {
        let Outputs { deliveries, nonces, .. } = self;
        deliveries.iter_mut().filter_map(|delivery| delivery.poll(now, nonces, out)).min()
    }
}
