//! `init`: a first pipeline that runs at once, and nothing of the user's is touched.

use std::fs;

use crate::project::{MANIFEST, Project};

#[test]
fn what_init_writes_is_valid_runs_and_completes() {
    let project = Project::new(MANIFEST);
    project.onceward(&["init", "demo"]).expect(0);
    let read = |name: &str| fs::read_to_string(project.folder().join("demo").join(name)).expect(name);
    assert!(read("pipeline.yaml").starts_with("# yaml-language-server: $schema=./onceward.schema.json\n"));
    assert_eq!(read("onceward.schema.json"), project.onceward(&["schema"]).expect(0).stdout);

    let validated = project.onceward(&["validate", "demo/pipeline.yaml"]).expect(0);
    assert_eq!((validated.stdout.as_str(), validated.stderr.as_str()), ("demo/pipeline.yaml: ok\n", ""));
    let ended = project.onceward(&["run", "demo/pipeline.yaml"]).expect(0);
    assert_eq!(ended.row("sources", "orders"), ["10", "1/1"]);
    assert_eq!(ended.row("computations", "per_shop")[..3], ["9", "6", "0"]);
    let window = |shop: &str, from: u8, rest: &str| {
        let time = |hour| format!("2026-03-02T{hour:02}:00:00Z");
        let (start, end) = (time(from), time(from + 1));
        format!(r#"{{"shop":"{shop}","window_start":"{start}","window_end":"{end}",{rest}}}"#)
    };
    let expected = [
        window("harbour", 9, r#""orders":2,"revenue":15.60,"largest":12.50"#),
        window("harbour", 10, r#""orders":1,"revenue":25.00,"largest":25.00"#),
        window("harbour", 11, r#""orders":1,"revenue":0.90,"largest":0.90"#),
        window("market", 10, r#""orders":2,"revenue":13.50,"largest":6.75"#),
        window("station", 9, r#""orders":2,"revenue":11.60,"largest":7.20"#),
        window("station", 10, r#""orders":1,"revenue":18.00,"largest":18.00"#),
    ];
    assert_eq!(project.rows("demo/out/totals", 0), expected);
}

#[test]
fn nothing_is_overwritten_and_nothing_is_half_written() {
    for existing in ["pipeline.yaml", "data/orders.jsonl", "onceward.schema.json"] {
        let project = Project::new(MANIFEST);
        let name = format!("demo/{existing}");
        project.write(&name, "mine");
        let ended = project.onceward(&["init", "demo"]).expect(1);
        assert!(ended.stderr.contains(&format!("error: OW-6002: {name} already exists")), "{ended:#?}");
        assert_eq!(fs::read_to_string(project.folder().join(&name)).expect("read"), "mine");
        let others = ["pipeline.yaml", "data/orders.jsonl", "onceward.schema.json"];
        for other in others.iter().filter(|other| **other != existing) {
            assert!(!project.folder().join("demo").join(other).exists(), "{other} was written");
        }
    }
}

#[test]
fn without_a_folder_it_writes_here() {
    let folder = tempfile::tempdir().expect("a folder");
    crate::process::finish(crate::process::onceward(folder.path(), &["init"])).expect(0);
    assert!(folder.path().join("pipeline.yaml").is_file());
}
