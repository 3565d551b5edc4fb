//! What is accepted, and what the model then holds.

use std::path::PathBuf;

use onceward_connector::ConfigValue;
use onceward_protocol::guarantee::Level;

use super::{AGGREGATE, FLIGHTS, accepted, flights, parse_with};
use crate::keys::TABLES;
use crate::table::{Shape, Table};
use crate::{
    AggregateFunction, AggregateSpec, AtMostOnceSpec, DedupMode, DedupSpec, EpochLimits, EventTimeSpec,
    Expression, FunctionRef, KeyedSpec, OperatorSpec, Place, ProcessSpec, ProcessingMode, Producer, StepSpec,
    WindowsSpec, parse_duration, parse_size, stream_shape, streams,
};

fn windows(keyed: &KeyedSpec) -> &WindowsSpec {
    match &keyed.operator {
        OperatorSpec::Windows(windows) => windows,
        OperatorSpec::Process(process) => panic!("{process:?}"),
    }
}

fn expression(text: &str, line: u32, column: u32) -> Expression {
    Expression { text: text.to_owned(), place: Place { line, column } }
}

#[test]
fn the_flights_manifest_gives_its_model() {
    let parsed = accepted(FLIGHTS);
    assert_eq!(parsed.warnings, []);
    let pipeline = parsed.pipeline;
    assert_eq!(pipeline.name, "flight-delays");
    assert_eq!(pipeline.base_dir, PathBuf::from("/base"));
    assert_eq!(pipeline.require, Some(Level::ExactlyOnce));
    assert_eq!(pipeline.epoch, EpochLimits::default());
    assert_eq!(pipeline.shutdown_timeout_us, 600_000_000);
    assert_eq!((pipeline.replicas, pipeline.replay_check), (None, 1000));

    let source = &pipeline.sources[0];
    assert_eq!((source.name.as_str(), source.connector.as_str()), ("flights", "file"));
    assert_eq!(source.place, Place { line: 8, column: 5 });
    let time = EventTimeSpec {
        field: "time_hour".to_owned(),
        out_of_orderness_us: 86_400_000_000,
        idle_after_us: None,
    };
    assert_eq!(source.event_time, Some(time));
    assert!(!source.materialise);
    assert_eq!(source.config.path("path"), Some(&PathBuf::from("/base/data/flights-*.csv.zst")));
    assert_eq!(source.config.string("format"), Some("csv"));
    assert_eq!(source.config.list("nullValues"), ["NA"]);
    let types = [("arr_delay", "int"), ("time_hour", "timestamp")];
    assert_eq!(source.config.map("types"), types.map(|(name, kind)| (name.to_owned(), kind.to_owned())));
    assert_eq!(source.config.string("delimiter"), Some(","));
    assert_eq!(source.config.bool("header"), Some(true));
    assert_eq!(source.config.string("label"), None);

    let [arrived, by_carrier] = &pipeline.computations[..] else { panic!("two computations") };
    assert_eq!(arrived.inputs, ["flights"]);
    assert_eq!(arrived.steps, [StepSpec::Filter(expression("has(arr_delay)", 20, 19))]);
    assert_eq!(arrived.keyed, None);
    let keyed = by_carrier.keyed.as_ref().expect("keyed");
    assert_eq!(keyed.group_by, ["carrier"]);
    assert_eq!(keyed.partitions, 4);
    assert_eq!((keyed.min_partitions, keyed.max_partitions), (4, 4));
    let none = DedupSpec { mode: DedupMode::Frontier, by: Vec::new(), keep_us: 86_400_000_000 };
    assert_eq!((&keyed.dedup, keyed.processing_mode), (&none, ProcessingMode::ExactlyOnce));
    let windows = windows(keyed);
    assert_eq!((windows.window_us, windows.allowed_lateness_us, &windows.late), (3_600_000_000, 0, &None));
    let call = |function, argument| AggregateSpec { function, argument };
    assert_eq!(
        windows.compute,
        [
            ("flights".to_owned(), call(AggregateFunction::Count, None)),
            ("mean_delay".to_owned(), call(AggregateFunction::Avg, Some(expression("arr_delay", 26, 54)))),
            ("worst".to_owned(), call(AggregateFunction::Max, Some(expression("arr_delay", 26, 77)))),
        ]
    );

    let sink = &pipeline.sinks[0];
    assert_eq!((sink.name.as_str(), sink.connector.as_str()), ("hourly", "file"));
    assert_eq!((sink.delivery, sink.at_most_once), (None, None));
    assert_eq!(sink.config.path("path"), Some(&PathBuf::from("/base/out/hourly")));
    assert_eq!(sink.config.duration("rollInterval"), Some(60_000_000));
    assert_eq!(sink.config.size("maxSize"), Some(32 << 20));
    assert_eq!(sink.config.integer("maxRows"), Some(1_000_000));
    let columns = ["carrier", "window_start", "window_end", "flights", "mean_delay", "worst"];
    assert_eq!(stream_shape(&pipeline, &sink.inputs).columns, Some(columns.map(str::to_owned).to_vec()));
}

