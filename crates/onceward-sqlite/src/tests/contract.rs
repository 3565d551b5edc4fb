//! The contract suites, on tables that the sink makes and on tables that were there.

use std::path::PathBuf;

use onceward_connector::contract::{ProgressTarget, UpsertTarget, progress_writer, versioned_upsert_writer};

use super::*;

struct Target {
    path: PathBuf,
    /// Rows are read as the JSON that this gives.
    select: &'static str,
    sink: SqliteSink,
}

impl Target {
    fn rows(&self) -> Result<Vec<String>, String> {
        let read = || -> rusqlite::Result<Vec<String>> {
            let connection = Connection::open(&self.path)?;
            let mut rows = connection.prepare(self.select)?;
            rows.query_map([], |row| row.get(0))?.collect()
        };
        read().map_err(|error| error.to_string())
    }
}

impl ProgressTarget for Target {
    fn writer(&self) -> Result<Box<dyn ProgressWriter>, String> {
        Ok(progress(&self.sink, &identity(1, 0)))
    }
    fn visible(&self) -> Result<Vec<String>, String> {
        self.rows()
    }
    fn other_writer(&self) -> Option<Result<Box<dyn ProgressWriter>, String>> {
        Some(Ok(progress(&self.sink, &identity(1, 1))))
    }
}

impl UpsertTarget for Target {
    fn writer(&self, identity: &SinkIdentity) -> Result<Box<dyn PlainWriter>, String> {
        Ok(versioned(&self.sink, identity))
    }
    fn visible(&self) -> Result<Vec<String>, String> {
        self.rows()
    }
    fn deletion(&self, _key: u64) -> Option<String> {
        None
    }
}

const IDS: &str = "SELECT '{\"id\":' || id || '}' FROM rows";

#[test]
fn append_and_upsert_pass_the_progress_contract() {
    let cases: [(&str, &[&str], &[&str], &str); 4] = [
        ("append", &["id"], &[], IDS),
        ("append", &[], &[], "SELECT payload FROM rows"),
        ("upsert", &["id"], &["id"], IDS),
        ("upsert", &["other", "id"], &["id"], IDS),
    ];
    for (mode, columns, key, select) in cases {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("made/by/us.db");
        let target = Target { path: path.clone(), select, sink: sink(&path, mode, columns, key) };
        progress_writer(&target).unwrap_or_else(|why| panic!("{mode}, {columns:?}: {why}"));
    }
}

#[test]
fn tables_that_were_there_pass_the_progress_contract() {
    for declared in [
        "CREATE TABLE rows (ID INTEGER PRIMARY KEY, note TEXT DEFAULT 'x')",
        "CREATE TABLE rows (id TEXT PRIMARY KEY) WITHOUT ROWID, STRICT",
        "CREATE TABLE rows (id REAL); CREATE UNIQUE INDEX by_id ON rows (id)",
        "CREATE TABLE rows (id ANY PRIMARY KEY) STRICT",
    ] {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("theirs.db");
        run_sql(&path, declared);
        let select = "SELECT '{\"id\":' || CAST(id AS INTEGER) || '}' FROM rows";
        let target = Target { path: path.clone(), select, sink: sink(&path, "upsert", &["id"], &["id"]) };
        progress_writer(&target).unwrap_or_else(|why| panic!("{declared}: {why}"));
    }
}

#[test]
fn versioned_upserts_pass_their_contract() {
    let select = "SELECT '{\"key\":' || key || ',\"value\":' || value || '}' FROM rows";
    for made in [
        "",
        "CREATE TABLE rows (key INTEGER PRIMARY KEY, value INTEGER, onceward_origin TEXT, onceward_version TEXT)",
    ] {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("versions.db");
        run_sql(&path, made);
        let sink = sink(&path, "upsertVersioned", &["key", "value"], &["key"]);
        let target = Target { path: path.clone(), select, sink };
        versioned_upsert_writer(&target).unwrap_or_else(|why| panic!("{made:?}: {why}"));
    }
}

#[test]
fn a_row_that_nobody_versioned_is_not_taken_for_an_older_one() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("rows.db");
    run_sql(
        &path,
        "CREATE TABLE rows (id PRIMARY KEY, onceward_origin TEXT, onceward_version TEXT); INSERT INTO rows (id) VALUES (2)",
    );
    let sink = sink(&path, "upsertVersioned", &["id"], &["id"]);
    let error = definite(versioned(&sink, &identity(1, 0)).write(&block(1, 3)));
    assert_eq!(error.code, "OW-3212");
    assert_eq!(ids(&path), [2], "the whole block was refused");
}

#[test]
fn an_upsert_replaces_what_its_rows_name_and_keeps_other_columns() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("rows.db");
    run_sql(&path, "CREATE TABLE rows (k, j, v, note DEFAULT 'kept', PRIMARY KEY (j, k))");
    let sink = sink(&path, "upsert", &["v", "k", "j"], &["k", "j"]);
    let mut writer = progress(&sink, &identity(1, 0));
    let start = open(writer.as_mut(), A).expect("opens");
    let rows = [r#"{"k":1,"j":1,"v":"a"}"#, r#"{"k":1,"j":2,"v":"b"}"#, r#"{"j":1,"k":1,"v":null}"#];
    writer.write(&block_of(1, &rows), start, at(3, A)).expect("writes");
    run_sql(&path, "UPDATE rows SET note = 'theirs' WHERE j = 2");
    writer.write(&block_of(4, &[r#"{"k":1,"j":2,"v":"c"}"#]), at(3, A), at(4, A)).expect("writes");
    let connection = Connection::open(&path).expect("opens");
    let mut found =
        connection.prepare("SELECT k || j || coalesce(v, '-') || note FROM rows ORDER BY j").expect("SQL");
    let found: Vec<String> =
        found.query_map([], |row| row.get(0)).expect("reads").map(|row| row.expect("text")).collect();
    assert_eq!(found, ["11-kept", "12ctheirs"]);
}
