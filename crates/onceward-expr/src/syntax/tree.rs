//! The syntax tree.

use crate::value::Value;

/// One node, where it stands and how many levels it has.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) node: Node,
    /// The byte that an error about this node points at.
    pub(crate) offset: usize,
    pub(crate) levels: usize,
}

#[derive(Debug)]
pub(crate) enum Node {
    Literal(Value<'static>),
    Name(String),
    Select(Box<Tree>, String),
    /// `has(operand.key)`
    HasKey(Box<Tree>, String),
    /// `has(name)`
    HasName(String),
    Index(Box<Tree>, Box<Tree>),
    Call {
        name: String,
        target: Option<Box<Tree>>,
        arguments: Vec<Tree>,
    },
    List(Vec<Tree>),
    Map(Vec<(Tree, Tree)>),
    Unary(Unary, Box<Tree>),
    Binary(Binary, Box<Tree>, Box<Tree>),
    All(Vec<Tree>),
    Any(Vec<Tree>),
    Conditional(Box<[Tree; 3]>),
    Macro {
        kind: Macro,
        range: Box<Tree>,
        variable: String,
        bodies: Vec<Tree>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unary {
    Not,
    Negate,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Binary {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Binary {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Binary::Equal => "==",
            Binary::Unequal => "!=",
            Binary::Less => "<",
            Binary::LessOrEqual => "<=",
            Binary::Greater => ">",
            Binary::GreaterOrEqual => ">=",
            Binary::In => "in",
            Binary::Add => "+",
            Binary::Subtract => "-",
            Binary::Multiply => "*",
            Binary::Divide => "/",
            Binary::Remainder => "%",
        }
    }
}

/// The macros over a list or the keys of a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Macro {
    All,
    Exists,
    ExistsOne,
    Filter,
    /// With a second body the first one filters.
    Map,
}

impl Macro {
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "all" => Macro::All,
            "exists" => Macro::Exists,
            "exists_one" => Macro::ExistsOne,
            "filter" => Macro::Filter,
            "map" => Macro::Map,
            _ => return None,
        })
    }
}
