//! What goes wrong, with which answer and which code, and that nothing was written.

use super::*;

fn opened(path: &Path, columns: &[&str]) -> (SqliteSink, Box<dyn ProgressWriter>) {
    let sink = sink(path, "append", columns, &[]);
    let mut writer = progress(&sink, &identity(1, 0));
    open(writer.as_mut(), A).expect("opens");
    (sink, writer)
}

#[test]
fn a_row_that_cannot_be_written_takes_its_whole_block_and_the_marker_back() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("rows.db");
    run_sql(&path, "CREATE TABLE rows (id INTEGER NOT NULL CHECK (id < 100), other)");
    let (_sink, mut writer) = opened(&path, &["id"]);
    writer.write(&block(1, 3), at(0, A), at(3, A)).expect("writes");
    for (bad, why) in [
        (r#"{"id":100}"#, "CHECK"),
        (r#"{}"#, "NOT NULL"),
        (r#"[1]"#, "JSON object"),
        (r#"{"id":"\ud800"}"#, "field `id`"),
        (r#"{"id":123456789012345678901}"#, "lose digits"),
    ] {
        let error = definite(writer.write(&block_of(4, &[r#"{"id":4}"#, bad]), at(3, A), at(5, A)));
        assert_eq!(error.code, "OW-3211", "{bad}");
        assert!(error.message.contains("position 5") && error.message.contains(why), "{error}");
        assert_eq!(ids(&path), [1, 2, 3], "{bad}");
        assert_eq!(writer.read_marker().expect("reads"), Some(at(3, A)), "{bad}");
    }
    writer.write(&block(4, 5), at(3, A), at(5, A)).expect("goes on");
    assert_eq!(ids(&path), [1, 2, 3, 4, 5]);
}

#[test]
fn a_database_that_others_hold_is_tried_again_and_nothing_was_written() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("rows.db");
    let mut config = config(&path, "append", &["id"], &[]);
    config.set("busyTimeout", ConfigValue::Duration(1000));
    let sink = SqliteSink::new(&config, &StreamShape::default()).expect("a good config");
    let mut writer = progress(&sink, &identity(1, 0));
    let start = open(writer.as_mut(), A).expect("opens");
    let other = Connection::open(&path).expect("opens");
    other.execute_batch("BEGIN IMMEDIATE").expect("holds the lock");
    for answer in [writer.write(&block(1, 2), start, at(2, A)), writer.take_fence(B)] {
        let Err(TargetError::Unknown(reason)) = answer else { panic!("expected Unknown, found {answer:?}") };
        assert!(reason.contains("OW-3202") && reason.contains("busyTimeout"), "{reason}");
    }
    other.execute_batch("ROLLBACK").expect("lets go");
    assert_eq!(open(writer.as_mut(), B).expect("opens"), at(0, B));
    writer.write(&block(1, 2), at(0, B), at(2, B)).expect("writes");
    assert_eq!(ids(&path), [1, 2]);
}

#[test]
fn a_full_disk_is_definite_and_named() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("rows.db");
    let (sink, mut writer) = opened(&path, &["id"]);
    writer.write(&block(1, 3), at(0, A), at(3, A)).expect("writes");
    let limited = sink.database().read(|connection| {
        connection.pragma_update(None, "max_page_count", 1).expect("a pragma");
        Ok(())
    });
    limited.expect("reads");
    let error = definite(writer.write(&block(4, 5000), at(3, A), at(5000, A)));
    assert_eq!(error.code, "OW-3204");
    assert_eq!(ids(&path), [1, 2, 3]);
    assert_eq!(writer.read_marker().expect("reads"), Some(at(3, A)));
    // The limit was that connection's, which is gone: there is space again.
    writer.write(&block(4, 5000), at(3, A), at(5000, A)).expect("goes on");
}

#[test]
fn a_table_of_another_shape_is_refused_with_found_and_expected() {
    let (none, id, both): (&[&str], &[&str], &[&str]) = (&[], &["id"], &["id", "j"]);
    let cases = [
        (
            "CREATE TABLE rows (a, b)",
            "append",
            id,
            none,
            "found the columns \"a\", \"b\"; expected also \"id\"",
        ),
        ("CREATE TABLE rows (id)", "append", none, none, "expected also \"payload\""),
        ("CREATE TABLE rows (id, j)", "upsert", both, id, "unique index on exactly \"id\""),
        ("CREATE TABLE rows (id, j, PRIMARY KEY (id, j))", "upsert", both, id, "unique index"),
        (
            "CREATE TABLE rows (id); CREATE UNIQUE INDEX part ON rows (id) WHERE id > 5",
            "upsert",
            id,
            id,
            "unique index",
        ),
        ("CREATE VIEW rows AS SELECT 1 AS id", "append", id, none, "found a view"),
    ];
    for (made, mode, columns, key, said) in cases {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("rows.db");
        run_sql(&path, made);
        let sink = sink(&path, mode, columns, key);
        let error = definite(progress(&sink, &identity(1, 0)).take_fence(A));
        assert_eq!(error.code, "OW-3208", "{made}");
        assert!(error.message.contains(said), "{made}: {error}");
    }
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("rows.db");
    run_sql(&path, "CREATE TABLE rows (id PRIMARY KEY)");
    let sink = sink(&path, "upsertVersioned", &["id"], &["id"]);
    let error = definite(versioned(&sink, &identity(1, 0)).write(&block(1, 1)));
    assert!(error.message.contains("\"onceward_origin\", \"onceward_version\""), "{error}");
}

#[test]
fn a_table_with_rows_of_another_creation_is_refused_until_they_are_cleared_away() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("rows.db");
    let (sink, mut writer) = opened(&path, &["id"]);
    writer.write(&block(1, 3), at(0, A), at(3, A)).expect("writes");
    let mut again = progress(&sink, &identity(2, 0));
    let error = definite(again.take_fence(B));
    assert_eq!(error.code, "OW-3201");
    assert_eq!(again.read_marker().expect("reads"), None, "nothing was left behind");
    writer.write(&block(4, 4), at(3, A), at(4, A)).expect("the owner goes on");
    run_sql(&path, "DELETE FROM rows; DELETE FROM onceward_progress");
    assert_eq!(open(again.as_mut(), B).expect("opens"), at(0, B));
}

#[test]
fn a_table_that_has_gone_is_not_started_anew_behind_a_marker() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("rows.db");
    let (_sink, mut writer) = opened(&path, &["id"]);
    run_sql(&path, "DROP TABLE rows");
    open(writer.as_mut(), A).expect("nothing was written yet");
    writer.write(&block(1, 3), at(0, A), at(3, A)).expect("writes");
    run_sql(&path, "DROP TABLE rows");
    assert_eq!(definite(writer.write(&block(4, 5), at(3, A), at(5, A))).code, "OW-3207");
    assert_eq!(definite(writer.write(&block(4, 5), at(3, A), at(5, A))).code, "OW-3209");
    assert_eq!(definite(writer.take_fence(B)).code, "OW-3209");
}

#[test]
fn retired_progress_is_never_taken_up_again() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("rows.db");
    let (_sink, mut writer) = opened(&path, &["id"]);
    run_sql(&path, "UPDATE onceward_progress SET retired = 1");
    let answers = [
        writer.write(&block(1, 1), at(0, A), at(1, A)),
        writer.create_marker(at(0, A)),
        writer.read_marker().map(|_| ()),
        writer.take_fence(B),
    ];
    for answer in answers {
        assert!(matches!(answer, Err(TargetError::Fenced(_))), "{answer:?}");
    }
}

#[test]
fn a_file_that_is_no_database_and_a_folder_that_cannot_be_made_are_named() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("rows.db");
    std::fs::write(&path, "not a database, but long enough to look at ".repeat(20)).expect("writes");
    let text = definite(progress(&sink(&path, "append", &["id"], &[]), &identity(1, 0)).take_fence(A));
    assert_eq!(text.code, "OW-3206");
    assert!(text.message.contains("rows.db"), "{text}");
    let below = sink(&path.join("below/rows.db"), "append", &["id"], &[]);
    assert_eq!(definite(progress(&below, &identity(1, 0)).take_fence(A)).code, "OW-3205");
}

#[test]
fn commits_are_synced_in_write_ahead_mode() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (sink, _writer) = opened(&dir.path().join("rows.db"), &["id"]);
    let pragma = |name: &str| {
        sink.database()
            .read(|connection| {
                let value =
                    connection.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0));
                Ok(value.expect("a pragma"))
            })
            .expect("reads")
    };
    assert_eq!(pragma("journal_mode"), "wal".to_owned().into());
    assert_eq!(pragma("synchronous"), 2.into());
}
