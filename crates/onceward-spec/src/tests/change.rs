//! What a change takes: nothing, a stop with drain, or a decision about the state that it would orphan.

use super::{AGGREGATE, FLIGHTS, accepted, flights, registry};
use crate::{Change, ChangeClass, canonical, changes};

fn between(old: &str, new: &str) -> Vec<Change> {
    let old = canonical(&accepted(old).pipeline, &registry());
    changes(&old, &accepted(new).pipeline, &registry())
}

/// The changes as lines: `path: was .., is ..`, then what they take.
fn told(old: &str, new: &str) -> Vec<String> {
    let line = |change: &Change| match &change.class {
        ChangeClass::NeedsDrain => format!("{change} | drain"),
        ChangeClass::Orphans(what) => format!("{change} | {what}"),
    };
    between(old, new).iter().map(line).collect()
}

/// Without what makes every weaker variant an error.
fn base() -> String {
    flights(&[("  require: exactly_once\n", "")])
}

fn with(changes: &[(&str, &str)]) -> String {
    changes.iter().fold(base(), |text, (from, to)| {
        assert!(text.contains(from), "{from:?} is not in the manifest");
        text.replacen(from, to, 1)
    })
}

const PROCESS: &str = "      process: { function: dedupe }\n";

#[test]
fn nothing_is_no_change() {
    assert_eq!(between(FLIGHTS, FLIGHTS), []);
}

#[test]
fn what_may_change_while_running_is_no_change() {
    for changes in [
        &[(
            "spec:\n",
            "spec:\n  replicas: 2\n  replayCheck: 0\n  epoch: { interval: 1s }\n  shutdownTimeout: 1s\n",
        )][..],
        &[("spec:\n", "spec:\n  require: at_least_once\n")],
        &[("groupBy:", "partitions: 3\n      minPartitions: 1\n      maxPartitions: 12\n      groupBy:")],
        &[("format: jsonl }", "format: jsonl, maxRows: 7, rollInterval: 1s }")],
        &[("format: jsonl }", "format: jsonl }\n      delivery: at_least_once")],
        &[("groupBy:", "processingMode: at_least_once_consistent\n      groupBy:")],
    ] {
        assert_eq!(told(&base(), &with(changes)), Vec::<String>::new(), "{changes:?}");
        assert_eq!(told(&with(changes), &base()), Vec::<String>::new(), "{changes:?}");
    }
    let limits = |size| {
        with(&[(
            "format: jsonl }",
            &format!(
                "format: jsonl }}\n      delivery: at_most_once\n      atMostOnceStrategy: {{ totalQueueBytesLimit: {size} }}"
            ),
        )])
    };
    assert_eq!(told(&limits("1MiB"), &limits("2MiB")), Vec::<String>::new());
}

