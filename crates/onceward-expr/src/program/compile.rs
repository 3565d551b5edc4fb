//! Tree to closures. What is constant is computed here, once.

use std::collections::BTreeSet;
use std::sync::Arc;

use onceward_connector::Codec;

use super::context::{Code, code, start};
use super::{Program, access, fast, functions, macros, operators};
use crate::error::{CompileError, EvalError};
use crate::fields::{FieldSet, Slots};
use crate::scan::{Row, Scanner};
use crate::syntax::{Binary, Node, Tree, Unary};
use crate::value::Value;

/// A compiled node and what is known of it.
pub(super) struct Compiled {
    pub(super) code: Code,
    pub(super) constant: Option<Value<'static>>,
    /// The slot, if it is a field's name alone.
    pub(super) field: Option<usize>,
    /// How to name it in an error, as far as it is names and keys.
    pub(super) path: Option<String>,
}

impl Compiled {
    fn plain(code: Code) -> Self {
        Compiled { code, constant: None, field: None, path: None }
    }
    fn constant(value: Value<'static>) -> Self {
        let own = value.clone();
        Compiled { constant: Some(value), ..Compiled::plain(code(move |_| Ok(own.clone()))) }
    }
    /// Replaces a node over constants by its value. One that has none fails when it is reached, as in CEL.
    fn folded(self) -> Self {
        let scanner = Scanner::new(&Codec::Json, &FieldSet::new());
        let slots = Slots::default();
        match start(&Row::new(b"", &slots, &scanner), |context| (self.code)(context)).map(Value::into_owned) {
            Ok(value) => Compiled::constant(value),
            Err(_) => self,
        }
    }
}

pub(super) fn compile(source: &str, tree: &Tree, fields: &mut FieldSet) -> Result<Program, CompileError> {
    let mut compiler = Compiler { source, fields, variables: Vec::new(), slots: BTreeSet::new() };
    let compiled = compiler.compile(tree)?;
    Ok(Program { code: compiled.code, field: compiled.field, slots: compiler.slots.into_iter().collect() })
}

pub(super) struct Compiler<'s, 'f> {
    pub(super) source: &'s str,
    fields: &'f mut FieldSet,
    variables: Vec<String>,
    slots: BTreeSet<usize>,
}

impl Compiler<'_, '_> {
    fn compile(&mut self, tree: &Tree) -> Result<Compiled, CompileError> {
        Ok(match &tree.node {
            Node::Literal(value) => Compiled::constant(value.clone()),
            Node::Name(name) => self.name(name),
            Node::HasName(name) => self.has_name(tree, name)?,
            Node::Select(operand, key) => {
                let operand = self.compile(operand)?;
                let path = format!("{}.{key}", operand.path.as_deref().unwrap_or_default());
                let absent: Arc<str> = path.as_str().into();
                let key = key.clone();
                let operand = operand.code;
                let select = code(move |context| {
                    let map = operand(context)?;
                    context.charge_for(&map)?;
                    access::select(map, &key)?.ok_or_else(|| EvalError::Absent { field: absent.clone() })
                });
                Compiled { path: Some(path), ..Compiled::plain(select) }
            }
            Node::HasKey(operand, key) => {
                let operand = self.compile(operand)?.code;
                let key = key.clone();
                Compiled::plain(code(move |context| {
                    let map = operand(context)?;
                    context.charge_for(&map)?;
                    Ok(Value::Bool(access::select(map, &key)?.is_some()))
                }))
            }
            Node::Index(operand, index) => {
                let (operand, index) = (self.compile(operand)?, self.compile(index)?);
                access::index(operand, index)
            }
            Node::Call { name, target, arguments } => self.call(tree, name, target.as_deref(), arguments)?,
            Node::List(items) => {
                let (codes, constant) = self.compile_all(items)?;
                let list = Compiled::plain(code(move |context| {
                    codes.iter().map(|code| code(context)).collect::<Result<_, _>>().map(Value::list)
                }));
                if constant { list.folded() } else { list }
            }
            Node::Map(entries) => {
                let (keys, constant_keys) = self.compile_all(entries.iter().map(|(key, _)| key))?;
                let (values, constant_values) = self.compile_all(entries.iter().map(|(_, value)| value))?;
                let map = Compiled::plain(code(move |context| access::map(context, &keys, &values)));
                if constant_keys && constant_values { map.folded() } else { map }
            }
            Node::Unary(operator, operand) => {
                let operand = self.compile(operand)?;
                let constant = operand.constant.is_some();
                let operand = operand.code;
                let unary = Compiled::plain(match operator {
                    Unary::Not => code(move |context| operators::not(operand(context)?)),
                    Unary::Negate => code(move |context| operators::negate(operand(context)?)),
                });
                if constant { unary.folded() } else { unary }
            }
            Node::Binary(operator, left, right) => self.binary(*operator, left, right)?,
            Node::All(items) => self.logical(items, false)?,
            Node::Any(items) => self.logical(items, true)?,
            Node::Conditional(parts) => {
                let [condition, then, otherwise] = &**parts;
                let condition = self.compile(condition)?.code;
                let (then, otherwise) = (self.compile(then)?.code, self.compile(otherwise)?.code);
                Compiled::plain(code(move |context| match condition(context)? {
                    Value::Bool(true) => then(context),
                    Value::Bool(false) => otherwise(context),
                    other => Err(EvalError::types("the condition of `?:`", &[other.type_name()])),
                }))
            }
            Node::Macro { kind, range, variable, bodies } => {
                let range = self.compile(range)?.code;
                self.variables.push(variable.clone());
                let bodies = self.compile_all(bodies);
                self.variables.pop();
                Compiled::plain(macros::compile(*kind, range, bodies?.0))
            }
        })
    }

