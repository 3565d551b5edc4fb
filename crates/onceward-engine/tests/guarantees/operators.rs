//! Process functions, several key exchanges in a row, materialised sources, late rows, client-chosen ids: each gives the
//! same result whatever restarts on the way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use onceward_connector::{
    Context, Function, FunctionError, Message, MessageFunction, ProcessFunction, Timer, TimerKind,
};
use onceward_engine::JobEnd;
use onceward_spec::AggregateFunction::Count;
use onceward_spec::{DedupMode, StepSpec};

use crate::manifest::{COUNT_AND_SUM, Manifest, SECOND, function_ref};
use crate::world::{World, row};

/// Counts messages per key and tells the count a minute of event time after the key's first message.
struct Counting;

impl ProcessFunction for Counting {
    fn on_message(&mut self, message: &Message<'_>, context: &mut dyn Context) -> Result<(), FunctionError> {
        let seen = context.state("n").map_or(0, |bytes| bytes.len());
        if seen == 0 {
            let at = message.event_time.ok_or_else(|| FunctionError::new("no event time"))?;
            context.set_timer(TimerKind::Event, at + 60 * SECOND, "tell");
            context.set_timer(TimerKind::Event, at + 60 * SECOND, "tell");
        }
        context.set_state("n", &vec![1; seen + 1]);
        Ok(())
    }
    fn on_timer(&mut self, timer: &Timer<'_>, context: &mut dyn Context) -> Result<(), FunctionError> {
        let seen = context.state("n").map_or(0, |bytes| bytes.len());
        context.set_state("n", &[]);
        let key = String::from_utf8_lossy(timer.key);
        let key = key.trim_end_matches('}');
        context.emit(format!(r#"{key},"n":{seen},"at":{}}}"#, timer.at / SECOND).as_bytes());
        Ok(())
    }
}

fn counting() -> Function {
    Function::Process(Arc::new(|_| Ok(Box::new(Counting))))
}

fn rows(from: i64, count: i64) -> Vec<String> {
    (from..from + count).map(|number| row(&format!("k{}", number % 5), number, number)).collect()
}

/// How a run is disturbed.
#[derive(Clone, Copy, Debug)]
enum Restart {
    /// Not at all.
    Never,
    /// The power goes after every so many steps.
    All(usize),
    /// One job after the other is replaced, one after every so many steps.
    One(usize),
}

/// Restarts of a run.
const RESTARTS: usize = 60;

/// Runs to the end. Epochs are small, so that what is stored and what is in memory differ at most moments.
fn run(manifest: &Manifest, partitions: u32, restart: Restart) -> World {
    let manifest = manifest.clone().epoch_rows(16).block_rows(5);
    let mut world = World::new(&manifest);
    world.read_rows = 10;
    for partition in 0..partitions {
        world.add(partition, rows(i64::from(partition) * 7, 150));
    }
    world.start_all();
    for number in 0..RESTARTS {
        let (Restart::All(every) | Restart::One(every)) = restart else { break };
        let mut left = every;
        world.run_until(|_| {
            left = left.saturating_sub(1);
            left == 0
        });
        match restart {
            Restart::One(_) => world.start(number as u32 % world.partitions()),
            _ => world.restart_all(),
        }
    }
    world.complete();
    world
}

/// The sum of a field over all rows.
fn total(rows: &[String], field: &str) -> u64 {
    let number = |row: &String| serde_json::from_str::<serde_json::Value>(row).unwrap()[field].as_u64();
    rows.iter().map(|row| number(row).unwrap()).sum()
}

/// The same rows come out, whatever restarts on the way.
fn survives_restarts(manifest: &Manifest, partitions: u32, sink: u32) -> Vec<String> {
    let expected = run(manifest, partitions, Restart::Never).sorted(sink);
    assert!(!expected.is_empty());
    for every in [1, 7, 23, 40, 61, 101, 150] {
        for restart in [Restart::All(every), Restart::One(every)] {
            let world = run(manifest, partitions, restart);
            assert_eq!(world.sorted(sink), expected, "{restart:?}");
            (0..world.partitions()).for_each(|number| assert_eq!(world.leftovers(number), 0, "{restart:?}"));
        }
    }
    expected
}

#[test]
fn a_process_function_keeps_state_and_timers_over_restarts() {
    let mut manifest = Manifest::new().source("rows", 1, Some(0));
    manifest.registry.add_function("counting", counting());
    let manifest = manifest.process("counts", &["rows"], &["k"], "counting", 2).sink("out", &["counts"]);
    let found = survives_restarts(&manifest, 1, 0);
    // TIMER-ONCE: 150 rows of 5 keys, a second apart, told every minute from the first: 12 or 13 rows each.
    assert_eq!(found.len(), 15, "{found:?}");
    let first = found.iter().find(|row| row.contains(r#""k":"k0""#) && row.contains(r#""at":60"#));
    assert_eq!(first.map(String::as_str), Some(r#"{"k":"k0","n":13,"at":60}"#));
    let total = total(&found, "n");
    assert_eq!(total, 150);
}

#[test]
fn windows_over_windows_give_the_same_after_any_restart() {
    let manifest = Manifest::new()
        .source("rows", 2, Some(0))
        .ranges("sums", &["rows"], &["k"], COUNT_AND_SUM, 3)
        .ranges("sizes", &["sums"], &["n"], &[("keys", Count, None)], 2)
        .sink("out", &["sizes"]);
    let found = survives_restarts(&manifest, 2, 0);
    let keys = total(&found, "keys");
    // Every (key, minute) is one row of the first windows: 157 seconds touch three minutes.
    assert_eq!(keys, 15);
}

#[test]
fn a_materialised_source_sends_what_it_stored_and_never_reads_it_again() {
    let manifest = Manifest::new()
        .source("rows", 2, Some(0))
        .materialised()
        .ranges("sums", &["rows"], &["k"], COUNT_AND_SUM, 2)
        .sink("out", &["sums"])
        .sink("all", &["rows"]);
    let found = survives_restarts(&manifest, 2, 0);
    let plain = Manifest::new()
        .source("rows", 2, Some(0))
        .ranges("sums", &["rows"], &["k"], COUNT_AND_SUM, 2)
        .sink("out", &["sums"])
        .sink("all", &["rows"]);
    assert_eq!(found, run(&plain, 2, Restart::Never).sorted(0));
    assert_eq!(survives_restarts(&manifest, 2, 1).len(), 300);
}

#[test]
fn late_rows_go_to_their_own_stream_as_they_came() {
    let manifest = Manifest::new()
        .source("rows", 1, Some(0))
        .windows("sums", &["rows"], &["k"], COUNT_AND_SUM)
        .late("too_late")
        .sink("out", &["sums"])
        .sink("late", &["too_late"]);
    let mut world = World::new(&manifest);
    let late = row("a", 3, 7);
    world.add(0, [row("a", 1, 1), row("a", 61, 1), late.clone(), row("a", 62, 1)]);
    world.start_all();
    world.complete();
    assert_eq!(world.rows(1), [late]);
    assert_eq!(world.late(), 1);
    assert_eq!(world.rows(0).len(), 2);
}

#[test]
fn a_client_chosen_id_is_taken_once_and_one_too_old_to_judge_is_expired_not_processed() {
    let mut manifest = Manifest::new()
        .source("rows", 1, Some(120 * SECOND))
        .windows("sums", &["rows"], &["k"], COUNT_AND_SUM)
        .lateness(3600 * SECOND)
        .sink("out", &["sums"]);
    let dedup = &mut manifest.keyed_mut().dedup;
    (dedup.mode, dedup.by, dedup.keep_us) = (DedupMode::Full, vec!["v".to_owned()], 10 * SECOND);
    let mut world = World::new(&manifest);
    world.bounded = false;
    world.add(0, [row("a", 1, 1), row("a", 2, 1)]);
    world.start_all();
    world.run();
    // What was taken before a restart is known after it.
    world.restart_all();
    world.bounded = true;
    // The watermark is at 180 after the row at 300: ids at or below 170 may be forgotten.
    world.add(0, [row("a", 3, 1), row("a", 300, 2), row("a", 169, 3), row("a", 175, 4)]);
    world.complete();
    let stats = world.stats(world.keyed()[0]);
    assert_eq!((stats.rows_in, stats.expired), (6, 1));
    let counted = total(&world.rows(0), "n");
    assert_eq!(counted, 3);
}

/// Puts out a number that nobody can foresee.
struct Fickle(AtomicU64);

impl MessageFunction for Fickle {
    fn on_message(&self, _message: &Message<'_>, emit: &mut dyn FnMut(&[u8])) -> Result<(), FunctionError> {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        emit(format!(r#"{{"k":"a","number":{number}}}"#).as_bytes());
        Ok(())
    }
}

/// Puts out a message twice.
struct Twice;

impl MessageFunction for Twice {
    fn on_message(&self, message: &Message<'_>, emit: &mut dyn FnMut(&[u8])) -> Result<(), FunctionError> {
        emit(message.payload);
        emit(message.payload);
        Ok(())
    }
}

fn with_step(function: Function) -> Manifest {
    let mut manifest = Manifest::new().source("rows", 1, Some(0));
    manifest.registry.add_function("step", function);
    manifest
        .step("stepped", &["rows"], vec![StepSpec::Function(function_ref("step"))])
        .windows("sums", &["stepped"], &["k"], COUNT_AND_SUM)
        .sink("out", &["sums"])
        .sink("rows_out", &["stepped"])
}

#[test]
fn the_replay_check_names_a_step_that_is_not_deterministic() {
    let manifest = with_step(Function::Message(Arc::new(Fickle(AtomicU64::new(0)))));
    let mut world = World::new(&manifest);
    world.add(0, rows(0, 20));
    world.start_all();
    world.run();
    let failure = world.failure(0);
    assert!(failure.contains("stepped.steps[0] (function step)"), "{failure}");
    assert!(failure.contains("computed twice"), "{failure}");
}

#[test]
fn a_message_function_is_fused_and_its_outputs_are_told_apart() {
    let manifest = with_step(Function::Message(Arc::new(Twice)));
    assert_eq!(survives_restarts(&manifest, 1, 1).len(), 300);
    let windows = survives_restarts(&manifest, 1, 0);
    let counted = total(&windows, "n");
    assert_eq!(counted, 300);
}

#[test]
fn a_job_that_is_retired_or_halted_commits_what_it_took_and_starts_no_call() {
    use onceward_engine::Event;
    for (event, end) in [(Event::Retire, JobEnd::Retired), (Event::Halt, JobEnd::Stopped)] {
        let manifest = Manifest::new()
            .source("rows", 1, Some(0))
            .windows("sums", &["rows"], &["k"], COUNT_AND_SUM)
            .sink("out", &["sums"]);
        let mut world = World::new(&manifest);
        world.bounded = false;
        world.add(0, rows(0, 100));
        world.start_all();
        world.run();
        let (number, calls) = (world.keyed()[0], world.calls().len());
        world.handle(number, event);
        world.run();
        assert_eq!(world.end(number), Some(&end));
        assert_eq!(world.calls().len(), calls);
        assert_eq!(world.open_epochs(number), 0);
    }
}