#[test]
fn what_changes_no_stored_place_and_no_state_needs_a_drain() {
    for (changes, expected) in [
        (
            &[("has(arr_delay)", "arr_delay > 0")][..],
            "spec.computations.arrived.steps[0].filter: was \"has(arr_delay)\", is \"arr_delay > 0\"",
        ),
        (
            &[("filter: has(arr_delay)", "filter: has(arr_delay)\n        - function: split")],
            "spec.computations.arrived.steps[1].function: is new, \"split\"",
        ),
        (
            &[("groupBy:", "steps: [{ filter: true }]\n      groupBy:")],
            "spec.computations.by_carrier.steps[0].filter: is new, \"true\"",
        ),
        (
            &[("inputs: [arrived]", "inputs: [flights]")],
            "spec.computations.by_carrier.inputs: was [\"arrived\"], is [\"flights\"]",
        ),
        (
            &[("window: {", "allowedLateness: 1m\n        window: {")],
            "spec.computations.by_carrier.aggregate.allowedLateness: was \"0s\", is \"1m\"",
        ),
        (
            &[("window: {", "late: too_late\n        window: {")],
            "spec.computations.by_carrier.aggregate.late: is new, \"too_late\"",
        ),
        (
            &[("out/hourly", "out/daily")],
            "spec.sinks.hourly.config.path: was \"out/hourly\", is \"out/daily\"",
        ),
        (
            &[("format: jsonl }", "format: csv }")],
            "spec.sinks.hourly.config.format: was \"jsonl\", is \"csv\"",
        ),
        (
            &[("inputs: [by_carrier]", "inputs: [arrived]")],
            "spec.sinks.hourly.inputs: was [\"by_carrier\"], is [\"arrived\"]",
        ),
        (
            &[("format: jsonl }", "format: jsonl }\n      delivery: at_most_once")],
            "spec.sinks.hourly.delivery: is new, \"at_most_once\"",
        ),
        (
            &[("outOfOrderness: 24h", "outOfOrderness: 1h")],
            "spec.sources.flights.eventTime.outOfOrderness: was \"1d\", is \"1h\"",
        ),
        (&[("24h }", "24h, idleAfter: 1m }")], "spec.sources.flights.eventTime.idleAfter: is new, \"1m\""),
        (
            &[("  sinks:\n", "  sinks:\n    raw: { inputs: [arrived], type: stdout }\n")],
            "spec.sinks.raw: is new, \"stdout\"",
        ),
        (
            &[("  sinks:\n", "    more: { inputs: [arrived], steps: [{ filter: true }] }\n  sinks:\n")],
            "spec.computations.more: is new, steps on [\"arrived\"]",
        ),
        (
            &[(
                "  sinks:\n",
                "    more: { inputs: [arrived], groupBy: [a, b], process: { function: dedupe, config: { a: b } } }\n  sinks:\n",
            )],
            "spec.computations.more: is new, a grouping by [\"a\",\"b\"]",
        ),
        (
            &[(
                "  computations:\n",
                "    more: { type: file, config: { path: x, format: jsonl } }\n  computations:\n",
            )],
            "spec.sources.more: is new, \"file\"",
        ),
    ] {
        assert_eq!(told(&base(), &with(changes)), [format!("{expected} | drain")], "{changes:?}");
    }
    // And back, where nothing that is gone held state.
    for (changes, expected) in [
        (
            ("  sinks:\n", "  sinks:\n    raw: { inputs: [arrived], type: stdout }\n"),
            "spec.sinks.raw: was \"stdout\", is gone",
        ),
        (
            ("  sinks:\n", "    more: { inputs: [arrived], steps: [{ filter: true }] }\n  sinks:\n"),
            "spec.computations.more: was steps on [\"arrived\"], is gone",
        ),
        (
            ("format: jsonl }", "format: jsonl }\n      delivery: at_most_once"),
            "spec.sinks.hourly.delivery: was \"at_most_once\", is gone",
        ),
    ] {
        assert_eq!(told(&with(&[changes]), &base()), [format!("{expected} | drain")], "{changes:?}");
    }
}

#[test]
fn what_would_orphan_or_reinterpret_state_says_which() {
    for (changes, path, orphaned) in [
        (
            &[("[carrier]", "[origin]")][..],
            "spec.computations.by_carrier.groupBy",
            "the state of `by_carrier`, which is kept by the keys [\"carrier\"]",
        ),
        (
            &[("tumbling: 1h", "tumbling: 2h")],
            "spec.computations.by_carrier.aggregate.window.tumbling",
            "the open windows of `by_carrier`, which have the size \"1h\"",
        ),
        (
            &[("worst: max(arr_delay)", "worst: min(arr_delay)")],
            "spec.computations.by_carrier.aggregate.compute",
            "the open windows of `by_carrier`, which hold the aggregates [[\"flights\",\"count()\"]",
        ),
        (
            &[(", worst: max(arr_delay)", "")],
            "spec.computations.by_carrier.aggregate.compute",
            "hold the aggregates",
        ),
        (
            &[("data/flights", "data/planes")],
            "spec.sources.flights.config.path",
            "the places up to which `flights` was read: with another `config.path` they can mean other rows",
        ),
        (
            &[("[\"NA\"]", "[\"none\"]")],
            "spec.sources.flights.config.nullValues",
            "the places up to which `flights` was read",
        ),
        (
            &[("field: time_hour", "field: hour")],
            "spec.sources.flights.eventTime.field",
            "made by the times in \"time_hour\"",
        ),
        (
            &[("      eventTime:", "      materialise: true\n      eventTime:")],
            "spec.sources.flights.materialise",
            "counted in another way",
        ),
    ] {
        let changes = between(&base(), &with(changes));
        let [Change { path: found, class: ChangeClass::Orphans(what), part, .. }] = &changes[..] else {
            panic!("{path}: {changes:?}")
        };
        assert_eq!(found, path);
        assert!(what.contains(orphaned), "{what}");
        assert_eq!(part.as_deref(), path.split('.').nth(2));
    }
    let name = between(&base(), &with(&[("name: flight-delays", "name: other")]));
    assert_eq!((name.len(), name[0].path.as_str(), &name[0].part), (1, "metadata.name", &None));
    assert!(matches!(&name[0].class, ChangeClass::Orphans(_)));
}

