//! The contract suite that every store must pass.
//!
//! Each rule is one function over a [`Subject`]; [`suite`] runs them all. Nothing here panics: a
//! broken rule is a [`Violation`] that names it, so that a test in any crate can show it.

mod transactions;

use onceward_protocol::chain::{Head, own_commit};
use onceward_protocol::identity::PartitionKind;
use onceward_protocol::{Branch, CommitOutcome, Creation, Fenced, Generation, PartitionHead, PartitionId};

use crate::batch::{TableId, WriteBatch};
use crate::error::StoreError;
use crate::store::{EpochCommit, Outcome, Store, Ticket};

/// One place where a store lives: it can be opened again after the process is gone.
pub trait Subject {
    /// Opens the store. The one opened before was dropped.
    fn open(&mut self) -> Result<Box<dyn Store>, StoreError>;
    /// Makes the next flush of the open store fail with nobody knowing what was written. Answers
    /// `false` if this subject cannot; then outcomes of that kind are not tested.
    fn break_next_flush(&mut self) -> bool {
        false
    }
}

/// A rule that a store broke.
#[derive(Debug, thiserror::Error)]
#[error("the store broke \"{rule}\": {what}")]
pub struct Violation {
    /// The rule.
    pub rule: &'static str,
    /// What was found and expected.
    pub what: String,
}

