//! The `file` source: JSONL and CSV files, compressed or not, exactly-once by read ranges.
//!
//! A file is a partition, a record's position is its ordinal in the file, starting at 1. A place in
//! a file is stored with a digest of all bytes before it; reading goes on from a place only if the
//! bytes before it are proved to be the same ([`reader::FileReader::resume`]).

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use onceward_connector::{
    Codec, Config, ConfigSchema, ConnectorError, Field, FieldKind, FieldType, Source, SourceConnector,
    SourceFacts, SourceReader,
};
use onceward_protocol::Position;
use onceward_protocol::guarantee::{Level, Promise};

use crate::compression::Compression;
use header::CsvOptions;
use reader::{CHUNK_BYTES, FileReader, ReadOptions};
use split::Lines;
use token::Token;

pub mod digest;
pub mod discover;
pub mod header;
pub mod input;
pub mod reader;
pub mod split;
pub mod token;

#[cfg(test)]
mod tests;

static SCHEMA: ConfigSchema = ConfigSchema {
    connector: "file",
    doc: "Reads JSONL or CSV files, compressed or not; every file is a partition.",
    fields: &[
        Field {
            name: "path",
            kind: FieldKind::Path,
            required: true,
            default: None,
            live: false,
            doc: "A file or a glob. `*` stays within one folder, `**` goes into folders of any depth.",
        },
        Field {
            name: "format",
            kind: FieldKind::Enum(&["jsonl", "csv"]),
            required: true,
            default: None,
            live: false,
            doc: "`jsonl`: one JSON object per line. `csv`: RFC 4180 records.",
        },
        Field {
            name: "compression",
            kind: FieldKind::Enum(&["auto", "none", "gzip", "zstd"]),
            required: false,
            default: Some("auto"),
            live: false,
            doc: "`auto` goes by the extension: `.gz` is gzip, `.zst` is Zstandard, all else is not compressed.",
        },
        Field {
            name: "types",
            kind: FieldKind::EnumMap(FieldType::NAMES),
            required: false,
            default: None,
            live: false,
            doc: "Types of CSV columns; a column without one is a string.",
        },
        Field {
            name: "nullValues",
            kind: FieldKind::StringList,
            required: false,
            default: None,
            live: false,
            doc: "An unquoted CSV field equal to one of these means that the field is absent.",
        },
        Field {
            name: "delimiter",
            kind: FieldKind::Char,
            required: false,
            default: Some(","),
            live: false,
            doc: "The character between CSV fields.",
        },
        Field {
            name: "header",
            kind: FieldKind::Bool,
            required: false,
            default: Some("true"),
            live: false,
            doc: "Whether every CSV file starts with a line of column names.",
        },
        Field {
            name: "columns",
            kind: FieldKind::StringList,
            required: false,
            default: None,
            live: false,
            doc: "The CSV columns in file order; required with `header: false`, otherwise the header must equal it.",
        },
        Field {
            name: "bounded",
            kind: FieldKind::Bool,
            required: false,
            default: Some("true"),
            live: false,
            doc: "`true`: files are complete and the source ends. `false`: files grow at their end and are followed.",
        },
    ],
};

/// The source type `file`.
pub struct FileSourceConnector;

impl SourceConnector for FileSourceConnector {
    fn schema(&self) -> &'static ConfigSchema {
        &SCHEMA
    }
    fn promise(&self, config: &Config) -> Promise {
        let facts = facts(config.bool("bounded").unwrap_or(true));
        Promise { level: Level::ExactlyOnce, reason: facts.reason, conditions: facts.conditions }
    }
    /// Opening proves that the bytes before a place are the same, so a range that changed is never read again as if it
    /// had not.
    fn immutable(&self, _config: &Config) -> bool {
        true
    }
    fn build(&self, config: &Config) -> Result<Arc<dyn Source>, ConnectorError> {
        Ok(Arc::new(FileSource::new(config, CHUNK_BYTES)?))
    }
}

