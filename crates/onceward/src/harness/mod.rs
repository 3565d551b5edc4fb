//! A test harness for functions: a pipeline without files, threads, waiting or a store directory.
//!
//! [`Harness::new`] takes a manifest as it runs in production, and the registry with your functions. Every source becomes
//! one that the test pushes rows to, every sink one that keeps rows in memory; what is between them is the real engine on
//! the real store, over a disk in memory, in one thread. Each call returns when nothing is left to do but to wait.
//!
//! A function in 30 lines, tested: the first purchase of a customer welcomes them, a minute without another sums up.
//!
//! ```
//! use onceward::harness::{Harness, HarnessError, assert_crash_proof};
//! use onceward::{Context, Function, FunctionError, Message, ProcessFunction, Timer, TimerKind};
//!
//! struct Visits;
//!
//! impl ProcessFunction for Visits {
//!     fn on_message(&mut self, message: &Message<'_>, context: &mut dyn Context) -> Result<(), FunctionError> {
//!         let seen = context.state("seen").map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()));
//!         context.set_state("seen", &(seen + 1).to_le_bytes());
//!         if seen == 0 {
//!             context.emit(format!(r#"{{"welcome":{}}}"#, String::from_utf8_lossy(message.key)).as_bytes());
//!             context.set_timer(TimerKind::System, context.system_time() + 60_000_000, "visit over");
//!         }
//!         Ok(())
//!     }
//!     fn on_timer(&mut self, timer: &Timer<'_>, context: &mut dyn Context) -> Result<(), FunctionError> {
//!         let seen = context.state("seen").map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()));
//!         context.set_state("seen", b"");
//!         context.emit(format!(r#"{{"of":{},"bought":{seen}}}"#, String::from_utf8_lossy(timer.key)).as_bytes());
//!         Ok(())
//!     }
//! }
//!
//! const MANIFEST: &str = r#"
//! apiVersion: onceward.dev/v1
//! kind: Pipeline
//! metadata: { name: shop }
//! spec:
//!   sources:
//!     purchases: { type: file, config: { path: purchases.jsonl, format: jsonl } }
//!   computations:
//!     visits: { inputs: [purchases], groupBy: [customer], process: { function: visits } }
//!   sinks:
//!     news: { inputs: [visits], type: file, config: { path: news, format: jsonl } }
//! "#;
//!
//! # fn main() -> Result<(), HarnessError> {
//! let mut registry = onceward::registry();
//! registry.add_function("visits", Function::process(|_| Ok(Visits)));
//!
//! let mut harness = Harness::new(MANIFEST, &registry)?;
//! harness.push("purchases", r#"{"customer":"ada"}"#)?;
//! assert_eq!(harness.outputs("news")?, [r#"{"welcome":{"customer":"ada"}}"#]);
//! harness.push("purchases", r#"{"customer":"ada"}"#)?;
//! harness.kill()?;
//! assert_eq!(harness.state("visits", r#"{"customer":"ada"}"#, "seen")?, Some(2u64.to_le_bytes().to_vec()));
//! harness.advance(std::time::Duration::from_secs(60))?;
//! assert_eq!(harness.outputs("news")?[1..], [r#"{"of":{"customer":"ada"},"bought":2}"#]);
//!
//! // The same, killed after every single step of the engine:
//! assert_crash_proof(MANIFEST, &registry, |harness| {
//!     harness.push("purchases", r#"{"customer":"ada"}"#)?;
//!     harness.push_all("purchases", [r#"{"customer":"ada"}"#, r#"{"customer":"bob"}"#])?;
//!     harness.advance(std::time::Duration::from_secs(61))
//! });
//! # Ok(())
//! # }
//! ```
//!
//! **What is different from a run.** Sources have one partition and rows of JSON, whatever their connector would read; sinks
//! are exactly-once and take only JSON objects. Epochs close at once and hold 1000 messages at most, every message goes through the deterministic steps
//! twice, and `delivery`, `atMostOnceStrategy` and the connectors' `config` count for nothing. What the manifest says of
//! partitions, keys, windows, event time and ids counts as always.
//!
//! **Clocks** stand still between calls. A test begins at [`START_US`]; every call that changes something ends at the
//! next whole millisecond, and functions see whole milliseconds. System and real time are the same clock here.

mod clock;
mod crash;
mod error;
mod input;
mod kept;
mod machine;
mod setup;
mod step;
mod target;

