//! What a closure of a program sees: the row, the variables of the macros around it, and the work left.

use std::borrow::Cow;
use std::cell::Cell;

use crate::error::EvalError;
use crate::scan::Row;
use crate::value::Value;

/// Units of work per evaluation.
pub(super) const MAX_WORK: usize = 1_000_000;
/// Items of a list made by an expression.
pub(super) const MAX_ITEMS: usize = 65_536;
/// Bytes of a text made by an expression.
pub(super) const MAX_TEXT: usize = 1 << 20;

/// One compiled node.
pub(super) type Code =
    Box<dyn for<'r, 'a> Fn(&Context<'r, 'a>) -> Result<Value<'a>, EvalError> + Send + Sync>;

/// Boxes a closure; the bound tells the compiler its higher-ranked type.
pub(super) fn code<F>(closure: F) -> Code
where
    F: for<'r, 'a> Fn(&Context<'r, 'a>) -> Result<Value<'a>, EvalError> + Send + Sync + 'static,
{
    Box::new(closure)
}

pub(super) struct Context<'r, 'a> {
    pub(super) row: &'r Row<'a>,
    locals: Option<&'r Local<'r, 'a>>,
    work: &'r Cell<usize>,
}

/// A macro's variable; the innermost is the first.
struct Local<'r, 'a> {
    value: Value<'a>,
    outer: Option<&'r Local<'r, 'a>>,
}

#[inline]
pub(super) fn start<'a, T>(row: &Row<'a>, run: impl FnOnce(&Context<'_, 'a>) -> T) -> T {
    let work = Cell::new(MAX_WORK);
    run(&Context { row, locals: None, work: &work })
}

impl<'a> Context<'_, 'a> {
    /// Takes work from what is left.
    pub(super) fn charge(&self, units: usize) -> Result<(), EvalError> {
        match self.work.get().checked_sub(units) {
            Some(left) => {
                self.work.set(left);
                Ok(())
            }
            None => Err(EvalError::Limit { what: "the work of one evaluation", limit: MAX_WORK }),
        }
    }

    /// Takes the work of going over a value's bytes or items once.
    #[inline]
    pub(super) fn charge_for(&self, value: &Value<'a>) -> Result<(), EvalError> {
        let units = match value {
            Value::String(text) => text.len() / 64,
            Value::Bytes(bytes) | Value::Json(bytes) => bytes.len() / 64,
            Value::List(items) => items.len() / 4,
            Value::Map(entries) => entries.len() / 4,
            _ => 0,
        };
        if units == 0 { Ok(()) } else { self.charge(units) }
    }

    /// Runs with one more variable.
    pub(super) fn with<T>(&self, value: Value<'a>, run: impl FnOnce(&Context<'_, 'a>) -> T) -> T {
        let local = Local { value, outer: self.locals };
        run(&Context { row: self.row, locals: Some(&local), work: self.work })
    }

    /// The variable `depth` macros out.
    pub(super) fn local(&self, depth: usize) -> Result<Value<'a>, EvalError> {
        let mut local = self.locals;
        for _ in 0..depth {
            local = local.and_then(|local| local.outer);
        }
        let value = local.map_or(Value::Null, |local| local.value.clone());
        if let Value::String(Cow::Owned(_)) | Value::Bytes(Cow::Owned(_)) | Value::Json(Cow::Owned(_)) = value
        {
            self.charge_for(&value)?;
        }
        Ok(value)
    }
}
