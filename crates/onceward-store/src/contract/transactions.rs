//! The rules of transactions: all or nothing, in one order with everything else.

use onceward_protocol::chain::Head;
use onceward_protocol::{CommitOutcome, Fenced, Generation, PartitionHead, PartitionId};

use super::{Check, Subject, committed, epoch, flush, generation, granted, head, open, partition, refused};
use super::{same, state, writes};
use crate::batch::WriteBatch;
use crate::store::{Operation, Outcome, Store};

/// The partition whose owner is the leader.
const LEADER: u32 = 9;

fn after(generation: Generation, epoch: u64) -> Option<Head> {
    Some(Head { generation, epoch })
}

/// A store with a leader of term 5 and a parent partition 0 with one commit of generation 1.
fn with_parent(subject: &mut dyn Subject) -> Result<Box<dyn Store>, String> {
    let mut store = open(subject)?;
    granted(store.as_mut(), &partition(LEADER), 5)?;
    let g = granted(store.as_mut(), &partition(0), 1)?;
    let first = store.commit(epoch(&partition(0), g, 1, None, writes(&[("a", Some("1"))])));
    committed(store.as_mut(), &[first])?;
    Ok(store)
}

/// The parent's last commit and end, two children with their first commit, and the leader's own record.
fn split() -> Vec<Operation> {
    let (old, leader) = (generation(1), generation(5));
    let parent = epoch(&partition(0), old, 2, after(old, 1), writes(&[("a", None), ("end", Some("x"))]));
    let child = |index: u32| {
        let value = index.to_string();
        epoch(&partition(index), generation(2), 1, None, writes(&[("child", Some(&value))]))
    };
    vec![
        Operation::Require(partition(LEADER), leader),
        Operation::Commit(parent),
        Operation::Revoke(partition(0)),
        Operation::Grant(partition(1), generation(2)),
        Operation::Commit(child(1)),
        Operation::Grant(partition(2), generation(2)),
        Operation::Commit(child(2)),
        Operation::Commit(epoch(&partition(LEADER), leader, 1, None, writes(&[("layout", Some("2"))]))),
    ]
}

fn partitions(store: &dyn Store) -> Result<Vec<PartitionId>, String> {
    store.partitions().map_err(|error| error.to_string())
}

fn before_split(store: &dyn Store) -> Check {
    same("partitions", partitions(store)?, vec![partition(0), partition(LEADER)])?;
    let expected =
        PartitionHead { granted: Some(generation(1)), last_number: 1, head: after(generation(1), 1) };
    same("the parent's head", head(store, &partition(0))?, expected)?;
    same("the leader's head", head(store, &partition(LEADER))?.head, None)?;
    state(store, &partition(0), &[("a", "1")])?;
    state(store, &partition(1), &[])?;
    state(store, &partition(LEADER), &[])
}

fn after_split(store: &dyn Store) -> Check {
    let expected = vec![partition(0), partition(1), partition(2), partition(LEADER)];
    same("partitions", partitions(store)?, expected)?;
    let expected = PartitionHead { granted: None, last_number: 1, head: after(generation(1), 2) };
    same("the parent's head", head(store, &partition(0))?, expected)?;
    state(store, &partition(0), &[("end", "x")])?;
    for index in [1, 2] {
        let expected =
            PartitionHead { granted: Some(generation(2)), last_number: 2, head: after(generation(2), 1) };
        same("a child's head", head(store, &partition(index))?, expected)?;
        state(store, &partition(index), &[("child", &index.to_string())])?;
    }
    same("the leader's head", head(store, &partition(LEADER))?.head, after(generation(5), 1))?;
    state(store, &partition(LEADER), &[("layout", "2")])
}

pub(super) fn whole(subject: &mut dyn Subject) -> Check {
    let mut store = with_parent(subject)?;
    let ticket = store.transact(split());
    before_split(store.as_ref()).map_err(|what| format!("before the flush: {what}"))?;
    committed(store.as_mut(), &[ticket])?;
    after_split(store.as_ref())?;
    let nothing = store.transact(Vec::new());
    committed(store.as_mut(), &[nothing])?;
    drop(store);
    after_split(open(subject)?.as_ref()).map_err(|what| format!("opened again: {what}"))
}

