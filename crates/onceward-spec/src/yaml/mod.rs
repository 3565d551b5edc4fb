//! YAML as a tree in which every key and value knows its line and column.
//!
//! Reads one document of plain YAML 1.2: anchors and aliases, no tags, no merge keys, no key twice.

mod load;
mod scalar;
mod tree;

pub(crate) use load::load;
pub(crate) use scalar::ScalarType;
pub(crate) use tree::{Entry, Kind, Node, Origin, Scalar, Style};
