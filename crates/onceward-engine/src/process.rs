//! The user's process function: state and timers per key, committed with the epoch.
//!
//! State rows are (group key, name), timer rows (kind, time, group key, name): a timer set twice is one timer, and
//! timers of a key fire in the order of their time (TIMER-ONCE: firing and deletion are one epoch).

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashTable;
use onceward_connector::{Context, FunctionError, Message, Parents, ProcessFunction, Timer, TimerKind};
use onceward_protocol::codec::{Reader, order_i64, put_bytes, unorder_i64};
use onceward_protocol::{PartitionId, Position, Watermark, routing_hash};
use onceward_store::{TableId, WriteBatch};

use crate::emission::Emission;
use crate::fused::StepFailure;
use crate::ids::Ids;
use crate::job::JobEnd;
use crate::lane::LaneBatch;
use crate::operator::OperatorName;
use crate::windows::write_key;

/// Timers fired between two looks at the epoch's limits.
const MAX_FIRED_AT_ONCE: usize = 4096;

/// All state of one key: few names, so a list.
#[derive(Debug, Default)]
struct KeyState {
    key: Box<[u8]>,
    values: Vec<(String, Vec<u8>)>,
}

/// A stored timer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TimerRow {
    /// By which clock.
    pub kind: TimerKind,
    /// For when it is set, microseconds.
    pub at: i64,
    /// The group key.
    pub key: Vec<u8>,
    /// The name it is set under.
    pub name: String,
}

impl TimerRow {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![match self.kind {
            TimerKind::Event => 0,
            TimerKind::System => 1,
            TimerKind::Real => 2,
        }];
        out.extend_from_slice(&order_i64(self.at));
        put_bytes(&mut out, &self.key);
        out.extend_from_slice(self.name.as_bytes());
        out
    }
    /// Takes the key of a row of the timers table apart; `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = Reader::new(bytes);
        let kind = match input.byte()? {
            0 => TimerKind::Event,
            1 => TimerKind::System,
            2 => TimerKind::Real,
            _ => return None,
        };
        let at = unorder_i64(input.array()?);
        let key = input.bytes()?.to_vec();
        let name = std::str::from_utf8(input.rest()).ok()?.to_owned();
        Some(TimerRow { kind, at, key, name })
    }
}

fn state_key(group: &[u8], name: &str) -> Vec<u8> {
    let mut key = Vec::new();
    put_bytes(&mut key, group);
    key.extend_from_slice(name.as_bytes());
    key
}

/// The group key and the name in the key of a row of the state table; `None` if it is malformed.
pub fn decode_state_key(key: &[u8]) -> Option<(&[u8], &str)> {
    let mut input = Reader::new(key);
    let group = input.bytes()?;
    Some((group, std::str::from_utf8(input.rest()).ok()?))
}

/// State and timers of one partition.
#[derive(Default)]
struct Tables {
    states: HashTable<KeyState>,
    timers: BTreeSet<TimerRow>,
    /// Rows that changed since the last epoch; the value is looked up when the epoch is written.
    dirty_states: BTreeSet<(Vec<u8>, String)>,
    dirty_timers: BTreeMap<Vec<u8>, bool>,
}

impl Tables {
    fn state(&self, hash: u64, group: &[u8], name: &str) -> Option<&[u8]> {
        let entry = self.states.find(hash, |entry| *entry.key == *group)?;
        let (_, value) = entry.values.iter().find(|(known, _)| known == name)?;
        Some(value)
    }
    fn put(&mut self, hash: u64, group: &[u8], name: &str, value: &[u8]) {
        let entry = self
            .states
            .entry(hash, |entry| *entry.key == *group, |entry| routing_hash(&entry.key))
            .or_insert_with(|| KeyState { key: group.into(), values: Vec::new() })
            .into_mut();
        match entry.values.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => {
                known.clear();
                known.extend_from_slice(value);
            }
            None => entry.values.push((name.to_owned(), value.to_vec())),
        }
    }
    fn remove(&mut self, hash: u64, group: &[u8], name: &str) {
        if let Ok(mut entry) = self.states.find_entry(hash, |entry| *entry.key == *group) {
            entry.get_mut().values.retain(|(known, _)| known != name);
            if entry.get().values.is_empty() {
                entry.remove();
            }
        }
    }
    fn write(&mut self, writes: &mut WriteBatch) {
        for (group, name) in std::mem::take(&mut self.dirty_states) {
            let key = state_key(&group, &name);
            match self.state(routing_hash(&group), &group, &name) {
                Some(value) => writes.put(TableId::STATE, &key, value),
                None => writes.delete(TableId::STATE, &key),
            }
        }
        for (key, present) in std::mem::take(&mut self.dirty_timers) {
            match present {
                true => writes.put(TableId::TIMERS, &key, &[]),
                false => writes.delete(TableId::TIMERS, &key),
            }
        }
    }
}

/// The process function of one partition.
pub struct Process {
    name: OperatorName,
    function: Box<dyn ProcessFunction>,
    step: String,
    group_by: Vec<String>,
    tables: Tables,
    key_text: Vec<u8>,
}

