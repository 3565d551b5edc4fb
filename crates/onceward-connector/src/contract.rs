//! Contract suites: what every connector of a kind must pass, as plain functions that panic-free
//! report the first violation.

use std::sync::Arc;

use onceward_protocol::{Fence, Marker, Position};

use crate::sink::{ProgressWriter, RowChunk, SinkBlock, TargetError};
use crate::source::{Read, ReadLimits, Source, SourceReader};

/// How many answers of `Idle` in a row count as the end of an unbounded source.
const IDLE_MEANS_END: usize = 3;

/// How many places of a partition are read again from.
const MAX_RESUMES: usize = 64;

type Rows = Vec<(Position, Vec<u8>)>;

/// What a reader gave until its end: rows, and after which of them it gave which token.
struct Run {
    rows: Rows,
    places: Vec<(usize, Position, Vec<u8>)>,
}

/// The contract of [`Source`], on a source whose data does not change meanwhile: the same partitions
/// and codec every time; positions that grow; limits that are kept; an end that stays the end; and
/// from every token that was ever given, the same rows at the same positions.
pub fn source(source: &dyn Source) -> Result<(), String> {
    let named = |what: &str, error: crate::ConnectorError| format!("{what}: {error}");
    let partitions = source.partitions().map_err(|error| named("partitions", error))?;
    if partitions != source.partitions().map_err(|error| named("partitions", error))? {
        return Err("partitions: two calls gave different answers".into());
    }
    if source.codec().map_err(|error| named("codec", error))?
        != source.codec().map_err(|error| named("codec", error))?
    {
        return Err("codec: two calls gave different answers".into());
    }
    for partition in &partitions {
        source_partition(source, partition)
            .map_err(|violation| format!("partition {partition}: {violation}"))?;
    }
    Ok(())
}

fn source_partition(source: &dyn Source, partition: &str) -> Result<(), String> {
    let open = |position: Position, token: &[u8]| {
        source
            .open(partition, position, token)
            .map_err(|error| format!("cannot be opened after position {position}: {error}"))
    };
    let everything = ReadLimits { rows: usize::MAX, bytes: usize::MAX };
    let bounded = source.facts().bounded;
    let whole = run(open(Position::ORIGIN, &[])?, everything, bounded)?;
    let limits = [(1, usize::MAX), (3, usize::MAX), (usize::MAX, 1), (usize::MAX, 100), (7, 1000)];
    for (rows, bytes) in limits {
        let limits = ReadLimits { rows, bytes };
        let said = |violation: String| format!("with {limits:?}: {violation}");
        let limited = run(open(Position::ORIGIN, &[])?, limits, bounded).map_err(said)?;
        same(&limited.rows, &whole.rows).map_err(said)?;
        let step = limited.places.len().div_ceil(MAX_RESUMES).max(1);
        for (count, position, token) in limited.places.iter().step_by(step) {
            let said = |violation: String| format!("read again after position {position}: {violation}");
            let again = run(open(*position, token)?, limits, bounded).map_err(said)?;
            same(&again.rows, &whole.rows[*count..]).map_err(said)?;
        }
    }
    Ok(())
}

fn same(found: &[(Position, Vec<u8>)], expected: &[(Position, Vec<u8>)]) -> Result<(), String> {
    if let Some(at) = found.iter().zip(expected).position(|(found, expected)| found != expected) {
        let (found, expected) = (&found[at], &expected[at]);
        return Err(format!(
            "found {:?} at position {}, expected {:?} at position {}",
            String::from_utf8_lossy(&found.1),
            found.0,
            String::from_utf8_lossy(&expected.1),
            expected.0
        ));
    }
    if found.len() != expected.len() {
        return Err(format!("found {} rows, expected {}", found.len(), expected.len()));
    }
    Ok(())
}

fn run(mut reader: Box<dyn SourceReader>, limits: ReadLimits, bounded: bool) -> Result<Run, String> {
    let mut run = Run { rows: Vec::new(), places: Vec::new() };
    let mut idle = 0;
    loop {
        match reader.read(limits).map_err(|error| format!("a read failed: {error}"))? {
            Read::Batch { batch, token } => {
                idle = 0;
                let records = batch.records();
                let payload: usize = records.iter().map(|record| record.len as usize).sum();
                if records.is_empty() {
                    return Err("a batch without records".into());
                }
                if records.len() > limits.rows || (payload > limits.bytes && records.len() > 1) {
                    return Err(format!(
                        "a batch of {} records and {payload} bytes: beyond the limits",
                        records.len()
                    ));
                }
                for record in records {
                    if run.rows.last().map_or(Position::ORIGIN, |(last, _)| *last) >= record.position {
                        return Err(format!("position {} does not grow", record.position));
                    }
                    run.rows.push((record.position, batch.payload(record).to_vec()));
                }
                if let Some((last, _)) = run.rows.last() {
                    run.places.push((run.rows.len(), *last, token));
                }
            }
            Read::Idle => {
                idle += 1;
                if idle == IDLE_MEANS_END && !bounded {
                    return Ok(run);
                }
                if idle == 1000 {
                    return Err("a bounded source gave nothing 1000 times in a row".into());
                }
            }
            Read::End if !bounded => return Err("an unbounded source ended".into()),
            Read::End => {
                return match reader.read(limits) {
                    Ok(Read::End) => Ok(run),
                    _ => Err("a read after the end gave something else than the end".into()),
                };
            }
        }
    }
}

/// A target under test: writers of one identity, and what a reader of the target sees.
pub trait ProgressTarget {
    /// A new writer, always of the same identity on the same target.
    fn writer(&self) -> Result<Box<dyn ProgressWriter>, String>;
    /// The rows that are visible in the target, in any order, as the JSON that was written.
    fn visible(&self) -> Result<Vec<String>, String>;
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
    sees(target, 8, "at the end")
}

/// A block of the rows numbered `first..=last`; the suite never uses number 6.
fn block(first: u64, last: u64) -> SinkBlock {
    let mut chunk = RowChunk::default();
    for number in first..=last {
        chunk.push(Position::at(number), row(number).as_bytes());
    }
    let rows = chunk.len();
    SinkBlock { parts: vec![(Arc::new(chunk), 0..rows)] }
}

fn row(number: u64) -> String {
    format!("{{\"id\":{number}}}")
}

fn ok(step: &str, result: Result<(), TargetError>) -> Result<(), String> {
    result.map_err(|error| format!("{step}: expected success, found {error}"))
}

fn fenced(step: &str, result: Result<(), TargetError>) -> Result<(), String> {
    match result {
        Err(TargetError::Fenced(_)) => Ok(()),
        other => Err(format!("{step}: expected Fenced, found {other:?}")),
    }
}

fn refused(step: &str, result: Result<(), TargetError>) -> Result<(), String> {
    match result {
        Err(TargetError::Fenced(_) | TargetError::Definite(_)) => Ok(()),
        other => Err(format!("{step}: expected a refusal, found {other:?}")),
    }
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
    let mut found = target.visible()?;
    found.sort();
    let expected: Vec<String> = (1..).filter(|number| *number != 6).take(count).map(row).collect();
    if found == expected {
        Ok(())
    } else {
        Err(format!("{step}: visible are {found:?}, expected {expected:?}"))
    }
}
