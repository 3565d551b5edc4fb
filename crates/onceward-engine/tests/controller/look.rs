//! What tests look at: the record, what is stored, what arrived, and what was seen.

use std::collections::BTreeMap;

use onceward_engine::controller::{Controller, Happening};
use onceward_engine::layout::{LAYOUT_KEY, LayoutRange, Role};
use onceward_engine::stored::{Counters, TABLES};
use onceward_engine::{Layout, Stored};
use onceward_protocol::lease::WorkerId;
use onceward_protocol::state::PipelineState;
use onceward_protocol::{CommitOutcome, Generation, PartitionId};
use onceward_store::{EpochCommit, Store, TableId, WriteBatch};

use crate::world::{Pending, Seen, TestJob, World};

/// What is stored of a computation, whatever its ranges.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fold {
    pub state: BTreeMap<Vec<u8>, Vec<u8>>,
    pub timers: BTreeMap<Vec<u8>, Vec<u8>>,
    pub counters: Counters,
}

impl World {
    pub fn controller(&self) -> &Controller {
        self.controller.as_ref().unwrap()
    }
    pub fn state(&self) -> PipelineState {
        self.controller().state()
    }
    /// The stored record.
    pub fn layout(&self) -> Layout {
        let store = self.store.as_ref().unwrap();
        let mut layout = None;
        let visit = &mut |key: &[u8], value: &[u8]| {
            if key == LAYOUT_KEY {
                layout = Layout::decode(value);
            }
        };
        store.scan(&self.manifest.layout().pipeline_partition(), TableId::META, visit).unwrap();
        layout.unwrap()
    }
    /// The live ranges of a computation as stored, in order of key.
    pub fn live(&self, computation: &str) -> Vec<LayoutRange> {
        let layout = self.layout();
        let keyed = layout.keyed.iter().find(|keyed| keyed.name == computation).unwrap();
        keyed.live().copied().collect()
    }
    /// Whether a computation has this many ranges and none that is retired.
    pub fn has_ranges(&self, computation: &str, ranges: usize) -> bool {
        let layout = self.controller().layout();
        let keyed = layout.keyed.iter().find(|keyed| keyed.name == computation).unwrap();
        keyed.ranges.len() == ranges && keyed.live().count() == ranges
    }
    pub fn stored(&self, id: &PartitionId) -> Stored {
        Stored::load(self.store.as_ref().unwrap(), id).unwrap()
    }
    pub fn id(&self, partition: u32) -> PartitionId {
        let known = self.layout().partitions().into_iter().find(|known| known.number == partition);
        known.unwrap().id
    }
    /// What is stored of a computation over all its ranges.
    pub fn fold(&self, computation: &str) -> Fold {
        let layout = self.layout();
        let keyed = layout.keyed.iter().position(|keyed| keyed.name == computation).unwrap();
        let mut fold = Fold::default();
        for partition in layout.partitions() {
            if !matches!(partition.role, Role::Keyed { keyed: of, .. } if of == keyed) {
                continue;
            }
            let stored = self.stored(&partition.id);
            for (key, value) in stored.state {
                assert!(fold.state.insert(key, value).is_none(), "a key has two owners");
            }
            for (key, value) in stored.timers {
                assert!(fold.timers.insert(key, value).is_none(), "a timer has two owners");
            }
            fold.counters.rows_in += stored.counters.rows_in;
            fold.counters.late += stored.counters.late;
            fold.counters.rows_out += stored.counters.rows_out;
        }
        fold
    }
    /// Rows that partitions count as delivered to a sink, those that are gone included.
    pub fn delivered(&self, sink: &str) -> u64 {
        let layout = self.layout();
        let gone = layout.delivered.get(sink).copied().unwrap_or(0);
        let of = |id: &PartitionId| {
            let stored = self.stored(id);
            let owed: u64 =
                stored.outbox.get(sink).into_iter().flatten().map(|(_, chunk)| chunk.len() as u64).sum();
            stored.taken.get(sink).copied().unwrap_or(0) - owed
        };
        gone + layout.partitions().iter().map(|partition| of(&partition.id)).sum::<u64>()
    }
    /// How many rows of any table are stored of a partition.
    pub fn stored_rows(&self, id: &PartitionId) -> usize {
        let store = self.store.as_ref().unwrap();
        let mut rows = 0;
        for table in TABLES {
            store.scan(id, table, &mut |_, _| rows += 1).unwrap();
        }
        rows
    }
    pub fn granted(&self, partition: u32) -> Option<Generation> {
        self.store.as_ref().unwrap().head(&self.id(partition)).unwrap().granted
    }

