//! Tokens to a tree: precedence climbing, with bounded nesting.

use super::lexer::{Placed, Token, tokens};
use super::{Binary, MAX_LEVELS, MAX_NESTING, MAX_SOURCE, Macro, Node, Tree, Unary};
use crate::error::CompileError;
use crate::value::Value;

const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
    "in",
];

/// Parses a whole expression.
pub(crate) fn parse(source: &str) -> Result<Tree, CompileError> {
    if source.len() > MAX_SOURCE {
        let message = format!("the expression has {} bytes, expected at most {MAX_SOURCE}", source.len());
        return Err(CompileError::new("OW-5005", source, 0, message).help("split it over several steps"));
    }
    let mut parser = Parser { source, tokens: tokens(source)?, at: 0, nesting: 0 };
    let tree = parser.expression()?;
    if parser.token() != &Token::End {
        return Err(parser.unexpected("an operator or the end of the expression"));
    }
    Ok(tree)
}

struct Parser<'s> {
    source: &'s str,
    tokens: Vec<Placed>,
    at: usize,
    nesting: usize,
}

fn binary(token: &Token) -> Option<(Binary, u8)> {
    Some(match token {
        Token::Symbol("==") => (Binary::Equal, 1),
        Token::Symbol("!=") => (Binary::Unequal, 1),
        Token::Symbol("<") => (Binary::Less, 1),
        Token::Symbol("<=") => (Binary::LessOrEqual, 1),
        Token::Symbol(">") => (Binary::Greater, 1),
        Token::Symbol(">=") => (Binary::GreaterOrEqual, 1),
        Token::Name(name) if name == "in" => (Binary::In, 1),
        Token::Symbol("+") => (Binary::Add, 2),
        Token::Symbol("-") => (Binary::Subtract, 2),
        Token::Symbol("*") => (Binary::Multiply, 3),
        Token::Symbol("/") => (Binary::Divide, 3),
        Token::Symbol("%") => (Binary::Remainder, 3),
        _ => return None,
    })
}

