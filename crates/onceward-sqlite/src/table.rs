//! The target table: made if it is not there, otherwise found to be what the sink needs.

use onceward_connector::{ConnectorError, Fields, TargetError};
use onceward_protocol::Position;
use rusqlite::{CachedStatement, Connection, params_from_iter};

use crate::error::{before_commit, of_row, refused_row};
use crate::shape::{self, Affinity};
use crate::value::Value;

/// The column of a table that holds whole rows.
pub const PAYLOAD: &str = "payload";
/// Beside a versioned row: within what versions have an order.
pub const ORIGIN: &str = "onceward_origin";
/// Beside a versioned row: its version, larger is newer.
pub const VERSION: &str = "onceward_version";

/// How rows meet rows that are there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Every row is inserted.
    Append,
    /// A row replaces the one of its key.
    Upsert,
    /// A row replaces the one of its key if its version is newer.
    UpsertVersioned,
}

/// What the sink writes to, as configured.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// The database file, for messages.
    pub database: String,
    /// How rows meet rows.
    pub mode: Mode,
    /// The fields that become columns; `None` for one column that holds the row.
    pub columns: Option<Vec<String>>,
    /// The columns that make the key; empty for `append`.
    pub key: Vec<String>,
    /// Takes the columns out of a row.
    pub fields: Fields,
}

/// A name in SQL.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(quoted).collect::<Vec<_>>().join(", ")
}

impl Table {
    /// The columns that rows fill, in the order of the statement's parameters.
    fn row_columns(&self) -> Vec<&str> {
        match &self.columns {
            Some(columns) => columns.iter().map(String::as_str).collect(),
            None => vec![PAYLOAD],
        }
    }

    fn all_columns(&self) -> Vec<&str> {
        let mut columns = self.row_columns();
        if self.mode == Mode::UpsertVersioned {
            columns.extend([ORIGIN, VERSION]);
        }
        columns
    }

    /// Makes the table, or checks the one that is there; answers what its columns do to values, for
    /// [`Table::values`]. `known` says that rows of ours are in it already: then it must be there.
    pub fn prepare(&self, connection: &Connection, known: bool) -> Result<Vec<Affinity>, TargetError> {
        let failed = |error| before_commit("looking at the table", &self.database, &error);
        match shape::kind(connection, &self.name).map_err(failed)?.as_deref() {
            None if known => return Err(self.wrong(
                "OW-3209",
                format!(
                    "the table is not there, although `onceward_progress` says that rows were written to it. Restore \
                     it, or reset the pipeline and delete the rows of `onceward_progress` whose `target` is `{}`",
                    self.target()
                ),
            )),
            None => connection.execute_batch(&self.creation()).map_err(failed)?,
            Some("table") => {}
            Some(other) => {
                let what = format!("found a {other}, expected a table; name another `table`");
                return Err(self.wrong("OW-3208", what));
            }
        }
        self.check(connection)
    }

    /// The table as `onceward_progress` names it: SQLite takes names that differ in case for one.
    pub fn target(&self) -> String {
        self.name.to_ascii_lowercase()
    }

    fn creation(&self) -> String {
        let mut parts: Vec<String> = self
            .all_columns()
            .into_iter()
            .map(|column| match column {
                // Only these have a type: every other column keeps each value as it comes.
                PAYLOAD if self.columns.is_none() => format!("{} TEXT NOT NULL", quoted(column)),
                ORIGIN | VERSION => format!("{} TEXT NOT NULL", quoted(column)),
                _ => quoted(column),
            })
            .collect();
        if !self.key.is_empty() {
            parts.push(format!("PRIMARY KEY ({})", list(self.key.iter().map(String::as_str))));
        }
        format!("CREATE TABLE {} ({})", quoted(&self.name), parts.join(", "))
    }