#[test]
fn the_defaults_of_the_tables_are_those_of_the_model() {
    let default = |table: &Table, key: &str| table.key(key).and_then(|key| key.default).expect("a default");
    let table = |name: &str| *TABLES.iter().find(|table| table.name == name).expect("a table");
    let epoch = EpochLimits::default();
    assert_eq!(parse_duration(default(table("epoch"), "interval")), Some(epoch.interval_us));
    assert_eq!(default(table("epoch"), "maxRows").parse(), Ok(epoch.max_rows));
    assert_eq!(parse_size(default(table("epoch"), "maxBytes")), Some(epoch.max_bytes));
    let timeout = parse_duration(default(table("spec"), "shutdownTimeout"));
    assert_eq!(timeout, Some(accepted(FLIGHTS).pipeline.shutdown_timeout_us));
    let keyed = accepted(FLIGHTS).pipeline.computations[1].keyed.clone().expect("keyed");
    assert_eq!(default(table("computation"), "partitions").parse(), Ok(keyed.partitions));
    let lateness = parse_duration(default(table("aggregate"), "allowedLateness"));
    assert_eq!(lateness, Some(windows(&keyed).allowed_lateness_us));
    assert_eq!(parse_duration(default(table("computation"), "dedupFor")), Some(keyed.dedup.keep_us));
    assert_eq!(default(table("computation"), "inputDedup"), "auto");
    assert_eq!(default(table("computation"), "processingMode"), "exactly_once");
    assert_eq!(default(table("spec"), "replayCheck").parse(), Ok(accepted(FLIGHTS).pipeline.replay_check));
    assert_eq!(default(table("source"), "materialise"), "false");
    let text = flights(&[
        ("  require: exactly_once\n", ""),
        ("format: jsonl }", "format: jsonl }\n      delivery: at_most_once"),
    ]);
    let strategy = accepted(&text).pipeline.sinks[0].at_most_once.expect("at most once");
    let limits = table("atMostOnceStrategy");
    assert_eq!(default(limits, "enabled"), "false");
    assert_eq!(parse_size(default(limits, "totalQueueBytesLimit")), Some(strategy.queue_bytes));
    assert_eq!(parse_duration(default(limits, "suspendDestructionDuration")), Some(strategy.suspend_us));
    assert_eq!(parse_duration(default(table("eventTime"), "outOfOrderness")), Some(0));
    // No other key has a default that this test would miss.
    let count = TABLES.iter().flat_map(|table| table.keys).filter(|key| key.default.is_some()).count();
    assert_eq!(count, 15);
    let words = TABLES.iter().flat_map(|table| table.keys).filter_map(|key| match key.shape {
        Shape::Word(words) if !["inputDedup", "processingMode"].contains(&key.name) => Some(words),
        _ => None,
    });
    for word in words.flatten() {
        assert!(Level::parse(word).is_some(), "{word}");
    }
}

#[test]
fn the_keys_that_need_a_grouping_are_those_behind_it_in_the_table() {
    let table = *TABLES.iter().find(|table| table.name == "computation").expect("a table");
    let behind: Vec<&str> = table.names().skip_while(|name| *name != "groupBy").skip(1).collect();
    assert_eq!(behind, crate::grouping::GROUPED);
}

