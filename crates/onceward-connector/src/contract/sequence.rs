//! The suite of [`SequenceWriter`].

use onceward_protocol::{Position, SinkIdentity};

use super::{block, block_of, definite, ok, row, same_rows, source_identity};
use crate::sink::SinkBlock;
use crate::writer::SequenceWriter;

/// A target under test.
pub trait SequenceTarget {
    /// A new writer of a producer, always on the same target.
    fn writer(&self, producer: &SinkIdentity) -> Result<Box<dyn SequenceWriter>, String>;
    /// The rows that are visible in the target, in any order, as the JSON that was written.
    fn visible(&self) -> Result<Vec<String>, String>;
}

/// The contract of [`SequenceWriter`], on a target that nobody has written to before.
pub fn sequence_writer(target: &dyn SequenceTarget) -> Result<(), String> {
    let mut suite = Suite { target, expected: Vec::new() };
    let producer = source_identity(1, "out", "0");
    let mut older = target.writer(&producer)?;
    let mut newer = target.writer(&producer)?;

    suite.gap("a gap before the first row", older.as_mut(), block(4, 5), 3)?;
    suite.write("rows 1..=3", older.as_mut(), block(1, 3), 0, (1..=3).map(row))?;
    suite.write("the same again, as after a time-out", older.as_mut(), block(1, 3), 0, [])?;
    suite.write("rows 2..=5, cut differently", older.as_mut(), block(2, 5), 1, (4..=5).map(row))?;
    suite.gap("a gap", older.as_mut(), block(9, 9), 8)?;
    suite.gap("a gap, where the block itself starts before it", older.as_mut(), block(7, 9), 6)?;
    suite.write("rows after the gap was refused", older.as_mut(), block(7, 8), 5, (7..=8).map(row))?;

    suite.write("a restart repeats its last block", newer.as_mut(), block(7, 8), 5, [])?;
    suite.write("rows 9..=12 of the newer", newer.as_mut(), block(9, 12), 8, (9..=12).map(row))?;
    suite.write("a late retry of the older", older.as_mut(), block(4, 5), 3, [])?;
    suite.write("a late retry that was cut longer", older.as_mut(), block(7, 10), 5, [])?;
    suite.write("the newer after the late retries", newer.as_mut(), block(9, 12), 8, [])?;
    suite.write("the older is ahead", older.as_mut(), block(13, 15), 12, (13..=15).map(row))?;
    suite.write("the newer comes with the first of them", newer.as_mut(), block(13, 13), 12, [])?;
    suite.write("the newer goes past them", newer.as_mut(), block(14, 16), 13, [row(16)])?;
    suite.write("everything from the start", newer.as_mut(), block(1, 16), 0, [])?;

    suite.positions(newer.as_mut())?;
    suite.producers()
}

struct Suite<'a> {
    target: &'a dyn SequenceTarget,
    expected: Vec<String>,
}

impl Suite<'_> {
    /// Writes a block and checks that exactly these rows are new.
    fn write(
        &mut self,
        step: &str,
        writer: &mut dyn SequenceWriter,
        block: SinkBlock,
        after: u64,
        new: impl IntoIterator<Item = String>,
    ) -> Result<(), String> {
        self.write_at(step, writer, block, Position::at(after), new)
    }

    fn write_at(
        &mut self,
        step: &str,
        writer: &mut dyn SequenceWriter,
        block: SinkBlock,
        after: Position,
        new: impl IntoIterator<Item = String>,
    ) -> Result<(), String> {
        ok(step, writer.write(&block, after))?;
        self.expected.extend(new);
        self.sees(step)
    }

    fn gap(
        &self,
        step: &str,
        writer: &mut dyn SequenceWriter,
        block: SinkBlock,
        after: u64,
    ) -> Result<(), String> {
        definite(step, writer.write(&block, Position::at(after)))?;
        self.sees(step)
    }

    fn sees(&self, step: &str) -> Result<(), String> {
        same_rows(step, self.target.visible()?, self.expected.clone())
    }

    /// Both parts of a position count, and all their bits.
    fn positions(&mut self, writer: &mut dyn SequenceWriter) -> Result<(), String> {
        let rows = |from: u32, to: u32| {
            block_of((from..=to).map(|minor| (Position::new(20, minor), row(2000 + u64::from(minor)))))
        };
        self.write_at("minor positions", writer, rows(0, 1), Position::at(16), (2000..=2001).map(row))?;
        let after = Position::new(20, 0);
        self.write_at("an overlap in minor positions", writer, rows(1, 2), after, [row(2002)])?;
        let far = Position::new(u64::MAX - 1, u32::MAX);
        let last = || block_of([(far, row(9999))]);
        let after = Position::new(20, 2);
        self.write_at("a very large position", writer, last(), after, [row(9999)])?;
        self.write_at("a very large position again", writer, last(), after, [])
    }

    /// Producers are told apart by all that SINK-NAME names.
    fn producers(&mut self) -> Result<(), String> {
        let others = [
            ("another partition", source_identity(1, "out", "1")),
            ("another sink of the same partition", source_identity(1, "audit", "0")),
            ("the same partition of another creation", source_identity(2, "out", "0")),
        ];
        for (number, (name, producer)) in (1..).zip(others) {
            let mut writer = self.target.writer(&producer)?;
            self.gap(&format!("{name}: a gap before its first row"), writer.as_mut(), block(2, 2), 1)?;
            let own = |position: u64| row(100_000 * number + position);
            let rows = || block_of((1..=2).map(|position| (Position::at(position), own(position))));
            self.write(name, writer.as_mut(), rows(), 0, (1..=2).map(own))?;
            self.write(&format!("{name}, again"), writer.as_mut(), rows(), 0, [])?;
        }
        Ok(())
    }
}