use std::sync::Arc;
use std::time::Duration;

use onceward_connector::Registry;
use onceward_protocol::Watermark;

pub use crash::{CrashReport, assert_crash_proof, crash_test};
pub use error::HarnessError;
pub use kept::{StateEntry, TimerEntry};
use machine::Machine;
use setup::Setup;

/// When every test begins, in microseconds since 1970: 2026-01-01T00:00:00Z.
pub const START_US: i64 = machine::START_US;

/// A pipeline under test. See the [module](self).
pub struct Harness {
    machine: Machine,
}

/// Figures of a source or of a computation with `groupBy`, over all its partitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counters {
    /// Messages taken, each once, however often the pipeline was killed.
    pub taken: u64,
    /// Messages dropped as repeats since the last kill: what a producer sent again.
    pub repeats: u64,
    /// Messages that came too late for their window.
    pub late: u64,
    /// Messages whose id of `dedupBy` was too old to judge.
    pub expired: u64,
    /// Rows put out for sinks.
    pub put_out: u64,
    /// Keys with state or open windows.
    pub keys: u64,
    /// The smallest watermark of its partitions.
    pub watermark: Watermark,
}

impl Harness {
    /// Reads the manifest and starts the pipeline. The registry says which connectors and functions the manifest may
    /// name, as for [`onceward::pipeline`](crate::pipeline); the connectors are never built or opened.
    pub fn new(manifest: &str, registry: &Registry) -> Result<Self, HarnessError> {
        Harness::of(Arc::new(Setup::new(manifest, registry)?), usize::MAX, None)
    }
    /// A harness whose sources give at most so many rows at once, killed after one of its steps.
    fn of(setup: Arc<Setup>, read_rows: usize, kill_after: Option<u64>) -> Result<Self, HarnessError> {
        let mut machine = Machine::new(setup, read_rows);
        if let Some(steps) = kill_after {
            machine.arrange_kill(steps);
        }
        machine.start()?;
        let mut harness = Harness { machine };
        harness.settle()?;
        Ok(harness)
    }
    fn settle(&mut self) -> Result<(), HarnessError> {
        self.machine.advance(0)
    }

