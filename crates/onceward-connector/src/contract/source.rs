//! The suite of [`Source`].

use onceward_protocol::Position;

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
