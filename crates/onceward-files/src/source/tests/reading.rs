//! The same records at the same positions, however they are read.

use onceward_connector::{Codec, contract};
use proptest::prelude::*;

use super::*;
use crate::source::reader::MAX_RECORD_BYTES;

/// A file big enough for several blocks of the digest and chunks of the reader.
fn big() -> String {
    (1..=30_000)
        .map(|number| format!("{{\"n\":{number},\"pad\":\"{}\"}}\n", "x".repeat(number % 97)))
        .collect()
}

#[test]
fn every_format_and_compression_passes_the_source_contract() {
    for name in ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst"] {
        let dir = tempfile::tempdir().expect("temp dir");
        write(&dir.path().join(name), "{\"n\":1}\n\n{\"n\":2}\r\n  \n{\"n\":3}\n{\"n\":4}\n{\"n\":5}");
        write(&dir.path().join(format!("b-{name}")), lines(1..=40));
        for chunk in [1, 5, CHUNK_BYTES] {
            let source = chunked(chunk, dir.path().join("*.jsonl*"), "jsonl", &[]);
            contract::source(&source)
                .unwrap_or_else(|violation| panic!("{name}, chunk {chunk}: {violation}"));
        }
    }
    for name in ["a.csv", "a.csv.gz", "a.csv.zst"] {
        let dir = tempfile::tempdir().expect("temp dir");
        write(
            &dir.path().join(name),
            "\u{feff}\"n\",text\r\n1,\"two\nlines\"\r\n2,\"a \"\"quote\"\"\"\r\n\r\n3,\n4,x",
        );
        for chunk in [1, 5, CHUNK_BYTES] {
            let source = chunked(chunk, dir.path().join("*"), "csv", &[]);
            contract::source(&source)
                .unwrap_or_else(|violation| panic!("{name}, chunk {chunk}: {violation}"));
        }
    }
}

#[test]
fn reading_goes_on_in_the_middle_of_large_files_of_every_compression() {
    let content = big();
    let expected: Vec<String> = content.lines().map(str::to_owned).collect();
    for name in ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst"] {
        let dir = tempfile::tempdir().expect("temp dir");
        write(&dir.path().join(name), &content);
        let source = source(dir.path().join(name), "jsonl", &[]);
        let mut reader = open(&source, name);
        for _ in 0..9 {
            let (_, position, token) = some(reader.as_mut(), 3001);
            let mut resumed = source.open(name, position, &token).expect("resumes");
            let rows = rest(resumed.as_mut()).expect("reads");
            assert!(rows == expected[position.major as usize..], "{name} after {position}");
        }
        let progress = source.progress(&some(reader.as_mut(), 1).2).expect("progress");
        assert!(progress > 0 && progress <= source.size(name).expect("size"), "{name}: {progress}");
    }
}

#[test]
fn several_gzip_members_and_zstd_frames_are_one_stream() {
    for (name, compression) in [("a.jsonl.gz", Compression::Gzip), ("a.jsonl.zst", Compression::Zstd)] {
        let dir = tempfile::tempdir().expect("temp dir");
        let mut bytes = compression.compress(b"{\"n\":1}\n{\"n\"".to_vec()).expect("compresses");
        bytes.extend(compression.compress(b":2}\n".to_vec()).expect("compresses"));
        std::fs::write(dir.path().join(name), bytes).expect("writes");
        let source = source(dir.path().join(name), "jsonl", &[]);
        assert_eq!(rest(open(&source, name).as_mut()).expect("reads"), ["{\"n\":1}", "{\"n\":2}"], "{name}");
    }
}

#[test]
fn compressed_data_that_ends_early_is_an_error_and_no_shorter_file() {
    for name in ["a.jsonl.gz", "a.jsonl.zst"] {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join(name);
        write(&path, big());
        let whole = std::fs::read(&path).expect("reads");
        std::fs::write(&path, &whole[..whole.len() - 20]).expect("writes");
        let source = source(path, "jsonl", &[]);
        let error = rest(open(&source, name).as_mut()).expect_err("cut off");
        assert_eq!(error.code, "OW-3016", "{error}");
        assert!(error.message.contains(name), "{error}");
    }
}

#[test]
fn a_record_beyond_the_limit_is_named_by_file_and_line() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("a.jsonl");
    let fits = format!("\"{}\"", "x".repeat(MAX_RECORD_BYTES - 2));
    write(&path, format!("{{}}\n\n{fits}\n{fits} \n{{}}\n"));
    let source = source(path, "jsonl", &[]);
    let mut reader = open(&source, "a.jsonl");
    assert_eq!(some(reader.as_mut(), 1).0, ["{}"]);
    assert_eq!(some(reader.as_mut(), 1).0[0].len(), MAX_RECORD_BYTES);
    let error = rest(reader.as_mut()).expect_err("too large");
    assert_eq!(error.code, "OW-3014");
    assert!(error.message.contains("line 4 of") && error.message.contains("a.jsonl"), "{error}");
}

#[test]
fn a_csv_file_that_ends_inside_quotes_is_an_error_after_its_good_records() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("a.csv");
    write(&path, "n\n1\n\"2\nx\"\n\"3\n4\n");
    let source = source(path, "csv", &[]);
    let mut reader = open(&source, "a.csv");
    assert_eq!(some(reader.as_mut(), 100).0, ["1", "\"2\nx\""]);
    let error = rest(reader.as_mut()).expect_err("an open quote");
    assert_eq!(error.code, "OW-3015");
    assert!(error.message.contains("line 5"), "{error}");
}

