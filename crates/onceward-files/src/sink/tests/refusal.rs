//! What the sink refuses, and that it says what to do.

use std::io;

use onceward_connector::{ConnectorError, SinkConnector};
use onceward_protocol::guarantee::Level;

use super::*;
use crate::sink::FileSinkConnector;

fn definite(result: Result<(), TargetError>) -> ConnectorError {
    match result {
        Err(TargetError::Definite(error)) => error,
        other => panic!("expected Definite, found {other:?}"),
    }
}

/// A storage on which a second creation of a name succeeds.
struct Overwrites;

impl Storage for Overwrites {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        LocalStorage.create_folder(path)
    }
    fn write_private(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        LocalStorage.write_private(path, content)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::copy(from, to).map(drop)
    }
    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        LocalStorage.publish(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        LocalStorage.remove(path)
    }
    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        LocalStorage.sync_folder(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        LocalStorage.list(path)
    }
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        LocalStorage.read(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        LocalStorage.exists(path)
    }
}

#[test]
fn a_storage_that_creates_a_name_twice_is_refused_by_the_probe_which_cleans_up() {
    let dir = tempfile::tempdir().expect("temp dir");
    let error = definite(writer_on(dir.path(), Arc::new(Overwrites)).take_fence(Fence(0xA)));
    assert_eq!(error.code, "OW-3102");
    assert!(error.message.contains(&dir.path().display().to_string()), "{error}");
    assert_eq!(staged(dir.path()), Vec::<String>::new());
}

#[test]
fn a_folder_of_another_creation_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().expect("temp dir");
    job(&mut writer_on(dir.path(), Arc::new(LocalStorage)), 0xA).expect("writes");
    let sink =
        FileSink::new(&config(dir.path(), "jsonl", &[]), &StreamShape::default(), Arc::new(LocalStorage));
    let mut reset = sink.expect("a good config").file_writer(&identity(2)).expect("a writer");
    let error = definite(reset.take_fence(Fence(0xB)));
    assert_eq!((error.code, error.key), ("OW-3101", Some("path")));
    for part in [Creation(1).to_string(), Creation(2).to_string(), dir.path().display().to_string()] {
        assert!(error.message.contains(&part), "{part} is missing in {error}");
    }
    let mut owner = writer_on(dir.path(), Arc::new(LocalStorage));
    assert_eq!(owner.read_marker().expect("reads"), Some(at(ROWS, 0xA)), "the owner's fence was not touched");
}

#[test]
fn a_foreign_file_with_the_name_of_the_next_table_is_not_overwritten() {
    let dir = tempfile::tempdir().expect("temp dir");
    let foreign = dir.path().join("by_carrier-0003-00000002.jsonl");
    std::fs::write(&foreign, "mine\n").expect("writes");
    let Err(Ended { error, before }) = job(&mut writer_on(dir.path(), Arc::new(LocalStorage)), 0xA) else {
        panic!("it was overwritten")
    };
    assert_eq!(before, Some(Position::at(2)));
    let error = definite(Err(error));
    assert_eq!(error.code, "OW-3109");
    assert!(error.message.contains("by_carrier-0003-00000002.jsonl"), "{error}");
    assert_eq!(std::fs::read_to_string(&foreign).expect("reads"), "mine\n");
    std::fs::remove_file(foreign).expect("removes");
    job(&mut writer_on(dir.path(), Arc::new(LocalStorage)), 0xB).expect("goes on once it is gone");
    assert_eq!(rows(dir.path()), all_rows());
}

