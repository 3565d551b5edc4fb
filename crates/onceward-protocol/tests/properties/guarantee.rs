//! A path is as strong as its weakest element.

use onceward_protocol::guarantee::{Element, Level, PathReport, Promise};
use proptest::collection::vec;
use proptest::prelude::*;

const LEVELS: [Level; 4] =
    [Level::AtMostOnce, Level::AtLeastOnce, Level::EffectivelyOnce, Level::ExactlyOnce];

fn element() -> impl Strategy<Value = Element> {
    (0..4usize, vec("[a-z]{1,3}", 0..3)).prop_map(|(level, conditions)| Element {
        name: "element".to_owned(),
        promise: Promise { level: LEVELS[level], reason: String::new(), conditions },
    })
}

proptest! {
    #[test]
    fn the_level_is_the_least_and_the_weakest_is_the_last_of_equals(elements in vec(element(), 1..8)) {
        let report = PathReport::derive(elements.clone());
        prop_assert!(report.is_some());
        if let Some(report) = report {
            prop_assert!(elements.iter().all(|element| report.level <= element.promise.level));
            prop_assert_eq!(elements[report.weakest].promise.level, report.level);
            prop_assert!(elements[report.weakest + 1..].iter().all(|element| element.promise.level > report.level));
            prop_assert_eq!(&report.elements, &elements);
        }
    }

    #[test]
    fn every_condition_is_named_in_path_order(elements in vec(element(), 1..8)) {
        let expected: Vec<String> = elements.iter().flat_map(|element| element.promise.conditions.clone()).collect();
        let report = PathReport::derive(elements);
        let named: Vec<String> = report.iter().flat_map(|report| report.conditions()).map(str::to_owned).collect();
        prop_assert_eq!(named, expected);
    }

    #[test]
    fn another_element_never_makes_a_path_stronger(elements in vec(element(), 1..8), more in element()) {
        let before = PathReport::derive(elements.clone()).map(|report| report.level);
        let after = PathReport::derive([elements, vec![more]].concat()).map(|report| report.level);
        prop_assert!(after <= before);
    }
}

#[test]
fn an_empty_path_has_no_level() {
    assert_eq!(PathReport::derive(Vec::new()), None);
}

#[test]
fn a_level_is_read_as_it_is_named_and_levels_grow() {
    for level in LEVELS {
        assert_eq!(Level::parse(level.name()), Some(level));
        assert_eq!(level.to_string().replace('-', "_"), level.name());
    }
    assert!(LEVELS.is_sorted());
    assert_eq!(Level::parse("exactly-once"), None);
}
