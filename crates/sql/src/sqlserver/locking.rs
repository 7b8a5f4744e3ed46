//! Mutual exclusion of writing operations.

use punctual_core::{StoreError, StoreResult, Timestamp};

use super::statements::own;
use crate::db::Row;

/// How an operation excludes others, by means of the application lock `punctual`, which it holds until the end of its
/// transaction. The lock is the first that an operation takes, so operations with exclusive access cannot deadlock with
/// each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locking {
    /// Exclusive: no other operation writes.
    Alone,
    /// Shared with other writers. Jobs in lanes are locked as they are claimed, and skipped if already locked; running
    /// jobs are locked in one order; all other rows are only inserted.
    Beside,
    /// Within an application's transaction; takes the lock only when it is needed.
    Within,
}

/// The lock's result code for the victim of a deadlock.
const DEADLOCK: i64 = -3;
/// How long an operation waits for the lock.
const LOCK_TIMEOUT_MS: u64 = 60_000;

impl Locking {
    /// The statement that begins an operation.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Alone => own::ALONE,
            Self::Beside => own::BESIDE,
            Self::Within => own::WITHIN,
        }
    }

    /// Checks the result of the lock request; returns the server's time if the lock was granted.
    pub(crate) fn check(rows: &[tiberius::Row]) -> StoreResult<Timestamp> {
        let row: &dyn Row = rows.last().ok_or_else(|| StoreError::Other("no answer to a lock".to_owned()))?;
        match row.get::<i64>(0)? {
            0.. => {}
            DEADLOCK => return Err(StoreError::Busy { waited_ms: 0 }),
            _ => return Err(StoreError::Busy { waited_ms: LOCK_TIMEOUT_MS }),
        }
        if row.get::<i64>(2)? == 0 {
            return Err(StoreError::Other("the connection is in no transaction; begin one first".to_owned()));
        }
        row.get(1).map(Timestamp::from_micros)
    }
}