#[test]
fn everything_that_can_be_given_is_read() {
    let text = flights(&[
        (
            "  require: exactly_once\n",
            "  epoch: { interval: 1s500ms, maxRows: 7, maxBytes: 2KiB }\n  shutdownTimeout: 1m\n",
        ),
        ("groupBy: [carrier]", "groupBy: [carrier, origin]\n      partitions: 16"),
        ("window: { tumbling: 1h }", "window: { tumbling: 1h30m }\n        allowedLateness: 10m"),
        ("format: jsonl }", "format: csv, maxSize: 100 }\n      delivery: at_least_once"),
    ]);
    let pipeline = accepted(&text).pipeline;
    assert_eq!(pipeline.require, None);
    assert_eq!(pipeline.epoch, EpochLimits { interval_us: 1_500_000, max_rows: 7, max_bytes: 2048 });
    assert_eq!(pipeline.shutdown_timeout_us, 60_000_000);
    let keyed = pipeline.computations[1].keyed.as_ref().expect("keyed");
    assert_eq!((keyed.partitions, windows(keyed).window_us), (16, 5_400_000_000));
    assert_eq!(windows(keyed).allowed_lateness_us, 600_000_000);
    assert_eq!(keyed.group_by, ["carrier", "origin"]);
    assert_eq!(pipeline.sinks[0].delivery, Some(Level::AtLeastOnce));
    assert_eq!(pipeline.sinks[0].config.size("maxSize"), Some(100));
}

#[test]
fn computations_come_in_the_order_of_their_inputs() {
    let text = flights(&[(
        "  sinks:",
        "    z: { inputs: [y, arrived], steps: [{ filter: true }] }\n    y: { inputs: [x], steps: [{ filter: true }] }\n    x: { inputs: [flights], steps: [{ filter: true }] }\n  sinks:",
    )]);
    let parsed = accepted(&text);
    let names: Vec<&str> = parsed.pipeline.computations.iter().map(|item| item.name.as_str()).collect();
    assert_eq!(names, ["arrived", "by_carrier", "x", "y", "z"]);
    let unused: Vec<&str> = parsed.warnings.iter().map(|warning| warning.path.as_str()).collect();
    assert_eq!(unused, ["spec.computations.z", "spec.computations.y", "spec.computations.x"]);
    assert!(parsed.warnings.iter().all(|warning| warning.code == "OW-1053" && warning.place.line > 0));
}

#[test]
fn an_expression_may_be_any_scalar() {
    let text = flights(&[(
        "- filter: has(arr_delay)",
        "- filter: true\n        - map: { carrier: carrier, arr_delay: arr_delay, one: 1, half: 0.50, none: null, text: '\"x\"', long: 'a ? b : c' }",
    )]);
    let pipeline = accepted(&text).pipeline;
    let [StepSpec::Filter(filter), StepSpec::Map(fields)] = &pipeline.computations[0].steps[..] else {
        panic!("a filter and a map")
    };
    assert_eq!(filter.text, "true");
    let texts: Vec<(&str, &str)> =
        fields.iter().map(|(name, value)| (name.as_str(), value.text.as_str())).collect();
    assert_eq!(
        texts,
        [
            ("carrier", "carrier"),
            ("arr_delay", "arr_delay"),
            ("one", "1"),
            ("half", "0.50"),
            ("none", "null"),
            ("text", "\"x\""),
            ("long", "a ? b : c"),
        ]
    );
}

