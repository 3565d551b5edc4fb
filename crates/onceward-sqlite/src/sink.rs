//! The sink type `sqlite`: its config and what it promises.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use onceward_connector::{
    BlockPolicy, Config, ConfigSchema, ConnectorError, Field, FieldKind, Fields, Sink, SinkConnector,
    SinkContract, StreamShape, Writer,
};
use onceward_protocol::SinkIdentity;
use onceward_protocol::guarantee::{Level, Promise};

use crate::database::Database;
use crate::progress::SqliteWriter;
use crate::table::{Mode, ORIGIN, Table, VERSION};
use crate::versioned::VersionedWriter;

/// A block's payload, at most: what one transaction may hold back in memory.
const MAX_BLOCK_BYTES: usize = 16 * 1024 * 1024;
/// The longest wait for others that hold the database, in microseconds.
const MAX_BUSY_US: u64 = 3_600_000_000;
/// As many as SQLite allows.
const MAX_COLUMNS: usize = 2000;

static SCHEMA: ConfigSchema = ConfigSchema {
    connector: "sqlite",
    doc: "Writes rows to a table of a SQLite database, in one transaction with the progress they make.",
    fields: &[
        Field {
            name: "path",
            kind: FieldKind::Path,
            required: true,
            default: None,
            live: false,
            doc: "The database file; it and its folder are made if they are not there.",
        },
        Field {
            name: "table",
            kind: FieldKind::String,
            required: true,
            default: None,
            live: false,
            doc: "The table; it is made if it is not there.",
        },
        Field {
            name: "columns",
            kind: FieldKind::StringList,
            required: false,
            default: None,
            live: false,
            doc: "The fields that become columns; if unset, the fields of the input where they are known, otherwise one \
                  column `payload` with the whole row. Other fields are left out.",
        },
        Field {
            name: "mode",
            kind: FieldKind::Enum(&["append", "upsert", "upsertVersioned"]),
            required: false,
            default: Some("append"),
            live: false,
            doc: "`append`: every row is inserted. `upsert`: a row replaces the one of its key. `upsertVersioned`: it does \
                  so only if it is newer, by a version kept beside it.",
        },
        Field {
            name: "key",
            kind: FieldKind::StringList,
            required: false,
            default: None,
            live: false,
            doc: "The columns that make the key; required with both kinds of upsert.",
        },
        Field {
            name: "flushInterval",
            kind: FieldKind::Duration,
            required: false,
            default: Some("500ms"),
            live: true,
            doc: "How long a transaction waits for more rows after its first.",
        },
        Field {
            name: "maxRows",
            kind: FieldKind::Integer { min: 1, max: 10_000_000 },
            required: false,
            default: Some("10000"),
            live: true,
            doc: "A transaction holds at most this many rows.",
        },
        Field {
            name: "busyTimeout",
            kind: FieldKind::Duration,
            required: false,
            default: Some("10s"),
            live: true,
            doc: "How long to wait for another program that holds the database before the attempt is made again.",
        },
    ],
};

/// The sink type `sqlite`.
pub struct SqliteConnector;

impl SinkConnector for SqliteConnector {
    fn schema(&self) -> &'static ConfigSchema {
        &SCHEMA
    }
    fn promise(&self, config: &Config) -> Promise {
        let local = "the database is on a local disk that keeps what was synced".to_owned();
        match mode(config) {
            Mode::UpsertVersioned => Promise {
                level: Level::EffectivelyOnce,
                reason: "the database applies a row only if its version is newer than the one it keeps for the key".into(),
                conditions: vec![
                    local,
                    format!("nobody else changes the rows or their columns `{ORIGIN}` and `{VERSION}`"),
                ],
            },
            Mode::Append | Mode::Upsert => Promise {
                level: Level::ExactlyOnce,
                reason: "rows and the progress they make are one transaction of the database, which itself refuses every \
                         older writer"
                    .into(),
                conditions: vec![local, "nobody changes the table `onceward_progress` beside the rows".into()],
            },
        }
    }
    fn build(&self, config: &Config, input: &StreamShape) -> Result<Arc<dyn Sink>, ConnectorError> {
        Ok(Arc::new(SqliteSink::new(config, input)?))
    }
}

/// A configured `sqlite` sink.
pub struct SqliteSink {
    path: PathBuf,
    database: Arc<Database>,
    table: Arc<Table>,
    policy: BlockPolicy,
}

impl SqliteSink {
    /// Checks the config.
    pub fn new(config: &Config, input: &StreamShape) -> Result<Self, ConnectorError> {
        let path = config.path("path").cloned().unwrap_or_default();
        if path.as_os_str().is_empty() {
            return Err(refused("path", "`path` is empty; name the database file".into()));
        }
        let busy = config.duration("busyTimeout").unwrap_or(10_000_000);
        let busy = u64::try_from(busy)
            .ok()
            .filter(|busy| *busy <= MAX_BUSY_US)
            .ok_or_else(|| refused("busyTimeout", "`busyTimeout` must be between `0ms` and `1h`".into()))?;
        let database = Arc::new(Database::new(path.clone(), Duration::from_micros(busy)));
        let table = Arc::new(table(config, input, database.name())?);
        Ok(SqliteSink { path, database, table, policy: policy(config)? })
    }

    /// The database, shared by all writers of this sink.
    pub fn database(&self) -> &Database {
        &self.database
    }
}

