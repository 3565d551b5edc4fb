//! What is refused: with which code, at which line and column, with what help.

use super::{AGGREGATE, FLIGHTS, flights, parse_with};
use crate::{Diagnostic, Place, render};

/// The only problem of a manifest.
fn only_problem(text: &str, sets: &[&str]) -> Diagnostic {
    match parse_with(text, sets) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(errors) => {
            assert_eq!(errors.items.len(), 1, "expected one problem:\n{errors}\n{text}");
            errors.items.into_iter().next().expect("one")
        }
    }
}

/// Line and column of the first place where the text holds `mark`.
fn place_of(text: &str, mark: &str) -> (u32, u32) {
    let at = text.find(mark).unwrap_or_else(|| panic!("{mark:?} is not in\n{text}"));
    let before = &text[..at];
    let line = before.matches('\n').count() as u32 + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() as u32 + 1;
    (line, column)
}

/// (changes, what the problem points at, code, path, a part of message and help together)
type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a str, &'a str, &'a str);

#[test]
fn every_bad_manifest_is_refused_at_its_place() {
    let cases: &[Case<'_>] = &[
        // The file.
        (
            &[("kind: Pipeline", "kind: Pipeline\nkind: Pipeline")],
            "kind: Pipeline\nmeta",
            "OW-1002",
            "",
            "first in line 3",
        ),
        (&[("spec:", "--- \nspec:")], "--- ", "OW-1003", "", "one manifest per file"),
        (&[("kind: Pipeline", "kind: !!str Pipeline")], "Pipeline\nmeta", "OW-1004", "", "tag"),
        (&[("kind: Pipeline", "<<: {}\nkind: Pipeline")], "<<", "OW-1004", "", "merge key"),
        (
            &[("onceward.dev/v1", "onceward.dev/v2")],
            "onceward.dev/v2",
            "OW-1010",
            "apiVersion",
            "expected `onceward.dev/v1`",
        ),
        (&[("kind: Pipeline", "kind: DataFlow")], "DataFlow", "OW-1010", "kind", "pipelines only"),
        // Keys.
        (
            &[("        window:", "        windw: 1h\n        window:")],
            "windw",
            "OW-1020",
            "spec.computations.by_carrier.aggregate.windw",
            "did you mean `window`?",
        ),
        (
            &[("eventTime:", "event_time: 1\n      eventTime:")],
            "event_time",
            "OW-1020",
            "spec.sources.flights.event_time",
            "did you mean `eventTime`?",
        ),
        (
            &[("nullValues:", "null_values: 1\n        nullValues:")],
            "null_values",
            "OW-1020",
            "spec.sources.flights.config.null_values",
            "did you mean `nullValues`?",
        ),
        (
            &[("metadata: { name: flight-delays }", "metadata: { name: a, zzzzzz: 1 }")],
            "zzzzzz",
            "OW-1020",
            "metadata.zzzzzz",
            "expected `name`",
        ),
        (
            &[("field: time_hour, ", "")],
            "eventTime",
            "OW-1021",
            "spec.sources.flights.eventTime.field",
            "is required",
        ),
        (
            &[("path: out/hourly, ", "")],
            "config: { format",
            "OW-1021",
            "spec.sinks.hourly.config.path",
            "Where.",
        ),
        (
            &[("      config: { path: out/hourly, format: jsonl }\n", "      config: { path: out }\n")],
            "config: { path: out }",
            "OW-1021",
            "spec.sinks.hourly.config.format",
            "is required",
        ),
        (&[("metadata: { name: flight-delays }\n", "")], "# yaml", "OW-1021", "metadata", "is required"),
        // Types and forms.
        (
            &[("inputs: [flights]", "inputs: flights")],
            "flights\n      steps",
            "OW-1022",
            "spec.computations.arrived.inputs",
            "write `[flights]`",
        ),
        (
            &[("inputs: [flights]", "inputs: []")],
            "[]",
            "OW-1023",
            "spec.computations.arrived.inputs",
            "at least one item",
        ),
        (
            &[("{ tumbling: 1h }", "1h")],
            "1h",
            "OW-1022",
            "spec.computations.by_carrier.aggregate.window",
            "expected a map with `tumbling`",
        ),
        (
            &[("tumbling: 1h", "tumbling: 60")],
            "60",
            "OW-1022",
            "spec.computations.by_carrier.aggregate.window.tumbling",
            "`60s` if it means seconds",
        ),
        (
            &[("tumbling: 1h", "tumbling: 1 h")],
            "1 h",
            "OW-1023",
            "spec.computations.by_carrier.aggregate.window.tumbling",
            "`1h30m`",
        ),
        (
            &[("tumbling: 1h", "tumbling: 0s")],
            "0s",
            "OW-1023",
            "spec.computations.by_carrier.aggregate.window.tumbling",
            "at least `1ms`",
        ),
        (&[("[\"NA\"]", "[-1]")], "-1", "OW-1022", "spec.sources.flights.config.nullValues[0]", "\"-1\""),
        (
            &[("arr_delay: int", "arr_delay: integer")],
            "integer",
            "OW-1024",
            "spec.sources.flights.config.types.arr_delay",
            "`timestamp`",
        ),
        (
            &[("format: jsonl }", "format: json }")],
            "json }",
            "OW-1024",
            "spec.sinks.hourly.config.format",
            "did you mean `jsonl`?",
        ),
        (
            &[("require: exactly_once", "require: exactlyOnce")],
            "exactlyOnce",
            "OW-1024",
            "spec.require",
            "did you mean `exactly_once`?",
        ),
        (
            &[("format: jsonl }", "format: jsonl, maxRows: 0 }")],
            "0 }",
            "OW-1023",
            "spec.sinks.hourly.config.maxRows",
            "from 1 to 10000000",
        ),
        (
            &[("format: jsonl }", "format: jsonl, maxRows: 1.5 }")],
            "1.5",
            "OW-1022",
            "spec.sinks.hourly.config.maxRows",
            "whole number",
        ),
        (
            &[("format: jsonl }", "format: jsonl, maxSize: 3mb }")],
            "3mb",
            "OW-1023",
            "spec.sinks.hourly.config.maxSize",
            "16MiB",
        ),
        (
            &[("nullValues:", "delimiter: ';;'\n        nullValues:")],
            "';;'",
            "OW-1023",
            "spec.sources.flights.config.delimiter",
            "single ASCII character",
        ),
        (
            &[("nullValues:", "header: yes\n        nullValues:")],
            "yes",
            "OW-1022",
            "spec.sources.flights.config.header",
            "`true` or `false`",
        ),
        (
            &[("groupBy: [carrier]", "groupBy: [carrier]\n      partitions: 2000")],
            "2000",
            "OW-1023",
            "spec.computations.by_carrier.partitions",
            "from 1 to 1024",
        ),
        (
            &[("- filter: has(arr_delay)", "- filter:")],
            ":\n    by_carrier",
            "OW-1022",
            "spec.computations.arrived.steps[0].filter",
            "a CEL expression",
        ),
        (
            &[("- filter: has(arr_delay)", "- { filter: a, map: { b: c } }")],
            "{ filter",
            "OW-1023",
            "spec.computations.arrived.steps[0]",
            "exactly one",
        ),
        (
            &[("- filter: has(arr_delay)", "- where: x")],
            "where",
            "OW-1020",
            "spec.computations.arrived.steps[0].where",
            "`filter`, `map` or `function`",
        ),
        // Names.
        (
            &[("name: flight-delays", "name: flight delays")],
            "flight delays",
            "OW-1025",
            "metadata.name",
            "letters, digits",
        ),
        (&[("    hourly:", "    -x:")], "-x", "OW-1025", "spec.sinks.-x", "does not begin with `-`"),
        (
            &[("    hourly:", "    arrived:")],
            "arrived:\n      inputs: [by",
            "OW-1026",
            "spec.sinks.arrived",
            "spec.computations.arrived",
        ),
        // Variables.
        (
            &[("data/flights-*.csv.zst", "${env:NOPE}/x")],
            "${env",
            "OW-1030",
            "spec.sources.flights.config.path",
            "`NOPE` is not set",
        ),
        (
            &[("data/flights-*.csv.zst", "a/${NOPE}/x")],
            "${NOPE",
            "OW-1030",
            "spec.sources.flights.config.path",
            "${NOPE:value}",
        ),
        (
            &[("data/flights-*.csv.zst", "a/${no pe}")],
            "${no",
            "OW-1031",
            "spec.sources.flights.config.path",
            "$${",
        ),
        // Connectors.
        (
            &[("type: file\n      config:\n", "type: kafka\n      config:\n")],
            "kafka",
            "OW-1040",
            "spec.sources.flights.type",
            "this build has no kafka",
        ),
        (
            &[("type: file\n      config: {", "type: flie\n      config: {")],
            "flie",
            "OW-1041",
            "spec.sinks.hourly.type",
            "did you mean `file`?",
        ),
        (
            &[("type: file\n      config:\n", "type: stdout\n      config:\n")],
            "stdout",
            "OW-1041",
            "spec.sources.flights.type",
            "can be a sink, not a source",
        ),
        (
            &[("format: csv\n", "format: jsonl\n")],
            "{ arr_delay: int",
            "OW-3001",
            "spec.sources.flights.config.types",
            "only CSV",
        ),
        (
            &[("nullValues:", "label: refuse\n        nullValues:")],
            "config:\n",
            "OW-3002",
            "spec.sources.flights.config",
            "as a whole",
        ),
        (
            &[
                ("format: jsonl }", "format: csv }"),
                ("inputs: [by_carrier]", "inputs: [by_carrier, arrived]"),
            ],
            "config: { path: out",
            "OW-3101",
            "spec.sinks.hourly.config.columns",
            "not known",
        ),
        // The graph.
        (
            &[("inputs: [arrived]", "inputs: [arived]")],
            "arived",
            "OW-1050",
            "spec.computations.by_carrier.inputs",
            "did you mean `arrived`?",
        ),
        (
            &[("inputs: [arrived]", "inputs: [hourly]")],
            "hourly]",
            "OW-1050",
            "spec.computations.by_carrier.inputs",
            "is a sink",
        ),
        (
            &[("inputs: [by_carrier]", "inputs: [by_carrier, by_carrier]")],
            "by_carrier]\n      type",
            "OW-1052",
            "spec.sinks.hourly.inputs",
            "twice",
        ),
        (
            &[("inputs: [flights]", "inputs: [by_carrier]")],
            "[by_carrier]\n      steps",
            "OW-1051",
            "spec.computations.arrived.inputs",
            "arrived -> by_carrier -> arrived",
        ),
        (
            &[("inputs: [flights]", "inputs: [arrived]")],
            "[arrived]\n      steps",
            "OW-1051",
            "spec.computations.arrived.inputs",
            "arrived -> arrived",
        ),
        // Computations.
        (
            &[("      groupBy: [carrier]\n", "")],
            "aggregate:",
            "OW-1060",
            "spec.computations.by_carrier.aggregate",
            "no `groupBy`",
        ),
        (
            &[(
                "      steps:\n        - filter: has(arr_delay)\n",
                "      partitions: 2\n      steps:\n        - filter: has(arr_delay)\n",
            )],
            "partitions",
            "OW-1060",
            "spec.computations.arrived.partitions",
            "no `groupBy`",
        ),
        (
            &[("      steps:\n        - filter: has(arr_delay)\n", "")],
            "arrived:",
            "OW-1061",
            "spec.computations.arrived.steps",
            "does nothing",
        ),
        (
            &[("      eventTime: { field: time_hour, outOfOrderness: 24h }\n", "")],
            "flights:",
            "OW-1063",
            "spec.sources.flights",
            "add to `flights`",
        ),
        (
            &[("[carrier]", "[carrier, carrier]")],
            "carrier]",
            "OW-1064",
            "spec.computations.by_carrier.groupBy[1]",
            "taken by a group key",
        ),
        (
            &[("[carrier]", "[window_start]")],
            "window_start",
            "OW-1064",
            "spec.computations.by_carrier.groupBy[0]",
            "the window's own field",
        ),
        (
            &[("worst: max", "carrier: max")],
            "carrier: max",
            "OW-1064",
            "spec.computations.by_carrier.aggregate.compute.carrier",
            "another name",
        ),
        (
            &[("worst: max", "window_end: max")],
            "window_end",
            "OW-1064",
            "spec.computations.by_carrier.aggregate.compute.window_end",
            "another name",
        ),
        (
            &[
                (
                    "has(arr_delay)\n",
                    "has(arr_delay)\n        - map: { a: carrier }\n        - filter: carier == 'x'\n",
                ),
                ("[carrier]", "[a]"),
                ("mean_delay: avg(arr_delay), worst: max(arr_delay)", "n: count()"),
            ],
            "carier ==",
            "OW-1065",
            "spec.computations.arrived.steps[2].filter",
            "it has `a`",
        ),
        (
            &[
                (
                    "has(arr_delay)\n",
                    "has(arr_delay)\n        - map: { carrier: carrier, delay: arr_delay }\n",
                ),
                ("avg(arr_delay)", "avg(dealy)"),
                ("max(arr_delay)", "max(delay)"),
            ],
            "dealy",
            "OW-1065",
            "spec.computations.by_carrier.aggregate.compute.mean_delay",
            "did you mean `delay`?",
        ),
        (
            &[("has(arr_delay)\n", "has(arr_delay)\n        - map: { arr_delay: arr_delay }\n")],
            "carrier]",
            "OW-1065",
            "spec.computations.by_carrier.groupBy[0]",
            "no field `carrier`",
        ),
        (
            &[("max(arr_delay)", "median(arr_delay)")],
            "median",
            "OW-1071",
            "spec.computations.by_carrier.aggregate.compute.worst",
            "unknown aggregate function",
        ),
        (
            &[("max(arr_delay)", "max()")],
            ") }\n  sinks",
            "OW-1071",
            "spec.computations.by_carrier.aggregate.compute.worst",
            "no argument",
        ),
        (
            &[("flights: count()", "flights: count(*)")],
            "*)",
            "OW-1071",
            "spec.computations.by_carrier.aggregate.compute.flights",
            "write `count()`",
        ),
        // Levels.
        (
            &[("type: file\n      config: { path: out/hourly, format: jsonl }", "type: stdout")],
            "exactly_once",
            "OW-1081",
            "spec.require",
            "the weakest element is sink hourly, because a terminal cannot tell a repeat",
        ),
        (
            &[
                (
                    "type: file\n      config: { path: out/hourly, format: jsonl }",
                    "type: stdout\n      delivery: exactly_once",
                ),
                ("  require: exactly_once\n", ""),
            ],
            "exactly_once",
            "OW-1080",
            "spec.sinks.hourly.delivery",
            "a stdout sink can hold at_least_once at most",
        ),
        (
            &[("format: jsonl }", "format: jsonl }\n      delivery: at_most_once")],
            "exactly_once",
            "OW-1081",
            "spec.require",
            "the weakest element is sink hourly, because the manifest asks for it",
        ),
        (
            &[("format: jsonl }", "format: jsonl }\n      delivery: twice")],
            "twice\n",
            "OW-1024",
            "spec.sinks.hourly.delivery",
            "`exactly_once`, `effectively_once`, `at_least_once` or `at_most_once`",
        ),
    ];
    refuses(cases);
}

