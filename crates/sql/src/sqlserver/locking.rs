//! How operations that write stand to each other.

use punctual_core::{StoreError, StoreResult, Timestamp};

use super::statements::own;
use crate::db::Row;

/// How an operation stands to others, by the lock `punctual` that it holds until the end of its transaction. As this is
/// the first lock that it takes, nobody who is alone waits for somebody who waits for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locking {
    /// Nobody else writes.
    Alone,
    /// Others write too. Jobs in their lanes are locked as they are taken, and skipped if they are; what is held is
    /// locked in one order; all else is added only.
    Beside,
    /// Within a transaction of an application's own, without the lock until it is needed.
    Within,
}

/// What the lock is answered with to the victim of a deadlock.
const DEADLOCK: i64 = -3;
/// How long the lock is waited for.
const LOCK_TIMEOUT_MS: u64 = 60_000;

impl Locking {
    /// What begins an operation.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Alone => own::ALONE,
            Self::Beside => own::BESIDE,
            Self::Within => own::WITHIN,
        }
    }

    /// Whether it was answered with a lock; the server's time if so.
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
