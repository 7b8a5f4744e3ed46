//! A worker process, on its own side.

use std::{
    fs::File,
    io,
    os::{fd::AsFd, unix::net::UnixStream as StdStream},
    process,
    sync::{Arc, OnceLock},
    thread,
    time::Duration,
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    unistd::dup2_stdin,
};
use punctual_client::Punctual;
use punctual_core::{Notification, StoreError, WorkerId};
use tokio::{
    net::{UnixStream, unix::OwnedWriteHalf},
    sync::mpsc,
    task::spawn_blocking,
    time,
};
use tokio_util::sync::CancellationToken;

use super::message::{FromWorker, Messages, ToWorker, VERSION, send};
use crate::{RunningWorker, Stats, program::kill_programs_of};

/// Interval of heartbeats to the supervisor.
const HEARTBEAT_PERIOD: Duration = Duration::from_millis(500);
/// Capacity of the queue of messages. Those about notifications are hints: if one is dropped, polling finds the
/// notification.
const OUTBOX_MAX_COUNT: usize = 1_000;
/// How long a process may take to release its jobs after its supervisor is gone.
const ORPHANED_MAX: Duration = Duration::from_millis(1_500);

/// The link from this worker process to its supervisor, which is the standard input of the process.
#[derive(Debug)]
pub struct Supervised {
    stream: UnixStream,
    /// The id of the worker, once it has started.
    worker: Arc<OnceLock<WorkerId>>,
}

impl Supervised {
    /// Opens the link. Fails in a process that was not started by a [`Supervisor`](super::Supervisor).
    pub fn link() -> io::Result<Self> {
        let watched = StdStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        // Fails unless standard input is a connected socket.
        watched.peer_addr()?;
        // Child processes must not inherit the link: the supervisor would not notice the end of this process, and they
        // could send messages in its name.
        dup2_stdin(File::open("/dev/null")?)?;
        let (stream, worker) = (watched.try_clone()?, Arc::default());
        stream.set_nonblocking(true)?;
        end_with_supervisor(watched, Arc::clone(&worker));
        Ok(Self { stream: UnixStream::from_std(stream)?, worker })
    }

    /// Reports to the supervisor why this process cannot work.
    pub async fn fail(self, message: impl Into<String>) {
        let (_, mut to) = self.stream.into_split();
        let _ = send(&mut to, &FromWorker::WorkerError { message: message.into() }).await;
    }

    /// Runs the worker until the supervisor or `stop` ends it, or the supervisor is gone. In the last case the jobs are
    /// released, and this process ends within two seconds. If the store fails permanently, this is reported to the
    /// supervisor, and the error is returned.
    pub async fn work(
        self,
        punctual: &Punctual,
        worker: RunningWorker,
        stop: impl Future<Output = ()>,
    ) -> Result<Stats, StoreError> {
        let id = *self.worker.get_or_init(|| worker.id());
        let stream = self.stream;
        let (from, mut to) = stream.into_split();
        let (outbox, messages) = mpsc::channel(OUTBOX_MAX_COUNT);
        let hints = outbox.clone();
        punctual.on_notification(move |notification| drop(hints.try_send(hint(notification))));
        let started = FromWorker::WorkerStarted { version: VERSION, worker: id, pid: process::id() };
        let _ = send(&mut to, &started).await;
        let (drain, gone) = (CancellationToken::new(), CancellationToken::new());
        let listening = tokio::spawn(listen(Messages::new(from), drain.clone(), gone.clone()));
        let (stats, stop_sending) = (worker.watch_stats(), CancellationToken::new());
        let sender = tokio::spawn(send_messages(to, messages, stats, stop_sending.clone()));
        let failure = tokio::select! {
            () = drain.cancelled() => None,
            () = gone.cancelled() => None,
            () = stop => None,
            error = worker.failed() => Some(error),
        };
        if let Some(StoreError::Failed { store, reason }) = &failure {
            let _ = outbox.send(FromWorker::StoreFailed { store: store.clone(), reason: reason.clone() }).await;
            gone.cancel();
        }
        let stats = worker.stop_or_hurry(&gone).await;
        // Programs that have left their process group end here, too.
        let _ = spawn_blocking(move || kill_programs_of(id)).await;
        if failure.is_none() {
            let _ = outbox.send(FromWorker::WorkerShutdown { worker: id, stats }).await;
        }
        stop_sending.cancel();
        let _ = sender.await;
        listening.abort();
        failure.map_or(Ok(stats), Err)
    }
}

fn hint(notification: &Notification) -> FromWorker {
    match &notification.user_id {
        Some(user) => FromWorker::SendToUser { notification: notification.id, user: user.clone() },
        None => FromWorker::Broadcast { notification: notification.id },
    }
}

/// Receives the messages of the supervisor until it is gone.
async fn listen(mut from: Messages, drain: CancellationToken, gone: CancellationToken) {
    while let Ok(Some(ToWorker::Drain)) = from.next().await {
        drain.cancel();
    }
    gone.cancel();
}

/// Sends heartbeats and other messages until `last`, and then the messages that remain.
async fn send_messages(
    mut to: OwnedWriteHalf,
    mut messages: mpsc::Receiver<FromWorker>,
    stats: impl Fn() -> Stats,
    last: CancellationToken,
) {
    let mut heartbeats = time::interval(HEARTBEAT_PERIOD);
    loop {
        let message = tokio::select! {
            Some(message) = messages.recv() => message,
            _ = heartbeats.tick() => FromWorker::Heartbeat { stats: stats() },
            () = last.cancelled() => break,
        };
        let _ = send(&mut to, &message).await;
    }
    while let Ok(message) = messages.try_recv() {
        let _ = send(&mut to, &message).await;
    }
}

/// Ends this process soon after its supervisor has ended: on a thread of its own, which no handler can block.
fn end_with_supervisor(link: StdStream, worker: Arc<OnceLock<WorkerId>>) {
    let watch = move || {
        // The hang-up of the other side is always reported.
        let mut links = [PollFd::new(link.as_fd(), PollFlags::empty())];
        while poll(&mut links, PollTimeout::NONE).is_err() {}
        thread::sleep(ORPHANED_MAX);
        worker.get().copied().map(kill_programs_of);
        process::exit(1);
    };
    if let Err(error) = thread::Builder::new().name("punctual-orphan".into()).spawn(watch) {
        tracing::error!(%error, "cannot start a thread; this process may outlive its supervisor for a while");
    }
}
