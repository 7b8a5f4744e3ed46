//! Operations within an application's own transaction.

use punctual_core::{Enqueued, NewJob, Queue, Settled, Settlement, StoreResult, Timestamp};
use rusqlite::Connection;

use super::{db::SqliteDb, error::store_error};
use crate::ops::{enqueue, finish::finish, queues, settle, tx::Tx};

/// Stores jobs within the caller's transaction, on the caller's connection to the same file: they exist if and only if
/// that transaction commits. Workers of other connections notice within milliseconds.
///
/// The jobs must have been validated, as the client's `enqueue_in` does.
pub fn enqueue_in(connection: &Connection, now: Timestamp, jobs: &[NewJob]) -> StoreResult<Vec<Enqueued>> {
    within(connection, now, |tx| enqueue::enqueue(tx, jobs))
}

/// The queues, as visible to the caller's transaction.
pub fn queues_in(connection: &Connection) -> StoreResult<Vec<Queue>> {
    queues::queues(&SqliteDb::new(connection))
}

/// Settles executions within the caller's transaction, so that a handler's effects and the end of its job commit
/// together.
pub fn settle_in(connection: &Connection, now: Timestamp, settlements: &[Settlement]) -> StoreResult<Vec<Settled>> {
    within(connection, now, |tx| settle::settle(tx, settlements))
}

/// Runs `work` within the caller's transaction, in a savepoint that is rolled back if it fails.
fn within<T>(
    connection: &Connection,
    now: Timestamp,
    work: impl FnOnce(&mut Tx<'_>) -> StoreResult<T>,
) -> StoreResult<T> {
    let run = |text| connection.execute_batch(text).map_err(store_error);
    run("savepoint punctual")?;
    let db = SqliteDb::new(connection);
    let mut tx = Tx::new(&db, now);
    let done = work(&mut tx).and_then(|done| finish(&mut tx).map(|()| done)).and_then(|done| {
        run("release punctual")?;
        Ok(done)
    });
    if done.is_err() {
        // Some errors have already rolled back the caller's transaction; then nothing is left to undo.
        let _ = run("rollback to punctual; release punctual");
    }
    done
}
