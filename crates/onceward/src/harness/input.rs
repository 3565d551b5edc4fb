//! A source that is pushed: its rows stay readable, so that they can be read again after a kill.

use onceward_connector::{Read, ReadLimits, Record, RecordBatch};
use onceward_expr::{Timestamp, parse_timestamp};
use onceward_protocol::Position;
use onceward_protocol::resume::ResumePoint;

use super::setup::{MARK, PushedSource};

/// A watermark is put on every lane behind a row whose ordinal is a multiple of this, so marks stand there.
const WATERMARK_EVERY: u64 = 256;

struct Row {
    position: u64,
    payload: Vec<u8>,
}

/// The one partition of a pushed source.
#[derive(Default)]
pub(super) struct Input {
    rows: Vec<Row>,
    /// How many of the rows only carry a watermark.
    marks: u64,
    ended: bool,
    /// Which row the reader gives next; a reader does not survive its job.
    next: usize,
}

impl Input {
    /// Appends a row. The reason if that cannot be.
    pub(super) fn push(&mut self, payload: &[u8]) -> Result<(), String> {
        if payload.windows(MARK.len()).any(|part| part == MARK.as_bytes()) {
            return Err(format!("found a row with {MARK}, a name that the harness keeps for itself"));
        }
        let position = self.last() + 1;
        self.append(position, payload.to_vec())
    }
    /// Appends a mark which says that nothing older than `time` comes any more.
    pub(super) fn watermark(&mut self, source: &PushedSource, time: &str) -> Result<(), String> {
        let Some(event_time) = &source.event_time else {
            return Err("found a watermark, but the manifest gives this source no eventTime".to_owned());
        };
        let micros = parse_timestamp(time)
            .ok_or_else(|| {
                format!("found the time {time}, expected RFC 3339, `YYYY-MM-DD HH:MM:SS` or `YYYY-MM-DD`")
            })?
            .micros();
        let newest = micros.saturating_add(event_time.out_of_orderness_us);
        let stamp = Timestamp::new(newest.div_euclid(1_000_000), newest.rem_euclid(1_000_000) as u32 * 1000)
            .ok_or_else(|| {
                format!("found the time {time}, which with outOfOrderness is behind the year 9999")
            })?;
        let mut payload = b"{".to_vec();
        payload.extend_from_slice(serde_json::Value::from(event_time.field.as_str()).to_string().as_bytes());
        payload.extend_from_slice(b":\"");
        stamp.write(&mut payload);
        payload.extend_from_slice(format!("\",\"{MARK}\":true}}").as_bytes());
        let position = (self.last() / WATERMARK_EVERY + 1) * WATERMARK_EVERY;
        self.append(position, payload)?;
        self.marks += 1;
        Ok(())
    }
    /// How many rows only carry a watermark.
    pub(super) fn marks(&self) -> u64 {
        self.marks
    }
    fn append(&mut self, position: u64, payload: Vec<u8>) -> Result<(), String> {
        if self.ended {
            return Err("found more input, but the test has ended this source".to_owned());
        }
        self.rows.push(Row { position, payload });
        Ok(())
    }
    fn last(&self) -> u64 {
        self.rows.last().map_or(0, |row| row.position)
    }
    /// Nothing more comes.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }
    /// Moves the reader behind a place.
    pub(super) fn seek(&mut self, point: &ResumePoint) {
        self.next = self.rows.partition_point(|row| row.position <= point.position.major);
    }
    /// Whether a read would find rows, or the end.
    pub(super) fn has_news(&self) -> bool {
        self.next < self.rows.len() || self.ended
    }
    /// Reads on.
    pub(super) fn read(&mut self, limits: ReadLimits) -> Read {
        let (mut bytes, mut records) = (Vec::new(), Vec::new());
        for row in self.rows.iter().skip(self.next).take(limits.rows.max(1)) {
            if !records.is_empty() && bytes.len() + row.payload.len() > limits.bytes {
                break;
            }
            records.push(Record {
                start: bytes.len() as u32,
                len: row.payload.len() as u32,
                position: Position::at(row.position),
            });
            bytes.extend_from_slice(&row.payload);
        }
        self.next += records.len();
        match records.is_empty() {
            true if self.ended => Read::End,
            true => Read::Idle,
            false => Read::Batch { batch: RecordBatch::new(bytes, records), token: Vec::new() },
        }
    }
}
