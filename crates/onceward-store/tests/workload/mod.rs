//! A scripted workload on a simulated disk, and the model it is compared with.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::BTreeMap;
use std::path::Path;

use onceward_protocol::{CommitOutcome, Generation, Mutants, PartitionHead, chain::Head};
use onceward_store::contract::{generation, partition};
use onceward_store::disk::FaultDisk;
use onceward_store::{
    EmbeddedCore, EpochCommit, Operation, Options, Outcome, Store, StoreError, TableId, WriteBatch,
};

pub const DIR: &str = "/store";
pub const PARTITIONS: u64 = 3;

/// A value: so many times the same letter. Short in a failed test's output.
pub type Letters = (usize, u8);
/// What a store has of one partition.
pub type Found = (PartitionHead, BTreeMap<String, Letters>);
/// What a store has, by partition.
pub type State = BTreeMap<u32, Found>;

#[derive(Clone, Debug)]
pub enum Op {
    Grant(u32, Generation),
    Revoke(u32),
    Commit(u32, Generation, u64, Option<Head>, Vec<(String, Option<Letters>)>),
    Transact(Vec<Op>),
}

/// Numbers that depend on nothing but where they start.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn apply(state: &mut State, op: &Op) {
    match op {
        Op::Grant(index, generation) => {
            let entry = state.entry(*index).or_default();
            entry.0 = entry.0.grant(*generation);
        }
        Op::Revoke(index) => {
            if let Some(entry) = state.get_mut(index) {
                entry.0.granted = None;
            }
        }
        Op::Commit(index, generation, epoch, _, rows) => {
            let entry = state.entry(*index).or_default();
            entry.0.head = Some(Head { generation: *generation, epoch: *epoch });
            for (key, value) in rows {
                match value {
                    Some(value) => entry.1.insert(key.clone(), *value),
                    None => entry.1.remove(key),
                };
            }
        }
        Op::Transact(ops) => ops.iter().for_each(|op| apply(state, op)),
    }
}

fn rows(numbers: &mut Numbers) -> Vec<(String, Option<Letters>)> {
    let row = |numbers: &mut Numbers| {
        let key = format!("key-{:02}", numbers.below(24));
        let len = numbers.below(1200) as usize;
        (key, (numbers.below(4) > 0).then_some((len, b'a' + (len % 26) as u8)))
    };
    (0..=numbers.below(4)).map(|_| row(numbers)).collect()
}

fn head(state: &State, index: u32) -> PartitionHead {
    state.get(&index).map_or_else(PartitionHead::default, |found| found.0)
}

/// The next commit of whoever owns the partition.
fn commit(state: &State, index: u32, numbers: &mut Numbers) -> Option<Op> {
    let head = head(state, index);
    let epoch = head.head.map_or(0, |head| head.epoch) + 1 + numbers.below(3);
    Some(Op::Commit(index, head.granted?, epoch, head.head, rows(numbers)))
}

/// A re-cut: every partition changes hands, with a last commit of the old job and a first one of the new.
fn transaction(state: &State, numbers: &mut Numbers) -> Op {
    let mut submitted = state.clone();
    let mut ops = Vec::new();
    for index in 0..PARTITIONS as u32 {
        let grant = Op::Grant(index, generation(head(state, index).last_number + 1));
        for op in [commit(&submitted, index, numbers), Some(Op::Revoke(index)), Some(grant)] {
            op.iter().for_each(|op| apply(&mut submitted, op));
            ops.extend(op);
        }
        let first = commit(&submitted, index, numbers);
        first.iter().for_each(|op| apply(&mut submitted, op));
        ops.extend(first);
    }
    Op::Transact(ops)
}

/// The next group: a few operations that are all accepted when submitted in this order.
pub fn group(state: &State, numbers: &mut Numbers) -> Vec<Op> {
    let mut submitted = state.clone();
    let mut ops = Vec::new();
    for _ in 0..=numbers.below(3) {
        let index = numbers.below(PARTITIONS) as u32;
        let head = head(&submitted, index);
        let op = match (head.granted, numbers.below(20)) {
            (None, _) | (_, 0) => Op::Grant(index, generation(head.last_number + 1)),
            (_, 1) => Op::Revoke(index),
            (_, 2 | 3) => transaction(&submitted, numbers),
            _ => commit(&submitted, index, numbers).unwrap(),
        };
        apply(&mut submitted, &op);
        ops.push(op);
    }
    ops
}

/// Every state that a crash in the middle of `ops` may leave: none of them, the first, the first two...
pub fn prefixes(state: &State, ops: &[Op]) -> Vec<State> {
    let mut states = vec![state.clone()];
    for op in ops {
        let mut next = states[states.len() - 1].clone();
        apply(&mut next, op);
        states.push(next);
    }
    states
}

