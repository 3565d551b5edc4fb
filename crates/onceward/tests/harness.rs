//! The test harness keeps what it promises: functions see what they would see in a run, kills lose everything that is not
//! durable and nothing else, and a function that is not crash-proof is found.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use onceward::harness::{Harness, HarnessError, START_US, assert_crash_proof, crash_test};
use onceward::{
    Context, Function, FunctionError, Message, MessageFunction, ProcessFunction, Registry, Timer, TimerKind,
};

const SECOND: i64 = 1_000_000;

fn manifest(sources: &str, computations: &str, sinks: &str) -> String {
    format!(
        "apiVersion: onceward.dev/v1\nkind: Pipeline\nmetadata: {{ name: tested }}\nspec:\n  sources:\n{}  computations:\n{}  sinks:\n{}",
        indented(sources),
        indented(computations),
        indented(sinks)
    )
}

fn indented(lines: &str) -> String {
    lines.lines().map(|line| format!("    {}\n", line.trim_start())).collect()
}

/// One source `in`, one function `f` per key `k` in `computed`, one sink `out`.
fn simple(event_time: bool) -> String {
    let time = if event_time { ", eventTime: { field: t, outOfOrderness: 5s }" } else { "" };
    manifest(
        &format!("in: {{ type: file, config: {{ path: nowhere.jsonl, format: jsonl }}{time} }}"),
        "computed: { inputs: [in], groupBy: [k], process: { function: f } }",
        "out: { inputs: [computed], type: blackhole }",
    )
}

fn registry_with(function: Function) -> Registry {
    let mut registry = onceward::registry();
    registry.add_function("f", function);
    registry
}

