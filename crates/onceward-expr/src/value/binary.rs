//! The tagged binary form of values in the shuffle and in state: what was encoded comes back the same.
//!
//! One tag byte, then: integers as zigzag varints, decimals as scale and zigzag varint, texts with a varint
//! length, lists and maps with a varint count. The tags are persisted and never change their meaning.

use std::borrow::Cow;

use onceward_protocol::codec::{Reader, put_bytes, put_varint};

use super::Value;
use crate::decimal::Decimal;
use crate::time::{Duration, Timestamp};

mod tag {
    pub(super) const NULL: u8 = 0;
    pub(super) const FALSE: u8 = 1;
    pub(super) const TRUE: u8 = 2;
    pub(super) const INT: u8 = 3;
    pub(super) const UINT: u8 = 4;
    pub(super) const DECIMAL: u8 = 5;
    pub(super) const DOUBLE: u8 = 6;
    pub(super) const STRING: u8 = 7;
    pub(super) const BYTES: u8 = 8;
    pub(super) const TIMESTAMP: u8 = 9;
    pub(super) const DURATION: u8 = 10;
    pub(super) const LIST: u8 = 11;
    pub(super) const MAP: u8 = 12;
    pub(super) const JSON: u8 = 13;
}

/// How deep decoded lists and maps may nest; more than an expression can build.
pub(super) const MAX_DEPTH: u32 = 400;

pub(super) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

pub(super) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

pub(super) fn put_decimal(value: Decimal, out: &mut Vec<u8>) {
    out.push(value.scale());
    let coefficient = value.coefficient();
    let mut rest = ((coefficient << 1) ^ (coefficient >> 127)) as u128;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

pub(super) fn read_decimal(input: &mut Reader<'_>) -> Option<Decimal> {
    let scale = input.byte()?;
    let mut value = 0u128;
    for shift in (0..128).step_by(7) {
        let byte = input.byte()?;
        if shift == 126 && byte > 3 {
            return None;
        }
        value |= u128::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            let coefficient = (value >> 1) as i128 ^ -((value & 1) as i128);
            return Decimal::new(coefficient, scale);
        }
    }
    None
}

impl Value<'_> {
    /// Appends the binary form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Value::Null => out.push(tag::NULL),
            Value::Bool(false) => out.push(tag::FALSE),
            Value::Bool(true) => out.push(tag::TRUE),
            Value::Int(value) => {
                out.push(tag::INT);
                put_varint(out, zigzag(*value));
            }
            Value::Uint(value) => {
                out.push(tag::UINT);
                put_varint(out, *value);
            }
            Value::Decimal(value) => {
                out.push(tag::DECIMAL);
                put_decimal(*value, out);
            }
            Value::Double(value) => {
                out.push(tag::DOUBLE);
                out.extend_from_slice(&value.to_bits().to_be_bytes());
            }
            Value::String(text) => {
                out.push(tag::STRING);
                put_bytes(out, text.as_bytes());
            }
            Value::Bytes(bytes) => {
                out.push(tag::BYTES);
                put_bytes(out, bytes);
            }
            Value::Timestamp(Timestamp { seconds, nanos }) => {
                out.push(tag::TIMESTAMP);
                put_varint(out, zigzag(*seconds));
                put_varint(out, u64::from(*nanos));
            }
            Value::Duration(Duration { seconds, nanos }) => {
                out.push(tag::DURATION);
                put_varint(out, zigzag(*seconds));
                put_varint(out, u64::from(*nanos));
            }
            Value::List(items) => {
                out.push(tag::LIST);
                put_varint(out, items.len() as u64);
                items.iter().for_each(|item| item.encode(out));
            }
            Value::Map(entries) => {
                out.push(tag::MAP);
                put_varint(out, entries.len() as u64);
                for (key, value) in entries.iter() {
                    key.encode(out);
                    value.encode(out);
                }
            }
            Value::Json(bytes) => {
                out.push(tag::JSON);
                put_bytes(out, bytes);
            }
        }
    }
}

impl<'a> Value<'a> {
    /// Reads one value off the front; the rest follows it. `None` if the bytes are not such a form.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Option<(Value<'a>, &'a [u8])> {
        let mut input = Reader::new(bytes);
        let value = decode(&mut input, MAX_DEPTH)?;
        Some((value, input.rest()))
    }
}

fn decode<'a>(input: &mut Reader<'a>, depth: u32) -> Option<Value<'a>> {
    Some(match input.byte()? {
        tag::NULL => Value::Null,
        tag::FALSE => Value::Bool(false),
        tag::TRUE => Value::Bool(true),
        tag::INT => Value::Int(unzigzag(input.varint()?)),
        tag::UINT => Value::Uint(input.varint()?),
        tag::DECIMAL => Value::Decimal(read_decimal(input)?),
        tag::DOUBLE => Value::Double(f64::from_bits(input.u64()?)),
        tag::STRING => Value::String(Cow::Borrowed(input.str()?)),
        tag::BYTES => Value::Bytes(Cow::Borrowed(input.bytes()?)),
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
        tag::JSON => Value::Json(Cow::Borrowed(input.bytes()?)),
        _ => return None,
    })
}

pub(super) fn read_timestamp(input: &mut Reader<'_>) -> Option<Timestamp> {
    let seconds = unzigzag(input.varint()?);
    Timestamp::new(seconds, u32::try_from(input.varint()?).ok()?)
}

pub(super) fn read_duration(input: &mut Reader<'_>) -> Option<Duration> {
    let seconds = unzigzag(input.varint()?);
    let nanos = u32::try_from(input.varint()?).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Duration::new(seconds, nanos)
}
