//! The suite of [`ProgressWriter`].

use onceward_protocol::{Fence, Marker, Position};

use super::{block, fenced, ok, refused, row, same_rows};
use crate::sink::SinkBlock;
use crate::writer::ProgressWriter;

/// A target under test: writers of one identity, and what a reader of the target sees.
pub trait ProgressTarget {
    /// A new writer, always of the same identity on the same target.
    fn writer(&self) -> Result<Box<dyn ProgressWriter>, String>;
    /// The rows that are visible in the target, in any order, as the JSON that was written.
    fn visible(&self) -> Result<Vec<String>, String>;
    /// A new writer of another identity on the same target; `None` leaves that part of the suite out.
    fn other_writer(&self) -> Option<Result<Box<dyn ProgressWriter>, String>> {
        None
    }
}

/// The contract of [`ProgressWriter`], on a target that nobody has written to before: OPEN-ORDER,
/// MARKER-CAS, and all or nothing.
pub fn progress_writer(target: &dyn ProgressTarget) -> Result<(), String> {
    let (a, b, c) = (Fence(0xA), Fence(0xB), Fence(0xC));
    let at = |major: u64, fence: Fence| Marker { position: Position::at(major), fence };
    let mut first = target.writer()?;

    ok("the first take_fence", first.take_fence(a))?;
    marker_is("before create_marker", first.as_mut(), None)?;
    ok("create_marker", first.create_marker(Marker { position: Position::ORIGIN, fence: a }))?;
    let start = Marker { position: Position::ORIGIN, fence: a };
    marker_is("after create_marker", first.as_mut(), Some(start))?;
    sees(target, 0, "after create_marker")?;

    ok("a write of rows 1..=3", first.write(&block(1, 3), start, at(3, a)))?;
    marker_is("after a write", first.as_mut(), Some(at(3, a)))?;
    sees(target, 3, "after a write")?;
    ok("a write right after a write", first.write(&block(4, 5), at(3, a), at(5, a)))?;
    sees(target, 5, "after two writes")?;

    refused("a write that expects a passed marker", first.write(&block(4, 5), at(3, a), at(5, a)))?;
    refused("a write that expects a marker to come", first.write(&block(7, 8), at(6, a), at(8, a)))?;
    sees(target, 5, "after writes with a wrong expectation")?;
    ok(
        "a marker that moves past rows that need no write",
        first.write(&SinkBlock::default(), at(5, a), at(6, a)),
    )?;
    marker_is("after an empty write", first.as_mut(), Some(at(6, a)))?;
    sees(target, 5, "after an empty write")?;

    // A second open: the marker's position stays, its fence is the new one.
    let mut second = target.writer()?;
    ok("the second take_fence", second.take_fence(b))?;
    marker_is("after the second take_fence", second.as_mut(), Some(at(6, b)))?;
    fenced("a write of the older open", first.write(&block(7, 8), at(6, a), at(8, a)))?;
    fenced("a create_marker of the older open", first.create_marker(at(6, a)))?;
    fenced("a write of the older open with the newer marker", first.write(&block(7, 8), at(6, b), at(8, a)))?;
    marker_is("after the older open tried", second.as_mut(), Some(at(6, b)))?;
    sees(target, 5, "after the older open tried")?;
    ok("a write of the newer open", second.write(&block(7, 8), at(6, b), at(8, b)))?;
    sees(target, 7, "after the newer open wrote")?;
    fenced("a write of the older open after the newer wrote", first.write(&block(9, 9), at(8, a), at(9, a)))?;

    // The same writer, opened anew, as after an unknown outcome.
    ok("take_fence on a used writer", second.take_fence(c))?;
    marker_is("after taking the fence anew", second.as_mut(), Some(at(8, c)))?;
    refused("a write under the writer's own older fence", second.write(&block(9, 9), at(8, b), at(9, b)))?;
    ok("a write under the newest fence", second.write(&block(9, 9), at(8, c), at(9, c)))?;
    let mut third = target.writer()?;
    marker_is("read by an open that took no fence", third.as_mut(), Some(at(9, c)))?;
    sees(target, 8, "at the end")?;

    if let Some(other) = target.other_writer() {
        keeps_identities_apart(second.as_mut(), other?.as_mut(), at(9, c))?;
    }
    // Positions use all their bits, as log sequence numbers do.
    let far = Marker { position: Position::new(u64::MAX - 1, u32::MAX), fence: c };
    ok("a marker at a very large position", second.write(&SinkBlock::default(), at(9, c), far))?;
    marker_is("after a very large position", second.as_mut(), Some(far))?;
    sees(target, 8, "after a very large position")
}

/// The marker of another identity is its own, and so is its fence (SINK-NAME).
fn keeps_identities_apart(
    first: &mut dyn ProgressWriter,
    other: &mut dyn ProgressWriter,
    held: Marker,
) -> Result<(), String> {
    let fence = Fence(0xE);
    ok("take_fence of another identity", other.take_fence(fence))?;
    marker_is("of another identity, before create_marker", other, None)?;
    let start = Marker { position: Position::ORIGIN, fence };
    ok("create_marker of another identity", other.create_marker(start))?;
    marker_is("after another identity opened", first, Some(held))?;
    let next = Marker { position: Position::at(1), fence };
    ok("an empty write of another identity", other.write(&SinkBlock::default(), start, next))?;
    marker_is("after another identity wrote", first, Some(held))
}

fn marker_is(step: &str, writer: &mut dyn ProgressWriter, expected: Option<Marker>) -> Result<(), String> {
    let found = writer.read_marker().map_err(|error| format!("{step}: read_marker failed: {error}"))?;
    if found == expected {
        Ok(())
    } else {
        Err(format!("{step}: found marker {found:?}, expected {expected:?}"))
    }
}

/// Checks that exactly the first `count` rows of the suite are visible, each once.
fn sees(target: &dyn ProgressTarget, count: usize, step: &str) -> Result<(), String> {
    let expected = (1..).filter(|number| *number != 6).take(count).map(row).collect();
    same_rows(step, target.visible()?, expected)
}
