//! The pipelines of these tests and their rows.

use std::sync::Arc;

use onceward_connector::{Context, Function, FunctionError, Message, ProcessFunction, Timer, TimerKind};

use crate::manifest::{COUNT_AND_SUM, Manifest, SECOND};
use crate::world::{Setup, World};

/// A row with key, second of the event time and value.
pub fn row(key: &str, second: i64, value: i64) -> String {
    format!(
        r#"{{"k":"{key}","t":"1970-01-01T{:02}:{:02}:{:02}Z","v":{value}}}"#,
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// `count` rows, a second apart, over seven keys.
pub fn rows(from: i64, count: i64) -> Vec<String> {
    (from..from + count).map(|number| row(&format!("k{}", number % 7), number, number)).collect()
}

/// Counts messages per key in its state, and tells the count a minute of event time after the key's first.
struct Counting;

impl ProcessFunction for Counting {
    fn on_message(&mut self, message: &Message<'_>, context: &mut dyn Context) -> Result<(), FunctionError> {
        let seen = count(context);
        if context.state("told").is_none() {
            let at = message.event_time.ok_or_else(|| FunctionError::new("no event time"))?;
            context.set_state("told", b"later");
            context.set_timer(TimerKind::Event, at + 60 * SECOND, "tell");
        }
        context.set_state("n", &(seen + 1).to_be_bytes());
        Ok(())
    }
    fn on_timer(&mut self, timer: &Timer<'_>, context: &mut dyn Context) -> Result<(), FunctionError> {
        let seen = count(context);
        context.set_state("told", &[]);
        let key = String::from_utf8_lossy(timer.key);
        let key = key.trim_end_matches('}');
        context.emit(format!(r#"{key},"n":{seen},"at":{}}}"#, timer.at / SECOND).as_bytes());
        Ok(())
    }
}

fn count(context: &dyn Context) -> u64 {
    context.state("n").map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap()))
}

fn small(manifest: Manifest) -> Manifest {
    manifest.epoch_rows(16).block_rows(5)
}

/// Windows of a minute over `ranges` ranges.
pub fn windows(sources: usize, ranges: u32) -> Manifest {
    small(Manifest::new())
        .source("rows", sources, Some(0))
        .ranges("sums", &["rows"], &["k"], COUNT_AND_SUM, ranges)
        .sink("out", &["sums"])
}

/// A process function over `ranges` ranges.
pub fn process(sources: usize, ranges: u32) -> Manifest {
    let mut manifest = small(Manifest::new()).source("rows", sources, Some(0));
    manifest.registry.add_function("counting", Function::Process(Arc::new(|_| Ok(Box::new(Counting)))));
    manifest.process("sums", &["rows"], &["k"], "counting", ranges).sink("out", &["sums"])
}

/// Windows over windows: another computation takes what the first puts out.
pub fn two_stages(sources: usize, ranges: u32) -> Manifest {
    small(Manifest::new())
        .source("rows", sources, Some(0))
        .ranges("sums", &["rows"], &["k"], COUNT_AND_SUM, ranges)
        .ranges("sizes", &["sums"], &["n"], &[("keys", onceward_spec::AggregateFunction::Count, None)], 2)
        .sink("out", &["sizes"])
        .sink("sums", &["sums"])
}

/// A source's rows go to a sink as they are.
pub fn plain(sources: usize) -> Manifest {
    small(Manifest::new()).source("rows", sources, None).sink("out", &["rows"])
}

/// A world whose input may go on, with rows in every source partition.
pub fn running(manifest: &Manifest, setup: Setup, rows_each: i64) -> World {
    let mut world = World::new(manifest, setup);
    world.bounded = false;
    fill(&mut world, 0, rows_each);
    world.start();
    world
}

/// The same rows for every source partition, in its own time.
pub fn fill(world: &mut World, from: i64, count: i64) {
    let sources = world.manifest.layout().sources[0].partitions.len() as u32;
    for partition in 0..sources {
        world.add(partition, rows(from + i64::from(partition) * 3, count));
    }
}

/// What sink 0 gets of `count` rows per partition if nothing ever goes wrong.
pub fn undisturbed(manifest: &Manifest, count: i64) -> Vec<String> {
    let mut world = World::new(manifest, Setup::default());
    fill(&mut world, 0, count);
    world.start();
    world.complete();
    let rows = world.sorted(0);
    assert!(!rows.is_empty());
    rows
}
