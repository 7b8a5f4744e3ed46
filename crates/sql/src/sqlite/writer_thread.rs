//! The thread of the writer, with group commit.
//!
//! It runs all pending requests in one transaction; each caller is answered once that transaction is as durable as the
//! request needs (see [`super::flush`]). If one operation fails, the transaction is rolled back and each operation runs
//! in a transaction of its own: savepoints would avoid that, but SQLite would copy every page that changes.
//!
//! A claim that finds no job may wait. It is parked, and runs again in the same transaction that enqueues a job, when
//! the next job is due, or when another process has committed, which the thread detects by the file's change counter
//! within [`POLL_PERIODS`].

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    time::{Duration, Instant},
};

use punctual_core::{Clock, StoreError, Timestamp};
use rusqlite::{Connection, TransactionBehavior};

use super::{
    checkpoint::Checkpointer,
    clock, connection,
    db::SqliteDb,
    error::store_error,
    flush::{Flusher, sync_log},
    health::Health,
    operation::{Durability, Operation, Parked, release},
    options::{Options, Synchronous},
};
use crate::{
    ops::tx::{Held, Tx},
    wakes::Wakes,
};

/// How often the change counter is read while a claim or a subscriber waits: under activity, and when idle.
const POLL_PERIODS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(5));
/// Time without activity after which the writer counts as idle.
const QUIET_AFTER: Duration = Duration::from_secs(1);
/// Maximum operations and rows per transaction, so that the first operation does not wait long.
const GROUP_MAX_OPERATIONS: usize = 256;
const GROUP_MAX_ROWS: usize = 10_000;

/// Shorter waits for the writer are ignored: the operation counts as requested when it runs.
const WAIT_COUNTS_FROM: Duration = Duration::from_millis(500);
/// The maximum time until a worker repeats a refused renewal.
const RENEWAL_MAX_PAUSE: Duration = Duration::from_secs(15);

/// A message to the thread.
pub(crate) enum Message {
    Operation(Box<dyn Operation>),
    /// A subscriber has begun to wait for commits of other processes.
    Listen,
    /// Waiting claims must answer now.
    WakeClaims,
}

/// What the operations of a group changed that others wait for.
#[derive(Debug, Clone, Copy, Default)]
struct GroupEffects {
    /// Whether there are new jobs to claim.
    new_work: bool,
    /// Whether a job changed that a subscriber may be waiting for.
    jobs_changed: bool,
}

/// Why a transaction was rolled back.
enum Undone {
    /// The store failed; running the operations again now is useless.
    ByStore(StoreError),
    /// One operation failed; the others may succeed without it.
    ByOperation(StoreError),
}

impl Undone {
    fn by_store(error: rusqlite::Error) -> Self {
        Self::ByStore(store_error(error))
    }
}

/// The last period during which the store refused transactions: another program held the lock for longer than the busy
/// timeout, or the disk was full.
#[derive(Debug)]
struct Refusal {
    /// The start and the end of the period.
    times: Option<(Instant, Instant)>,
    /// Whether the store's clock advances while an operation waits.
    is_timed: bool,
}

impl Refusal {
    /// Records that a transaction which began at `began` was refused now.
    fn extend(&mut self, began: Instant) {
        let since = self.times.filter(|(_, until)| began.duration_since(*until) < RENEWAL_MAX_PAUSE);
        self.times = Some((since.map_or(began, |(since, _)| since), Instant::now()));
    }

    /// When an operation counts as requested, by the store's clock, and how long it has waited. An operation that is
    /// repeated because the store refused it counts from the start of that period.
    fn request_time(&self, now: Timestamp, requested_at: Instant) -> (Timestamp, Duration) {
        // A manual clock does not advance while an operation waits.
        let waited = if self.is_timed { requested_at.elapsed() } else { Duration::ZERO };
        let is_repeated = |(since, until): &(Instant, Instant)| {
            *since < requested_at && requested_at.duration_since(*until) < RENEWAL_MAX_PAUSE
        };
        let total = self.times.filter(is_repeated).map_or(waited, |(since, _)| since.elapsed());
        (if total < WAIT_COUNTS_FROM { now } else { now.before(total) }, waited)
    }
}

