//! Versioned upsert targets in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use onceward_protocol::{Position, SinkIdentity};

use super::{catches, refusal, texts};
use crate::contract::{UpsertTarget, versioned_upsert_writer};
use crate::{PlainWriter, RowVersion, SinkBlock, TargetError};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    LastArrivalWins,
    FirstArrivalWins,
    BlockDecidedByItsFirstRow,
    MinorIgnored,
    SignedPositions,
    LayoutIgnored,
    VersionsAsDecimalText,
    NoTombstones,
    NoTombstoneForUnknownKeys,
    OriginIgnored,
    OriginCheckedRowByRow,
    OlderForeignRowsIgnored,
}

struct Entry {
    version: RowVersion,
    value: Option<u64>,
}

type State = BTreeMap<u64, Entry>;

struct Memory {
    fault: Option<Fault>,
    deletes: bool,
    state: Arc<Mutex<State>>,
}

struct Writer {
    fault: Option<Fault>,
    identity: SinkIdentity,
    state: Arc<Mutex<State>>,
}

impl UpsertTarget for Memory {
    fn writer(&self, identity: &SinkIdentity) -> Result<Box<dyn PlainWriter>, String> {
        let (fault, identity) = (self.fault, identity.clone());
        Ok(Box::new(Writer { fault, identity, state: self.state.clone() }))
    }
    fn visible(&self) -> Result<Vec<String>, String> {
        let state = self.state.lock().expect("no test panicked");
        let rows = state.iter().filter_map(|(key, entry)| Some((key, entry.value?)));
        Ok(rows.map(|(key, value)| format!("{{\"key\":{key},\"value\":{value}}}")).collect())
    }
    fn deletion(&self, key: u64) -> Option<String> {
        self.deletes.then(|| format!("{{\"key\":{key},\"value\":-}}"))
    }
}

impl Writer {
    fn broken(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
    fn version(&self, position: Position) -> RowVersion {
        let mut version = RowVersion::of(&self.identity, position);
        match self.fault {
            Some(Fault::MinorIgnored) => version.number.truncate(24),
            Some(Fault::LayoutIgnored) => version.number.replace_range(..8, ""),
            Some(Fault::VersionsAsDecimalText) => version.number = format!("{position}"),
            Some(Fault::SignedPositions) => {
                version.number = format!("{:025}", i128::from(position.major as i64) + (1_i128 << 64));
            }
            _ => {}
        }
        version
    }
    fn is_newer(&self, there: &Entry, version: &RowVersion) -> bool {
        match self.fault {
            Some(Fault::LastArrivalWins) => true,
            Some(Fault::FirstArrivalWins) => false,
            _ => there.version.number < version.number,
        }
    }
}

impl PlainWriter for Writer {
    fn write(&mut self, block: &SinkBlock) -> Result<(), TargetError> {
        let mut state = self.state.lock().expect("no test panicked");
        let rows: Vec<_> =
            texts(block).map(|(position, row)| (self.version(position), parse(&row))).collect();
        let foreign = |state: &State, version: &RowVersion, key: u64| {
            state.get(&key).is_some_and(|entry| {
                let older = self.broken(Fault::OlderForeignRowsIgnored) && !self.is_newer(entry, version);
                entry.version.origin != version.origin && !self.broken(Fault::OriginIgnored) && !older
            })
        };
        let whole = !self.broken(Fault::OriginCheckedRowByRow);
        if whole && rows.iter().any(|(version, (key, _))| foreign(&state, version, *key)) {
            return Err(refusal("another origin"));
        }
        let mut skip = false;
        for (at, (version, (key, value))) in rows.into_iter().enumerate() {
            if foreign(&state, &version, key) {
                return Err(refusal("another origin"));
            }
            let newer = state.get(&key).is_none_or(|there| self.is_newer(there, &version));
            skip |= at == 0 && !newer && self.broken(Fault::BlockDecidedByItsFirstRow);
            if !newer || skip {
                continue;
            }
            let unknown = !state.contains_key(&key) && self.broken(Fault::NoTombstoneForUnknownKeys);
            if value.is_none() && (self.broken(Fault::NoTombstones) || unknown) {
                state.remove(&key);
            } else {
                state.insert(key, Entry { version, value });
            }
        }
        Ok(())
    }
}

fn parse(row: &str) -> (u64, Option<u64>) {
    let number = |name: &str| {
        let rest = row.split_once(&format!("\"{name}\":")).expect("the field").1;
        rest.split([',', '}']).next().expect("a value").parse().ok()
    };
    (number("key").expect("a key"), number("value"))
}

#[test]
fn an_upsert_target_that_breaks_its_contract_is_named() {
    use Fault::*;
    let faults = [
        LastArrivalWins,
        FirstArrivalWins,
        BlockDecidedByItsFirstRow,
        MinorIgnored,
        SignedPositions,
        LayoutIgnored,
        VersionsAsDecimalText,
        NoTombstones,
        NoTombstoneForUnknownKeys,
        OriginIgnored,
        OriginCheckedRowByRow,
        OlderForeignRowsIgnored,
    ];
    catches(&faults, |fault| {
        versioned_upsert_writer(&Memory { fault, deletes: true, state: Arc::default() })
    });
}

#[test]
fn a_sink_without_deletes_passes_too() {
    let target = Memory { fault: None, deletes: false, state: Arc::default() };
    versioned_upsert_writer(&target).expect("keeps the contract");
}
