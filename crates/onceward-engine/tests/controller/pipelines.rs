//! The pipelines of these tests and their rows.

use std::sync::Arc;

use onceward_connector::{Context, Function, FunctionError, Message, ProcessFunction, Timer, TimerKind};

use onceward_protocol::lease::WorkerId;
use onceward_protocol::state::{Demand, PipelineState};

pub use crate::manifest::row;
use crate::manifest::{COUNT_AND_SUM, MINUTE, Manifest, SECOND};
use crate::world::{Setup, World};

/// `count` rows, a second apart, over seven keys.
pub fn rows(from: i64, count: i64) -> Vec<String> {
    (from..from + count).map(|number| row(&format!("k{}", number % 7), number, number)).collect()
}

/// Counts messages per key, over all time and by minute of event time; a minute's count is told when it is over. What it
/// tells does not depend on how the rows of several partitions are mixed.
struct Counting;

impl ProcessFunction for Counting {
    fn on_message(&mut self, message: &Message<'_>, context: &mut dyn Context) -> Result<(), FunctionError> {
        let time = message.event_time.ok_or_else(|| FunctionError::new("no event time"))?;
        let minute = time.div_euclid(MINUTE);
        context.set_timer(TimerKind::Event, (minute + 1) * MINUTE, &format!("{minute}"));
        for name in ["n".to_owned(), format!("{minute}")] {
            let seen = count(context, &name);
            context.set_state(&name, &(seen + 1).to_be_bytes());
        }
        Ok(())
    }
    fn on_timer(&mut self, timer: &Timer<'_>, context: &mut dyn Context) -> Result<(), FunctionError> {
        let seen = count(context, timer.name);
        context.set_state(timer.name, &[]);
        let key = String::from_utf8_lossy(timer.key);
        let key = key.trim_end_matches('}');
        context.emit(format!(r#"{key},"n":{seen},"at":{}}}"#, timer.at / SECOND).as_bytes());
        Ok(())
    }
}

fn count(context: &dyn Context, name: &str) -> u64 {
    context.state(name).map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap()))
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

/// The two workers between which [`spread`] has put the jobs.
pub const FIRST: WorkerId = WorkerId(2);
pub const SECOND_ONE: WorkerId = WorkerId(3);

/// As [`running`], with the jobs spread evenly over two workers. The first worker that is heard gets everything; when it
/// is lost, the others share.
pub fn spread(manifest: &Manifest, rows_each: i64) -> World {
    let mut world = World::new(manifest, Setup { workers: 3, ..Setup::default() });
    world.bounded = false;
    world.start();
    world.run_until(World::all_run);
    world.kill(WorkerId(1));
    world.run_until(|world| {
        let leases = world.controller().leases();
        world.all_run() && [FIRST, SECOND_ONE].iter().all(|worker| leases.of_worker(*worker).len() > 1)
    });
    fill(&mut world, 0, rows_each);
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

/// Lets a pipeline that has ended, or is paused, run to the end of its input.
pub fn finish(world: &mut World) {
    world.bounded = true;
    let demand = match world.layout().state {
        PipelineState::Paused => Demand::Resume,
        _ => Demand::Run,
    };
    world.lose_power();
    assert!(world.try_start(demand));
    world.complete();
}
