//! Where a job's rows leave it: one delivery per sink, and the positions of rows. By value the epoch fixes them; by
//! reference they are those of the rows that were read.

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
        Outputs {
            deliveries: sinks.iter().map(|plan| Delivery::new(plan.clone(), partition, stored)).collect(),
            nonces,
            epoch,
            index: 0,
        }
    }
    /// Puts a row into the outbox of the epoch being gathered. Its position is (epoch, index): the commit
    /// that stores it fixes it. Not for sinks by reference.
    pub fn push(&mut self, sink: u32, row: &[u8]) {
        let position = self.next_position();
        self.index += 1;
        match self.delivery(sink) {
            Some(delivery) if delivery.is_by_reference() => delivery.refuse_form(),
            Some(delivery) => delivery.push(position, row),
            None => {}
        }
    }
    /// Puts a row into the outbox of a sink by reference, at the position of the row it was made of and, as the minor
    /// part, its number among those that this row gave the sink. Positions grow, except when rows are read again: a
    /// row at or below one that was pushed or is finished is ignored. The same position must always bring the same
    /// row.
    pub fn push_at(&mut self, sink: u32, position: Position, row: &[u8]) {
        match self.delivery(sink) {
            Some(delivery) if delivery.is_by_reference() => delivery.push(position, row),
            Some(delivery) => delivery.refuse_form(),
            None => {}
        }
    }
    fn delivery(&mut self, sink: u32) -> Option<&mut Delivery> {
        self.deliveries.iter_mut().find(|delivery| delivery.number() == sink)
    }
    /// Whether the rows of a sink are given by [`Outputs::push_at`]. A sink that was written by value before stays so,
    /// whatever its plan says.
    pub fn is_by_reference(&self, sink: u32) -> bool {
        self.deliveries.iter().any(|delivery| delivery.number() == sink && delivery.is_by_reference())
    }
    /// Whether there are sinks by reference, and whether there are others, whose rows are taken with an epoch and must
    /// not be given again.
    pub fn kinds(&self) -> (bool, bool) {
        let references = self.references().count();
        (references > 0, references < self.deliveries.len())
    }
    /// The first row by reference that its target has not confirmed; the partition's finished place must stay below it
    /// (CONTIGUOUS-PROGRESS). `None` if everything that was pushed is finished.
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
    /// Rows and positions in the epoch being gathered.
    pub fn gathered_rows(&self) -> u64 {
        u64::from(self.index) + self.references().map(Delivery::gathered_rows).sum::<u64>()
    }
    /// The same without rows that an earlier epoch contained: by reference, rows are taken again after a restart.
    pub fn new_rows(&self) -> u64 {
        u64::from(self.index) + self.references().map(Delivery::new_rows).sum::<u64>()
    }
    fn references(&self) -> impl Iterator<Item = &Delivery> {
        self.deliveries.iter().filter(|delivery| delivery.is_by_reference())
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
    /// See [`Delivery::stop`].
    pub fn stop(&mut self) {
        self.deliveries.iter_mut().for_each(Delivery::stop);
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
    pub fn committed(&mut self, epoch: u64) {
        self.deliveries.iter_mut().for_each(|delivery| delivery.committed(epoch));
    }
    /// A target answered.
    pub fn answered(
        &mut self,
        now: i64,
        sink: u32,
        answer: Result<TargetAnswer, onceward_connector::TargetError>,
    ) -> Result<(), JobEnd> {
        match self.delivery(sink) {
            Some(delivery) => delivery.answered(now, answer),
            None => Ok(()),
        }
    }
    /// Lets every sink do what it can: the only place where targets are called. Answers the earliest time to be asked
    /// again.
    pub fn poll(&mut self, now: i64, out: &mut Vec<Request>) -> Result<Option<i64>, JobEnd> {
        let Outputs { deliveries, nonces, .. } = self;
        let mut wake = None;
        for delivery in deliveries {
            let at = delivery.poll(now, nonces, out)?;
            wake = wake.into_iter().chain(at).min();
        }
        Ok(wake)
    }
}
