//! SQLite's errors in the port's words.

use std::time::Duration;

use punctual_core::StoreError;
use rusqlite::{Error as Sqlite, ErrorCode, ffi};

/// How long a connection waits for another program's write transaction before it gives up.
pub(crate) const BUSY_MAX_WAIT: Duration = Duration::from_secs(60);

/// Whether the disk did not confirm a write. What it means, [`super::health`] says.
pub(crate) fn is_failed_sync(error: &Sqlite) -> bool {
    let failed_syncs = [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_DIR_FSYNC];
    error.sqlite_error().is_some_and(|error| failed_syncs.contains(&error.extended_code))
}

/// What a statement's failure means to a caller of the port.
pub(crate) fn store_error(error: Sqlite) -> StoreError {
    let text = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Busy { waited_ms: BUSY_MAX_WAIT.as_millis() as u64 }
        }
        Some(ErrorCode::DiskFull) => StoreError::Full(text),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreError::ReadOnly(text),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Corrupt(text),
        // Whoever knows the file adds it.
        Some(ErrorCode::SystemIoFailure) if is_failed_sync(&error) => {
            StoreError::Failed { store: String::new(), reason: text }
        }
        Some(ErrorCode::SystemIoFailure) => {
            StoreError::Other(format!("{text}; check that the disk has room and is sound"))
        }
        _ => StoreError::Other(text),
    }
}