/// Every manifest has one problem: this one.
fn refuses(cases: &[Case<'_>]) {
    let mut wrong = Vec::new();
    for (changes, mark, code, path, part) in cases {
        let text = flights(changes);
        let errors = parse_with(&text, &[]).err().map_or_else(Vec::new, |errors| errors.items);
        let (line, column) = place_of(&text, mark);
        let fits = errors.iter().any(|item| {
            let whole = format!("{}; {}", item.message, item.help.clone().unwrap_or_default());
            (item.code, item.path.as_str()) == (code, path)
                && whole.contains(part)
                && item.place == Place { line, column }
        });
        if !fits || errors.len() != 1 {
            wrong.push(format!("{changes:?}: expected only {code} at {line}:{column}, found {errors:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_bad_limit_is_refused_at_its_place() {
    refuses(&[
        (&[("  require:", "  replicas: 0\n  require:")], "0\n", "OW-1023", "spec.replicas", "from 1 to 256"),
        (
            &[("  require:", "  replicas: many\n  require:")],
            "many",
            "OW-1022",
            "spec.replicas",
            "whole number",
        ),
        (
            &[("  require:", "  replayCheck: -1\n  require:")],
            "-1",
            "OW-1023",
            "spec.replayCheck",
            "at least 0",
        ),
        (
            &[("  require:", "  replay_check: 1\n  require:")],
            "replay_check",
            "OW-1020",
            "spec.replay_check",
            "did you mean `replayCheck`?",
        ),
        (
            &[("      eventTime:", "      materialise: yes\n      eventTime:")],
            "yes",
            "OW-1022",
            "spec.sources.flights.materialise",
            "`true` or `false`",
        ),
        (
            &[("      eventTime:", "      materialize: true\n      eventTime:")],
            "materialize",
            "OW-1020",
            "spec.sources.flights.materialize",
            "did you mean `materialise`?",
        ),
        (
            &[("24h }", "24h, idleAfter: 0s }")],
            "0s",
            "OW-1023",
            "spec.sources.flights.eventTime.idleAfter",
            "at least `1ms`",
        ),
        (
            &[("groupBy:", "minPartitions: 5\n      groupBy:")],
            "5\n",
            "OW-1067",
            "spec.computations.by_carrier.minPartitions",
            "`partitions` is not given and so 4: expected at most 4; change it, or set `partitions: 5`",
        ),
        (
            &[("groupBy:", "partitions: 8\n      maxPartitions: 7\n      groupBy:")],
            "7\n",
            "OW-1067",
            "spec.computations.by_carrier.maxPartitions",
            "`partitions` is 8: expected at least 8",
        ),
        (
            &[("groupBy:", "maxPartitions: 2000\n      groupBy:")],
            "2000",
            "OW-1023",
            "spec.computations.by_carrier.maxPartitions",
            "from 1 to 1024",
        ),
        (
            &[("      steps:\n", "      maxPartitions: 8\n      steps:\n")],
            "maxPartitions",
            "OW-1060",
            "spec.computations.arrived.maxPartitions",
            "only keys are spread over partitions",
        ),
    ]);
}

#[test]
fn every_bad_function_is_refused_at_its_place() {
    refuses(&[
        (
            &[("filter: has(arr_delay)", "function: spilt")],
            "spilt",
            "OW-1043",
            "spec.computations.arrived.steps[0].function",
            "expected a message function that is registered: `split`; did you mean `split`?",
        ),
        (
            &[("filter: has(arr_delay)", "function: dedupe")],
            "dedupe",
            "OW-1043",
            "spec.computations.arrived.steps[0].function",
            "found a text `dedupe`, a process function, expected a message function",
        ),
        (
            &[("filter: has(arr_delay)", "function: [split]")],
            "[split]",
            "OW-1022",
            "spec.computations.arrived.steps[0].function",
            "expected a text",
        ),
        (
            &[(AGGREGATE, "      process: { function: nobody }\n")],
            "nobody",
            "OW-1043",
            "spec.computations.by_carrier.process.function",
            "registered: `dedupe` or `sessions`; functions are written in Rust",
        ),
        (
            &[(AGGREGATE, "      process: { function: split }\n")],
            "split",
            "OW-1043",
            "spec.computations.by_carrier.process.function",
            "put it into `steps`",
        ),
        (
            &[(AGGREGATE, "      process: { config: { a: b } }\n")],
            "process",
            "OW-1021",
            "spec.computations.by_carrier.process.function",
            "is required",
        ),
        (
            &[(AGGREGATE, "      process: { function: sessions, config: { gap: wide } }\n")],
            "config: { gap",
            "OW-1044",
            "spec.computations.by_carrier.process.config",
            "does not take its settings: gap is wide",
        ),
        (
            &[(AGGREGATE, "      process: { function: sessions, config: { gap: [1] } }\n")],
            "[1]",
            "OW-1022",
            "spec.computations.by_carrier.process.config.gap",
            "a text, a number or a boolean",
        ),
        (
            &[("      aggregate:", "      process: { function: dedupe }\n      aggregate:")],
            "process",
            "OW-1066",
            "spec.computations.by_carrier.process",
            "`aggregate` and `process`, expected one of them",
        ),
        (
            &[(AGGREGATE, "")],
            "groupBy",
            "OW-1060",
            "spec.computations.by_carrier.groupBy",
            "no `aggregate` and no `process`",
        ),
        (
            &[("      steps:\n", "      process: { function: dedupe }\n      steps:\n")],
            "process",
            "OW-1060",
            "spec.computations.arrived.process",
            "add `groupBy`",
        ),
    ]);
}

#[test]
fn a_build_without_functions_says_so() {
    let text = flights(&[("filter: has(arr_delay)", "function: split")]);
    let input = crate::ManifestInput {
        text: &text,
        file_name: "p.yaml",
        base_dir: std::path::Path::new("/base"),
        sets: &[],
        env: &|_| None,
    };
    let mut registry = onceward_connector::Registry::default();
    for name in super::registry().source_names() {
        registry.add_source(super::registry().source(name).expect("it is there").clone());
    }
    for name in super::registry().sink_names() {
        registry.add_sink(super::registry().sink(name).expect("it is there").clone());
    }
    let errors = crate::parse(&input, &registry).expect_err("refused");
    assert_eq!(errors.items.len(), 1, "{errors}");
    let message = "found a text `split`, but no message function is registered in this build";
    assert_eq!((errors.items[0].code, errors.items[0].message.as_str()), ("OW-1043", message));
}

#[test]
fn every_bad_way_to_tell_repeats_is_refused_at_its_place() {
    refuses(&[
        (
            &[("groupBy:", "inputDedup: frontier\n      dedupBy: [id]\n      groupBy:")],
            "frontier",
            "OW-1068",
            "spec.computations.by_carrier.inputDedup",
            "ids that clients choose have no order",
        ),
        (
            &[("groupBy:", "dedupFor: 1h\n      groupBy:")],
            "dedupFor",
            "OW-1068",
            "spec.computations.by_carrier.dedupFor",
            "no `dedupBy`",
        ),
        (
            &[("groupBy:", "dedupBy: [id, id]\n      groupBy:")],
            "id]",
            "OW-1068",
            "spec.computations.by_carrier.dedupBy[1]",
            "expected each field once",
        ),
        (
            &[("groupBy:", "dedupBy: [id]\n      dedupFor: 0s\n      groupBy:")],
            "0s",
            "OW-1023",
            "spec.computations.by_carrier.dedupFor",
            "at least `1ms`",
        ),
        (
            &[
                ("filter: has(arr_delay)", "map: { carrier: carrier, arr_delay: arr_delay }"),
                ("groupBy:", "dedupBy: [carier]\n      groupBy:"),
            ],
            "carier",
            "OW-1065",
            "spec.computations.by_carrier.dedupBy[0]",
            "did you mean `carrier`?",
        ),
        (
            &[("groupBy:", "inputDedup: compact\n      groupBy:")],
            "compact",
            "OW-1024",
            "spec.computations.by_carrier.inputDedup",
            "`auto`, `frontier` or `full`",
        ),
        (
            &[("groupBy:", "processingMode: at_least_once\n      groupBy:")],
            "at_least_once",
            "OW-1024",
            "spec.computations.by_carrier.processingMode",
            "did you mean `at_least_once_consistent`?",
        ),
        (
            &[("      steps:\n", "      processingMode: at_least_once_consistent\n      steps:\n")],
            "processingMode",
            "OW-1060",
            "spec.computations.arrived.processingMode",
            "only a computation with `groupBy`",
        ),
        (
            &[("      eventTime:", "      processingMode: exactly_once\n      eventTime:")],
            "processingMode",
            "OW-1020",
            "spec.sources.flights.processingMode",
            "`processingMode` is a key of `computation`",
        ),
        (
            &[("format: jsonl }", "format: jsonl }\n      processingMode: exactly_once")],
            "processingMode",
            "OW-1020",
            "spec.sinks.hourly.processingMode",
            "`processingMode` is a key of `computation`",
        ),
        (
            &[("      steps:\n", "      dedupBy: [id]\n      steps:\n")],
            "dedupBy",
            "OW-1060",
            "spec.computations.arrived.dedupBy",
            "where keys are grouped",
        ),
        (
            &[
                ("      eventTime: { field: time_hour, outOfOrderness: 24h }\n", ""),
                (AGGREGATE, "      dedupBy: [id]\n      process: { function: dedupe }\n"),
            ],
            "flights:",
            "OW-1063",
            "spec.sources.flights",
            "`by_carrier` remembers ids (`dedupBy`) for a time; add to `flights`",
        ),
    ]);
}

#[test]
fn every_bad_stream_of_late_rows_is_refused_at_its_place() {
    refuses(&[
        (
            &[("window: {", "late: arrived\n        window: {")],
            "arrived\n        window",
            "OW-1026",
            "spec.computations.by_carrier.aggregate.late",
            "taken by `spec.computations.arrived`",
        ),
        (
            &[
                ("window: {", "late: x\n        window: {"),
                (
                    "  sinks:",
                    "    again: { inputs: [arrived], groupBy: [a], aggregate: { late: x, window: { tumbling: 1d }, compute: { n: count() } } }\n  sinks:",
                ),
            ],
            "x, window",
            "OW-1026",
            "spec.computations.again.aggregate.late",
            "taken by `spec.computations.by_carrier.aggregate.late`",
        ),
        (
            &[("window: {", "late: flights\n        window: {")],
            "flights\n        window",
            "OW-1026",
            "spec.computations.by_carrier.aggregate.late",
            "taken by `spec.sources.flights`",
        ),
        (
            &[("window: {", "late: hourly\n        window: {")],
            "hourly\n        window",
            "OW-1026",
            "spec.computations.by_carrier.aggregate.late",
            "taken by `spec.sinks.hourly`",
        ),
        (
            &[("window: {", "late: -x\n        window: {")],
            "-x",
            "OW-1025",
            "spec.computations.by_carrier.aggregate.late",
            "letters, digits",
        ),
        (
            &[
                ("window: {", "late: too_late\n        window: {"),
                ("inputs: [by_carrier]", "inputs: [too_lat]"),
            ],
            "too_lat]",
            "OW-1050",
            "spec.sinks.hourly.inputs",
            "did you mean `too_late`?",
        ),
        (
            &[
                ("window: {", "late: too_late\n        window: {"),
                ("inputs: [flights]", "inputs: [flights, too_late]"),
            ],
            "[flights, too_late]",
            "OW-1051",
            "spec.computations.arrived.inputs",
            "arrived -> by_carrier -> arrived",
        ),
    ]);
}

#[test]
fn every_bad_at_most_once_is_refused_at_its_place() {
    let strategy = |more: &'static str| [("format: jsonl }", more), ("  require: exactly_once\n", "")];
    refuses(&[
        (
            &strategy(
                "format: jsonl }\n      delivery: at_least_once\n      atMostOnceStrategy: { enabled: true }",
            ),
            "true }",
            "OW-1082",
            "spec.sinks.hourly.atMostOnceStrategy.enabled",
            "beside `delivery: at_least_once`, expected `delivery: at_most_once` or none",
        ),
        (
            &strategy(
                "format: jsonl }\n      delivery: at_most_once\n      atMostOnceStrategy: { enabled: false }",
            ),
            "false }",
            "OW-1082",
            "spec.sinks.hourly.atMostOnceStrategy.enabled",
            "which implies `enabled: true`",
        ),
        (
            &strategy("format: jsonl }\n      atMostOnceStrategy: { totalQueueBytesLimit: 1MiB }"),
            "{ totalQueue",
            "OW-1082",
            "spec.sinks.hourly.atMostOnceStrategy",
            "limits of a delivery that is not chosen",
        ),
        (
            &strategy(
                "format: jsonl }\n      atMostOnceStrategy: { enabled: true, totalQueueBytesLimit: 0 }",
            ),
            "0 }",
            "OW-1023",
            "spec.sinks.hourly.atMostOnceStrategy.totalQueueBytesLimit",
            "at least 1 bytes",
        ),
        (
            &strategy(
                "format: jsonl }\n      atMostOnceStrategy: { enabled: true, suspendDestructionDuration: 5 }",
            ),
            "5 }",
            "OW-1022",
            "spec.sinks.hourly.atMostOnceStrategy.suspendDestructionDuration",
            "`5s` if it means seconds",
        ),
        (
            &strategy("format: jsonl }\n      at_most_once_strategy: { enabled: true }"),
            "at_most_once_strategy",
            "OW-1020",
            "spec.sinks.hourly.at_most_once_strategy",
            "did you mean `atMostOnceStrategy`?",
        ),
    ]);
}

#[test]
fn an_expression_error_points_into_the_expression() {
    // Each expression ends in a stray operator; the compiler's offset is mapped back to the file.
    for (written, mark) in [
        ("has(arr_delay) && )", ")\n    by"),
        ("'has(arr_delay) && )'", ")'\n    by"),
        ("\"has(arr_delay) && )\"", ")\"\n    by"),
        ("|\n            has(arr_delay)\n            && )", ")\n    by"),
    ] {
        let text = flights(&[("has(arr_delay)", written)]);
        let problem = only_problem(&text, &[]);
        assert!(problem.code.starts_with("OW-50"), "{problem}");
        assert_eq!((problem.place.line, problem.place.column), place_of(&text, mark), "{written}\n{problem}");
    }
    let text = flights(&[("max(arr_delay)", "max(1 + )")]);
    let problem = only_problem(&text, &[]);
    assert_eq!((problem.place.line, problem.place.column), {
        let (line, column) = place_of(&text, "max(1 + )");
        (line, column + 7)
    });
}

#[test]
fn all_problems_come_at_once_in_order() {
    let text = flights(&[
        ("name: flight-delays", "name: flight delays"),
        ("format: csv", "format: cvs"),
        ("inputs: [arrived]", "inputs: [arived]"),
        ("max(arr_delay)", "max("),
    ]);
    let errors = parse_with(&text.replace("max( }", "\"max(\" }"), &[]).expect_err("refused");
    let codes: Vec<&str> = errors.items.iter().map(|item| item.code).collect();
    assert_eq!(codes, ["OW-1025", "OW-1024", "OW-1050", "OW-1071"], "{errors}");
}

#[test]
fn syntax_errors_have_a_place_and_a_hint() {
    for (text, line, part) in [
        ("a: [1, 2\n", 1, ""),
        ("a:\n\tb: 1\n", 2, "not with tabs"),
        ("a: { b: ${X:y} }\n", 1, "double quotes"),
        ("a: b ? c : d: e\n", 1, "in quotes"),
    ] {
        let problem = only_problem(text, &[]);
        assert_eq!(problem.code, "OW-1001", "{text:?} {problem}");
        assert_eq!(problem.place.line, line, "{text:?} {problem}");
        assert!(problem.help.clone().unwrap_or_default().contains(part), "{text:?} {problem}");
    }
    for text in ["", "\n# only a comment\n"] {
        assert_eq!(only_problem(text, &[]).code, "OW-1006", "{text:?}");
    }
    assert_eq!(only_problem("- 1\n", &[]).code, "OW-1022");
}

#[test]
fn aliases_cannot_blow_up() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let item = format!("*a{}", level - 1);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", [item.as_str(); 10].join(", ")));
    }
    assert_eq!(only_problem(&bomb, &[]).code, "OW-1005");
    let mut deep = "a0: &a0 [[x]]\n".to_owned();
    for level in 1..60 {
        deep.push_str(&format!("a{level}: &a{level} [[*a{}]]\n", level - 1));
    }
    assert_eq!(only_problem(&deep, &[]).code, "OW-1005");
    assert_eq!(only_problem(&format!("{}x{}", "[".repeat(100), "]".repeat(100)), &[]).code, "OW-1005");
    assert_eq!(only_problem("a: &a [*a]\n", &[]).code, "OW-1001");
}

#[test]
fn bad_overrides_are_refused_without_their_value() {
    for (set, code, part) in [
        ("spec.require", "OW-1032", "without `=`"),
        ("=hunter2", "OW-1032", "a path of keys"),
        ("spec..require=hunter2", "OW-1032", "a path of keys"),
        ("spec.require=[hunter2", "OW-1032", "quotes of its own"),
        ("spec.sources.flihgts.type=hunter2", "OW-1033", "did you mean `flights`?"),
        ("spec.require.x=hunter2", "OW-1033", "`spec.require` has no `x`"),
        ("spec.sinks.hourly.inputs.7=hunter2", "OW-1033", "from 0"),
        ("spec.epoch.intervall=1s", "OW-1020", "did you mean `interval`?"),
    ] {
        let problem = only_problem(FLIGHTS, &[set]);
        let whole = problem.to_string();
        assert_eq!(problem.code, code, "{set}: {whole}");
        assert!(whole.contains(part), "{set}: {whole}");
        assert!(!whole.contains("hunter2"), "{whole}");
        assert_eq!(problem.place.line, 0, "{whole}");
    }
}

#[test]
fn the_value_of_a_variable_is_never_shown() {
    for (from, to) in [
        ("require: exactly_once", "require: ${SECRET}"),
        ("tumbling: 1h", "tumbling: \"${SECRET}\""),
        ("type: file\n      config:\n", "type: ${SECRET}\n      config:\n"),
        ("name: flight-delays", "name: \"-${SECRET}\""),
        ("kind: Pipeline", "kind: ${SECRET}"),
        ("format: csv", "format: ${SECRET}"),
    ] {
        let text = flights(&[(from, to)]);
        let errors = parse_with(&text, &[]).expect_err("refused");
        let shown = render(&errors.items, &text, "p.yaml", false);
        assert!(!shown.contains("hunter2") && shown.contains("${SECRET}"), "{shown}");
    }
}

#[test]
fn rendering_shows_the_line_with_a_caret() {
    let text = flights(&[("tumbling: 1h", "tumblin: 1h, tumbling: 1h")]);
    let errors = parse_with(&text, &[]).expect_err("refused");
    assert_eq!(
        render(&errors.items, &text, "p.yaml", false),
        "\
p.yaml:25:19: error OW-1020: unknown key `tumblin` of window, expected `tumbling`
  25 |         window: { tumblin: 1h, tumbling: 1h }
     |                   ^
  at: spec.computations.by_carrier.aggregate.window.tumblin
  help: did you mean `tumbling`?
"
    );
    assert!(render(&errors.items, &text, "p.yaml", true).contains("\u{1b}[1;31merror OW-1020"));
}

#[test]
fn rendering_survives_tabs_long_lines_and_control_characters() {
    let item = |column| {
        let place = Place { line: 1, column };
        [Diagnostic::error("OW-1001", place, "", "found \u{1b}[2J")]
    };
    let shown = render(&item(3), "a\tb\u{1b}c\n", "p.yaml", false);
    assert!(shown.contains("1 | a\tb\u{fffd}c\n") && shown.contains(" |  \t^\n"), "{shown}");
    let long = "x".repeat(5000);
    let shown = render(&item(4000), &long, "p.yaml", false);
    assert!(shown.lines().all(|line| line.len() < 200), "{shown}");
    assert!(!shown.contains('\u{1b}'));
    // A place that is not in the text shows no line.
    assert!(!render(&item(1), "", "p.yaml", false).contains('|'));
}
