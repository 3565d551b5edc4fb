//! The guarantee report: every path, its level, its weakest element and why.

use onceward_connector::Registry;
use onceward_protocol::guarantee::Level;

use super::{AGGREGATE, FLIGHTS, accepted, flights, registry};
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

/// Everything that the only path rests on, and the report's level.
fn conditions(changes: &[(&str, &str)]) -> (Level, Vec<String>) {
    let mut all = vec![("  require: exactly_once\n", "")];
    all.extend(changes);
    let report = report(&accepted(&flights(&all)).pipeline, &registry());
    assert_eq!(report.paths.len(), 1);
    (report.level, report.paths[0].conditions().map(str::to_owned).collect())
}

#[test]
fn every_setting_that_a_guarantee_rests_on_is_named() {
    for (changes, condition) in [
        (
            &[("24h }", "24h, idleAfter: 10m }")][..],
            "no partition of `flights` is silent for 10m (`idleAfter`)",
        ),
        (
            &[("filter: has(arr_delay)", "function: split")],
            "the message function `split` is deterministic; one of 1000 messages is computed twice and compared",
        ),
        (
            &[("filter: has(arr_delay)", "function: split"), ("spec:\n", "spec:\n  replayCheck: 0\n")],
            "the message function `split` is deterministic; nothing checks it",
        ),
        (
            &[
                ("groupBy:", "steps: [{ function: split }]\n      groupBy:"),
                ("spec:\n", "spec:\n  replayCheck: 1\n"),
            ],
            "the message function `split` is deterministic; every message is computed twice",
        ),
        (
            &[("groupBy:", "dedupBy: [id, n]\n      dedupFor: 2h\n      groupBy:")],
            "no message for `by_carrier` comes more than 2h (`dedupFor`) behind the watermark: whether its id (id, n) was seen is then not known, and it is not taken but counted as expired",
        ),
    ] {
        let (level, found) = conditions(changes);
        assert_eq!(level, Level::ExactlyOnce);
        assert_eq!(found.len(), 3, "{found:#?}");
        assert!(found.iter().any(|found| found.contains(condition)), "{found:#?}");
    }
    // Nothing waits for an idle partition where nothing groups.
    let (_, found) =
        conditions(&[("24h }", "24h, idleAfter: 10m }"), ("inputs: [by_carrier]", "inputs: [arrived]")]);
    assert_eq!(found.len(), 2, "{found:#?}");
}

#[test]
fn what_is_stored_and_what_is_checked_is_said() {
    let text = flights(&[
        ("      eventTime:", "      materialise: true\n      eventTime:"),
        ("filter: has(arr_delay)", "function: split"),
        (AGGREGATE, "      process: { function: dedupe }\n"),
    ]);
    let report = report(&accepted(&text).pipeline, &registry());
    assert_eq!(report.level, Level::ExactlyOnce);
    let reasons: Vec<&str> =
        report.paths[0].elements.iter().map(|element| element.promise.reason.as_str()).collect();
    assert!(
        reasons[0].ends_with("; rows are stored as they were read before anything else sees them"),
        "{reasons:?}"
    );
    assert!(reasons[1].contains("the message function `split` is checked by replay"), "{reasons:?}");
    assert!(
        reasons[2].contains("the process function `dedupe` may be deterministic or not, its outputs are stored before they leave"),
        "{reasons:?}"
    );
}

#[test]
fn without_ids_a_repeat_counts_again_and_with_frontiers_nothing_changes() {
    let mode = "processingMode: at_least_once_consistent\n      groupBy:";
    assert_eq!(conditions(&[("groupBy:", mode)]).0, Level::ExactlyOnce);
    // The ids of messages are known by the lanes' order, stored or not.
    assert_eq!(conditions(&[("groupBy:", &format!("inputDedup: full\n      {mode}"))]).0, Level::ExactlyOnce);
    assert_eq!(conditions(&[("groupBy:", &format!("dedupBy: [id]\n      {mode}"))]).0, Level::AtLeastOnce);
    assert_eq!(conditions(&[("groupBy:", "inputDedup: full\n      groupBy:")]).0, Level::ExactlyOnce);
}

#[test]
fn at_most_once_is_the_weakest_of_all_and_says_what_it_does() {
    let text = flights(&[
        ("  require: exactly_once\n", ""),
        ("format: jsonl }", "format: jsonl }\n      atMostOnceStrategy: { enabled: true }"),
    ]);
    let report = report(&accepted(&text).pipeline, &registry());
    assert_eq!(report.level, Level::AtMostOnce);
    let warning = report.warning().expect("a warning");
    assert!(
        warning.contains("sink hourly, because the manifest asks for it (`delivery: at_most_once`)"),
        "{warning}"
    );
    assert!(warning.contains("counted"), "{warning}");
}

#[test]
fn late_rows_have_a_path_of_their_own() {
    let text = flights(&[
        ("  require: exactly_once\n", ""),
        ("window: {", "late: too_late\n        window: {"),
        ("  sinks:\n", "  sinks:\n    raw: { inputs: [too_late], type: stdout }\n"),
    ]);
    let report = report(&accepted(&text).pipeline, &registry());
    let routes = report.to_json()["paths"]
        .as_array()
        .expect("paths")
        .iter()
        .map(|path| path["route"].clone())
        .collect::<Vec<_>>();
    assert_eq!(
        routes,
        ["flights -> arrived -> by_carrier -> too_late -> raw", "flights -> arrived -> by_carrier -> hourly"]
    );
    let levels: Vec<Level> = report.paths.iter().map(|path| path.level).collect();
    assert_eq!((levels, report.level), (vec![Level::AtLeastOnce, Level::ExactlyOnce], Level::AtLeastOnce));
    // It is as weak as what it comes from, in the level of the whole as well.
    let weak = flights(&[
        ("  require: exactly_once\n", ""),
        ("groupBy:", "dedupBy: [id]\n      processingMode: at_least_once_consistent\n      groupBy:"),
        ("window: {", "late: too_late\n        window: {"),
        ("inputs: [by_carrier]", "inputs: [too_late]"),
    ]);
    let report = crate::report(&accepted(&weak).pipeline, &registry());
    assert_eq!((report.paths[0].level, report.level), (Level::AtLeastOnce, Level::AtLeastOnce));
}
