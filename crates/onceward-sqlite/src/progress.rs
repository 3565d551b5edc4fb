//! Exactly-once: the row of `onceward_progress` that belongs to one partition, compared and set in the transaction of
//! the rows (MARKER-CAS). It outlives every writer; its fence is that of the newest open.

use std::sync::Arc;

use onceward_connector::{ConnectorError, ProgressWriter, SinkBlock, TargetError, target_name};
use onceward_protocol::{Fence, Marker, Position, SinkIdentity};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::database::{Database, Work};
use crate::error::before_commit;
use crate::shape::{self, Affinity};
use crate::table::Table;

/// Where progress is kept. Positions have 64 bits without a sign, which SQLite's integers have not: the major part is
/// text. A row without a position is an open that has no marker yet.
const CREATE: &str = "CREATE TABLE IF NOT EXISTS onceward_progress (
    identity TEXT NOT NULL,
    target TEXT NOT NULL,
    pipeline TEXT NOT NULL,
    creation TEXT NOT NULL,
    sink TEXT NOT NULL,
    partition TEXT NOT NULL,
    position_major TEXT,
    position_minor INTEGER,
    fence BLOB NOT NULL,
    retired INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (identity, target)
) STRICT, WITHOUT ROWID";

/// See [`ProgressWriter`].
pub struct SqliteWriter {
    database: Arc<Database>,
    table: Arc<Table>,
    identity: SinkIdentity,
    /// The primary key of this partition's row.
    key: (String, String),
    affinities: Option<Vec<Affinity>>,
}

/// A row of `onceward_progress`.
struct Progress {
    position: Option<Position>,
    fence: Fence,
    retired: bool,
}

impl SqliteWriter {
    /// A writer for one partition.
    pub fn new(database: Arc<Database>, table: Arc<Table>, identity: &SinkIdentity) -> Self {
        let key = (target_name(identity), table.target());
        SqliteWriter { database, table, identity: identity.clone(), key, affinities: None }
    }

    fn failed(&self, error: &rusqlite::Error) -> TargetError {
        before_commit("keeping progress in `onceward_progress`", &self.database.name(), error)
    }

    /// This partition's row, `None` if there never was an open.
    fn progress(&self, connection: &Connection) -> Work<Option<Progress>> {
        let sql = "SELECT position_major, position_minor, fence, retired FROM onceward_progress
                   WHERE identity = ?1 AND target = ?2";
        let there = shape::kind(connection, "onceward_progress").map_err(|error| self.failed(&error))?;
        if there.is_none() {
            return Ok(None);
        }
        connection
            .query_row(sql, params![self.key.0, self.key.1], read)
            .optional()
            .map_err(|error| self.failed(&error))
    }

    /// A pipeline that was reset or re-created must not add its rows to those of its forerunner.
    fn refuse_other_creation(&self, connection: &Connection) -> Work<()> {
        let sql = "SELECT creation FROM onceward_progress
                   WHERE target = ?1 AND pipeline = ?2 AND sink = ?3 AND creation <> ?4 AND retired = 0 LIMIT 1";
        let own = self.identity.partition.creation().to_string();
        let other: Option<String> = connection
            .query_row(sql, params![self.key.1, self.identity.pipeline, self.identity.sink, own], |row| {
                row.get(0)
            })
            .optional()
            .map_err(|error| self.failed(&error))?;
        let Some(other) = other else { return Ok(()) };
        Err(TargetError::Definite(ConnectorError::new(
            "OW-3201",
            format!(
                "{}: table {} was written by creation {other} of pipeline {}, this is creation {own}. Its rows would \
                 come a second time: name another `table`, or delete the old rows, and those of `onceward_progress` \
                 with that creation, and start again",
                self.database.name(),
                self.table.name,
                self.identity.pipeline
            ),
        )))
    }

    /// Why a compare-and-set changed nothing: told by looking, in the same transaction.
    fn explain(&self, connection: &Connection, fence: Fence, wanted: &str) -> TargetError {
        match self.progress(connection) {
            Err(error) => error,
            Ok(None) => TargetError::Fenced("no open holds this target: take the fence first".into()),
            Ok(Some(there)) if there.retired => self.retired(),
            Ok(Some(there)) if there.fence != fence => TargetError::Fenced(format!(
                "another open of sink {} holds partition {} of table {}: its fence is {}",
                self.identity.sink, self.identity.partition, self.table.name, there.fence
            )),
            Ok(Some(there)) => TargetError::Fenced(format!(
                "the progress marker is {}, so it cannot {wanted}",
                there.position.map_or("absent".to_owned(), |position| format!("at {position}"))
            )),
        }
    }

    fn retired(&self) -> TargetError {
        TargetError::Fenced(format!(
            "the progress of sink {} on partition {} of table {} was retired: another pipeline has adopted or reset it",
            self.identity.sink, self.identity.partition, self.table.name
        ))
    }

