//! Maps SQLite's errors to the port's.

use std::time::Duration;

use punctual_core::StoreError;
use rusqlite::{Error as Sqlite, ErrorCode, ffi};

/// How long a connection waits for another program's write transaction before it fails.
pub(crate) const BUSY_MAX_WAIT: Duration = Duration::from_secs(60);

/// Whether the disk did not confirm a write; [`super::health`] describes the consequences.
pub(crate) fn is_failed_sync(error: &Sqlite) -> bool {
    let failed_syncs = [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_DIR_FSYNC];
    error.sqlite_error().is_some_and(|error| failed_syncs.contains(&error.extended_code))
}

/// Maps the error of a statement to an error of the port.
pub(crate) fn store_error(error: Sqlite) -> StoreError {
    let text = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Busy { waited_ms: BUSY_MAX_WAIT.as_millis() as u64 }
        }
        Some(ErrorCode::DiskFull) => StoreError::Full(text),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreError::ReadOnly(text),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Corrupt(text),
        // The caller, which knows the file, fills in `store`.
        Some(ErrorCode::SystemIoFailure) if is_failed_sync(&error) => {
            StoreError::Failed { store: String::new(), reason: text }
        }
        Some(ErrorCode::SystemIoFailure) => {
            StoreError::Other(format!("{text}; check that the disk has room and is sound"))
        }
        _ => StoreError::Other(text),
    }
}
