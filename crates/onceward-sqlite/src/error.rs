//! How errors of SQLite become answers to the engine.

use onceward_connector::{ConnectorError, TargetError};
use onceward_protocol::Position;
use rusqlite::{Error, ErrorCode};

/// An error before `COMMIT`: the transaction is rolled back, so nothing was applied. A lock that others hold passes, so
/// the engine is to come again.
pub fn before_commit(doing: &str, path: &str, error: &Error) -> TargetError {
    let (code, advice) = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => return busy(doing, path, error),
        Some(ErrorCode::SystemIoFailure | ErrorCode::FileLockingProtocolFailed) => {
            return TargetError::Unknown(format!("{path}: {doing}: {error}"));
        }
        Some(ErrorCode::DiskFull) => ("OW-3204", "Nothing was written; free some space and start again"),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => (
            "OW-3205",
            "Let this user write the file and its folder (SQLite needs both), or set another `path`",
        ),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => (
            "OW-3206",
            "Restore the database and the pipeline's store from one backup, or set another `path`",
        ),
        _ => ("OW-3207", "Nothing was written; see to the cause and start again"),
    };
    TargetError::Definite(ConnectorError::new(code, format!("{path}: {doing} failed: {error}. {advice}")))
}

/// An error of `COMMIT` itself: the commit record may have reached the log, and would be found after a crash.
pub fn in_commit(path: &str, error: &Error) -> TargetError {
    TargetError::Unknown(match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => {
            format!("OW-3204: {path}: no space left during the commit: {error}. Free some space")
        }
        _ => format!("{path}: the commit failed: {error}"),
    })
}

fn busy(doing: &str, path: &str, error: &Error) -> TargetError {
    TargetError::Unknown(format!(
        "OW-3202: {path}: {doing}: {error}: another program has held the database for longer than `busyTimeout`; \
         nothing was written"
    ))
}

/// A row that the table does not take.
pub fn of_row(path: &str, table: &str, position: Position, error: &Error) -> TargetError {
    match error.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig) => {
            refused_row(path, table, position, &error.to_string())
        }
        _ => before_commit("writing a row", path, error),
    }
}

/// A row that has no form in the table.
pub fn refused_row(path: &str, table: &str, position: Position, why: &str) -> TargetError {
    TargetError::Definite(ConnectorError::new(
        "OW-3211",
        format!(
            "{path}: the row at position {position} cannot be written to table {table}: {why}. Nothing of its block was \
             written; change the steps before the sink, or the table"
        ),
    ))
}
