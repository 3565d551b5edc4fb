//! Bad manifests and bad usage exit with 2 and say where.

use crate::project::{MANIFEST, Project};

#[test]
fn a_bad_manifest_is_refused_with_line_column_and_caret_by_every_command() {
    let project = Project::new(&MANIFEST.replace("eventTime:", "eventTme:"));
    for args in [&["run", "pipeline.yaml"][..], &["validate", "pipeline.yaml"], &["explain", "pipeline.yaml"]]
    {
        let ended = project.onceward(args).expect(2);
        assert!(ended.stderr.contains("pipeline.yaml:10:7: error OW-1020: "), "{args:?} {ended:#?}");
        let caret = "  10 |       eventTme: { field: at, outOfOrderness: 1h }\n     |       ^\n";
        assert!(ended.stderr.contains(caret), "{args:?} {ended:#?}");
        assert!(ended.stderr.contains("did you mean `eventTime`?"), "{args:?} {ended:#?}");
        assert!(ended.stdout.is_empty(), "{args:?} {ended:#?}");
    }
    assert!(!project.folder().join(".onceward").exists(), "something was started");
}

#[test]
fn validate_looks_at_every_manifest_and_needs_no_data() {
    let project = Project::new(MANIFEST);
    project.write("bad.yaml", "apiVersion: onceward.dev/v1\nkind: Pipeline\n");
    let unused =
        MANIFEST.replace("  sinks:", "    idle: { inputs: [rows], steps: [{ filter: 'true' }] }\n  sinks:");
    project.write("odd.yaml", &unused);
    let ended =
        project.onceward(&["validate", "bad.yaml", "absent.yaml", "pipeline.yaml", "odd.yaml"]).expect(2);
    assert_eq!(ended.stdout, "pipeline.yaml: ok\nodd.yaml: ok\n");
    assert!(ended.stderr.contains("bad.yaml:"), "{ended:#?}");
    assert!(ended.stderr.contains("error: OW-6001: cannot read the manifest absent.yaml: "), "{ended:#?}");
    assert!(ended.stderr.contains("odd.yaml:") && ended.stderr.contains("warning OW-1053"), "{ended:#?}");
    assert_eq!(project.onceward(&["validate", "pipeline.yaml"]).expect(0).stderr, "");
}

#[test]
fn set_and_variables_are_checked_like_the_file() {
    let project = Project::new(MANIFEST);
    let set = "spec.sinks.sums.config.format=xml";
    let ended = project.onceward(&["validate", "pipeline.yaml", "--set", set]).expect(2);
    assert!(ended.stderr.contains("pipeline.yaml: error OW-1024"), "{ended:#?}");
    project.edit("path: out,", "path: '${env:ONCEWARD_TEST_UNSET}',");
    let ended = project.onceward(&["validate", "pipeline.yaml"]).expect(2);
    assert!(ended.stderr.contains("OW-1030") && ended.stderr.contains("ONCEWARD_TEST_UNSET"), "{ended:#?}");
    let mut command = crate::process::onceward(project.folder(), &["validate", "pipeline.yaml"]);
    command.env("ONCEWARD_TEST_UNSET", "out");
    crate::process::finish(command).expect(0);
}

#[test]
fn wrong_usage_exits_with_2() {
    let project = Project::new(MANIFEST);
    for args in [
        &[][..],
        &["walk"],
        &["run"],
        &["run", "pipeline.yaml", "--rate", "0"],
        &["run", "pipeline.yaml", "--workers", "0"],
        &["validate"],
        &["run", "absent.yaml"],
    ] {
        project.onceward(args).expect(2);
    }
}

#[test]
fn the_schema_is_json_and_knows_the_connectors() {
    let project = Project::new(MANIFEST);
    let ended = project.onceward(&["schema"]).expect(0);
    let schema: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    for name in ["source-file-config", "sink-file-config", "sink-stdout-config"] {
        assert!(schema["$defs"][name].is_object(), "{name}");
    }
}

#[test]
fn help_has_examples_and_the_version_is_printed() {
    let project = Project::new(MANIFEST);
    for command in ["run", "validate", "explain", "schema", "init"] {
        let help = project.onceward(&[command, "--help"]).expect(0).stdout;
        assert!(help.contains("Example"), "{help}");
    }
    let version = project.onceward(&["--version"]).expect(0).stdout;
    assert_eq!(version, format!("onceward {}\n", env!("CARGO_PKG_VERSION")));
}
