//! The pool of connections, and transactions with Punctual's settings.

use std::{
    io,
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use punctual_core::{StoreError, Timestamp, store::Metric};
use sqlx::{Connection, PgConnection, PgPool, Postgres, Transaction, pool::PoolConnection, postgres::PgPoolOptions};
use tokio::time;

use super::{
    connection_settings::{connect_options, set, settings},
    error::store_error,
    options::Options,
    value::At,
};

/// A connection that has been idle for longer is tested before use, since it may have been lost.
const IDLE_UNTESTED_MAX: Duration = Duration::from_secs(1);
/// How long a call waits for a free connection.
const ACQUIRE_MAX_WAIT: Duration = Duration::from_secs(10);
/// Timeout of the first connection.
const CONNECT_MAX_WAIT: Duration = Duration::from_secs(10);
/// How long a connection that was idle or is returned to the pool may take to answer. If it does not, it is closed: the
/// network has dropped it, or an operation has abandoned it, and the pool would wait for it forever.
const PING_MAX_WAIT: Duration = Duration::from_secs(2);

/// How long an operation waits for the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Hot operations: leases expire while they wait.
    Short,
    /// Reads and operators' actions; the server's statement timeout bounds each statement.
    Usual,
    /// Operations of many statements: migrations, retention, diagnostics, transfers.
    Long,
}

impl Patience {
    fn limit(self, options: &Options) -> Duration {
        match self {
            Self::Short => options.answer_timeout,
            Self::Usual => options.answer_timeout + options.statement_timeout,
            Self::Long => 10 * (options.answer_timeout + options.statement_timeout),
        }
    }
}

/// Maximum number of connections kept outside of the pool. The hot path needs one that claims and two that settle.
const AT_HAND_MAX: usize = 3;
/// How long a connection is kept outside of the pool before it is returned.
const AT_HAND_MAX_AGE: Duration = Duration::from_secs(600);

/// For how long after an unanswered `BEGIN` every connection that is returned to the pool is closed.
const DOUBT: Duration = Duration::from_secs(10);

/// Whether a connection that is returned to the pool may have an open transaction that the driver does not know of. The
/// connection itself cannot be identified.
#[derive(Debug, Clone, Default)]
struct Doubt(Arc<Mutex<Option<Instant>>>);

impl Doubt {
    fn raise(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn is_raised(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|at| at.elapsed() < DOUBT)
    }
}

/// The connections to the server.
#[derive(Debug, Clone)]
pub(crate) struct Sessions {
    pool: PgPool,
    at_hand: Arc<AtHand>,
    doubt: Doubt,
    options: Options,
}

/// Recently used connections, reused last in, first out. The pool itself rotates its connections, so that each would
/// have to plan every statement, and none would be warm in the processor's caches.
#[derive(Debug)]
pub(crate) struct AtHand {
    idle: Mutex<Vec<Idle>>,
    max: usize,
}

#[derive(Debug)]
struct Idle {
    connection: PoolConnection<Postgres>,
    taken: Instant,
    since: Instant,
}

impl AtHand {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the most recently used connection. Connections that were idle for long are returned to the pool, which
    /// tests them.
    fn take(&self) -> Option<Idle> {
        let mut idle = self.lock();
        idle.retain(|one| one.since.elapsed() < IDLE_UNTESTED_MAX && one.taken.elapsed() < AT_HAND_MAX_AGE);
        idle.pop()
    }

    fn keep(&self, connection: PoolConnection<Postgres>, taken: Instant) {
        let mut idle = self.lock();
        if idle.len() < self.max {
            idle.push(Idle { connection, taken, since: Instant::now() });
        }
    }
}

impl Drop for AtHand {
    /// Detaches the connections: returning them to the pool needs a runtime, which may have ended before the store.
    fn drop(&mut self) {
        self.lock().drain(..).for_each(|idle| drop(idle.connection.detach()));
    }
}

impl Sessions {
    /// Makes a first connection, so that a wrong address is reported at once.
    pub(crate) async fn connect(options: &Options) -> Result<Self, StoreError> {
        let doubt = Doubt::default();
        let doubted = doubt.clone();
        let pool = PgPoolOptions::new()
            .max_connections(options.max_connections)
            .acquire_timeout(ACQUIRE_MAX_WAIT)
            .test_before_acquire(false)
            .before_acquire(|connection, meta| {
                Box::pin(async move {
                    if meta.idle_for > IDLE_UNTESTED_MAX {
                        ping(connection).await?;
                    }
                    Ok(true)
                })
            })
            .after_release(move |connection, _| {
                let doubted = doubted.is_raised();
                // An error closes the connection without a message to the server, which may not answer.
                Box::pin(async move {
                    if doubted { Err(no_answer(PING_MAX_WAIT)) } else { ping(connection).await.map(|()| true) }
                })
            });
        let pool = pool.connect_lazy_with(connect_options(options));
        let at_hand = AtHand { idle: Mutex::default(), max: AT_HAND_MAX.min(options.max_connections as usize / 2) };
        let sessions = Self { pool, at_hand: Arc::new(at_hand), doubt, options: options.clone() };
        // The pool would retry until its timeout; this reports the first error instead.
        let error = |error| sessions.error(error);
        let probe = async { PgConnection::connect_with(&connect_options(options)).await?.close().await };
        sessions.limited(CONNECT_MAX_WAIT, async { probe.await.map_err(error) }).await?;
        Ok(sessions)
    }

