//! Plain targets and receivers of idempotency keys in memory.

use std::sync::{Arc, Mutex};

use onceward_protocol::{Position, SinkIdentity};

use super::{catches, refusal, texts};
use crate::contract::{KeyTarget, PlainTarget, idempotency_key_writer, plain_writer};
use crate::{PlainWriter, SinkBlock, TargetError, idempotency_key};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    ConfirmsBeforeItFlushes,
    LosesOlderRows,
    ChangesRows,
    BreaksOrder,
    RefusesRepeats,
    KeyPerAttempt,
    KeyPerBlock,
    KeyWithoutMinor,
    KeyWithoutPartition,
    KeyWithoutSink,
    KeyWithoutCreation,
}

type Rows = Vec<(String, String)>;

struct Memory {
    fault: Option<Fault>,
    rows: Arc<Mutex<Rows>>,
}

struct Writer {
    fault: Option<Fault>,
    identity: SinkIdentity,
    rows: Arc<Mutex<Rows>>,
    open: Rows,
}

impl Memory {
    fn of(&self, identity: SinkIdentity) -> Box<dyn PlainWriter> {
        Box::new(Writer { fault: self.fault, identity, rows: self.rows.clone(), open: Vec::new() })
    }
}

impl PlainTarget for Memory {
    fn writer(&self) -> Result<Box<dyn PlainWriter>, String> {
        Ok(self.of(crate::contract::source_identity(1, "out", "0")))
    }
    fn visible(&self) -> Result<Vec<String>, String> {
        Ok(self.rows.lock().expect("no test panicked").iter().map(|(_, row)| row.clone()).collect())
    }
}

impl KeyTarget for Memory {
    fn writer(&self, identity: &SinkIdentity) -> Result<Box<dyn PlainWriter>, String> {
        Ok(self.of(identity.clone()))
    }
    fn received(&self) -> Result<Rows, String> {
        Ok(self.rows.lock().expect("no test panicked").clone())
    }
}

impl Writer {
    fn key(&self, position: Position, first: Position, arrived: usize) -> String {
        let identity = &self.identity;
        match self.fault {
            Some(Fault::KeyPerAttempt) => format!("{arrived}"),
            Some(Fault::KeyPerBlock) => idempotency_key(identity, first),
            Some(Fault::KeyWithoutMinor) => idempotency_key(identity, Position::at(position.major)),
            Some(Fault::KeyWithoutPartition) => {
                format!("{}{}{position}", identity.partition.creation(), identity.sink)
            }
            Some(Fault::KeyWithoutSink) => format!("{:?}{position}", identity.partition.encode()),
            Some(Fault::KeyWithoutCreation) => {
                format!("{}{}{position}", identity.sink, identity.partition.label())
            }
            _ => idempotency_key(identity, position),
        }
    }
}

impl PlainWriter for Writer {
    fn write(&mut self, block: &SinkBlock) -> Result<(), TargetError> {
        let mut there = self.rows.lock().expect("no test panicked");
        let first = block.rows().next().map_or(Position::ORIGIN, |(position, _)| position);
        let mut rows: Rows = texts(block)
            .enumerate()
            .map(|(at, (position, row))| (self.key(position, first, there.len() + at), row))
            .collect();
        match self.fault {
            Some(Fault::ConfirmsBeforeItFlushes) => std::mem::swap(&mut rows, &mut self.open),
            Some(Fault::LosesOlderRows) => there.clear(),
            Some(Fault::ChangesRows) => rows.iter_mut().for_each(|(_, row)| row.push(' ')),
            Some(Fault::BreaksOrder) => rows.reverse(),
            Some(Fault::RefusesRepeats) if rows.iter().any(|row| there.contains(row)) => {
                return Err(refusal("a repeat"));
            }
            _ => {}
        }
        there.extend(rows);
        Ok(())
    }
}

#[test]
fn a_plain_target_that_breaks_its_contract_is_named() {
    use Fault::*;
    let faults = [ConfirmsBeforeItFlushes, LosesOlderRows, ChangesRows, BreaksOrder, RefusesRepeats];
    catches(&faults, |fault| plain_writer(&Memory { fault, rows: Arc::default() }));
}

#[test]
fn a_sender_whose_idempotency_keys_are_not_one_per_row_is_named() {
    use Fault::*;
    let faults = [
        LosesOlderRows,
        KeyPerAttempt,
        KeyPerBlock,
        KeyWithoutMinor,
        KeyWithoutPartition,
        KeyWithoutSink,
        KeyWithoutCreation,
    ];
    catches(&faults, |fault| idempotency_key_writer(&Memory { fault, rows: Arc::default() }));
}
