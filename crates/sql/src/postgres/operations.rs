//! Runs the shared operations.

use punctual_core::StoreResult;

use super::{core::Core, db::serve, session::Unit};
use crate::{db::Db, ops::edit::Edit};

impl Core {
    /// Runs an operation of one statement, which is then a transaction of its own.
    pub(crate) async fn run<F, T>(&self, operation: F) -> sqlx::Result<T>
    where
        F: Fn(&dyn Db) -> StoreResult<T>,
    {
        let mut unit = self.sessions.single().await?;
        let done = serve(&mut unit, operation).await;
        unit.ended(done).await
    }

    /// Like [`run`](Self::run), for an operation that needs the server's time.
    pub(crate) async fn edit_one<F, T>(&self, operation: F) -> sqlx::Result<T>
    where
        F: Fn(Edit<'_>) -> StoreResult<T>,
    {
        self.edit_within(self.sessions.single().await?, operation).await
    }

    /// Runs an operation of several statements in a transaction.
    pub(crate) async fn edit<F, T>(&self, operation: F) -> sqlx::Result<T>
    where
        F: Fn(Edit<'_>) -> StoreResult<T>,
    {
        self.edit_within(self.sessions.several().await?, operation).await
    }

    async fn edit_within<F, T>(&self, mut unit: Unit, operation: F) -> sqlx::Result<T>
    where
        F: Fn(Edit<'_>) -> StoreResult<T>,
    {
        let done = match self.sessions.now(&mut unit).await {
            Ok(now) => serve(&mut unit, |db| operation(Edit { db, now })).await,
            Err(error) => Err(error),
        };
        unit.ended(done).await
    }
}
