//! Runs the shared operations.

use punctual_core::StoreResult;

use super::{core::Core, db::serve};
use crate::{
    db::Db,
    ops::edit::{Edit, SingleEdit},
};

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

    /// Like [`run`](Self::run), for an operation whose statement takes the server's time.
    pub(crate) async fn edit_one<F, T>(&self, operation: F) -> sqlx::Result<T>
    where
        F: Fn(SingleEdit<'_>) -> StoreResult<T>,
    {
        let at = self.sessions.clock().map(|clock| clock.0);
        self.run(|db| operation(SingleEdit { db, at })).await
    }

    /// Runs an operation of several statements in a transaction.
    pub(crate) async fn edit<F, T>(&self, operation: F) -> sqlx::Result<T>
    where
        F: Fn(Edit<'_>) -> StoreResult<T>,
    {
        let mut unit = self.sessions.several().await?;
        let done = match self.sessions.now(&mut unit).await {
            Ok(now) => serve(&mut unit, |db| operation(Edit { db, now })).await,
            Err(error) => Err(error),
        };
        unit.ended(done).await
    }
}
