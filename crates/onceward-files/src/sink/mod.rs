//! The `file` sink: tables in a folder that appear whole, with the progress they carry.
//!
//! Every step of a writer (open, creation of the marker, table) is a numbered manifest that is
//! created exclusively. A writer that does not hold the last number cannot create the next one, which
//! is the fence; the manifest of a table names its file and the marker after it, which is the
//! progress; and a table becomes visible by a rename that any later open can repeat.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use onceward_connector::{
    BlockPolicy, Config, ConfigSchema, ConnectorError, Field, FieldKind, Sink, SinkConnector, SinkContract,
    StreamShape, Writer,
};
use onceward_protocol::SinkIdentity;
use onceward_protocol::guarantee::{Level, Promise};

use crate::compression::Compression;
use encode::{Encoder, TableFormat};
use layout::Layout;
use ledger::Ledger;
use storage::{LocalStorage, Storage};
use writer::FileWriter;

pub mod claim;
pub mod encode;
pub mod error;
pub mod layout;
pub mod ledger;
pub mod manifest;
pub mod storage;
pub mod writer;

#[cfg(test)]
mod tests;

/// The largest `maxSize`: a block is held in memory until it is written.
const MAX_BLOCK_BYTES: u64 = 1024 * 1024 * 1024;

static SCHEMA: ConfigSchema = ConfigSchema {
    connector: "file",
    doc: "Writes tables as JSONL or CSV files that appear whole, each exactly once.",
    fields: &[
        Field {
            name: "path",
            kind: FieldKind::Path,
            required: true,
            default: None,
            live: false,
            doc: "The folder for the files; it is made if it is not there.",
        },
        Field {
            name: "format",
            kind: FieldKind::Enum(&["jsonl", "csv"]),
            required: true,
            default: None,
            live: false,
            doc: "`jsonl`: one JSON object per line. `csv`: RFC 4180 with a header line in every file.",
        },
        Field {
            name: "columns",
            kind: FieldKind::StringList,
            required: false,
            default: None,
            live: false,
            doc: "The CSV columns in order; if unset, the fields of the input where they are known. Other fields are left out.",
        },
        Field {
            name: "compression",
            kind: FieldKind::Enum(&["none", "gzip", "zstd"]),
            required: false,
            default: Some("none"),
            live: false,
            doc: "How files are compressed; adds `.gz` or `.zst` to their names.",
        },
        Field {
            name: "rollInterval",
            kind: FieldKind::Duration,
            required: false,
            default: Some("60s"),
            live: true,
            doc: "How long a table stays open after its first row.",
        },
        Field {
            name: "maxRows",
            kind: FieldKind::Integer { min: 1, max: 100_000_000 },
            required: false,
            default: Some("1000000"),
            live: true,
            doc: "A table closes at this many rows.",
        },
        Field {
            name: "maxSize",
            kind: FieldKind::Size,
            required: false,
            default: Some("32MiB"),
            live: true,
            doc: "A table closes at this many bytes of rows, before compression; at most 1GiB.",
        },
    ],
};

/// The sink type `file`.
pub struct FileSinkConnector;

impl SinkConnector for FileSinkConnector {
    fn schema(&self) -> &'static ConfigSchema {
        &SCHEMA
    }
    fn promise(&self, _config: &Config) -> Promise {
        Promise {
            level: Level::ExactlyOnce,
            reason: "a file appears whole, in one step with the progress it carries, and the folder itself refuses every \
                     older writer"
                .into(),
            conditions: vec![
                "the file system refuses to create a name twice and keeps what was synced".into(),
                "nobody changes or removes the `.onceward` folder beside the files".into(),
            ],
        }
    }
    fn build(&self, config: &Config, input: &StreamShape) -> Result<Arc<dyn Sink>, ConnectorError> {
        Ok(Arc::new(FileSink::new(config, input, Arc::new(LocalStorage))?))
    }
}

/// A configured `file` sink.
pub struct FileSink {
    folder: PathBuf,
    encoder: Arc<Encoder>,
    policy: BlockPolicy,
    csv: bool,
    storage: Arc<dyn Storage>,
}

