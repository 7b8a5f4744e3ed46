//! Connections: how they are opened, shared, and used for one operation.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicI64, Ordering},
};

use punctual_core::{Clock as _, StoreError, StoreResult, SystemClock, Timestamp};
use tiberius::error::Error;
use tokio::{net::TcpStream, runtime::Handle, sync::Semaphore, task, time};
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

use super::{Options, db::ServerDb, error::store_error};
use crate::{
    db::Db,
    ops::tx::{Tx, finish},
};

pub(crate) type Client = tiberius::Client<Compat<TcpStream>>;

/// What indexes with a condition need, and that a failed statement ends its transaction.
const SETTINGS: &str =
    "set ansi_nulls, ansi_padding, ansi_warnings, arithabort, concat_null_yields_null, quoted_identifier on
set numeric_roundabort off
set xact_abort on
set transaction isolation level read committed
set lock_timeout 30000";

/// Writes come one after the other: whoever writes holds this lock until the end of its transaction. So nobody ever waits for somebody who
/// waits for them.
const ALONE: &str = "declare @lock int
exec @lock = sp_getapplock @Resource = 'punctual', @LockMode = 'Exclusive', @LockOwner = 'Transaction', @LockTimeout = 60000
select @lock, datediff_big(microsecond, cast('1970-01-01' as datetime2), sysutcdatetime())";

/// How often an operation begins anew that the server has picked as the victim of a deadlock.
const TRIES_MAX: usize = 5;

/// Connections that are open and idle.
pub(crate) struct Sessions {
    options: Options,
    /// How far the server's clock is ahead of this machine's, in microseconds, as was seen last.
    ahead: Arc<AtomicI64>,
    turns: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Client>>>,
}

/// What an operation woke.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Woke {
    pub(crate) work: bool,
    pub(crate) jobs: bool,
}

impl Sessions {
    pub(crate) fn new(options: Options) -> Self {
        let turns = Arc::new(Semaphore::new(options.max_connections));
        Self { options, ahead: Arc::default(), turns, idle: Arc::default() }
    }

    /// The server's time, as well as it is known.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_micros(SystemClock.now().as_micros() + self.ahead.load(Ordering::Relaxed))
    }

    /// Opens a connection.
    pub(crate) async fn open(&self) -> StoreResult<Client> {
        let location = self.options.location();
        let unreachable = |reason: String| StoreError::Unreachable { store: location.clone(), reason };
        let mut config = self.options.config.clone();
        let mut address = config.get_addr();
        for _ in 0..3 {
            let connect = async {
                let stream = TcpStream::connect(&address).await.map_err(|error| unreachable(error.to_string()))?;
                stream.set_nodelay(true).map_err(|error| unreachable(error.to_string()))?;
                Ok::<_, StoreError>(tiberius::Client::connect(config.clone(), stream.compat_write()).await)
            };
            let connected = time::timeout(self.options.connect_timeout, connect).await;
            match connected.map_err(|_| unreachable("it does not answer".to_owned()))?? {
                Ok(mut client) => {
                    let set = async { client.simple_query(SETTINGS).await?.into_results().await };
                    set.await.map_err(|error| store_error(&location, &error))?;
                    return Ok(client);
                }
                // The server is one of several, and names another.
                Err(Error::Routing { host, port }) => {
                    address = format!("{host}:{port}");
                    config.host(&host);
                    config.port(port);
                }
                Err(error) => return Err(store_error(&location, &error)),
            }
        }
        Err(unreachable("it names one server after the other".to_owned()))
    }

    /// Works with a connection, on a thread where waiting is allowed.
    async fn with<F, T>(&self, work: F) -> StoreResult<T>
    where
        F: FnOnce(&mut Client, &Handle, &str) -> StoreResult<T> + Send + 'static,
        T: Send + 'static,
    {
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut client = match kept {
            Some(client) => client,
            None => self.open().await?,
        };
        let (idle, location, runtime) = (Arc::clone(&self.idle), self.options.location(), Handle::current());
        let work = move || {
            let done = work(&mut client, &runtime, &location);
            // One on which something failed may be in the middle of anything.
            if done.is_ok() {
                idle.lock().unwrap_or_else(PoisonError::into_inner).push(client);
            }
            drop(turn);
            done
        };
        task::spawn_blocking(work)
            .await
            .map_err(|error| StoreError::Other(format!("an operation broke off: {error}")))?
    }

    /// Reads.
    pub(crate) async fn read<F, T>(&self, work: F) -> StoreResult<T>
    where
        F: FnOnce(&dyn Db) -> StoreResult<T> + Send + 'static,
        T: Send + 'static,
    {
        self.with(move |client, runtime, store| work(&ServerDb::new(client, runtime, store))).await
    }

    /// Writes, in one transaction; again if the server has picked it as the victim of a deadlock.
    pub(crate) async fn write<F, T>(&self, work: F) -> StoreResult<(T, Woke)>
    where
        F: Fn(&mut Tx<'_>) -> StoreResult<T> + Send + Sync + 'static,
        T: Send + 'static,
    {
        let (work, clock, ahead) = (Arc::new(work), self.options.clock.clone(), Arc::clone(&self.ahead));
        for last in (0..TRIES_MAX).map(|tries| tries + 1 == TRIES_MAX) {
            let (work, clock, ahead) = (Arc::clone(&work), clock.clone(), Arc::clone(&ahead));
            let tried = self
                .with(move |client, runtime, store| {
                    let now = begin(client, runtime, store)?;
                    ahead.store(now.as_micros() - SystemClock.now().as_micros(), Ordering::Relaxed);
                    let db = ServerDb::new(client, runtime, store);
                    let mut tx = Tx::new(&db, clock.map_or(now, |clock| clock.now()));
                    let done = work(&mut tx)?;
                    finish(&mut tx)?;
                    let woke = Woke { work: tx.woke_work, jobs: tx.woke_jobs };
                    drop(tx);
                    runtime.block_on(client.commit_transaction()).map_err(|error| store_error(store, &error))?;
                    Ok((done, woke))
                })
                .await;
            match tried {
                Err(StoreError::Busy { .. }) if !last => {}
                tried => return tried,
            }
        }
        Err(StoreError::Busy { waited_ms: 0 })
    }
}

/// Begins a transaction in which nobody else writes; returns the server's time.
fn begin(client: &mut Client, runtime: &Handle, store: &str) -> StoreResult<Timestamp> {
    let begun = runtime.block_on(async {
        client.begin_transaction().await?;
        client.simple_query(ALONE).await?.into_results().await
    });
    let rows = begun.map_err(|error| store_error(store, &error))?;
    let row = rows.last().and_then(|rows| rows.first()).ok_or_else(|| StoreError::Other("no lock".to_owned()))?;
    let row: &dyn crate::db::Row = row;
    if row.get::<i64>(0)? < 0 {
        return Err(StoreError::Busy { waited_ms: 60_000 });
    }
    row.get(1).map(Timestamp::from_micros)
}

/// What the server says that it is.
pub(crate) async fn version(client: &mut Client, store: &str) -> StoreResult<String> {
    let asked = async { client.simple_query("select @@version").await?.into_first_result().await };
    let rows = asked.await.map_err(|error| store_error(store, &error))?;
    let row: &dyn crate::db::Row = rows.first().ok_or_else(|| StoreError::Other("it has no version".to_owned()))?;
    Ok(row.get::<&str>(0)?.lines().next().unwrap_or_default().trim().to_owned())
}