    fn insert(&self, connection: &Connection, block: &SinkBlock, affinities: &[Affinity]) -> Work<()> {
        let prepared = connection.prepare_cached(&self.table.statement());
        let mut statement =
            prepared.map_err(|error| before_commit("preparing the rows", &self.database.name(), &error))?;
        for (position, row) in block.rows() {
            let values = self.table.values(position, row, affinities)?;
            self.table.write_row(&mut statement, position, &values)?;
        }
        Ok(())
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<Progress> {
    let (major, minor): (Option<String>, Option<u32>) = (row.get(0)?, row.get(1)?);
    let damaged = |column, kind| rusqlite::Error::InvalidColumnType(column, "onceward_progress".into(), kind);
    let position = match (major, minor) {
        (Some(major), Some(minor)) => {
            Some(Position::new(major.parse().map_err(|_| damaged(0, Type::Text))?, minor))
        }
        _ => None,
    };
    let fence: Vec<u8> = row.get(2)?;
    let fence = fence.try_into().map_err(|_| damaged(2, Type::Blob))?;
    Ok(Progress { position, fence: Fence(u128::from_be_bytes(fence)), retired: row.get(3)? })
}

fn blob(fence: Fence) -> [u8; 16] {
    fence.0.to_be_bytes()
}

impl ProgressWriter for SqliteWriter {
    fn take_fence(&mut self, fence: Fence) -> Result<(), TargetError> {
        self.affinities = None;
        let sql =
            "INSERT INTO onceward_progress (identity, target, pipeline, creation, sink, partition, fence)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                   ON CONFLICT (identity, target) DO UPDATE SET fence = excluded.fence";
        let identity = &self.identity;
        let creation = identity.partition.creation().to_string();
        let affinities = self.database.transaction(|connection| {
            connection.execute_batch(CREATE).map_err(|error| self.failed(&error))?;
            self.refuse_other_creation(connection)?;
            let there = self.progress(connection)?;
            if there.as_ref().is_some_and(|there| there.retired) {
                return Err(self.retired());
            }
            let known = there.and_then(|there| there.position).is_some_and(|at| at > Position::ORIGIN);
            let affinities = self.table.prepare(connection, known)?;
            let label = identity.partition.label();
            let (name, target) = (&self.key.0, &self.key.1);
            connection
                .execute(
                    sql,
                    params![name, target, identity.pipeline, creation, identity.sink, label, blob(fence)],
                )
                .map_err(|error| self.failed(&error))?;
            Ok(affinities)
        })?;
        self.affinities = Some(affinities);
        Ok(())
    }

    fn read_marker(&mut self) -> Result<Option<Marker>, TargetError> {
        match self.database.read(|connection| self.progress(connection))? {
            Some(there) if there.retired => Err(self.retired()),
            Some(there) => Ok(there.position.map(|position| Marker { position, fence: there.fence })),
            None => Ok(None),
        }
    }

    fn create_marker(&mut self, marker: Marker) -> Result<(), TargetError> {
        let sql = "UPDATE onceward_progress SET position_major = ?3, position_minor = ?4
                   WHERE identity = ?1 AND target = ?2 AND fence = ?5 AND retired = 0 AND position_major IS NULL";
        let Marker { position, fence } = marker;
        self.database.transaction(|connection| {
            let major = position.major.to_string();
            let made = connection
                .execute(sql, params![self.key.0, self.key.1, major, position.minor, blob(fence)])
                .map_err(|error| self.failed(&error))?;
            if made == 1 {
                return Ok(());
            }
            match self.progress(connection)? {
                // An attempt of ours whose answer was lost.
                Some(there) if there.fence == fence && there.position == Some(position) && !there.retired => {
                    Ok(())
                }
                _ => Err(self.explain(connection, fence, &format!("be created at {position}"))),
            }
        })
    }

    fn write(&mut self, block: &SinkBlock, expected: Marker, next: Marker) -> Result<(), TargetError> {
        let sql = "UPDATE onceward_progress SET position_major = ?3, position_minor = ?4
                   WHERE identity = ?1 AND target = ?2 AND retired = 0
                     AND fence = ?5 AND position_major = ?6 AND position_minor = ?7";
        let (from, to) = (expected.position, next.position);
        let wanted = format!("move from {from} to {to}");
        if next.fence != expected.fence || to < from {
            return Err(TargetError::Fenced(format!(
                "the progress marker cannot {wanted} under the fences {} and {}",
                expected.fence, next.fence
            )));
        }
        let (name, target) = (&self.key.0, &self.key.1);
        let written = self.database.transaction(|connection| {
            let (to_major, from_major) = (to.major.to_string(), from.major.to_string());
            let cas = params![name, target, to_major, to.minor, blob(next.fence), from_major, from.minor];
            let moved = connection.prepare_cached(sql).and_then(|mut statement| statement.execute(cas));
            if moved.map_err(|error| self.failed(&error))? != 1 {
                return Err(self.explain(connection, next.fence, &wanted));
            }
            if block.is_empty() {
                return Ok(());
            }
            match &self.affinities {
                Some(affinities) => self.insert(connection, block, affinities),
                None => self.insert(connection, block, &self.table.prepare(connection, true)?),
            }
        });
        if written.is_err() {
            // The table may have been changed: the next open looks again.
            self.affinities = None;
        }
        written
    }
}
