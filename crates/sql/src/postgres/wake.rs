//! Hints between processes, by LISTEN and NOTIFY.
//!
//! A transaction that notifies takes a lock of the whole server when it commits, so statements do not: what they would
//! say is gathered and said beside them, by one short statement at a time. A hint may be lost; polling is the truth.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sqlx::{PgConnection, postgres::PgListener};
use tokio::{sync::Notify, task::JoinSet, time};

use super::{session::Sessions, statements as sql, value::At};
use crate::wakes::Wakes;

/// What is said in one period is said once.
const PERIOD: Duration = Duration::from_millis(2);
/// There is work whose transaction may have begun long ago.
const LATE: &str = "late work";
/// How long after a lost connection the listener tries again.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// A listener that has heard nothing for so long, or for as long as an answer may take, asks whether its connection
/// still lives.
const ASK_AFTER: Duration = Duration::from_secs(10);

/// What this process has to tell the others, and what it hears.
#[derive(Debug)]
pub(crate) struct Hints {
    /// There may be something to claim.
    pub(crate) work: Wakes,
    /// Claims are to wait no longer. Never said to other processes.
    pub(crate) hurry: Wakes,
    /// A job may have changed.
    pub(crate) jobs: Wakes,
    /// Something may have come in behind what has been claimed already.
    late: Arc<AtomicBool>,
    outbox: Arc<Outbox>,
    channel: String,
    /// Ends with its owner.
    _tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Outbox {
    work: AtomicBool,
    late: AtomicBool,
    jobs: AtomicBool,
    filled: Notify,
}

impl Hints {
    /// Begins to listen and to tell, unless a pooler stands in between that knows no listeners.
    pub(crate) fn start(sessions: &Sessions, schema: &str, between_processes: bool) -> Self {
        let (work, jobs, late, outbox) = (Wakes::new(), Wakes::new(), Arc::default(), Arc::default());
        let channel = format!("punctual_{schema}");
        let mut tasks = JoinSet::new();
        if between_processes {
            tasks.spawn(tell(sessions.clone(), channel.clone(), Arc::clone(&outbox)));
            let ears = Receivers { work: work.clone(), jobs: jobs.clone(), late: Arc::clone(&late) };
            tasks.spawn(listen(sessions.clone(), channel.clone(), ears));
        }
        Self { work, hurry: Wakes::new(), jobs, late, outbox, channel, _tasks: tasks }
    }

    /// Tells everybody, this process included, once the caller's own transaction has committed.
    pub(crate) async fn tell_in(&self, connection: &mut PgConnection, now: Option<At>) -> sqlx::Result<()> {
        let tell = sqlx::query(*sql::TELL_IN).bind(now).bind(&self.channel);
        tell.bind([LATE, "jobs"].as_slice()).execute(connection).await.map(drop)
    }

    /// Whether something may have come in late, since this was last asked.
    pub(crate) fn take_late(&self) -> bool {
        self.late.swap(false, Ordering::Relaxed)
    }

    /// There is something to claim: wakes this process and the others.
    pub(crate) fn tell_work(&self) {
        self.work.wake();
        self.outbox.work.store(true, Ordering::Relaxed);
        self.outbox.filled.notify_one();
    }

    /// There is something to claim that may be older than what has been claimed already, likewise.
    pub(crate) fn tell_late_work(&self) {
        self.late.store(true, Ordering::Relaxed);
        self.work.wake();
        self.outbox.late.store(true, Ordering::Relaxed);
        self.outbox.filled.notify_one();
    }

    /// Jobs have changed, likewise.
    pub(crate) fn tell_jobs(&self) {
        self.jobs.wake();
        self.outbox.jobs.store(true, Ordering::Relaxed);
        self.outbox.filled.notify_one();
    }
}

async fn tell(sessions: Sessions, channel: String, outbox: Arc<Outbox>) {
    loop {
        outbox.filled.notified().await;
        let words = [("work", &outbox.work), (LATE, &outbox.late), ("jobs", &outbox.jobs)];
        let said: Vec<&str> =
            words.into_iter().filter(|(_, flag)| flag.swap(false, Ordering::Relaxed)).map(|(word, _)| word).collect();
        let found = sqlx::query("select pg_notify($1, w) from unnest($2::text[]) w").bind(&channel).bind(said);
        if let Err(error) = in_time(&sessions, found.execute(sessions.pool())).await {
            tracing::debug!(%error, "could not notify other processes; they will find it by polling");
        }
        time::sleep(PERIOD).await;
    }
}

/// What hints are passed on to.
struct Receivers {
    work: Wakes,
    jobs: Wakes,
    late: Arc<AtomicBool>,
}

impl Receivers {
    fn hear(&self, word: &str) {
        if word == LATE {
            self.late.store(true, Ordering::Relaxed);
        }
        if word == "jobs" { self.jobs.wake() } else { self.work.wake() }
    }

    /// What was said while nobody listened is unknown: anything may have happened.
    fn hear_again(&self) {
        [LATE, "jobs"].into_iter().for_each(|word| self.hear(word));
    }
}

async fn listen(sessions: Sessions, channel: String, ears: Receivers) {
    loop {
        if let Err(error) = hear(&sessions, &channel, &ears).await {
            tracing::debug!(%error, "stopped listening for hints; polling meanwhile");
        }
        if sessions.pool().is_closed() {
            return;
        }
        time::sleep(RETRY_AFTER).await;
    }
}

async fn hear(sessions: &Sessions, channel: &str, ears: &Receivers) -> sqlx::Result<()> {
    let mut listener = in_time(sessions, async {
        let mut listener = PgListener::connect_with(&sessions.listening_pool()).await?;
        listener.listen(channel).await.map(|()| listener)
    })
    .await?;
    ears.hear_again();
    let ask_after = ASK_AFTER.min(sessions.answer_timeout());
    loop {
        match time::timeout(ask_after, listener.try_recv()).await {
            Ok(said) => match said? {
                Some(said) => ears.hear(said.payload()),
                // The connection was lost and found again.
                None => ears.hear_again(),
            },
            Err(_) => {
                in_time(sessions, sqlx::query("select 1").execute(&mut listener)).await?;
            }
        }
    }
}

/// Does something, unless the server takes too long to answer.
async fn in_time<T>(sessions: &Sessions, work: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    let silent = |_| sqlx::Error::Protocol("no answer in time".to_owned());
    time::timeout(sessions.answer_timeout(), work).await.map_err(silent)?
}
