//! Every key of a pipeline manifest.

use onceward_connector::FunctionKind;

use crate::table::{Direction, Key, MapKeys, Shape, Table};

/// The `apiVersion` this build reads.
pub(crate) const API_VERSION: &str = "onceward.dev/v1";
/// Key-range partitions of one computation, at most.
pub(crate) const MAX_PARTITIONS: i64 = 1024;
/// The `kind` this build reads.
pub(crate) const KIND: &str = "Pipeline";

const LEVELS: &[&str] = &["exactly_once", "effectively_once", "at_least_once", "at_most_once"];
const DEDUPS: &[&str] = &["auto", "frontier", "full"];
const PROCESSING_MODES: &[&str] = &["exactly_once", "at_least_once_consistent"];

const fn required(name: &'static str, shape: Shape, doc: &'static str) -> Key {
    Key { name, required: true, default: None, shape, doc }
}
const fn optional(name: &'static str, shape: Shape, default: Option<&'static str>, doc: &'static str) -> Key {
    Key { name, required: false, default, shape, doc }
}

pub(crate) static MANIFEST: Table = Table {
    name: "manifest",
    doc: "The whole file: one pipeline.",
    keys: &[
        required("apiVersion", Shape::Exactly(API_VERSION), "The version of the manifest format."),
        required("kind", Shape::Exactly(KIND), "What the file describes."),
        required("metadata", Shape::Object(&METADATA), "Who the pipeline is."),
        required("spec", Shape::Object(&SPEC), "What the pipeline does."),
    ],
};

pub(crate) static METADATA: Table = Table {
    name: "metadata",
    doc: "Who the pipeline is.",
    keys: &[required(
        "name",
        Shape::Name,
        "The pipeline's name. It is part of the identity of all state: another name is another pipeline.",
    )],
};

pub(crate) static SPEC: Table = Table {
    name: "spec",
    doc: "What the pipeline does.",
    keys: &[
        optional(
            "require",
            Shape::Word(LEVELS),
            None,
            "The level that every path from a source to a sink must hold; a weaker path is an error. Unset, a weaker path is a warning when the pipeline runs.",
        ),
        optional(
            "epoch",
            Shape::Object(&EPOCH),
            None,
            "When an epoch is closed and committed: at the first limit reached.",
        ),
        optional(
            "shutdownTimeout",
            Shape::Duration { min_us: 0 },
            Some("600s"),
            "How long a stop may take to finish the open epoch and confirm the sinks before the process gives up; giving up is safe, the rest is done at the next start.",
        ),
        optional(
            "replicas",
            Shape::Integer { min: 1, max: 256 },
            None,
            "How many workers run the pipeline. Unset, one per core. May change while state exists.",
        ),
        optional(
            "replayCheck",
            Shape::Integer { min: 0, max: i64::MAX },
            Some("1000"),
            "Every so many messages, one is put through the deterministic steps a second time and the results are compared; a difference stops the pipeline and names the step. 0 checks none. May change while state exists.",
        ),
        required(
            "sources",
            Shape::Map { keys: MapKeys::Names, values: &Shape::Object(&SOURCE) },
            "Where data comes from, by name. A source's name is also the name of its stream.",
        ),
        optional(
            "computations",
            Shape::Map { keys: MapKeys::Names, values: &Shape::Object(&COMPUTATION) },
            None,
            "What is done with the data, by name. A computation's name is also the name of its output stream.",
        ),
        required(
            "sinks",
            Shape::Map { keys: MapKeys::Names, values: &Shape::Object(&SINK) },
            "Where data goes, by name. Sources, computations and sinks share one set of names.",
        ),
    ],
};

pub(crate) static EPOCH: Table = Table {
    name: "epoch",
    doc: "When an epoch is closed and committed: at the first limit reached. May change while state exists.",
    keys: &[
        optional(
            "interval",
            Shape::Duration { min_us: 1_000 },
            Some("100ms"),
            "Time since the epoch's first message.",
        ),
        optional(
            "maxRows",
            Shape::Integer { min: 1, max: i64::MAX },
            Some("1000000"),
            "Messages in the epoch.",
        ),
        optional("maxBytes", Shape::Size, Some("64MiB"), "Payload bytes in the epoch."),
    ],
};

