//! The guarantee report: every path, its level, its weakest element and why.

use onceward_connector::Registry;
use onceward_protocol::guarantee::Level;

use super::{FLIGHTS, accepted, flights, registry};
use crate::{MAX_PATHS, report};

fn with_stdout() -> String {
    flights(&[
        ("  require: exactly_once\n", ""),
        ("  sinks:\n", "  sinks:\n    raw: { inputs: [arrived], type: stdout }\n"),
    ])
}

#[test]
fn a_path_of_strong_elements_is_exactly_once_with_its_conditions() {
    let report = report(&accepted(FLIGHTS).pipeline, &registry());
    assert_eq!((report.level, report.paths.len(), report.left_out), (Level::ExactlyOnce, 1, 0));
    assert_eq!(report.warning(), None);
    let names: Vec<&str> = report.paths[0].elements.iter().map(|element| element.name.as_str()).collect();
    assert_eq!(names, ["source flights", "computation arrived", "computation by_carrier", "sink hourly"]);
    let conditions: Vec<&str> = report.paths[0].conditions().collect();
    assert_eq!(conditions, ["the files stay as they are", "names are exclusive"]);
    let json = report.to_json();
    assert_eq!(json["level"], "exactly_once");
    assert_eq!(json["paths"][0]["route"], "flights -> arrived -> by_carrier -> hourly");
    assert_eq!(json["paths"][0]["conditions"][1], "names are exclusive");
}

#[test]
fn one_weak_sink_makes_its_path_and_the_pipeline_weak_and_no_other_path() {
    let report = report(&accepted(&with_stdout()).pipeline, &registry());
    assert_eq!(report.level, Level::AtLeastOnce);
    let levels: Vec<Level> = report.paths.iter().map(|path| path.level).collect();
    assert_eq!(levels, [Level::AtLeastOnce, Level::ExactlyOnce]);
    let warning = report.warning().expect("a warning");
    assert_eq!(
        warning,
        "the path flights -> arrived -> raw holds at-least-once: the weakest element is sink raw, because a terminal cannot tell a repeat"
    );
    assert_eq!(report.to_json()["paths"][0]["weakest"], "sink raw");
    let text = report.to_text();
    assert!(text.starts_with("flight-delays: at-least-once\n"), "{text}");
    assert!(
        text.contains("  sink raw: at-least-once, a terminal cannot tell a repeat  <- weakest\n"),
        "{text}"
    );
    assert!(text.contains("    - the files stay as they are\n"), "{text}");
}

#[test]
fn a_chosen_level_caps_the_path_and_says_so() {
    let text = flights(&[
        ("  require: exactly_once\n", ""),
        ("format: jsonl }", "format: jsonl }\n      delivery: at_least_once"),
    ]);
    let report = report(&accepted(&text).pipeline, &registry());
    assert_eq!(report.level, Level::AtLeastOnce);
    assert!(report.to_text().contains("the manifest asks for no more"), "{}", report.to_text());
}

#[test]
fn a_connector_that_is_not_there_promises_nothing() {
    let report = report(&accepted(FLIGHTS).pipeline, &Registry::default());
    assert_eq!(report.level, Level::AtMostOnce);
    assert!(report.to_text().contains("this build has no file"));
}

#[test]
fn diamonds_without_end_are_counted_not_walked() {
    let mut text = with_stdout();
    let mut before = "arrived".to_owned();
    let mut more = String::new();
    for level in 0..70 {
        for side in ["l", "r"] {
            more.push_str(&format!(
                "    {side}{level}: {{ inputs: [{before}], steps: [{{ filter: true }}] }}\n"
            ));
        }
        more.push_str(&format!(
            "    j{level}: {{ inputs: [l{level}, r{level}], steps: [{{ filter: true }}] }}\n"
        ));
        before = format!("j{level}");
    }
    text = text.replace("  sinks:\n", &format!("{more}  sinks:\n    all: {{ inputs: [{before}], type: file, config: {{ path: o, format: jsonl }} }}\n"));
    let report = report(&accepted(&text).pipeline, &registry());
    assert_eq!(report.paths.len(), MAX_PATHS);
    assert_eq!(report.left_out, u64::MAX - MAX_PATHS as u64);
    assert_eq!(report.level, Level::AtLeastOnce, "the weak path is not among those listed");
    assert!(report.warning().is_some());
}
