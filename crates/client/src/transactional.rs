//! Enqueue and complete jobs inside a transaction of your own, on your own connection to the store's database.

use punctual_core::{Enqueued, Error, Invalid, Json, Outcome, Settled, Settlement, limits, settle};
use serde::Serialize;

use crate::{Context, Draft, Punctual, punctual::single};

/// A transaction of the caller: `&rusqlite::Transaction` or `&rusqlite::Connection` with a SQLite store, for which the
/// functions are synchronous; `&mut sqlx::Transaction` or `&mut sqlx::PgConnection` with a PostgreSQL store, and `&mut
/// tiberius::Client` in a transaction with a SQL Server store, for which they are asynchronous.
///
/// Anything else is refused by the compiler:
///
/// ```compile_fail
/// # fn example(punctual: &punctual_client::Punctual) {
/// punctual.enqueue_in("not a transaction", punctual_client::Draft::new("greet", &()));
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a transaction of a store",
    label = "not a transaction",
    note = "SQLite: expected `&rusqlite::Transaction` or `&rusqlite::Connection`",
    note = "PostgreSQL: expected `&mut sqlx::Transaction<'_, Postgres>` or `&mut sqlx::PgConnection`",
    note = "SQL Server: expected `&mut tiberius::Client`",
    note = "each needs the feature of its engine, and the version of the driver that `punctual` re-exports"
)]
pub trait Transactional<'a>: Sized {
    /// What the functions return: a result, or a future of one.
    type Answer<T: 'a>;

    /// Checks jobs with the defaults of their queues, stores them, and returns what `answer` makes of the results.
    fn enqueue<T: 'a>(
        self,
        punctual: &'a Punctual,
        jobs: Vec<Draft>,
        answer: fn(Vec<Enqueued>) -> Result<T, Error>,
    ) -> Self::Answer<T>;

    /// Ends an execution.
    fn settle(self, ctx: &'a Context, settlement: Result<Settlement, Error>) -> Self::Answer<Settled>;
}

impl Punctual {
    /// Enqueues a job within `transaction`: it exists if and only if the transaction commits.
    ///
    /// After an error, the transaction is as it was before the call and may continue. If the call is cancelled, such as
    /// by a timeout, roll back: a part of its work may have been done, and Punctual's settings may apply to the rest of
    /// the transaction.
    ///
    /// With a SQLite store:
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")]
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("app.db");
    /// use punctual_client::{Draft, Punctual, sqlite::rusqlite::Connection};
    /// let punctual = Punctual::connect(&format!("sqlite:{}", path.display())).await?;
    /// let mut connection = Connection::open(&path).unwrap();
    /// let transaction = connection.transaction().unwrap();
    /// transaction.execute("create table orders (id integer)", []).unwrap();
    /// punctual.enqueue_in(&transaction, Draft::new("confirm-order", &7))?;
    /// transaction.commit().unwrap();
    /// # Ok::<(), punctual_core::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// With a PostgreSQL store:
    ///
    /// ```no_run
    /// # #[cfg(feature = "postgres")]
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use punctual_client::{Draft, Punctual, postgres::sqlx::{self, PgPool}};
    /// let punctual = Punctual::connect("postgres://app@localhost/shop").await?;
    /// let pool = PgPool::connect("postgres://app@localhost/shop").await?;
    /// let mut transaction = pool.begin().await?;
    /// sqlx::query("insert into orders (id) values (7)").execute(&mut *transaction).await?;
    /// punctual.enqueue_in(&mut transaction, Draft::new("confirm-order", &7)).await?;
    /// transaction.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// With a SQL Server store, on a connection of `tiberius`:
    ///
    /// ```no_run
    /// # #[cfg(feature = "sqlserver")]
    /// # async fn example<S>(mut client: punctual_client::sqlserver::tiberius::Client<S>) -> Result<(), Box<dyn std::error::Error>>
    /// # where S: futures_util::io::AsyncRead + futures_util::io::AsyncWrite + Unpin + Send {
    /// use punctual_client::{Draft, Punctual};
    /// let punctual = Punctual::connect("sqlserver://app:secret@db.example.com/shop").await?;
    /// client.begin_transaction().await?;
    /// client.execute("insert into orders (id) values (7)", &[]).await?;
    /// punctual.enqueue_in(&mut client, Draft::new("confirm-order", &7)).await?;
    /// client.commit_transaction().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn enqueue_in<'a, T: Transactional<'a>>(
        &'a self,
        transaction: T,
        job: impl Into<Draft>,
    ) -> T::Answer<Enqueued> {
        transaction.enqueue(self, vec![job.into()], single)
    }

    /// Enqueues up to [`BATCH_MAX_JOBS`](limits::BATCH_MAX_JOBS) jobs within `transaction`: all of them or, if one is
    /// refused, none. See [`enqueue_in`](Self::enqueue_in).
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")]
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("app.db");
    /// use punctual_client::{Draft, Punctual, sqlite::rusqlite::Connection};
    /// let punctual = Punctual::connect(&format!("sqlite:{}", path.display())).await?;
    /// let connection = Connection::open(&path).unwrap();
    /// let jobs = punctual.enqueue_all_in(&connection, [1, 2].map(|part| Draft::new("ship", &part)))?;
    /// assert_eq!(jobs.len(), 2);
    /// # Ok::<(), punctual_core::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn enqueue_all_in<'a, T: Transactional<'a>, D: Into<Draft>>(
        &'a self,
        transaction: T,
        jobs: impl IntoIterator<Item = D>,
    ) -> T::Answer<Vec<Enqueued>> {
        // One job above the limit is enough for an error.
        transaction.enqueue(self, jobs.into_iter().take(limits::BATCH_MAX_JOBS + 1).map(Into::into).collect(), Ok)
    }
}

impl Context {
    /// Completes the job with `result` within `transaction`, so that the handler's own writes and the end of the job
    /// are committed together or not at all. Return `Ok` from the handler after the commit.
    ///
    /// [`Settled::Stale`] means that this execution no longer holds the job: roll back.
    pub fn complete_in<'a, T: Transactional<'a>>(
        &'a self,
        transaction: T,
        result: &impl Serialize,
    ) -> T::Answer<Settled> {
        transaction.settle(self, self.success(result))
    }

    fn success(&self, result: &impl Serialize) -> Result<Settlement, Error> {
        let result = Json::of(result).map_err(|error| Invalid::new("result", error.to_string()))?;
        result.check("result", limits::RESULT_MAX_BYTES)?;
        Ok(settle(self.claim(), Outcome::Succeeded { result: Some(result) }, 0.0))
    }
}
