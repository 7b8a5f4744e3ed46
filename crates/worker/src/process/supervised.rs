//! A worker process, from its own side.

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

/// How often it says that it is there.
const HEARTBEAT_PERIOD: Duration = Duration::from_millis(500);
/// Messages that may wait to be sent. Those to users are hints: one that is dropped is found before long.
const OUTBOX_MAX_COUNT: usize = 1_000;
/// How long a process whose supervisor is gone may take to give back its jobs.
const ORPHANED_MAX: Duration = Duration::from_millis(1_500);

/// The link to the supervisor of this process, which it has as its standard input.
#[derive(Debug)]
pub struct Supervised {
    stream: UnixStream,
    /// Who works here, once somebody does.
    worker: Arc<OnceLock<WorkerId>>,
}

impl Supervised {
    /// Takes up the link. A process that was not started by a [`Supervisor`](super::Supervisor) has none.
    pub fn link() -> io::Result<Self> {
        let watched = StdStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        // What is no socket has no other side.
        watched.peer_addr()?;
        // Nobody whom we start is to have it as well: the supervisor would not notice our end, and strangers could
        // speak for us.
        dup2_stdin(File::open("/dev/null")?)?;
        let (stream, worker) = (watched.try_clone()?, Arc::default());
        stream.set_nonblocking(true)?;
        end_with_supervisor(watched, Arc::clone(&worker));
        Ok(Self { stream: UnixStream::from_std(stream)?, worker })
    }

    /// Tells the supervisor why this process cannot work.
    pub async fn fail(self, message: impl Into<String>) {
        let (_, mut to) = self.stream.into_split();
        let _ = send(&mut to, &FromWorker::WorkerError { message: message.into() }).await;
    }

    /// Works until the supervisor or `stop` says to end, or the supervisor is gone. Then nothing of this process is
    /// left within two seconds: its jobs are given back. If the store fails for good meanwhile, the supervisor is told,
    /// and the error is returned.
    pub async fn work(
        self,
        punctual: &Punctual,
        worker: RunningWorker,
        stop: impl Future<Output = ()>,
    ) -> Result<Stats, StoreError> {
        let id = *self.worker.get_or_init(|| worker.id());
        let stream = self.stream;
        let (from, mut to) = stream.into_split();
        let (outbox, told) = mpsc::channel(OUTBOX_MAX_COUNT);
        let ears = outbox.clone();
        punctual.on_told(move |told| drop(ears.try_send(hint(told))));
        let started = FromWorker::WorkerStarted { version: VERSION, worker: id, pid: process::id() };
        let _ = send(&mut to, &started).await;
        let (drain, gone) = (CancellationToken::new(), CancellationToken::new());
        let listening = tokio::spawn(listen(Messages::new(from), drain.clone(), gone.clone()));
        let (stats, speaking) = (worker.watch_stats(), CancellationToken::new());
        let voice = tokio::spawn(speak(to, told, stats, speaking.clone()));
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
        // What has left its group ends here too.
        let _ = spawn_blocking(move || kill_programs_of(id)).await;
        if failure.is_none() {
            let _ = outbox.send(FromWorker::WorkerShutdown { worker: id, stats }).await;
        }
        speaking.cancel();
        let _ = voice.await;
        listening.abort();
        failure.map_or(Ok(stats), Err)
    }
}

fn hint(told: &Notification) -> FromWorker {
    match &told.user_id {
        Some(user) => FromWorker::SendToUser { notification: told.id, user: user.clone() },
        None => FromWorker::Broadcast { notification: told.id },
    }
}

/// Hears what the supervisor says, until it is gone.
async fn listen(mut from: Messages, drain: CancellationToken, gone: CancellationToken) {
    while let Ok(Some(ToWorker::Drain)) = from.next().await {
        drain.cancel();
    }
    gone.cancel();
}

/// Sends heartbeats, and what else there is to say, until there is no more and all has been said.
async fn speak(
    mut to: OwnedWriteHalf,
    mut told: mpsc::Receiver<FromWorker>,
    stats: impl Fn() -> Stats,
    last: CancellationToken,
) {
    let mut beats = time::interval(HEARTBEAT_PERIOD);
    loop {
        let message = tokio::select! {
            Some(message) = told.recv() => message,
            _ = beats.tick() => FromWorker::Heartbeat { stats: stats() },
            () = last.cancelled() => break,
        };
        let _ = send(&mut to, &message).await;
    }
    while let Ok(message) = told.try_recv() {
        let _ = send(&mut to, &message).await;
    }
}

/// Ends this process soon after its supervisor, whatever else it does: on a thread of its own, which no handler can
/// hold up.
fn end_with_supervisor(link: StdStream, worker: Arc<OnceLock<WorkerId>>) {
    let watch = move || {
        // The end of the other side is told whatever else is asked for.
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
