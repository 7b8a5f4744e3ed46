//! SQL Server's errors in the port's words.

use punctual_core::StoreError;
use tiberius::error::Error;

/// Picked as the victim of a deadlock; waited too long for a lock.
const DEADLOCK: u32 = 1205;
const LOCK_TIMEOUT: u32 = 1222;
/// A row with that key came in between.
const DUPLICATE: [u32; 2] = [2601, 2627];
/// There is no room: in the database, in its log, on the disk.
const FULL: [u32; 3] = [1105, 9002, 1101];
/// The login failed; the database cannot be opened; a right is missing.
const REFUSED: [u32; 5] = [18456, 4060, 911, 229, 262];

/// What a statement's failure means to a caller of the port.
pub(crate) fn store_error(store: &str, error: &Error) -> StoreError {
    let text = error.to_string();
    match error.code() {
        Some(DEADLOCK | LOCK_TIMEOUT) => StoreError::Busy { waited_ms: 0 },
        Some(code) if DUPLICATE.contains(&code) => {
            tracing::debug!(error = text, "a row came in between");
            StoreError::Busy { waited_ms: 0 }
        }
        Some(code) if FULL.contains(&code) => StoreError::Full(text),
        Some(code) if REFUSED.contains(&code) => unreachable(store, text),
        Some(_) => StoreError::Other(text),
        None => match error {
            Error::Protocol(why) if why.contains("encryption") => {
                unreachable(store, format!("{why} If it is to go without TLS, say encrypt=off in the address"))
            }
            Error::Io { .. } | Error::Tls(_) | Error::Routing { .. } => unreachable(store, text),
            _ => StoreError::Other(text),
        },
    }
}

fn unreachable(store: &str, reason: String) -> StoreError {
    StoreError::Unreachable { store: store.to_owned(), reason }
}

/// An operation that did not come to its end.
pub(crate) fn broken_off(error: &tokio::task::JoinError) -> StoreError {
    StoreError::Other(format!("an operation broke off: {error}"))
}
