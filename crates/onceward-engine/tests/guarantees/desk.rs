//! Outputs without a job: rows are pushed, epochs closed and targets answered by hand.

use std::collections::{BTreeMap, VecDeque};

use onceward_connector::{BlockPolicy, SinkContract, TargetError};
use onceward_engine::delivery::SinkPlan;
use onceward_engine::entropy::Nonces;
use onceward_engine::ledger::Ledger;
use onceward_engine::output::Outputs;
use onceward_engine::{JobEnd, Request, SinkStats, TargetAnswer, TargetCall};
use onceward_protocol::identity::PartitionKind;
use onceward_protocol::{Branch, Creation, Generation, Mutants, PartitionId};
use onceward_store::WriteBatch;

use crate::shelf::Shelf;
use crate::target::{Target, kind};

/// A sink of ten rows per block that are written at once.
pub fn plan(number: u32, contract: SinkContract) -> SinkPlan {
    SinkPlan {
        number,
        name: format!("sink{number}"),
        contract,
        policy: BlockPolicy { max_rows: 10, max_bytes: 1 << 20, max_age_us: 0 },
        by_reference: false,
        at_most_once: None,
        mutants: Mutants::NONE,
    }
}

pub fn partition(creation: u128, name: &str) -> PartitionId {
    let kind =
        PartitionKind::Source { source: "rows".into(), creation: Creation(creation), name: name.to_owned() };
    PartitionId::new(Creation(creation), kind)
}

pub struct Desk {
    pub now: i64,
    pub outputs: Outputs,
    pub shelf: Shelf,
    pub targets: BTreeMap<u32, Target>,
    /// Every call so far.
    pub calls: Vec<TargetCall>,
    plans: Vec<SinkPlan>,
    partition: PartitionId,
    ledger: Ledger<()>,
    pending: VecDeque<(u32, TargetCall)>,
}

fn job(plans: &[SinkPlan], partition: &PartitionId, shelf: &mut Shelf) -> (Outputs, Ledger<()>) {
    let number = shelf.head.last_number + 1;
    let generation = Generation { number, nonce: number, branch: Branch::default() };
    shelf.head = shelf.head.grant(generation);
    let mut stored = shelf.stored();
    let ledger = Ledger::new(partition.clone(), generation, stored.head.head);
    let outputs = Outputs::new(plans, partition, &mut stored, Nonces::new(number), ledger.current());
    (outputs, ledger)
}

impl Desk {
    pub fn new(plans: Vec<SinkPlan>) -> Self {
        Self::of(partition(1, "p0"), plans)
    }
    pub fn of(partition: PartitionId, plans: Vec<SinkPlan>) -> Self {
        let mut shelf = Shelf::default();
        let (outputs, ledger) = job(&plans, &partition, &mut shelf);
        Desk {
            now: 0,
            outputs,
            shelf,
            targets: BTreeMap::new(),
            calls: Vec::new(),
            plans,
            partition,
            ledger,
            pending: VecDeque::new(),
        }
    }
    /// The power goes and comes back.
    pub fn restart(&mut self) {
        (self.outputs, self.ledger) = job(&self.plans, &self.partition, &mut self.shelf);
        self.pending.clear();
    }
    /// The power goes, and the manifest is another one when it comes back.
    pub fn restart_with(&mut self, plans: Vec<SinkPlan>) {
        self.plans = plans;
        self.restart();
    }
    /// Closes an epoch and commits it.
    pub fn epoch(&mut self) {
        let mut writes = WriteBatch::default();
        let epoch = self.ledger.current();
        self.outputs.write_epoch(epoch, &mut writes);
        let outcome = self.shelf.commit(&self.ledger.close(writes, ()));
        self.ledger.settle(epoch, outcome).unwrap();
        self.outputs.committed(epoch);
    }
    /// Lets sinks do what they can.
    pub fn try_poll(&mut self) -> Result<Option<i64>, JobEnd> {
        let mut requests = Vec::new();
        let wake = self.outputs.poll(self.now, &mut requests)?;
        for request in requests {
            let Request::Target { sink, call } = request else { panic!("{request:?}") };
            self.calls.push(call.clone());
            self.pending.push_back((sink, call));
        }
        Ok(wake)
    }
    pub fn poll(&mut self) -> Option<i64> {
        self.try_poll().unwrap()
    }
    /// The oldest call is carried out and answered.
    pub fn answer(&mut self) -> bool {
        let Some((sink, call)) = self.pending.pop_front() else { return false };
        let answer = self.targets.entry(sink).or_default().apply(&call);
        self.outputs.answered(self.now, sink, answer).unwrap();
        true
    }
    /// The oldest call is answered like this and not carried out.
    pub fn answer_with(&mut self, answer: Result<TargetAnswer, TargetError>) -> Result<(), JobEnd> {
        let (sink, _) = self.pending.pop_front().unwrap();
        self.outputs.answered(self.now, sink, answer)
    }
    /// Polls, answers and commits until nothing more happens.
    pub fn settle(&mut self) {
        for _ in 0..1_000 {
            self.poll();
            let answered = self.answer();
            if self.outputs.wants_commit().0 {
                self.epoch();
            } else if !answered {
                return;
            }
        }
        panic!("no end");
    }
    pub fn is_calling(&self) -> bool {
        !self.pending.is_empty()
    }
    pub fn kinds(&self) -> Vec<&'static str> {
        self.calls.iter().map(kind).collect()
    }
    pub fn rows(&self, sink: u32) -> Vec<String> {
        self.targets.get(&sink).map(|target| target.rows.clone()).unwrap_or_default()
    }
    pub fn figures(&self) -> SinkStats {
        self.outputs.figures().next().unwrap()
    }
}

/// The job's failure.
pub fn failure<T: std::fmt::Debug>(result: Result<T, JobEnd>) -> String {
    match result {
        Err(JobEnd::Failed(error)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Rows `from..to`, by number.
pub fn numbered(rows: std::ops::Range<u64>) -> Vec<String> {
    rows.map(|number| format!(r#"{{"n":{number}}}"#)).collect()
}