fn facts(bounded: bool) -> SourceFacts {
    let condition = match bounded {
        true => "the files stay as they are until the pipeline has finished reading them",
        false => "the files only ever grow at their end",
    };
    SourceFacts {
        bounded,
        replayable: true,
        reason: "every record has a fixed place in its file, and reading goes on from a place only after the bytes \
                 before it were proved to be the same"
            .into(),
        conditions: vec![condition.into()],
    }
}

/// A configured `file` source.
pub struct FileSource {
    glob: PathBuf,
    /// `None` goes by the extension.
    compression: Option<Compression>,
    /// `None` for JSONL.
    csv: Option<CsvOptions>,
    bounded: bool,
    chunk_bytes: usize,
    codec: OnceLock<Codec>,
}

impl FileSource {
    /// Checks the config. `chunk_bytes` is how much is asked of a file at once.
    pub fn new(config: &Config, chunk_bytes: usize) -> Result<Self, ConnectorError> {
        let glob = config.path("path").cloned().unwrap_or_default();
        discover::check(&glob)?;
        let bounded = config.bool("bounded").unwrap_or(true);
        let compression = Compression::parse(config.string("compression").unwrap_or("auto"));
        let follows = compression.unwrap_or_else(|| Compression::by_extension(&glob));
        if !bounded && follows != Compression::None {
            return Err(not_followed(&glob));
        }
        let csv = match config.string("format") {
            Some("csv") => Some(csv_options(config)?),
            _ => {
                for key in ["types", "nullValues", "columns"] {
                    if config.values().contains_key(key) {
                        return Err(ConnectorError::config(
                            "OW-3003",
                            key,
                            format!(
                                "`{key}` is about CSV columns, but `format` is `jsonl`: remove it, or set `format: csv`"
                            ),
                        ));
                    }
                }
                None
            }
        };
        Ok(FileSource { glob, compression, csv, bounded, chunk_bytes, codec: OnceLock::new() })
    }

    fn options(&self, path: &Path) -> Result<ReadOptions, ConnectorError> {
        let compression = self.compression.unwrap_or_else(|| Compression::by_extension(path));
        if !self.bounded && compression != Compression::None {
            return Err(not_followed(path));
        }
        let lines = match &self.csv {
            Some(csv) => Lines::Csv { delimiter: csv.delimiter },
            None => Lines::Plain,
        };
        Ok(ReadOptions { lines, compression, follow: !self.bounded, chunk_bytes: self.chunk_bytes })
    }

    /// Starts a file and takes its header line, if files have one.
    fn start(&self, path: &Path) -> Result<(FileReader, Option<Vec<String>>), ConnectorError> {
        let mut reader = FileReader::start(path, self.options(path)?)?;
        let Some(csv) = self.csv.as_ref().filter(|csv| csv.header) else { return Ok((reader, None)) };
        let line = reader.take_header()?.ok_or_else(|| {
            ConnectorError::new(
                "OW-3006",
                format!(
                    "{} has no header line. Expected the column names in the first line; write it, remove the file, or \
                     set `header: false` and give `columns`",
                    path.display()
                ),
            )
        })?;
        let names = header::parse_header(&line, csv.delimiter, path)?;
        Ok((reader, Some(names)))
    }

    fn path(&self, partition: &str) -> Result<PathBuf, ConnectorError> {
        Ok(discover::base(&self.glob)?.join(partition))
    }
}

impl Source for FileSource {
    fn facts(&self) -> SourceFacts {
        facts(self.bounded)
    }

    fn codec(&self) -> Result<Codec, ConnectorError> {
        if let Some(codec) = self.codec.get() {
            return Ok(codec.clone());
        }
        let codec = match &self.csv {
            None => Codec::Json,
            Some(csv) if !csv.header => Codec::Csv(csv.schema(None)?),
            Some(csv) => {
                let first = discover::names(&self.glob)?.into_iter().next().unwrap_or_default();
                let path = self.path(&first)?;
                let (_, header) = self.start(&path)?;
                Codec::Csv(csv.schema(header.map(|names| (names, path.as_path())))?)
            }
        };
        Ok(self.codec.get_or_init(|| codec).clone())
    }