/// The clocks of an epoch.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// The effective watermark.
    pub watermark: Watermark,
    /// The commit clock.
    pub system: i64,
    /// The wall clock.
    pub real: i64,
}

/// What the function acts on.
struct Current<'a> {
    hash: u64,
    group: &'a [u8],
    event_time: Option<i64>,
    position: Position,
}

struct Acting<'a> {
    tables: &'a mut Tables,
    emission: &'a mut Emission,
    messages: &'a [Message<'a>],
    groups: &'a [(u64, &'a [u8])],
    current: Current<'a>,
    clocks: Clocks,
    failure: Option<StepFailure>,
}

impl Context for Acting<'_> {
    fn watermark(&self) -> Watermark {
        self.clocks.watermark
    }
    fn system_time(&self) -> i64 {
        self.clocks.system
    }
    fn state(&self, name: &str) -> Option<&[u8]> {
        self.tables.state(self.current.hash, self.current.group, name)
    }
    fn set_state(&mut self, name: &str, value: &[u8]) {
        let Current { hash, group, .. } = self.current;
        match value.is_empty() {
            true => self.tables.remove(hash, group, name),
            false => self.tables.put(hash, group, name, value),
        }
        self.tables.dirty_states.insert((group.to_vec(), name.to_owned()));
    }
    fn set_timer(&mut self, kind: TimerKind, at: i64, name: &str) {
        let row = TimerRow { kind, at, key: self.current.group.to_vec(), name: name.to_owned() };
        let key = row.encode();
        if self.tables.timers.insert(row) {
            self.tables.dirty_timers.insert(key, true);
        }
    }
    fn delete_timer(&mut self, kind: TimerKind, at: i64, name: &str) {
        let row = TimerRow { kind, at, key: self.current.group.to_vec(), name: name.to_owned() };
        if self.tables.timers.remove(&row) {
            self.tables.dirty_timers.insert(row.encode(), false);
        }
    }
    fn emit_with(&mut self, payload: &[u8], parents: Parents<'_>, event_time: Option<i64>) {
        if self.failure.is_some() {
            return;
        }
        let inherited = match parents {
            Parents::Current => self.current.event_time,
            Parents::Messages(indices) => {
                indices.iter().filter_map(|index| self.messages.get(*index)?.event_time).min()
            }
        };
        let time = event_time.or(inherited).unwrap_or(i64::MIN);
        if let Err(failure) = self.emission.emit(payload, time) {
            self.failure = Some(failure);
        }
    }
    fn select(&mut self, index: usize) {
        if let (Some((hash, group)), Some(message)) = (self.groups.get(index), self.messages.get(index)) {
            let (event_time, position) = (message.event_time, message.position);
            self.current = Current { hash: *hash, group, event_time, position };
        }
    }
}

impl Process {
    /// An empty partition.
    pub fn new(
        name: OperatorName,
        function: Box<dyn ProcessFunction>,
        function_name: &str,
        group_by: Vec<String>,
    ) -> Self {
        Process {
            step: format!("{} process ({function_name})", name.computation),
            name,
            function,
            group_by,
            tables: Tables::default(),
            key_text: Vec::new(),
        }
    }
    /// Takes up a stored state row; `None` if it is malformed.
    pub fn load_state(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        let (group, name) = decode_state_key(key)?;
        self.tables.put(routing_hash(group), group, name, value);
        Some(())
    }
    /// Takes up a stored timer row; `None` if it is malformed.
    pub fn load_timer(&mut self, key: &[u8]) -> Option<()> {
        self.tables.timers.insert(TimerRow::decode(key)?);
        Some(())
    }
    /// Keys with state.
    pub fn keys(&self) -> u64 {
        self.tables.states.len() as u64
    }
    /// Whether any timer waits.
    pub fn has_timers(&self) -> bool {
        !self.tables.timers.is_empty()
    }
    fn first(&self, kind: TimerKind) -> Option<i64> {
        let from = TimerRow { kind, at: i64::MIN, key: Vec::new(), name: String::new() };
        self.tables.timers.range(from..).next().filter(|row| row.kind == kind).map(|row| row.at)
    }
    /// The output watermark never passes an unfired timer of event time.
    pub fn held_at(&self) -> Option<i64> {
        self.first(TimerKind::Event)
    }
    /// When the next timer of a clock is due.
    pub fn next_clock_timer(&self) -> Option<i64> {
        self.first(TimerKind::System).into_iter().chain(self.first(TimerKind::Real)).min()
    }
    /// Whether rows changed since the last epoch.
    pub fn is_dirty(&self) -> bool {
        !self.tables.dirty_states.is_empty() || !self.tables.dirty_timers.is_empty()
    }
    /// Writes what changed since the last call.
    pub fn write_changes(&mut self, writes: &mut WriteBatch) {
        self.tables.write(writes);
    }

