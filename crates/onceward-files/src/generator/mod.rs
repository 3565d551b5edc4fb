//! The `generator` source: rows made up as they are read, for load tests and first steps.
//!
//! Row n of partition p is a pure function of the config and (p, n): [`row`]. So a place is a number, reading can start
//! anywhere at once, and the same place always gives the same rows, on every machine and in every version.

use std::sync::Arc;
use std::time::Instant;

use onceward_connector::{
    Codec, Config, ConfigSchema, ConnectorError, Field, FieldKind, Read, ReadLimits, Record, RecordBatch,
    Source, SourceConnector, SourceFacts, SourceReader,
};
use onceward_protocol::Position;
use onceward_protocol::guarantee::{Level, Promise};

use pace::Pace;
use row::Rows;

pub mod keys;
pub mod pace;
pub mod row;

#[cfg(test)]
mod tests;

/// Rows of one batch, at most.
const MAX_BATCH_ROWS: usize = 16 * 1024;
/// Bytes after which a batch ends.
const MAX_BATCH_BYTES: usize = 1024 * 1024;
/// Bytes that `size` may ask for.
const MAX_SIZE: u64 = 16 * 1024 * 1024;

static SCHEMA: ConfigSchema = ConfigSchema {
    connector: "generator",
    doc: "Makes up rows: the same for the same config, however often and wherever they are read.",
    fields: &[
        Field {
            name: "rows",
            kind: FieldKind::Integer { min: 1, max: i64::MAX },
            required: false,
            default: None,
            live: false,
            doc: "How many rows there are, over all partitions; if unset, the source never ends.",
        },
        Field {
            name: "partitions",
            kind: FieldKind::Integer { min: 1, max: 10_000 },
            required: false,
            default: Some("1"),
            live: false,
            doc: "How many partitions they are spread over, evenly.",
        },
        Field {
            name: "keys",
            kind: FieldKind::Integer { min: 1, max: 1 << 32 },
            required: false,
            default: Some("1000"),
            live: false,
            doc: "How many different values the field `key` has: `k0`, `k1` and so on.",
        },
        Field {
            name: "distribution",
            kind: FieldKind::Enum(&["uniform", "zipf"]),
            required: false,
            default: Some("uniform"),
            live: false,
            doc: "`uniform`: every key is as likely. `zipf`: `k0` is the most likely, the i-th next is 1/(i+1)^exponent as \
                  likely as it; at most 1000000 keys.",
        },
        Field {
            name: "exponent",
            kind: FieldKind::String,
            required: false,
            default: None,
            live: false,
            doc: "The exponent of `zipf`, a quoted number above 0 and at most 10; if unset, 1.",
        },
        Field {
            name: "size",
            kind: FieldKind::Size,
            required: false,
            default: None,
            live: false,
            doc: "Bytes of a row: the field `pad` fills it up, unless it is longer anyway; if unset, there is no `pad`.",
        },
        Field {
            name: "seed",
            kind: FieldKind::Integer { min: i64::MIN, max: i64::MAX },
            required: false,
            default: Some("0"),
            live: false,
            doc: "Another seed gives other keys and values.",
        },
        Field {
            name: "rate",
            kind: FieldKind::Integer { min: 1, max: 1_000_000_000 },
            required: false,
            default: None,
            live: true,
            doc: "Rows per second and partition; if unset, as fast as they are taken. Has no effect on what they hold.",
        },
        Field {
            name: "start",
            kind: FieldKind::String,
            required: false,
            default: Some("2024-01-01T00:00:00Z"),
            live: false,
            doc: "The field `time` of the first row of every partition, in UTC.",
        },
        Field {
            name: "step",
            kind: FieldKind::Duration,
            required: false,
            default: Some("1ms"),
            live: false,
            doc: "How much later every next row of a partition is by its field `time`.",
        },
    ],
};

/// The source type `generator`.
pub struct GeneratorConnector;

impl SourceConnector for GeneratorConnector {
    fn schema(&self) -> &'static ConfigSchema {
        &SCHEMA
    }
    fn promise(&self, config: &Config) -> Promise {
        let facts = facts(config.integer("rows").is_some());
        Promise { level: Level::ExactlyOnce, reason: facts.reason, conditions: facts.conditions }
    }
    fn immutable(&self, _config: &Config) -> bool {
        true
    }
    fn build(&self, config: &Config) -> Result<Arc<dyn Source>, ConnectorError> {
        Ok(Arc::new(Generator::new(config)?))
    }
}