#[test]
fn the_codec_carries_columns_types_delimiter_and_null_values() {
    let dir = tempfile::tempdir().expect("temp dir");
    write(&dir.path().join("a.csv"), "id;when;note\n1;2024-01-01;NA\n");
    let types = ConfigValue::Map(vec![("id".into(), "int".into()), ("when".into(), "timestamp".into())]);
    let more = [("types", types), ("delimiter", text(";")), ("nullValues", texts(&["NA"]))];
    let source = source(dir.path().join("*.csv"), "csv", &more);
    let Codec::Csv(schema) = source.codec().expect("codec") else { panic!("expected CSV") };
    let columns: Vec<String> =
        schema.columns.iter().map(|column| format!("{} {:?}", column.name, column.field_type)).collect();
    assert_eq!(columns, ["id Int", "when Timestamp", "note String"]);
    assert_eq!((schema.delimiter, schema.null_values.as_slice()), (b';', &["NA".to_owned()][..]));
}

/// Reads a file in steps of the given limits, opening it anew from the token where `reopen` says so.
fn stepwise(source: &FileSource, partition: &str, steps: &[(usize, usize, bool)]) -> Vec<Vec<u8>> {
    let mut reader = open(source, partition);
    let mut rows = Vec::new();
    for (rows_limit, bytes, reopen) in steps.iter().cycle() {
        match reader.read(ReadLimits { rows: *rows_limit, bytes: *bytes }).expect("reads") {
            Read::Batch { batch, token } => {
                for record in batch.records() {
                    rows.push(batch.payload(record).to_vec());
                    assert_eq!(record.position, Position::at(rows.len() as u64));
                }
                if *reopen {
                    reader =
                        source.open(partition, Position::at(rows.len() as u64), &token).expect("resumes");
                }
            }
            Read::End => return rows,
            Read::Idle => panic!("a bounded file is never idle"),
        }
    }
    rows
}

fn steps() -> impl Strategy<Value = Vec<(usize, usize, bool)>> {
    prop::collection::vec((1usize..6, 0usize..60, any::<bool>()), 1..6)
}

fn compressions() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just(""), Just(".gz"), Just(".zst")]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn jsonl_read_in_any_steps_equals_the_reference_reader(
        values in prop::collection::vec(("\\PC{0,12}", any::<i64>(), 0usize..3, any::<bool>()), 0..20),
        last_line_end: bool, bom: bool, suffix in compressions(), chunk in 1usize..80, steps in steps(),
    ) {
        let mut content = if bom { "\u{feff}".to_owned() } else { String::new() };
        for (text, number, blanks, crlf) in &values {
            let end = if *crlf { "\r\n" } else { "\n" };
            content.push_str(&serde_json::json!({ "text": text, "n": number }).to_string());
            content.push_str(end);
            content.push_str(&format!(" {end}").repeat(*blanks));
        }
        if !last_line_end {
            content.truncate(content.trim_end().len());
        }
        let dir = tempfile::tempdir().expect("temp dir");
        let name = format!("a.jsonl{suffix}");
        write(&dir.path().join(&name), &content);
        let source = chunked(chunk, dir.path().join(&name), "jsonl", &[]);
        let found = stepwise(&source, &name, &steps);
        let reference = serde_json::Deserializer::from_str(content.trim_start_matches('\u{feff}'));
        let expected: Vec<serde_json::Value> =
            reference.into_iter().collect::<Result<_, _>>().expect("the reference reads");
        let found: Vec<serde_json::Value> =
            found.iter().map(|row| serde_json::from_slice(row).expect("one whole value")).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn csv_read_in_any_steps_equals_the_reference_reader(
        width in 1usize..4, cells in prop::collection::vec("[ab,\"\r\n é]{0,5}", 0..40),
        always: bool, crlf: bool, header: bool, last_line_end: bool,
        suffix in compressions(), chunk in 1usize..80, steps in steps(),
    ) {
        let names: Vec<String> = (0..width).map(|column| format!("c\n{column}")).collect();
        let mut writer = csv::WriterBuilder::new()
            .quote_style(if always { csv::QuoteStyle::Always } else { csv::QuoteStyle::Necessary })
            .terminator(if crlf { csv::Terminator::CRLF } else { csv::Terminator::Any(b'\n') })
            .from_writer(Vec::new());
        if header {
            writer.write_record(&names).expect("writes");
        }
        cells.chunks_exact(width).for_each(|row| writer.write_record(row).expect("writes"));
        let mut content = writer.into_inner().expect("flushes");
        if !last_line_end && content.ends_with(b"\n") {
            content.truncate(content.len() - if crlf { 2 } else { 1 });
        }
        let dir = tempfile::tempdir().expect("temp dir");
        let name = format!("a.csv{suffix}");
        write(&dir.path().join(&name), &content);
        let columns = ConfigValue::List(names);
        let source = chunked(chunk, dir.path().join(&name), "csv",
            &[("header", ConfigValue::Bool(header)), ("columns", columns)]);
        let parse = |bytes: &[u8], header: bool| -> Vec<csv::StringRecord> {
            let reader = csv::ReaderBuilder::new().has_headers(header).from_reader(bytes);
            reader.into_records().collect::<Result<_, _>>().expect("the reference reads")
        };
        let mut found = Vec::new();
        for row in stepwise(&source, &name, &steps) {
            let records = parse(&row, false);
            prop_assert_eq!(records.len(), 1);
            found.extend(records);
        }
        prop_assert_eq!(found, parse(&content, header));
    }
}