/// Steps that are refused wherever they stand in [`split`], and why.
fn refusals() -> Vec<(Operation, Fenced)> {
    let (idle, owner, zombie) = (partition(7), generation(3), generation(2));
    let head = after(owner, 4);
    let not_owner = |asked| Fenced::NotOwner { granted: Some(owner), asked };
    let commit =
        |generation, number, before| epoch(&idle, generation, number, before, writes(&[("bad", Some("x"))]));
    vec![
        (Operation::Require(idle.clone(), zombie), not_owner(zombie)),
        (Operation::Grant(idle.clone(), owner), not_owner(owner)),
        (Operation::Grant(idle.clone(), zombie), not_owner(zombie)),
        (Operation::Commit(commit(zombie, 5, head)), not_owner(zombie)),
        (Operation::Commit(commit(owner, 5, None)), Fenced::Chain { stored: head, named: None }),
        (Operation::Commit(commit(owner, 4, head)), Fenced::Chain { stored: head, named: head }),
        (Operation::Require(partition(8), owner), Fenced::NotOwner { granted: None, asked: owner }),
    ]
}

pub(super) fn refused_at_any_step(subject: &mut dyn Subject) -> Check {
    let mut store = with_parent(subject)?;
    let idle = partition(7);
    let owner = granted(store.as_mut(), &idle, 3)?;
    let first = store.commit(epoch(&idle, owner, 4, None, writes(&[("good", Some("x"))])));
    committed(store.as_mut(), &[first])?;
    let unchanged = |store: &dyn Store| {
        let expected = vec![partition(0), idle.clone(), partition(LEADER)];
        same("partitions", partitions(store)?, expected)?;
        same("the parent's head", head(store, &partition(0))?.head, after(generation(1), 1))?;
        same("the parent's owner", head(store, &partition(0))?.granted, Some(generation(1)))?;
        state(store, &idle, &[("good", "x")])?;
        state(store, &partition(0), &[("a", "1")])
    };
    for (step, why) in refusals() {
        for at in 0..=split().len() {
            let mut operations = split();
            operations.insert(at, step.clone());
            let ticket = store.transact(operations);
            let outcomes = flush(store.as_mut(), &[ticket])?;
            let place = |what| format!("{step:?} as step {at}: {what}");
            same("outcomes", outcomes, vec![CommitOutcome::Fenced(why)]).map_err(place)?;
            unchanged(store.as_ref()).map_err(place)?;
        }
    }
    drop(store);
    let mut store = open(subject)?;
    unchanged(store.as_ref()).map_err(|what| format!("opened again: {what}"))?;
    // Nothing of what was refused is in the way: the very same steps are accepted without the bad one.
    let refused = store.transact([split(), refusals().into_iter().map(|(step, _)| step).collect()].concat());
    let accepted = store.transact(split());
    let outcomes = flush(store.as_mut(), &[refused, accepted])?;
    same("the accepted one", outcomes.get(1), Some(&CommitOutcome::Committed))?;
    same("the parent's owner", head(store.as_ref(), &partition(0))?.granted, None)
}

pub(super) fn steps_build_on_each_other(subject: &mut dyn Subject) -> Check {
    let mut store = open(subject)?;
    let (p, one, two) = (partition(0), generation(1), generation(2));
    let ticket = store.transact(vec![
        Operation::Revoke(p.clone()),
        Operation::Grant(p.clone(), one),
        Operation::Require(p.clone(), one),
        Operation::Commit(epoch(&p, one, 1, None, writes(&[("a", Some("1")), ("b", Some("1"))]))),
        Operation::Commit(epoch(&p, one, 2, after(one, 1), writes(&[("a", Some("2"))]))),
        Operation::Grant(p.clone(), two),
        Operation::Commit(epoch(&p, two, 3, after(one, 2), writes(&[("b", None)]))),
        Operation::Require(p.clone(), two),
    ]);
    committed(store.as_mut(), &[ticket])?;
    state(store.as_ref(), &p, &[("a", "2")])?;
    let steps_that_undo = [
        [Operation::Revoke(p.clone()), Operation::Require(p.clone(), two)],
        [
            Operation::Grant(p.clone(), generation(3)),
            Operation::Commit(epoch(&p, two, 4, after(two, 3), WriteBatch::default())),
        ],
        [Operation::Grant(p.clone(), generation(3)), Operation::Grant(p.clone(), generation(3))],
    ];
    for steps in steps_that_undo {
        let ticket = store.transact(steps.to_vec());
        refused(flush(store.as_mut(), &[ticket])?.first()).map_err(|what| format!("{steps:?}: {what}"))?;
    }
    let expected = PartitionHead { granted: Some(two), last_number: 2, head: after(two, 3) };
    same("head", head(store.as_ref(), &p)?, expected)
}

