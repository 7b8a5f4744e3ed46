//! Jobs in a PostgreSQL database, and in transactions on it.

use std::{any::Any, future::Future, pin::Pin};

use punctual_core::{Enqueued, Error, Settled, Settlement, StoreError};
pub use punctual_sql::postgres::{Options, PostgresStore, drop_schemas, server_settings, sqlx};
use sqlx::{PgConnection, Postgres, Transaction};

use crate::{Context, Draft, Punctual, Transactional};

/// A boxed future of a result.
type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

impl<'a> Transactional<'a> for &'a mut PgConnection {
    type Answer<T: 'a> = Answer<'a, T>;

    fn enqueue<T: 'a>(
        self,
        punctual: &'a Punctual,
        jobs: Vec<Draft>,
        answer: fn(Vec<Enqueued>) -> Result<T, Error>,
    ) -> Self::Answer<T> {
        Box::pin(async move {
            let store = store(punctual).await?;
            let jobs = punctual.check_fresh(jobs).await?;
            answer(store.enqueue_in(self, &jobs).await?)
        })
    }

    fn settle(self, ctx: &'a Context, settlement: Result<Settlement, Error>) -> Self::Answer<Settled> {
        Box::pin(async move {
            let settled = store(ctx.punctual()).await?.settle_in(self, &[settlement?]).await?[0];
            ctx.note_completion(settled);
            Ok(settled)
        })
    }
}

impl<'a> Transactional<'a> for &'a mut Transaction<'_, Postgres> {
    type Answer<T: 'a> = Answer<'a, T>;

    fn enqueue<T: 'a>(
        self,
        punctual: &'a Punctual,
        jobs: Vec<Draft>,
        answer: fn(Vec<Enqueued>) -> Result<T, Error>,
    ) -> Self::Answer<T> {
        (&mut **self).enqueue(punctual, jobs, answer)
    }

    fn settle(self, ctx: &'a Context, settlement: Result<Settlement, Error>) -> Self::Answer<Settled> {
        (&mut **self).settle(ctx, settlement)
    }
}

/// The PostgreSQL engine behind a connection, which its transactions need. With Redis in front, it first waits until
/// Redis's executions are recorded.
async fn store(punctual: &Punctual) -> Result<&PostgresStore, StoreError> {
    let mut any: &dyn Any = punctual.engine();
    #[cfg(feature = "redis")]
    if let Some(dispatched) = any.downcast_ref::<punctual_redis::DispatchStore>() {
        dispatched.record().await;
        any = &**dispatched.primary();
    }
    any.downcast_ref().ok_or_else(|| {
        let info = punctual.store().info();
        StoreError::Other(format!(
            "cannot use a transaction of PostgreSQL with the store {} ({}); connect Punctual to the same database",
            info.location, info.engine
        ))
    })
}
