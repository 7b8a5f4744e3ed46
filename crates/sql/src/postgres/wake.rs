//! Wake-up hints between processes, by LISTEN and NOTIFY.
//!
//! A transaction that notifies takes a lock of the whole server when it commits, so the store's statements do not
//! notify. Their hints are collected and sent separately, by one short statement at a time. A hint may be lost;
//! correctness depends on polling only.

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

/// Equal hints within one period are sent once.
const PERIOD: Duration = Duration::from_millis(2);
/// The hint for work whose transaction may have begun long ago.
const LATE: &str = "late work";
/// How long after a lost connection the listener reconnects.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// A listener that has received nothing for this time, or for the answer timeout, tests its connection.
const TEST_AFTER: Duration = Duration::from_secs(10);

/// The hints that this process sends and receives.
#[derive(Debug)]
pub(crate) struct Hints {
    /// There may be jobs to claim.
    pub(crate) work: Wakes,
    /// Waiting claims are to return. Not sent to other processes.
    pub(crate) claim_wakes: Wakes,
    /// A job may have changed.
    pub(crate) jobs: Wakes,
    /// A job may have been queued behind jobs already claimed.
    late: Arc<AtomicBool>,
    outbox: Arc<Outbox>,
    channel: String,
    /// The tasks end when this is dropped.
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
    /// Starts the tasks that listen and notify, unless a pooler is in use, which does not support LISTEN.
    pub(crate) fn start(sessions: &Sessions, schema: &str, between_processes: bool) -> Self {
        let (work, jobs, late, outbox) = (Wakes::new(), Wakes::new(), Arc::default(), Arc::default());
        let channel = format!("punctual_{schema}");
        let mut tasks = JoinSet::new();
        if between_processes {
            tasks.spawn(send(sessions.clone(), channel.clone(), Arc::clone(&outbox)));
            let receivers = Receivers { work: work.clone(), jobs: jobs.clone(), late: Arc::clone(&late) };
            tasks.spawn(listen(sessions.clone(), channel.clone(), receivers));
        }
        Self { work, claim_wakes: Wakes::new(), jobs, late, outbox, channel, _tasks: tasks }
    }

    /// Notifies all processes, including this one, once the caller's own transaction has committed.
    pub(crate) async fn notify_in(&self, connection: &mut PgConnection, now: Option<At>) -> sqlx::Result<()> {
        let notify = sqlx::query(*sql::ANNOUNCE_LATE_COMMIT).bind(now).bind(&self.channel);
        notify.bind([LATE, "jobs"].as_slice()).execute(connection).await.map(drop)
    }

    /// Returns whether a job may have been queued late since the last call.
    pub(crate) fn take_late(&self) -> bool {
        self.late.swap(false, Ordering::Relaxed)
    }

    /// Notifies this process and the others that there are jobs to claim.
    pub(crate) fn notify_work(&self) {
        self.work.wake();
        self.outbox.work.store(true, Ordering::Relaxed);
        self.outbox.filled.notify_one();
    }

    /// Notifies them of jobs to claim that may be older than jobs already claimed.
    pub(crate) fn notify_late_work(&self) {
        self.late.store(true, Ordering::Relaxed);
        self.work.wake();
        self.outbox.late.store(true, Ordering::Relaxed);
        self.outbox.filled.notify_one();
    }

    /// Notifies them that jobs have changed.
    pub(crate) fn notify_jobs(&self) {
        self.jobs.wake();
        self.outbox.jobs.store(true, Ordering::Relaxed);
        self.outbox.filled.notify_one();
    }
}

/// Sends the collected hints to other processes.
async fn send(sessions: Sessions, channel: String, outbox: Arc<Outbox>) {
    loop {
        outbox.filled.notified().await;
        let all = [("work", &outbox.work), (LATE, &outbox.late), ("jobs", &outbox.jobs)];
        let hints: Vec<&str> =
            all.into_iter().filter(|(_, flag)| flag.swap(false, Ordering::Relaxed)).map(|(hint, _)| hint).collect();
        let notify = sqlx::query("select pg_notify($1, w) from unnest($2::text[]) w").bind(&channel).bind(hints);
        if let Err(error) = in_time(&sessions, notify.execute(sessions.pool())).await {
            tracing::debug!(%error, "could not notify other processes; they will find it by polling");
        }
        time::sleep(PERIOD).await;
    }
}

/// The receivers of hints within this process.
struct Receivers {
    work: Wakes,
    jobs: Wakes,
    late: Arc<AtomicBool>,
}

impl Receivers {
    fn receive(&self, hint: &str) {
        if hint == LATE {
            self.late.store(true, Ordering::Relaxed);
        }
        if hint == "jobs" { self.jobs.wake() } else { self.work.wake() }
    }

    /// Hints sent while the connection was lost were missed: assumes that anything may have changed.
    fn receive_all(&self) {
        [LATE, "jobs"].into_iter().for_each(|hint| self.receive(hint));
    }
}

async fn listen(sessions: Sessions, channel: String, receivers: Receivers) {
    loop {
        if let Err(error) = receive(&sessions, &channel, &receivers).await {
            tracing::debug!(%error, "stopped listening for hints; polling meanwhile");
        }
        if sessions.pool().is_closed() {
            return;
        }
        time::sleep(RETRY_AFTER).await;
    }
}

/// Receives hints until the connection fails.
async fn receive(sessions: &Sessions, channel: &str, receivers: &Receivers) -> sqlx::Result<()> {
    let mut listener = in_time(sessions, async {
        let mut listener = PgListener::connect_with(&sessions.listening_pool()).await?;
        listener.listen(channel).await.map(|()| listener)
    })
    .await?;
    receivers.receive_all();
    let test_after = TEST_AFTER.min(sessions.answer_timeout());
    loop {
        match time::timeout(test_after, listener.try_recv()).await {
            Ok(received) => match received? {
                Some(hint) => receivers.receive(hint.payload()),
                // The connection was lost and re-established.
                None => receivers.receive_all(),
            },
            Err(_) => {
                in_time(sessions, sqlx::query("select 1").execute(&mut listener)).await?;
            }
        }
    }
}

/// Executes an operation with a timeout for the server's answer.
async fn in_time<T>(sessions: &Sessions, work: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    let silent = |_| sqlx::Error::Protocol("no answer in time".to_owned());
    time::timeout(sessions.answer_timeout(), work).await.map_err(silent)?
}
