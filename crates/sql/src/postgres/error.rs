//! Maps PostgreSQL's errors to the port's errors.

use punctual_core::StoreError;
use sqlx::Error;

use super::partitions::CONSTRAINT_PREFIX;

/// Converts an error for callers of the port. `store` is the address, without secrets.
pub(crate) fn store_error(store: &str, error: Error) -> StoreError {
    let unreachable = |reason: String| StoreError::Unreachable { store: store.to_owned(), reason };
    match &error {
        // The partition of a row is being created.
        Error::Database(_) if is_partition_conflict(&error) => StoreError::Busy { waited_ms: 0 },
        Error::Database(refused) => of_server(store, &refused.code().unwrap_or_default(), refused.message()),
        Error::PoolTimedOut => unreachable("no connection became free in time; raise max_connections".to_owned()),
        Error::PoolClosed => StoreError::Closed,
        Error::Decode(cause) if cause.is::<StoreError>() => cause.downcast_ref().cloned().unwrap_or(StoreError::Closed),
        Error::Protocol(why) => unreachable(without_origin(why).to_owned()),
        Error::Io(_) | Error::Tls(_) | Error::WorkerCrashed => unreachable(error.to_string()),
        Error::ColumnDecode { .. } | Error::Decode(_) => {
            StoreError::CorruptRow { row: "of an unknown id".to_owned(), reason: error.to_string() }
        }
        _ => StoreError::Other(error.to_string()),
    }
}

/// Converts an error of the server. `message` is without the line of the server's source, which the driver appends.
fn of_server(store: &str, code: &str, message: &str) -> StoreError {
    let unreachable = |reason: String| StoreError::Unreachable { store: store.to_owned(), reason };
    match code {
        "53100" => StoreError::Full(message.to_owned()),
        "25006" => StoreError::ReadOnlyServer { store: store.to_owned(), reason: message.to_owned() },
        "40P01" | "40001" | "55P03" => StoreError::Busy { waited_ms: 0 },
        // A statement that was slow once may be fast the next time.
        "57014" => unreachable(format!("{message}; the limit is the address's statement_timeout")),
        "42501" => StoreError::Other(format!("{message}; docs/postgresql.md says what the role needs")),
        // The server is shutting down, starting, or full of connections; it ended the session of a frozen process;
        // or (next line) it rejects the login.
        "57P01" | "57P02" | "57P03" | "53300" | "25P03" => unreachable(message.to_owned()),
        "28000" | "28P01" | "3D000" => unreachable(format!("{message}; check user, password and database")),
        _ => StoreError::Other(message.to_owned()),
    }
}

/// A message of the driver without the place in its source, such as `(sqlx_postgres::message:334)`.
fn without_origin(message: &str) -> &str {
    match message.rsplit_once(" (") {
        Some((text, origin)) if origin.starts_with("sqlx") => text,
        _ => message,
    }
}

/// Whether the statement may be retried at once: it was chosen as the victim of a deadlock or serialization failure.
pub(crate) fn is_retryable(error: &Error) -> bool {
    matches!(error, Error::Database(refused) if matches!(refused.code().as_deref(), Some("40P01" | "40001")))
}

/// Whether the server is currently read-only.
pub(crate) fn is_read_only(error: &Error) -> bool {
    matches!(error, Error::Database(refused) if refused.code().as_deref() == Some("25006"))
}

/// Whether an insert failed because its key exists.
pub(crate) fn is_unique_violation(error: &Error) -> bool {
    matches!(error, Error::Database(refused) if refused.code().as_deref() == Some("23505"))
}

/// Whether a text could not be parsed as JSON.
pub(crate) fn is_invalid_json(error: &Error) -> bool {
    matches!(error, Error::Database(refused) if refused.code().as_deref() == Some("22P02"))
}

/// Whether a statement named a partition that was removed meanwhile.
pub(crate) fn is_partition_gone(error: &Error) -> bool {
    matches!(error, Error::Database(refused) if refused.code().as_deref() == Some("42P01"))
}

/// Whether a row was rejected because the partition of its day is being created, or was attached while the row was
/// routed to the default partition.
pub(crate) fn is_partition_conflict(error: &Error) -> bool {
    let Some(rejected) = error.as_database_error() else { return false };
    // The bounds of a partition are a check without a name.
    rejected.code().as_deref() == Some("23514")
        && rejected.constraint().is_none_or(|name| name.starts_with(CONSTRAINT_PREFIX))
}

/// Wraps an error of the store so that it passes through code that returns the server's errors.
pub(crate) fn refuse(refusal: StoreError) -> Error {
    Error::Decode(Box::new(refusal))
}

/// Another transaction has changed the rows that this transaction was about to change: it must be restarted.
pub(crate) fn concurrent_change() -> Error {
    refuse(StoreError::Busy { waited_ms: 0 })
}

/// Whether an error is [`concurrent_change`].
pub(crate) fn is_concurrent_change(error: &Error) -> bool {
    matches!(error, Error::Decode(cause) if matches!(cause.downcast_ref(), Some(StoreError::Busy { .. })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_does_not_name_the_source_of_the_driver_or_the_server() {
        let cut = without_origin("expected ReadyForQuery (sqlx_postgres::connection:334)");
        assert_eq!(cut, "expected ReadyForQuery");
        assert_eq!(without_origin("no answer (in time)"), "no answer (in time)");
        let refused = of_server("postgres://ada@db", "28P01", "password authentication failed for user \"ada\"");
        let expected = "cannot reach the store postgres://ada@db: password authentication failed for user \"ada\"; \
                        check user, password and database";
        assert_eq!(refused.to_string(), expected);
    }
}
