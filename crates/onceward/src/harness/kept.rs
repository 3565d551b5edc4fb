//! What is committed of process functions: state and timers per key.

use onceward_connector::TimerKind;
use onceward_engine::process::{TimerRow, decode_state_key};
use onceward_engine::windows::write_key;
use onceward_store::{Store, TableId};

use super::error::HarnessError;
use super::machine::Machine;

/// One value that a process function keeps.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct StateEntry {
    /// The group key as a JSON object.
    pub key: String,
    /// The name it is kept under.
    pub name: String,
    /// The bytes.
    pub value: Vec<u8>,
}

/// A timer that has not fired.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TimerEntry {
    /// The group key as a JSON object.
    pub key: String,
    /// By which clock.
    pub kind: TimerKind,
    /// For when it is set, microseconds.
    pub at: i64,
    /// The name it is set under.
    pub name: String,
}

/// Rows of one table of a computation, over all its partitions, sorted; `read` answers `None` for a malformed row.
fn rows<T: Ord>(
    machine: &Machine,
    computation: &str,
    table: TableId,
    read: impl Fn(&[String], &[u8], &[u8]) -> Option<T>,
) -> Result<Vec<T>, HarnessError> {
    let group_by = machine.setup.process(computation)?;
    let mut found = Vec::new();
    for partition in machine.setup.partitions_of(computation)? {
        let Some(store) = machine.store() else { continue };
        let mut malformed = false;
        store.scan(&partition.id, table, &mut |key, value| match read(group_by, key, value) {
            Some(row) => found.push(row),
            None => malformed = true,
        })?;
        if malformed {
            let (partition, what) = (partition.id.label(), "state or timers".to_owned());
            return Err(onceward_engine::EngineError::Stored { partition, what }.into());
        }
    }
    found.sort();
    Ok(found)
}

fn json_key(group_by: &[String], group: &[u8]) -> Option<String> {
    let mut text = b"{".to_vec();
    write_key(group_by, group, &mut text).ok()?;
    if text.last() == Some(&b',') {
        text.pop();
    }
    text.push(b'}');
    String::from_utf8(text).ok()
}

/// All committed state of a computation, in order of key and name.
pub(super) fn states(machine: &Machine, computation: &str) -> Result<Vec<StateEntry>, HarnessError> {
    rows(machine, computation, TableId::STATE, |group_by, key, value| {
        let (group, name) = decode_state_key(key)?;
        Some(StateEntry { key: json_key(group_by, group)?, name: name.to_owned(), value: value.to_vec() })
    })
}

/// All committed timers of a computation, in order of key.
pub(super) fn timers(machine: &Machine, computation: &str) -> Result<Vec<TimerEntry>, HarnessError> {
    rows(machine, computation, TableId::TIMERS, |group_by, key, _| {
        let TimerRow { kind, at, key, name } = TimerRow::decode(key)?;
        Some(TimerEntry { key: json_key(group_by, &key)?, kind, at, name })
    })
}
