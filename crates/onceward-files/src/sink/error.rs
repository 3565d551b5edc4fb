//! How errors of the file system become answers to the engine.

use std::io;
use std::path::Path;

use onceward_connector::{ConnectorError, TargetError};

/// An error before anything could have been applied.
pub fn definite(doing: &str, path: &Path, error: &io::Error) -> TargetError {
    let path = path.display();
    TargetError::Definite(match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ConnectorError::new(
            "OW-3104",
            format!(
                "no space left while {doing} {path}: {error}. Nothing was published; free some space and start again"
            ),
        ),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ConnectorError::new(
            "OW-3105",
            format!(
                "no permission while {doing} {path}: {error}. Let this user write there, or set another `path`"
            ),
        ),
        _ => ConnectorError::new(
            "OW-3106",
            format!(
                "the file system failed while {doing} {path}: {error}. Nothing was published; see to it and start again"
            ),
        ),
    })
}

/// An error after which the write may or may not have been applied.
pub fn unknown(doing: &str, path: &Path, error: &io::Error) -> TargetError {
    TargetError::Unknown(format!("the file system failed while {doing} {}: {error}", path.display()))
}

/// An error of a step that creates a name: these kinds say that it was not created, all others leave
/// it open.
pub fn creating(doing: &str, path: &Path, error: &io::Error) -> TargetError {
    match error.kind() {
        io::ErrorKind::StorageFull
        | io::ErrorKind::QuotaExceeded
        | io::ErrorKind::PermissionDenied
        | io::ErrorKind::ReadOnlyFilesystem
        | io::ErrorKind::NotFound => definite(doing, path, error),
        _ => unknown(doing, path, error),
    }
}
