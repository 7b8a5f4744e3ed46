//! Connections, the way Punctual uses them.

use std::{
    io,
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use punctual_core::{StoreError, Timestamp, store::Metric};
use sqlx::{
    Connection, PgConnection, PgPool, Postgres, Transaction,
    pool::PoolConnection,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio::time;

use super::{
    error::{has_moved_on, store_error},
    options::Options,
    value::At,
};

/// What the plans of the hot statements rest on. A plan that was made while a table was empty would read it whole for
/// as long as it is kept; every statement here has an index, and is to use it whatever the statistics say.
const PLANNER: [(&str, &str); 6] = [
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("jit", "off"),
    ("plan_cache_mode", "force_generic_plan"),
];

/// A connection that has been idle for longer may have died unnoticed.
const IDLE_UNTESTED_MAX: Duration = Duration::from_secs(1);
/// How long a call waits for a free connection.
const ACQUIRE_MAX_WAIT: Duration = Duration::from_secs(10);
/// How long a connection may take to come about.
const CONNECT_MAX_WAIT: Duration = Duration::from_secs(10);
/// How long a connection may take to answer that was idle or goes back to the pool. One that does not is closed: it was
/// forgotten on the way, or an operation has given up on it, and the pool would wait for it without end.
const PING_MAX_WAIT: Duration = Duration::from_secs(2);
/// How soon the server finds out that a client has vanished, whose session would use up one of its connections: it
/// probes one that is silent.
const KEEPALIVE: [(&str, &str); 3] =
    [("tcp_keepalives_idle", "30"), ("tcp_keepalives_interval", "10"), ("tcp_keepalives_count", "3")];

/// How long an operation waits for the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Hot ones: leases run out while they wait.
    Short,
    /// Reads and operators' actions, of which each statement is bounded by the server.
    Usual,
    /// Those of many statements: migrations, retention, diagnostics, transfers.
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

/// Connections at most that are kept at hand. The corridor needs one that claims and two that settle.
const AT_HAND_MAX: usize = 3;
/// How long a connection stays at hand before the pool may look after it again.
const AT_HAND_MAX_AGE: Duration = Duration::from_secs(600);

/// For how long all connections that come back to the pool are closed once a `BEGIN` had no answer in time.
const DOUBT: Duration = Duration::from_secs(10);

/// Whether a connection that comes back to the pool may have a transaction open that the driver does not know of:
/// nothing says which one it is.
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

/// The way to the server.
#[derive(Debug, Clone)]
pub(crate) struct Sessions {
    pool: PgPool,
    at_hand: Arc<AtHand>,
    doubt: Doubt,
    options: Options,
}

/// Connections that were used last, and are used again first. The pool itself takes turns, so that each of its
/// connections would have to plan each statement, and none would have what it needs in the processor's caches.
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

    /// The one that was used last. Those that have been idle for long go back to the pool, which looks whether they
    /// still live.
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
    /// The way back to the pool needs a runtime, which may have ended before the store.
    fn drop(&mut self) {
        self.lock().drain(..).for_each(|idle| drop(idle.connection.detach()));
    }
}

impl Sessions {
    /// Makes a first connection, so that a wrong address is found out at once.
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
                // An error closes it without a word to the server, which may not answer.
                Box::pin(async move {
                    if doubted { Err(no_answer(PING_MAX_WAIT)) } else { ping(connection).await.map(|()| true) }
                })
            });
        let pool = pool.connect_lazy_with(connect_options(options));
        let at_hand = AtHand { idle: Mutex::default(), max: AT_HAND_MAX.min(options.max_connections as usize / 2) };
        let sessions = Self { pool, at_hand: Arc::new(at_hand), doubt, options: options.clone() };
        // The pool would try for as long as it waits; a first failure is worth telling.
        let error = |error| sessions.error(error);
        let probe = async { PgConnection::connect_with(&connect_options(options)).await?.close().await };
        sessions.limited(CONNECT_MAX_WAIT, async { probe.await.map_err(error) }).await?;
        Ok(sessions)
    }

    /// Does something, unless the server takes too long to answer. Whether it was done is unknown then.
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

    /// A pool of one connection that listens. One that hangs there keeps nothing from others.
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

    /// The time that statements are to go by, if not the server's.
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

    /// A connection of the pool. The pool tries again and again where a server is full or starts, and does not say why
    /// it got none: then the server is asked.
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

    /// A transaction for several statements.
    pub(crate) async fn several(&self) -> sqlx::Result<Unit> {
        let mut transaction = self.begin().await?;
        if self.options.transaction_pooler {
            // Statements have names even so, and whoever had this connection before may have used the same.
            let anew = "set transaction isolation level read committed; deallocate all";
            sqlx::raw_sql(anew).execute(&mut *transaction).await?;
            let (names, values): (Vec<_>, Vec<_>) = settings(&self.options).into_iter().unzip();
            set(&mut transaction, &names, &values).await?;
        }
        Ok(Unit::Several(transaction))
    }

    /// Begins a transaction, on a task of its own: the driver loses track of a `BEGIN` whose future is dropped, and the
    /// connection would go back to the pool with a transaction open. A task that has begun one for a caller that has
    /// gone drops it, which rolls it back. One that gets no answer must not keep its connection from others.
    async fn begin(&self) -> sqlx::Result<Transaction<'static, Postgres>> {
        let connection = self.acquire().await?;
        let (limit, doubt) = (self.options.answer_timeout, self.doubt.clone());
        let begun = tokio::spawn(async move {
            let mut begin = Transaction::begin(connection, None);
            let Ok(begun) = time::timeout(limit, &mut begin).await else {
                // Before the connection goes back.
                doubt.raise();
                return Err(no_answer(limit));
            };
            begun
        });
        begun.await.unwrap_or_else(|_| Err(sqlx::Error::WorkerCrashed))
    }

    /// The time of a transaction's beginning, or the clock's that was given.
    pub(crate) async fn now(&self, connection: &mut PgConnection) -> sqlx::Result<Timestamp> {
        let now: At = sqlx::query_scalar("select coalesce($1::timestamptz, now())")
            .bind(self.clock())
            .fetch_one(connection)
            .await?;
        Ok(now.0)
    }

    /// The pool, for whoever needs a connection of its own.
    pub(crate) const fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// How the pool is used.
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

