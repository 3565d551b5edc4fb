//! What is accepted, and what the model then holds.

use std::path::PathBuf;

use onceward_connector::ConfigValue;
use onceward_protocol::guarantee::Level;

use super::{FLIGHTS, accepted, flights, parse_with};
use crate::keys::TABLES;
use crate::table::{Shape, Table};
use crate::{
    AggregateFunction, AggregateSpec, EpochLimits, EventTimeSpec, Expression, Place, StepSpec,
    parse_duration, parse_size, stream_shape,
};

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

    let source = &pipeline.sources[0];
    assert_eq!((source.name.as_str(), source.connector.as_str()), ("flights", "file"));
    assert_eq!(source.place, Place { line: 8, column: 5 });
    let time = EventTimeSpec { field: "time_hour".to_owned(), out_of_orderness_us: 86_400_000_000 };
    assert_eq!(source.event_time, Some(time));
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
    assert_eq!((keyed.window_us, keyed.allowed_lateness_us), (3_600_000_000, 0));
    let call = |function, argument| AggregateSpec { function, argument };
    assert_eq!(
        keyed.compute,
        [
            ("flights".to_owned(), call(AggregateFunction::Count, None)),
            ("mean_delay".to_owned(), call(AggregateFunction::Avg, Some(expression("arr_delay", 26, 54)))),
            ("worst".to_owned(), call(AggregateFunction::Max, Some(expression("arr_delay", 26, 77)))),
        ]
    );

    let sink = &pipeline.sinks[0];
    assert_eq!((sink.name.as_str(), sink.connector.as_str(), sink.delivery), ("hourly", "file", None));
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
    assert_eq!(lateness, Some(keyed.allowed_lateness_us));
    assert_eq!(parse_duration(default(table("eventTime"), "outOfOrderness")), Some(0));
    // No other key has a default that this test would miss.
    let count = TABLES.iter().flat_map(|table| table.keys).filter(|key| key.default.is_some()).count();
    assert_eq!(count, 7);
    let words = TABLES.iter().flat_map(|table| table.keys).filter_map(|key| match key.shape {
        Shape::Word(words) => Some(words),
        _ => None,
    });
    for word in words.flatten() {
        assert!(Level::parse(word).is_some(), "{word}");
    }
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
    assert_eq!((keyed.partitions, keyed.window_us), (16, 5_400_000_000));
    assert_eq!(keyed.allowed_lateness_us, 600_000_000);
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