#[test]
fn a_part_that_is_gone_orphans_its_state() {
    let more = "    more: { type: file, config: { path: x, format: jsonl } }\n  computations:\n";
    assert_eq!(
        told(&with(&[("  computations:\n", more)]), &base()),
        ["spec.sources.more: was \"file\", is gone | the places up to which `more` was read"]
    );
    let grouping = "    more: { inputs: [arrived], groupBy: [a], process: { function: dedupe, config: { a: b } } }\n  sinks:\n";
    assert_eq!(
        told(&with(&[("  sinks:\n", grouping)]), &base()),
        [
            "spec.computations.more: was a grouping by [\"a\"], is gone | the state, open windows and timers of `more`"
        ]
    );
}

#[test]
fn a_new_name_is_one_part_gone_and_one_new() {
    let renamed = base().replace("by_carrier", "per_carrier");
    assert_eq!(
        told(&base(), &renamed),
        [
            "spec.computations.by_carrier: was a grouping by [\"carrier\"], is gone | the state, open windows and timers of `by_carrier`",
            "spec.computations.per_carrier: is new, a grouping by [\"carrier\"] | drain",
            "spec.sinks.hourly.inputs: was [\"by_carrier\"], is [\"per_carrier\"] | drain",
        ]
    );
}

#[test]
fn a_computation_that_begins_or_ceases_to_group_is_told_once() {
    let stateless =
        with(&[("      groupBy: [carrier]\n", ""), (AGGREGATE, "      steps: [{ filter: true }]\n")]);
    let step = "spec.computations.by_carrier.steps[0].filter";
    assert_eq!(
        told(&stateless, &base()),
        [
            "spec.computations.by_carrier.groupBy: is new, [\"carrier\"] | drain".to_owned(),
            format!("{step}: was \"true\", is gone | drain"),
        ]
    );
    assert_eq!(
        told(&base(), &stateless),
        [
            "spec.computations.by_carrier.groupBy: was [\"carrier\"], is gone | the state, open windows and timers of `by_carrier`".to_owned(),
            format!("{step}: is new, \"true\" | drain"),
        ]
    );
}

#[test]
fn another_function_would_read_state_in_its_own_way_and_other_settings_do_not() {
    let one = with(&[(AGGREGATE, PROCESS)]);
    let path = "spec.computations.by_carrier.process";
    assert_eq!(
        told(&one, &one.replace("dedupe", "sessions")),
        [format!(
            "{path}.function: was \"dedupe\", is \"sessions\" | the state and the timers of `by_carrier`, which \"dedupe\" wrote in its own form"
        )]
    );
    assert_eq!(
        told(&one, &one.replace("dedupe }", "dedupe, config: { b: 1, a: 2 } }")),
        [format!("{path}.config: is new, {{\"a\":\"2\",\"b\":\"1\"}} | drain")]
    );
    let other_way = told(&base(), &one);
    assert!(
        other_way
            .iter()
            .all(|line| line.contains("| the open windows of `by_carrier`")
                || line.contains("allowedLateness")),
        "{other_way:#?}"
    );
    assert_eq!(other_way.len(), 4);
}

