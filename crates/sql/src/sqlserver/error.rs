//! Maps SQL Server's errors to the port's.

use std::io::ErrorKind;

use punctual_core::StoreError;
use tiberius::error::Error;

/// Chosen as the victim of a deadlock; waited too long for a lock.
const DEADLOCK: u32 = 1205;
const LOCK_TIMEOUT: u32 = 1222;
/// As set in the settings of a connection.
pub(crate) const LOCK_TIMEOUT_MS: u64 = 30_000;
/// A row with the same key was inserted concurrently; the data being read has moved.
const IN_THE_WAY: [u32; 3] = [2601, 2627, 601];
/// No space left: in the database, in its log, on the disk.
const FULL: [u32; 3] = [1105, 9002, 1101];
/// The login failed; the database cannot be opened; a permission is missing.
const REFUSED: [u32; 5] = [18456, 4060, 911, 229, 262];
/// The server is stopping, another one is taking over, or it is too busy at the moment.
const AWAY: [u32; 11] = [6005, 976, 983, 40_197, 40_501, 40_613, 49_918, 49_919, 49_920, 10_928, 10_929];
/// The database cannot be written: it is read-only, on standby, or on a secondary replica.
const READ_ONLY: [u32; 3] = [3906, 3908, 978];

/// Maps the error of a statement to an error of the port.
pub(crate) fn store_error(store: &str, error: &Error) -> StoreError {
    // The driver's text also names the procedure and its line, and the internal state of the server.
    if let Error::Server(refused) = error {
        let code = refused.code();
        return of_code(store, code, format!("{} (error {code})", refused.message()));
    }
    let text = error.to_string();
    match error {
        Error::Protocol(why) if why.contains("encryption") => {
            unreachable(store, format!("{why} If it is to go without TLS, say encrypt=off in the address"))
        }
        // The rest of the text is for programmers.
        Error::Tls(why) => {
            let why = why.split(". ").next().unwrap_or_default();
            unreachable(store, format!("{why}; set the trusted certificate authority with ca=/path/ca.pem in the URL"))
        }
        Error::Io { kind: ErrorKind::TimedOut, .. } => unreachable(store, "no answer in time".to_owned()),
        Error::Io { message, .. } => unreachable(store, message.split("; ").next().unwrap_or_default().to_owned()),
        Error::Routing { .. } => unreachable(store, text),
        _ => StoreError::Other(text),
    }
}

/// Maps an error number of the server.
fn of_code(store: &str, code: u32, text: String) -> StoreError {
    match code {
        DEADLOCK => begin_anew(&text),
        LOCK_TIMEOUT => StoreError::Busy { waited_ms: LOCK_TIMEOUT_MS },
        code if IN_THE_WAY.contains(&code) => begin_anew(&text),
        code if FULL.contains(&code) => StoreError::Full(text),
        code if READ_ONLY.contains(&code) => StoreError::ReadOnlyServer { store: store.to_owned(), reason: text },
        code if REFUSED.contains(&code) || AWAY.contains(&code) => unreachable(store, text),
        _ => StoreError::Other(text),
    }
}

/// Reports a conflict with concurrent operations, after which the operation must restart.
fn begin_anew(text: &str) -> StoreError {
    tracing::debug!(error = text, "others were in the way");
    StoreError::Busy { waited_ms: 0 }
}

fn unreachable(store: &str, reason: String) -> StoreError {
    StoreError::Unreachable { store: store.to_owned(), reason }
}

/// The error for an operation that panicked or was aborted.
pub(crate) fn broken_off(error: &tokio::task::JoinError) -> StoreError {
    StoreError::Other(format!("an operation broke off: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_caused_by_other_sessions_are_retried() {
        let of = |code| of_code("sqlserver://db", code, "why".to_owned());
        for code in [DEADLOCK, 2601, 2627, 601] {
            assert!(matches!(of(code), StoreError::Busy { waited_ms: 0 }), "{code}");
        }
        assert!(matches!(of(LOCK_TIMEOUT), StoreError::Busy { waited_ms: LOCK_TIMEOUT_MS }));
        for code in FULL {
            assert!(matches!(of(code), StoreError::Full(_)), "{code}");
        }
        for code in REFUSED.into_iter().chain(AWAY) {
            assert!(matches!(of(code), StoreError::Unreachable { .. }), "{code}");
        }
        for code in READ_ONLY {
            assert!(matches!(of(code), StoreError::ReadOnlyServer { .. }), "{code}");
        }
        assert!(matches!(of(208), StoreError::Other(text) if text == "why"));
    }
}
