//! The suite of versioned upserts.

use std::collections::BTreeMap;

use onceward_protocol::{Position, SinkIdentity};

use super::{block_of, definite, ok, range_identity, same_rows, source_identity};
use crate::writer::PlainWriter;

/// A target under test. Rows are `{"key":K,"value":V}` with whole numbers; `key` is the key.
pub trait UpsertTarget {
    /// A new writer of an identity, always on the same target.
    fn writer(&self, identity: &SinkIdentity) -> Result<Box<dyn PlainWriter>, String>;
    /// The rows that are visible in the target, in any order, as the JSON that was written; no tombstones.
    fn visible(&self) -> Result<Vec<String>, String>;
    /// The row that deletes a key; `None` if the sink takes no deletes.
    fn deletion(&self, key: u64) -> Option<String>;
}

/// One change: key, value (`None` deletes), and its position.
type Change = (u64, Option<u64>, Position);

/// The contract [`VersionedUpsert`](crate::SinkContract::VersionedUpsert), on a target that nobody has written to
/// before: the newest version of a key stays, whatever comes late, and in whatever order.
pub fn versioned_upsert_writer(target: &dyn UpsertTarget) -> Result<(), String> {
    let identity = source_identity(1, "totals", "0");
    let mut older = target.writer(&identity)?;
    let mut newer = target.writer(&identity)?;
    let mut suite = Suite { target, rows: BTreeMap::new() };
    let at = Position::at;

    let first = [(1, Some(10), at(1)), (2, Some(20), at(2)), (1, Some(11), at(3))];
    suite.write("new keys, one of them twice", older.as_mut(), &first, &[(1, Some(11)), (2, Some(20))])?;
    suite.write("the same again, as after a time-out", older.as_mut(), &first, &[])?;
    suite.write("a newer row", newer.as_mut(), &[(1, Some(12), at(4))], &[(1, Some(12))])?;
    suite.write("a late retry that holds both rows of a key", older.as_mut(), &first, &[])?;
    let ahead = [(2, Some(9), at(9)), (3, Some(30), at(11))];
    suite.write("numbers of more digits", newer.as_mut(), &ahead, &[(2, Some(9)), (3, Some(30))])?;
    let late = [(2, Some(21), at(8)), (3, Some(3), at(10)), (4, Some(40), at(12))];
    suite.write("older rows and a new key in one block", older.as_mut(), &late, &[(4, Some(40))])?;
    suite.write("the same version again", older.as_mut(), &[(4, Some(40), at(12))], &[])?;
    suite.deletes(older.as_mut(), newer.as_mut())?;

    let far = Position::new(u64::MAX - 1, u32::MAX);
    suite.write("a very large version", newer.as_mut(), &[(5, Some(50), far)], &[(5, Some(50))])?;
    suite.write("a small one after it", newer.as_mut(), &[(5, Some(51), at(30))], &[])?;
    let minor = [(6, Some(60), Position::new(31, 1))];
    suite.write("minor positions", newer.as_mut(), &minor, &[(6, Some(60))])?;
    suite.write("an older minor", newer.as_mut(), &[(6, Some(61), Position::new(31, 0))], &[])?;
    suite.write(
        "a newer minor",
        older.as_mut(),
        &[(6, Some(62), Position::new(31, 10))],
        &[(6, Some(62))],
    )?;
    suite.ranges()?;
    suite.origins()
}

struct Suite<'a> {
    target: &'a dyn UpsertTarget,
    rows: BTreeMap<u64, u64>,
}

impl Suite<'_> {
    fn block(&self, changes: &[Change]) -> Result<crate::SinkBlock, String> {
        let mut rows = Vec::new();
        for (key, value, position) in changes {
            let row = match value {
                Some(value) => row(*key, *value),
                None => {
                    self.target.deletion(*key).ok_or("deletion: no answer for one key, but for another")?
                }
            };
            rows.push((*position, row));
        }
        Ok(block_of(rows))
    }

    /// Writes changes and checks that exactly these rows have become visible, replaced or (`None`) gone.
    fn write(
        &mut self,
        step: &str,
        writer: &mut dyn PlainWriter,
        changes: &[Change],
        effect: &[(u64, Option<u64>)],
    ) -> Result<(), String> {
        ok(step, writer.write(&self.block(changes)?))?;
        for (key, value) in effect {
            match value {
                Some(value) => self.rows.insert(*key, *value),
                None => self.rows.remove(key),
            };
        }
        self.sees(step)
    }

    fn sees(&self, step: &str) -> Result<(), String> {
        let expected = self.rows.iter().map(|(key, value)| row(*key, *value)).collect();
        same_rows(step, self.target.visible()?, expected)
    }

    /// A delete leaves its version.
    fn deletes(&mut self, older: &mut dyn PlainWriter, newer: &mut dyn PlainWriter) -> Result<(), String> {
        if self.target.deletion(1).is_none() {
            return Ok(());
        }
        let at = Position::at;
        self.write("a delete", newer, &[(1, None, at(13))], &[(1, None)])?;
        self.write("a late row of a deleted key", older, &[(1, Some(12), at(4))], &[])?;
        self.write("the delete again", newer, &[(1, None, at(13))], &[])?;
        self.write("a newer row of a deleted key", newer, &[(1, Some(14), at(14))], &[(1, Some(14))])?;
        self.write("a late delete", older, &[(1, None, at(13))], &[])?;
        self.write("a delete of a key never seen", newer, &[(7, None, at(16))], &[])?;
        self.write("a row older than that delete", older, &[(7, Some(70), at(15))], &[])
    }

    /// A key moves from range to range of its computation; what its old range still sends is older.
    fn ranges(&mut self) -> Result<(), String> {
        let mut parent = self.target.writer(&range_identity(1, 0))?;
        let mut child = self.target.writer(&range_identity(2, 1))?;
        let at = Position::at;
        let retry = [(20, Some(1), at(500))];
        self.write("a row of a key range", parent.as_mut(), &retry, &[(20, Some(1))])?;
        self.write(
            "a row of a later range at a smaller position",
            child.as_mut(),
            &[(20, Some(2), at(1))],
            &[(20, Some(2))],
        )?;
        self.write("a late retry of the range before it", parent.as_mut(), &retry, &[])?;
        let later = [(20, Some(3), at(501))];
        self.write("a late row of the range before it", parent.as_mut(), &later, &[])
    }

    /// Two origins have no order: the second is refused, with its whole block.
    fn origins(&mut self) -> Result<(), String> {
        let others = [
            ("another source partition", source_identity(1, "totals", "1")),
            ("another sink", source_identity(1, "audit", "0")),
            ("another creation", source_identity(2, "totals", "0")),
        ];
        for (name, identity) in others {
            let mut writer = self.target.writer(&identity)?;
            let changes = [(30, Some(1), Position::at(1)), (2, Some(1), Position::at(u64::MAX - 1))];
            definite(name, writer.write(&self.block(&changes)?))?;
            self.sees(name)?;
            let changes = [(2, Some(1), Position::at(1))];
            definite(&format!("{name}, with an older number"), writer.write(&self.block(&changes)?))?;
            self.sees(name)?;
        }
        let mut writer = self.target.writer(&source_identity(1, "totals", "1"))?;
        let own = [(30, Some(1), Position::at(1))];
        self.write("another origin's own key", writer.as_mut(), &own, &[(30, Some(1))])
    }
}

fn row(key: u64, value: u64) -> String {
    format!("{{\"key\":{key},\"value\":{value}}}")
}