/// The state of the thread.
pub(crate) struct WriterThread {
    /// Answers the operations that wait for the disk; absent if the options do not require it. Declared before the
    /// connection, so that it is dropped first and all operations are answered while the log still exists.
    flusher: Option<Flusher>,
    connection: Connection,
    clock: Arc<dyn Clock>,
    wakes: Wakes,
    inbox: Receiver<Message>,
    /// Claims that wait for jobs.
    parked: Vec<Box<dyn Operation>>,
    /// Claims that were made by this process and are not settled.
    held: Held,
    /// When an operation last arrived, or another process last committed.
    last_activity: Instant,
    checkpointer: Checkpointer,
    health: Health,
    refusal: Refusal,
}

impl WriterThread {
    /// The thread's state, and the channel to it.
    pub(crate) fn new(
        mut connection: Connection,
        options: &Options,
        wakes: Wakes,
        health: Health,
    ) -> Result<(Self, Sender<Message>), StoreError> {
        let (operations, inbox) = channel();
        let flusher = match options.synchronous {
            Synchronous::Full => Some(Flusher::start(sync_log(connection.path().unwrap_or_default()), health.clone())?),
            Synchronous::Normal => None,
        };
        let checkpointer = Checkpointer::start(&mut connection, connection::open_reader(options)?, &health)?;
        let thread = Self {
            flusher,
            connection,
            clock: Arc::clone(&options.clock),
            wakes,
            inbox,
            parked: Vec::new(),
            held: Held::new(),
            last_activity: Instant::now(),
            checkpointer,
            health,
            refusal: Refusal { times: None, is_timed: options.clock.is_real() },
        };
        Ok((thread, operations))
    }

    /// Runs until the channel is closed and all requests are answered.
    pub(crate) fn run(mut self) {
        let mut seen_version = self.data_version();
        loop {
            match self.next() {
                Ok(Message::Operation(first)) => {
                    self.last_activity = Instant::now();
                    let group = self.gather(first);
                    self.commit(group, false);
                }
                Ok(Message::WakeClaims) => self.parked.iter_mut().for_each(|claim| claim.wake_claims()),
                Ok(Message::Listen) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.checkpointer.stop(&mut self.connection),
            }
            // Changes only by commits of other connections, so this process's own commits never wake it.
            let version = self.data_version();
            let others_committed = std::mem::replace(&mut seen_version, version) != version;
            if others_committed {
                self.last_activity = Instant::now();
                self.wakes.wake();
            }
            if others_committed || self.pause().is_some_and(|pause| pause.is_zero()) {
                self.commit(Vec::new(), true);
            }
        }
    }

    /// Waits for a message, or until parked claims or the change counter need attention.
    fn next(&self) -> Result<Message, RecvTimeoutError> {
        match self.pause() {
            Some(pause) => self.inbox.recv_timeout(pause),
            None => self.inbox.recv().map_err(RecvTimeoutError::from),
        }
    }

    /// How long the thread may sleep: until a parked claim is due or its wait has expired, and, while a claim or
    /// subscriber waits, until the change counter is read again.
    fn pause(&self) -> Option<Duration> {
        let has_waiters = !self.parked.is_empty() || self.wakes.has_listeners();
        let until = |parked: Parked| {
            let due = parked.due.map(|due| due.since(self.clock.now()));
            let left = parked.deadline.saturating_duration_since(Instant::now());
            due.map_or(left, |due| due.min(left))
        };
        // A claim that no longer waits has lost its caller or its wait has expired; it is processed at once.
        let pauses = self.parked.iter().map(|operation| operation.parked().map_or(Duration::ZERO, until));
        let quiet = self.last_activity.elapsed() > QUIET_AFTER;
        let poll = if quiet { POLL_PERIODS.1 } else { POLL_PERIODS.0 };
        has_waiters.then(|| pauses.fold(poll, Duration::min))
    }

    fn gather(&mut self, first: Box<dyn Operation>) -> Vec<Box<dyn Operation>> {
        let mut rows = first.weight();
        let mut group = vec![first];
        while group.len() < GROUP_MAX_OPERATIONS && rows < GROUP_MAX_ROWS {
            match self.inbox.try_recv() {
                Ok(Message::Operation(next)) => {
                    rows += next.weight();
                    group.push(next);
                }
                Ok(Message::WakeClaims) => {
                    group.iter_mut().chain(&mut self.parked).for_each(|claim| claim.wake_claims())
                }
                Ok(Message::Listen) => {}
                Err(_) => break,
            }
        }
        group.sort_by_key(|operation| operation.comes_last());
        group
    }