    /// Executes an operation with a timeout for the server. After a timeout it is unknown whether the operation was
    /// executed.
    pub(crate) async fn within<T>(
        &self,
        patience: Patience,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.limited(patience.limit(&self.options), work).await
    }

    async fn limited<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let silent = |_| StoreError::Unreachable {
            store: self.options.location(),
            reason: format!("no answer within {} s", limit.as_secs_f32()),
        };
        time::timeout(limit, work).await.map_err(silent)?
    }

    /// A pool of one connection, for LISTEN. If the connection hangs, no other operation is affected.
    pub(crate) fn listening_pool(&self) -> PgPool {
        let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(ACQUIRE_MAX_WAIT);
        pool.connect_lazy_with(connect_options(&self.options))
    }

    /// How long a short operation waits for an answer.
    pub(crate) const fn answer_timeout(&self) -> Duration {
        self.options.answer_timeout
    }

    pub(crate) fn error(&self, error: sqlx::Error) -> StoreError {
        store_error(&self.options.location(), error)
    }

    /// The time that statements use, if not the server's.
    pub(crate) fn clock(&self) -> Option<At> {
        self.options.clock.as_ref().map(|clock| At(clock.now()))
    }

    /// A connection for one statement, which is then a transaction of its own.
    pub(crate) async fn single(&self) -> sqlx::Result<Unit> {
        if self.options.transaction_pooler {
            return self.several().await;
        }
        let (connection, taken) = match self.at_hand.take() {
            Some(idle) => (idle.connection, idle.taken),
            None => (self.acquire().await?, Instant::now()),
        };
        Ok(Unit::Single { connection, taken, at_hand: Arc::clone(&self.at_hand) })
    }

    /// A connection from the pool. While the server is full or starting, the pool retries without reporting the cause;
    /// after its timeout, a direct connection obtains the server's error.
    async fn acquire(&self) -> sqlx::Result<PoolConnection<Postgres>> {
        let error = match self.pool.acquire().await {
            Err(error @ sqlx::Error::PoolTimedOut) => error,
            acquired => return acquired,
        };
        let connect = async { PgConnection::connect_with(&connect_options(&self.options)).await?.close().await };
        match time::timeout(PING_MAX_WAIT, connect).await {
            Ok(Err(refused)) => Err(refused),
            Ok(Ok(())) | Err(_) => Err(error),
        }
    }

    /// Begins a transaction for several statements.
    pub(crate) async fn several(&self) -> sqlx::Result<Unit> {
        let mut transaction = self.begin().await?;
        if self.options.transaction_pooler {
            // Prepared statements have names even so, and a former user of this connection may have used the same
            // names.
            let anew = "set transaction isolation level read committed; deallocate all";
            sqlx::raw_sql(anew).execute(&mut *transaction).await?;
            let (names, values): (Vec<_>, Vec<_>) = settings(&self.options).into_iter().unzip();
            set(&mut transaction, &names, &values).await?;
        }
        Ok(Unit::Several(transaction))
    }

    /// Begins a transaction, on a task of its own: the driver loses track of a `BEGIN` whose future is dropped, and the
    /// connection would return to the pool with an open transaction. If the caller was dropped, the task's transaction
    /// is dropped and thereby rolled back. A `BEGIN` without an answer must not occupy its connection forever.
    async fn begin(&self) -> sqlx::Result<Transaction<'static, Postgres>> {
        let connection = self.acquire().await?;
        let (limit, doubt) = (self.options.answer_timeout, self.doubt.clone());
        let begun = tokio::spawn(async move {
            let mut begin = Transaction::begin(connection, None);
            let Ok(begun) = time::timeout(limit, &mut begin).await else {
                // Before the connection is returned to the pool.
                doubt.raise();
                return Err(no_answer(limit));
            };
            begun
        });
        begun.await.unwrap_or_else(|_| Err(sqlx::Error::WorkerCrashed))
    }

    /// The start time of the transaction, or the time of the configured clock.
    pub(crate) async fn now(&self, connection: &mut PgConnection) -> sqlx::Result<Timestamp> {
        let now: At = sqlx::query_scalar("select coalesce($1::timestamptz, now())")
            .bind(self.clock())
            .fetch_one(connection)
            .await?;
        Ok(now.0)
    }

    /// The pool, for callers that need a connection of their own.
    pub(crate) const fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// The usage of the pool.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let idle = self.pool.num_idle() + self.at_hand.idle.lock().unwrap_or_else(PoisonError::into_inner).len();
        let used = (self.pool.size() as usize).saturating_sub(idle);
        vec![
            Metric::new(
                "punctual_pool_connections_used",
                "Connections to PostgreSQL in use by this process.",
                used as f64,
            ),
            Metric::new(
                "punctual_pool_connections_max",
                "Connections to PostgreSQL that this process may have.",
                f64::from(self.options.max_connections),
            ),
        ]
    }
}

