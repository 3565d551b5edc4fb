//! The stable codes of manifest errors and what each stands for. A code is never reused
//! (`OW-1062` was: a second `groupBy` behind a `groupBy`).
//!
//! What an expression or a connector refuses keeps the code it comes with (`OW-50nn`, `OW-3nnn`).

/// The text is not YAML.
pub const SYNTAX: &str = "OW-1001";
/// A key stands twice in one map.
pub const DUPLICATE_KEY: &str = "OW-1002";
/// More than one YAML document.
pub const MULTIPLE_DOCUMENTS: &str = "OW-1003";
/// A YAML tag, merge key or a key that is not text.
pub const NOT_PLAIN_YAML: &str = "OW-1004";
/// Nested too deep, too large after aliases are followed, or too many parts.
pub const TOO_LARGE: &str = "OW-1005";
/// No content at all.
pub const EMPTY: &str = "OW-1006";
/// Another `apiVersion` or `kind`.
pub const UNKNOWN_VERSION: &str = "OW-1010";
/// A key that is not known at its place.
pub const UNKNOWN_KEY: &str = "OW-1020";
/// A required key is missing.
pub const MISSING_KEY: &str = "OW-1021";
/// A value of another type than the key takes.
pub const WRONG_TYPE: &str = "OW-1022";
/// A value of the right type that is malformed or out of bounds.
pub const BAD_VALUE: &str = "OW-1023";
/// A word that is not one of those allowed.
pub const UNKNOWN_WORD: &str = "OW-1024";
/// A name with characters that names do not have.
pub const BAD_NAME: &str = "OW-1025";
/// A name that two parts of the pipeline use.
pub const NAME_TAKEN: &str = "OW-1026";
/// An environment variable that is not set and has no default.
pub const VARIABLE_MISSING: &str = "OW-1030";
/// `${...}` that is no variable reference.
pub const BAD_REFERENCE: &str = "OW-1031";
/// `--set` that is not `path=value`.
pub const BAD_OVERRIDE: &str = "OW-1032";
/// `--set` for a path whose parent is not there.
pub const OVERRIDE_PATH: &str = "OW-1033";
/// A connector type that Onceward has but this build has not.
pub const CONNECTOR_ABSENT: &str = "OW-1040";
/// A connector type nobody knows, or one that cannot be used in this direction.
pub const CONNECTOR_UNKNOWN: &str = "OW-1041";
/// The build's own connector table is wrong.
pub const CONNECTOR_TABLE: &str = "OW-1042";
/// A function that is not registered, or of another kind than its place takes.
pub const UNKNOWN_FUNCTION: &str = "OW-1043";
/// Settings that a function does not take.
pub const FUNCTION_CONFIG: &str = "OW-1044";
/// An input that names nothing.
pub const UNKNOWN_INPUT: &str = "OW-1050";
/// Computations that wait for each other.
pub const CYCLE: &str = "OW-1051";
/// The same input twice.
pub const DUPLICATE_INPUT: &str = "OW-1052";
/// A source or computation that no sink is reached from (a warning).
pub const UNUSED: &str = "OW-1053";
/// `groupBy` with nothing to do per key, or a key that needs `groupBy` without it.
pub const HALF_GROUPING: &str = "OW-1060";
/// A computation that does nothing.
pub const DOES_NOTHING: &str = "OW-1061";
/// A source without `eventTime` before something that goes by it.
pub const NO_EVENT_TIME: &str = "OW-1063";
/// Two output fields with one name.
pub const FIELD_TAKEN: &str = "OW-1064";
/// A field that the stream cannot have.
pub const UNKNOWN_FIELD: &str = "OW-1065";
/// `aggregate` and `process` in one computation.
pub const TWO_OPERATORS: &str = "OW-1066";
/// `minPartitions` or `maxPartitions` on the wrong side of `partitions`.
pub const PARTITION_BOUNDS: &str = "OW-1067";
/// A way to tell repeats that does not fit what they are told by.
pub const DEDUP: &str = "OW-1068";
/// Something else than one aggregate call.
pub const AGGREGATE: &str = "OW-1071";
/// A `delivery` that the sink cannot hold.
pub const DELIVERY: &str = "OW-1080";
/// A path that is weaker than `spec.require`.
pub const REQUIRE: &str = "OW-1081";

/// `atMostOnceStrategy` and `delivery` say different things.
pub const AT_MOST_ONCE: &str = "OW-1082";

/// Every code with its meaning, for the docs.
pub const ALL: &[(&str, &str)] = &[
    (SYNTAX, "the text is not YAML"),
    (DUPLICATE_KEY, "a key stands twice in one map"),
    (MULTIPLE_DOCUMENTS, "the file holds more than one YAML document"),
    (NOT_PLAIN_YAML, "a YAML tag, a merge key, or a key that is not text"),
    (TOO_LARGE, "nested too deep, too large once aliases are followed, or too many parts"),
    (EMPTY, "the file has no content"),
    (UNKNOWN_VERSION, "another `apiVersion` or `kind` than this build reads"),
    (UNKNOWN_KEY, "a key that is not known at its place"),
    (MISSING_KEY, "a required key is missing"),
    (WRONG_TYPE, "a value of another type than the key takes"),
    (BAD_VALUE, "a value of the right type that is malformed or out of bounds"),
    (UNKNOWN_WORD, "a word that is not one of those allowed"),
    (BAD_NAME, "a name with characters that names do not have"),
    (NAME_TAKEN, "a name that two parts of the pipeline use"),
    (VARIABLE_MISSING, "an environment variable is not set and has no default"),
    (BAD_REFERENCE, "`${...}` that is no variable reference"),
    (BAD_OVERRIDE, "`--set` that is not `path=value`"),
    (OVERRIDE_PATH, "`--set` for a path whose parent is not there"),
    (CONNECTOR_ABSENT, "a connector type that this build was made without"),
    (CONNECTOR_UNKNOWN, "a connector type that does not exist, or not in this direction"),
    (CONNECTOR_TABLE, "the build's own table of a connector is wrong: please report it"),
    (UNKNOWN_FUNCTION, "a function that is not registered in this build, or of the other kind"),
    (FUNCTION_CONFIG, "settings that a process function does not take"),
    (UNKNOWN_INPUT, "an input that names no source and no computation"),
    (CYCLE, "computations that wait for each other"),
    (DUPLICATE_INPUT, "the same input twice"),
    (UNUSED, "warning: no sink is reached from a source or computation"),
    (HALF_GROUPING, "`groupBy` without `aggregate` or `process`, or a key that needs `groupBy` without it"),
    (DOES_NOTHING, "a computation with neither `steps` nor `groupBy`"),
    (NO_EVENT_TIME, "a source without `eventTime` before a window or `dedupBy`"),
    (FIELD_TAKEN, "two output fields with one name"),
    (UNKNOWN_FIELD, "a field that the stream cannot have"),
    (TWO_OPERATORS, "`aggregate` and `process` in one computation"),
    (PARTITION_BOUNDS, "`minPartitions` above or `maxPartitions` below `partitions`"),
    (DEDUP, "`inputDedup`, `dedupBy` and `dedupFor` that do not fit each other"),
    (AGGREGATE, "something else than one aggregate call"),
    (DELIVERY, "a `delivery` that the sink cannot hold"),
    (REQUIRE, "a path that is weaker than `spec.require`"),
    (AT_MOST_ONCE, "`atMostOnceStrategy` and `delivery` that say different things"),
];
