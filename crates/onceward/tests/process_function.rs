//! A process function from a manifest, abandoned again and again on a real store and a real file sink: every key is
//! numbered without a gap and without a repeat.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use onceward::{
    Context, Function, FunctionError, Message, Prepared, ProcessFunction, Registry, RunEnd, RunError,
    RunOptions,
};

const ROWS: u64 = 60_000;

/// Numbers the messages of every key.
struct Number;

impl ProcessFunction for Number {
    fn on_message(&mut self, message: &Message<'_>, context: &mut dyn Context) -> Result<(), FunctionError> {
        let seen =
            context.state("seen").map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()));
        context.set_state("seen", &(seen + 1).to_le_bytes());
        let key = String::from_utf8_lossy(message.key);
        context.emit(format!(r#"{{"of":{key},"number":{}}}"#, seen + 1).as_bytes());
        Ok(())
    }
}

fn registry() -> Registry {
    let mut registry = onceward::registry();
    registry.add_function("number", Function::process(|_| Ok(Number)));
    registry
}

fn prepare(folder: &Path) -> Result<Prepared, RunError> {
    let manifest = format!(
        r#"
apiVersion: onceward.dev/v1
kind: Pipeline
metadata: {{ name: numbered }}
spec:
  epoch: {{ interval: 5ms }}
  sources:
    made: {{ type: generator, config: {{ rows: {ROWS}, partitions: 3, keys: 50 }} }}
  computations:
    numbered:
      inputs: [made]
      groupBy: [key]
      partitions: 3
      process: {{ function: number }}
  sinks:
    out: {{ inputs: [numbered], type: file, config: {{ path: out, format: jsonl, maxRows: 500 }} }}
"#
    );
    let registry = registry();
    let pipeline = onceward::pipeline(&manifest, folder, &registry)?;
    let options = RunOptions {
        data_dir: folder.join("state"),
        workers: 2,
        rate: Some(60_000),
        reset: Default::default(),
    };
    Prepared::new(pipeline, &registry, options)
}

#[test]
fn a_process_function_that_is_abandoned_again_and_again_numbers_every_key_without_gap_or_repeat() {
    let folder = tempfile::tempdir().unwrap();
    let mut abandoned = 0;
    for wanted in (1..).map(|round| round * ROWS / 12) {
        let mut running = match prepare(folder.path()) {
            Ok(prepared) => onceward::start(prepared).unwrap(),
            Err(RunError::Completed { .. }) => break,
            Err(error) => panic!("{error}"),
        };
        let end = loop {
            if let Some(end) = running.wait(Duration::from_millis(1)) {
                break end;
            }
            if running.status().sinks[0].delivered >= wanted {
                running.abandon();
            }
        };
        match end {
            Ok(RunEnd::Completed) => break,
            Err(RunError::StoppedEarly) => abandoned += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(abandoned >= 5, "abandoned {abandoned} times only");

    let mut numbers: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for file in std::fs::read_dir(folder.path().join("out")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let (of, number) = line.split_once(r#","number":"#).unwrap();
            numbers.entry(of.to_owned()).or_default().push(number.trim_end_matches('}').parse().unwrap());
        }
    }
    assert_eq!(numbers.values().map(Vec::len).sum::<usize>() as u64, ROWS);
    for (key, found) in &mut numbers {
        found.sort_unstable();
        assert!(found.iter().copied().eq(1..=found.len() as u64), "{key}: {found:?}");
    }
}
