//! The fingerprint: the same for what may change while state exists, another one for the rest.

use super::{FLIGHTS, accepted, flights, registry};
use crate::{canonical, diff};

fn fingerprint(text: &str) -> String {
    canonical(&accepted(text).pipeline, &registry())
}

#[test]
fn what_state_does_not_depend_on_changes_nothing() {
    let first = fingerprint(FLIGHTS);
    for changes in [
        &[("  require: exactly_once\n", "  epoch: { interval: 1s }\n  shutdownTimeout: 1s\n")][..],
        &[("kind: Pipeline", "kind: Pipeline # the same\n")],
        &[("tumbling: 1h", "tumbling: 60m")],
        &[(
            "format: jsonl }",
            "format: jsonl, rollInterval: 1m, maxRows: 1000000 }\n      delivery: exactly_once",
        )],
        &[("nullValues:", "delimiter: \",\"\n        header: true\n        nullValues:")],
        &[("data/flights", "./data/flights")],
        &[("  require:", "  replicas: 7\n  replayCheck: 1\n  require:")],
        &[("groupBy:", "partitions: 8\n      groupBy:")],
        &[("groupBy:", "minPartitions: 1\n      maxPartitions: 9\n      groupBy:")],
        &[("groupBy:", "inputDedup: frontier\n      groupBy:")],
        &[("groupBy:", "processingMode: at_least_once_consistent\n      groupBy:")],
        &[("      eventTime:", "      materialise: false\n      eventTime:")],
        &[
            ("  require: exactly_once\n", ""),
            (
                "format: jsonl }",
                "format: jsonl }\n      delivery: at_least_once\n      atMostOnceStrategy: { enabled: false }",
            ),
        ],
        &[("arr_delay: int, time_hour: timestamp", "time_hour: timestamp, arr_delay: int")],
    ] {
        let text = flights(changes);
        assert_eq!(fingerprint(&text), first, "{changes:?}");
    }
}

#[test]
fn moving_the_whole_folder_changes_nothing() {
    let mut moved = accepted(FLIGHTS).pipeline;
    let text = canonical(&moved, &registry());
    assert!(!text.contains("/base"), "{text}");
    moved.base_dir = "/elsewhere".into();
    assert!(canonical(&moved, &registry()).contains("/base/data"), "paths outside stay absolute");
}

#[test]
fn what_state_depends_on_is_named() {
    let first = fingerprint(FLIGHTS);
    for (from, to, expected) in [
        (
            "tumbling: 1h",
            "tumbling: 2h",
            "spec.computations.by_carrier.aggregate.window.tumbling: was \"1h\", is \"2h\"",
        ),
        ("[carrier]", "[origin]", "spec.computations.by_carrier.groupBy: was [\"carrier\"], is [\"origin\"]"),
        (
            "window: {",
            "allowedLateness: 1m\n        window: {",
            "spec.computations.by_carrier.aggregate.allowedLateness: was \"0s\", is \"1m\"",
        ),
        (
            "has(arr_delay)",
            "arr_delay > 0",
            "spec.computations.arrived.steps[0].filter: was \"has(arr_delay)\", is \"arr_delay > 0\"",
        ),
        (
            "data/flights",
            "data/planes",
            "spec.sources.flights.config.path: was \"data/flights-*.csv.zst\", is \"data/planes-*.csv.zst\"",
        ),
        (", outOfOrderness: 24h", "", "spec.sources.flights.eventTime.outOfOrderness: was \"1d\", is \"0s\""),
        (
            "field: time_hour",
            "field: hour",
            "spec.sources.flights.eventTime.field: was \"time_hour\", is \"hour\"",
        ),
        ("out/hourly", "out/daily", "spec.sinks.hourly.config.path: was \"out/hourly\", is \"out/daily\""),
        ("format: jsonl }", "format: csv }", "spec.sinks.hourly.config.format: was \"jsonl\", is \"csv\""),
        (
            "inputs: [by_carrier]",
            "inputs: [arrived]",
            "spec.sinks.hourly.inputs: was [\"by_carrier\"], is [\"arrived\"]",
        ),
        ("name: flight-delays", "name: other", "metadata.name: was \"flight-delays\", is \"other\""),
        (
            "format: jsonl }",
            "format: jsonl, columns: [carrier] }",
            "spec.sinks.hourly.config.columns: is new, [\"carrier\"]",
        ),
    ] {
        let second = fingerprint(&flights(&[(from, to)]));
        assert_eq!(diff(&first, &second), [expected]);
    }
    let compute = diff(&first, &fingerprint(&flights(&[("worst: max", "worst: min")])));
    assert_eq!(compute.len(), 1);
    assert!(compute[0].starts_with("spec.computations.by_carrier.aggregate.compute: was "), "{compute:?}");
}

#[test]
fn the_order_of_parts_says_nothing_but_the_order_of_columns_does() {
    let sink = "    hourly:\n      inputs: [by_carrier]\n      type: file\n      config: { path: out/hourly, format: jsonl }\n";
    let second = "    raw: { inputs: [arrived], type: stdout }\n";
    let base = flights(&[("  require: exactly_once\n", "")]);
    let one = fingerprint(&base.replace(sink, &format!("{sink}{second}")));
    let two = fingerprint(&base.replace(sink, &format!("{second}{sink}")));
    assert_eq!(one, two);
    let swapped = flights(&[(
        "flights: count(), mean_delay: avg(arr_delay)",
        "mean_delay: avg(arr_delay), flights: count()",
    )]);
    assert_ne!(fingerprint(FLIGHTS), fingerprint(&swapped));
}

#[test]
fn equal_texts_differ_in_nothing_and_formats_always() {
    let text = fingerprint(FLIGHTS);
    assert_eq!(diff(&text, &text), Vec::<String>::new());
    let newer = text.replacen("onceward-spec 2", "onceward-spec 3", 1);
    assert_ne!(text, newer);
    assert_eq!(diff(&text, &newer), ["(format): is new, onceward-spec 3"]);
    assert_eq!(diff("", &text).len(), text.lines().count() - 1);
}
