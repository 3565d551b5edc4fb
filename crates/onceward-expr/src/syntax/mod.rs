//! CEL's grammar: text to tokens to a tree with source positions, everything bounded.

mod lexer;
mod literal;
mod parser;
mod tree;

pub(crate) use parser::parse;
pub(crate) use tree::{Binary, Macro, Node, Tree, Unary};

/// Bytes of source text.
pub(crate) const MAX_SOURCE: usize = 64 * 1024;
/// Parentheses, brackets, arguments and unary operators within each other.
pub(crate) const MAX_NESTING: usize = 64;
/// Levels of the tree, for example operators in a chain; chains of `&&` and `||` are one level.
pub(crate) const MAX_LEVELS: usize = 160;
