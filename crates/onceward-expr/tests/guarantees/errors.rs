//! Errors say where, what was found, what was expected and what to do.

use onceward_expr::{CompileError, EvalError, FieldSet, Program};

fn refused(source: &str) -> CompileError {
    Program::compile(source, &mut FieldSet::new()).unwrap_err()
}

#[test]
fn every_refusal_points_at_its_place() {
    for (source, code, line, column, part) in [
        ("", "OW-5002", 1, 1, "the end of the expression"),
        ("a +", "OW-5002", 1, 4, "the end of the expression"),
        ("a = 1", "OW-5002", 1, 3, "equality is `==`"),
        ("a & b", "OW-5002", 1, 3, "and is `&&`"),
        ("a | b", "OW-5002", 1, 3, "or is `||`"),
        ("(a", "OW-5002", 1, 3, "expected `)`"),
        ("[1, 2", "OW-5002", 1, 6, "`,` or `]`"),
        ("{'a' 1}", "OW-5002", 1, 6, "expected `:`"),
        ("a b", "OW-5002", 1, 3, "found `b`, expected an operator"),
        ("a.1", "OW-5002", 1, 2, "expected an operator"),
        ("a. +", "OW-5002", 1, 4, "a name after `.`"),
        ("Flight{a: 1}", "OW-5002", 1, 7, "message construction"),
        ("size(a,)", "OW-5002", 1, 8, "expected an argument"),
        ("a ? b", "OW-5002", 1, 6, "expected `:`"),
        ("\n  a == 'x", "OW-5003", 2, 8, "does not end"),
        ("'é' + 'a\\q'", "OW-5003", 1, 9, "unknown or incomplete escape"),
        ("for == 1", "OW-5003", 1, 1, "`for` is a reserved word"),
        ("9223372036854775808", "OW-5004", 1, 1, "-2^63 to 2^63-1"),
        ("a + 1e100", "OW-5004", 1, 5, "double(\"1e100\")"),
        ("1abc", "OW-5004", 1, 1, "followed by a letter"),
        ("a == 1 && siez(b) > 2", "OW-5010", 1, 11, "did you mean `size`?"),
        ("a.startswith('x')", "OW-5010", 1, 3, "did you mean `startsWith`?"),
        ("avg(delay) > 3", "OW-5010", 1, 1, "is an aggregate"),
        ("frobnicate(a)", "OW-5010", 1, 1, "known functions: size, contains"),
        ("a.hass(b)", "OW-5010", 1, 3, "did you mean `has`?"),
        ("filter(a, x)", "OW-5010", 1, 1, "items.filter(x, ..)"),
        ("contains(a, 'b')", "OW-5011", 1, 1, "write x.contains(y)"),
        ("a.int()", "OW-5011", 1, 3, "write int(x)"),
        ("a.contains()", "OW-5011", 1, 3, "has 0 arguments"),
        ("has(a[0])", "OW-5011", 1, 1, "one field or selection"),
        ("a.map(1, 2)", "OW-5011", 1, 3, "a variable name and an expression"),
        ("a.all(x, has(x))", "OW-5011", 1, 10, "variable of a macro"),
        ("a.matches('(')", "OW-5012", 1, 11, "unclosed group"),
    ] {
        let error = refused(source);
        assert_eq!((error.code, error.line, error.column), (code, line, column), "{source}: {error}");
        assert!(error.to_string().contains(part), "{source}: {error}");
    }
}

#[test]
fn the_offset_counts_bytes_and_the_column_characters() {
    let error = refused("'éé' + $");
    assert_eq!((error.offset, error.column), (9, 8));
}

#[test]
fn a_refused_expression_interns_nothing() {
    let mut fields = FieldSet::new();
    assert!(Program::compile("a + siez(b)", &mut fields).is_err());
    assert!(fields.is_empty());
    let program = Program::compile("b + a + b", &mut fields).unwrap();
    assert_eq!(fields.names(), ["b", "a"]);
    assert_eq!(program.field_names(&fields).collect::<Vec<_>>(), ["b", "a"]);
    let program = Program::compile("a", &mut fields).unwrap();
    assert_eq!((program.field_slot(), program.slots()), (Some(1), &[1][..]));
}

#[test]
fn absence_is_told_apart_from_every_other_error_and_names_the_path() {
    for (source, path) in [
        ("gone", "gone"),
        ("gone + 1", "gone"),
        ("gone > 1", "gone"),
        ("gone == 'x'", "gone"),
        ("o.gone", "o.gone"),
        ("o.p.gone", "o.p.gone"),
        ("o['gone']", "o[\"gone\"]"),
        ("l.map(x, x.gone)", "x.gone"),
        ("size(gone)", "gone"),
    ] {
        match crate::eval(source, r#"{"o":{"p":{}},"l":[{}]}"#) {
            Err(EvalError::Absent { field }) => assert_eq!(&*field, path),
            other => panic!("{source}: {other:?}"),
        }
    }
}

#[test]
fn type_errors_name_operator_and_types() {
    let text =
        |source: &str| crate::eval(source, r#"{"s":"x","n":1,"l":[],"o":{}}"#).unwrap_err().to_string();
    assert!(text("s + n").starts_with("OW-5203: + is not defined for string and int"));
    assert!(text("o < l").starts_with("OW-5203: < is not defined for map and list"));
    assert!(text("!n").starts_with("OW-5203: ! is not defined for int"));
    assert!(text("n.matches('x')").starts_with("OW-5203: matches is not defined for int"));
    assert!(text("n in s").starts_with("OW-5203: in is not defined for int and string"));
}
