//! Aggregation over windows of event time: what a keyed job with `aggregate` does with its messages.

use std::sync::Arc;

use onceward_expr::{Timestamp, Value};
use onceward_protocol::Watermark;
use onceward_protocol::watermark::Tumbling;
use onceward_spec::{KeyedSpec, WindowsSpec};
use onceward_store::WriteBatch;

use crate::emission::Emission;
use crate::error::EngineError;
use crate::fused::{StepFailure, json_member};
use crate::job::JobEnd;
use crate::lane::LaneEntry;
use crate::operator::OperatorName;
use crate::window_state::{Fired, WindowState};

/// Keys fired between two looks at the epoch's limits.
const MAX_FIRED_AT_ONCE: usize = 65_536;

/// What became of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// It is in its window.
    InWindow,
    /// Its window had closed.
    Late,
}

/// The windows of one partition.
pub struct Windows {
    name: OperatorName,
    spec: Arc<KeyedSpec>,
    columns: Vec<String>,
    window: Tumbling,
    /// Arguments in front of a late row's record.
    arguments: usize,
    state: WindowState,
    names: Vec<Vec<u8>>,
    row: Vec<u8>,
}

impl Windows {
    /// Empty windows.
    pub fn new(name: OperatorName, spec: Arc<KeyedSpec>, windows: &WindowsSpec) -> Self {
        Windows {
            name,
            columns: windows.compute.iter().map(|(name, _)| name.clone()).collect(),
            window: crate::plan::window(windows),
            arguments: windows.compute.iter().filter(|(_, call)| call.argument.is_some()).count(),
            state: WindowState::new(windows),
            names: windows.compute.iter().map(|(name, _)| json_member(name)).collect(),
            row: Vec::new(),
            spec,
        }
    }
    /// Takes up a stored row; `None` if it is malformed.
    pub fn load(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        self.state.load(key, value)
    }
    /// Keys held.
    pub fn keys(&self) -> u64 {
        self.state.keys()
    }
    /// The state, for prefetching.
    #[inline]
    pub fn state(&self) -> &WindowState {
        &self.state
    }
    /// Whether nothing waits for the watermark.
    pub fn is_empty(&self) -> bool {
        self.state.first_window().is_none()
    }
    /// The output watermark never passes an unfired window: results carry its end as their event time.
    pub fn held_at(&self) -> Option<i64> {
        self.state.first_window().and_then(|start| self.window.end_of(start))
    }
    /// How far results may lie behind the effective watermark.
    pub fn lateness(&self) -> i64 {
        self.window.allowed_lateness
    }

    /// Takes one message. Judged by the row's own lane, not by how far the others are: whether a row is late
    /// depends on the rows before it in its partition alone. What has fired is closed on every lane.
    #[inline]
    pub fn take(
        &mut self,
        key: &[u8],
        args: &[u8],
        entry: &LaneEntry,
        lane: Watermark,
    ) -> Result<Taken, Box<Refused>> {
        let Some(start) = self.window.start_of(entry.event_time) else {
            return Err(Box::new(Refused::Time));
        };
        if self.window.closed(start, lane) {
            return Ok(Taken::Late);
        }
        match self.state.update(start, entry.hash, key, args) {
            Ok(()) => Ok(Taken::InWindow),
            Err((column, reason)) => Err(Box::new(Refused::Column(self.refused(key, column, reason)))),
        }
    }
    /// The record that follows a late row's arguments.
    pub fn late_record<'a>(&self, mut args: &'a [u8]) -> Option<&'a [u8]> {
        for _ in 0..self.arguments {
            (_, args) = Value::decode(args)?;
        }
        Some(args)
    }

    /// Fires keys of the oldest closed window while the epoch has `room` for rows. Answers how many keys were
    /// fired, with their bytes; none if nothing is closed.
    pub fn fire(
        &mut self,
        effective: Watermark,
        room: u64,
        out: &mut Emission,
    ) -> Result<Option<(u64, u64)>, JobEnd> {
        let Some(start) = self.state.first_window().filter(|start| self.window.closed(*start, effective))
        else {
            return Ok(None);
        };
        let limit = usize::try_from(room).unwrap_or(usize::MAX).min(MAX_FIRED_AT_ONCE);
        let Windows { name, spec, columns, window, state, names, row, .. } = self;
        let event_time = window.end_of(start).map_or(i64::MAX, |end| end - 1);
        let (mut rows, mut bytes) = (0, 0);
        state.fire(start, limit, |fired| {
            // A fired key is part of the epoch, whether or not a row comes of it.
            rows += 1;
            bytes += fired.key.len() as u64;
            row.clear();
            write_row(spec, names, window, &fired, row).map_err(|(column, reason)| {
                JobEnd::Failed(aggregate_error(name, spec, columns, fired.key, column, reason))
            })?;
            let position = out.outputs.next_position();
            out.emit(row, event_time).map_err(|failure: StepFailure| name.poison(position, failure))
        })?;
        Ok(Some((rows, bytes)))
    }
    /// Writes what changed since the last call.
    pub fn write_changes(&mut self, writes: &mut WriteBatch) {
        self.state.write_changes(writes);
    }

    #[cold]
    fn refused(&self, key: &[u8], column: usize, reason: String) -> EngineError {
        aggregate_error(&self.name, &self.spec, &self.columns, key, column, reason)
    }
}