/// Asks whether a connection still lives.
async fn ping(connection: &mut PgConnection) -> sqlx::Result<()> {
    time::timeout(PING_MAX_WAIT, connection.ping()).await.map_err(|_| no_answer(PING_MAX_WAIT))?
}

fn no_answer(limit: Duration) -> sqlx::Error {
    sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {} s", limit.as_secs_f32())))
}

fn settings(options: &Options) -> Vec<(String, String)> {
    let own = [
        ("search_path".to_owned(), options.schema.clone()),
        ("statement_timeout".to_owned(), options.statement_timeout.as_millis().to_string()),
        // A process that was frozen in the middle of a transaction would keep its locks for as long.
        ("idle_in_transaction_session_timeout".to_owned(), options.statement_timeout.as_millis().to_string()),
        ("timezone".to_owned(), "UTC".to_owned()),
        // Who has waited for a lock must see what its former holder did, whatever the database says.
        ("default_transaction_isolation".to_owned(), "read committed".to_owned()),
    ];
    let fixed = PLANNER.iter().chain(&KEEPALIVE).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    own.into_iter().chain(fixed).collect()
}

fn connect_options(options: &Options) -> PgConnectOptions {
    let connect = options.connect.clone().application_name("punctual");
    if options.transaction_pooler {
        // Whatever is set or prepared may be another's the next moment; and poolers refuse settings that they do not
        // know.
        return connect.statement_cache_capacity(0).extra_float_digits(None);
    }
    connect.options(settings(options))
}

/// A connection, in a transaction or not.
pub(crate) enum Unit {
    Single { connection: PoolConnection<Postgres>, taken: Instant, at_hand: Arc<AtHand> },
    Several(Transaction<'static, Postgres>),
}

impl Unit {
    /// Commits what was done.
    pub(crate) async fn done(self) -> sqlx::Result<()> {
        match self {
            Self::Single { connection, taken, at_hand } => {
                at_hand.keep(connection, taken);
                Ok(())
            }
            Self::Several(transaction) => transaction.commit().await,
        }
    }