    /// Takes the messages of `batch` with these entry numbers; `with_ids` says that a client-chosen id precedes each
    /// record.
    pub fn take(
        &mut self,
        batch: &LaneBatch,
        entries: &[u32],
        with_ids: bool,
        root: &PartitionId,
        clocks: Clocks,
        emission: &mut Emission,
    ) -> Result<(), JobEnd> {
        self.key_text.clear();
        let mut ends = Vec::with_capacity(entries.len());
        let taken = || entries.iter().filter_map(|number| batch.entries.get(*number as usize));
        for entry in taken() {
            json_key(&self.group_by, batch.key(entry), &mut self.key_text)
                .map_err(|reason| self.failed(batch, entries, reason))?;
            ends.push(self.key_text.len());
        }
        let groups: Vec<(u64, &[u8])> = taken().map(|entry| (entry.hash, batch.key(entry))).collect();
        let mut start = 0;
        let messages: Vec<Message<'_>> = taken()
            .zip(&ends)
            .map(|(entry, end)| {
                let key = &self.key_text[std::mem::replace(&mut start, *end)..*end];
                Message {
                    key,
                    payload: if with_ids { Ids::without_id(batch.args(entry)) } else { batch.args(entry) },
                    event_time: (entry.event_time != i64::MIN).then_some(entry.event_time),
                    root,
                    position: entry.point.position,
                    child: entry.point.child,
                }
            })
            .collect();
        let Some(((hash, group), first)) = groups.first().copied().zip(messages.first()) else {
            return Ok(());
        };
        let mut acting = Acting {
            tables: &mut self.tables,
            emission,
            current: Current { hash, group, event_time: first.event_time, position: first.position },
            messages: &messages,
            groups: &groups,
            clocks,
            failure: None,
        };
        let result = self.function.on_batch(&messages, &mut acting);
        let (failure, position) = (acting.failure.take(), acting.current.position);
        outcome(result, failure, &self.step).map_err(|failure| self.name.poison(position, failure))
    }

    /// Fires due timers, up to a limit. Answers how many.
    pub fn fire(&mut self, clocks: Clocks, emission: &mut Emission) -> Result<u64, JobEnd> {
        let mut fired = 0;
        for (kind, now) in [
            (TimerKind::Event, clocks.watermark.0),
            (TimerKind::System, clocks.system),
            (TimerKind::Real, clocks.real),
        ] {
            while (fired as usize) < MAX_FIRED_AT_ONCE && self.first(kind).is_some_and(|at| at <= now) {
                self.fire_one(kind, clocks, emission)?;
                fired += 1;
            }
        }
        Ok(fired)
    }

    fn fire_one(&mut self, kind: TimerKind, clocks: Clocks, emission: &mut Emission) -> Result<(), JobEnd> {
        let from = TimerRow { kind, at: i64::MIN, key: Vec::new(), name: String::new() };
        let Some(row) = self.tables.timers.range(from..).next().cloned() else { return Ok(()) };
        self.tables.timers.remove(&row);
        self.tables.dirty_timers.insert(row.encode(), false);
        self.key_text.clear();
        let position = emission.outputs.next_position();
        let poison = |name: &OperatorName, failure| name.poison(position, failure);
        if let Err(reason) = json_key(&self.group_by, &row.key, &mut self.key_text) {
            return Err(poison(&self.name, StepFailure { step: self.step.clone(), reason }));
        }
        let event_time = match kind {
            TimerKind::Event => Some(row.at),
            _ => Some(clocks.watermark.0).filter(|at| *at != i64::MIN && *at != i64::MAX),
        };
        let timer = Timer { key: &self.key_text, kind, at: row.at, name: &row.name };
        let mut acting = Acting {
            tables: &mut self.tables,
            emission,
            current: Current { hash: routing_hash(&row.key), group: &row.key, event_time, position },
            messages: &[],
            groups: &[],
            clocks,
            failure: None,
        };
        let result = self.function.on_timer(&timer, &mut acting);
        let failure = acting.failure.take();
        outcome(result, failure, &self.step).map_err(|failure| poison(&self.name, failure))
    }

    #[cold]
    fn failed(&self, batch: &LaneBatch, entries: &[u32], reason: String) -> JobEnd {
        let first = entries.first().and_then(|number| batch.entries.get(*number as usize));
        let position = first.map(|entry| entry.point.position).unwrap_or_default();
        self.name.poison(position, StepFailure { step: self.step.clone(), reason })
    }
}

fn outcome(
    result: Result<(), FunctionError>,
    failure: Option<StepFailure>,
    step: &str,
) -> Result<(), StepFailure> {
    match (result, failure) {
        (Err(error), _) => Err(StepFailure { step: step.to_owned(), reason: error.to_string() }),
        (Ok(()), Some(failure)) => Err(failure),
        (Ok(()), None) => Ok(()),
    }
}

/// Appends the key as a JSON object.
fn json_key(group_by: &[String], key: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    out.push(b'{');
    write_key(group_by, key, out)?;
    if out.last() == Some(&b',') {
        out.pop();
    }
    out.push(b'}');
    Ok(())
}
