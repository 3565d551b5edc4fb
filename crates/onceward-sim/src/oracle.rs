//! The oracle: nothing lost, nothing twice, order per key, state equals the fold of the input.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::data::{Expected, Input, Total, seconds_of};
use crate::target::Target;

/// Number of the sink that takes every kept row.
pub const ROWS_SINK: u32 = 0;
/// Number of the sink that takes the fired windows.
pub const WINDOWS_SINK: u32 = 1;

/// Number of the sink that takes the totals over windows.
pub const TOTALS_SINK: u32 = 2;

/// Compares what the target holds with what the input must come to. `complete` asks for everything;
/// without it only what must never be there is looked for.
pub fn check(input: &Input, target: &Target, complete: bool) -> Result<(), String> {
    check_rows(input, target, complete)?;
    check_windows(input, target, complete)?;
    check_totals(input, target, complete)
}

fn check_rows(input: &Input, target: &Target, complete: bool) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for (partition, rows) in target.rows(ROWS_SINK) {
        let mut last: BTreeMap<u64, u64> = BTreeMap::new();
        for row in rows {
            let value: Value =
                serde_json::from_slice(row).map_err(|error| format!("row is not JSON: {error}"))?;
            let id = value["id"].as_str().ok_or("row without id")?;
            let (source, number) = id.split_once('-').ok_or("malformed id")?;
            let source: u64 = source.parse().map_err(|_| "malformed id")?;
            let number: u64 = number.parse().map_err(|_| "malformed id")?;
            if !seen.insert((source, number)) {
                return Err(format!("row {id} is in the target twice"));
            }
            let original = &input.partitions[source as usize][number as usize];
            if !original.kept {
                return Err(format!("row {id} should have been filtered out"));
            }
            if original.json != *row {
                return Err(format!("row {id} was changed on its way"));
            }
            if last.insert(source, number).is_some_and(|before| before > number) {
                return Err(format!("row {id} of partition {partition} is out of order"));
            }
        }
    }
    if complete && seen.len() != input.kept {
        return Err(format!("{} of {} rows are in the target", seen.len(), input.kept));
    }
    Ok(())
}

fn check_windows(input: &Input, target: &Target, complete: bool) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    // Order per key holds across partitions: a key's windows close one after the other, whoever owns the key.
    let mut last: BTreeMap<String, i64> = BTreeMap::new();
    for row in target.arrived(WINDOWS_SINK) {
        let value: Value =
            serde_json::from_slice(row).map_err(|error| format!("row is not JSON: {error}"))?;
        let key = value["k"].as_str().ok_or("window without key")?.to_owned();
        let start = value["window_start"].as_str().and_then(seconds_of).ok_or("window without start")?;
        let number = |name: &str| value[name].as_i64().ok_or_else(|| format!("window without {name}"));
        let found = Expected { count: number("n")? as u64, sum: number("sum")?, max: number("max")? };
        let name = format!("window {start} of {key}");
        let expected =
            input.windows.get(&(key.clone(), start)).ok_or_else(|| format!("{name} does not exist"))?;
        if found != *expected {
            return Err(format!("{name} is {found:?}, must be {expected:?}"));
        }
        if !seen.insert((key.clone(), start)) {
            return Err(format!("{name} is in the target twice"));
        }
        if last.insert(key, start).is_some_and(|before| before > start) {
            return Err(format!("{name} arrived after a later one of its key"));
        }
    }
    if complete && seen.len() != input.windows.len() {
        return Err(format!("{} of {} windows are in the target", seen.len(), input.windows.len()));
    }
    Ok(())
}

fn check_totals(input: &Input, target: &Target, complete: bool) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for row in target.arrived(TOTALS_SINK) {
        let value: Value =
            serde_json::from_slice(row).map_err(|error| format!("row is not JSON: {error}"))?;
        let number = |name: &str| value[name].as_i64().ok_or_else(|| format!("total without {name}"));
        let start = value["window_start"].as_str().and_then(seconds_of).ok_or("total without start")?;
        let count = number("n")? as u64;
        let found = Total { keys: number("keys")? as u64, total: number("total")? };
        let name = format!("total {start} of {count}");
        let expected = input.totals.get(&(count, start)).ok_or_else(|| format!("{name} does not exist"))?;
        if found != *expected {
            return Err(format!("{name} is {found:?}, must be {expected:?}"));
        }
        if !seen.insert((count, start)) {
            return Err(format!("{name} is in the target twice"));
        }
    }
    if complete && seen.len() != input.totals.len() {
        return Err(format!("{} of {} totals are in the target", seen.len(), input.totals.len()));
    }
    Ok(())
}
