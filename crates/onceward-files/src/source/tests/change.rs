//! A file that is not what it was stops the pipeline, by name; a copy of it does not.

use super::*;
use crate::source::digest::BLOCK_BYTES;

/// A reader that has returned two rows of `content` and holds no more than a few bytes beyond them.
fn reading(path: &Path, content: &str) -> Box<dyn SourceReader> {
    write(path, content);
    let source = chunked(20, path.to_owned(), "jsonl", &[]);
    let mut reader = open(&source, "a.jsonl");
    assert_eq!(some(reader.as_mut(), 2).0, ["{\"n\":1}", "{\"n\":2}"]);
    reader
}

fn changed_while_reading(change: impl Fn(&Path), says: &str) {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("a.jsonl");
    let mut reader = reading(&path, &lines(1..=9));
    change(&path);
    let error = rest(reader.as_mut()).expect_err("changed");
    assert_eq!(error.code, "OW-3011", "{error}");
    assert!(error.message.contains(says) && error.message.contains("a.jsonl"), "{error}");
}

#[test]
fn a_file_that_grows_while_it_is_read_stops_by_name() {
    changed_while_reading(
        |path| append(path, "{\"n\":10}\n"),
        "grew while it was being read: found 81 bytes, expected 72",
    );
}

#[test]
fn a_file_that_shrinks_while_it_is_read_stops_by_name() {
    let shrink =
        |path: &Path| File::options().write(true).open(path).expect("opens").set_len(30).expect("truncates");
    changed_while_reading(shrink, "shrank while it was being read: found 30 bytes, expected 72");
}

#[test]
fn a_file_that_is_rewritten_in_place_while_it_is_read_stops_by_name() {
    let rewrite = |path: &Path| {
        std::fs::write(path, lines(1..=9).replace('9', "8")).expect("writes");
        age(path, 2000);
    };
    changed_while_reading(rewrite, "modification time moved from 1000.000000000 to 2000.000000000");
}

#[test]
fn a_file_that_is_replaced_or_removed_while_it_is_read_stops_by_name() {
    let replace = |path: &Path| {
        let other = path.with_extension("new");
        write(&other, lines(1..=9));
        std::fs::rename(other, path).expect("renames");
    };
    changed_while_reading(replace, "replaced by another one");
    changed_while_reading(|path| std::fs::remove_file(path).expect("removes"), "was removed");
}

/// Reads some rows of a file, changes it, and opens it again after those rows.
fn changed_between(name: &str, content: &str, change: impl Fn(&Path)) -> Result<Vec<String>, ConnectorError> {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join(name);
    write(&path, content);
    let source = source(path.clone(), "jsonl", &[]);
    let (_, position, token) = some(open(&source, name).as_mut(), 4);
    change(&path);
    rest(source.open(name, position, &token)?.as_mut())
}

#[test]
fn a_copy_with_a_new_time_is_accepted_after_its_content_was_compared() {
    for name in ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst"] {
        let copied = changed_between(name, &lines(1..=6), |path| {
            let content = std::fs::read(path).expect("reads");
            std::fs::remove_file(path).expect("removes");
            std::fs::write(path, content).expect("writes");
            age(path, 7777);
        });
        assert_eq!(copied.expect("accepted"), ["{\"n\":5}", "{\"n\":6}"], "{name}");
    }
}

#[test]
fn other_content_before_the_place_is_refused_even_with_the_same_size() {
    for name in ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst"] {
        let error = changed_between(name, &lines(1..=6), |path| {
            let size = std::fs::metadata(path).expect("metadata").len();
            write(path, lines(1..=6).replace('1', "7"));
            let file = File::options().append(true).open(path).expect("opens");
            file.set_len(size).expect("sets the size");
            age(path, 2000);
        });
        let error = error.expect_err("refused");
        assert!(["OW-3012", "OW-3016"].contains(&error.code), "{name}: {error}");
        assert!(error.message.contains(name), "{error}");
    }
}

#[test]
fn a_change_in_the_last_block_is_seen_even_if_size_and_time_are_the_same() {
    let long = lines(1..=6) + &format!("\"{}\"\n", "x".repeat(BLOCK_BYTES as usize));
    let error = changed_between("a.jsonl", &long, |path| write(path, long.replace("\"n\":4", "\"n\":7")));
    assert_eq!(error.expect_err("refused").code, "OW-3012");
}

#[test]
fn a_change_in_an_early_block_is_seen_if_the_time_is_new() {
    let long: String =
        (1..=6).map(|number| format!("\"{number}{}\"\n", "x".repeat(BLOCK_BYTES as usize))).collect();
    let change = |path: &Path| {
        write(path, long.replacen("\"1x", "\"7x", 1));
        age(path, 2000);
    };
    assert_eq!(changed_between("a.jsonl", &long, change).expect_err("refused").code, "OW-3012");
}

#[test]
fn a_bounded_file_of_another_size_is_refused_when_it_is_opened_again() {
    for change in [lines(1..=5), lines(1..=9)] {
        let error = changed_between("a.jsonl", &lines(1..=6), |path| {
            write(path, &change);
        });
        let error = error.expect_err("refused");
        assert_eq!(error.code, "OW-3012");
        assert!(error.message.contains("expected 48"), "{error}");
        assert!(error.message.contains("up to record 4 at byte 32"), "{error}");
    }
}

#[test]
fn a_place_that_this_version_did_not_write_is_refused() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("a.jsonl");
    write(&path, lines(1..=6));
    let source = source(path, "jsonl", &[]);
    let (_, position, mut token) = some(open(&source, "a.jsonl").as_mut(), 4);
    assert_eq!(
        refused(&source, "a.jsonl", Position::at(3), &token).code,
        "OW-3013",
        "a token of another position"
    );
    assert_eq!(refused(&source, "a.jsonl", position, &[]).code, "OW-3013", "a missing token");
    token[0] = 9;
    assert_eq!(refused(&source, "a.jsonl", position, &token).code, "OW-3013", "a newer version");
}