    fn check(&self, connection: &Connection) -> Result<Vec<Affinity>, TargetError> {
        let failed = |error| before_commit("looking at the table's columns", &self.database, &error);
        let found = shape::columns(connection, &self.name).map_err(failed)?;
        let (mut affinities, mut missing) = (Vec::new(), Vec::new());
        for column in self.all_columns() {
            match found.iter().find(|there| there.name.eq_ignore_ascii_case(column)) {
                Some(there) => affinities.push(there.affinity),
                None => missing.push(column),
            }
        }
        if !missing.is_empty() {
            return Err(self.wrong(
                "OW-3208",
                format!(
                    "found the columns {}; expected also {}. Add them, give `columns`, or name another `table`",
                    list(found.iter().map(|column| column.name.as_str())),
                    list(missing)
                ),
            ));
        }
        if self.key.is_empty() || shape::has_unique_key(connection, &self.name, &self.key).map_err(failed)? {
            return Ok(affinities);
        }
        let key = list(self.key.iter().map(String::as_str));
        Err(self.wrong(
            "OW-3208",
            format!(
                "found no primary key and no unique index on exactly {key}, expected one: an upsert finds the row to \
                 replace by it. Create it (`CREATE UNIQUE INDEX ... ON {} ({key})`), or change `key`",
                quoted(&self.name)
            ),
        ))
    }

    fn wrong(&self, code: &'static str, what: String) -> TargetError {
        TargetError::Definite(ConnectorError::new(
            code,
            format!("{}: table {}: {what}", self.database, self.name),
        ))
    }

    /// The statement that writes one row.
    pub fn statement(&self) -> String {
        let columns = self.all_columns();
        let marks = vec!["?"; columns.len()].join(", ");
        let name = quoted(&self.name);
        let insert = format!("INSERT INTO {name} ({}) VALUES ({marks})", list(columns.iter().copied()));
        if self.mode == Mode::Append {
            return insert;
        }
        let is_key = |column: &&&str| self.key.iter().any(|key| key == **column);
        let set: Vec<String> = columns
            .iter()
            .filter(|column| !is_key(column))
            .map(|column| format!("{0} = excluded.{0}", quoted(column)))
            .collect();
        let key = list(self.key.iter().map(String::as_str));
        let action =
            if set.is_empty() { "NOTHING".to_owned() } else { format!("UPDATE SET {}", set.join(", ")) };
        let newer = match self.mode {
            Mode::UpsertVersioned => format!(
                " WHERE {name}.{ORIGIN} = excluded.{ORIGIN} AND {name}.{VERSION} < excluded.{VERSION}"
            ),
            Mode::Append | Mode::Upsert => String::new(),
        };
        format!("{insert} ON CONFLICT ({key}) DO {action}{newer}")
    }

    /// A row's values, in the order of [`Table::statement`]'s parameters, those of [`ORIGIN`] and [`VERSION`] left out.
    pub fn values<'a>(
        &self,
        position: Position,
        row: &'a [u8],
        affinities: &[Affinity],
    ) -> Result<Vec<Value<'a>>, TargetError> {
        let refused = |why: String| refused_row(&self.database, &self.name, position, &why);
        let Some(columns) = &self.columns else {
            let text =
                std::str::from_utf8(row).map_err(|error| refused(format!("it is not UTF-8: {error}")))?;
            return Ok(vec![Value::Text(text.into())]);
        };
        let fields =
            self.fields.of(row).map_err(|error| refused(format!("expected a JSON object: {error}")))?;
        let mut values = Vec::with_capacity(fields.len() + 2);
        for ((column, json), affinity) in columns.iter().zip(fields).zip(affinities) {
            let value = json.map_or(Ok(Value::Null), |json| affinity.fit(json));
            let value = value.map_err(|why| refused(format!("field `{column}`: {why}")))?;
            if value == Value::Null && self.key.contains(column) {
                return Err(refused(format!("its key field `{column}` is absent or null")));
            }
            values.push(value);
        }
        Ok(values)
    }

    /// Writes one row within a transaction; answers how many rows of the table changed.
    pub fn write_row(
        &self,
        statement: &mut CachedStatement<'_>,
        position: Position,
        values: &[Value<'_>],
    ) -> Result<usize, TargetError> {
        statement
            .execute(params_from_iter(values))
            .map_err(|error| of_row(&self.database, &self.name, position, &error))
    }
}
