//! `all`, `exists`, `exists_one`, `filter` and `map`, over the items of a list or the keys of a map.

use super::context::{Code, Context, code};
use crate::error::EvalError;
use crate::syntax::Macro;
use crate::value::Value;

pub(super) fn compile(kind: Macro, range: Code, bodies: Vec<Code>) -> Code {
    let mut bodies = bodies.into_iter();
    let (first, second) = (bodies.next(), bodies.next());
    let Some(first) = first else { return range };
    match (kind, second) {
        (Macro::All, _) => code(move |context| quantify(context, range(context)?, &first, false)),
        (Macro::Exists, _) => code(move |context| quantify(context, range(context)?, &first, true)),
        (Macro::ExistsOne, _) => code(move |context| {
            let mut count = 0usize;
            for item in items(context, range(context)?)? {
                count += usize::from(holds(context, item, &first)?);
            }
            Ok(Value::Bool(count == 1))
        }),
        (Macro::Filter, _) => code(move |context| {
            let mut kept = Vec::new();
            for item in items(context, range(context)?)? {
                if holds(context, item.clone(), &first)? {
                    kept.push(item);
                }
            }
            Ok(Value::list(kept))
        }),
        (Macro::Map, None) => code(move |context| {
            let mut made = Vec::new();
            for item in items(context, range(context)?)? {
                made.push(apply(context, item, &first)?);
            }
            Ok(Value::list(made))
        }),
        (Macro::Map, Some(second)) => code(move |context| {
            let mut made = Vec::new();
            for item in items(context, range(context)?)? {
                if holds(context, item.clone(), &first)? {
                    made.push(context.with(item, |inner| second(inner))?);
                }
            }
            Ok(Value::list(made))
        }),
    }
}

fn items<'a>(context: &Context<'_, 'a>, range: Value<'a>) -> Result<Vec<Value<'a>>, EvalError> {
    context.charge_for(&range)?;
    match range.resolve()? {
        Value::List(items) => Ok(std::sync::Arc::unwrap_or_clone(items)),
        Value::Map(entries) => Ok(entries.iter().map(|(key, _)| key.clone()).collect()),
        other => Err(EvalError::types("a macro over a list or map", &[other.type_name()])),
    }
}

fn apply<'a>(context: &Context<'_, 'a>, item: Value<'a>, body: &Code) -> Result<Value<'a>, EvalError> {
    context.charge(1)?;
    context.with(item, |inner| body(inner))
}

fn holds<'a>(context: &Context<'_, 'a>, item: Value<'a>, body: &Code) -> Result<bool, EvalError> {
    match apply(context, item, body)? {
        Value::Bool(value) => Ok(value),
        other => Err(EvalError::types("the condition of a macro", &[other.type_name()])),
    }
}

/// `exists` is an `||` over the items, `all` an `&&`: the item that decides wins over errors of others.
fn quantify<'a>(
    context: &Context<'_, 'a>,
    range: Value<'a>,
    body: &Code,
    decisive: bool,
) -> Result<Value<'a>, EvalError> {
    let mut error = None;
    for item in items(context, range)? {
        match holds(context, item, body) {
            Ok(value) if value == decisive => return Ok(Value::Bool(decisive)),
            Ok(_) => {}
            Err(limit @ EvalError::Limit { .. }) => return Err(limit),
            Err(problem) => {
                error.get_or_insert(problem);
            }
        }
    }
    error.map_or(Ok(Value::Bool(!decisive)), Err)
}
