//! Nothing that a file can hold makes the parser panic or run away.

use proptest::prelude::*;

use super::{FLIGHTS, accepted, parse_with, registry};
use crate::{canonical, render, report};

fn digest(text: &str, sets: &[&str]) {
    match parse_with(text, sets) {
        Ok(parsed) => {
            drop(render(&parsed.warnings, text, "p.yaml", true));
            drop(report(&parsed.pipeline, &registry()).to_text());
            drop(canonical(&parsed.pipeline, &registry()));
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
    fn any_expression_anywhere(text in "[ -~]{0,24}") {
        let set = format!("spec.computations.arrived.steps.0.filter={text}");
        let call = format!("spec.computations.by_carrier.aggregate.compute.worst=max({text})");
        digest(FLIGHTS, &[&set, &call]);
    }
}

#[test]
fn parsing_is_a_function_of_its_input() {
    assert_eq!(accepted(FLIGHTS), accepted(FLIGHTS));
}