pub(crate) static SOURCE: Table = Table {
    name: "source",
    doc: "One source.",
    keys: &[
        required("type", Shape::ConnectorType(Direction::Source), "The connector type."),
        optional(
            "config",
            Shape::ConnectorConfig(Direction::Source),
            None,
            "The connector's settings; each connector's page lists them.",
        ),
        optional(
            "eventTime",
            Shape::Object(&EVENT_TIME),
            None,
            "Where the time of an event comes from. Needed on every source that reaches a window or `dedupBy`.",
        ),
        optional(
            "materialise",
            Shape::Bool,
            Some("false"),
            "Whether rows are stored as they were read before anything else sees them. Later reads of the source then cannot change what was read once; every row is written once more.",
        ),
    ],
};

pub(crate) static EVENT_TIME: Table = Table {
    name: "eventTime",
    doc: "Where the time of an event comes from.",
    keys: &[
        required("field", Shape::Text, "The top-level field that holds the timestamp."),
        optional(
            "outOfOrderness",
            Shape::Duration { min_us: 0 },
            Some("0s"),
            "How much older than the newest row before it in its partition a row may be without being late.",
        ),
        optional(
            "idleAfter",
            Shape::Duration { min_us: 1_000 },
            None,
            "A partition that brings no row for so long no longer holds windows back, until it brings one. Results may then depend on timing: its next rows may be late. Unset, a silent partition holds windows back for ever.",
        ),
    ],
};

pub(crate) static COMPUTATION: Table = Table {
    name: "computation",
    doc: "One computation: steps on single messages, then, with `groupBy`, an aggregation or a function per key.",
    keys: &[
        required(
            "inputs",
            Shape::List(&Shape::Name),
            "The names of the streams it reads: of sources, of other computations, of their late rows.",
        ),
        optional(
            "steps",
            Shape::List(&Shape::Choice(&STEP)),
            None,
            "Steps applied to each message, in order, before grouping.",
        ),
        optional(
            "groupBy",
            Shape::List(&Shape::Text),
            None,
            "The fields that make the key, in order. Needs `aggregate` or `process`. All keys below need it.",
        ),
        optional(
            "aggregate",
            Shape::Object(&AGGREGATE),
            None,
            "What is computed per key and window. The fields of `groupBy` are the first columns of the output.",
        ),
        optional(
            "process",
            Shape::Object(&PROCESS),
            None,
            "The function that takes the messages of a key, instead of `aggregate`.",
        ),
        optional(
            "partitions",
            Shape::Integer { min: 1, max: MAX_PARTITIONS },
            Some("4"),
            "Over how many partitions the keys are spread at the pipeline's first start. After that it only stands for the bounds below where they are unset.",
        ),
        optional(
            "minPartitions",
            Shape::Integer { min: 1, max: MAX_PARTITIONS },
            None,
            "To how few partitions the controller may merge where there is little load. Unset, `partitions`: it does not merge. May change while state exists.",
        ),
        optional(
            "maxPartitions",
            Shape::Integer { min: 1, max: MAX_PARTITIONS },
            None,
            "Into how many partitions the controller may split where there is much load. Unset, `partitions`: it does not split. May change while state exists.",
        ),
        optional(
            "inputDedup",
            Shape::Word(DEDUPS),
            Some("auto"),
            "How repeats of a message are told: `frontier`, by the place up to which each lane was taken, which costs nothing per message; `full`, by a stored set of ids; `auto`, `full` with `dedupBy` and `frontier` without.",
        ),
        optional(
            "dedupBy",
            Shape::List(&Shape::Text),
            None,
            "The fields of an id that the client chose: of the messages of a key with the same id only the first is taken. Needs `eventTime`.",
        ),
        optional(
            "dedupFor",
            Shape::Duration { min_us: 1_000 },
            Some("24h"),
            "How long an id of `dedupBy` is remembered, in event time behind the watermark. An older message may be a repeat nobody remembers: it is not taken, but counted as `expired`.",
        ),
        optional(
            "processingMode",
            Shape::Word(PROCESSING_MODES),
            Some("exactly_once"),
            "`at_least_once_consistent` keeps no set of ids, so that repeats by `dedupBy` count again; state, timers and outputs still commit together. Where frontiers are used it changes nothing.",
        ),
    ],
};