fn operation(op: &Op) -> Operation {
    match op {
        Op::Grant(index, generation) => Operation::Grant(partition(*index), *generation),
        Op::Revoke(index) => Operation::Revoke(partition(*index)),
        Op::Commit(index, generation, epoch, predecessor, rows) => {
            let mut writes = WriteBatch::default();
            for (key, value) in rows {
                match value {
                    Some((len, letter)) => writes.put(TableId::STATE, key.as_bytes(), &vec![*letter; *len]),
                    None => writes.delete(TableId::STATE, key.as_bytes()),
                }
            }
            Operation::Commit(EpochCommit {
                partition: partition(*index),
                generation: *generation,
                epoch: *epoch,
                predecessor: *predecessor,
                writes,
            })
        }
        Op::Transact(_) => unreachable!("a transaction is no step of another one"),
    }
}

pub fn submit(store: &mut dyn Store, op: &Op) {
    if let Op::Transact(ops) = op {
        store.transact(ops.iter().map(operation).collect());
        return;
    }
    match operation(op) {
        Operation::Grant(partition, generation) => store.grant(&partition, generation),
        Operation::Revoke(partition) => store.revoke(&partition),
        Operation::Commit(commit) => store.commit(commit),
        Operation::Require(..) => unreachable!("the workload has no such step"),
    };
}

pub fn read(store: &dyn Store) -> Result<State, StoreError> {
    let mut state = State::new();
    for index in 0..PARTITIONS as u32 {
        if !store.partitions()?.contains(&partition(index)) {
            continue;
        }
        let mut rows = BTreeMap::new();
        let mut last: Option<Vec<u8>> = None;
        store.scan(&partition(index), TableId::STATE, &mut |key, value| {
            assert!(last.as_deref() < Some(key), "rows out of order");
            last = Some(key.to_vec());
            let letter = value.first().copied().unwrap_or(b'a');
            assert!(value.iter().all(|byte| *byte == letter), "a value of two halves");
            rows.insert(String::from_utf8(key.to_vec()).unwrap(), (value.len(), letter));
        })?;
        state.insert(index, (store.head(&partition(index))?, rows));
    }
    Ok(state)
}

pub fn open(disk: &FaultDisk, mutants: Mutants) -> Result<EmbeddedCore<FaultDisk>, StoreError> {
    EmbeddedCore::open(disk.clone(), Path::new(DIR), Options::small(), mutants)
}

/// Submits, flushes and maintains one group. On an error: whether the group was reported committed.
pub fn run_group(store: &mut EmbeddedCore<FaultDisk>, ops: &[Op]) -> Result<(), (bool, StoreError)> {
    for op in ops {
        submit(store, op);
    }
    let mut outcomes: Vec<Outcome> = Vec::new();
    let flushed = store.flush(&mut outcomes);
    let expected = if flushed.is_ok() { CommitOutcome::Committed } else { CommitOutcome::Unknown };
    assert_eq!(outcomes.len(), ops.len());
    for outcome in &outcomes {
        assert_eq!(outcome.outcome, expected);
    }
    flushed.map_err(|error| (false, error))?;
    store.maintain().map_err(|error| (true, error))
}

/// What a run came to: the states that the disk may now hold.
pub struct Ended {
    pub allowed: Vec<State>,
    pub error: Option<StoreError>,
}

/// Runs `groups` groups on `disk`, opening the store anew half-way; ends at the first error.
pub fn run(disk: &FaultDisk, groups: usize, start: &State, numbers: &mut Numbers, mutants: Mutants) -> Ended {
    let mut committed = start.clone();
    for half in [groups / 2, groups - groups / 2] {
        let mut store = match open(disk, mutants) {
            Ok(store) => store,
            Err(error) => return Ended { allowed: vec![committed], error: Some(error) },
        };
        for _ in 0..half {
            let ops = group(&committed, numbers);
            let mut states = prefixes(&committed, &ops);
            let after = states[states.len() - 1].clone();
            match run_group(&mut store, &ops) {
                Ok(()) => committed = after,
                Err((true, error)) => return Ended { allowed: vec![after], error: Some(error) },
                Err((false, error)) => {
                    states.dedup();
                    return Ended { allowed: states, error: Some(error) };
                }
            }
            assert_eq!(read(&store).unwrap(), committed);
        }
    }
    Ended { allowed: vec![committed], error: None }
}

/// A store that ran `groups` groups undisturbed: its disk and what is committed.
pub fn filled(groups: usize) -> (FaultDisk, State) {
    let disk = FaultDisk::new();
    let ended = run(&disk, groups, &State::new(), &mut Numbers(1), Mutants::NONE);
    assert!(ended.error.is_none());
    (disk, ended.allowed[0].clone())
}
