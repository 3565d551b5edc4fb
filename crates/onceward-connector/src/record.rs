//! Records in shared buffers: no allocation per message, no parsing that nobody asked for.

use std::sync::Arc;

use onceward_protocol::Position;

/// How a stream's payload bytes are to be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Codec {
    /// One JSON object per record.
    Json,
    /// One CSV line per record, without its line end.
    Csv(Arc<CsvSchema>),
}

/// The columns of a CSV stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CsvSchema {
    /// In file order.
    pub columns: Vec<Column>,
    /// Between fields; a quote is always `"`, doubled inside quotes.
    pub delimiter: u8,
    /// An unquoted field equal to one of these is absent.
    pub null_values: Vec<String>,
}

/// One CSV column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// From the header line or the manifest.
    pub name: String,
    /// Declared type; string unless the manifest says otherwise.
    pub field_type: FieldType,
}

/// The declared type of a CSV column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldType {
    /// Text, as it stands.
    String,
    /// A whole number, -2^63 to 2^63-1.
    Int,
    /// An exact decimal number.
    Decimal,
    /// `true` or `false`, in any case.
    Bool,
    /// RFC 3339, or `YYYY-MM-DD HH:MM:SS[.fraction]` and `YYYY-MM-DD` in UTC.
    Timestamp,
}

impl FieldType {
    /// The names a manifest may use.
    pub const NAMES: &'static [&'static str] = &["string", "int", "decimal", "bool", "timestamp"];
    /// By manifest name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "string" => FieldType::String,
            "int" => FieldType::Int,
            "decimal" => FieldType::Decimal,
            "bool" => FieldType::Bool,
            "timestamp" => FieldType::Timestamp,
            _ => return None,
        })
    }
}

/// Where one record lies in its batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// First byte in the batch's buffer.
    pub start: u32,
    /// Bytes.
    pub len: u32,
    /// Position in the source partition, strictly growing within it.
    pub position: Position,
}

/// How many readable bytes follow the last record of every batch, so that wide loads stay inside.
pub const PADDING: usize = 64;

/// Records in one buffer. The buffer is padded by [`PADDING`] zero bytes, which belong to no record.
#[derive(Debug, Default)]
pub struct RecordBatch {
    bytes: Vec<u8>,
    records: Vec<Record>,
}

impl RecordBatch {
    /// Takes a buffer and the records in it; pads the buffer.
    pub fn new(mut bytes: Vec<u8>, records: Vec<Record>) -> Self {
        bytes.resize(bytes.len() + PADDING, 0);
        RecordBatch { bytes, records }
    }
    /// The records, in order.
    pub fn records(&self) -> &[Record] {
        &self.records
    }
    /// One record's payload.
    #[inline]
    pub fn payload(&self, record: &Record) -> &[u8] {
        &self.bytes[record.start as usize..record.start as usize + record.len as usize]
    }
}
