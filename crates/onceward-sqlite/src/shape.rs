//! What a table of the database is: its columns, what their declared types do to values, and its keys.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, ToSql};

use crate::value::Value;

/// What a column's declared type does to a value on its way in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Affinity {
    /// Nothing: an undeclared type, `BLOB`, and `ANY` of a strict table.
    None,
    /// Numbers become text.
    Text,
    /// Whole numbers become doubles, and so do texts that look like numbers.
    Real,
    /// Texts that look like numbers become numbers.
    Numeric,
}

/// Whole numbers up to here are doubles too.
const EXACT_IN_DOUBLE: u64 = 1 << 53;

impl Affinity {
    /// By SQLite's rules for declared types.
    fn of(declared: &str, strict: bool) -> Self {
        let declared = declared.to_ascii_uppercase();
        let any = |parts: &[&str]| parts.iter().any(|part| declared.contains(part));
        match declared.as_str() {
            "" => Affinity::None,
            "ANY" if strict => Affinity::None,
            _ if any(&["INT"]) => Affinity::Numeric,
            _ if any(&["CHAR", "CLOB", "TEXT"]) => Affinity::Text,
            _ if any(&["BLOB"]) => Affinity::None,
            _ if any(&["REAL", "FLOA", "DOUB"]) => Affinity::Real,
            _ => Affinity::Numeric,
        }
    }

    /// The value to bind for a JSON text, such that the column keeps every digit of a number; otherwise why not.
    pub fn fit(self, json: &str) -> Result<Value<'_>, String> {
        let value = Value::of(json).map_err(|error| error.to_string())?;
        match (self, value) {
            // SQLite would print a double with 15 digits: it gets the digits themselves.
            (Affinity::Text, Value::Real(_)) => Ok(Value::Digits(json)),
            (Affinity::Real, Value::Integer(whole)) if whole.unsigned_abs() > EXACT_IN_DOUBLE => {
                Err(too_exact(json))
            }
            (Affinity::Real | Affinity::Numeric, Value::Digits(_)) => Err(too_exact(json)),
            (_, value) => Ok(value),
        }
    }
}

fn too_exact(json: &str) -> String {
    format!(
        "the number {json} would lose digits in a column of its declared type; declare the column TEXT, or without a type"
    )
}

/// One column of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What its type does to values.
    pub affinity: Affinity,
}

/// Whether the name is a `table`, a `view`, or (`None`) nothing.
pub fn kind(connection: &Connection, table: &str) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT type FROM sqlite_schema WHERE name = ?1 COLLATE NOCASE AND type IN ('table', 'view')";
    connection.query_row(sql, [table], |row| row.get(0)).optional()
}

/// The table's columns.
pub fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<Column>> {
    let strict = connection
        .query_row("SELECT strict FROM pragma_table_list(?1) WHERE schema = 'main'", [table], |row| {
            row.get(0)
        })
        .optional()?
        .unwrap_or(false);
    let mut columns = connection.prepare("SELECT name, type FROM pragma_table_info(?1)")?;
    let columns = columns.query_map([table], |row| {
        let declared: String = row.get(1)?;
        Ok(Column { name: row.get(0)?, affinity: Affinity::of(&declared, strict) })
    })?;
    columns.collect()
}

/// Whether the primary key, or a unique index without a condition, is on exactly these columns.
pub fn has_unique_key(connection: &Connection, table: &str, key: &[String]) -> rusqlite::Result<bool> {
    let key: BTreeSet<String> = key.iter().map(|name| name.to_ascii_lowercase()).collect();
    // An index on an expression has columns without a name, which equal no key.
    let is_key = |names: Vec<Option<String>>| {
        let names = names.into_iter().map(|name| name.map(|name| name.to_ascii_lowercase()));
        names.collect::<Option<BTreeSet<_>>>().as_ref() == Some(&key)
    };
    if is_key(first_column(connection, "SELECT name FROM pragma_table_info(?1) WHERE pk > 0", &table)?) {
        return Ok(true);
    }
    let unique = "SELECT name FROM pragma_index_list(?1) WHERE \"unique\" AND NOT partial";
    for index in first_column(connection, unique, &table)? {
        if is_key(first_column(connection, "SELECT name FROM pragma_index_info(?1)", &index)?) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn first_column(connection: &Connection, sql: &str, of: &dyn ToSql) -> rusqlite::Result<Vec<Option<String>>> {
    let mut rows = connection.prepare(sql)?;
    rows.query_map([of], |row| row.get(0))?.collect()
}