    /// The rows of a sink, sorted.
    pub fn sorted(&self, sink: u32) -> Vec<String> {
        let mut rows = self.arrived(sink);
        rows.sort();
        rows
    }
    /// The rows of a sink in the order in which they arrived.
    pub fn arrived(&self, sink: u32) -> Vec<String> {
        self.arrived.iter().filter(|(of, _, _)| *of == sink).map(|(_, _, row)| row.clone()).collect()
    }

    /// The job that has the lease of a partition.
    pub fn owner(&self, partition: u32) -> Option<&TestJob> {
        let lease = self.controller().leases().get(partition)?;
        self.jobs.iter().find(|job| job.partition.number == partition && job.generation == lease.generation)
    }
    /// Who has the lease of a partition.
    pub fn worker_of(&self, partition: u32) -> WorkerId {
        self.controller().leases().get(partition).unwrap().worker
    }
    /// Whether every partition of the layout is leased to a job that runs.
    pub fn all_run(&self) -> bool {
        let partitions = self.controller().layout().partitions();
        partitions.iter().all(|partition| self.owner(partition.number).is_some_and(|job| job.end.is_none()))
            && self.waiting(|pending| matches!(pending, Pending::Action(_))) == 0
    }
    /// Rows that a source partition's job has read.
    pub fn rows_read(&self, partition: u32) -> u64 {
        self.owner(partition).map_or(0, |job| job.job.stats().rows_in)
    }
    /// Messages that the ranges of a computation have taken, as their owners know it.
    pub fn rows_taken(&self, computation: &str) -> u64 {
        let layout = self.controller().layout();
        let keyed = layout.keyed.iter().find(|keyed| keyed.name == computation).unwrap();
        let owners = keyed.live().filter_map(|range| self.owner(range.number));
        owners.map(|job| job.job.stats().rows_in).sum()
    }

    /// What people who watch were told, from a place of `seen` on.
    pub fn happenings(&self, from: usize) -> Vec<Happening> {
        let log = |seen: &Seen| match seen {
            Seen::Log(happening) => Some(happening.clone()),
            _ => None,
        };
        self.seen[from..].iter().filter_map(log).collect()
    }
    pub fn has_happened(&self, from: usize, what: impl Fn(&Happening) -> bool) -> bool {
        self.happenings(from).iter().any(what)
    }
    /// Jobs of a partition that were assigned, from a place of `seen` on.
    pub fn assigned(&self, from: usize, partition: u32) -> Vec<(WorkerId, Generation)> {
        let assigned = |seen: &Seen| match seen {
            Seen::Assign { worker, partition: of, generation } if *of == partition => {
                Some((*worker, *generation))
            }
            _ => None,
        };
        self.seen[from..].iter().filter_map(assigned).collect()
    }

    /// What the store says to a commit that a job makes now, on top of the very last one.
    pub fn late_commit(&mut self, id: &PartitionId, generation: Generation) -> CommitOutcome {
        let store = self.store.as_mut().unwrap();
        let predecessor = store.head(id).unwrap().head;
        let epoch = predecessor.map_or(0, |head| head.epoch) + 1;
        let mut writes = WriteBatch::default();
        writes.put(TableId::META, b"late", b"commit");
        store.commit(EpochCommit { partition: id.clone(), generation, epoch, predecessor, writes });
        let mut outcomes = Vec::new();
        store.flush(&mut outcomes).unwrap();
        outcomes[0].outcome
    }
    /// No lease is live, in memory or in the store, and no job that ever was can commit any more.
    pub fn assert_nothing_is_live(&mut self) {
        let leases: Vec<_> = self.controller().leases().iter().map(|(number, _)| number).collect();
        assert_eq!(leases, Vec::<u32>::new());
        assert!(self.controller().leases().is_empty());
        for partition in self.layout().partitions() {
            assert_eq!(self.granted(partition.number), None, "{}", partition.id.label());
        }
        assert!(!self.former.is_empty());
        for (id, generation) in self.former.clone() {
            let outcome = self.late_commit(&id, generation);
            assert!(matches!(outcome, CommitOutcome::Fenced(_)), "{} {generation}: {outcome:?}", id.label());
        }
    }
}
