//! Bad configs and files that do not go together are refused, naming the key or the file.

use onceward_connector::SourceConnector;
use onceward_protocol::guarantee::Level;

use super::*;
use crate::source::FileSourceConnector;

fn build_error(format: &str, more: &[(&str, ConfigValue)]) -> (&'static str, Option<&'static str>) {
    let config = config(PathBuf::from("/data/*.x"), format, more);
    let error = FileSourceConnector.build(&config).err().expect("refused");
    (error.code, error.key)
}

#[test]
fn a_config_that_makes_no_sense_is_refused_at_its_key_without_touching_a_file() {
    let map = ConfigValue::Map(vec![("a".into(), "int".into())]);
    assert_eq!(build_error("jsonl", &[("types", map)]), ("OW-3003", Some("types")));
    assert_eq!(build_error("jsonl", &[("nullValues", texts(&["NA"]))]), ("OW-3003", Some("nullValues")));
    assert_eq!(build_error("jsonl", &[("columns", texts(&["a"]))]), ("OW-3003", Some("columns")));
    for delimiter in ["", ";;", "\"", "\n", "é"] {
        assert_eq!(build_error("csv", &[("delimiter", text(delimiter))]), ("OW-3004", Some("delimiter")));
    }
    assert_eq!(build_error("csv", &[("header", ConfigValue::Bool(false))]), ("OW-3005", Some("columns")));
    assert_eq!(build_error("csv", &[("columns", texts(&["a", "a"]))]), ("OW-3005", Some("columns")));
    let map = ConfigValue::Map(vec![("ab".into(), "int".into())]);
    assert_eq!(build_error("csv", &[("columns", texts(&["a"])), ("types", map)]), ("OW-3007", Some("types")));
}

#[test]
fn every_file_must_have_the_header_of_the_first_also_when_it_is_taken_up_again() {
    let dir = tempfile::tempdir().expect("temp dir");
    write(&dir.path().join("1.csv"), "a,b\n1,2\n");
    write(&dir.path().join("2.csv"), "b,a\n1,2\n");
    let files = source(dir.path().join("*.csv"), "csv", &[]);
    let error = refused(&files, "2.csv", Position::ORIGIN, &[]);
    assert_eq!(error.code, "OW-3008");
    assert!(
        error.message.contains("2.csv") && error.message.contains("found [b, a], expected [a, b]"),
        "{error}"
    );

    let (_, position, token) = some(open(&files, "1.csv").as_mut(), 1);
    write(&dir.path().join("0.csv"), "c\n1\n");
    let restarted = source(dir.path().join("*.csv"), "csv", &[]);
    assert_eq!(refused(&restarted, "1.csv", position, &token).code, "OW-3008");
}

#[test]
fn columns_in_the_manifest_must_equal_the_header() {
    let dir = tempfile::tempdir().expect("temp dir");
    write(&dir.path().join("1.csv"), "a,b\n1,2\n");
    let error =
        source(dir.path().join("*.csv"), "csv", &[("columns", texts(&["a"]))]).codec().expect_err("refused");
    assert_eq!((error.code, error.key), ("OW-3008", Some("columns")));
}

#[test]
fn a_csv_file_without_a_header_line_is_refused_by_name() {
    let dir = tempfile::tempdir().expect("temp dir");
    write(&dir.path().join("1.csv"), "\n\r\n");
    let error = source(dir.path().join("*.csv"), "csv", &[]).codec().expect_err("refused");
    assert_eq!(error.code, "OW-3006");
    assert!(error.message.contains("1.csv"), "{error}");
}

#[test]
fn files_without_a_header_take_their_columns_from_the_manifest() {
    let dir = tempfile::tempdir().expect("temp dir");
    write(&dir.path().join("1.csv"), "1,2\n3,4\n");
    let more = [("header", ConfigValue::Bool(false)), ("columns", texts(&["a", "b"]))];
    let source = source(dir.path().join("1.csv"), "csv", &more);
    assert_eq!(rest(open(&source, "1.csv").as_mut()).expect("reads"), ["1,2", "3,4"]);
}

#[test]
fn the_promise_is_exactly_once_and_names_its_condition() {
    let bounded = FileSourceConnector.promise(&config(PathBuf::from("/x"), "jsonl", &[]));
    assert_eq!(bounded.level, Level::ExactlyOnce);
    assert_eq!(
        bounded.conditions,
        ["the files stay as they are until the pipeline has finished reading them"]
    );
    let follow = [("bounded", ConfigValue::Bool(false))];
    let followed = FileSourceConnector.promise(&config(PathBuf::from("/x"), "jsonl", &follow));
    assert_eq!(followed.conditions, ["the files only ever grow at their end"]);
}
