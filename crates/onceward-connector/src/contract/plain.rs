//! The suites of what [`PlainWriter`] writes without versions.

use std::collections::{BTreeMap, BTreeSet};

use onceward_protocol::{Position, SinkIdentity};

use super::{block, block_of, ok, row, source_identity};
use crate::row_name::idempotency_key;
use crate::writer::PlainWriter;

/// A target under test.
pub trait PlainTarget {
    /// A new writer, always on the same target.
    fn writer(&self) -> Result<Box<dyn PlainWriter>, String>;
    /// The rows that are visible in the target, in the order of arrival, as the JSON that was written.
    fn visible(&self) -> Result<Vec<String>, String>;
}

/// The contract [`Plain`](crate::SinkContract::Plain), on a target that nobody has written to before: what was
/// confirmed is there, unchanged and in order; a block may be written again; nothing else is there.
pub fn plain_writer(target: &dyn PlainTarget) -> Result<(), String> {
    let mut older = target.writer()?;
    ok("rows 1..=3", older.write(&block(1, 3)))?;
    in_order("rows 1..=3", &target.visible()?, 1, 3)?;
    ok("the same again, as after a time-out", older.write(&block(1, 3)))?;
    let mut newer = target.writer()?;
    ok("rows 4..=9 of a newer writer", newer.write(&block(4, 9)))?;
    ok("a late retry of the older writer", older.write(&block(4, 5)))?;
    let found = target.visible()?;
    in_order("rows 1..=9", &found, 1, 9)?;
    let written: BTreeSet<String> = (1..=9).map(row).collect();
    match found.iter().find(|row| !written.contains(*row)) {
        Some(row) => Err(format!("visible is {row}, which nobody wrote")),
        None => Ok(()),
    }
}

/// Checks that the first of each row stands in order.
fn in_order(step: &str, found: &[String], first: u64, last: u64) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    let firsts: Vec<&String> = found.iter().filter(|row| seen.insert(*row)).collect();
    let expected: Vec<String> = (first..=last).map(row).collect();
    if firsts.iter().copied().eq(expected.iter()) {
        Ok(())
    } else {
        Err(format!("{step}: found {firsts:?}, expected {expected:?}"))
    }
}

/// A receiver under test.
pub trait KeyTarget {
    /// A new writer of an identity, always on the same receiver.
    fn writer(&self, identity: &SinkIdentity) -> Result<Box<dyn PlainWriter>, String>;
    /// Every row that arrived, repeats included, with the key it came under.
    fn received(&self) -> Result<Vec<(String, String)>, String>;
}

/// The contract [`IdempotencyKey`](crate::SinkContract::IdempotencyKey), on a receiver that nobody has written to
/// before: every row comes at least once, always under its one key.
pub fn idempotency_key_writer(target: &dyn KeyTarget) -> Result<(), String> {
    let identities = [
        source_identity(1, "out", "0"),
        source_identity(1, "out", "1"),
        source_identity(1, "audit", "0"),
        source_identity(2, "out", "0"),
    ];
    let positions = [
        Position::at(1),
        Position::new(1, 1),
        Position::at(11),
        Position::new(11, 1),
        Position::new(u64::MAX - 1, u32::MAX),
    ];
    let mut expected = BTreeMap::new();
    for (number, identity) in (1..).zip(&identities) {
        let mut writer = target.writer(identity)?;
        let id = |index: usize| row(number * 100 + index as u64);
        let rows = || positions.iter().enumerate().map(|(index, position)| (*position, id(index)));
        ok("a block", writer.write(&block_of(rows())))?;
        ok("its first row again, in a block of its own", writer.write(&block_of(rows().take(1))))?;
        let mut newer = target.writer(identity)?;
        ok("the block of a newer writer", newer.write(&block_of(rows().skip(2))))?;
        for (position, row) in rows() {
            expected.insert(row, idempotency_key(identity, position));
        }
    }
    let received = target.received()?;
    for (key, row) in &received {
        match expected.get(row) {
            Some(own) if own == key => {}
            Some(own) => return Err(format!("{row} came under the key {key}, expected {own}")),
            None => return Err(format!("{row} came, which nobody wrote")),
        }
    }
    let came: BTreeSet<&String> = received.iter().map(|(_, row)| row).collect();
    match expected.keys().find(|row| !came.contains(row)) {
        Some(row) => Err(format!("{row} never came")),
        None => Ok(()),
    }
}