    /// Runs a group, and parked claims if there may be jobs for them; then answers the callers.
    fn commit(&mut self, mut group: Vec<Box<dyn Operation>>, serve_parked: bool) {
        if group.is_empty() && self.parked.is_empty() {
            return;
        }
        if let Err(error) = self.health.check() {
            group.append(&mut self.parked);
            return group.into_iter().for_each(|operation| drop(operation.reply(Err(error.clone()))));
        }
        let began = Instant::now();
        match self.transact(&mut group, serve_parked) {
            Ok(effects) => self.answer_callers(group, effects),
            Err(Undone::ByOperation(_)) if group.len() > 1 => {
                group.into_iter().for_each(|operation| self.commit(vec![operation], false));
            }
            Err(Undone::ByOperation(error) | Undone::ByStore(error)) => {
                // An error in the operation's own request is not a failure of the store.
                if error.is_transient() {
                    self.refusal.extend(began);
                }
                let error = match error {
                    StoreError::Failed { reason, .. } => self.health.fail(reason),
                    error => error,
                };
                if serve_parked {
                    group.append(&mut self.parked);
                }
                group.into_iter().for_each(|operation| drop(operation.reply(Err(error.clone()))));
            }
        }
    }

    /// Answers the callers of a committed group, through the flusher if they wait for the disk, and parks claims that
    /// found no job.
    fn answer_callers(&mut self, group: Vec<Box<dyn Operation>>, effects: GroupEffects) {
        if effects.jobs_changed {
            self.wakes.wake();
        }
        let (mut orphans, mut durable) = (Vec::new(), Vec::new());
        for operation in group {
            if operation.parked().is_some() {
                self.parked.push(operation);
            } else if operation.durability() == Durability::Now && self.flusher.is_some() {
                durable.push(operation);
            } else {
                orphans.extend(operation.reply(Ok(())));
            }
        }
        if let (Some(flusher), false) = (&self.flusher, durable.is_empty()) {
            flusher.answer_when_durable(durable);
        }
        if !orphans.is_empty() {
            self.commit(vec![release(orphans)], false);
        }
    }

    /// Runs a group in one transaction: all of it or nothing.
    ///
    /// Parked operations are added at the end of the group if `serve_parked` is set or the group made jobs available.
    fn transact(&mut self, group: &mut Vec<Box<dyn Operation>>, serve_parked: bool) -> Result<GroupEffects, Undone> {
        let behavior = TransactionBehavior::Immediate;
        let transaction = self.connection.transaction_with_behavior(behavior).map_err(Undone::by_store)?;
        let now = clock::now(&transaction, &*self.clock).map_err(Undone::by_store)?;
        let mut effects = GroupEffects::default();
        let db = SqliteDb::new(&transaction);
        let mut run = |operation: &mut Box<dyn Operation>| {
            let mut tx = Tx::new(&db, now);
            (tx.requested_at, tx.waited) = self.refusal.request_time(now, operation.requested_at());
            tx.held = std::mem::take(&mut self.held);
            if let Err(error) = operation.run(&mut tx) {
                // After some errors, such as a full disk, SQLite has already rolled back the whole transaction.
                let by_store = transaction.is_autocommit();
                return Err(if by_store { Undone::ByStore(error) } else { Undone::ByOperation(error) });
            }
            self.held = std::mem::take(&mut tx.held);
            effects.new_work |= tx.new_work;
            effects.jobs_changed |= tx.jobs_changed;
            Ok(effects.new_work)
        };
        let mut new_work = serve_parked;
        for operation in group.iter_mut() {
            new_work |= run(operation)?;
        }
        if new_work {
            let first_parked = group.len();
            group.append(&mut self.parked);
            for operation in &mut group[first_parked..] {
                run(operation)?;
            }
        }
        drop(db);
        transaction.commit().map_err(Undone::by_store)?;
        Ok(effects)
    }

    fn data_version(&self) -> i64 {
        let read = || self.connection.prepare_cached("pragma data_version")?.query_row([], |row| row.get(0));
        // If the version cannot be read, the hint is lost; the next poll reads it again.
        read().unwrap_or_default()
    }
}
