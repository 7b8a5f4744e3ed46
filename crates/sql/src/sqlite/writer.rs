//! The single writer of a process: a thread of its own owns the writing connection; here is the channel to it. How it
//! runs the requests: [`super::writer_thread`].

use std::{
    fmt,
    sync::mpsc::Sender,
    thread::{self, JoinHandle},
    time::Instant,
};

use punctual_core::{ClaimRequest, Claimed, Settlement, StoreError, limits};
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::{
    db::SqliteDb,
    health::Health,
    operation::{Call, ClaimCall, Durability, release},
    options::Options,
    reader::Readers,
    writer_thread::{Message, WriterThread},
};
use crate::{
    ops::{claim::ClaimedJobs, tx::Tx},
    wakes::Wakes,
};

/// The channel to the writer thread.
pub(crate) struct Writer {
    operations: Option<Sender<Message>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread.
    pub(crate) fn start(
        connection: Connection,
        options: &Options,
        wakes: Wakes,
        health: Health,
    ) -> Result<Self, StoreError> {
        let (writer, operations) = WriterThread::new(connection, options, wakes, health)?;
        let thread = thread::Builder::new()
            .name("punctual-sqlite".into())
            .spawn(move || writer.run())
            .map_err(|error| StoreError::Other(format!("cannot start the writer's thread: {error}")))?;
        Ok(Self { operations: Some(operations), thread: Some(thread) })
    }

    /// Runs `work`, which writes about `weight` rows, in a transaction; returns once it is as durable as requested.
    pub(crate) async fn call<F, T>(&self, durability: Durability, weight: usize, work: F) -> Result<T, StoreError>
    where
        F: Fn(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let (caller, answer) = oneshot::channel();
        self.send(Message::Operation(Box::new(Call {
            requested_at: Instant::now(),
            durability,
            weight,
            work,
            done: None,
            caller,
        })))?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Claims jobs, and waits for some up to the request's `wait`.
    pub(crate) async fn claim(&self, request: ClaimRequest, readers: &Readers) -> Result<Claimed, StoreError> {
        let deadline = Instant::now() + request.wait.min(limits::WAIT_MAX);
        let (caller, answer) = oneshot::channel();
        let mut answer = ClaimAnswer { writer: self, answer, unread: Vec::new() };
        let claimed = ClaimedJobs::default();
        self.send(Message::Operation(Box::new(ClaimCall { request, deadline, claimed, caller })))?;
        let mut jobs = (&mut answer.answer).await.map_err(|_| StoreError::Closed)??;
        if !jobs.is_read() {
            answer.unread = jobs.releases();
            jobs = readers.call(move |connection| jobs.read(&SqliteDb::new(connection)).map(|()| jobs)).await?;
            answer.unread.clear();
            let corrupt = jobs.take_corrupt();
            if !corrupt.is_empty() {
                self.send(Message::Operation(release(corrupt)))?;
            }
        }
        Ok(jobs.claimed())
    }

    /// Notifies the thread of a subscriber that waits for commits of other processes.
    pub(crate) fn listen(&self) {
        // A closed writer reports no changes.
        let _ = self.send(Message::Listen);
    }

    /// Makes waiting claims answer at once.
    pub(crate) fn wake_claims(&self) {
        // A closed writer has no waiting claims.
        let _ = self.send(Message::WakeClaims);
    }

    fn send(&self, message: Message) -> Result<(), StoreError> {
        let sender = self.operations.as_ref().ok_or(StoreError::Closed)?;
        sender.send(message).map_err(|_| StoreError::Closed)
    }
}

/// A pending answer to a claim. If the caller drops it before it is complete, the claimed jobs are released.
struct ClaimAnswer<'w> {
    writer: &'w Writer,
    answer: oneshot::Receiver<Result<ClaimedJobs, StoreError>>,
    /// Settlements that release the claims whose jobs are being read.
    unread: Vec<Settlement>,
}

impl Drop for ClaimAnswer<'_> {
    fn drop(&mut self) {
        self.answer.close();
        let unreceived = self.answer.try_recv().ok().and_then(Result::ok);
        let releases = unreceived.map_or_else(|| std::mem::take(&mut self.unread), |jobs| jobs.releases());
        if !releases.is_empty() {
            // If the writer is closed, the leases expire.
            let _ = self.writer.send(Message::Operation(release(releases)));
        }
    }
}

impl Drop for Writer {
    /// Waits until the thread has processed the pending requests.
    fn drop(&mut self) {
        self.operations = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Writer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{db::params, ops::statements as sql, sqlite::schema};
    use punctual_core::Timestamp;
    use std::sync::mpsc;

    fn writer(folder: &tempfile::TempDir) -> (Writer, Options) {
        let options = Options::new(folder.path().join("x.db"));
        let mut connection = super::super::connection::open(&options).unwrap();
        schema::migrate(&mut connection, Timestamp::MIN).unwrap();
        (Writer::start(connection, &options, Wakes::new(), Health::new(&options.path)).unwrap(), options)
    }

    async fn insert(writer: &Writer, x: i64) -> Result<(), StoreError> {
        let work = move |tx: &mut Tx<'_>| {
            assert_eq!(tx.execute(sql::INSERT_EPHEMERAL, params![x])?, 1);
            if x < 0 { Err(StoreError::Other("fails on request".into())) } else { Ok(()) }
        };
        writer.call(Durability::Now, 1, work).await
    }

    /// The first operation blocks the thread until the others have arrived, so that they form one group.
    #[tokio::test(flavor = "multi_thread")]
    async fn an_operation_that_fails_does_not_roll_back_the_others_of_its_group() {
        let folder = tempfile::tempdir().unwrap();
        let (writer, options) = writer(&folder);
        let (release, released) = mpsc::channel();
        let released = std::sync::Mutex::new(Some(released));
        let blocking = writer.call(Durability::Now, 1, move |_| {
            // Only the first time: the operation may be rolled back with the others and run again.
            if let Some(released) = released.lock().unwrap().take() {
                released.recv().unwrap();
            }
            Ok(())
        });
        let others = async { tokio::join!(insert(&writer, 1), insert(&writer, -1), insert(&writer, 2)) };
        let unblock = async {
            tokio::task::yield_now().await;
            release.send(()).unwrap();
        };
        let (blocking, (first, second, third), ()) = tokio::join!(blocking, others, unblock);
        assert!(blocking.is_ok() && first.is_ok() && third.is_ok());
        assert_eq!(second.unwrap_err().to_string(), "the store failed: fails on request");
        drop(writer);
        let connection = super::super::connection::open(&options).unwrap();
        let mut rows = connection.prepare("select job from punctual_ephemeral order by job").unwrap();
        let rows: Vec<i64> = rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows, [1, 2]);
    }

    #[tokio::test]
    async fn a_writer_that_is_dropped_finishes_the_pending_operations() {
        let folder = tempfile::tempdir().unwrap();
        let (writer, options) = writer(&folder);
        insert(&writer, 1).await.unwrap();
        drop(writer);
        let connection = super::super::connection::open(&options).unwrap();
        let count: i64 = connection.query_row("select count(*) from punctual_ephemeral", [], |row| row.get(0)).unwrap();
        assert_eq!(count, 1);
    }
}
