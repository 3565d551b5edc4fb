//! `bounded: false`: files that grow at their end.

use onceward_connector::contract;

use super::*;

fn following(path: &Path, format: &str) -> FileSource {
    source(path.to_owned(), format, &[("bounded", ConfigValue::Bool(false))])
}

fn idle(reader: &mut dyn SourceReader) {
    assert!(matches!(reader.read(EVERYTHING).expect("reads"), Read::Idle));
}

#[test]
fn growth_is_read_and_a_partial_last_line_waits() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("a.jsonl");
    write(&path, "");
    let source = following(&path, "jsonl");
    let mut reader = open(&source, "a.jsonl");
    idle(reader.as_mut());
    append(&path, "{\"n\":1}\n{\"n\"");
    assert_eq!(rest(reader.as_mut()).expect("reads"), ["{\"n\":1}"]);
    idle(reader.as_mut());
    append(&path, ":2}");
    idle(reader.as_mut());
    append(&path, "\n\n{\"n\":3}\n");
    let (rows, position, token) = some(reader.as_mut(), 2);
    assert_eq!((rows.len(), position), (2, Position::at(3)));
    append(&path, "{\"n\":4}\n");
    let mut resumed = source.open("a.jsonl", position, &token).expect("resumes in a longer file");
    assert_eq!(rest(resumed.as_mut()).expect("reads"), ["{\"n\":4}"]);
}

#[test]
fn a_quoted_field_waits_for_its_closing_quote() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("a.csv");
    write(&path, "a,b\n1,\"x\n");
    let source = following(&path, "csv");
    let mut reader = open(&source, "a.csv");
    idle(reader.as_mut());
    append(&path, "y\"");
    idle(reader.as_mut());
    append(&path, "\n");
    assert_eq!(rest(reader.as_mut()).expect("reads"), ["1,\"x\ny\""]);
}

#[test]
fn it_passes_the_source_contract() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("a.jsonl");
    write(&path, lines(1..=20) + "{\"partial\"");
    contract::source(&following(&path, "jsonl")).expect("the contract holds");
}

#[test]
fn a_followed_file_that_shrinks_or_is_replaced_stops_by_name() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("a.jsonl");
    write(&path, lines(1..=9));
    let source = following(&path, "jsonl");
    let mut reader = open(&source, "a.jsonl");
    let (_, position, token) = some(reader.as_mut(), 9);
    File::options().write(true).open(&path).expect("opens").set_len(10).expect("truncates");
    let error = rest(reader.as_mut()).expect_err("shrank");
    assert_eq!(error.code, "OW-3011");
    assert!(error.message.contains("a.jsonl") && error.message.contains("found 10 bytes"), "{error}");
    assert_eq!(refused(&source, "a.jsonl", position, &token).code, "OW-3012");
    write(&path, lines(1..=9).replace('5', "6"));
    assert_eq!(refused(&source, "a.jsonl", position, &token).code, "OW-3012");
}

#[test]
fn a_compressed_file_cannot_be_followed() {
    let dir = tempfile::tempdir().expect("temp dir");
    write(&dir.path().join("a.jsonl.gz"), lines(1..=2));
    let by_name = FileSource::new(
        &config(dir.path().join("a.jsonl.gz"), "jsonl", &[("bounded", ConfigValue::Bool(false))]),
        CHUNK_BYTES,
    );
    assert_eq!(by_name.err().expect("refused").code, "OW-3017");
    let by_glob = following(&dir.path().join("a.*"), "jsonl");
    assert_eq!(by_glob.partitions().expect_err("refused").code, "OW-3017");
}
