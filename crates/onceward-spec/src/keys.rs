//! Every key of a pipeline manifest.

use crate::table::{Direction, Key, MapKeys, Shape, Table};

/// The `apiVersion` this build reads.
pub(crate) const API_VERSION: &str = "onceward.dev/v1";
/// The `kind` this build reads.
pub(crate) const KIND: &str = "Pipeline";

const LEVELS: &[&str] = &["exactly_once", "effectively_once", "at_least_once", "at_most_once"];
const DELIVERIES: &[&str] = &["exactly_once", "at_least_once"];

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
            "Where the time of an event comes from. Needed on every source that reaches a window.",
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
    ],
};

pub(crate) static COMPUTATION: Table = Table {
    name: "computation",
    doc: "One computation: steps on single messages, then, with `groupBy`, an aggregation per key.",
    keys: &[
        required(
            "inputs",
            Shape::List(&Shape::Name),
            "The names of sources or other computations whose streams it reads.",
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
            "The fields that make the key, in order; the first columns of the output. Needs `aggregate`.",
        ),
        optional(
            "partitions",
            Shape::Integer { min: 1, max: 1024 },
            Some("4"),
            "Over how many partitions the keys are spread; only with `groupBy`. Fixed at the pipeline's first start.",
        ),
        optional("aggregate", Shape::Object(&AGGREGATE), None, "What is computed per key. Needs `groupBy`."),
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
            "How long a window is held back after its end for late rows; later ones are dropped and counted.",
        ),
        required(
            "compute",
            Shape::Map { keys: MapKeys::Fields, values: &Shape::Aggregate },
            "The computed fields by name: `count()`, `count(x)`, `sum(x)`, `min(x)`, `max(x)` or `avg(x)`, where `x` is a CEL expression. Rows in which `x` is absent or null are left out.",
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
            Shape::Word(DELIVERIES),
            None,
            "The level chosen for this sink; an error if the sink cannot hold it. Unset, the best it can hold.",
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
    &SINK,
];
