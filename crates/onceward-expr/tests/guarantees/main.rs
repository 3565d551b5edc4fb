//! What the expression crate guarantees, each against an independent oracle where there is one.
#![expect(clippy::unwrap_used, reason = "the shared functions below belong to tests")]

mod cel;
mod csv_scan;
mod decimal;
mod errors;
mod json_scan;
mod keys;
mod robust;
mod time;

use onceward_connector::Codec;
use onceward_expr::{EvalError, FieldSet, Program, Row, Scanner, Slots, Value};

/// Evaluates an expression on a JSON record.
fn eval(source: &str, record: &str) -> Result<Value<'static>, EvalError> {
    eval_on(&Codec::Json, source, record)
}

fn eval_on(codec: &Codec, source: &str, record: &str) -> Result<Value<'static>, EvalError> {
    let mut fields = FieldSet::new();
    let program = Program::compile(source, &mut fields).map_err(|error| error.to_string()).unwrap();
    let scanner = Scanner::new(codec, &fields);
    let mut slots = Slots::new(&fields);
    scanner.scan(record.as_bytes(), &mut slots).unwrap();
    program.eval(&Row::new(record.as_bytes(), &slots, &scanner)).map(Value::into_owned)
}

/// The value as JSON text.
fn json(value: &Value<'_>) -> String {
    let mut out = Vec::new();
    value.write_json(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The value as JSON text, or the error's code.
fn outcome(source: &str, record: &str) -> String {
    match eval(source, record) {
        Ok(value) => json(&value),
        Err(error) => error.to_string().split(':').next().unwrap().to_owned(),
    }
}
