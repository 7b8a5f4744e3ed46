//! Enqueue and finish jobs inside a SQLite transaction of your own, on your own connection to the same file.

use punctual_core::{Enqueued, Error, Json, Outcome, Settled, limits, settle};
use punctual_sql::sqlite;
pub use punctual_sql::sqlite::{Options, SqliteStore, Synchronous, rusqlite};
use serde::Serialize;

use crate::{Context, Draft, Punctual};

impl Punctual {
    /// Enqueues jobs within `transaction`: they exist if and only if it commits.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("app.db");
    /// use punctual_client::{Draft, Punctual, sqlite::rusqlite::Connection};
    /// let punctual = Punctual::connect(&format!("sqlite:{}", path.display())).await?;
    /// let mut connection = Connection::open(&path).unwrap();
    /// let transaction = connection.transaction().unwrap();
    /// transaction.execute("create table orders (id integer)", []).unwrap();
    /// punctual.enqueue_in(&transaction, [Draft::new("confirm-order", &7)])?;
    /// transaction.commit().unwrap();
    /// # Ok::<(), punctual_core::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn enqueue_in<D: Into<Draft>>(
        &self,
        transaction: &rusqlite::Connection,
        jobs: impl IntoIterator<Item = D>,
    ) -> Result<Vec<Enqueued>, Error> {
        Ok(sqlite::enqueue_in(transaction, self.store().now(), &self.check(jobs)?)?)
    }
}

impl Context {
    /// Finishes the job with `result` within `transaction`, so that the handler's own writes and the job's end are
    /// one: after a crash either both are there or neither. Return `Ok` from the handler once it has committed.
    ///
    /// [`Settled::Stale`] means that the job is no longer this execution's: roll back.
    pub fn complete_in(&self, transaction: &rusqlite::Connection, result: &impl Serialize) -> Result<Settled, Error> {
        let broken = |error: serde_json::Error| punctual_core::Invalid::new("result", error.to_string());
        let result = Json::of(result).map_err(broken)?;
        result.check("result", limits::RESULT_MAX_BYTES)?;
        let settlement = settle(self.claim(), Outcome::Succeeded { result: Some(result) }, 0.0);
        let settled = sqlite::settle_in(transaction, self.punctual().store().now(), &[settlement])?;
        if settled[0] == Settled::Done {
            self.note_completion();
        }
        Ok(settled[0])
    }
}