    /// Pushes a row, a JSON object, and lets the pipeline do all that follows from it.
    pub fn push(&mut self, source: &str, row: impl AsRef<[u8]>) -> Result<(), HarnessError> {
        self.push_all(source, [row])
    }
    /// Pushes several rows that are there at once: a batch function gets them as one batch, as far as they have
    /// one key range and no watermark comes between.
    pub fn push_all<R: AsRef<[u8]>>(
        &mut self,
        source: &str,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<(), HarnessError> {
        let number = self.machine.setup.source(source)?;
        for row in rows {
            self.machine.inputs[number].push(row.as_ref()).map_err(|reason| input_error(source, reason))?;
        }
        self.settle()
    }
    /// Moves the watermark of a source with `eventTime` to `time` without a row: windows close and timers of event time
    /// fire up to and with it, unless another source of the computation is behind. The time is written as in rows.
    /// Rows move it too, to their time less `outOfOrderness`; it never goes back.
    pub fn watermark(&mut self, source: &str, time: &str) -> Result<(), HarnessError> {
        let Machine { setup, inputs, .. } = &mut self.machine;
        let number = setup.source(source)?;
        inputs[number]
            .watermark(&setup.sources[number], time)
            .map_err(|reason| input_error(source, reason))?;
        self.settle()
    }
    /// Ends a source: all its windows close and its timers of event time fire, unless another source still holds them.
    pub fn end(&mut self, source: &str) -> Result<(), HarnessError> {
        let number = self.machine.setup.source(source)?;
        self.machine.inputs[number].end();
        self.settle()
    }
    /// Ends all sources.
    pub fn end_all(&mut self) -> Result<(), HarnessError> {
        self.machine.inputs.iter_mut().for_each(input::Input::end);
        self.settle()
    }
    /// Lets time pass: timers of system and real time fire in their order, each at its time. A long time costs an epoch
    /// per minute and partition, as in a run.
    pub fn advance(&mut self, time: Duration) -> Result<(), HarnessError> {
        self.machine.advance(i64::try_from(time.as_micros()).unwrap_or(i64::MAX))
    }

    /// Kills the pipeline and starts it again: everything that is not durable is gone, all functions are made anew from
    /// their registration, and what was read and not finished is read again. Rows pushed and rows delivered stay.
    pub fn kill(&mut self) -> Result<(), HarnessError> {
        self.machine.kill()?;
        self.settle()
    }
    /// Kills the pipeline after so many further steps, in the middle of whatever is done then; from 1. A step is a read,
    /// a batch handed over, a flush of the store, an answer, a call of a sink.
    pub fn kill_after(&mut self, steps: u64) {
        self.machine.arrange_kill(steps.max(1));
    }
    /// Steps made so far.
    pub fn steps(&self) -> u64 {
        self.machine.steps()
    }
    /// Kills so far.
    pub fn kills(&self) -> u64 {
        self.machine.kills()
    }

    /// All rows that a sink was delivered, in order of delivery.
    pub fn outputs(&self, sink: &str) -> Result<Vec<String>, HarnessError> {
        Ok(self.machine.targets.rows(self.machine.setup.sink(sink)?).to_vec())
    }
    /// The rows that a sink was delivered since the last call of this.
    pub fn new_outputs(&mut self, sink: &str) -> Result<Vec<String>, HarnessError> {
        let number = self.machine.setup.sink(sink)?;
        Ok(self.machine.targets.new_rows(number))
    }
    /// What a process function has stored for a key, `None` if nothing. The key is a JSON object with the fields of
    /// `groupBy`, as [`Message::key`](crate::Message::key) is.
    pub fn state(&self, computation: &str, key: &str, name: &str) -> Result<Option<Vec<u8>>, HarnessError> {
        let wanted = parse_key(key)?;
        self.machine.setup.process(computation).and_then(|group_by| check_key(key, &wanted, group_by))?;
        for entry in self.states(computation)? {
            if entry.name == name && parse_key(&entry.key)? == wanted {
                return Ok(Some(entry.value));
            }
        }
        Ok(None)
    }
    /// Everything that a process function has stored, in order of key and name.
    pub fn states(&self, computation: &str) -> Result<Vec<StateEntry>, HarnessError> {
        kept::states(&self.machine, computation)
    }
    /// The timers of a process function that wait, in order of key.
    pub fn timers(&self, computation: &str) -> Result<Vec<TimerEntry>, HarnessError> {
        kept::timers(&self.machine, computation)
    }
    /// Figures of a source or of a computation with `groupBy`.
    pub fn counters(&self, name: &str) -> Result<Counters, HarnessError> {
        let mut sum = Counters {
            taken: 0,
            repeats: 0,
            late: 0,
            expired: 0,
            put_out: 0,
            keys: 0,
            watermark: Watermark::END,
        };
        for partition in self.machine.setup.partitions_of(name)? {
            let Some(job) = self.machine.job(partition.number) else { continue };
            let stats = job.stats();
            let marks = self.machine.inputs.get(partition.number as usize).map_or(0, input::Input::marks);
            sum.taken += stats.rows_in.saturating_sub(marks);
            sum.repeats += stats.repeats;
            sum.late += stats.late;
            sum.expired += stats.expired;
            sum.put_out += stats.rows_out;
            sum.keys += stats.keys;
            sum.watermark = sum.watermark.min(stats.watermark);
        }
        Ok(sum)
    }
    /// Whether all sources have ended and everything is done.
    pub fn has_completed(&self) -> bool {
        self.machine.has_completed()
    }
    /// The clock, microseconds since 1970.
    pub fn now_us(&self) -> i64 {
        self.machine.now
    }
}

fn input_error(source: &str, reason: String) -> HarnessError {
    HarnessError::Input { source_name: source.to_owned(), reason }
}

fn parse_key(key: &str) -> Result<serde_json::Value, HarnessError> {
    serde_json::from_str(key)
        .map_err(|error| HarnessError::Key { found: key.to_owned(), reason: error.to_string() })
}

/// A key with other fields than `groupBy` has no state, and is most likely a slip.
fn check_key(text: &str, key: &serde_json::Value, group_by: &[String]) -> Result<(), HarnessError> {
    let fits = key.as_object().is_some_and(|fields| {
        fields.len() == group_by.len() && group_by.iter().all(|field| fields.contains_key(field))
    });
    match fits {
        true => Ok(()),
        false => Err(HarnessError::Key {
            found: text.to_owned(),
            reason: format!("groupBy is [{}]", group_by.join(", ")),
        }),
    }
}
