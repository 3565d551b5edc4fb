//! Nothing that a file can hold makes the parser panic or run away.

use proptest::prelude::*;

use super::{FLIGHTS, accepted, flights, parse_with, registry};
use crate::{canonical, changes, diff, outbox, render, report};

/// The flights with every kind of key in it.
fn everything() -> String {
    flights(&[
        ("  require: exactly_once\n", "  replicas: 2\n  replayCheck: 10\n"),
        ("24h }", "24h, idleAfter: 1m }\n      materialise: true"),
        ("- filter: has(arr_delay)", "- function: split"),
        (
            "groupBy:",
            "minPartitions: 2\n      maxPartitions: 8\n      dedupBy: [id]\n      dedupFor: 1h\n      groupBy:",
        ),
        ("window: {", "late: too_late\n        window: {"),
        (
            "  sinks:\n",
            "    people:\n      inputs: [too_late]\n      groupBy: [a]\n      inputDedup: full\n      processingMode: at_least_once_consistent\n      process: { function: sessions, config: { gap: 3 } }\n  sinks:\n    raw:\n      inputs: [people]\n      type: stdout\n      delivery: at_most_once\n      atMostOnceStrategy: { enabled: true, totalQueueBytesLimit: 1KiB }\n",
        ),
    ])
}

fn digest(text: &str, sets: &[&str]) {
    match parse_with(text, sets) {
        Ok(parsed) => {
            drop(render(&parsed.warnings, text, "p.yaml", true));
            drop(report(&parsed.pipeline, &registry()).to_text());
            for sink in &parsed.pipeline.sinks {
                drop(outbox(&parsed.pipeline, &registry(), sink));
            }
            let stored = canonical(&parsed.pipeline, &registry());
            assert_eq!(
                changes(&stored, &parsed.pipeline, &registry()),
                [],
                "a manifest changes nothing of itself"
            );
        }
        Err(errors) => {
            assert!(!errors.items.is_empty(), "a refusal says why");
            drop(render(&errors.items, text, "p.yaml", false));
        }
    }
}

/// Pieces that manifests are made of, and that parsers stumble over.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("\n".to_owned()),
        Just("\n  ".to_owned()),
        Just(": ".to_owned()),
        Just("- ".to_owned()),
        Just("${".to_owned()),
        Just("}".to_owned()),
        Just("{ ".to_owned()),
        Just("[".to_owned()),
        Just("]".to_owned()),
        Just(", ".to_owned()),
        Just("&a ".to_owned()),
        Just("*a".to_owned()),
        Just("|\n      ".to_owned()),
        Just("\"".to_owned()),
        Just("\u{e9}\u{1f600}".to_owned()),
        Just("(".to_owned()),
        Just(")".to_owned()),
        "[a-z]{1,3}",
        "[0-9]{1,20}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text(text in any::<String>(), set in any::<String>()) {
        digest(&text, &[&set]);
    }

    #[test]
    fn any_text_of_yaml_pieces(pieces in prop::collection::vec(piece(), 0..60)) {
        digest(&pieces.concat(), &[]);
    }

    #[test]
    fn a_manifest_with_any_piece_put_anywhere(at in 0..FLIGHTS.len(), cut in 0usize..20, piece in piece()) {
        let end = (at + cut).min(FLIGHTS.len());
        digest(&format!("{}{piece}{}", &FLIGHTS[..at], &FLIGHTS[end..]), &[]);
    }

    #[test]
    fn everything_with_any_piece_put_anywhere(at in 0usize..2000, cut in 0usize..20, piece in piece()) {
        let text = everything();
        let start = at.min(text.len());
        let end = (start + cut).min(text.len());
        digest(&format!("{}{piece}{}", &text[..start], &text[end..]), &[]);
    }

    #[test]
    fn any_stored_text(text in any::<String>(), at in 0usize..600, piece in piece()) {
        let pipeline = accepted(FLIGHTS).pipeline;
        let mut stored = canonical(&pipeline, &registry());
        stored.insert_str(at.min(stored.len()), &piece);
        for old in [text, stored] {
            let found = changes(&old, &pipeline, &registry());
            for change in &found {
                prop_assert!(!change.to_string().is_empty());
            }
            drop(diff(&old, &canonical(&pipeline, &registry())));
        }
    }

    #[test]
    fn any_expression_anywhere(text in "[ -~]{0,24}") {
        let set = format!("spec.computations.arrived.steps.0.filter={text}");
        let call = format!("spec.computations.by_carrier.aggregate.compute.worst=max({text})");
        digest(FLIGHTS, &[&set, &call]);
    }
}

#[test]
fn parsing_is_a_function_of_its_input() {
    assert_eq!(accepted(FLIGHTS), accepted(FLIGHTS));
    assert_eq!(accepted(&everything()), accepted(&everything()));
}