/// Why a message cannot be taken.
pub enum Refused {
    /// Its event time lies outside of what windows can hold.
    Time,
    /// An aggregate cannot take its argument.
    Column(EngineError),
}

#[cold]
fn aggregate_error(
    name: &OperatorName,
    spec: &KeyedSpec,
    columns: &[String],
    key: &[u8],
    column: usize,
    reason: String,
) -> EngineError {
    let mut text = Vec::new();
    let _ = write_key(&spec.group_by, key, &mut text);
    EngineError::Aggregate {
        computation: name.computation.clone(),
        key: format!("{{{}}}", String::from_utf8_lossy(&text).trim_end_matches(',')),
        column: columns.get(column).cloned().unwrap_or_default(),
        reason,
    }
}

/// Appends `"field":value,` for each field of an encoded key.
pub fn write_key(group_by: &[String], mut key: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    for name in group_by {
        let (value, used) = Value::decode_key(key).ok_or("a stored key is malformed")?;
        key = &key[used..];
        out.extend_from_slice(&json_member(name));
        value.write_json(out).map_err(|error| error.to_string())?;
        out.push(b',');
    }
    Ok(())
}

/// The output row: group keys, `window_start`, `window_end`, then the computed names.
fn write_row(
    spec: &KeyedSpec,
    names: &[Vec<u8>],
    window: &Tumbling,
    fired: &Fired<'_>,
    out: &mut Vec<u8>,
) -> Result<(), (usize, String)> {
    out.push(b'{');
    write_key(&spec.group_by, fired.key, out).map_err(|reason| (0, reason))?;
    out.extend_from_slice(b"\"window_start\":");
    write_time(fired.window_start, out).map_err(|reason| (0, reason))?;
    out.extend_from_slice(b",\"window_end\":");
    write_time(window.end_of(fired.window_start).unwrap_or(i64::MAX), out).map_err(|reason| (0, reason))?;
    for (column, name) in names.iter().enumerate() {
        out.push(b',');
        out.extend_from_slice(name);
        fired.write_json(column, out).map_err(|reason| (column, reason))?;
    }
    out.push(b'}');
    Ok(())
}

/// Appends a time as a JSON text in RFC 3339, UTC.
fn write_time(micros: i64, out: &mut Vec<u8>) -> Result<(), String> {
    let nanos = micros.rem_euclid(1_000_000) as u32 * 1000;
    let time =
        Timestamp::new(micros.div_euclid(1_000_000), nanos).ok_or("a window lies beyond the year 9999")?;
    Value::Timestamp(time).write_json(out).map_err(|error| error.to_string())
}