type Check = Result<(), String>;
type Rule = (&'static str, fn(&mut dyn Subject) -> Check);

/// The rules by name.
const RULES: &[Rule] = &[
    ("an epoch is applied as a whole", atomicity),
    ("a commit follows the very commit its job had seen", chaining),
    ("only the owner commits", fencing),
    ("a generation's number is never reused", generations_grow),
    ("grants and commits share one order", one_order),
    ("a refused commit breaks the chain behind it", refused_in_a_pipeline),
    ("rows are seen once they are flushed, not before", visibility),
    ("scans are in key order, one table at a time", ordered_scans),
    ("later entries win and deletes remove", overwrites_and_deletes),
    ("partitions do not see each other", isolation),
    ("a store opened again has what was committed", reopening),
    ("an unknown outcome is settled by the stored head", unknown_outcomes),
    ("a transaction is applied as a whole", transactions::whole),
    ("a refusal at any step refuses the whole transaction", transactions::refused_at_any_step),
    ("the steps of a transaction build on each other", transactions::steps_build_on_each_other),
    ("transactions and commits share one order", transactions::one_order),
    ("a job whose partition a transaction revoked is fenced", transactions::revoked_inside),
    ("a transaction of an older term is refused", transactions::older_term),
    ("a transaction with an unknown outcome is there as a whole or not at all", transactions::unknown),
];

/// Runs every rule, each on a subject of its own. The first violation ends the run.
pub fn suite(fresh: &mut dyn FnMut() -> Box<dyn Subject>) -> Result<(), Violation> {
    for (rule, check) in RULES {
        check(fresh().as_mut()).map_err(|what| Violation { rule, what })?;
    }
    Ok(())
}

/// A partition for tests, told apart by its index.
pub fn partition(index: u32) -> PartitionId {
    let kind = PartitionKind::Range { computation: "contract".to_owned(), layout: 1, index };
    PartitionId::new(Creation(7), kind)
}

/// A generation for tests.
pub fn generation(number: u64) -> Generation {
    Generation { number, nonce: number.wrapping_mul(0x9e37_79b9_7f4a_7c15), branch: Branch(1) }
}

/// Puts (`Some`) and deletes of single rows of [`TableId::STATE`], as one batch.
pub fn writes(rows: &[(&str, Option<&str>)]) -> WriteBatch {
    let mut batch = WriteBatch::default();
    for (key, value) in rows {
        match value {
            Some(value) => batch.put(TableId::STATE, key.as_bytes(), value.as_bytes()),
            None => batch.delete(TableId::STATE, key.as_bytes()),
        }
    }
    batch
}

/// A commit for tests: epoch `epoch` of `generation` after `predecessor`.
pub fn epoch(
    partition: &PartitionId,
    generation: Generation,
    epoch: u64,
    predecessor: Option<Head>,
    writes: WriteBatch,
) -> EpochCommit {
    EpochCommit { partition: partition.clone(), generation, epoch, predecessor, writes }
}

/// The rows of one table, as text.
pub fn rows(
    store: &dyn Store,
    partition: &PartitionId,
    table: TableId,
) -> Result<Vec<(String, String)>, StoreError> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut found = Vec::new();
    store.scan(partition, table, &mut |key, value| found.push((text(key), text(value))))?;
    Ok(found)
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Check {
    if found == expected { Ok(()) } else { Err(format!("{what}: found {found:?}, expected {expected:?}")) }
}

fn state(store: &dyn Store, partition: &PartitionId, expected: &[(&str, &str)]) -> Check {
    let found = rows(store, partition, TableId::STATE).map_err(|error| error.to_string())?;
    let found: Vec<(&str, &str)> = found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    same("rows", found.as_slice(), expected)
}

fn open(subject: &mut dyn Subject) -> Result<Box<dyn Store>, String> {
    subject.open().map_err(|error| format!("opening failed: {error}"))
}

/// Flushes and answers the outcomes, which must belong to `tickets`, in this order.
fn flush(store: &mut dyn Store, tickets: &[Ticket]) -> Result<Vec<CommitOutcome>, String> {
    let mut outcomes: Vec<Outcome> = Vec::new();
    let flushed = store.flush(&mut outcomes);
    let answered: Vec<Ticket> = outcomes.iter().map(|outcome| outcome.ticket).collect();
    same("tickets answered", answered.as_slice(), tickets)?;
    flushed.map_err(|error| format!("the flush failed: {error}"))?;
    Ok(outcomes.iter().map(|outcome| outcome.outcome).collect())
}

fn committed(store: &mut dyn Store, tickets: &[Ticket]) -> Check {
    let outcomes = flush(store, tickets)?;
    same("outcomes", outcomes, vec![CommitOutcome::Committed; tickets.len()])
}

fn refused(outcome: Option<&CommitOutcome>) -> Check {
    match outcome {
        Some(CommitOutcome::Fenced(_)) => Ok(()),
        other => Err(format!("found {other:?}, expected a fenced commit")),
    }
}

fn granted(store: &mut dyn Store, partition: &PartitionId, number: u64) -> Result<Generation, String> {
    let generation = generation(number);
    let ticket = store.grant(partition, generation);
    committed(store, &[ticket])?;
    Ok(generation)
}

fn head(store: &dyn Store, partition: &PartitionId) -> Result<PartitionHead, String> {
    store.head(partition).map_err(|error| error.to_string())
}

fn atomicity(subject: &mut dyn Subject) -> Check {
    let mut store = open(subject)?;
    let p = partition(0);
    let g = granted(store.as_mut(), &p, 1)?;
    let first = store.commit(epoch(&p, g, 1, None, writes(&[("a", Some("1")), ("b", Some("1"))])));
    committed(store.as_mut(), &[first])?;
    let stale =
        store.commit(epoch(&p, g, 2, None, writes(&[("a", Some("2")), ("b", None), ("c", Some("2"))])));
    refused(flush(store.as_mut(), &[stale])?.first())?;
    state(store.as_ref(), &p, &[("a", "1"), ("b", "1")])?;
    same("head", head(store.as_ref(), &p)?.head, Some(Head { generation: g, epoch: 1 }))
}

fn chaining(subject: &mut dyn Subject) -> Check {
    let mut store = open(subject)?;
    let p = partition(0);
    let g = granted(store.as_mut(), &p, 1)?;
    let at = |epoch| Some(Head { generation: g, epoch });
    let tickets = [
        store.commit(epoch(&p, g, 5, None, writes(&[("a", Some("5"))]))),
        store.commit(epoch(&p, g, 9, at(5), writes(&[("a", Some("9"))]))),
    ];
    committed(store.as_mut(), &tickets)?;
    for (number, predecessor) in [(10, at(5)), (10, None), (9, at(9)), (8, at(9)), (10, at(10))] {
        let ticket = store.commit(epoch(&p, g, number, predecessor, writes(&[("a", Some("wrong"))])));
        refused(flush(store.as_mut(), &[ticket])?.first())
            .map_err(|what| format!("epoch {number} after {predecessor:?}: {what}"))?;
    }
    let next = store.commit(epoch(&p, g, 10, at(9), WriteBatch::default()));
    committed(store.as_mut(), &[next])?;
    state(store.as_ref(), &p, &[("a", "9")])
}

fn fencing(subject: &mut dyn Subject) -> Check {
    let mut store = open(subject)?;
    let p = partition(0);
    let never = store.commit(epoch(&p, generation(1), 1, None, writes(&[("a", Some("0"))])));
    refused(flush(store.as_mut(), &[never])?.first())?;
    same("partitions", store.partitions().map_err(|error| error.to_string())?, vec![])?;
    let old = granted(store.as_mut(), &p, 1)?;
    let new = granted(store.as_mut(), &p, 2)?;
    let zombie = store.commit(epoch(&p, old, 1, None, writes(&[("a", Some("old"))])));
    let owner = store.commit(epoch(&p, new, 1, None, writes(&[("a", Some("new"))])));
    let outcomes = flush(store.as_mut(), &[zombie, owner])?;
    refused(outcomes.first())?;
    same("the owner's", outcomes.get(1), Some(&CommitOutcome::Committed))?;
    let revoked = store.revoke(&p);
    committed(store.as_mut(), &[revoked])?;
    let after = Some(Head { generation: new, epoch: 1 });
    let late = store.commit(epoch(&p, new, 2, after, writes(&[("a", Some("late"))])));
    refused(flush(store.as_mut(), &[late])?.first())?;
    same("last number", head(store.as_ref(), &p)?.last_number, 2)?;
    state(store.as_ref(), &p, &[("a", "new")])
}

fn generations_grow(subject: &mut dyn Subject) -> Check {
    let mut store = open(subject)?;
    let p = partition(0);
    let first = store.grant(&p, generation(3));
    let again = store.grant(&p, Generation { nonce: 99, ..generation(3) });
    let outcomes = flush(store.as_mut(), &[first, again])?;
    same("the first grant", outcomes.first(), Some(&CommitOutcome::Committed))?;
    refused(outcomes.get(1))?;
    same("owner", head(store.as_ref(), &p)?.granted, Some(generation(3)))
}

fn one_order(subject: &mut dyn Subject) -> Check {
    let mut store = open(subject)?;
    let p = partition(0);
    let old = granted(store.as_mut(), &p, 1)?;
    let new = generation(2);
    let at = |generation, epoch| Some(Head { generation, epoch });
    let tickets = [
        store.commit(epoch(&p, old, 1, None, writes(&[("a", Some("1"))]))),
        store.grant(&p, new),
        store.commit(epoch(&p, old, 2, at(old, 1), writes(&[("a", Some("zombie"))]))),
        store.commit(epoch(&p, new, 2, at(old, 1), writes(&[("b", Some("2"))]))),
    ];
    let outcomes = flush(store.as_mut(), &tickets)?;
    for (index, outcome) in outcomes.iter().enumerate() {
        match index {
            2 => refused(Some(outcome))?,
            _ => same("outcome", *outcome, CommitOutcome::Committed)?,
        }
    }
    same("owner", head(store.as_ref(), &p)?.granted, Some(new))?;
    state(store.as_ref(), &p, &[("a", "1"), ("b", "2")])
}

fn refused_in_a_pipeline(subject: &mut dyn Subject) -> Check {
    let mut store = open(subject)?;
    let p = partition(0);
    let g = granted(store.as_mut(), &p, 1)?;
    let at = |epoch| Some(Head { generation: g, epoch });
    let tickets = [
        store.commit(epoch(&p, g, 1, at(0), writes(&[("a", Some("1"))]))),
        store.commit(epoch(&p, g, 2, at(1), writes(&[("a", Some("2"))]))),
        store.commit(epoch(&p, g, 3, None, writes(&[("a", Some("3"))]))),
    ];
    let outcomes = flush(store.as_mut(), &tickets)?;
    refused(outcomes.first())?;
    refused(outcomes.get(1))?;
    same("an independent one", outcomes.get(2), Some(&CommitOutcome::Committed))?;
    state(store.as_ref(), &p, &[("a", "3")])
}

fn visibility(subject: &mut dyn Subject) -> Check {
    let mut store = open(subject)?;
    let p = partition(0);
    let grant = store.grant(&p, generation(1));
    same("head before the flush", head(store.as_ref(), &p)?, PartitionHead::default())?;
    same("partitions", store.partitions().map_err(|error| error.to_string())?, vec![])?;
    committed(store.as_mut(), &[grant])?;
    let ticket = store.commit(epoch(&p, generation(1), 1, None, writes(&[("a", Some("1"))])));
    state(store.as_ref(), &p, &[])?;
    same("head before the flush", head(store.as_ref(), &p)?.head, None)?;
    committed(store.as_mut(), &[ticket])?;
    state(store.as_ref(), &p, &[("a", "1")])?;
    committed(store.as_mut(), &[])
}

fn ordered_scans(subject: &mut dyn Subject) -> Check {
    let mut store = open(subject)?;
    let p = partition(0);
    let g = granted(store.as_mut(), &p, 1)?;
    let mut batch = WriteBatch::default();
    let keys: [&[u8]; 7] = [b"b", b"", b"a\xff", b"ab", b"a", b"longer than eight", b"longer than eighty"];
    for key in keys {
        batch.put(TableId::TIMERS, key, b"t");
        batch.put(TableId::META, key, b"m");
    }
    let ticket = store.commit(epoch(&p, g, 1, None, batch));
    committed(store.as_mut(), &[ticket])?;
    let mut sorted = keys.to_vec();
    sorted.sort_unstable();
    for (table, value) in [(TableId::META, b"m"), (TableId::TIMERS, b"t"), (TableId::OUTBOX, b"-")] {
        let mut found: Vec<Vec<u8>> = Vec::new();
        let mut alien = false;
        store
            .scan(&p, table, &mut |key, found_value| {
                alien |= found_value != value;
                found.push(key.to_vec());
            })
            .map_err(|error| error.to_string())?;
        let expected: &[&[u8]] = if table == TableId::OUTBOX { &[] } else { &sorted };
        same("rows of another table", alien, false)?;
        same("keys", found.iter().map(Vec::as_slice).collect::<Vec<_>>().as_slice(), expected)?;
    }
    Ok(())
}

fn overwrites_and_deletes(subject: &mut dyn Subject) -> Check {
    let mut store = open(subject)?;
    let p = partition(0);
    let g = granted(store.as_mut(), &p, 1)?;
    let at = |epoch| Some(Head { generation: g, epoch });
    let tickets = [
        store.commit(epoch(
            &p,
            g,
            1,
            None,
            writes(&[("a", Some("1")), ("a", Some("2")), ("b", Some("1")), ("b", None)]),
        )),
        store.commit(epoch(
            &p,
            g,
            2,
            at(1),
            writes(&[("absent", None), ("c", Some("1")), ("a", None), ("b", Some("2"))]),
        )),
        store.commit(epoch(&p, g, 3, at(2), writes(&[("c", None), ("c", Some("")), ("d", Some("3"))]))),
    ];
    committed(store.as_mut(), &tickets)?;
    state(store.as_ref(), &p, &[("b", "2"), ("c", ""), ("d", "3")])
}

fn isolation(subject: &mut dyn Subject) -> Check {
    let mut store = open(subject)?;
    let (p, q) = (partition(2), partition(1));
    let tickets = [store.grant(&p, generation(1)), store.grant(&q, generation(1))];
    committed(store.as_mut(), &tickets)?;
    let tickets = [
        store.commit(epoch(&p, generation(1), 1, None, writes(&[("a", Some("p"))]))),
        store.commit(epoch(&q, generation(1), 7, None, writes(&[("a", Some("q"))]))),
    ];
    committed(store.as_mut(), &tickets)?;
    state(store.as_ref(), &p, &[("a", "p")])?;
    state(store.as_ref(), &q, &[("a", "q")])?;
    state(store.as_ref(), &partition(3), &[])?;
    same("partitions", store.partitions().map_err(|error| error.to_string())?, vec![q, p])
}

fn reopening(subject: &mut dyn Subject) -> Check {
    let (p, q) = (partition(0), partition(1));
    let mut store = open(subject)?;
    let tickets = [store.grant(&p, generation(1)), store.grant(&q, generation(4)), store.revoke(&q)];
    committed(store.as_mut(), &tickets)?;
    let mut last = None;
    for number in 1..=5 {
        if number == 3 {
            drop(store);
            store = open(subject)?;
        }
        let value = number.to_string();
        let batch = writes(&[("a", Some(&value)), (&value, Some("x"))]);
        let ticket = store.commit(epoch(&p, generation(1), number, last, batch));
        committed(store.as_mut(), &[ticket])?;
        last = Some(Head { generation: generation(1), epoch: number });
    }
    store.commit(epoch(&p, generation(1), 6, last, writes(&[("a", Some("never flushed"))])));
    drop(store);
    let store = open(subject)?;
    let expected = PartitionHead { granted: Some(generation(1)), last_number: 1, head: last };
    same("head", head(store.as_ref(), &p)?, expected)?;
    let expected = PartitionHead { granted: None, last_number: 4, head: None };
    same("a revoked partition's head", head(store.as_ref(), &q)?, expected)?;
    state(store.as_ref(), &p, &[("1", "x"), ("2", "x"), ("3", "x"), ("4", "x"), ("5", "x"), ("a", "5")])?;
    same("partitions", store.partitions().map_err(|error| error.to_string())?, vec![p, q])
}

fn unknown_outcomes(subject: &mut dyn Subject) -> Check {
    let p = partition(0);
    let mut store = open(subject)?;
    let g = granted(store.as_mut(), &p, 1)?;
    let first = store.commit(epoch(&p, g, 1, None, writes(&[("a", Some("1"))])));
    committed(store.as_mut(), &[first])?;
    if !subject.break_next_flush() {
        return Ok(());
    }
    let before = Some(Head { generation: g, epoch: 1 });
    let mine = epoch(&p, g, 2, before, writes(&[("a", Some("2"))]));
    // The one that is refused comes first: no way of grouping the two spares it the verdict.
    let foreign = epoch(&p, generation(9), 3, before, WriteBatch::default());
    let tickets = [store.commit(foreign), store.commit(mine.clone())];
    let mut outcomes = Vec::new();
    same("the flush succeeded", store.flush(&mut outcomes).is_ok(), false)?;
    let found: Vec<Ticket> = outcomes.iter().map(|outcome| outcome.ticket).collect();
    same("tickets", found.as_slice(), &tickets)?;
    match outcomes.first().map(|found| found.outcome) {
        Some(CommitOutcome::Fenced(Fenced::NotOwner { .. })) => {}
        other => return Err(format!("a refused commit stays refused: found {other:?}")),
    }
    same("the broken one", outcomes.get(1).map(|found| found.outcome), Some(CommitOutcome::Unknown))?;
    same("head answers after the failure", store.head(&p).is_ok(), false)?;
    same("partitions answers after the failure", store.partitions().is_ok(), false)?;
    same("scan answers after the failure", rows(store.as_ref(), &p, TableId::STATE).is_ok(), false)?;
    let again = store.commit(mine.clone());
    outcomes.clear();
    same("a second flush succeeded", store.flush(&mut outcomes).is_ok(), false)?;
    same("and", outcomes, vec![Outcome { ticket: again, outcome: CommitOutcome::Unknown }])?;
    drop(store);

    let mut store = open(subject)?;
    let stored = head(store.as_ref(), &p)?.head;
    if own_commit(stored, g, 2) {
        state(store.as_ref(), &p, &[("a", "2")])?;
    } else {
        same("head", stored, before)?;
        state(store.as_ref(), &p, &[("a", "1")])?;
        // Resubmitting the very same commit is allowed.
        let ticket = store.commit(mine);
        committed(store.as_mut(), &[ticket])?;
    }
    state(store.as_ref(), &p, &[("a", "2")])
}
