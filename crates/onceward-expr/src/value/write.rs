//! Values as JSON text, every digit kept.

use super::Value;
use crate::error::EvalError;
use crate::scan::json::write_string;

impl Value<'_> {
    /// Appends the value as JSON. Exact: ints and decimals keep their digits and scale, unread JSON is
    /// copied. Timestamps are RFC 3339 in UTC, durations seconds with an `s`, bytes base64. NaN, infinities
    /// and map keys that repeat as text have no JSON and are errors; `out` is then as it was.
    pub fn write_json(&self, out: &mut Vec<u8>) -> Result<(), EvalError> {
        let start = out.len();
        let result = self.write(out);
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), EvalError> {
        match self {
            Value::Null => out.extend_from_slice(b"null"),
            Value::Bool(true) => out.extend_from_slice(b"true"),
            Value::Bool(false) => out.extend_from_slice(b"false"),
            Value::Int(value) => write_int(*value < 0, value.unsigned_abs(), out),
            Value::Uint(value) => write_int(false, *value, out),
            Value::Decimal(value) => value.write(out),
            Value::Double(value) if value.is_finite() => {
                out.extend_from_slice(format!("{value:?}").as_bytes());
            }
            Value::Double(value) => {
                return Err(EvalError::argument("JSON", &value.to_string(), "a finite number"));
            }
            Value::String(text) => write_string(text, out),
            Value::Bytes(bytes) => write_base64(bytes, out),
            Value::Timestamp(value) => quoted(out, |out| value.write(out)),
            Value::Duration(value) => quoted(out, |out| value.write(out)),
            Value::List(items) => {
                out.push(b'[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    item.write(out)?;
                }
                out.push(b']');
            }
            Value::Map(entries) => {
                let mut written: Vec<String> = Vec::new();
                out.push(b'{');
                for (index, (key, value)) in entries.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    if let Value::String(key) = key {
                        write_string(key, out);
                    } else {
                        let mut text = Vec::new();
                        key.write(&mut text)?;
                        let text = String::from_utf8_lossy(&text).into_owned();
                        write_string(&text, out);
                        written.push(text);
                    }
                    out.push(b':');
                    value.write(out)?;
                }
                out.push(b'}');
                refuse_repeats(written, entries)?;
            }
            Value::Json(bytes) => out.extend_from_slice(bytes),
        }
        Ok(())
    }
}

/// `{1: .., "1": ..}` are two keys in CEL and one in JSON.
fn refuse_repeats(written: Vec<String>, entries: &super::Entries<'_>) -> Result<(), EvalError> {
    for text in written {
        if entries.iter().any(|(key, _)| matches!(key, Value::String(key) if *key == text)) {
            return Err(EvalError::argument("JSON", &text, "keys that differ as text"));
        }
    }
    Ok(())
}

fn quoted(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    write(out);
    out.push(b'"');
}

fn write_int(negative: bool, mut magnitude: u64, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (magnitude % 10) as u8;
        magnitude /= 10;
        if magnitude == 0 {
            break;
        }
    }
    if negative {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

fn write_base64(bytes: &[u8], out: &mut Vec<u8>) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    out.push(b'"');
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for position in 0..4 {
            if position <= chunk.len() {
                out.push(ALPHABET[(group >> (18 - 6 * position)) as usize & 63]);
            } else {
                out.push(b'=');
            }
        }
    }
    out.push(b'"');
}
