//! The pool of connections, and operations on them.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicI64, Ordering},
};

use futures_util::io::{AsyncRead, AsyncWrite};
use punctual_core::{Clock as _, StoreError, StoreResult, SystemClock, Timestamp};
use tiberius::error::Error;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{self, Duration, Instant},
};

use super::{
    connection::{self, Client, Patience, rows, run},
    db::{Link, ServerDb, serve},
    error::store_error,
    locking::Locking,
    options::Options,
    statements::own,
};
use crate::{
    db::{Db, Row},
    ops::{finish::finish, tx::Tx},
};

/// Maximum tries of an operation. It restarts with exclusive access if it turned out to need that, or if the server
/// chose it as the victim of a deadlock.
const TRIES_MAX: usize = 5;

/// Connections that were idle for longer are not reused: a firewall or load balancer may have dropped them silently.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// The pool of connections.
pub(crate) struct Sessions {
    options: Options,
    /// The last known offset of the server's clock from this machine's, in microseconds.
    ahead: AtomicI64,
    turns: Arc<Semaphore>,
    /// Idle connections and when they became idle, the latest last.
    idle: Mutex<Vec<(Client, Instant)>>,
}

/// What an operation changed that others wait for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WriteEffects {
    /// Whether there are new jobs to claim.
    pub(crate) new_work: bool,
    /// Whether a job changed that a subscriber may be waiting for.
    pub(crate) jobs_changed: bool,
}

impl Sessions {
    pub(crate) fn new(options: Options) -> Self {
        let turns = Arc::new(Semaphore::new(options.max_connections));
        Self { options, ahead: AtomicI64::default(), turns, idle: Mutex::default() }
    }