pub(super) fn one_order(subject: &mut dyn Subject) -> Check {
    let mut store = with_parent(subject)?;
    let (p, old, new) = (partition(0), generation(1), generation(2));
    let takeover = |last: u64| {
        vec![
            Operation::Grant(p.clone(), new),
            Operation::Commit(epoch(&p, new, 3, after(old, last), writes(&[("b", Some("new"))]))),
        ]
    };
    let tickets = [
        store.commit(epoch(&p, old, 2, after(old, 1), writes(&[("a", Some("2"))]))),
        // Written for what is durable, while a commit is in flight that it does not know.
        store.transact(takeover(1)),
        store.transact(takeover(2)),
        store.commit(epoch(&p, old, 3, after(old, 2), writes(&[("a", Some("zombie"))]))),
        store.commit(epoch(&p, new, 4, after(new, 3), writes(&[("c", Some("new"))]))),
    ];
    let outcomes = flush(store.as_mut(), &tickets)?;
    for (index, outcome) in outcomes.iter().enumerate() {
        match index {
            1 | 3 => refused(Some(outcome)).map_err(|what| format!("submission {index}: {what}"))?,
            _ => same("outcome", *outcome, CommitOutcome::Committed)?,
        }
    }
    state(store.as_ref(), &p, &[("a", "2"), ("b", "new"), ("c", "new")])
}

pub(super) fn revoked_inside(subject: &mut dyn Subject) -> Check {
    let mut store = with_parent(subject)?;
    let (p, old) = (partition(0), generation(1));
    let late = |number| epoch(&p, old, number, after(old, 2), writes(&[("late", Some("x"))]));
    let fenced = CommitOutcome::Fenced(Fenced::NotOwner { granted: None, asked: old });
    // In flight behind the transaction, and after it is durable.
    let tickets = [store.transact(split()), store.commit(late(3))];
    same("outcomes", flush(store.as_mut(), &tickets)?, vec![CommitOutcome::Committed, fenced])?;
    let ticket = store.commit(late(4));
    same("outcomes", flush(store.as_mut(), &[ticket])?, vec![fenced])?;
    drop(store);
    let mut store = open(subject)?;
    let ticket = store.commit(late(5));
    same("outcomes after opening again", flush(store.as_mut(), &[ticket])?, vec![fenced])?;
    after_split(store.as_ref())
}

pub(super) fn older_term(subject: &mut dyn Subject) -> Check {
    let mut store = with_parent(subject)?;
    let (leader, old, new) = (partition(LEADER), generation(5), generation(6));
    let fenced = |granted| CommitOutcome::Fenced(Fenced::NotOwner { granted, asked: old });
    let tickets = [store.grant(&leader, new), store.transact(split())];
    let outcomes = flush(store.as_mut(), &tickets)?;
    same("outcomes", outcomes, vec![CommitOutcome::Committed, fenced(Some(new))])?;
    before_split(store.as_ref())?;
    // The nonce counts as well as the number.
    let twin = Generation { nonce: 1, ..new };
    let tickets = [
        store.transact(vec![Operation::Require(leader.clone(), twin), Operation::Revoke(partition(0))]),
        store.transact(vec![Operation::Require(leader.clone(), new)]),
        store.revoke(&leader),
        store.transact(split()),
    ];
    let outcomes = flush(store.as_mut(), &tickets)?;
    refused(outcomes.first())?;
    same("the owner's", outcomes.get(1), Some(&CommitOutcome::Committed))?;
    same("a revoked leader's", outcomes.get(3), Some(&fenced(None)))?;
    before_split(store.as_ref())
}

pub(super) fn unknown(subject: &mut dyn Subject) -> Check {
    let mut store = with_parent(subject)?;
    if !subject.break_next_flush() {
        return Ok(());
    }
    let refused = [vec![Operation::Require(partition(LEADER), generation(4))], split()].concat();
    let tickets = [store.transact(refused), store.transact(split())];
    let mut outcomes = Vec::new();
    same("the flush succeeded", store.flush(&mut outcomes).is_ok(), false)?;
    same("outcomes", outcomes.len(), 2)?;
    let asked = generation(4);
    let fenced = CommitOutcome::Fenced(Fenced::NotOwner { granted: Some(generation(5)), asked });
    same("a refused one", outcomes.first().map(|found| found.outcome), Some(fenced))?;
    let expected = Outcome { ticket: tickets[1], outcome: CommitOutcome::Unknown };
    same("the broken one", outcomes.get(1), Some(&expected))?;
    let late = store.transact(Vec::new());
    outcomes.clear();
    same("a second flush succeeded", store.flush(&mut outcomes).is_ok(), false)?;
    same("and", outcomes, vec![Outcome { ticket: late, outcome: CommitOutcome::Unknown }])?;
    drop(store);

    let mut store = open(subject)?;
    if head(store.as_ref(), &partition(0))?.granted.is_some() {
        before_split(store.as_ref()).map_err(|what| format!("part of it is there: {what}"))?;
        let again = store.transact(split());
        committed(store.as_mut(), &[again])?;
    }
    after_split(store.as_ref())
}
