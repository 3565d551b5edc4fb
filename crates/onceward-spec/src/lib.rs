//! Manifests: strict parsing with the line of every value, defaults, validation, JSON Schema and the
//! guarantee report.

pub mod model;

pub use model::*;