#[test]
fn variables_are_replaced_and_typed_anew() {
    let text = flights(&[
        ("data/flights-*.csv.zst", "${env:DIR}/${SUB:2013}/*.csv"),
        ("[\"NA\"]", "[\"$${NA}\", \"${EMPTY:x}\"]"),
        ("format: jsonl }", "format: jsonl, maxRows: \"${ROWS}\" }"),
    ]);
    // Quoted, so it stays a text.
    let errors = parse_with(&text, &[]).expect_err("refused");
    assert_eq!(errors.items[0].code, "OW-1022", "{errors}");

    let block = text.replace(
        "{ path: out/hourly, format: jsonl, maxRows: \"${ROWS}\" }",
        "\n        path: out\n        format: jsonl\n        maxRows: ${ROWS}",
    );
    let pipeline = accepted(&block).pipeline;
    assert_eq!(pipeline.sources[0].config.path("path"), Some(&PathBuf::from("/srv/in/2013/*.csv")));
    assert_eq!(pipeline.sources[0].config.list("nullValues"), ["${NA}", ""]);
    assert_eq!(pipeline.sinks[0].config.integer("maxRows"), Some(500));
}

#[test]
fn overrides_replace_add_and_make_objects() {
    let sets = [
        "spec.sources.flights.config.path=*.csv",
        "spec.sources.flights.config.nullValues=[\"\", \"-1\"]",
        "spec.epoch.interval=2s",
        "spec.epoch.maxRows=10",
        "spec.computations.arrived.steps.0.filter=arr_delay > ${NOT:a variable} + 1",
        "spec.sinks.hourly.config.maxRows=3",
    ];
    let errors = parse_with(FLIGHTS, &sets).expect_err("what the shell passed is not searched for variables");
    assert!(errors.items[0].code.starts_with("OW-50"), "{errors}");
    let sets: Vec<&str> = sets.iter().filter(|set| !set.contains("NOT")).copied().collect();
    let pipeline = parse_with(FLIGHTS, &sets).expect("accepted").pipeline;
    assert_eq!(pipeline.sources[0].config.path("path"), Some(&PathBuf::from("/base/*.csv")));
    assert_eq!(pipeline.sources[0].config.list("nullValues"), ["", "-1"]);
    assert_eq!((pipeline.epoch.interval_us, pipeline.epoch.max_rows), (2_000_000, 10));
    assert_eq!(pipeline.sinks[0].config.values().get("maxRows"), Some(&ConfigValue::Integer(3)));
}

#[test]
fn an_override_saves_a_value_whose_variable_is_missing() {
    let text = flights(&[("data/flights-*.csv.zst", "${NOPE}/x")]);
    let pipeline = parse_with(&text, &["spec.sources.flights.config.path=y"]).expect("accepted").pipeline;
    assert_eq!(pipeline.sources[0].config.path("path"), Some(&PathBuf::from("/base/y")));
}

#[test]
fn aliases_repeat_a_value() {
    let text = flights(&[(
        "config: { path: out/hourly, format: jsonl }",
        "config: &out { path: out/hourly, format: jsonl }\n    again: { inputs: [arrived], type: file, config: *out }",
    )]);
    let pipeline = accepted(&text).pipeline;
    assert_eq!(pipeline.sinks[0].config, pipeline.sinks[1].config);
}

#[test]
fn a_shape_is_known_only_where_all_inputs_agree() {
    let text = flights(&[(
        "  sinks:",
        "    a: { inputs: [arrived], steps: [{ map: { x: carrier, y: 1 } }] }\n    b: { inputs: [a], steps: [{ filter: x == 'AA' }] }\n    c: { inputs: [arrived], steps: [{ map: { y: 1, x: carrier } }] }\n    d: { inputs: [b, c], steps: [{ filter: x == y }] }\n  sinks:",
    )]);
    let pipeline = accepted(&text).pipeline;
    let shape = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        stream_shape(&pipeline, &names).columns
    };
    let known = Some(vec!["x".to_owned(), "y".to_owned()]);
    assert_eq!(shape(&["b"]), known);
    assert_eq!(shape(&["a", "b"]), known);
    assert_eq!(shape(&["d"]), None);
    assert_eq!(shape(&["a", "arrived"]), None);
    assert_eq!(shape(&["flights"]), None);
}

