//! Connections, the way Punctual uses them.

use std::{
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use punctual_core::{StoreError, Timestamp, store::Vital};
use sqlx::{
    Connection, PgConnection, PgPool, Postgres, Transaction,
    pool::PoolConnection,
    postgres::{PgConnectOptions, PgPoolOptions},
};

use super::{
    Options,
    error::{has_moved_on, store_error},
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

/// Connections at most that are kept at hand. The corridor needs one that claims and two that settle.
const AT_HAND_MAX: usize = 3;
/// How long a connection stays at hand before the pool may look after it again.
const AT_HAND_MAX_AGE: Duration = Duration::from_secs(600);

/// The way to the server.
#[derive(Debug, Clone)]
pub(crate) struct Sessions {
    pool: PgPool,
    at_hand: Arc<AtHand>,
    options: Options,
}

/// Connections that were used last, and are used again first. The pool itself takes turns, so that each of its connections
/// would have to plan each statement, and none would have what it needs in the processor's caches.
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

    /// The one that was used last. Those that have been idle for long go back to the pool, which looks whether they still live.
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
        let pool = PgPoolOptions::new()
            .max_connections(options.max_connections)
            .acquire_timeout(ACQUIRE_MAX_WAIT)
            .test_before_acquire(false)
            .before_acquire(|connection, meta| {
                Box::pin(async move {
                    if meta.idle_for > IDLE_UNTESTED_MAX {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            });
        let pool = pool.connect_lazy_with(connect_options(options));
        let at_hand = AtHand { idle: Mutex::default(), max: AT_HAND_MAX.min(options.max_connections as usize / 2) };
        let sessions = Self { pool, at_hand: Arc::new(at_hand), options: options.clone() };
        // The pool would try for as long as it waits; a first failure is worth telling.
        let probe = PgConnection::connect_with(&connect_options(options)).await;
        probe.map_err(|error| sessions.error(error))?.close().await.map_err(|error| sessions.error(error))?;
        Ok(sessions)
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
            None => (self.pool.acquire().await?, Instant::now()),
        };
        Ok(Unit::Single { connection, taken, at_hand: Arc::clone(&self.at_hand) })
    }

    /// A transaction for several statements.
    pub(crate) async fn several(&self) -> sqlx::Result<Unit> {
        let mut transaction = self.pool.begin().await?;
        if self.options.transaction_pooler {
            // Statements have names even so, and whoever had this connection before may have used the same.
            let anew = "set transaction isolation level read committed; deallocate all";
            sqlx::raw_sql(anew).execute(&mut *transaction).await?;
            let (names, values): (Vec<_>, Vec<_>) = settings(&self.options).into_iter().unzip();
            set(&mut transaction, &names, &values).await?;
        }
        Ok(Unit::Several(transaction))
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
    pub(crate) fn vitals(&self) -> Vec<Vital> {
        let idle = self.pool.num_idle() + self.at_hand.idle.lock().unwrap_or_else(PoisonError::into_inner).len();
        let used = (self.pool.size() as usize).saturating_sub(idle);
        vec![
            Vital::new(
                "punctual_pool_connections_used",
                "Connections to PostgreSQL in use by this process.",
                used as f64,
            ),
            Vital::new(
                "punctual_pool_connections_max",
                "Connections to PostgreSQL that this process may have.",
                f64::from(self.options.max_connections),
            ),
        ]
    }
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
    let planner = PLANNER.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    own.into_iter().chain(planner).collect()
}

fn connect_options(options: &Options) -> PgConnectOptions {
    let connect = options.connect.clone().application_name("punctual");
    if options.transaction_pooler {
        // Whatever is set or prepared may be another's the next moment; and poolers refuse settings that they do not know.
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

    /// Commits what was done, or undoes it if it was refused. A transaction that is only dropped would hold its rows for a moment longer, and who
    /// comes next would find them in somebody's hands.
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

/// Punctual's settings on a caller's own connection, for as long as a call lasts.
pub(crate) struct Guest {
    before: Vec<(String, String)>,
}

impl Guest {
    /// Makes the settings, in the caller's transaction.
    pub(crate) async fn enter(connection: &mut PgConnection, options: &Options) -> sqlx::Result<Self> {
        let (names, values): (Vec<_>, Vec<_>) =
            settings(options).into_iter().filter(|(name, _)| !name.ends_with("_timeout")).unzip();
        let before = sqlx::query_as("select n, current_setting(n) from unnest($1::text[]) n")
            .bind(&names)
            .fetch_all(&mut *connection)
            .await?;
        set(connection, &names, &values).await?;
        Ok(Self { before })
    }

    /// Puts the caller's settings back. After a failure there is nothing to put back: the transaction is lost.
    pub(crate) async fn leave<T>(self, connection: &mut PgConnection, result: sqlx::Result<T>) -> sqlx::Result<T> {
        let result = result?;
        let (names, values): (Vec<_>, Vec<_>) = self.before.into_iter().unzip();
        set(connection, &names, &values).await?;
        Ok(result)
    }
}

/// A mark in a caller's own transaction, to which work is undone, with the locks that it took, if others change what it was about to.
pub(crate) struct Mark {
    tries_left: usize,
}

impl Mark {
    pub(crate) const fn new() -> Self {
        Self { tries_left: 20 }
    }

    pub(crate) async fn set(&mut self, connection: &mut PgConnection) -> sqlx::Result<()> {
        self.tries_left -= 1;
        sqlx::query("savepoint punctual").execute(connection).await.map(drop)
    }

    /// Whether the work is to be done anew. After a refusal of our own the transaction goes on without what was done; after any other failure it is
    /// lost.
    pub(crate) async fn undo<T>(&self, connection: &mut PgConnection, done: &sqlx::Result<T>) -> sqlx::Result<bool> {
        let Err(error @ sqlx::Error::Decode(_)) = done else { return Ok(false) };
        sqlx::query("rollback to savepoint punctual").execute(connection).await?;
        Ok(has_moved_on(error) && self.tries_left > 0)
    }

    /// Takes the mark away.
    pub(crate) async fn clear<T>(connection: &mut PgConnection, done: sqlx::Result<T>) -> sqlx::Result<T> {
        let done = done?;
        sqlx::query("release savepoint punctual").execute(connection).await?;
        Ok(done)
    }
}

/// Makes settings for the rest of a transaction.
async fn set(connection: &mut PgConnection, names: &[String], values: &[String]) -> sqlx::Result<()> {
    let set = sqlx::query("select set_config(n, v, true) from unnest($1::text[], $2::text[]) as s (n, v)");
    set.bind(names).bind(values).execute(connection).await.map(drop)
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
            let drop = sqlx::AssertSqlSafe(format!("drop schema \"{}\" cascade", name.replace('"', "\"\"")));
            sqlx::raw_sql(drop).execute(&mut connection).await?;
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
             where name in ('fsync', 'synchronous_commit', 'shared_buffers', 'max_wal_size')",
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

    use super::super::{Options, PostgresStore};

    #[tokio::test]
    async fn a_process_frozen_in_a_transaction_loses_its_locks() {
        let url = std::env::var("PUNCTUAL_TEST_POSTGRES_URL")
            .expect("PUNCTUAL_TEST_POSTGRES_URL names no server; `cargo xtask test` starts one and names it");
        let mut options: Options = url.parse().unwrap();
        options.schema = format!("test_{:016x}", fastrand::u64(..));
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
