//! The key form of values: equal values give equal bytes, unequal values unequal ones, and no form is the
//! beginning of another. It decides the partition of a key and is persisted: it never changes.
//!
//! Numbers are reduced to one form by value: a whole number within 64 bits, else a decimal without trailing
//! zeros, else (only for floating-point numbers that no decimal holds) the bits. Maps are ordered by the
//! key form of their keys. JSON that cannot be read is its bytes.

use std::borrow::Cow;

use onceward_protocol::codec::{Reader, put_bytes, put_varint};

use super::Value;
use super::binary::{MAX_DEPTH, put_decimal, read_decimal, read_duration, read_timestamp, unzigzag, zigzag};
use crate::decimal::Decimal;

mod tag {
    pub(super) const NULL: u8 = 0;
    pub(super) const FALSE: u8 = 1;
    pub(super) const TRUE: u8 = 2;
    pub(super) const WHOLE: u8 = 3;
    pub(super) const DECIMAL: u8 = 4;
    pub(super) const DOUBLE: u8 = 5;
    pub(super) const STRING: u8 = 6;
    pub(super) const BYTES: u8 = 7;
    pub(super) const TIMESTAMP: u8 = 8;
    pub(super) const DURATION: u8 = 9;
    pub(super) const LIST: u8 = 10;
    pub(super) const MAP: u8 = 11;
    pub(super) const UNREADABLE: u8 = 12;
}

impl Value<'_> {
    /// Appends the key form.
    #[inline]
    pub fn encode_key(&self, out: &mut Vec<u8>) {
        match self {
            Value::Null => out.push(tag::NULL),
            Value::Bool(false) => out.push(tag::FALSE),
            Value::Bool(true) => out.push(tag::TRUE),
            Value::Int(value) => put_whole(*value, out),
            Value::Uint(value) => match i64::try_from(*value) {
                Ok(value) => put_whole(value, out),
                Err(_) => put_exact(Decimal::from(*value), out),
            },
            Value::Decimal(value) => put_exact(*value, out),
            Value::Double(value) => match Decimal::from_f64(*value) {
                Some(value) => put_exact(value, out),
                None => {
                    let value = if value.is_nan() { f64::NAN } else { *value };
                    out.push(tag::DOUBLE);
                    out.extend_from_slice(&value.to_bits().to_be_bytes());
                }
            },
            Value::String(text) => {
                out.push(tag::STRING);
                put_bytes(out, text.as_bytes());
            }
            Value::Bytes(bytes) => {
                out.push(tag::BYTES);
                put_bytes(out, bytes);
            }
            Value::Timestamp(value) => {
                out.push(tag::TIMESTAMP);
                put_varint(out, zigzag(value.seconds));
                put_varint(out, u64::from(value.nanos));
            }
            Value::Duration(value) => {
                out.push(tag::DURATION);
                put_varint(out, zigzag(value.seconds));
                put_varint(out, u64::from(value.nanos));
            }
            Value::List(items) => {
                out.push(tag::LIST);
                put_varint(out, items.len() as u64);
                items.iter().for_each(|item| item.encode_key(out));
            }
            Value::Map(entries) => put_map(entries, out),
            Value::Json(bytes) => match self.clone().resolve() {
                Ok(value) => value.encode_key(out),
                Err(_) => {
                    out.push(tag::UNREADABLE);
                    put_bytes(out, bytes);
                }
            },
        }
    }
}

#[inline]
fn put_whole(value: i64, out: &mut Vec<u8>) {
    out.push(tag::WHOLE);
    put_varint(out, zigzag(value));
}

fn put_exact(value: Decimal, out: &mut Vec<u8>) {
    match value.to_i64() {
        Some(value) => put_whole(value, out),
        None => {
            out.push(tag::DECIMAL);
            put_decimal(value.normalized(), out);
        }
    }
}

fn put_map(entries: &super::Entries<'_>, out: &mut Vec<u8>) {
    let mut pairs: Vec<(Vec<u8>, &Value<'_>)> = entries
        .iter()
        .map(|(key, value)| {
            let mut bytes = Vec::new();
            key.encode_key(&mut bytes);
            (bytes, value)
        })
        .collect();
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    out.push(tag::MAP);
    put_varint(out, pairs.len() as u64);
    for (key, value) in pairs {
        out.extend_from_slice(&key);
        value.encode_key(out);
    }
}

impl Value<'static> {
    /// Reads a key form off the front: an equal value and how many bytes it took. `None` if the bytes are no
    /// such form.
    pub fn decode_key(bytes: &[u8]) -> Option<(Value<'static>, usize)> {
        let mut input = Reader::new(bytes);
        let value = decode(&mut input, MAX_DEPTH)?;
        Some((value, bytes.len() - input.rest().len()))
    }
}

fn decode(input: &mut Reader<'_>, depth: u32) -> Option<Value<'static>> {
    Some(match input.byte()? {
        tag::NULL => Value::Null,
        tag::FALSE => Value::Bool(false),
        tag::TRUE => Value::Bool(true),
        tag::WHOLE => Value::Int(unzigzag(input.varint()?)),
        tag::DECIMAL => Value::Decimal(read_decimal(input)?),
        tag::DOUBLE => Value::Double(f64::from_bits(input.u64()?)),
        tag::STRING => Value::String(Cow::Owned(input.str()?.to_owned())),
        tag::BYTES => Value::Bytes(Cow::Owned(input.bytes()?.to_owned())),
        tag::TIMESTAMP => Value::Timestamp(read_timestamp(input)?),
        tag::DURATION => Value::Duration(read_duration(input)?),
        tag::LIST => {
            let depth = depth.checked_sub(1)?;
            let mut items = Vec::new();
            for _ in 0..input.varint()? {
                items.push(decode(input, depth)?);
            }
            Value::list(items)
        }
        tag::MAP => {
            let depth = depth.checked_sub(1)?;
            let mut entries = Vec::new();
            for _ in 0..input.varint()? {
                let key = decode(input, depth)?;
                entries.push((key, decode(input, depth)?));
            }
            Value::map(entries)
        }
        tag::UNREADABLE => Value::Json(Cow::Owned(input.bytes()?.to_owned())),
        _ => return None,
    })
}