    /// Commits what was done, or undoes it if it was refused. A transaction that is only dropped would hold its rows
    /// for a moment longer, and who comes next would find them in somebody's hands.
    pub(crate) async fn ended<T>(self, result: sqlx::Result<T>) -> sqlx::Result<T> {
        match (result, self) {
            (Ok(done), unit) => unit.done().await.map(|()| done),
            (Err(refused), Self::Several(transaction)) => {
                // Where it cannot be undone, the connection is gone, and the server undoes it.
                let _ = transaction.rollback().await;
                Err(refused)
            }
            (Err(refused), Self::Single { .. }) => Err(refused),
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

/// Work in a caller's own transaction, with Punctual's settings. In every outcome the caller gets its settings and
/// savepoints back as they were; after a failure, what was done is undone with the locks that it took, and the
/// transaction goes on. The server undoes settings with the work, because the savepoint comes first.
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

    /// Whether the work is to be done anew, because others changed what it was about to.
    pub(crate) async fn again<T>(&mut self, done: &sqlx::Result<T>) -> sqlx::Result<bool> {
        if self.tries_left == 0 || !done.as_ref().is_err_and(has_moved_on) {
            return Ok(false);
        }
        self.tries_left -= 1;
        sqlx::query("rollback to savepoint punctual").execute(&mut *self.connection).await?;
        set(self.connection, &self.ours.0, &self.ours.1).await?;
        Ok(true)
    }

    /// Ends the visit: what was done counts, or is undone if it failed.
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
            // Where it cannot be undone, the connection is gone, and the caller's transaction with it.
            let undo = "rollback to savepoint punctual; release savepoint punctual";
            let _ = sqlx::raw_sql(undo).execute(&mut *self.connection).await;
        }
        done
    }
}

/// Which database of all it is: the identifier of the server's cluster, if the role may read it, and the database's
/// number there. A database that is restored from a dump, or made from another as a template, has another one; a copy
/// of a whole server has not.
pub(crate) async fn database(connection: &mut PgConnection) -> sqlx::Result<String> {
    let may_ask = "select has_function_privilege('pg_catalog.pg_control_system()', 'execute')";
    let may_ask: bool = sqlx::query_scalar(may_ask).fetch_one(&mut *connection).await?;
    let of_cluster = if may_ask { "(select system_identifier from pg_control_system())" } else { "0::int8" };
    let ask = format!("select {of_cluster}, (select oid::int8 from pg_database where datname = current_database())");
    let (cluster, database): (i64, i64) = sqlx::query_as(sqlx::AssertSqlSafe(ask)).fetch_one(connection).await?;
    Ok(format!("{cluster:x}-{database:x}"))
}

/// Makes settings for the rest of a transaction.
async fn set(connection: &mut PgConnection, names: &[String], values: &[String]) -> sqlx::Result<()> {
    let set = sqlx::query("select set_config(n, v, true) from unnest($1::text[], $2::text[]) as s (n, v)");
    set.bind(names).bind(values).execute(connection).await.map(drop)
}

/// How often the drop of a schema is tried that meets a deadlock.
const DROP_TRIES_MAX: usize = 10;

fn is_deadlock(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code == "40P01")
}

/// Drops every schema of a database whose name begins with `prefix`, with all that is in it. For benchmarks and tests.
pub async fn drop_schemas(options: &Options, prefix: &str) -> Result<(), StoreError> {
    let work = async {
        let mut connection = PgConnection::connect_with(&options.connect).await?;
        let names: Vec<String> =
            sqlx::query_scalar("select nspname::text from pg_namespace where starts_with(nspname::text, $1)")
                .bind(prefix)
                .fetch_all(&mut connection)
                .await?;
        for name in names {
            let drop = format!("drop schema \"{}\" cascade", name.replace('"', "\"\""));
            let mut tries = 0;
            // Whoever has just used it may still be about to end, and lock its tables in another order.
            while let Err(error) = sqlx::raw_sql(sqlx::AssertSqlSafe(drop.clone())).execute(&mut connection).await {
                tries += 1;
                if tries == DROP_TRIES_MAX || !is_deadlock(&error) {
                    return Err(error);
                }
            }
        }
        connection.close().await
    };
    work.await.map_err(|error| store_error(&options.location(), error))
}

/// The server's settings that decide how fast and how safe it is, in words.
pub async fn server_settings(options: &Options) -> Result<String, StoreError> {
    let work = async {
        let mut connection = PgConnection::connect_with(&options.connect).await?;
        let settings: String = sqlx::query_scalar(
            "select string_agg(name || '=' || current_setting(name), ', ' order by name) from pg_settings
             where name in ('fsync', 'full_page_writes', 'synchronous_commit', 'shared_buffers', 'max_wal_size')",
        )
        .fetch_one(&mut connection)
        .await?;
        connection.close().await?;
        Ok(settings)
    };
    work.await.map_err(|error: sqlx::Error| store_error(&options.location(), error))
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

    /// Behind a pooler every statement is such a transaction, and callers often stop waiting.
    #[tokio::test]
    async fn a_begin_that_is_given_up_leaves_no_transaction_open() {
        // One of them listens.
        let options = Options { max_connections: 4, ..options() };
        let core = PostgresStore::open(options).await.unwrap().core;
        for steps in 0..20 {
            tokio::select! {
                biased;
                _ = core.sessions.several() => {}
                () = async { for _ in 0..steps { tokio::task::yield_now().await } } => {}
            }
            // Whichever connection it was.
            let mut units = Vec::new();
            for _ in 0..3 {
                units.push(core.sessions.single().await.unwrap());
            }
            for unit in &mut units {
                // In a transaction that is open, the time stands still.
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
