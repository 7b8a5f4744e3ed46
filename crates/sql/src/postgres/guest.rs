//! Operations within a caller's own transaction.

use sqlx::PgConnection;

use super::{
    connection_settings::{set, settings},
    error::is_concurrent_change,
    options::Options,
};

/// An operation within a caller's own transaction, with Punctual's settings. In every outcome the caller's settings and
/// savepoints are restored; after a failure, the changes are rolled back, their locks released, and the transaction can
/// continue. Because the savepoint comes first, the rollback restores the settings too.
pub(crate) struct Guest<'c> {
    connection: &'c mut PgConnection,
    ours: (Vec<String>, Vec<String>),
    before: (Vec<String>, Vec<String>),
    tries_left: usize,
}

impl<'c> Guest<'c> {
    pub(crate) async fn enter(connection: &'c mut PgConnection, options: &Options) -> sqlx::Result<Self> {
        sqlx::query("savepoint punctual").execute(&mut *connection).await?;
        let ours = settings(options).into_iter().filter(|(name, _)| !name.ends_with("_timeout")).unzip();
        let mut guest = Self { connection, ours, before: Default::default(), tries_left: 20 };
        let begun = guest.begin().await;
        guest.or_undo(begun).await?;
        Ok(guest)
    }

    async fn begin(&mut self) -> sqlx::Result<()> {
        let before: Vec<(String, String)> = sqlx::query_as("select n, current_setting(n) from unnest($1::text[]) n")
            .bind(&self.ours.0)
            .fetch_all(&mut *self.connection)
            .await?;
        self.before = before.into_iter().unzip();
        set(self.connection, &self.ours.0, &self.ours.1).await
    }

    /// The caller's connection.
    pub(crate) fn connection(&mut self) -> &mut PgConnection {
        self.connection
    }

    /// Prepares a retry if the operation failed because other transactions changed its rows; returns whether it did.
    pub(crate) async fn again<T>(&mut self, done: &sqlx::Result<T>) -> sqlx::Result<bool> {
        if self.tries_left == 0 || !done.as_ref().is_err_and(is_concurrent_change) {
            return Ok(false);
        }
        self.tries_left -= 1;
        sqlx::query("rollback to savepoint punctual").execute(&mut *self.connection).await?;
        set(self.connection, &self.ours.0, &self.ours.1).await?;
        Ok(true)
    }

    /// Ends the operation: releases the savepoint, or rolls back to it after a failure.
    pub(crate) async fn leave<T>(mut self, done: sqlx::Result<T>) -> sqlx::Result<T> {
        let done = self.or_undo(done).await?;
        let left = self.end().await;
        self.or_undo(left).await?;
        Ok(done)
    }

    async fn end(&mut self) -> sqlx::Result<()> {
        set(self.connection, &self.before.0, &self.before.1).await?;
        sqlx::query("release savepoint punctual").execute(&mut *self.connection).await.map(drop)
    }

    async fn or_undo<T>(&mut self, done: sqlx::Result<T>) -> sqlx::Result<T> {
        if done.is_err() {
            // If the rollback fails, the connection is lost, and the caller's transaction with it.
            let undo = "rollback to savepoint punctual; release savepoint punctual";
            let _ = sqlx::raw_sql(undo).execute(&mut *self.connection).await;
        }
        done
    }
}