#[test]
fn a_grouping_may_have_steps_behind_it_and_sources_join_before_it() {
    let text = flights(&[
        (
            "  computations:",
            "    more:\n      type: file\n      config: { path: more.jsonl, format: jsonl }\n      eventTime: { field: t }\n  computations:",
        ),
        ("inputs: [arrived]", "inputs: [arrived, more]"),
        ("  sinks:", "    late: { inputs: [by_carrier], steps: [{ filter: worst > 10 }] }\n  sinks:"),
        ("inputs: [by_carrier]\n      type", "inputs: [late]\n      type"),
    ]);
    accepted(&text);
    let untimed = text.replace("      eventTime: { field: t }\n", "");
    let errors = parse_with(&untimed, &[]).expect_err("refused");
    assert_eq!(errors.items.len(), 1, "{errors}");
    assert_eq!((errors.items[0].code, errors.items[0].path.as_str()), ("OW-1063", "spec.sources.more"));
}

#[test]
fn what_runs_the_pipeline_is_read() {
    let text = flights(&[
        ("  require: exactly_once\n", "  replicas: 3\n  replayCheck: 0\n"),
        ("outOfOrderness: 24h }", "outOfOrderness: 24h, idleAfter: 10m }\n      materialise: true"),
        ("groupBy: [carrier]", "groupBy: [carrier]\n      minPartitions: 2\n      maxPartitions: 64"),
    ]);
    let pipeline = accepted(&text).pipeline;
    assert_eq!((pipeline.replicas, pipeline.replay_check), (Some(3), 0));
    assert!(pipeline.sources[0].materialise);
    assert_eq!(
        pipeline.sources[0].event_time.as_ref().and_then(|time| time.idle_after_us),
        Some(600_000_000)
    );
    let keyed = pipeline.computations[1].keyed.as_ref().expect("keyed");
    assert_eq!((keyed.min_partitions, keyed.partitions, keyed.max_partitions), (2, 4, 64));
    accepted(&flights(&[(
        "groupBy:",
        "partitions: 3\n      minPartitions: 3\n      maxPartitions: 3\n      groupBy:",
    )]));
    // A bound that is not given is the number itself.
    let text =
        flights(&[("groupBy: [carrier]", "groupBy: [carrier]\n      partitions: 8\n      maxPartitions: 9")]);
    let keyed = accepted(&text).pipeline.computations[1].keyed.clone().expect("keyed");
    assert_eq!((keyed.min_partitions, keyed.partitions, keyed.max_partitions), (8, 8, 9));
}

#[test]
fn auto_dedup_is_full_exactly_with_an_id_of_the_clients() {
    let dedup = |more: &str| {
        let text = flights(&[("groupBy: [carrier]", &format!("groupBy: [carrier]{more}"))]);
        accepted(&text).pipeline.computations[1].keyed.clone().expect("keyed").dedup
    };
    let day = 86_400_000_000;
    for (more, mode, by, keep_us) in [
        ("", DedupMode::Frontier, &[][..], day),
        ("\n      inputDedup: auto", DedupMode::Frontier, &[], day),
        ("\n      inputDedup: frontier", DedupMode::Frontier, &[], day),
        ("\n      inputDedup: full", DedupMode::Full, &[], day),
        ("\n      dedupBy: [tailnum, flight]", DedupMode::Full, &["tailnum", "flight"], day),
        (
            "\n      dedupBy: [id]\n      inputDedup: auto\n      dedupFor: 1h",
            DedupMode::Full,
            &["id"],
            day / 24,
        ),
        ("\n      dedupBy: [id]\n      inputDedup: full", DedupMode::Full, &["id"], day),
    ] {
        let by = by.iter().map(|field| (*field).to_owned()).collect();
        assert_eq!(dedup(more), DedupSpec { mode, by, keep_us }, "{more}");
    }
    let text = flights(&[(
        "groupBy: [carrier]",
        "groupBy: [carrier]\n      processingMode: at_least_once_consistent",
    )]);
    let keyed = accepted(&text).pipeline.computations[1].keyed.clone().expect("keyed");
    assert_eq!(keyed.processing_mode, ProcessingMode::AtLeastOnceConsistent);
}