#[test]
fn a_manifest_that_is_newer_damaged_or_of_another_partition_is_refused_by_name() {
    let dir = tempfile::tempdir().expect("temp dir");
    job(&mut writer_on(dir.path(), Arc::new(LocalStorage)), 0xA).expect("writes");
    let path = dir.path().join(".onceward/hourly/by_carrier-0003/00000005.json");
    let good = std::fs::read_to_string(&path).expect("the last manifest");
    for (bad, says) in [
        (good.replace("\"version\":1", "\"version\":2"), "has version 2"),
        (good[..good.len() / 2].to_owned(), "cannot be read"),
        (good.replace("\"number\":5", "\"number\":4"), "says it is number 4"),
        (good.replace("\"partitionId\":\"00", "\"partitionId\":\"11"), "belongs to partition"),
    ] {
        std::fs::write(&path, bad).expect("writes");
        let error = definite(writer_on(dir.path(), Arc::new(LocalStorage)).take_fence(Fence(0xB)));
        assert_eq!(error.code, "OW-3108");
        assert!(error.message.contains(says) && error.message.contains("00000005.json"), "{error}");
    }
}

#[test]
fn a_staged_table_that_the_storage_lost_bytes_of_is_not_published() {
    let dir = tempfile::tempdir().expect("temp dir");
    job(&mut writer_on(dir.path(), Arc::new(LocalStorage)), 0xA).expect("writes");
    let staging = dir.path().join(".onceward/hourly/by_carrier-0003/staging");
    let name = format!("00000005-{}.jsonl", Fence(0xA));
    std::fs::rename(dir.path().join("by_carrier-0003-00000003.jsonl"), staging.join(&name))
        .expect("unpublishes");
    std::fs::write(staging.join(&name), "{\"id\":5}\n").expect("loses a row");
    let error = definite(writer_on(dir.path(), Arc::new(LocalStorage)).take_fence(Fence(0xB)));
    assert_eq!(error.code, "OW-3112");
    assert_eq!(rows(dir.path()).len(), 4);
}

#[test]
fn a_config_that_makes_no_sense_is_refused_at_its_key() {
    let refused = |format: &str, key: &str, value: ConfigValue| {
        let config = config(Path::new("/out"), format, &[(key, value)]);
        let error = FileSinkConnector.build(&config, &StreamShape::default()).err().expect("refused");
        (error.code, error.key)
    };
    let columns = |names: &[&str]| ConfigValue::List(names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(refused("jsonl", "columns", columns(&["a"])), ("OW-3103", Some("columns")));
    assert_eq!(refused("csv", "maxRows", ConfigValue::Integer(5)), ("OW-3110", Some("columns")));
    assert_eq!(refused("csv", "columns", columns(&["a", "a"])), ("OW-3110", Some("columns")));
    assert_eq!(refused("jsonl", "rollInterval", ConfigValue::Duration(0)), ("OW-3103", Some("rollInterval")));
    assert_eq!(refused("jsonl", "maxRows", ConfigValue::Integer(0)), ("OW-3103", Some("maxRows")));
    assert_eq!(refused("jsonl", "maxSize", ConfigValue::Size(0)), ("OW-3103", Some("maxSize")));
    assert_eq!(refused("jsonl", "maxSize", ConfigValue::Size(1 << 31)), ("OW-3103", Some("maxSize")));
}

#[test]
fn a_name_that_cannot_be_part_of_a_file_name_is_refused() {
    let sink = FileSink::new(
        &config(Path::new("/out"), "jsonl", &[]),
        &StreamShape::default(),
        Arc::new(LocalStorage),
    );
    let sink = sink.expect("a good config");
    for slug in ["", "a/b", "..", ".hidden"] {
        let identity = SinkIdentity { partition_slug: slug.into(), ..identity(1) };
        assert_eq!(sink.file_writer(&identity).err().expect("refused").code, "OW-3107", "{slug}");
    }
}

#[test]
fn the_promise_is_exactly_once_and_names_its_conditions() {
    let promise = FileSinkConnector.promise(&Config::default());
    assert_eq!(promise.level, Level::ExactlyOnce);
    assert_eq!(
        promise.conditions[0],
        "the file system refuses to create a name twice and keeps what was synced"
    );
}
