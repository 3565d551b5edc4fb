//! Effectively-once without a fence: every row of the table keeps its version, and SQLite itself compares it with that
//! of the row to come, in one statement.

use std::sync::Arc;

use onceward_connector::{ConnectorError, PlainWriter, RowVersion, SinkBlock, TargetError};
use onceward_protocol::{Position, SinkIdentity};
use rusqlite::{Connection, OptionalExtension, params_from_iter};

use crate::database::{Database, Work};
use crate::error::before_commit;
use crate::shape::Affinity;
use crate::table::{ORIGIN, Table, quoted};
use crate::value::Value;

/// See [`PlainWriter`] on versioned upserts.
pub struct VersionedWriter {
    database: Arc<Database>,
    table: Arc<Table>,
    identity: SinkIdentity,
    affinities: Option<Vec<Affinity>>,
}

impl VersionedWriter {
    /// A writer for one partition.
    pub fn new(database: Arc<Database>, table: Arc<Table>, identity: &SinkIdentity) -> Self {
        VersionedWriter { database, table, identity: identity.clone(), affinities: None }
    }

    fn upsert(&self, connection: &Connection, block: &SinkBlock, affinities: &[Affinity]) -> Work<()> {
        let prepared = connection.prepare_cached(&self.table.statement());
        let mut statement =
            prepared.map_err(|error| before_commit("preparing the rows", &self.database.name(), &error))?;
        for (position, row) in block.rows() {
            let version = RowVersion::of(&self.identity, position);
            let mut values = self.table.values(position, row, affinities)?;
            values.extend([Value::Text(version.origin.as_str().into()), Value::Text(version.number.into())]);
            let changed = self.table.write_row(&mut statement, position, &values)?;
            if changed == 0 {
                self.refuse_other_origin(connection, position, &values, &version.origin)?;
            }
        }
        Ok(())
    }

    /// A row that changed nothing is older than the one that is there, unless the two have no order.
    fn refuse_other_origin(
        &self,
        connection: &Connection,
        position: Position,
        values: &[Value<'_>],
        own: &str,
    ) -> Work<()> {
        let columns = self.table.columns.iter().flatten().zip(values);
        let key: Vec<(&String, &Value<'_>)> =
            columns.filter(|(column, _)| self.table.key.contains(column)).collect();
        let conditions: Vec<String> =
            key.iter().map(|(column, _)| format!("{} = ?", quoted(column))).collect();
        let (table, conditions) = (quoted(&self.table.name), conditions.join(" AND "));
        let sql = format!("SELECT {ORIGIN} FROM {table} WHERE {conditions}");
        let there: Option<Option<String>> = connection
            .prepare_cached(&sql)
            .and_then(|mut found| {
                found
                    .query_row(params_from_iter(key.iter().map(|(_, value)| *value)), |row| row.get(0))
                    .optional()
            })
            .map_err(|error| before_commit("comparing origins", &self.database.name(), &error))?;
        let there = there.flatten().unwrap_or_default();
        if there == own {
            return Ok(());
        }
        Err(TargetError::Definite(ConnectorError::new(
            "OW-3212",
            format!(
                "{}: the row at position {position} has the key of a row in table {} that came from elsewhere: found \
                 {ORIGIN} `{there}`, expected `{own}`. Versions of two origins have no order: let every key come from one \
                 source partition or one computation, empty the table after a reset, or set `mode: upsert`",
                self.database.name(),
                self.table.name
            ),
        )))
    }
}

impl PlainWriter for VersionedWriter {
    fn write(&mut self, block: &SinkBlock) -> Result<(), TargetError> {
        let known = self.affinities.take();
        let affinities = self.database.transaction(|connection| {
            let affinities = match known {
                Some(affinities) => affinities,
                None => self.table.prepare(connection, false)?,
            };
            self.upsert(connection, block, &affinities)?;
            Ok(affinities)
        })?;
        self.affinities = Some(affinities);
        Ok(())
    }
}