impl FileSink {
    /// Checks the config.
    pub fn new(
        config: &Config,
        input: &StreamShape,
        storage: Arc<dyn Storage>,
    ) -> Result<Self, ConnectorError> {
        let folder = config.path("path").cloned().unwrap_or_default();
        if folder.as_os_str().is_empty() {
            return Err(ConnectorError::config(
                "OW-3103",
                "path",
                "`path` is empty; name the folder for the files",
            ));
        }
        let compression = Compression::parse(config.string("compression").unwrap_or("none"));
        let encoder = Encoder::new(table_format(config, input)?, compression.unwrap_or(Compression::None));
        Ok(FileSink {
            folder,
            encoder: Arc::new(encoder),
            policy: policy(config)?,
            csv: config.string("format") == Some("csv"),
            storage,
        })
    }

    /// The writer of one partition, by its own type.
    pub fn file_writer(&self, identity: &SinkIdentity) -> Result<FileWriter, ConnectorError> {
        let layout = Layout::new(&self.folder, identity, self.encoder.extension())?;
        let ledger = Ledger { layout, identity: identity.clone(), storage: self.storage.clone() };
        Ok(FileWriter::new(ledger, self.encoder.clone()))
    }
}

impl Sink for FileSink {
    fn contract(&self) -> SinkContract {
        SinkContract::ProgressInTarget
    }
    fn block_policy(&self) -> BlockPolicy {
        self.policy
    }
    fn reads_fields(&self) -> bool {
        self.csv
    }
    fn fingerprint(&self) -> String {
        format!("file:{}", canonical(&self.folder).display())
    }
    fn writer(&self, identity: &SinkIdentity) -> Result<Writer, ConnectorError> {
        Ok(Writer::Progress(Box::new(self.file_writer(identity)?)))
    }
}

fn table_format(config: &Config, input: &StreamShape) -> Result<TableFormat, ConnectorError> {
    let given = config.list("columns");
    if config.string("format") != Some("csv") {
        if !given.is_empty() {
            let message = "`columns` is about CSV, but `format` is `jsonl`: remove it, or set `format: csv`";
            return Err(ConnectorError::config("OW-3103", "columns", message));
        }
        return Ok(TableFormat::Jsonl);
    }
    let columns = match &input.columns {
        _ if !given.is_empty() => given.to_vec(),
        Some(known) if !known.is_empty() => known.clone(),
        _ => {
            let message = "the fields of this sink's input are not known in advance, and CSV needs columns: give `columns`, \
                           in file order, or set `format: jsonl`";
            return Err(ConnectorError::config("OW-3110", "columns", message));
        }
    };
    if let Some((_, name)) = columns.iter().enumerate().find(|(at, name)| columns[..*at].contains(name)) {
        let message = format!("`columns` names `{name}` twice; name every column once");
        return Err(ConnectorError::config("OW-3110", "columns", message));
    }
    Ok(TableFormat::Csv(columns))
}

fn policy(config: &Config) -> Result<BlockPolicy, ConnectorError> {
    let max_age_us = config.duration("rollInterval").unwrap_or(60_000_000);
    if max_age_us <= 0 {
        let message = "`rollInterval` must be above zero, for example `60s`";
        return Err(ConnectorError::config("OW-3103", "rollInterval", message));
    }
    let max_rows = config.integer("maxRows").unwrap_or(1_000_000);
    let max_rows = usize::try_from(max_rows).ok().filter(|rows| *rows > 0).ok_or_else(|| {
        ConnectorError::config("OW-3103", "maxRows", format!("`maxRows` is {max_rows}; expected 1 or more"))
    })?;
    let max_size = config.size("maxSize").unwrap_or(32 * 1024 * 1024);
    if max_size == 0 || max_size > MAX_BLOCK_BYTES {
        let message = format!("`maxSize` is {max_size} bytes; expected at least one byte and at most 1GiB");
        return Err(ConnectorError::config("OW-3103", "maxSize", message));
    }
    Ok(BlockPolicy { max_rows, max_bytes: max_size as usize, max_age_us })
}

/// The canonical path, also of a folder that is not there yet.
fn canonical(path: &Path) -> PathBuf {
    if let Ok(found) = std::fs::canonicalize(path) {
        return found;
    }
    match (path.parent(), path.components().next_back()) {
        (Some(parent), Some(Component::Normal(name))) => canonical(parent).join(name),
        (Some(parent), Some(Component::ParentDir)) => {
            let mut above = canonical(parent);
            above.pop();
            above
        }
        (Some(parent), Some(Component::CurDir)) => canonical(parent),
        _ => path.to_owned(),
    }
}