    fn compile_all<'t>(
        &mut self,
        trees: impl IntoIterator<Item = &'t Tree>,
    ) -> Result<(Vec<Code>, bool), CompileError> {
        let mut constant = true;
        let mut codes = Vec::new();
        for tree in trees {
            let compiled = self.compile(tree)?;
            constant &= compiled.constant.is_some();
            codes.push(compiled.code);
        }
        Ok((codes, constant))
    }

    fn variable(&self, name: &str) -> Option<usize> {
        self.variables.iter().rev().position(|variable| variable == name)
    }

    fn slot(&mut self, name: &str) -> usize {
        let slot = self.fields.intern(name);
        self.slots.insert(slot);
        slot
    }

    fn name(&mut self, name: &str) -> Compiled {
        let path = Some(name.to_owned());
        if let Some(depth) = self.variable(name) {
            return Compiled { path, ..Compiled::plain(code(move |context| context.local(depth))) };
        }
        let slot = self.slot(name);
        let read = code(move |context| context.row.field(slot)?.ok_or_else(|| context.row.absent(slot)));
        Compiled { field: Some(slot), path, ..Compiled::plain(read) }
    }

    fn has_name(&mut self, tree: &Tree, name: &str) -> Result<Compiled, CompileError> {
        if self.variable(name).is_some() {
            let message = format!("has() asks for a field, but `{name}` is the variable of a macro");
            return Err(CompileError::new("OW-5011", self.source, tree.offset, message)
                .help("a variable is always there; ask for a key of it"));
        }
        let slot = self.slot(name);
        Ok(Compiled::plain(code(move |context| Ok(Value::Bool(context.row.has(slot))))))
    }

    fn binary(&mut self, operator: Binary, left: &Tree, right: &Tree) -> Result<Compiled, CompileError> {
        let (left, right) = (self.compile(left)?, self.compile(right)?);
        let constant = left.constant.is_some() && right.constant.is_some();
        let compiled = Compiled::plain(match fast::comparison(operator, &left, &right) {
            Some(code) => code,
            None => operators::binary(operator, left.code, right.code),
        });
        Ok(if constant { compiled.folded() } else { compiled })
    }

    /// `&&` and `||`: the operand that decides wins over errors on either side of it.
    fn logical(&mut self, items: &[Tree], decisive: bool) -> Result<Compiled, CompileError> {
        let (codes, _) = self.compile_all(items)?;
        let operation = if decisive { "||" } else { "&&" };
        Ok(Compiled::plain(code(move |context| {
            let mut error = None;
            for code in &codes {
                match code(context) {
                    Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(decisive)),
                    Ok(Value::Bool(_)) => {}
                    Ok(other) => {
                        error.get_or_insert_with(|| EvalError::types(operation, &[other.type_name()]));
                    }
                    Err(limit @ EvalError::Limit { .. }) => return Err(limit),
                    Err(problem) => {
                        error.get_or_insert(problem);
                    }
                }
            }
            error.map_or(Ok(Value::Bool(!decisive)), Err)
        })))
    }

    fn call(
        &mut self,
        tree: &Tree,
        name: &str,
        target: Option<&Tree>,
        arguments: &[Tree],
    ) -> Result<Compiled, CompileError> {
        let function = functions::find(self.source, tree.offset, name, target.is_some(), arguments.len())?;
        let mut operands = Vec::new();
        for operand in target.into_iter().chain(arguments) {
            operands.push(self.compile(operand)?);
        }
        let constant = operands.iter().all(|operand| operand.constant.is_some());
        let pattern_offset = arguments.last().map_or(tree.offset, |argument| argument.offset);
        let call = Compiled::plain(functions::call(self.source, pattern_offset, function, operands)?);
        Ok(if constant { call.folded() } else { call })
    }
}
