//! Tests of the crate as a whole, with connectors that exist only here.

mod accepted;
mod canonical;
mod change;
mod docs;
mod guarantees;
mod outbox;
mod refused;
mod robust;
mod schema;

use std::path::Path;
use std::sync::Arc;

use onceward_connector::{
    Codec, Config, ConfigSchema, ConnectorError, Context, Field, FieldKind, FieldType, Function,
    FunctionError, Message, MessageFunction, ProcessFunction, Registry, Sink, SinkConnector, Source,
    SourceConnector, SourceFacts, SourceReader, StreamShape, Writer,
};
use onceward_protocol::guarantee::{Level, Promise};
use onceward_protocol::{Position, SinkIdentity};

use crate::{Errors, ManifestInput, Parsed, parse};

/// The manifest every user sees first.
pub(super) const FLIGHTS: &str = r#"# yaml-language-server: $schema=...
apiVersion: onceward.dev/v1
kind: Pipeline
metadata: { name: flight-delays }
spec:
  require: exactly_once
  sources:
    flights:
      type: file
      config:
        path: data/flights-*.csv.zst
        format: csv
        types: { arr_delay: int, time_hour: timestamp }   # CSV columns are strings unless typed
        nullValues: ["NA"]                                # a null value means the field is absent
      eventTime: { field: time_hour, outOfOrderness: 24h }
  computations:
    arrived:
      inputs: [flights]
      steps:
        - filter: has(arr_delay)
    by_carrier:
      inputs: [arrived]
      groupBy: [carrier]
      aggregate:
        window: { tumbling: 1h }
        compute: { flights: count(), mean_delay: avg(arr_delay), worst: max(arr_delay) }
  sinks:
    hourly:
      inputs: [by_carrier]
      type: file
      config: { path: out/hourly, format: jsonl }
"#;

/// The whole aggregate in it.
pub(super) const AGGREGATE: &str = "      aggregate:\n        window: { tumbling: 1h }\n        compute: { flights: count(), mean_delay: avg(arr_delay), worst: max(arr_delay) }\n";

const fn field(name: &'static str, kind: FieldKind, default: Option<&'static str>) -> Field {
    Field { name, kind, required: false, default, live: false, doc: "For tests." }
}

const fn live(name: &'static str, kind: FieldKind, default: Option<&'static str>) -> Field {
    Field { live: true, ..field(name, kind, default) }
}

static FILE_SOURCE: ConfigSchema = ConfigSchema {
    connector: "file",
    doc: "Files.",
    fields: &[
        Field {
            name: "path",
            kind: FieldKind::Path,
            required: true,
            default: None,
            live: false,
            doc: "Where.",
        },
        Field {
            name: "format",
            kind: FieldKind::Enum(&["jsonl", "csv"]),
            required: true,
            default: None,
            live: false,
            doc: "How.",
        },
        field("types", FieldKind::EnumMap(FieldType::NAMES), None),
        field("nullValues", FieldKind::StringList, None),
        field("delimiter", FieldKind::Char, Some(",")),
        field("header", FieldKind::Bool, Some("true")),
        field("label", FieldKind::String, None),
    ],
};

static FILE_SINK: ConfigSchema = ConfigSchema {
    connector: "file",
    doc: "Files.",
    fields: &[
        Field {
            name: "path",
            kind: FieldKind::Path,
            required: true,
            default: None,
            live: false,
            doc: "Where.",
        },
        Field {
            name: "format",
            kind: FieldKind::Enum(&["jsonl", "csv"]),
            required: true,
            default: None,
            live: false,
            doc: "How.",
        },
        field("columns", FieldKind::StringList, None),
        live("rollInterval", FieldKind::Duration, Some("60s")),
        live("maxRows", FieldKind::Integer { min: 1, max: 10_000_000 }, Some("1000000")),
        live("maxSize", FieldKind::Size, Some("32MiB")),
    ],
};

static STDOUT: ConfigSchema = ConfigSchema { connector: "stdout", doc: "Lines.", fields: &[] };

struct FileSource;
struct FileSink;
struct StdoutSink;
struct Nothing;

impl Source for Nothing {
    fn facts(&self) -> SourceFacts {
        SourceFacts { bounded: true, replayable: true, reason: String::new(), conditions: Vec::new() }
    }
    fn codec(&self) -> Result<Codec, ConnectorError> {
        Ok(Codec::Json)
    }
    fn partitions(&self) -> Result<Vec<String>, ConnectorError> {
        Ok(Vec::new())
    }
    fn open(&self, _: &str, _: Position, _: &[u8]) -> Result<Box<dyn SourceReader>, ConnectorError> {
        Err(ConnectorError::new("OW-3000", "a test connector opens nothing"))
    }
}