fn facts(bounded: bool) -> SourceFacts {
    SourceFacts {
        bounded,
        replayable: true,
        reason: "every row is computed from its place alone, so reading a place again gives the same row"
            .into(),
        conditions: Vec::new(),
    }
}

/// A configured `generator` source.
pub struct Generator {
    rows: Arc<Rows>,
    total: Option<u64>,
    partitions: u32,
    rate: Option<u64>,
}

impl Generator {
    /// Checks the config.
    pub fn new(config: &Config) -> Result<Self, ConnectorError> {
        let number = |key: &'static str, default: i64| config.integer(key).unwrap_or(default);
        let partitions = u32::try_from(number("partitions", 1)).ok().filter(|count| *count > 0);
        let partitions =
            partitions.ok_or_else(|| refused("partitions", "`partitions` must be 1 or more".into()))?;
        let rate = config.integer("rate").map(|rate| u64::try_from(rate).unwrap_or(0).max(1));
        let total = config.integer("rows").map(|rows| u64::try_from(rows).unwrap_or(0));
        Ok(Generator { rows: Arc::new(rows(config)?), total, partitions, rate })
    }

    fn partition(&self, name: &str) -> Result<u32, ConnectorError> {
        let number =
            name.parse().ok().filter(|number: &u32| *number < self.partitions && number.to_string() == name);
        number.ok_or_else(|| {
            ConnectorError::new(
                "OW-3031",
                format!(
                    "found a partition `{name}`, expected one of 0 to {}: `partitions` was larger when the pipeline first \
                     started. Set it back, or reset the pipeline",
                    self.partitions - 1
                ),
            )
        })
    }

    fn reader(&self, partition: &str, position: Position, token: &[u8]) -> Result<Reader, ConnectorError> {
        let partition = self.partition(partition)?;
        let digest = self.rows.digest();
        if position > Position::ORIGIN && token.get(..8) != Some(&digest.to_le_bytes()[..]) {
            return Err(ConnectorError::new(
                "OW-3032",
                format!(
                    "the rows up to number {} of partition {partition} were made with another config than the rows after \
                     them would be. Set `keys`, `distribution`, `exponent`, `size`, `seed`, `start` and `step` back, or \
                     reset the pipeline",
                    position.major
                ),
            ));
        }
        Ok(Reader {
            rows: self.rows.clone(),
            digest,
            partition,
            next: position.major + 1,
            last: self.rows_of(partition),
            pace: self.rate.map(|rate| (Instant::now(), Pace::new(rate))),
            reserve: 0,
        })
    }

    /// How many rows a partition has, `None` for no end.
    fn rows_of(&self, partition: u32) -> Option<u64> {
        let (total, partitions) = (self.total?, u64::from(self.partitions));
        Some(total / partitions + u64::from(u64::from(partition) < total % partitions))
    }
}

fn rows(config: &Config) -> Result<Rows, ConnectorError> {
    let keys = config.integer("keys").unwrap_or(1000);
    let keys = match (config.string("distribution"), config.string("exponent")) {
        (Some("zipf"), exponent) => {
            let exponent = exponent.unwrap_or("1");
            let parsed = exponent.parse::<f64>().ok().filter(|parsed| *parsed > 0.0 && *parsed <= 10.0);
            let parsed = parsed.ok_or_else(|| {
                refused(
                    "exponent",
                    format!("`exponent` is `{exponent}`, expected a number above 0 and at most 10"),
                )
            })?;
            let count = u32::try_from(keys).ok().filter(|keys| (1..=keys::MAX_ZIPF_KEYS).contains(keys));
            let count = count.ok_or_else(|| {
                let most = keys::MAX_ZIPF_KEYS;
                refused("keys", format!("`keys` is {keys}, expected 1 to {most} with `distribution: zipf`"))
            })?;
            keys::Keys::zipf(count, parsed)
        }
        (_, Some(_)) => {
            let message = "`exponent` is about `distribution: zipf`: remove it, or set that";
            return Err(refused("exponent", message.into()));
        }
        _ => {
            let count = u64::try_from(keys).ok().filter(|keys| (1..=1 << 32).contains(keys));
            keys::Keys::uniform(
                count.ok_or_else(|| refused("keys", "`keys` must be 1 to 4294967296".into()))?,
            )
        }
    };
    let size = config.size("size");
    if size.is_some_and(|size| size > MAX_SIZE) {
        return Err(refused("size", "`size` is too large, expected at most 16MiB".into()));
    }
    let start = config.string("start").unwrap_or("2024-01-01T00:00:00Z");
    let start_us = row::parse_time(start).ok_or_else(|| {
        refused(
            "start",
            format!("`start` is `{start}`, expected a time in UTC such as `2024-01-01T00:00:00Z`"),
        )
    })?;
    let step_us = config.duration("step").unwrap_or(1000).max(0);
    let seed = config.integer("seed").unwrap_or(0);
    Ok(Rows { seed, keys, size: size.map(|size| size as usize), start_us, step_us })
}

