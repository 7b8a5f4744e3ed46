//! Jobs in a SQL Server database, and in transactions on it.

use std::{any::Any, future::Future, pin::Pin};

use futures_util::io::{AsyncRead, AsyncWrite};
use punctual_core::{Enqueued, Error, Settled, Settlement, StoreError};
pub use punctual_sql::sqlserver::{Options, SqlServerStore, tiberius};
use tiberius::Client;

use crate::{Context, Draft, Punctual, Transactional};

/// A boxed future of a result.
type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// The connection must be in a transaction.
impl<'a, S: AsyncRead + AsyncWrite + Unpin + Send> Transactional<'a> for &'a mut Client<S> {
    type Answer<T: 'a> = Answer<'a, T>;

    fn enqueue<T: 'a>(
        self,
        punctual: &'a Punctual,
        jobs: Vec<Draft>,
        answer: fn(Vec<Enqueued>) -> Result<T, Error>,
    ) -> Self::Answer<T> {
        Box::pin(async move {
            let store = store(punctual)?;
            let jobs = punctual.check_fresh(jobs).await?;
            answer(store.enqueue_in(self, jobs).await?)
        })
    }

    fn settle(self, ctx: &'a Context, settlement: Result<Settlement, Error>) -> Self::Answer<Settled> {
        Box::pin(async move {
            let settled = store(ctx.punctual())?.settle_in(self, vec![settlement?]).await?[0];
            ctx.note_completion(settled);
            Ok(settled)
        })
    }
}

/// The SQL Server engine behind a connection, which its transactions need.
fn store(punctual: &Punctual) -> Result<&SqlServerStore, StoreError> {
    let any: &dyn Any = punctual.engine();
    any.downcast_ref().ok_or_else(|| {
        let info = punctual.store().info();
        StoreError::Other(format!(
            "cannot use a transaction of SQL Server with the store {} ({}); connect Punctual to the same database",
            info.location, info.engine
        ))
    })
}