    fn partitions(&self) -> Result<Vec<String>, ConnectorError> {
        let names = discover::names(&self.glob)?;
        if !self.bounded {
            let compressed = names.iter().find(|name| self.options(Path::new(name)).is_err());
            if let Some(name) = compressed {
                return Err(not_followed(Path::new(name)));
            }
        }
        Ok(names)
    }

    fn open(
        &self,
        partition: &str,
        position: Position,
        token: &[u8],
    ) -> Result<Box<dyn SourceReader>, ConnectorError> {
        let path = self.path(partition)?;
        let (reader, header) = self.start(&path)?;
        if let (Some(names), Codec::Csv(schema)) = (header, self.codec()?) {
            let expected: Vec<String> = schema.columns.iter().map(|column| column.name.clone()).collect();
            if names != expected {
                return Err(header::different_header(
                    &path,
                    &names,
                    "the other files of this source",
                    &expected,
                    None,
                ));
            }
        }
        if token.is_empty() && position == Position::ORIGIN {
            return Ok(Box::new(reader));
        }
        let token = Token::decode(token).filter(|token| Position::at(token.place.ordinal) == position);
        let token = token.ok_or_else(|| {
            ConnectorError::new(
                "OW-3013",
                format!(
                    "the stored place after record {position} of {} cannot be read. Expected a place that this version \
                     of Onceward wrote: start it with the version that ran last, or reset the pipeline",
                    path.display()
                ),
            )
        })?;
        Ok(Box::new(FileReader::resume(&path, self.options(&path)?, &token)?))
    }

    fn size(&self, partition: &str) -> Option<u64> {
        let path = self.path(partition).ok()?;
        std::fs::metadata(path).ok().map(|metadata| metadata.len())
    }

    fn progress(&self, token: &[u8]) -> Option<u64> {
        Token::decode(token).map(|token| token.raw_offset)
    }
}

fn csv_options(config: &Config) -> Result<CsvOptions, ConnectorError> {
    let delimiter = match config.string("delimiter").unwrap_or(",").as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n') => *byte,
        _ => {
            return Err(ConnectorError::config(
                "OW-3004",
                "delimiter",
                "`delimiter` must be one ASCII character, and neither a quote nor a line end",
            ));
        }
    };
    let types: Option<Vec<_>> = config
        .map("types")
        .iter()
        .map(|(name, word)| FieldType::parse(word).map(|field_type| (name.clone(), field_type)))
        .collect();
    let types = types.ok_or_else(|| {
        let message =
            format!("`types` holds an unknown type; expected one of {}", FieldType::NAMES.join(", "));
        ConnectorError::config("OW-3007", "types", message)
    })?;
    let csv = CsvOptions {
        delimiter,
        header: config.bool("header").unwrap_or(true),
        columns: config.list("columns").to_vec(),
        types,
        null_values: config.list("nullValues").to_vec(),
    };
    if let Some(name) = csv.columns.iter().enumerate().find(|(at, name)| csv.columns[..*at].contains(name)) {
        let message = format!("`columns` names `{}` twice; give every column a name of its own", name.1);
        return Err(ConnectorError::config("OW-3005", "columns", message));
    }
    if !csv.header && csv.columns.is_empty() {
        let message =
            "`header: false` says that the files do not name their columns: give `columns`, in file order";
        return Err(ConnectorError::config("OW-3005", "columns", message));
    }
    if !csv.columns.is_empty() {
        csv.schema(None)?;
    }
    Ok(csv)
}

fn not_followed(path: &Path) -> ConnectorError {
    ConnectorError::config(
        "OW-3017",
        "bounded",
        format!(
            "`bounded: false` follows files that grow, but `{}` is compressed, and only uncompressed files can be \
             followed: set `bounded: true`, or write the file uncompressed",
            path.display()
        ),
    )
}