#[test]
fn functions_are_read_with_their_settings() {
    let text = flights(&[
        ("- filter: has(arr_delay)", "- function: split"),
        (
            AGGREGATE,
            "      process: { function: dedupe, config: { b: \"x\", a: 0.50, 'any key': true, e: '' } }\n",
        ),
    ]);
    let pipeline = accepted(&text).pipeline;
    let place = |line, column| Place { line, column };
    let split = FunctionRef { name: "split".to_owned(), place: place(20, 21) };
    assert_eq!(pipeline.computations[0].steps, [StepSpec::Function(split)]);
    let keyed = pipeline.computations[1].keyed.as_ref().expect("keyed");
    let function = FunctionRef { name: "dedupe".to_owned(), place: place(24, 28) };
    let config = [("b", "x"), ("a", "0.50"), ("any key", "true"), ("e", "")];
    let config = config.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
    assert_eq!(keyed.operator, OperatorSpec::Process(ProcessSpec { function, config }));
    assert_eq!(stream_shape(&pipeline, &pipeline.sinks[0].inputs).columns, None);
}

#[test]
fn behind_a_function_any_field_may_be_read() {
    let steps = "- map: { carrier: carrier }\n        - function: split\n        - filter: whatever > 1";
    accepted(&flights(&[("- filter: has(arr_delay)", steps)]));
}

#[test]
fn a_function_needs_no_event_time_and_its_key_may_have_any_name() {
    accepted(&flights(&[
        ("      eventTime: { field: time_hour, outOfOrderness: 24h }\n", ""),
        ("[carrier]", "[window_start]"),
        (AGGREGATE, "      process: { function: dedupe }\n"),
    ]));
}

#[test]
fn late_rows_are_a_stream_of_their_own() {
    let text = flights(&[
        ("filter: has(arr_delay)", "map: { carrier: carrier, arr_delay: arr_delay }"),
        ("window: { tumbling: 1h }", "window: { tumbling: 1h }\n        late: too_late"),
        (
            "  sinks:\n",
            "    counted: { inputs: [too_late], groupBy: [carrier], aggregate: { window: { tumbling: 1d }, compute: { n: count() } } }\n  sinks:\n    raw: { inputs: [too_late], type: stdout }\n    all: { inputs: [counted], type: stdout }\n",
        ),
        ("  require: exactly_once\n", ""),
    ]);
    let parsed = accepted(&text);
    assert_eq!(parsed.warnings, []);
    let pipeline = parsed.pipeline;
    assert_eq!(pipeline.computations[1].late(), Some("too_late"));
    let streams = streams(&pipeline);
    assert_eq!(streams.len(), 5);
    assert!(matches!(streams["too_late"], Producer::Late(by) if by.name == "by_carrier"));
    assert!(matches!(streams["by_carrier"], Producer::Computation(by) if by.name == "by_carrier"));
    assert!(matches!(streams["flights"], Producer::Source(_)));
    // They are as they were behind the steps.
    let columns = stream_shape(&pipeline, &["too_late".to_owned()]).columns;
    assert_eq!(columns, Some(vec!["carrier".to_owned(), "arr_delay".to_owned()]));
    // Who reads them alone reads the computation.
    let alone = flights(&[
        ("  require: exactly_once\n", ""),
        ("window: { tumbling: 1h }", "window: { tumbling: 1h }\n        late: too_late"),
        ("inputs: [by_carrier]", "inputs: [too_late]"),
    ]);
    assert_eq!(accepted(&alone).warnings, []);
    // Nobody reads them.
    let unread = text
        .replace("[too_late], type", "[by_carrier], type")
        .replace("[too_late], groupBy", "[arrived], groupBy");
    let warnings = accepted(&unread).warnings;
    assert_eq!(warnings.len(), 1);
    assert_eq!(
        (warnings[0].code, warnings[0].path.as_str()),
        ("OW-1053", "spec.computations.by_carrier.aggregate.late")
    );
}

