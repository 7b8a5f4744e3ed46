//! The one writer of a process, with group commit.
//!
//! A thread of its own owns the writing connection. Whatever has been asked for by the time it looks is done in
//! one transaction, each operation under a savepoint of its own; each caller is answered once that transaction is
//! durable. While somebody waits for work, the thread also watches the file's change counter, by which other
//! processes' commits show within [`POLL_PERIOD`].

use std::{
    fmt,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use punctual_core::{Clock, StoreError};
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::oneshot;

use super::{Options, Synchronous, error::store_error, tx::Tx, wake::Wakes};

/// How often the change counter is read while somebody waits.
const POLL_PERIOD: Duration = Duration::from_millis(2);
/// The most operations that share a transaction, so that the first of them is not kept waiting for long.
const GROUP_MAX_OPERATIONS: usize = 256;

/// The way to the writer.
pub(crate) struct Writer {
    operations: Option<Sender<Message>>,
    thread: Option<JoinHandle<()>>,
}

enum Message {
    Operation(Box<dyn Operation>),
    /// Somebody has begun to wait for other processes' commits.
    Listen,
}

/// When an operation's caller may be told that it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Durability {
    /// Once the system has it: a loss of power may undo it. Enough for claims and signs of life, since the workers
    /// that made them lose their power too; see docs/adr/0005.
    Soon,
    /// Once it is on the disk.
    Now,
}

/// Something to do in a transaction, and somebody to be told.
trait Operation: Send {
    fn durability(&self) -> Durability;
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), StoreError>;
    fn reply(self: Box<Self>, committed: Result<(), StoreError>);
}

struct Call<F, T> {
    durability: Durability,
    work: Option<F>,
    done: Option<T>,
    caller: oneshot::Sender<Result<T, StoreError>>,
}

impl<F, T> Operation for Call<F, T>
where
    F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send,
    T: Send,
{
    fn durability(&self) -> Durability {
        self.durability
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        if let Some(work) = self.work.take() {
            self.done = Some(work(tx)?);
        }
        tx.finish()
    }

    fn reply(self: Box<Self>, committed: Result<(), StoreError>) {
        let Self { done, caller, .. } = *self;
        // A caller that no longer waits does not mind.
        let _ = caller.send(committed.and_then(|()| done.ok_or(StoreError::Closed)));
    }
}

impl Writer {
    /// Starts the thread.
    pub(crate) fn start(connection: Connection, options: &Options, wakes: Wakes) -> Result<Self, StoreError> {
        let (operations, inbox) = channel();
        let (clock, synchronous) = (Arc::clone(&options.clock), options.synchronous);
        let writer = WriterThread { connection, clock, wakes, inbox, synchronous, present: synchronous };
        let thread = thread::Builder::new()
            .name("punctual-sqlite".into())
            .spawn(move || writer.run())
            .map_err(|error| StoreError::Other(format!("cannot start the writer's thread: {error}")))?;
        Ok(Self { operations: Some(operations), thread: Some(thread) })
    }

    /// Does `work` in a transaction and answers once it is as durable as asked for.
    pub(crate) async fn call<F, T>(&self, durability: Durability, work: F) -> Result<T, StoreError>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let (caller, answer) = oneshot::channel();
        let call = Call { durability, work: Some(work), done: None, caller };
        self.send(Message::Operation(Box::new(call)))?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Lets the thread know that somebody waits for other processes' commits.
    pub(crate) fn listen(&self) {
        // A closed writer has nothing to tell.
        let _ = self.send(Message::Listen);
    }

    fn send(&self, message: Message) -> Result<(), StoreError> {
        let sender = self.operations.as_ref().ok_or(StoreError::Closed)?;
        sender.send(message).map_err(|_| StoreError::Closed)
    }
}

