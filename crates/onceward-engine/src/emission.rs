//! What a keyed job puts out: rows for sinks and messages for other computations, each with a position that the
//! epoch fixes.

use std::sync::Arc;

use onceward_protocol::{LanePoint, PartitionId, Watermark, routing_hash};
use onceward_store::WriteBatch;

use crate::exchange::Exchange;
use crate::fused::{Emit, Origin, Scratch, StepFailure, Tree};
use crate::job::{JobEnd, Request};
use crate::output::Outputs;

/// A tree of steps behind a keyed job, and its buffers.
pub struct Branch {
    tree: Arc<Tree>,
    scratch: Scratch,
    /// Where the tree's groups begin among the job's.
    first_group: usize,
    /// Every so many records one is computed twice; 0 for none.
    check_every: u64,
    records: u64,
}

impl Branch {
    /// A branch whose groups follow those of the branches before it.
    pub fn new(tree: Arc<Tree>, first_group: usize, check_every: u64) -> Self {
        Branch { scratch: tree.scratch(), tree, first_group, check_every, records: 0 }
    }
}

/// Everything a keyed job puts out.
pub struct Emission {
    partition: PartitionId,
    /// Rows for sinks.
    pub outputs: Outputs,
    /// Messages for other computations.
    pub exchange: Exchange,
    main: Branch,
    late: Option<Branch>,
}

struct Target<'a> {
    outputs: &'a mut Outputs,
    exchange: &'a mut Exchange,
    first_group: usize,
    event_time: i64,
}

impl Emit for Target<'_> {
    fn keyed(&mut self, group: usize, _child: u32, key: &[u8], args: &[u8]) {
        // A position of its own: within one epoch the index is fixed by the commit.
        let point = LanePoint::new(self.outputs.take_position(), 0);
        let hash = routing_hash(key);
        self.exchange.push(self.first_group + group, point, hash, self.event_time, key, args);
    }
    fn row(&mut self, sink: u32, json: &[u8]) {
        self.outputs.push(sink, json);
    }
}

impl Emission {
    /// Puts the parts together.
    pub fn new(
        partition: PartitionId,
        outputs: Outputs,
        exchange: Exchange,
        main: Branch,
        late: Option<Branch>,
    ) -> Self {
        Emission { partition, outputs, exchange, main, late }
    }
    /// Puts out a record. `event_time` is `i64::MIN` for none.
    pub fn emit(&mut self, record: &[u8], event_time: i64) -> Result<(), StepFailure> {
        let Emission { partition, outputs, exchange, main, .. } = self;
        Self::walk(partition, outputs, exchange, main, record, event_time)
    }
    /// Whether anybody reads late records.
    pub fn takes_late(&self) -> bool {
        self.late.is_some()
    }
    /// Puts out a late record, if anybody reads those.
    pub fn emit_late(&mut self, record: &[u8], event_time: i64) -> Result<(), StepFailure> {
        let Emission { partition, outputs, exchange, late, .. } = self;
        match late {
            Some(late) => Self::walk(partition, outputs, exchange, late, record, event_time),
            None => Ok(()),
        }
    }
    fn walk(
        partition: &PartitionId,
        outputs: &mut Outputs,
        exchange: &mut Exchange,
        branch: &mut Branch,
        record: &[u8],
        event_time: i64,
    ) -> Result<(), StepFailure> {
        branch.records += 1;
        branch.scratch.set_check(branch.check_every > 0 && branch.records.is_multiple_of(branch.check_every));
        let origin = Origin { root: partition, position: outputs.next_position() };
        let mut target = Target { outputs, exchange, first_group: branch.first_group, event_time };
        branch.tree.evaluate(record, origin, &mut branch.scratch, &mut target, |_, _| {})
    }
    /// Rows and messages in the epoch being gathered.
    pub fn gathered_rows(&self) -> u64 {
        self.outputs.gathered_rows()
    }
    /// Payload bytes in the epoch being gathered.
    pub fn gathered_bytes(&self) -> u64 {
        self.outputs.gathered_bytes() + self.exchange.gathered_bytes()
    }
    /// Whether the job must wait for targets or consumers.
    pub fn is_full(&self) -> bool {
        self.outputs.is_full() || self.exchange.is_full()
    }
    /// Whether nothing is owed to any sink and everything is recorded.
    pub fn is_settled(&self) -> bool {
        self.outputs.is_settled()
    }
    /// Whether an overlapping ancestor is undrained, so that nothing may leave.
    pub fn is_gated(&self) -> bool {
        self.exchange.is_gated()
    }
    /// Opens or closes the gate (ANCESTOR-GATE).
    pub fn set_gate(&mut self, closed: bool) {
        self.outputs.set_gate(closed);
        self.exchange.set_gate(closed);
    }
    /// Promises to all consumers that nothing older comes.
    pub fn watermark(&mut self, watermark: Watermark) {
        self.exchange.watermark_all(watermark);
    }
    /// Writes the epoch that is being closed.
    pub fn write_epoch(&mut self, epoch: u64, writes: &mut WriteBatch) {
        self.exchange.seal(epoch);
        self.exchange.write_epoch(epoch, writes);
        self.outputs.write_epoch(epoch, writes);
    }
    /// An epoch is committed.
    pub fn committed(&mut self, epoch: u64) {
        self.exchange.committed(epoch);
        self.outputs.committed(epoch);
    }
    /// Lets everything go on that can; answers when to be asked again.
    pub fn poll(&mut self, now: i64, out: &mut Vec<Request>) -> Result<Option<i64>, JobEnd> {
        self.exchange.poll(out);
        self.outputs.poll(now, out)
    }
}