impl Sink for Nothing {
    fn contract(&self) -> onceward_connector::SinkContract {
        onceward_connector::SinkContract::Plain
    }
    fn block_policy(&self) -> onceward_connector::BlockPolicy {
        onceward_connector::BlockPolicy { max_rows: 1, max_bytes: 1, max_age_us: 1 }
    }
    fn fingerprint(&self) -> String {
        String::new()
    }
    fn writer(&self, _: &SinkIdentity) -> Result<Writer, ConnectorError> {
        Err(ConnectorError::new("OW-3000", "a test connector writes nothing"))
    }
}

fn promise(level: Level, reason: &str, conditions: &[&str]) -> Promise {
    let conditions = conditions.iter().map(|condition| (*condition).to_owned()).collect();
    Promise { level, reason: reason.to_owned(), conditions }
}

impl SourceConnector for FileSource {
    fn schema(&self) -> &'static ConfigSchema {
        &FILE_SOURCE
    }
    fn promise(&self, _: &Config) -> Promise {
        promise(Level::ExactlyOnce, "files are read by ranges", &["the files stay as they are"])
    }
    fn immutable(&self, config: &Config) -> bool {
        config.string("label") != Some("grows")
    }
    fn build(&self, config: &Config) -> Result<Arc<dyn Source>, ConnectorError> {
        if config.string("format") == Some("jsonl") && !config.map("types").is_empty() {
            return Err(ConnectorError::config("OW-3001", "types", "only CSV columns have types"));
        }
        if config.string("label") == Some("refuse") {
            return Err(ConnectorError::new("OW-3002", "refused as a whole"));
        }
        Ok(Arc::new(Nothing))
    }
}

impl SinkConnector for FileSink {
    fn schema(&self) -> &'static ConfigSchema {
        &FILE_SINK
    }
    fn promise(&self, _: &Config) -> Promise {
        promise(
            Level::ExactlyOnce,
            "files appear whole together with their progress",
            &["names are exclusive"],
        )
    }
    fn build(&self, config: &Config, input: &StreamShape) -> Result<Arc<dyn Sink>, ConnectorError> {
        let csv = config.string("format") == Some("csv");
        if csv && config.list("columns").is_empty() && input.columns.is_none() {
            return Err(ConnectorError::config("OW-3101", "columns", "the columns are not known"));
        }
        Ok(Arc::new(Nothing))
    }
}

impl SinkConnector for StdoutSink {
    fn schema(&self) -> &'static ConfigSchema {
        &STDOUT
    }
    fn promise(&self, _: &Config) -> Promise {
        promise(Level::AtLeastOnce, "a terminal cannot tell a repeat", &[])
    }
    fn build(&self, _: &Config, _: &StreamShape) -> Result<Arc<dyn Sink>, ConnectorError> {
        Ok(Arc::new(Nothing))
    }
}

impl MessageFunction for Nothing {
    fn on_message(&self, _: &Message<'_>, _: &mut dyn FnMut(&[u8])) -> Result<(), FunctionError> {
        Ok(())
    }
}

impl ProcessFunction for Nothing {
    fn on_message(&mut self, _: &Message<'_>, _: &mut dyn Context) -> Result<(), FunctionError> {
        Ok(())
    }
}

fn make(config: &[(String, String)]) -> Result<Box<dyn ProcessFunction>, FunctionError> {
    match config.iter().find(|(key, _)| key == "gap") {
        Some((_, gap)) if gap.parse::<u32>().is_err() => Err(FunctionError::new(format!("gap is {gap}"))),
        _ => Ok(Box::new(Nothing)),
    }
}

pub(super) fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.add_source(Arc::new(FileSource));
    registry.add_sink(Arc::new(FileSink));
    registry.add_sink(Arc::new(StdoutSink));
    registry.add_function("split", Function::Message(Arc::new(Nothing)));
    registry.add_function("dedupe", Function::Process(Arc::new(make)));
    registry.add_function("sessions", Function::Process(Arc::new(make)));
    registry
}

/// Variables that tests know.
fn env(name: &str) -> Option<String> {
    match name {
        "DIR" => Some("/srv/in".to_owned()),
        "ROWS" => Some("500".to_owned()),
        "SECRET" => Some("hunter2".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    }
}

pub(super) fn parse_with(text: &str, sets: &[&str]) -> Result<Parsed, Errors> {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    let input =
        ManifestInput { text, file_name: "p.yaml", base_dir: Path::new("/base"), sets: &sets, env: &env };
    parse(&input, &registry())
}

pub(super) fn accepted(text: &str) -> Parsed {
    parse_with(text, &[]).unwrap_or_else(|errors| panic!("refused:\n{errors}\n{text}"))
}

/// The flights manifest with some texts replaced; each must be there.
pub(super) fn flights(changes: &[(&str, &str)]) -> String {
    changes.iter().fold(FLIGHTS.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from:?} is not in the manifest");
        text.replacen(from, to, 1)
    })
}