impl Sink for SqliteSink {
    fn contract(&self) -> SinkContract {
        match self.table.mode {
            Mode::UpsertVersioned => SinkContract::VersionedUpsert,
            Mode::Append | Mode::Upsert => SinkContract::ProgressInTarget,
        }
    }
    fn block_policy(&self) -> BlockPolicy {
        self.policy
    }
    fn reads_fields(&self) -> bool {
        self.table.columns.is_some()
    }
    fn fingerprint(&self) -> String {
        format!("sqlite:{}#{}", canonical(&self.path).display(), self.table.target())
    }
    fn writer(&self, identity: &SinkIdentity) -> Result<Writer, ConnectorError> {
        let (database, table) = (self.database.clone(), self.table.clone());
        Ok(match self.table.mode {
            Mode::UpsertVersioned => Writer::Plain(Box::new(VersionedWriter::new(database, table, identity))),
            Mode::Append | Mode::Upsert => {
                Writer::Progress(Box::new(SqliteWriter::new(database, table, identity)))
            }
        })
    }
}

fn refused(key: &'static str, message: String) -> ConnectorError {
    ConnectorError::config("OW-3210", key, message)
}

fn mode(config: &Config) -> Mode {
    match config.string("mode") {
        Some("upsert") => Mode::Upsert,
        Some("upsertVersioned") => Mode::UpsertVersioned,
        _ => Mode::Append,
    }
}

fn table(config: &Config, input: &StreamShape, database: String) -> Result<Table, ConnectorError> {
    let name = config.string("table").unwrap_or_default().to_owned();
    check_name("table", &name)?;
    let lower = name.to_ascii_lowercase();
    if lower.starts_with("sqlite_") || lower.starts_with("onceward_") {
        let message = format!(
            "`table` is `{name}`, but `sqlite_` and `onceward_` start names of their own; name another"
        );
        return Err(refused("table", message));
    }
    let mode = mode(config);
    let columns = columns(config, input)?;
    let key = key(config, mode, columns.as_deref())?;
    let fields = Fields::new(columns.iter().flatten());
    Ok(Table { name, database, mode, columns, key, fields })
}

fn columns(config: &Config, input: &StreamShape) -> Result<Option<Vec<String>>, ConnectorError> {
    let columns = match (config.list("columns"), &input.columns) {
        ([], Some(known)) if !known.is_empty() => known.clone(),
        ([], _) => return Ok(None),
        (given, _) => given.to_vec(),
    };
    if columns.len() > MAX_COLUMNS - 2 {
        let message =
            format!("found {} columns, expected at most {}; give `columns`", columns.len(), MAX_COLUMNS - 2);
        return Err(refused("columns", message));
    }
    for (at, name) in columns.iter().enumerate() {
        check_name("columns", name)?;
        if let Some(first) = columns[..at].iter().find(|other| other.eq_ignore_ascii_case(name)) {
            let message = format!(
                "the columns `{first}` and `{name}` are one to SQLite, which does not tell upper from lower case; leave one \
                 out of `columns`"
            );
            return Err(refused("columns", message));
        }
        if [ORIGIN, VERSION].iter().any(|own| own.eq_ignore_ascii_case(name)) {
            return Err(refused(
                "columns",
                format!("the column `{name}` is this sink's own; leave it out of `columns`"),
            ));
        }
    }
    Ok(Some(columns))
}

fn key(config: &Config, mode: Mode, columns: Option<&[String]>) -> Result<Vec<String>, ConnectorError> {
    let key = config.list("key");
    match (mode, columns) {
        (Mode::Append, _) if key.is_empty() => return Ok(Vec::new()),
        (Mode::Append, _) => {
            let message = "`key` is about upserts, but `mode` is `append`: remove it, or set `mode: upsert`";
            return Err(refused("key", message.into()));
        }
        _ if key.is_empty() => {
            return Err(refused(
                "key",
                "an upsert needs to know the key: give `key`, a list of columns".into(),
            ));
        }
        (_, None) => {
            let message = "the fields of this sink's input are not known in advance, and an upsert needs columns: give \
                           `columns`, or set `mode: append`";
            return Err(refused("columns", message.into()));
        }
        _ => {}
    }
    let columns = columns.unwrap_or_default();
    for (at, name) in key.iter().enumerate() {
        if !columns.contains(name) {
            let known = columns.join("`, `");
            return Err(refused(
                "key",
                format!("`key` names `{name}`, expected one of the columns `{known}`"),
            ));
        }
        if key[..at].contains(name) {
            return Err(refused("key", format!("`key` names `{name}` twice; name every column once")));
        }
    }
    Ok(key.to_vec())
}

fn check_name(key: &'static str, name: &str) -> Result<(), ConnectorError> {
    if name.is_empty() || name.contains('\0') {
        return Err(refused(
            key,
            format!("`{key}` holds a name that is empty or has a zero byte; name it otherwise"),
        ));
    }
    Ok(())
}

fn policy(config: &Config) -> Result<BlockPolicy, ConnectorError> {
    let max_age_us = config.duration("flushInterval").unwrap_or(500_000);
    if max_age_us < 0 {
        return Err(refused("flushInterval", "`flushInterval` is below zero".into()));
    }
    let max_rows = config.integer("maxRows").unwrap_or(10_000);
    let max_rows = usize::try_from(max_rows).ok().filter(|rows| *rows > 0);
    let max_rows = max_rows.ok_or_else(|| refused("maxRows", "`maxRows` must be 1 or more".into()))?;
    Ok(BlockPolicy { max_rows, max_bytes: MAX_BLOCK_BYTES, max_age_us })
}

/// The file itself, whatever way leads there, also before it or its folders are made.
fn canonical(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let known = absolute.ancestors().find_map(|known| {
        let found = known.canonicalize().ok()?;
        Some((found, absolute.strip_prefix(known).ok()?))
    });
    let Some((mut found, rest)) = known else { return absolute };
    for part in rest.components() {
        match part {
            Component::ParentDir => {
                found.pop();
            }
            part => found.push(part),
        }
    }
    found
}
