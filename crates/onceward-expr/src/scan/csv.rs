//! CSV lines by byte ranges: RFC 4180 quotes, every line of exactly the header's number of columns.

use std::sync::Arc;

use onceward_connector::{CsvSchema, FieldType};

use super::row::read;
use crate::error::{BadValue, ScanError};
use crate::fields::{Kind, Slot};

/// Which columns go to which slots.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Slot and kind by column, up to the last wanted one.
    columns: Vec<Option<(usize, Kind)>>,
}

impl Plan {
    pub(crate) fn new(schema: &CsvSchema, names: &[String]) -> Self {
        let mut columns = vec![None; schema.columns.len()];
        for (slot, name) in names.iter().enumerate() {
            if let Some(column) = schema.columns.iter().rposition(|column| column.name == *name) {
                columns[column] = Some((slot, kind(schema.columns[column].field_type)));
            }
        }
        while let Some(None) = columns.last() {
            columns.pop();
        }
        Plan { columns }
    }
}

fn kind(field_type: FieldType) -> Kind {
    match field_type {
        FieldType::String => Kind::CsvString,
        FieldType::Int => Kind::CsvInt,
        FieldType::Decimal => Kind::CsvDecimal,
        FieldType::Bool => Kind::CsvBool,
        FieldType::Timestamp => Kind::CsvTimestamp,
    }
}

/// One field as it stands between its delimiters.
#[derive(Clone, Copy)]
struct Raw {
    start: usize,
    end: usize,
    quoted: bool,
    doubled: bool,
}

/// Finds the wanted columns of one line.
pub(crate) fn scan(
    record: &[u8],
    schema: &CsvSchema,
    plan: &Plan,
    slots: &mut [Slot],
) -> Result<(), ScanError> {
    let found = split(record, schema.delimiter, |column, raw| {
        if let Some(Some((slot, kind))) = plan.columns.get(column)
            && let Some(place) = slots.get_mut(*slot)
        {
            *place = slot_of(record, schema, *kind, raw);
        }
        Ok(())
    })?;
    check_count(found, schema)
}

fn check_count(found: usize, schema: &CsvSchema) -> Result<(), ScanError> {
    let expected = schema.columns.len();
    if found == expected { Ok(()) } else { Err(ScanError::Columns { found, expected }) }
}

#[inline(always)]
fn slot_of(record: &[u8], schema: &CsvSchema, kind: Kind, raw: Raw) -> Slot {
    let bytes = &record[raw.start..raw.end];
    if !raw.quoted && schema.null_values.iter().any(|null| null.as_bytes() == bytes) {
        return Slot::ABSENT;
    }
    let kind = if raw.doubled && kind == Kind::CsvString { Kind::CsvDoubled } else { kind };
    Slot { start: raw.start as u32, end: raw.end as u32, kind }
}

/// Calls `each` with every field; answers how many there are.
#[inline(always)]
fn split(
    record: &[u8],
    delimiter: u8,
    mut each: impl FnMut(usize, Raw) -> Result<(), ScanError>,
) -> Result<usize, ScanError> {
    let mut column = 0;
    let mut start = 0;
    if memchr::memchr(b'"', record).is_none() {
        let mut plain = |start, end| {
            each(column, Raw { start, end, quoted: false, doubled: false })?;
            column += 1;
            Ok::<_, ScanError>(())
        };
        for_each_match(record, delimiter, |at| {
            plain(start, at)?;
            start = at + 1;
            Ok(())
        })?;
        plain(start, record.len())?;
        return Ok(column);
    }
    loop {
        let raw = match record.get(start) {
            Some(b'"') => quoted(record, start, delimiter)?,
            _ => {
                let end = memchr::memchr(delimiter, &record[start..]).map_or(record.len(), |len| start + len);
                Raw { start, end, quoted: false, doubled: false }
            }
        };
        each(column, raw)?;
        column += 1;
        let end = raw.end + usize::from(raw.quoted);
        if end >= record.len() {
            return Ok(column);
        }
        start = end + 1;
    }
}

fn quoted(record: &[u8], start: usize, delimiter: u8) -> Result<Raw, ScanError> {
    let mut at = start + 1;
    let mut doubled = false;
    loop {
        let Some(len) = memchr::memchr(b'"', &record[at..]) else {
            return Err(ScanError::Quote { offset: start, problem: "the quoted field has no closing quote" });
        };
        at += len;
        match record.get(at + 1) {
            Some(b'"') => {
                doubled = true;
                at += 2;
            }
            Some(byte) if *byte != delimiter => {
                return Err(ScanError::Quote {
                    offset: at + 1,
                    problem: "there is text between the closing quote and the delimiter",
                });
            }
            _ => return Ok(Raw { start: start + 1, end: at, quoted: true, doubled }),
        }
    }
}

/// Every place of a byte, eight bytes at a time: fields are too short for a search per field.
#[inline(always)]
fn for_each_match(
    bytes: &[u8],
    byte: u8,
    mut each: impl FnMut(usize) -> Result<(), ScanError>,
) -> Result<(), ScanError> {
    const LOWS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let pattern = u64::from_ne_bytes([byte; 8]);
    let (chunks, tail) = bytes.as_chunks::<8>();
    for (index, chunk) in chunks.iter().enumerate() {
        let word = u64::from_le_bytes(*chunk) ^ pattern;
        let mut zeros = !(((word & LOWS) + LOWS) | word | LOWS);
        while zeros != 0 {
            each(index * 8 + (zeros.trailing_zeros() / 8) as usize)?;
            zeros &= zeros - 1;
        }
    }
    let start = chunks.len() * 8;
    for (index, candidate) in tail.iter().enumerate() {
        if *candidate == byte {
            each(start + index)?;
        }
    }
    Ok(())
}

/// Appends a line as a JSON object.
pub(crate) fn to_json(schema: &CsvSchema, record: &[u8], out: &mut Vec<u8>) -> Result<(), ScanError> {
    let mut separator = b'{';
    let found = split(record, schema.delimiter, |column, raw| {
        let Some(column) = schema.columns.get(column) else { return Ok(()) };
        let slot = slot_of(record, schema, kind(column.field_type), raw);
        if slot.kind == Kind::Absent {
            return Ok(());
        }
        let name = || Arc::<str>::from(column.name.as_str());
        let value = read(slot.kind, &record[raw.start..raw.end], name)?;
        out.push(separator);
        separator = b',';
        super::json::write_string(&column.name, out);
        out.push(b':');
        value
            .write_json(out)
            .map_err(|_| BadValue::new(&name(), &record[raw.start..raw.end], "a value that JSON can hold"))?;
        Ok(())
    })?;
    check_count(found, schema)?;
    if separator == b'{' {
        out.push(b'{');
    }
    out.push(b'}');
    Ok(())
}