    /// The server's time, estimated from the last known offset.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_micros(SystemClock.now().as_micros() + self.ahead.load(Ordering::Relaxed))
    }

    /// Opens a connection.
    pub(crate) async fn open(&self, patience: Patience) -> StoreResult<Client> {
        connection::open(&self.options, patience).await
    }

    /// Takes a connection for exclusive use. It is closed unless it is given back.
    async fn take(&self) -> StoreResult<Leased> {
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let pooled = {
            let mut idle = self.idle();
            idle.retain(|(_, since)| since.elapsed() < IDLE_MAX);
            idle.pop()
        };
        let was_pooled = pooled.is_some();
        let client = match pooled {
            Some((client, _)) => client,
            None => self.open(Patience::Usual).await?,
        };
        Ok(Leased { client, was_pooled, _turn: turn })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(Client, Instant)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Maps an error of a connection. If the server was unreachable, the idle connections are closed too.
    fn error(&self, error: &Error) -> StoreError {
        self.gone(store_error(&self.options.location, error))
    }

    fn gone(&self, error: StoreError) -> StoreError {
        if matches!(error, StoreError::Unreachable { .. }) {
            self.idle().clear();
        }
        error
    }

    /// Begins a transaction; returns the server's time. If a pooled connection turns out to be broken, tries another
    /// one.
    async fn begin(&self, locking: Locking) -> StoreResult<(Leased, Timestamp)> {
        loop {
            let mut leased = self.take().await?;
            match run(&mut leased.client, "begin transaction").await.map_err(|error| self.error(&error)) {
                Ok(()) => {
                    let begun = rows(&mut leased.client, locking.text()).await.map_err(|error| self.error(&error))?;
                    return Ok((leased, Locking::check(&begun)?));
                }
                Err(StoreError::Unreachable { .. }) if leased.was_pooled => {}
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

    /// Handles a failed operation: rolls its transaction back and keeps the connection, unless the connection failed.
    async fn undo(&self, mut leased: Leased, error: StoreError) -> StoreError {
        let is_sound = !matches!(error, StoreError::Unreachable { .. } | StoreError::Other(_));
        if is_sound && run(&mut leased.client, "if @@trancount > 0 rollback").await.is_ok() {
            self.give_back(leased);
        }
        self.gone(error)
    }

    /// Runs work during which leases expire, with the answer timeout. If it times out, the outcome is unknown and the
    /// connection is closed.
    pub(crate) async fn in_time<T>(&self, work: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        let limit = self.options.answer_timeout;
        let silent = |_| {
            self.gone(StoreError::Unreachable {
                store: self.options.location.clone(),
                reason: format!("no answer within {} s", limit.as_secs_f32()),
            })
        };
        time::timeout(limit, work).await.map_err(silent)?
    }

    /// Runs a read. Retries if the server chose it as the victim of a deadlock or a pooled connection was broken.
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
            let was_pooled = leased.was_pooled;
            let error = match done {
                Ok(done) => {
                    self.give_back(leased);
                    return Ok(done);
                }
                Err(error) => self.undo(leased, error).await,
            };
            match error {
                StoreError::Busy { waited_ms: 0 } if tries.next().is_some() => {}
                StoreError::Unreachable { .. } if was_pooled => {}
                error => return Err(error),
            }
        }
    }

    /// Writes in one transaction, at first with shared access if `beside` is set.
    pub(crate) async fn write<F, T>(&self, beside: bool, work: F) -> StoreResult<(T, WriteEffects)>
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

    async fn try_to_write<F, T>(&self, locking: Locking, work: &Arc<F>) -> StoreResult<(T, WriteEffects)>
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

    /// Merges counter rows, and rollups since an hour, with exclusive access. Readers are excluded too, because they
    /// would see some rows twice.
    pub(crate) async fn add_up(&self, since: Timestamp) -> StoreResult<()> {
        let (mut leased, _) = self.begin(Locking::Alone).await?;
        let (client, error) = (&mut leased.client, |error: Error| self.error(&error));
        Locking::check(&rows(client, own::SUMS).await.map_err(error)?)?;
        run(client, own::ROLL_UP_COUNTS).await.map_err(error)?;
        run(client, own::ROLL_UP_PENDING).await.map_err(error)?;
        client.execute(own::ROLL_UP_ROLLUPS, &[&since.as_micros()]).await.map_err(error)?;
        self.commit(leased).await
    }

    /// Whether any queue may have a job to claim by `until`.
    pub(crate) async fn peek(&self, until: Timestamp) -> StoreResult<bool> {
        loop {
            let mut leased = self.take().await?;
            let read = async { leased.client.query(own::PEEK, &[&until.as_micros()]).await?.into_first_result().await };
            match read.await.map_err(|error| self.error(&error)) {
                Err(StoreError::Unreachable { .. }) if leased.was_pooled => {}
                Err(error) => return Err(error),
                Ok(rows) => {
                    self.give_back(leased);
                    return rows.first().map_or(Ok(false), |row| (row as &dyn Row).get(0));
                }
            }
        }
    }

    /// Writes within an application's transaction: all of it or nothing.
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
        // Operations need the numbers of changed rows.
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

/// Rolls back a failed operation within an application's transaction. Many server errors end the whole transaction.
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

/// A connection in use, and its permit.
struct Leased {
    client: Client,
    /// Whether it came from the pool.
    was_pooled: bool,
    _turn: OwnedSemaphorePermit,
}

/// Runs one operation completely.
fn operate<T>(
    link: Link,
    locking: Locking,
    now: Timestamp,
    work: impl FnOnce(&mut Tx<'_>) -> StoreResult<T>,
) -> StoreResult<(T, WriteEffects)> {
    let db = ServerDb::new(link, locking);
    let mut tx = Tx::new(&db, now);
    let done = work(&mut tx)?;
    finish(&mut tx)?;
    let effects = WriteEffects { new_work: tx.new_work, jobs_changed: tx.jobs_changed };
    db.flush()?;
    Ok((done, effects))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    /// Much longer than any wait in these tests, for a busy machine.
    const GENEROUS: Duration = Duration::from_secs(60);

    /// Packet types.
    const ANSWER: u8 = 4;
    const BEFORE_LOGIN: u8 = 18;
    const LOGIN: u8 = 16;

    /// A server that accepts logins and settings, and then stops answering. The receiver is notified when a client
    /// disconnects.
    async fn silent_server(answers: usize) -> (Options, tokio::sync::mpsc::UnboundedReceiver<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (left, gone) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                let (client, left) = (listener.accept().await.unwrap().0, left.clone());
                tokio::spawn(async move {
                    converse(client, answers).await;
                    let _ = left.send(());
                });
            }
        });
        let address = format!("sqlserver://ada@127.0.0.1:{port}/jobs?encrypt=off&answer_timeout=1&connect_timeout=60");
        (address.parse().unwrap(), gone)
    }

    /// Answers `answers` packets, and reads the others until the client disconnects.
    async fn converse(mut client: TcpStream, answers: usize) {
        let mut answered = 0;
        loop {
            let mut header = [0; 8];
            if client.read_exact(&mut header).await.is_err() {
                return;
            }
            let mut body = vec![0; usize::from(u16::from_be_bytes([header[2], header[3]])) - header.len()];
            client.read_exact(&mut body).await.unwrap();
            if answered == answers {
                continue;
            }
            answered += 1;
            let answer = match header[0] {
                BEFORE_LOGIN => before_login(),
                LOGIN => [acknowledged(), done()].concat(),
                _ => done(),
            };
            let length = (answer.len() + header.len()) as u16;
            let [high, low] = length.to_be_bytes();
            client.write_all(&[&[ANSWER, 1, high, low, 0, 0, 1, 0], &answer[..]].concat()).await.unwrap();
        }
    }

    /// A version, and that encryption is not supported.
    fn before_login() -> Vec<u8> {
        let version = [0, 0, 11, 0, 6];
        let encryption = [1, 0, 17, 0, 1];
        [&version[..], &encryption, &[0xff], &[16, 0, 0, 0, 0, 0], &[2]].concat()
    }

    fn acknowledged() -> Vec<u8> {
        let body = [&[1, 0x74, 0, 0, 4][..], &[1, b'S', 0], &[16, 0, 0, 0]].concat();
        [&[0xad, body.len() as u8, 0][..], &body].concat()
    }

    fn done() -> Vec<u8> {
        [&[0xfd][..], &[0; 12]].concat()
    }

    /// The answers to the login and to the settings.
    const UNTIL_READY: usize = 3;

    async fn fails_in_time<T: std::fmt::Debug>(work: impl Future<Output = StoreResult<T>>) {
        let failed = time::timeout(GENEROUS, work).await.expect("it waits for an answer without end");
        let error = failed.expect_err("nothing was answered");
        assert!(
            matches!(error, StoreError::Unreachable { .. }) && error.to_string().contains("no answer within 1 s"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn an_operation_without_an_answer_fails_in_time_and_its_connection_is_closed() {
        let (options, mut gone) = silent_server(UNTIL_READY).await;
        let sessions = Sessions::new(options);
        fails_in_time(sessions.in_time(sessions.write(true, |_| Ok(())))).await;
        gone.recv().await.unwrap();
        fails_in_time(sessions.in_time(sessions.peek(sessions.now()))).await;
        gone.recv().await.unwrap();
        assert!(sessions.idle().is_empty());
    }

    #[tokio::test]
    async fn a_server_that_accepts_connections_and_sends_nothing_counts_as_unreachable() {
        let (mut options, _gone) = silent_server(0).await;
        options.connect_timeout = Duration::from_secs(1);
        let sessions = Sessions::new(options);
        let opened = time::timeout(GENEROUS, sessions.open(Patience::Usual)).await.unwrap();
        assert!(matches!(opened, Err(StoreError::Unreachable { .. })));
    }
}
