//! Connections: how they are opened, shared, and used for one operation.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicI64, Ordering},
};

use futures_util::io::{AsyncRead, AsyncWrite};
use punctual_core::{Clock as _, StoreError, StoreResult, SystemClock, Timestamp};
use tiberius::error::Error;
use tokio::{
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{self, Duration, Instant},
};
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

use super::{
    Options,
    db::{Link, ServerDb, serve},
    error::store_error,
    locking::Locking,
    statements::own,
};
use crate::{
    db::{Db, Row},
    ops::tx::{Tx, finish},
};

/// A connection.
pub type Client = tiberius::Client<Compat<TcpStream>>;

/// How often an operation begins anew: alone if it turned out to need that, or if the server has picked it as the victim of a deadlock.
const TRIES_MAX: usize = 5;

/// A connection that was idle for longer is not used again: what is between may have forgotten it without a word.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// Connections that are open and idle.
pub(crate) struct Sessions {
    options: Options,
    /// How far the server's clock is ahead of this machine's, in microseconds, as was seen last.
    ahead: AtomicI64,
    turns: Arc<Semaphore>,
    /// Since when they are, the latest last.
    idle: Mutex<Vec<(Client, Instant)>>,
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
        Self { options, ahead: AtomicI64::default(), turns, idle: Mutex::default() }
    }

    /// The server's time, as well as it is known.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_micros(SystemClock.now().as_micros() + self.ahead.load(Ordering::Relaxed))
    }

    /// Opens a connection.
    pub(crate) async fn open(&self) -> StoreResult<Client> {
        // Where a build has several, TLS does not choose by itself. Whoever embeds us may have chosen one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let location = &self.options.location;
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
                    run(&mut client, own::SETTINGS).await.map_err(|error| store_error(location, &error))?;
                    return Ok(client);
                }
                // The server is one of several, and names another.
                Err(Error::Routing { host, port }) => {
                    address = format!("{host}:{port}");
                    config.host(&host);
                    config.port(port);
                }
                Err(error) => return Err(store_error(location, &error)),
            }
        }
        Err(unreachable("it names one server after the other".to_owned()))
    }

    /// A connection of which nobody else has the use. It is closed, unless it is given back.
    async fn take(&self) -> StoreResult<Leased> {
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let kept = {
            let mut idle = self.idle();
            idle.retain(|(_, since)| since.elapsed() < IDLE_MAX);
            idle.pop()
        };
        let was_kept = kept.is_some();
        let client = match kept {
            Some((client, _)) => client,
            None => self.open().await?,
        };
        Ok(Leased { client, was_kept, _turn: turn })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(Client, Instant)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What went wrong on a connection. If the server was away, no other that was kept is of use.
    fn error(&self, error: &Error) -> StoreError {
        self.gone(store_error(&self.options.location, error))
    }

    fn gone(&self, error: StoreError) -> StoreError {
        if matches!(error, StoreError::Unreachable { .. }) {
            self.idle().clear();
        }
        error
    }

    /// Begins a transaction; returns the server's time. A connection that was kept may be of no more use, so that another one is tried.
    async fn begin(&self, locking: Locking) -> StoreResult<(Leased, Timestamp)> {
        loop {
            let mut leased = self.take().await?;
            match run(&mut leased.client, "begin transaction").await.map_err(|error| self.error(&error)) {
                Ok(()) => {
                    let begun = rows(&mut leased.client, locking.text()).await.map_err(|error| self.error(&error))?;
                    return Ok((leased, Locking::check(&begun)?));
                }
                Err(StoreError::Unreachable { .. }) if leased.was_kept => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn commit(&self, mut leased: Leased) -> StoreResult<()> {
        run(&mut leased.client, "commit").await.map_err(|error| self.error(&error))?;
        self.give_back(leased);
        Ok(())
    }

    fn give_back(&self, leased: Leased) {
        self.idle().push((leased.client, Instant::now()));
    }

    /// An operation failed. Its connection is kept, without its transaction, unless that is what failed.
    async fn undo(&self, mut leased: Leased, error: StoreError) -> StoreError {
        let is_sound = !matches!(error, StoreError::Unreachable { .. } | StoreError::Other(_));
        if is_sound && run(&mut leased.client, "if @@trancount > 0 rollback").await.is_ok() {
            self.give_back(leased);
        }
        self.gone(error)
    }

    /// Reads. Where the server has picked that as the victim of a deadlock, or a connection that was kept is of no more use, once more.
    pub(crate) async fn read<F, T>(&self, work: F) -> StoreResult<T>
    where
        F: Fn(&dyn Db) -> StoreResult<T> + Send + Sync + 'static,
        T: Send + 'static,
    {
        let (work, store) = (Arc::new(work), &self.options.location);
        let mut tries = 1..TRIES_MAX;
        loop {
            let mut leased = self.take().await?;
            let work = Arc::clone(&work);
            let done = serve(&mut leased.client, store, move |link| work(&ServerDb::new(link, Locking::Alone))).await;
            let was_kept = leased.was_kept;
            let error = match done {
                Ok(done) => {
                    self.give_back(leased);
                    return Ok(done);
                }
                Err(error) => self.undo(leased, error).await,
            };
            match error {
                StoreError::Busy { waited_ms: 0 } if tries.next().is_some() => {}
                StoreError::Unreachable { .. } if was_kept => {}
                error => return Err(error),
            }
        }
    }

    /// Writes, in one transaction: beside others at first if that may do.
    pub(crate) async fn write<F, T>(&self, beside: bool, work: F) -> StoreResult<(T, Woke)>
    where
        F: Fn(&mut Tx<'_>) -> StoreResult<T> + Send + Sync + 'static,
        T: Send + 'static,
    {
        let work = Arc::new(work);
        let mut locking = if beside { Locking::Beside } else { Locking::Alone };
        for _ in 1..TRIES_MAX {
            match self.try_to_write(locking, &work).await {
                Err(StoreError::Busy { waited_ms: 0 }) => locking = Locking::Alone,
                tried => return tried,
            }
        }
        self.try_to_write(locking, &work).await
    }

    async fn try_to_write<F, T>(&self, locking: Locking, work: &Arc<F>) -> StoreResult<(T, Woke)>
    where
        F: Fn(&mut Tx<'_>) -> StoreResult<T> + Send + Sync + 'static,
        T: Send + 'static,
    {
        let (mut leased, now) = self.begin(locking).await?;
        self.ahead.store(now.as_micros() - SystemClock.now().as_micros(), Ordering::Relaxed);
        let now = self.options.clock.as_ref().map_or(now, |clock| clock.now());
        let (work, store) = (Arc::clone(work), &self.options.location);
        let done = serve(&mut leased.client, store, move |link| operate(link, locking, now, |tx| work(tx))).await;
        match done {
            Ok(done) => self.commit(leased).await.map(|()| done),
            Err(error) => Err(self.undo(leased, error).await),
        }
    }

    /// Adds numbers up, those of hours from one on, while nobody writes, and nobody reads these, who would see some rows twice.
    pub(crate) async fn add_up(&self, since: Timestamp) -> StoreResult<()> {
        let (mut leased, _) = self.begin(Locking::Alone).await?;
        let (client, error) = (&mut leased.client, |error: Error| self.error(&error));
        Locking::check(&rows(client, own::SUMS).await.map_err(error)?)?;
        run(client, own::ADD_UP_COUNTS).await.map_err(error)?;
        run(client, own::ADD_UP_PENDING).await.map_err(error)?;
        client.execute(own::ADD_UP_TALLIES, &[&since.as_micros()]).await.map_err(error)?;
        self.commit(leased).await
    }

    /// Whether there may be something to claim by then, in any queue.
    pub(crate) async fn peek(&self, until: Timestamp) -> StoreResult<bool> {
        loop {
            let mut leased = self.take().await?;
            let ask = async { leased.client.query(own::PEEK, &[&until.as_micros()]).await?.into_first_result().await };
            match ask.await.map_err(|error| self.error(&error)) {
                Err(StoreError::Unreachable { .. }) if leased.was_kept => {}
                Err(error) => return Err(error),
                Ok(rows) => {
                    self.give_back(leased);
                    return rows.first().map_or(Ok(false), |row| (row as &dyn Row).get(0));
                }
            }
        }
    }

    /// Writes within a transaction of an application's own: all of it, or nothing.
    pub(crate) async fn write_within<S, F, T>(&self, client: &mut tiberius::Client<S>, work: F) -> StoreResult<T>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
        F: FnOnce(&mut Tx<'_>) -> StoreResult<T> + Send + 'static,
        T: Send + 'static,
    {
        let store = &self.options.location;
        let error = |error: Error| store_error(store, &error);
        let begun = rows(client, Locking::Within.text()).await.map_err(error)?;
        let now = Locking::check(&begun)?;
        let now = self.options.clock.as_ref().map_or(now, |clock| clock.now());
        // What is done counts the rows that it changes.
        let is_silent = begun.last().map_or(Ok(false), |row| (row as &dyn Row).get(3))?;
        if is_silent {
            run(client, "set nocount off").await.map_err(error)?;
        }
        let done = serve(client, store, move |link| operate(link, Locking::Within, now, work)).await;
        let done = match done {
            Ok((done, _)) => Ok(done),
            Err(error) => Err(undo_within(client, error).await),
        };
        let silenced = if is_silent { run(client, "set nocount on").await.map_err(error) } else { Ok(()) };
        done.and_then(|done| silenced.map(|()| done))
    }
}

/// Takes back what failed within an application's transaction. Many errors of the server end all of it.
async fn undo_within<S>(client: &mut tiberius::Client<S>, error: StoreError) -> StoreError
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    match rows(client, own::UNDO_WITHIN).await.as_deref() {
        Ok([row]) if matches!((row as &dyn Row).get(0), Ok(1_i64)) => error,
        _ => StoreError::Other(format!(
            "{error}; with that the transaction is over, nothing of it was stored: begin anew"
        )),
    }
}

/// A connection in use, and the right to one.
struct Leased {
    client: Client,
    /// Whether it was open before.
    was_kept: bool,
    _turn: OwnedSemaphorePermit,
}

/// One operation, to its end.
fn operate<T>(
    link: Link,
    locking: Locking,
    now: Timestamp,
    work: impl FnOnce(&mut Tx<'_>) -> StoreResult<T>,
) -> StoreResult<(T, Woke)> {
    let db = ServerDb::new(link, locking);
    let mut tx = Tx::new(&db, now);
    let done = work(&mut tx)?;
    finish(&mut tx)?;
    let woke = Woke { work: tx.woke_work, jobs: tx.woke_jobs };
    db.flush()?;
    Ok((done, woke))
}

/// Runs a text that answers nothing.
pub(crate) async fn run<S>(client: &mut tiberius::Client<S>, text: &str) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    client.simple_query(text).await?.into_results().await.map(drop)
}

/// The rows of the last answer to a text.
pub(crate) async fn rows<S>(client: &mut tiberius::Client<S>, text: &str) -> Result<Vec<tiberius::Row>, Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    Ok(client.simple_query(text).await?.into_results().await?.pop().unwrap_or_default())
}

/// What the server says that it is.
pub(crate) async fn version(client: &mut Client, store: &str) -> StoreResult<String> {
    let rows = rows(client, own::VERSION).await.map_err(|error| store_error(store, &error))?;
    let row: &dyn Row = rows.first().ok_or_else(|| StoreError::Other("it has no version".to_owned()))?;
    Ok(row.get::<&str>(0)?.lines().next().unwrap_or_default().trim().to_owned())
}
