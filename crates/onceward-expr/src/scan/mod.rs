//! From a record's bytes to fields: one pass finds where the wanted fields are, values are made when read.

pub(crate) mod csv;
pub(crate) mod json;
mod row;

use std::sync::Arc;

use onceward_connector::{Codec, CsvSchema};

use crate::error::ScanError;
use crate::fields::{FieldSet, Slots};
pub use row::Row;
pub(crate) use row::parse_int;

/// Finds the fields of a [`FieldSet`] in records of one codec.
#[derive(Clone, Debug)]
pub struct Scanner {
    names: Vec<Arc<str>>,
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    Json(Vec<json::Wanted>),
    Csv { schema: Arc<CsvSchema>, plan: csv::Plan },
}

impl Scanner {
    /// A scanner for these fields. A field that is no column of a CSV codec is absent in every record; of two
    /// columns of one name the last is read.
    pub fn new(codec: &Codec, fields: &FieldSet) -> Scanner {
        let form = match codec {
            Codec::Json => Form::Json(fields.names().iter().map(|name| json::Wanted::new(name)).collect()),
            Codec::Csv(schema) => {
                Form::Csv { schema: schema.clone(), plan: csv::Plan::new(schema, fields.names()) }
            }
        };
        Scanner { names: fields.names().iter().map(|name| Arc::from(name.as_str())).collect(), form }
    }

    /// Fills the slots from a record.
    ///
    /// JSON: the whole object is walked, so that of duplicate keys the last one wins and a malformed tail is
    /// an error. Top-level structure and literals are checked, nested values for balanced brackets and
    /// quotes; a number's or nested value's inside is checked when it is read. CSV: quotes and the number of
    /// columns are checked over the whole line.
    #[inline]
    pub fn scan(&self, record: &[u8], slots: &mut Slots) -> Result<(), ScanError> {
        if u32::try_from(record.len()).is_err() {
            return Err(ScanError::TooLarge { found: record.len() });
        }
        slots.reset(self.names.len());
        match &self.form {
            Form::Json(wanted) => json::scan(record, wanted, &mut slots.slots),
            Form::Csv { schema, plan } => csv::scan(record, schema, plan, &mut slots.slots),
        }
    }

    pub(crate) fn name(&self, slot: usize) -> Arc<str> {
        self.names.get(slot).cloned().unwrap_or_default()
    }
}

/// Appends a record as one JSON object. JSON: a byte copy. CSV: typed values in column order, absent columns
/// left out.
pub fn record_to_json(codec: &Codec, record: &[u8], out: &mut Vec<u8>) -> Result<(), ScanError> {
    match codec {
        Codec::Json => {
            out.extend_from_slice(record);
            Ok(())
        }
        Codec::Csv(schema) => csv::to_json(schema, record, out),
    }
}