impl Parser<'_> {
    fn placed(&self) -> &Placed {
        // The last token is the end and is never passed.
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }
    fn token(&self) -> &Token {
        &self.placed().token
    }
    fn offset(&self) -> usize {
        self.placed().offset
    }
    fn take(&mut self) -> Placed {
        let placed = self.placed().clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        placed
    }
    fn accept(&mut self, symbol: &'static str) -> bool {
        let found = self.token() == &Token::Symbol(symbol);
        if found {
            self.take();
        }
        found
    }
    fn expect(&mut self, symbol: &'static str) -> Result<(), CompileError> {
        if self.accept(symbol) { Ok(()) } else { Err(self.unexpected(&format!("`{symbol}`"))) }
    }

    fn error(&self, code: &'static str, offset: usize, message: impl Into<String>) -> CompileError {
        CompileError::new(code, self.source, offset, message)
    }
    fn unexpected(&self, expected: &str) -> CompileError {
        let placed = self.placed();
        let found = match placed.token {
            Token::End => "the end of the expression".to_owned(),
            _ => format!("`{}`", &self.source[placed.offset..placed.text_end]),
        };
        self.error("OW-5002", placed.offset, format!("found {found}, expected {expected}"))
    }

    fn tree(&self, offset: usize, node: Node) -> Result<Tree, CompileError> {
        let levels = 1 + match &node {
            Node::Literal(_) | Node::Name(_) | Node::HasName(_) => 0,
            Node::Select(a, _) | Node::HasKey(a, _) | Node::Unary(_, a) => a.levels,
            Node::Index(a, b) | Node::Binary(_, a, b) => a.levels.max(b.levels),
            Node::Call { target, arguments, .. } => {
                deepest(arguments.iter().chain(target.iter().map(|target| &**target)))
            }
            Node::List(items) | Node::All(items) | Node::Any(items) => deepest(items),
            Node::Map(entries) => deepest(entries.iter().flat_map(|(key, value)| [key, value])),
            Node::Conditional(parts) => deepest(&**parts),
            Node::Macro { range, bodies, .. } => deepest(bodies.iter().chain([&**range])),
        };
        if levels > MAX_LEVELS {
            return Err(self.too_deep(offset));
        }
        Ok(Tree { node, offset, levels })
    }

    fn too_deep(&self, offset: usize) -> CompileError {
        self.error(
            "OW-5005",
            offset,
            format!("the expression nests deeper than {MAX_NESTING} brackets or {MAX_LEVELS} operators"),
        )
        .help("split it over several map steps")
    }

    fn nested<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, CompileError>,
    ) -> Result<T, CompileError> {
        if self.nesting == MAX_NESTING {
            return Err(self.too_deep(self.offset()));
        }
        self.nesting += 1;
        let result = parse(self);
        self.nesting -= 1;
        result
    }

    /// `or ? or : expression`
    fn expression(&mut self) -> Result<Tree, CompileError> {
        let condition = self.any()?;
        let offset = self.offset();
        if !self.accept("?") {
            return Ok(condition);
        }
        let then = self.any()?;
        self.expect(":")?;
        let otherwise = self.nested(Self::expression)?;
        self.tree(offset, Node::Conditional(Box::new([condition, then, otherwise])))
    }

    fn any(&mut self) -> Result<Tree, CompileError> {
        let offset = self.offset();
        let first = self.all()?;
        if self.token() != &Token::Symbol("||") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.accept("||") {
            items.push(self.all()?);
        }
        self.tree(offset, Node::Any(items))
    }

    fn all(&mut self) -> Result<Tree, CompileError> {
        let offset = self.offset();
        let first = self.operators(1)?;
        if self.token() != &Token::Symbol("&&") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.accept("&&") {
            items.push(self.operators(1)?);
        }
        self.tree(offset, Node::All(items))
    }

    /// Binary operators that bind at least as tightly as `weakest`, to the left.
    fn operators(&mut self, weakest: u8) -> Result<Tree, CompileError> {
        let mut left = self.unary()?;
        while let Some((operator, binding)) = binary(self.token()).filter(|(_, binding)| *binding >= weakest)
        {
            let offset = self.take().offset;
            let right = self.operators(binding + 1)?;
            left = self.tree(offset, Node::Binary(operator, Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Tree, CompileError> {
        let offset = self.offset();
        if self.accept("!") {
            let operand = self.nested(Self::unary)?;
            return self.tree(offset, Node::Unary(Unary::Not, Box::new(operand)));
        }
        if !self.accept("-") {
            return self.member();
        }
        let after = self.tokens.get(self.at + 1).map(|placed| &placed.token);
        if let Token::Int(magnitude) = *self.token()
            && !matches!(after, Some(Token::Symbol("." | "[")))
        {
            self.take();
            let value = 0i64.checked_sub_unsigned(magnitude).ok_or_else(|| self.int_range(offset))?;
            return self.tree(offset, Node::Literal(Value::Int(value)));
        }
        let operand = self.nested(Self::unary)?;
        self.tree(offset, Node::Unary(Unary::Negate, Box::new(operand)))
    }

    fn int_range(&self, offset: usize) -> CompileError {
        self.error("OW-5004", offset, "the number does not fit an int, -2^63 to 2^63-1")
            .help("write it with `u` for a uint, or with `.0` for a decimal")
    }

    fn member(&mut self) -> Result<Tree, CompileError> {
        let mut tree = self.primary()?;
        loop {
            let offset = self.offset();
            if self.accept(".") {
                let placed = self.take();
                let (name, quoted) = match placed.token {
                    Token::Name(name) => (name, false),
                    Token::QuotedName(name) => (name, true),
                    _ => {
                        self.at -= usize::from(placed.token != Token::End);
                        return Err(self.unexpected("a name after `.`"));
                    }
                };
                if !quoted && self.accept("(") {
                    let arguments = self.arguments(")")?;
                    tree = self.method(placed.offset, tree, name, arguments)?;
                } else if !quoted && name == "in" {
                    return Err(self.reserved(placed.offset, &name));
                } else {
                    tree = self.tree(placed.offset, Node::Select(Box::new(tree), name))?;
                }
            } else if self.accept("[") {
                let index = self.nested(Self::expression)?;
                self.expect("]")?;
                tree = self.tree(offset, Node::Index(Box::new(tree), Box::new(index)))?;
            } else if self.token() == &Token::Symbol("{") {
                return Err(self
                    .error("OW-5002", offset, "found `{` behind a value, expected an operator")
                    .help(
                        "message construction is not part of this language; write a map, {\"key\": value}",
                    ));
            } else {
                return Ok(tree);
            }
        }
    }

    fn arguments(&mut self, closing: &'static str) -> Result<Vec<Tree>, CompileError> {
        let mut items = Vec::new();
        while !self.accept(closing) {
            items.push(self.nested(Self::expression)?);
            if self.accept(closing) {
                break;
            }
            if !self.accept(",") {
                return Err(self.unexpected(&format!("`,` or `{closing}`")));
            }
            // A list may end in a comma, a call may not.
            if closing == ")" && self.token() == &Token::Symbol(")") {
                return Err(self.unexpected("an argument"));
            }
        }
        Ok(items)
    }

    fn reserved(&self, offset: usize, name: &str) -> CompileError {
        self.error("OW-5003", offset, format!("`{name}` is a reserved word"))
            .help(format!("a field of this name is written `{name}` between backticks"))
    }

    fn primary(&mut self) -> Result<Tree, CompileError> {
        let placed = self.take();
        let offset = placed.offset;
        let node = match placed.token {
            Token::Int(value) => {
                Node::Literal(Value::Int(i64::try_from(value).map_err(|_| self.int_range(offset))?))
            }
            Token::Uint(value) => Node::Literal(Value::Uint(value)),
            Token::Decimal(value) => Node::Literal(Value::Decimal(value)),
            Token::String(text) => Node::Literal(Value::from(text)),
            Token::Bytes(bytes) => Node::Literal(Value::Bytes(bytes.into())),
            Token::QuotedName(name) => Node::Name(name),
            Token::Name(name) => return self.name(offset, name),
            // A leading dot names the same top-level field.
            Token::Symbol(".") => match self.token().clone() {
                Token::Name(name) => {
                    self.take();
                    return self.name(offset, name);
                }
                Token::QuotedName(name) => {
                    self.take();
                    Node::Name(name)
                }
                _ => return Err(self.unexpected("a name after `.`")),
            },
            Token::Symbol("(") => {
                let tree = self.nested(Self::expression)?;
                self.expect(")")?;
                return Ok(tree);
            }
            Token::Symbol("[") => Node::List(self.arguments("]")?),
            Token::Symbol("{") => Node::Map(self.entries()?),
            token => {
                self.at -= usize::from(token != Token::End);
                return Err(self.unexpected("a value, a field or a function"));
            }
        };
        self.tree(offset, node)
    }

    fn entries(&mut self) -> Result<Vec<(Tree, Tree)>, CompileError> {
        let mut entries = Vec::new();
        while !self.accept("}") {
            let key = self.nested(Self::expression)?;
            self.expect(":")?;
            entries.push((key, self.nested(Self::expression)?));
            if !self.accept(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(entries)
    }

    fn name(&mut self, offset: usize, name: String) -> Result<Tree, CompileError> {
        let node = match name.as_str() {
            "true" => Node::Literal(Value::Bool(true)),
            "false" => Node::Literal(Value::Bool(false)),
            "null" => Node::Literal(Value::Null),
            word if RESERVED.contains(&word) => return Err(self.reserved(offset, word)),
            _ if self.accept("(") => {
                let arguments = self.arguments(")")?;
                if name == "has" {
                    return self.has(offset, arguments);
                }
                Node::Call { name, target: None, arguments }
            }
            _ => Node::Name(name),
        };
        self.tree(offset, node)
    }

    fn has(&self, offset: usize, arguments: Vec<Tree>) -> Result<Tree, CompileError> {
        let mut arguments = arguments.into_iter();
        let node = match (arguments.next().map(|tree| tree.node), arguments.next()) {
            (Some(Node::Select(operand, key)), None) => Node::HasKey(operand, key),
            (Some(Node::Name(name)), None) => Node::HasName(name),
            _ => {
                return Err(self
                    .error("OW-5011", offset, "has() takes one field or selection")
                    .help("write has(field) or has(field.key); for other keys write \"key\" in map"));
            }
        };
        self.tree(offset, node)
    }

    fn method(
        &self,
        offset: usize,
        target: Tree,
        name: String,
        arguments: Vec<Tree>,
    ) -> Result<Tree, CompileError> {
        let Some(kind) = Macro::by_name(&name) else {
            return self.tree(offset, Node::Call { name, target: Some(Box::new(target)), arguments });
        };
        let wanted = if kind == Macro::Map { 2..=3 } else { 2..=2 };
        let count = arguments.len();
        let mut arguments = arguments.into_iter();
        match arguments.next().map(|tree| tree.node) {
            Some(Node::Name(variable)) if wanted.contains(&count) => {
                let bodies = arguments.collect();
                self.tree(offset, Node::Macro { kind, range: Box::new(target), variable, bodies })
            }
            _ => Err(self
                .error("OW-5011", offset, format!("{name}() takes a variable name and an expression"))
                .help(format!("for example items.{name}(x, x > 0)"))),
        }
    }
}

fn deepest<'t>(trees: impl IntoIterator<Item = &'t Tree>) -> usize {
    trees.into_iter().map(|tree| tree.levels).max().unwrap_or(0)
}