fn number(context: &dyn Context, name: &str) -> u64 {
    context.state(name).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn emit(context: &mut dyn Context, row: String) {
    context.emit(row.as_bytes());
}

/// Numbers the messages of a key.
struct Number;

impl ProcessFunction for Number {
    fn on_message(&mut self, message: &Message<'_>, context: &mut dyn Context) -> Result<(), FunctionError> {
        let next = number(context, "seen") + 1;
        context.set_state("seen", &next.to_le_bytes());
        emit(context, format!(r#"{{"of":{},"n":{next}}}"#, text(message.key)));
        Ok(())
    }
}

fn numbering() -> Registry {
    registry_with(Function::process(|_| Ok(Number)))
}

fn row(key: &str) -> String {
    format!(r#"{{"k":"{key}"}}"#)
}

fn numbered(key: &str, number: u64) -> String {
    format!(r#"{{"of":{{"k":"{key}"}},"n":{number}}}"#)
}

/// Pushes that give every key several messages, together and one by one.
fn push_some(harness: &mut Harness) -> Result<(), HarnessError> {
    harness.push_all("in", ["a", "b", "c", "a", "b"].map(row))?;
    harness.push("in", row("a"))?;
    harness.push_all("in", ["c", "c", "d"].map(row))
}

#[test]
fn outputs_state_and_counters_are_those_of_the_function_and_survive_a_kill() -> Result<(), HarnessError> {
    let mut harness = Harness::new(&simple(false), &numbering())?;
    harness.push("in", row("a"))?;
    assert_eq!(harness.new_outputs("out")?, [numbered("a", 1)]);
    harness.push_all("in", ["a", "b"].map(row))?;
    let mut new = harness.new_outputs("out")?;
    new.sort();
    assert_eq!(new, [numbered("a", 2), numbered("b", 1)]);
    for kills in 0..2 {
        assert_eq!(harness.kills(), kills);
        assert_eq!(harness.state("computed", r#"{ "k": "a" }"#, "seen")?, Some(2u64.to_le_bytes().to_vec()));
        assert_eq!(harness.state("computed", r#"{"k":"z"}"#, "seen")?, None);
        assert_eq!(harness.states("computed")?.len(), 2);
        assert_eq!(harness.outputs("out")?.len(), 3);
        let figures = harness.counters("computed")?;
        assert_eq!((figures.taken, figures.put_out, figures.keys), (3, 3, 2));
        assert_eq!(harness.counters("in")?.taken, 3);
        harness.kill()?;
    }
    assert_eq!(harness.new_outputs("out")?, Vec::<String>::new());
    assert!(!harness.has_completed());
    harness.end_all()?;
    assert!(harness.has_completed());
    harness.kill()?;
    assert!(harness.has_completed());
    Ok(())
}

#[test]
fn a_good_function_is_crash_proof_at_every_step() {
    assert_crash_proof(&simple(false), &numbering(), |harness| {
        push_some(harness)?;
        harness.end_all()
    });
    let report = crash_test(&simple(false), &numbering(), push_some).unwrap();
    assert!(report.steps > 50 && report.kills > report.steps, "{report:?}");
}

/// Counts in a field of its own: what this harness is there to find.
#[derive(Default)]
struct Forgetful(BTreeMap<Vec<u8>, u64>);

impl ProcessFunction for Forgetful {
    fn on_message(&mut self, message: &Message<'_>, context: &mut dyn Context) -> Result<(), FunctionError> {
        let seen = self.0.entry(message.key.to_vec()).or_default();
        *seen += 1;
        emit(context, format!(r#"{{"of":{},"n":{seen}}}"#, text(message.key)));
        Ok(())
    }
}

#[test]
#[should_panic(expected = "OW-5566: not crash-proof: killed after step ")]
fn a_function_that_counts_in_a_field_is_found() {
    let registry = registry_with(Function::process(|_| Ok(Forgetful::default())));
    assert_crash_proof(&simple(false), &registry, push_some);
}

#[test]
fn the_verdict_names_the_step_and_the_rows() {
    let registry = registry_with(Function::process(|_| Ok(Forgetful::default())));
    let error = crash_test(&simple(false), &registry, push_some).unwrap_err().to_string();
    assert!(error.contains(", and restarted: sink out missed {"), "{error}");
    assert!(error.contains(&numbered("a", 3)), "{error}");
    assert!(error.contains("belongs in its state"), "{error}");
}

/// Puts out how many messages it was handed at once.
struct BatchSize;

impl ProcessFunction for BatchSize {
    fn on_message(&mut self, _: &Message<'_>, _: &mut dyn Context) -> Result<(), FunctionError> {
        Ok(())
    }
    fn on_batch(&mut self, messages: &[Message<'_>], context: &mut dyn Context) -> Result<(), FunctionError> {
        emit(context, format!(r#"{{"size":{}}}"#, messages.len()));
        Ok(())
    }
}

#[test]
fn a_batch_function_gets_what_was_pushed_together_and_must_not_depend_on_it() -> Result<(), HarnessError> {
    let registry = registry_with(Function::process(|_| Ok(BatchSize)));
    let mut harness = Harness::new(&simple(false), &registry)?;
    harness.push_all("in", ["a", "a", "a"].map(row))?;
    assert_eq!(harness.outputs("out")?, [r#"{"size":3}"#]);
    let error = crash_test(&simple(false), &registry, push_some).unwrap_err().to_string();
    assert!(error.contains("without a kill, with rows read one by one: sink out missed "), "{error}");
    Ok(())
}

/// Keeps the sum, but puts it into the state only when a timer fires: the state is behind the outputs.
#[derive(Default)]
struct LateWriter(u64);

impl ProcessFunction for LateWriter {
    fn on_message(&mut self, _: &Message<'_>, context: &mut dyn Context) -> Result<(), FunctionError> {
        self.0 += 1;
        context.set_timer(TimerKind::System, context.system_time() + SECOND, "save");
        Ok(())
    }
    fn on_timer(&mut self, _: &Timer<'_>, context: &mut dyn Context) -> Result<(), FunctionError> {
        context.set_state("seen", &self.0.to_le_bytes());
        Ok(())
    }
}

#[test]
fn wrong_state_is_found_although_no_row_is_wrong() {
    let registry = registry_with(Function::process(|_| Ok(LateWriter::default())));
    let error = crash_test(&simple(false), &registry, |harness| {
        harness.push("in", row("a"))?;
        harness.advance(Duration::from_secs(2))
    });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("the state of computed is "), "{error}");
}

/// Notes every call, as a side effect outside.
struct SideEffects(Arc<Mutex<Vec<String>>>);

impl ProcessFunction for SideEffects {
    fn on_message(&mut self, message: &Message<'_>, context: &mut dyn Context) -> Result<(), FunctionError> {
        self.0.lock().unwrap().push(format!("{:?}", message.id()));
        emit(context, r#"{"done":true}"#.to_owned());
        Ok(())
    }
}

#[test]
fn a_message_has_the_same_id_however_often_it_is_computed_again() -> Result<(), HarnessError> {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let noted = calls.clone();
    let registry = registry_with(Function::process(move |_| Ok(SideEffects(noted.clone()))));
    let mut most = 0;
    for steps in 1..100 {
        calls.lock().unwrap().clear();
        let mut harness = Harness::new(&simple(false), &registry)?;
        harness.kill_after(steps);
        push_some(&mut harness)?;
        assert_eq!(harness.outputs("out")?.len(), 9);
        let calls = calls.lock().unwrap();
        let ids: BTreeSet<&String> = calls.iter().collect();
        assert_eq!(ids.len(), 9, "killed after {steps} steps");
        most = most.max(calls.len());
    }
    assert!(most > 9, "no kill ever came between a call and its commit");
    Ok(())
}

/// Answers a message with a timer of each clock, and puts out what fires.
struct Alarms;

impl ProcessFunction for Alarms {
    fn on_message(&mut self, message: &Message<'_>, context: &mut dyn Context) -> Result<(), FunctionError> {
        let now = context.system_time();
        context.set_timer(TimerKind::Real, now + 3 * SECOND, "real");
        context.set_timer(TimerKind::System, now + 2 * SECOND, "system");
        context.set_timer(TimerKind::System, now + 4 * SECOND, "again");
        if let Some(time) = message.event_time {
            context.set_timer(TimerKind::Event, time + 10 * SECOND, "event");
        }
        Ok(())
    }
    fn on_timer(&mut self, timer: &Timer<'_>, context: &mut dyn Context) -> Result<(), FunctionError> {
        let late = (context.system_time() - timer.at) / SECOND;
        let name = timer.name;
        match timer.kind {
            TimerKind::Event => emit(context, format!(r#"{{"fired":"{name}"}}"#)),
            _ => emit(context, format!(r#"{{"fired":"{name}","late":{late}}}"#)),
        }
        Ok(())
    }
}

fn timed(key: &str, second: i64) -> String {
    format!(r#"{{"k":"{key}","t":"2026-01-01T00:00:{second:02}Z"}}"#)
}

#[test]
fn timers_of_both_clocks_fire_at_their_time_and_in_order() -> Result<(), HarnessError> {
    let registry = registry_with(Function::process(|_| Ok(Alarms)));
    let mut harness = Harness::new(&simple(false), &registry)?;
    harness.push("in", row("a"))?;
    let timers = harness.timers("computed")?;
    assert_eq!(timers.len(), 3);
    assert!(timers.iter().all(|timer| timer.key == r#"{"k":"a"}"# && timer.at > START_US));
    harness.advance(Duration::from_millis(1_990))?;
    assert_eq!(harness.outputs("out")?, Vec::<String>::new());
    harness.advance(Duration::from_millis(20))?;
    assert_eq!(harness.new_outputs("out")?, [r#"{"fired":"system","late":0}"#]);
    harness.kill()?;
    harness.advance(Duration::from_secs(3600))?;
    assert_eq!(
        harness.new_outputs("out")?,
        [r#"{"fired":"real","late":0}"#, r#"{"fired":"again","late":0}"#]
    );
    assert_eq!(harness.timers("computed")?, []);
    Ok(())
}

#[test]
fn a_watermark_fires_timers_of_event_time_up_to_and_with_its_time() -> Result<(), HarnessError> {
    let registry = registry_with(Function::process(|_| Ok(Alarms)));
    let mut harness = Harness::new(&simple(true), &registry)?;
    harness.push("in", timed("a", 1))?;
    harness.watermark("in", "2026-01-01T00:00:10.999999Z")?;
    assert_eq!(harness.outputs("out")?, Vec::<String>::new());
    harness.kill()?;
    harness.watermark("in", "2026-01-01T00:00:11Z")?;
    assert_eq!(harness.new_outputs("out")?, [r#"{"fired":"event"}"#]);
    assert_eq!(harness.counters("computed")?.watermark.0, START_US + 11 * SECOND);
    // Between two full seconds, too.
    harness.push("in", r#"{"k":"a","t":"2026-01-01T00:00:01.5Z"}"#)?;
    harness.watermark("in", "2026-01-01T00:00:11.499999Z")?;
    assert_eq!(harness.new_outputs("out")?, Vec::<String>::new());
    harness.watermark("in", "2026-01-01T00:00:11.5Z")?;
    assert_eq!(harness.new_outputs("out")?, [r#"{"fired":"event"}"#]);
    // An older one changes nothing; a row moves it to its time less outOfOrderness.
    harness.watermark("in", "2026-01-01")?;
    harness.push("in", timed("b", 20))?;
    harness.push("in", timed("b", 36))?;
    assert_eq!(harness.new_outputs("out")?, [r#"{"fired":"event"}"#]);
    // Marks are no messages.
    assert_eq!(harness.counters("in")?.taken, 4);
    assert_eq!(harness.counters("computed")?.taken, 4);
    Ok(())
}

#[test]
fn the_end_of_a_source_fires_what_waits_for_event_time() -> Result<(), HarnessError> {
    let registry = registry_with(Function::process(|_| Ok(Alarms)));
    let mut harness = Harness::new(&simple(true), &registry)?;
    harness.push("in", timed("a", 1))?;
    harness.end("in")?;
    assert_eq!(harness.new_outputs("out")?, [r#"{"fired":"event"}"#]);
    assert!(!harness.has_completed(), "timers of other clocks wait");
    harness.advance(Duration::from_secs(5))?;
    assert_eq!(harness.new_outputs("out")?.len(), 3);
    assert!(harness.has_completed());
    Ok(())
}

#[test]
fn timers_and_clocks_are_crash_proof() {
    let registry = registry_with(Function::process(|_| Ok(Alarms)));
    assert_crash_proof(&simple(true), &registry, |harness| {
        harness.push_all("in", [timed("a", 1), timed("b", 2)])?;
        harness.watermark("in", "2026-01-01T00:00:11Z")?;
        harness.push("in", timed("c", 30))?;
        harness.advance(Duration::from_secs(10))?;
        harness.end_all()
    });
}

/// Puts out its clock.
struct Clock;

impl ProcessFunction for Clock {
    fn on_message(&mut self, _: &Message<'_>, context: &mut dyn Context) -> Result<(), FunctionError> {
        let now = context.system_time();
        emit(context, format!(r#"{{"now":{now}}}"#));
        Ok(())
    }
}

#[test]
fn the_clock_stands_still_between_calls() -> Result<(), HarnessError> {
    let registry = registry_with(Function::process(|_| Ok(Clock)));
    let scenario = |harness: &mut Harness| {
        harness.push("in", row("a"))?;
        harness.advance(Duration::from_secs(1))?;
        harness.push_all("in", ["a", "a"].map(row))
    };
    let mut harness = Harness::new(&simple(false), &registry)?;
    let began = harness.now_us();
    scenario(&mut harness)?;
    let second = began + 1_000 + 1_001_000;
    assert_eq!(harness.outputs("out")?, [began, second, second].map(|now| format!(r#"{{"now":{now}}}"#)));
    assert_crash_proof(&simple(false), &registry, scenario);
    Ok(())
}

/// Windows, late rows, a source that is joined by another, a computation behind another, a sink on a source.
fn whole() -> String {
    manifest(
        "left: { type: file, config: { path: l.jsonl, format: jsonl }, eventTime: { field: t } }
         right: { type: file, config: { path: r.jsonl, format: jsonl }, eventTime: { field: t }, materialise: true }",
        "kept: { inputs: [left], steps: [ { filter: 'k != \"x\"' } ] }
         numbered: { inputs: [kept, right], groupBy: [k], partitions: 3, process: { function: f } }
         windows: { inputs: [kept, right], groupBy: [k], partitions: 2, aggregate: { window: { tumbling: 10s }, compute: { n: count() }, late: late } }
         totals: { inputs: [windows], groupBy: [n], aggregate: { window: { tumbling: 1m }, compute: { keys: count() } } }",
        "rows: { inputs: [left], type: blackhole }
         numbers: { inputs: [numbered], type: stdout }
         sums: { inputs: [totals], type: blackhole }
         late: { inputs: [late], type: blackhole }",
    )
    .replace("late: late", "late: tardy")
    .replace("inputs: [late]", "inputs: [tardy]")
}

fn whole_scenario(harness: &mut Harness) -> Result<(), HarnessError> {
    harness.push_all("left", [timed("a", 1), timed("x", 2), timed("b", 3), timed("a", 4)])?;
    harness.push_all("right", [timed("a", 2), timed("c", 3)])?;
    harness.watermark("left", "2026-01-01T00:00:30Z")?;
    harness.push("left", timed("a", 5))?;
    harness.push("right", timed("c", 40))?;
    harness.end_all()
}

#[test]
fn a_whole_pipeline_gives_what_its_manifest_says() -> Result<(), HarnessError> {
    let mut harness = Harness::new(&whole(), &numbering())?;
    whole_scenario(&mut harness)?;
    assert!(harness.has_completed());
    assert_eq!(harness.outputs("rows")?.len(), 5, "no mark among the rows");
    assert_eq!(harness.outputs("late")?, [timed("a", 5)]);
    assert_eq!(harness.counters("windows")?.late, 1);
    let mut numbers = harness.outputs("numbers")?;
    numbers.sort();
    let expected = [("a", 1), ("a", 2), ("a", 3), ("a", 4), ("b", 1), ("c", 1), ("c", 2)];
    assert_eq!(numbers, expected.map(|(key, n)| numbered(key, n)));
    // a: 3 in the first window; b and c: 1 in the first; c: 1 in a later one.
    let sums = harness.outputs("sums")?;
    let total = |n: u64, keys: u64| {
        format!(
            r#"{{"n":{n},"window_start":"2026-01-01T00:00:00Z","window_end":"2026-01-01T00:01:00Z","keys":{keys}}}"#
        )
    };
    assert_eq!(sums.iter().collect::<BTreeSet<_>>(), [&total(1, 3), &total(3, 1)].into());
    Ok(())
}

#[test]
fn a_whole_pipeline_is_crash_proof() {
    assert_crash_proof(&whole(), &numbering(), whole_scenario);
}

#[test]
fn equal_tests_take_equal_steps() -> Result<(), HarnessError> {
    let steps = || -> Result<(u64, i64), HarnessError> {
        let mut harness = Harness::new(&whole(), &numbering())?;
        harness.kill_after(30);
        whole_scenario(&mut harness)?;
        Ok((harness.steps(), harness.now_us()))
    };
    assert_eq!(steps()?, steps()?);
    Ok(())
}

/// Fails on one message.
struct Picky;

impl ProcessFunction for Picky {
    fn on_message(&mut self, message: &Message<'_>, context: &mut dyn Context) -> Result<(), FunctionError> {
        match text(message.key).contains("bad") {
            true => Err(FunctionError::new("this key is cursed")),
            false => {
                emit(context, r#"{"fine":true}"#.to_owned());
                Ok(())
            }
        }
    }
}

#[test]
fn a_function_that_fails_stops_the_test_as_it_would_stop_the_pipeline() -> Result<(), HarnessError> {
    let registry = registry_with(Function::process(|_| Ok(Picky)));
    let mut harness = Harness::new(&simple(false), &registry)?;
    harness.push("in", row("good"))?;
    let first = harness.push("in", row("bad")).unwrap_err();
    assert!(matches!(&first, HarnessError::Failed { partition, .. } if partition.starts_with("computed[")));
    assert!(first.to_string().contains("this key is cursed"), "{first}");
    for again in [harness.push("in", row("good")), harness.kill()] {
        assert_eq!(again.unwrap_err().to_string(), first.to_string());
    }
    assert_eq!(harness.outputs("out")?, [r#"{"fine":true}"#]);
    Ok(())
}

/// Puts out what is no JSON object.
struct Plain;

impl ProcessFunction for Plain {
    fn on_message(&mut self, _: &Message<'_>, context: &mut dyn Context) -> Result<(), FunctionError> {
        context.emit(b"hello");
        Ok(())
    }
}

#[test]
fn a_row_that_is_no_json_object_is_found() {
    let registry = registry_with(Function::process(|_| Ok(Plain)));
    let mut harness = Harness::new(&simple(false), &registry).unwrap();
    let error = harness.push("in", row("a")).unwrap_err();
    assert!(matches!(error, HarnessError::Failed { .. }), "{error}");
}

/// Not deterministic: counts its calls.
struct Calls(std::sync::atomic::AtomicU64);

impl MessageFunction for Calls {
    fn on_message(&self, _: &Message<'_>, emit: &mut dyn FnMut(&[u8])) -> Result<(), FunctionError> {
        let calls = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        emit(format!(r#"{{"calls":{calls}}}"#).as_bytes());
        Ok(())
    }
}

#[test]
fn a_message_function_that_is_not_deterministic_is_found_at_its_first_message() {
    let registry = registry_with(Function::message(Calls(Default::default())));
    let manifest = manifest(
        "in: { type: file, config: { path: nowhere.jsonl, format: jsonl } }",
        "computed: { inputs: [in], steps: [ { function: f } ] }",
        "out: { inputs: [computed], type: blackhole }",
    );
    let mut harness = Harness::new(&manifest, &registry).unwrap();
    let error = harness.push("in", row("a")).unwrap_err().to_string();
    assert!(error.contains("computed.steps[0] (function f)"), "{error}");
}

/// Sets its timer again, so much later.
struct Restless(i64);

impl ProcessFunction for Restless {
    fn on_message(&mut self, _: &Message<'_>, context: &mut dyn Context) -> Result<(), FunctionError> {
        context.set_timer(TimerKind::System, context.system_time() + self.0, "tick");
        Ok(())
    }
    fn on_timer(&mut self, _: &Timer<'_>, context: &mut dyn Context) -> Result<(), FunctionError> {
        context.set_timer(TimerKind::System, context.system_time() + self.0, "tick");
        emit(context, r#"{"tick":true}"#.to_owned());
        Ok(())
    }
}

#[test]
fn a_timer_that_sets_itself_again_ticks_through_an_advance_but_must_let_time_pass() -> Result<(), HarnessError>
{
    let registry = registry_with(Function::process(|_| Ok(Restless(SECOND))));
    let mut harness = Harness::new(&simple(false), &registry)?;
    harness.push("in", row("a"))?;
    harness.advance(Duration::from_secs(10))?;
    assert_eq!(harness.outputs("out")?.len(), 10);
    let registry = registry_with(Function::process(|_| Ok(Restless(0))));
    let error = Harness::new(&simple(false), &registry)?.push("in", row("a")).unwrap_err().to_string();
    assert!(error.contains("OW-5569") && error.contains("under the name tick"), "{error}");
    Ok(())
}

#[test]
fn errors_name_what_was_found_and_expected() -> Result<(), HarnessError> {
    let mut harness = Harness::new(&simple(false), &numbering())?;
    let errors = [
        (harness.push("inn", row("a")), "OW-5561: found no source inn, expected in"),
        (harness.outputs("in").map(drop), "OW-5561: found no sink in, expected out"),
        (
            harness.states("in").map(drop),
            "OW-5561: found no process function of computation in, expected computed",
        ),
        (
            harness.counters("out").map(drop),
            "OW-5561: found no source or computation with groupBy out, expected one of in, computed",
        ),
        (harness.watermark("in", "2026-01-01"), "the manifest gives this source no eventTime"),
        (harness.push("in", r#"{"onceward_watermark":1}"#), "a name that the harness keeps for itself"),
        (harness.state("computed", r#"{"key":"a"}"#, "seen").map(drop), "groupBy is [k]"),
        (
            harness.state("computed", "a", "seen").map(drop),
            "OW-5567: found the key a, expected a JSON object",
        ),
        (harness.end("in"), ""),
        (harness.push("in", row("a")), "found more input, but the test has ended this source"),
    ];
    for (result, expected) in errors {
        let error = result.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(expected), "{error}");
        assert_eq!(error.is_empty(), expected.is_empty());
    }
    let mut timed = Harness::new(&simple(true), &numbering())?;
    let error = timed.watermark("in", "noon").unwrap_err().to_string();
    assert!(error.contains("found the time noon, expected RFC 3339"), "{error}");
    let refused = Harness::new(&simple(false), &onceward::registry()).err().unwrap().to_string();
    assert!(refused.contains("OW-1043"), "{refused}");
    Ok(())
}

#[test]
fn a_scenario_that_fails_only_after_a_kill_is_a_verdict_too() {
    let registry = registry_with(Function::process(|_| Ok(Forgetful::default())));
    let error = crash_test(&simple(false), &registry, |harness| {
        push_some(harness)?;
        let last = harness.outputs("out")?.last().cloned();
        match last == Some(numbered("d", 1)) || last == Some(numbered("c", 3)) {
            true => Ok(()),
            false => harness.push("no such source", "{}"),
        }
    });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("killed after step"), "{error}");
}
