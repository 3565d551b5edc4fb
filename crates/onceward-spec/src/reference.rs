//! The reference part of `docs/manifest.md`, printed from the tables.

use std::fmt::Write as _;

use onceward_connector::FunctionKind;

use crate::code;
use crate::keys::TABLES;
use crate::nearest::one_of;
use crate::table::{MapKeys, Shape};

/// Every key and every code as Markdown tables.
pub fn reference() -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    for table in TABLES {
        let _ = writeln!(out, "### {}\n\n{}\n", table.name, table.doc);
        let _ = writeln!(out, "| key | type | default | meaning |\n|---|---|---|---|");
        for key in table.keys {
            let default = match (key.required, key.default) {
                (true, _) => "required".to_owned(),
                (false, Some(default)) => format!("`{default}`"),
                (false, None) => String::new(),
            };
            let _ = writeln!(out, "| `{}` | {} | {default} | {} |", key.name, type_name(&key.shape), key.doc);
        }
        out.push('\n');
    }
    let _ = writeln!(out, "### Codes\n\n| code | meaning |\n|---|---|");
    for (code, meaning) in code::ALL {
        let _ = writeln!(out, "| `{code}` | {meaning} |");
    }
    out
}

fn type_name(shape: &Shape) -> String {
    match *shape {
        Shape::Exactly(text) => format!("`{text}`"),
        Shape::Name => "name".to_owned(),
        Shape::Text => "text".to_owned(),
        Shape::Bool => "`true` or `false`".to_owned(),
        Shape::Setting => "text, number or boolean".to_owned(),
        Shape::Function(FunctionKind::Message) => "message function".to_owned(),
        Shape::Function(FunctionKind::Process) => "process function".to_owned(),
        Shape::Duration { .. } => "duration".to_owned(),
        Shape::Size => "size".to_owned(),
        Shape::Integer { min, max: i64::MAX } => format!("whole number, at least {min}"),
        Shape::Integer { min, max } => format!("whole number, {min} to {max}"),
        Shape::Word(words) => one_of(words.iter().copied()),
        Shape::Expression => "expression".to_owned(),
        Shape::Aggregate => "aggregate call".to_owned(),
        Shape::List(items) => format!("list of {}", type_name(items)),
        Shape::Map { keys: MapKeys::Names, values } => format!("map from name to {}", type_name(values)),
        Shape::Map { keys: MapKeys::Fields, values: Shape::Setting } => "map from text to text".to_owned(),
        Shape::Map { keys: MapKeys::Fields, values } => format!("map from field to {}", type_name(values)),
        Shape::Object(table) | Shape::Choice(table) => {
            format!("[{}](#{})", table.name, table.name.to_lowercase())
        }
        Shape::ConnectorType(direction) => format!("{} type", direction.label()),
        Shape::ConnectorConfig(_) => "config".to_owned(),
    }
}
