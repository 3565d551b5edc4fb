//! Full id sets: telling repeats where order cannot (FLOOR-MONOTONE).
//!
//! Ids chosen by clients live for a stated time of event time; one that is older may have been forgotten and gets the
//! verdict `expired`, counted and never taken as processed. Ids of messages need no set of their own here: every lane
//! starts at a source or at a committed outbox and is in order, so that its frontier is the floor and nothing lies above.

use std::collections::{BTreeMap, BTreeSet};

use onceward_protocol::Watermark;
use onceward_protocol::codec::{Reader, order_i64, put_bytes, unorder_i64};
use onceward_protocol::idset::{IdVerdict, forgotten_through, judge_client};
use onceward_spec::KeyedSpec;
use onceward_store::WriteBatch;

use crate::lane::{LaneBatch, LaneEntry};
use crate::stored::{IDS, Stored};

/// The ids of one partition.
pub struct Ids {
    kept: bool,
    keep_us: i64,
    /// Client-chosen ids (group key and id) with the event time under which each is kept.
    known: BTreeMap<Vec<u8>, i64>,
    by_time: BTreeSet<(i64, Vec<u8>)>,
    changed: BTreeMap<Vec<u8>, Option<i64>>,
}

impl Ids {
    /// Takes up what is stored; `None` if it is malformed. Without `kept` nothing is remembered.
    pub fn load(spec: &KeyedSpec, kept: bool, stored: &Stored) -> Option<Self> {
        let mut ids = Ids {
            kept,
            keep_us: spec.dedup.keep_us,
            known: BTreeMap::new(),
            by_time: BTreeSet::new(),
            changed: BTreeMap::new(),
        };
        for (key, value) in &stored.ids {
            let time = unorder_i64(value.as_slice().try_into().ok()?);
            ids.known.insert(key.clone(), time);
            ids.by_time.insert((time, key.clone()));
        }
        Some(ids)
    }
    /// The arguments behind a client-chosen id.
    pub fn without_id(args: &[u8]) -> &[u8] {
        let mut input = Reader::new(args);
        match input.bytes() {
            Some(_) => input.rest(),
            None => args,
        }
    }
    /// Judges a message and remembers its id; `None` if it carries none.
    pub fn judge(&mut self, batch: &LaneBatch, entry: &LaneEntry, watermark: Watermark) -> Option<IdVerdict> {
        let id = Reader::new(batch.args(entry)).bytes()?;
        if !self.kept {
            return Some(IdVerdict::New);
        }
        let mut key = Vec::with_capacity(entry.key_len as usize + id.len() + 2);
        put_bytes(&mut key, batch.key(entry));
        key.extend_from_slice(id);
        let verdict = judge_client(entry.event_time, watermark, self.keep_us, self.known.contains_key(&key));
        if verdict == IdVerdict::New {
            self.known.insert(key.clone(), entry.event_time);
            self.by_time.insert((entry.event_time, key.clone()));
            self.changed.insert(key, Some(entry.event_time));
        }
        Some(verdict)
    }
    /// Forgets what is old enough and writes what changed since the last call.
    pub fn write_changes(&mut self, effective: Watermark, writes: &mut WriteBatch) {
        let forgotten = forgotten_through(effective, self.keep_us);
        while self.by_time.first().is_some_and(|(time, _)| forgotten.is_some_and(|through| *time <= through))
        {
            if let Some((_, key)) = self.by_time.pop_first() {
                self.known.remove(&key);
                self.changed.insert(key, None);
            }
        }
        for (key, time) in std::mem::take(&mut self.changed) {
            match time {
                Some(time) => writes.put(IDS, &key, &order_i64(time)),
                None => writes.delete(IDS, &key),
            }
        }
    }
}
