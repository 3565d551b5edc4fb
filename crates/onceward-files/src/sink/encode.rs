//! Rows to the bytes of a table: JSON lines, or CSV with a header line, compressed or not.

use std::borrow::Cow;

use memchr::{memchr, memchr3};
use onceward_connector::{ConnectorError, Fields, SinkBlock};
use onceward_protocol::Position;

use crate::compression::Compression;

/// What a table's rows look like.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TableFormat {
    /// One JSON object per line.
    Jsonl,
    /// A header line and one RFC 4180 record per row, with these columns.
    Csv(Vec<String>),
}

/// Encodes blocks. The same block always gives the same bytes.
#[derive(Debug)]
pub struct Encoder {
    format: TableFormat,
    compression: Compression,
    fields: Fields,
}

impl Encoder {
    /// An encoder for one sink.
    pub fn new(format: TableFormat, compression: Compression) -> Self {
        let columns: &[String] = match &format {
            TableFormat::Jsonl => &[],
            TableFormat::Csv(columns) => columns,
        };
        let fields = Fields::new(columns);
        Encoder { format, compression, fields }
    }
    /// The extension of tables, without the leading dot.
    pub fn extension(&self) -> String {
        let format = match self.format {
            TableFormat::Jsonl => "jsonl",
            TableFormat::Csv(_) => "csv",
        };
        format!("{format}{}", self.compression.suffix())
    }
    /// A table's content.
    pub fn encode(&self, block: &SinkBlock) -> Result<Vec<u8>, ConnectorError> {
        let mut out = Vec::new();
        match &self.format {
            TableFormat::Jsonl => block.rows().for_each(|(_, row)| push_json_line(&mut out, row)),
            TableFormat::Csv(columns) => {
                push_record(&mut out, columns.iter().map(|name| Some(Cow::Borrowed(name.as_str()))));
                for (position, row) in block.rows() {
                    let fields = self.fields(row).map_err(|error| not_an_object(position, &error))?;
                    push_record(&mut out, fields.into_iter());
                }
            }
        }
        self.compression
            .compress(out)
            .map_err(|error| ConnectorError::new("OW-3106", format!("a table cannot be compressed: {error}")))
    }

    /// The columns' values in a row, in column order; `None` if absent or null.
    fn fields<'a>(&self, row: &'a [u8]) -> Result<Vec<Option<Cow<'a, str>>>, serde_json::Error> {
        self.fields.of(row)?.into_iter().map(|value| value.map_or(Ok(None), text)).collect()
    }
}

fn not_an_object(position: Position, error: &serde_json::Error) -> ConnectorError {
    ConnectorError::new(
        "OW-3111",
        format!(
            "the row at position {position} cannot be written as CSV: {error}. Expected a JSON object; change the steps \
             before the sink, or set `format: jsonl`"
        ),
    )
}

/// A JSON object as one line: a line end can only stand between its tokens, where a space does too.
pub fn push_json_line(out: &mut Vec<u8>, row: &[u8]) {
    if memchr(b'\n', row).is_none() {
        out.extend_from_slice(row);
    } else {
        out.extend(row.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }));
    }
    out.push(b'\n');
}

/// The text of a JSON value in a CSV field. Numbers, booleans and nested values are copied as they
/// stand.
fn text(json: &str) -> Result<Option<Cow<'_, str>>, serde_json::Error> {
    if json == "null" {
        return Ok(None);
    }
    let Some(quoted) = json.strip_prefix('"') else { return Ok(Some(Cow::Borrowed(json))) };
    if memchr(b'\\', quoted.as_bytes()).is_some() {
        return serde_json::from_str(json).map(|text| Some(Cow::Owned(text)));
    }
    Ok(Some(Cow::Borrowed(quoted.strip_suffix('"').unwrap_or(quoted))))
}

/// A record: absent is empty, an empty text is `""`, so that a reader can tell them apart.
fn push_record<'a>(out: &mut Vec<u8>, fields: impl Iterator<Item = Option<Cow<'a, str>>>) {
    let start = out.len();
    for (index, field) in fields.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let Some(field) = field else { continue };
        let bytes = field.as_bytes();
        let special = memchr3(b',', b'"', b'\n', bytes).is_some() || memchr(b'\r', bytes).is_some();
        if !special && !bytes.is_empty() {
            out.extend_from_slice(bytes);
            continue;
        }
        out.push(b'"');
        for byte in bytes {
            if *byte == b'"' {
                out.push(b'"');
            }
            out.push(*byte);
        }
        out.push(b'"');
    }
    if out.len() == start {
        // The only column, absent: an empty line would be no record at all.
        out.extend_from_slice(b"\"\"");
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward_connector::RowChunk;
    use std::sync::Arc;

    fn encode(format: TableFormat, rows: &[&str]) -> Result<String, ConnectorError> {
        let mut chunk = RowChunk::default();
        for (index, row) in rows.iter().enumerate() {
            chunk.push(Position::at(index as u64 + 1), row.as_bytes());
        }
        let block = SinkBlock { parts: vec![(Arc::new(chunk), 0..rows.len())] };
        Encoder::new(format, Compression::None)
            .encode(&block)
            .map(|bytes| String::from_utf8(bytes).expect("utf-8"))
    }
    fn csv(columns: &[&str], rows: &[&str]) -> Result<String, ConnectorError> {
        encode(TableFormat::Csv(columns.iter().map(|name| (*name).to_owned()).collect()), rows)
    }

    #[test]
    fn numbers_and_nested_values_are_copied_as_they_stand() {
        let row = r#"{"d":12.30,"i":123456789012345678901234567890,"n":{"x":[1.0,2]},"e":1E5,"b":true}"#;
        let text = csv(&["i", "d", "e", "b", "n"], &[row]).expect("encodes");
        assert_eq!(
            text,
            "i,d,e,b,n\r\n123456789012345678901234567890,12.30,1E5,true,\"{\"\"x\"\":[1.0,2]}\"\r\n"
        );
    }

    #[test]
    fn absent_and_null_are_empty_and_an_empty_text_is_quoted() {
        let text = csv(&["a", "b", "c"], &[r#"{"b":null,"c":""}"#, r#"{"a":"x"}"#]).expect("encodes");
        assert_eq!(text, "a,b,c\r\n,,\"\"\r\nx,,\r\n");
        assert_eq!(csv(&["a"], &["{}"]).expect("encodes"), "a\r\n\"\"\r\n");
    }

    #[test]
    fn escapes_in_keys_and_values_are_resolved_and_the_last_of_equal_keys_wins() {
        let text = csv(&["a\"b"], &[r#"{"a\u0022b":"no","a\"b":"x,\"y\"\n"}"#]).expect("encodes");
        assert_eq!(text, "\"a\"\"b\"\r\n\"x,\"\"y\"\"\n\"\r\n");
    }

    #[test]
    fn a_row_that_is_no_object_is_refused_by_its_position() {
        for row in ["[1]", "{", "{} x", "{\"a\":\"\\ud800\"}"] {
            let error = csv(&["a"], &["{}", row]).expect_err("refused");
            assert_eq!(error.code, "OW-3111", "{row}");
            assert!(error.message.contains("position 2"), "{error}");
        }
    }

    #[test]
    fn a_pretty_printed_object_becomes_one_line() {
        assert_eq!(
            encode(TableFormat::Jsonl, &["{\n\"a\":1\n}", "{}"]).expect("encodes"),
            "{ \"a\":1 }\n{}\n"
        );
    }
}
