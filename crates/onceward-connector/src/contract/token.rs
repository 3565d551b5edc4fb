//! The suite of [`TokenWriter`].

use super::{block, ok, row, same_rows};
use crate::sink::SinkBlock;
use crate::writer::{BlockToken, TargetError, TokenWriter};

/// How many tokens the suite puts on top of one that must still be remembered.
const MAX_TOKENS: u64 = 500;

/// How many times two writers write one block at once.
const RACES: u64 = 20;

/// A target under test.
pub trait TokenTarget {
    /// A new writer, always on the same target.
    fn writer(&self) -> Result<Box<dyn TokenWriter>, String>;
    /// The rows that are visible in the target, in any order, as the JSON that was written.
    fn visible(&self) -> Result<Vec<String>, String>;
}

/// The contract of [`TokenWriter`], on a target that nobody has written to before. Age is not waited for.
pub fn token_writer(target: &dyn TokenTarget) -> Result<(), String> {
    let mut older = target.writer()?;
    let mut newer = target.writer()?;
    let memory = older.memory();
    if memory.count == Some(0) || memory.age_us.is_some_and(|age| age <= 0) {
        return Err(format!("memory: {memory:?} remembers nothing: that is no token target"));
    }
    if newer.memory() != memory {
        return Err(format!("memory: two writers say {memory:?} and {:?}", newer.memory()));
    }
    let mut suite = Suite { target, expected: Vec::new() };

    suite.fresh("a block", older.as_mut(), block(1, 3), "a:1-3")?;
    suite.repeat("the same again, as after a time-out", older.as_mut(), block(1, 3), "a:1-3")?;
    suite.repeat("the same of a newer writer", newer.as_mut(), block(1, 3), "a:1-3")?;
    suite.fresh("equal rows under another token", newer.as_mut(), block(1, 3), "a:4-6")?;
    suite.fresh("a token that starts like another", newer.as_mut(), block(4, 4), "a:4-66")?;
    suite.fresh("a token that differs in case", newer.as_mut(), block(5, 5), "A:1-3")?;
    suite.repeat("a late retry of the older writer", older.as_mut(), block(1, 3), "a:4-6")?;
    suite.fresh("a large block", newer.as_mut(), block(10_000, 14_999), "large")?;
    suite.repeat("a large block again", older.as_mut(), block(10_000, 14_999), "large")?;

    // As many tokens as the target promises to remember, the oldest of them again at the end.
    let others = memory.count.map_or(MAX_TOKENS, |count| count.min(MAX_TOKENS)) - 1;
    suite.fresh("the oldest token to be remembered", newer.as_mut(), block(20_000, 20_001), "oldest")?;
    for number in 0..others {
        let rows = block(30_000 + number, 30_000 + number);
        suite.put("one of many tokens", newer.as_mut(), &rows, &format!("many:{number}"))?;
        suite.expected.push(row(30_000 + number));
    }
    suite.repeat("the oldest token of those remembered", older.as_mut(), block(20_000, 20_001), "oldest")?;
    suite.race(older.as_mut(), newer.as_mut())
}

struct Suite<'a> {
    target: &'a dyn TokenTarget,
    expected: Vec<String>,
}

impl Suite<'_> {
    fn put(
        &self,
        step: &str,
        writer: &mut dyn TokenWriter,
        block: &SinkBlock,
        token: &str,
    ) -> Result<(), String> {
        ok(step, writer.write(block, &BlockToken { text: token.to_owned() }))
    }

    fn sees(&self, step: &str) -> Result<(), String> {
        same_rows(step, self.target.visible()?, self.expected.clone())
    }

    /// Writes a block under a token not used before.
    fn fresh(
        &mut self,
        step: &str,
        writer: &mut dyn TokenWriter,
        block: SinkBlock,
        token: &str,
    ) -> Result<(), String> {
        self.put(step, writer, &block, token)?;
        self.expected.extend(block.rows().map(|(_, row)| String::from_utf8_lossy(row).into_owned()));
        self.sees(step)
    }

    /// Writes a block under a token used before: nothing is new.
    fn repeat(
        &self,
        step: &str,
        writer: &mut dyn TokenWriter,
        block: SinkBlock,
        token: &str,
    ) -> Result<(), String> {
        self.put(step, writer, &block, token)?;
        self.sees(step)
    }

    /// A zombie and its successor write one block at the same moment: it is there once.
    fn race(&mut self, older: &mut dyn TokenWriter, newer: &mut dyn TokenWriter) -> Result<(), String> {
        for number in 0..RACES {
            let id = 50_000 + number;
            let (rows, token) = (block(id, id), BlockToken { text: format!("race:{number}") });
            let answers: [Result<(), TargetError>; 2] = std::thread::scope(|scope| {
                let zombie = scope.spawn(|| older.write(&rows, &token));
                let ours = newer.write(&rows, &token);
                let died = || Err(TargetError::Unknown("the writer panicked".into()));
                [zombie.join().unwrap_or_else(|_| died()), ours]
            });
            for answer in answers {
                match answer {
                    Ok(()) => {}
                    Err(TargetError::Unknown(_)) => self.put("after a race", newer, &rows, &token.text)?,
                    Err(error) => return Err(format!("one block at once from two writers: {error}")),
                }
            }
            self.expected.push(row(id));
        }
        self.sees("one block at once from two writers")
    }
}
