//! The stable codes of manifest errors and what each stands for. A code is never reused.
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
/// An input that names nothing.
pub const UNKNOWN_INPUT: &str = "OW-1050";
/// Computations that wait for each other.
pub const CYCLE: &str = "OW-1051";
/// The same input twice.
pub const DUPLICATE_INPUT: &str = "OW-1052";
/// A source or computation that no sink is reached from (a warning).
pub const UNUSED: &str = "OW-1053";
/// `groupBy` without `aggregate`, or the reverse.
pub const HALF_GROUPING: &str = "OW-1060";
/// A computation that does nothing.
pub const DOES_NOTHING: &str = "OW-1061";
/// A second `groupBy` behind a `groupBy`.
pub const SECOND_GROUPING: &str = "OW-1062";
/// A window over a source without `eventTime`.
pub const NO_EVENT_TIME: &str = "OW-1063";
/// Two output fields with one name.
pub const FIELD_TAKEN: &str = "OW-1064";
/// A field that the stream cannot have.
pub const UNKNOWN_FIELD: &str = "OW-1065";
/// Something else than one aggregate call.
pub const AGGREGATE: &str = "OW-1071";
/// A `delivery` that the sink cannot hold, or that cannot be chosen yet.
pub const DELIVERY: &str = "OW-1080";
/// A path that is weaker than `spec.require`.
pub const REQUIRE: &str = "OW-1081";

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
    (UNKNOWN_INPUT, "an input that names no source and no computation"),
    (CYCLE, "computations that wait for each other"),
    (DUPLICATE_INPUT, "the same input twice"),
    (UNUSED, "warning: no sink is reached from a source or computation"),
    (HALF_GROUPING, "`groupBy` without `aggregate`, or the reverse"),
    (DOES_NOTHING, "a computation with neither `steps` nor `groupBy`"),
    (SECOND_GROUPING, "a second `groupBy` behind a `groupBy`"),
    (NO_EVENT_TIME, "a window over a source without `eventTime`"),
    (FIELD_TAKEN, "two output fields with one name"),
    (UNKNOWN_FIELD, "a field that the stream cannot have"),
    (AGGREGATE, "something else than one aggregate call"),
    (DELIVERY, "a `delivery` that the sink cannot hold, or that cannot be chosen"),
    (REQUIRE, "a path that is weaker than `spec.require`"),
];
