//! By reference or by value, and why.

use super::{AGGREGATE, accepted, flights, registry};
use crate::{Outbox, outbox, report};

/// A sink that reads what the steps put out, and the change of the manifest that is looked at.
fn of_raw(changes: &[(&str, &str)]) -> Outbox {
    let mut all = vec![
        ("  require: exactly_once\n", ""),
        ("  sinks:\n", "  sinks:\n    raw: { inputs: [arrived], type: stdout }\n"),
    ];
    all.extend(changes);
    let pipeline = accepted(&flights(&all)).pipeline;
    let sink = pipeline.sinks.iter().find(|sink| sink.name == "raw").expect("it is there");
    outbox(&pipeline, &registry(), sink)
}

const MORE: &str = "    more: { type: file, config: { path: x, format: jsonl }, eventTime: { field: t } }\n  computations:\n";

#[test]
fn pure_steps_on_an_unchanging_source_are_by_reference() {
    for changes in [
        &[][..],
        &[("inputs: [arrived], type", "inputs: [flights], type")],
        &[("filter: has(arr_delay)", "function: split")],
        &[("filter: has(arr_delay)", "map: { carrier: carrier, arr_delay: arr_delay }")],
        &[("inputs: [arrived], type", "inputs: [flights, arrived], type")],
        // Each input comes from one source.
        &[("  computations:\n", MORE), ("inputs: [arrived], type", "inputs: [arrived, more], type")],
        &[("stdout }", "stdout, delivery: at_least_once }")],
    ] {
        assert_eq!(of_raw(changes), Outbox::ByReference, "{changes:?}");
    }
}

#[test]
fn whatever_cannot_be_made_again_is_by_value() {
    let late = [("window: {", "late: too_late\n        window: {"), ("[arrived], type", "[too_late], type")];
    for (changes, reason) in [
        (&[("[arrived], type", "[by_carrier], type")][..], "what `by_carrier` puts out depends on its state"),
        (
            &[
                ("[arrived], type", "[by_carrier], type"),
                (AGGREGATE, "      process: { function: dedupe }\n"),
            ],
            "what `by_carrier` puts out depends on its state",
        ),
        (&late, "what `by_carrier` puts out depends on its state"),
        (
            &[("[arrived], type", "[arrived, by_carrier], type")],
            "what `by_carrier` puts out depends on its state",
        ),
        (
            &[("nullValues:", "label: grows\n        nullValues:")],
            "a file source such as `flights` may give other rows when it is read again",
        ),
        (&[("      eventTime:", "      materialise: true\n      eventTime:")], "`flights` is materialised"),
        (
            &[("  computations:\n", MORE), ("inputs: [flights]", "inputs: [flights, more]")],
            "`arrived` joins the rows of `flights` and `more`",
        ),
        (&[("stdout }", "stdout, delivery: at_most_once }")], "rows wait in memory"),
    ] {
        match of_raw(changes) {
            Outbox::ByValue(found) => assert!(found.contains(reason), "{found}"),
            Outbox::ByReference => panic!("{changes:?}"),
        }
    }
}

#[test]
fn what_this_build_does_not_have_is_by_value() {
    let pipeline = accepted(&flights(&[
        ("filter: has(arr_delay)", "function: split"),
        ("[by_carrier]\n", "[arrived]\n"),
    ]))
    .pipeline;
    let sink = &pipeline.sinks[0];
    let mut without = onceward_connector::Registry::default();
    assert_eq!(outbox(&pipeline, &without, sink), Outbox::ByValue("this build has no file".to_owned()));
    without.add_source(registry().source("file").expect("it is there").clone());
    let unknown = "nothing is known of the function `split` in `arrived`";
    assert_eq!(outbox(&pipeline, &without, sink), Outbox::ByValue(unknown.to_owned()));
}

#[test]
fn the_report_names_the_outbox_of_every_path() {
    let text = flights(&[
        ("  require: exactly_once\n", ""),
        ("  sinks:\n", "  sinks:\n    raw: { inputs: [arrived], type: stdout }\n"),
    ]);
    let report = report(&accepted(&text).pipeline, &registry());
    assert_eq!(report.outbox_of(&report.paths[0]), Some(&Outbox::ByReference));
    let shown = report.to_text();
    assert_eq!(shown.matches("  outbox: by reference\n").count(), 1, "{shown}");
    assert_eq!(shown.matches("  outbox: by value, because what `by_carrier` puts out").count(), 1, "{shown}");
    let json = report.to_json();
    assert_eq!(
        (&json["paths"][0]["outbox"], json["paths"][0]["outboxReason"].is_null()),
        (&"by_reference".into(), true)
    );
    assert_eq!(json["paths"][1]["outbox"], "by_value");
    assert!(json["paths"][1]["outboxReason"].as_str().is_some_and(|reason| reason.contains("state")));
}
