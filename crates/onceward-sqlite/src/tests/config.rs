//! What is refused before anything is touched, and what the docs say.

use onceward_connector::{SinkConnector, SinkContract};
use onceward_protocol::guarantee::Level;

use super::*;
use crate::sink::SqliteConnector;

const DOCS: &str = include_str!("../../../../docs/connectors/sqlite.md");

fn refused(mode: &str, columns: &[&str], key: &[&str], change: &[(&str, ConfigValue)]) -> ConnectorError {
    let mut config = config(Path::new("rows.db"), mode, columns, key);
    change.iter().for_each(|(name, value)| config.set(name, value.clone()));
    let built = SqliteConnector.build(&config, &StreamShape::default());
    built.err().unwrap_or_else(|| panic!("{mode}, {columns:?}, {key:?}, {change:?}: taken"))
}

#[test]
fn a_config_that_makes_no_sense_is_refused_at_its_key() {
    let table = |name: &str| [("table", ConfigValue::String(name.into()))];
    let columns = ["id", "v"];
    for (error, key) in [
        (refused("append", &columns, &["id"], &[]), "key"),
        (refused("upsert", &columns, &[], &[]), "key"),
        (refused("upsert", &columns, &["other"], &[]), "key"),
        (refused("upsert", &columns, &["id", "id"], &[]), "key"),
        (refused("upsertVersioned", &[], &["id"], &[]), "columns"),
        (refused("append", &["id", "ID"], &[], &[]), "columns"),
        (refused("append", &["id", ""], &[], &[]), "columns"),
        (refused("append", &["Onceward_Version"], &[], &[]), "columns"),
        (refused("append", &columns, &[], &table("")), "table"),
        (refused("append", &columns, &[], &table("Onceward_progress")), "table"),
        (refused("append", &columns, &[], &table("sqlite_x")), "table"),
        (refused("append", &columns, &[], &[("path", ConfigValue::Path("".into()))]), "path"),
        (refused("append", &columns, &[], &[("maxRows", ConfigValue::Integer(0))]), "maxRows"),
        (refused("append", &columns, &[], &[("flushInterval", ConfigValue::Duration(-1))]), "flushInterval"),
        (
            refused("append", &columns, &[], &[("busyTimeout", ConfigValue::Duration(i64::MAX))]),
            "busyTimeout",
        ),
    ] {
        assert_eq!((error.code, error.key), ("OW-3210", Some(key)), "{error}");
    }
}

#[test]
fn columns_come_from_the_config_then_from_the_input_then_there_is_one() {
    let dir = tempfile::tempdir().expect("temp dir");
    let known = StreamShape { columns: Some(vec!["a".into(), "b".into()]) };
    for (given, shape, expected) in [
        (&["x"][..], &known, &["x"][..]),
        (&[], &known, &["a", "b"]),
        (&[], &StreamShape::default(), &["payload"]),
    ] {
        let path = dir.path().join(format!("{}.db", expected.concat()));
        let sink = SqliteSink::new(&config(&path, "append", given, &[]), shape).expect("a good config");
        assert_eq!(sink.reads_fields(), expected != ["payload"]);
        open(progress(&sink, &identity(1, 0)).as_mut(), A).expect("opens");
        let connection = Connection::open(&path).expect("opens");
        let mut columns = connection.prepare("SELECT name FROM pragma_table_info('rows')").expect("SQL");
        let columns = columns.query_map([], |row| row.get::<_, String>(0)).expect("reads");
        assert_eq!(columns.map(|name| name.expect("text")).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn each_mode_promises_what_its_contract_keeps() {
    for (mode, key, level, contract) in [
        ("append", &[][..], Level::ExactlyOnce, SinkContract::ProgressInTarget),
        ("upsert", &["id"], Level::ExactlyOnce, SinkContract::ProgressInTarget),
        ("upsertVersioned", &["id"], Level::EffectivelyOnce, SinkContract::VersionedUpsert),
    ] {
        let config = config(Path::new("rows.db"), mode, &["id"], key);
        assert_eq!(SqliteConnector.promise(&config).level, level, "{mode}");
        let sink = SqliteConnector.build(&config, &StreamShape::default()).expect("a good config");
        assert_eq!(sink.contract(), contract, "{mode}");
    }
}

#[test]
fn the_fingerprint_is_the_table_itself_whatever_way_leads_there() {
    let dir = tempfile::tempdir().expect("temp dir");
    std::fs::create_dir(dir.path().join("real")).expect("folder");
    std::os::unix::fs::symlink(dir.path().join("real"), dir.path().join("link")).expect("link");
    let fingerprint = |path: &str, table: &str| {
        let mut config = config(&dir.path().join(path), "append", &["id"], &[]);
        config.set("table", ConfigValue::String(table.into()));
        SqliteSink::new(&config, &StreamShape::default()).expect("a good config").fingerprint()
    };
    let before = fingerprint("link/rows.db", "Rows");
    assert_eq!(before, fingerprint("real/none/../rows.db", "rows"));
    assert_ne!(before, fingerprint("real/rows.db", "rows2"));
    assert_ne!(before, fingerprint("real/rows2.db", "rows"));
    std::fs::write(dir.path().join("real/rows.db"), "").expect("writes");
    assert_eq!(before, fingerprint("link/rows.db", "ROWS"), "making the file changes nothing");
}

#[test]
fn nothing_is_touched_before_the_first_call() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("below/rows.db");
    let _writer = progress(&sink(&path, "append", &["id"], &[]), &identity(1, 0));
    assert!(!path.exists() && !dir.path().join("below").exists());
}

#[test]
fn the_docs_name_every_key_its_default_and_every_code() {
    for field in SqliteConnector.schema().fields {
        let row = DOCS.lines().find(|line| line.starts_with(&format!("| `{}` |", field.name)));
        let row = row.unwrap_or_else(|| panic!("no row for `{}`", field.name));
        let default = field.default.map(|default| format!("| `{default}` |"));
        assert!(default.is_none_or(|default| row.contains(&default)), "{row}");
        assert_eq!(row.contains("required |"), field.required, "{row}");
    }
    let sources = [
        include_str!("../error.rs"),
        include_str!("../database.rs"),
        include_str!("../progress.rs"),
        include_str!("../sink.rs"),
        include_str!("../table.rs"),
        include_str!("../versioned.rs"),
    ];
    for code in
        sources.iter().flat_map(|source| source.match_indices("OW-32").map(|(at, _)| &source[at..at + 7]))
    {
        assert!(DOCS.contains(&format!("| {code} |")), "{code} is not documented");
    }
}