pub(crate) static STEP: Table = Table {
    name: "step",
    doc: "One step: exactly one of these keys.",
    keys: &[
        optional(
            "filter",
            Shape::Expression,
            None,
            "A condition; messages for which it is not true are dropped.",
        ),
        optional(
            "map",
            Shape::Map { keys: MapKeys::Fields, values: &Shape::Expression },
            None,
            "Replaces the message by an object with exactly these fields, in this order. A text constant needs its own quotes inside the YAML quotes: `'\"eu\"'`.",
        ),
        optional(
            "function",
            Shape::Function(FunctionKind::Message),
            None,
            "The name of a message function that is registered in this build: it makes any number of messages of one. It must be deterministic; see `spec.replayCheck`.",
        ),
    ],
};

pub(crate) static AGGREGATE: Table = Table {
    name: "aggregate",
    doc: "What is computed per key. An output row is the key's fields, `window_start`, `window_end`, then the computed fields.",
    keys: &[
        required("window", Shape::Object(&WINDOW), "The windows of event time over which is computed."),
        optional(
            "allowedLateness",
            Shape::Duration { min_us: 0 },
            Some("0s"),
            "How long a window is held back after its end for late rows; later ones are counted as late.",
        ),
        required(
            "compute",
            Shape::Map { keys: MapKeys::Fields, values: &Shape::Aggregate },
            "The computed fields by name: `count()`, `count(x)`, `sum(x)`, `min(x)`, `max(x)` or `avg(x)`, where `x` is a CEL expression. Rows in which `x` is absent or null are left out.",
        ),
        optional(
            "late",
            Shape::Name,
            None,
            "Names a stream of the rows that come too late for their window, as they are behind the steps. Inputs may name it. Unset, late rows are only counted.",
        ),
    ],
};

pub(crate) static PROCESS: Table = Table {
    name: "process",
    doc: "A function with state and timers per key, written in Rust and registered in this build.",
    keys: &[
        required("function", Shape::Function(FunctionKind::Process), "The name that it is registered under."),
        optional(
            "config",
            Shape::Map { keys: MapKeys::Fields, values: &Shape::Setting },
            None,
            "Its settings, as it defines them. It gets every value as the text that stands here.",
        ),
    ],
};

pub(crate) static WINDOW: Table = Table {
    name: "window",
    doc: "The windows of event time over which is computed.",
    keys: &[required(
        "tumbling",
        Shape::Duration { min_us: 1_000 },
        "The size of windows that follow each other without gap or overlap, aligned to 1970-01-01T00:00:00Z.",
    )],
};

pub(crate) static SINK: Table = Table {
    name: "sink",
    doc: "One sink.",
    keys: &[
        required(
            "inputs",
            Shape::List(&Shape::Name),
            "The names of sources or computations whose streams it writes.",
        ),
        required("type", Shape::ConnectorType(Direction::Sink), "The connector type."),
        optional(
            "config",
            Shape::ConnectorConfig(Direction::Sink),
            None,
            "The connector's settings; each connector's page lists them.",
        ),
        optional(
            "delivery",
            Shape::Word(LEVELS),
            None,
            "The level chosen for this sink; an error if the sink cannot hold it. Unset, the best it can hold. A sink that can hold more than `at_least_once` is written no differently for it; `at_most_once` stores nothing of what is owed and never repeats an attempt.",
        ),
        optional(
            "atMostOnceStrategy",
            Shape::Object(&AT_MOST_ONCE),
            None,
            "The limits of `delivery: at_most_once`.",
        ),
    ],
};

pub(crate) static AT_MOST_ONCE: Table = Table {
    name: "atMostOnceStrategy",
    doc: "At-most-once delivery: rows wait in memory, an attempt that has started is never repeated, and every row that is lost is counted. The limits may change while state exists.",
    keys: &[
        optional(
            "enabled",
            Shape::Bool,
            Some("false"),
            "Whether the sink is written at most once; the same as `delivery: at_most_once`, which implies it.",
        ),
        optional(
            "totalQueueBytesLimit",
            Shape::Size,
            Some("64MiB"),
            "Bytes of rows that may wait for the target; rows that do not fit are dropped and counted.",
        ),
        optional(
            "suspendDestructionDuration",
            Shape::Duration { min_us: 0 },
            Some("10s"),
            "How long a stop goes on writing what waits; the rest is dropped and counted.",
        ),
    ],
};

/// All tables, in the order of the reference.
pub(crate) static TABLES: &[&Table] = &[
    &MANIFEST,
    &METADATA,
    &SPEC,
    &EPOCH,
    &SOURCE,
    &EVENT_TIME,
    &COMPUTATION,
    &STEP,
    &AGGREGATE,
    &WINDOW,
    &PROCESS,
    &SINK,
    &AT_MOST_ONCE,
];