#[test]
fn ids_of_clients_are_state() {
    let with_ids = |more: &str| with(&[("groupBy:", &format!("dedupBy: [id]{more}\n      groupBy:"))]);
    let one = with_ids("");
    assert_eq!(told(&one, &with_ids("\n      inputDedup: full\n      dedupFor: 1d")), Vec::<String>::new());
    let path = "spec.computations.by_carrier";
    assert_eq!(
        told(&one, &with_ids("\n      dedupFor: 1h")),
        [format!("{path}.dedupFor: was \"1d\", is \"1h\" | drain")]
    );
    assert_eq!(
        told(&one, &with_ids("\n      processingMode: at_least_once_consistent")),
        [format!("{path}.processingMode: is new, \"at_least_once_consistent\" | drain")]
    );
    assert_eq!(
        told(&base(), &one),
        [
            format!("{path}.dedupBy: is new, [\"id\"] | drain"),
            format!("{path}.dedupFor: is new, \"1d\" | drain"),
        ]
    );
    let gone = told(&one, &base());
    assert_eq!(
        gone[0],
        format!("{path}.dedupBy: was [\"id\"], is gone | the ids that `by_carrier` has taken")
    );
    let full = with(&[("groupBy:", "inputDedup: full\n      groupBy:")]);
    assert_eq!(told(&base(), &full), [format!("{path}.inputDedup: is new, \"full\" | drain")]);
    let changed = told(&one, &one.replace("dedupBy: [id]", "dedupBy: [id, n]"));
    assert_eq!(
        changed,
        [format!("{path}.dedupBy: was [\"id\"], is [\"id\",\"n\"] | the ids that `by_carrier` has taken")]
    );
}

#[test]
fn a_source_that_gets_a_time_had_nothing_that_went_by_it() {
    let untimed =
        with(&[("      eventTime: { field: time_hour, outOfOrderness: 24h }\n", ""), (AGGREGATE, PROCESS)]);
    let timed = with(&[(AGGREGATE, PROCESS)]);
    let given = told(&untimed, &timed);
    assert!(given.iter().all(|line| line.ends_with("| drain")) && given.len() == 2, "{given:?}");
    let taken = between(&timed, &untimed);
    assert!(matches!(&taken[0].class, ChangeClass::Orphans(what) if what.contains("timers")), "{taken:?}");
}

/// As the first version wrote it: with `partitions: 8` and a sink's `maxRows: 5`, which are live now.
const VERSION_1: &str = include_str!("canonical-1.txt");

#[test]
fn the_text_of_the_last_version_is_understood() {
    assert!(VERSION_1.starts_with("onceward-spec 1\n") && VERSION_1.contains("partitions = 8"));
    let changes = |text: &str| changes(VERSION_1, &accepted(text).pipeline, &registry());
    assert_eq!(changes(FLIGHTS), []);
    assert_eq!(changes(&flights(&[("groupBy:", "partitions: 2\n      groupBy:")])), []);
    let changed = changes(&flights(&[("[carrier]", "[origin]")]));
    assert_eq!((changed.len(), changed[0].path.as_str()), (1, "spec.computations.by_carrier.groupBy"));
    let full = changes(&flights(&[("groupBy:", "inputDedup: full\n      groupBy:")]));
    assert_eq!((full.len(), full[0].before.as_deref()), (1, None));
}

#[test]
fn a_text_that_cannot_be_read_is_never_no_change() {
    let text = canonical(&accepted(FLIGHTS).pipeline, &registry());
    for old in [
        text.replacen("onceward-spec 2", "onceward-spec 3", 1),
        String::new(),
        "onceward-spec 2\n".to_owned(),
    ] {
        let changes = changes(&old, &accepted(FLIGHTS).pipeline, &registry());
        assert_eq!(changes.len(), 1, "{old}");
        assert_eq!(changes[0].path, "(format)");
        assert!(matches!(&changes[0].class, ChangeClass::Orphans(what) if what.contains("cannot read")));
    }
}