#[test]
fn windows_may_follow_windows_without_the_time_of_the_source() {
    let again = "    again:\n      inputs: [by_carrier]\n      groupBy: [worst]\n      aggregate: { window: { tumbling: 1d }, compute: { n: count() } }\n  sinks:";
    let text =
        flights(&[("  sinks:", again), ("inputs: [by_carrier]\n      type", "inputs: [again]\n      type")]);
    let pipeline = accepted(&text).pipeline;
    let columns = stream_shape(&pipeline, &["again".to_owned()]).columns;
    assert_eq!(columns, Some(["worst", "window_start", "window_end", "n"].map(str::to_owned).to_vec()));
    // The fields of a window are known: what the second one groups by must be among them.
    let errors = parse_with(&text.replace("[worst]", "[origin]"), &[]).expect_err("refused");
    assert_eq!(errors.items[0].code, "OW-1065", "{errors}");
}

#[test]
fn event_time_is_needed_by_windows_and_by_ids_of_clients() {
    // Only the first window is named as the one that misses the time; late rows have the source's time.
    let text = flights(&[
        ("      eventTime: { field: time_hour, outOfOrderness: 24h }\n", ""),
        ("window: { tumbling: 1h }", "window: { tumbling: 1h }\n        late: too_late"),
        (
            "  sinks:",
            "    again:\n      inputs: [too_late]\n      groupBy: [x]\n      aggregate: { window: { tumbling: 1d }, compute: { n: count() } }\n  sinks:",
        ),
    ]);
    let errors = parse_with(&text, &[]).expect_err("refused");
    assert_eq!(errors.items.len(), 1, "{errors}");
    assert!(errors.items[0].message.contains("behind it `by_carrier` computes over windows"), "{errors}");
    // Behind a function the time is that of the message.
    let function = text.replace(
        "      aggregate:\n        window: { tumbling: 1h }\n        late: too_late\n        compute: { flights: count(), mean_delay: avg(arr_delay), worst: max(arr_delay) }\n",
        "      process: { function: dedupe }\n",
    ).replace("inputs: [too_late]", "inputs: [by_carrier]");
    let errors = parse_with(&function, &[]).expect_err("refused");
    assert!(errors.items[0].message.contains("behind it `again` computes over windows"), "{errors}");
    let ids = function.replace(
        "      aggregate: { window: { tumbling: 1d }, compute: { n: count() } }\n",
        "      dedupBy: [id]\n      process: { function: dedupe }\n",
    );
    let errors = parse_with(&ids, &[]).expect_err("refused");
    assert_eq!(errors.items.len(), 1, "{errors}");
    assert!(errors.items[0].message.contains("behind it `again` remembers ids"), "{errors}");
}

#[test]
fn at_most_once_is_chosen_in_either_of_two_ways() {
    let with = |more: &str| {
        let text = flights(&[
            ("  require: exactly_once\n", ""),
            ("format: jsonl }", &format!("format: jsonl }}{more}")),
        ]);
        let sink = accepted(&text).pipeline.sinks[0].clone();
        (sink.delivery, sink.at_most_once)
    };
    let default = AtMostOnceSpec { queue_bytes: 64 << 20, suspend_us: 10_000_000 };
    let small = AtMostOnceSpec { queue_bytes: 1024, suspend_us: 0 };
    let chosen = |limits| (Some(Level::AtMostOnce), Some(limits));
    assert_eq!(with("\n      delivery: at_most_once"), chosen(default));
    assert_eq!(with("\n      atMostOnceStrategy: { enabled: true }"), chosen(default));
    assert_eq!(
        with("\n      delivery: at_most_once\n      atMostOnceStrategy: { enabled: true }"),
        chosen(default)
    );
    let limits = "totalQueueBytesLimit: 1KiB, suspendDestructionDuration: 0s";
    assert_eq!(
        with(&format!("\n      delivery: at_most_once\n      atMostOnceStrategy: {{ {limits} }}")),
        chosen(small)
    );
    assert_eq!(with(&format!("\n      atMostOnceStrategy: {{ enabled: true, {limits} }}")), chosen(small));
    // Kept for later.
    assert_eq!(with(&format!("\n      atMostOnceStrategy: {{ enabled: false, {limits} }}")), (None, None));
    assert_eq!(with("\n      delivery: effectively_once"), (Some(Level::EffectivelyOnce), None));
}