impl Drop for Writer {
    /// Lets the thread finish what it was asked for.
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

/// A group that is durable: what each operation came to, and who is to be woken.
struct Committed {
    results: Vec<Result<(), StoreError>>,
    woke_work: bool,
    woke_jobs: bool,
}

impl Committed {
    fn add(&mut self, tx: &Tx<'_>, result: Result<(), StoreError>) {
        self.woke_work |= result.is_ok() && tx.woke_work;
        self.woke_jobs |= result.is_ok() && tx.woke_jobs;
        self.results.push(result);
    }
}

struct WriterThread {
    connection: Connection,
    clock: Arc<dyn Clock>,
    wakes: Wakes,
    inbox: Receiver<Message>,
    /// What [`Durability::Now`] means, as the options say.
    synchronous: Synchronous,
    /// How the connection is set at present.
    present: Synchronous,
}

impl WriterThread {
    fn run(mut self) {
        let mut seen_version = self.data_version();
        loop {
            let first = if self.wakes.anybody_listens() {
                self.inbox.recv_timeout(POLL_PERIOD)
            } else {
                self.inbox.recv().map_err(RecvTimeoutError::from)
            };
            match first {
                Ok(Message::Operation(first)) => {
                    let group = self.gather(first);
                    self.commit(group);
                }
                Ok(Message::Listen) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // Changes only by other connections' commits, so our own never wake us.
            let version = self.data_version();
            if version != seen_version {
                seen_version = version;
                self.wakes.wake(true, true);
            }
        }
    }

    fn gather(&self, first: Box<dyn Operation>) -> Vec<Box<dyn Operation>> {
        let mut group = vec![first];
        while group.len() < GROUP_MAX_OPERATIONS {
            match self.inbox.try_recv() {
                Ok(Message::Operation(next)) => group.push(next),
                Ok(Message::Listen) => {}
                Err(_) => break,
            }
        }
        group
    }

    fn commit(&mut self, mut group: Vec<Box<dyn Operation>>) {
        match self.transact(&mut group) {
            Ok(done) => {
                self.wakes.wake(done.woke_work, done.woke_jobs);
                group.into_iter().zip(done.results).for_each(|(operation, result)| operation.reply(result));
            }
            Err(error) => group.into_iter().for_each(|operation| operation.reply(Err(error.clone()))),
        }
    }

    /// Runs a group in one transaction. An operation that fails is undone alone; an error here undoes them all.
    fn transact(&mut self, group: &mut [Box<dyn Operation>]) -> Result<Committed, StoreError> {
        self.set_durability(group.iter().map(|operation| operation.durability()).max())?;
        let behavior = TransactionBehavior::Immediate;
        let mut transaction = self.connection.transaction_with_behavior(behavior).map_err(store_error)?;
        let now = self.clock.now();
        let mut done = Committed { results: Vec::with_capacity(group.len()), woke_work: false, woke_jobs: false };
        // Alone, an operation needs no savepoint, which would have SQLite copy every page that it changes.
        if let [operation] = group {
            let mut tx = Tx::new(&transaction, now);
            operation.run(&mut tx)?;
            done.add(&tx, Ok(()));
            transaction.commit().map_err(store_error)?;
            return Ok(done);
        }
        for operation in group {
            let savepoint = transaction.savepoint().map_err(store_error)?;
            let mut tx = Tx::new(&savepoint, now);
            let result = operation.run(&mut tx);
            done.add(&tx, result.clone());
            match &result {
                Ok(()) => savepoint.commit().map_err(store_error)?,
                // A savepoint that is dropped is rolled back.
                Err(_) => drop(savepoint),
            }
            // Some failures, a full disk among them, make SQLite undo the whole transaction by itself.
            if transaction.is_autocommit() {
                return Err(result.err().unwrap_or(StoreError::Closed));
            }
        }
        transaction.commit().map_err(store_error)?;
        Ok(done)
    }

    /// Makes the next commit as durable as the most careful operation of its group wants.
    fn set_durability(&mut self, wanted: Option<Durability>) -> Result<(), StoreError> {
        let wanted = if wanted == Some(Durability::Soon) { Synchronous::Normal } else { self.synchronous };
        if wanted != self.present {
            self.connection.pragma_update(None, "synchronous", wanted.as_str()).map_err(store_error)?;
            self.present = wanted;
        }
        Ok(())
    }

    fn data_version(&self) -> i64 {
        let read = || self.connection.prepare_cached("pragma data_version")?.query_row([], |row| row.get(0));
        // A version that cannot be read is a hint that does not come; polling remains.
        read().unwrap_or_default()
    }
}