fn refused(key: &'static str, message: String) -> ConnectorError {
    ConnectorError::config("OW-3030", key, message)
}

impl Source for Generator {
    fn facts(&self) -> SourceFacts {
        facts(self.total.is_some())
    }
    fn codec(&self) -> Result<Codec, ConnectorError> {
        Ok(Codec::Json)
    }
    fn partitions(&self) -> Result<Vec<String>, ConnectorError> {
        Ok((0..self.partitions).map(|number| number.to_string()).collect())
    }
    fn open(
        &self,
        partition: &str,
        position: Position,
        token: &[u8],
    ) -> Result<Box<dyn SourceReader>, ConnectorError> {
        Ok(Box::new(self.reader(partition, position, token)?))
    }
    fn size(&self, partition: &str) -> Option<u64> {
        self.rows_of(self.partition(partition).ok()?)
    }
    fn progress(&self, token: &[u8]) -> Option<u64> {
        Some(u64::from_le_bytes(token.get(8..16)?.try_into().ok()?))
    }
}

/// What was generated so far, and by which config.
fn make_token(digest: u64, rows: u64) -> Vec<u8> {
    [digest.to_le_bytes(), rows.to_le_bytes()].concat()
}

/// One open partition.
struct Reader {
    rows: Arc<Rows>,
    digest: u64,
    partition: u32,
    /// The number of the row to come; the first is 1.
    next: u64,
    last: Option<u64>,
    pace: Option<(Instant, Pace)>,
    /// What the last batch took, which the next one will about take too.
    reserve: usize,
}

impl SourceReader for Reader {
    fn read(&mut self, limits: ReadLimits) -> Result<Read, ConnectorError> {
        let left = self.last.map_or(u64::MAX, |last| (last + 1).saturating_sub(self.next));
        if left == 0 {
            return Ok(Read::End);
        }
        let wanted = limits.rows.clamp(1, MAX_BATCH_ROWS).min(usize::try_from(left).unwrap_or(usize::MAX));
        let count = match &mut self.pace {
            None => wanted,
            Some((opened, pace)) => pace.allowed(opened.elapsed().as_micros() as u64, wanted as u64) as usize,
        };
        if count == 0 {
            return Ok(Read::Idle);
        }
        let max_bytes = limits.bytes.min(MAX_BATCH_BYTES);
        let mut bytes = Vec::with_capacity(self.reserve);
        let mut records = Vec::with_capacity(count);
        let mut writer = self.rows.writer(self.partition);
        for number in self.next..self.next + count as u64 {
            let start = bytes.len();
            writer.push(&mut bytes, number);
            if bytes.len() > max_bytes && !records.is_empty() {
                bytes.truncate(start);
                break;
            }
            let len = (bytes.len() - start) as u32;
            records.push(Record { start: start as u32, len, position: Position::at(number) });
        }
        self.next += records.len() as u64;
        if let Some((_, pace)) = &mut self.pace {
            pace.took(records.len() as u64);
        }
        self.reserve = bytes.len() + bytes.len() / 16 + 2 * onceward_connector::record::PADDING;
        let token = make_token(self.digest, self.next - 1);
        Ok(Read::Batch { batch: RecordBatch::new(bytes, records), token })
    }
}