/// Tests whether a connection is alive.
async fn ping(connection: &mut PgConnection) -> sqlx::Result<()> {
    time::timeout(PING_MAX_WAIT, connection.ping()).await.map_err(|_| no_answer(PING_MAX_WAIT))?
}

fn no_answer(limit: Duration) -> sqlx::Error {
    sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {} s", limit.as_secs_f32())))
}

/// A connection, within a transaction or not.
pub(crate) enum Unit {
    Single { connection: PoolConnection<Postgres>, taken: Instant, at_hand: Arc<AtHand> },
    Several(Transaction<'static, Postgres>),
}

impl Unit {
    /// Commits.
    pub(crate) async fn done(self) -> sqlx::Result<()> {
        match self {
            Self::Single { connection, taken, at_hand } => {
                at_hand.keep(connection, taken);
                Ok(())
            }
            Self::Several(transaction) => transaction.commit().await,
        }
    }

    /// Commits, or rolls back if the result is an error. Every transaction that locks something ends here: one that is
    /// only dropped would hold its locks for a moment longer, and the next transaction would find them locked.
    pub(crate) async fn ended<T>(self, result: sqlx::Result<T>) -> sqlx::Result<T> {
        match result {
            Ok(done) => self.done().await.map(|()| done),
            Err(refused) => {
                self.undone().await;
                Err(refused)
            }
        }
    }

    /// Rolls back.
    pub(crate) async fn undone(self) {
        if let Self::Several(transaction) = self {
            // If the rollback fails, the connection is lost, and the server rolls back.
            let _ = transaction.rollback().await;
        }
    }
}

impl Deref for Unit {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        match self {
            Self::Single { connection, .. } => connection,
            Self::Several(transaction) => transaction,
        }
    }
}

impl DerefMut for Unit {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match self {
            Self::Single { connection, .. } => connection,
            Self::Several(transaction) => transaction,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use std::time::Duration;

    use sqlx::Row;

    use super::super::{options::Options, store::PostgresStore};

    fn options() -> Options {
        let url = std::env::var("PUNCTUAL_TEST_POSTGRES_URL")
            .expect("PUNCTUAL_TEST_POSTGRES_URL names no server; `cargo xtask test` starts one and names it");
        let mut options: Options = url.parse().unwrap();
        options.schema = format!("test_{:016x}", fastrand::u64(..));
        options
    }

    /// Behind a pooler every statement runs in such a transaction, and callers often stop waiting.
    #[tokio::test]
    async fn a_begin_that_is_given_up_leaves_no_transaction_open() {
        // One of the four is for LISTEN.
        let options = Options { max_connections: 4, ..options() };
        let core = PostgresStore::open(options).await.unwrap().core;
        for steps in 0..20 {
            tokio::select! {
                biased;
                _ = core.sessions.several() => {}
                () = async { for _ in 0..steps { tokio::task::yield_now().await } } => {}
            }
            // All connections are checked, since it is unknown which one was used.
            let mut units = Vec::new();
            for _ in 0..3 {
                units.push(core.sessions.single().await.unwrap());
            }
            for unit in &mut units {
                // Within an open transaction, `now()` does not advance.
                let time = sqlx::raw_sql("select now() = statement_timestamp()").fetch_one(&mut **unit).await.unwrap();
                assert!(time.get::<bool, _>(0), "given up after {steps} steps");
            }
        }
    }

    #[tokio::test]
    async fn a_process_frozen_in_a_transaction_loses_its_locks() {
        let mut options = options();
        let other = PostgresStore::open(options.clone()).await.unwrap().core;
        options.statement_timeout = Duration::from_secs(1);
        let core = PostgresStore::open(options).await.unwrap().core;
        let lock = "lock table punctual_lanes in access exclusive mode";
        let mut frozen = core.sessions.several().await.unwrap();
        sqlx::raw_sql(lock).execute(&mut *frozen).await.unwrap();
        let mut waiting = other.sessions.several().await.unwrap();
        sqlx::raw_sql(lock).execute(&mut *waiting).await.unwrap();
        waiting.done().await.unwrap();
        frozen.done().await.expect_err("its transaction was ended");
    }
}
