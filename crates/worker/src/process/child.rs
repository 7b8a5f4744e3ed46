//! Runs one worker process from start to end, on the side of its supervisor.

use std::{
    collections::VecDeque,
    fmt, io,
    os::fd::OwnedFd,
    pin::pin,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use punctual_core::{StoreError, WorkerId};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    net::{UnixStream, unix::OwnedWriteHalf},
    process::{Child, ChildStderr},
    time::{self, Instant},
};

use super::{
    fleet::Fleet,
    message::{FromWorker, Messages, ToWorker, VERSION, send},
};

/// Number of last lines of a child's standard error that are kept to explain a failed start.
const LAST_LINES_MAX: usize = 5;
/// Maximum length of such a line.
const LINE_MAX_BYTES: u64 = 64 << 10;
/// Maximum time for the start of a process.
const START_TIMEOUT: Duration = Duration::from_secs(90);
/// How long to wait for its output after it has ended.
const OUTPUT_OPEN_MAX: Duration = Duration::from_secs(1);

/// The result of running a child.
pub(super) struct ChildRun {
    /// Its worker id, if it started to work.
    pub(super) worker: Option<WorkerId>,
    pub(super) end: ChildExit,
    pub(super) lasted: Duration,
}

/// How a child ended.
pub(super) enum ChildExit {
    /// It was asked to end, or ended by itself, without an error.
    InOrder,
    /// The process could not be started.
    NotStarted(io::Error),
    /// It was killed because it sent no message for this time.
    Silent(Duration),
    /// It sent a message that the supervisor does not understand.
    InvalidMessage(String),
    /// It ended by itself, with this status and this last output.
    Died(ExitStatus, String),
}

impl fmt::Display for ChildExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InOrder => write!(f, "it ended without an error"),
            Self::NotStarted(error) => write!(f, "it cannot be started: {error}"),
            Self::Silent(silence) => write!(f, "it sent no message for {} s and was killed", silence.as_secs_f32()),
            Self::InvalidMessage(problem) => write!(f, "it sent an invalid message: {problem}"),
            Self::Died(status, output) if output.is_empty() => write!(f, "it ended with {status}"),
            Self::Died(status, output) => write!(f, "it ended with {status}: {output}"),
        }
    }
}

/// Starts a child, and serves it until it has ended.
pub(super) async fn run(fleet: &Fleet, slot: usize) -> ChildRun {
    let began = Instant::now();
    let mut worker = None;
    let end = match start(fleet, slot) {
        Ok(started) => {
            let end = serve(fleet, slot, started, &mut worker).await;
            fleet.set_stats(slot, None);
            end
        }
        Err(error) => ChildExit::NotStarted(error),
    };
    ChildRun { worker, end, lasted: began.elapsed() }
}

/// A started child, and the link to it.
struct StartedChild {
    child: Child,
    link: UnixStream,
}

fn start(fleet: &Fleet, slot: usize) -> io::Result<StartedChild> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let mut command = fleet.command(slot);
    command.stdin(Stdio::from(OwnedFd::from(theirs))).stderr(Stdio::piped());
    // A process group of its own: signals from a terminal reach only the supervisor, which decides what to do.
    command.process_group(0).kill_on_drop(true);
    let child = command.spawn()?;
    Ok(StartedChild { child, link: UnixStream::from_std(ours)? })
}

/// Forwards messages and log lines until the child has ended.
async fn serve(fleet: &Fleet, slot: usize, started: StartedChild, worker: &mut Option<WorkerId>) -> ChildExit {
    let StartedChild { mut child, link } = started;
    let (from, mut to) = link.into_split();
    let last_lines = Arc::new(Mutex::new(VecDeque::new()));
    let output = tokio::spawn(forward_output(child.stderr.take(), Arc::clone(&last_lines), fleet.log_line()));
    let link_end = {
        let mut receive = pin!(receive(fleet, slot, Messages::new(from), worker));
        tokio::select! {
            link_end = &mut receive => link_end,
            never = send_drain(fleet, slot, &mut to) => never,
            () = fleet.ending_now.cancelled() => LinkEnd::Closed,
            // Its last messages are still read, but not for long, since a process that it started may keep the link
            // open.
            _ = child.wait() => time::timeout(OUTPUT_OPEN_MAX, receive).await.unwrap_or(LinkEnd::Closed),
        }
    };
    if matches!(link_end, LinkEnd::Silent(_) | LinkEnd::InvalidMessage(_)) || fleet.ending_now.is_cancelled() {
        let _ = child.start_kill();
    }
    // It has closed its end, or is about to: a process that does not exit soon is stuck.
    let status = match time::timeout(fleet.silence, child.wait()).await {
        Ok(status) => status,
        Err(_) => {
            let _ = child.start_kill();
            child.wait().await
        }
    };
    let _ = time::timeout(OUTPUT_OPEN_MAX, output).await;
    let last_lines = last_lines.lock().unwrap_or_else(PoisonError::into_inner).make_contiguous().join("; ");
    match (link_end, status) {
        (LinkEnd::InOrder, _) => ChildExit::InOrder,
        (LinkEnd::Silent(silence), _) => ChildExit::Silent(silence),
        (LinkEnd::InvalidMessage(problem), _) => ChildExit::InvalidMessage(problem),
        (LinkEnd::Failed(problem), Ok(status)) => ChildExit::Died(status, problem),
        // The log lines of a working worker have been forwarded, and do not explain its end.
        (LinkEnd::Closed, Ok(status)) if worker.is_some() => ChildExit::Died(status, String::new()),
        (LinkEnd::Closed, Ok(status)) => ChildExit::Died(status, last_lines),
        (_, Err(error)) => ChildExit::NotStarted(error),
    }
}

/// How the communication with a child ended.
enum LinkEnd {
    InOrder,
    /// It closed the link.
    Closed,
    /// It sent no message for this time.
    Silent(Duration),
    InvalidMessage(String),
    /// It reported why it cannot work.
    Failed(String),
}

/// Receives the messages of the child.
async fn receive(fleet: &Fleet, slot: usize, mut from: Messages, worker: &mut Option<WorkerId>) -> LinkEnd {
    let mut problem = None;
    loop {
        // A child sends nothing before it works, and may have to wait for its store.
        let silence = if worker.is_some() { fleet.silence } else { fleet.silence.max(START_TIMEOUT) };
        let message = match time::timeout(silence, from.next::<FromWorker>()).await {
            Err(_) => return LinkEnd::Silent(silence),
            Ok(Err(error)) => return LinkEnd::InvalidMessage(error.to_string()),
            Ok(Ok(None)) => return problem.map_or(LinkEnd::Closed, LinkEnd::Failed),
            Ok(Ok(Some(message))) => message,
        };
        match message {
            FromWorker::WorkerStarted { version, .. } if version != VERSION => {
                return LinkEnd::InvalidMessage(format!("protocol version {version}, expected {VERSION}"));
            }
            FromWorker::WorkerStarted { worker: id, pid, .. } => {
                tracing::info!(worker = %id, pid, slot, "worker process started");
                *worker = Some(id);
                fleet.set_stats(slot, Some(crate::Stats::default()));
            }
            FromWorker::Heartbeat { stats } => fleet.set_stats(slot, Some(stats)),
            FromWorker::WorkerError { message } => problem = Some(message),
            FromWorker::StoreFailed { store, reason } => {
                let error = StoreError::Failed { store, reason };
                problem = Some(error.to_string());
                fleet.fail(error);
            }
            FromWorker::WorkerShutdown { stats, .. } => {
                fleet.set_stats(slot, Some(stats));
                return LinkEnd::InOrder;
            }
            FromWorker::SendToUser { .. } | FromWorker::Broadcast { .. } => fleet.punctual.poll_notifications(),
        }
    }
}

/// Sends the drain request to the child. Never returns before the child has ended.
async fn send_drain(fleet: &Fleet, slot: usize, to: &mut OwnedWriteHalf) -> LinkEnd {
    tokio::select! {
        () = fleet.draining.cancelled() => {}
        () = fleet.until_unwanted(slot) => {}
    }
    if send(to, &ToWorker::Drain).await.is_err() {
        tracing::debug!("a worker process ended before it received the drain request");
    }
    std::future::pending().await
}

/// Forwards a child's log lines, and keeps the last ones.
async fn forward_output(
    output: Option<ChildStderr>,
    last_lines: Arc<Mutex<VecDeque<String>>>,
    log_line: Arc<dyn Fn(&str) + Send + Sync>,
) {
    let Some(output) = output else { return };
    let mut reader = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        let read = (&mut reader).take(LINE_MAX_BYTES).read_until(b'\n', &mut line).await;
        if read.unwrap_or(0) == 0 {
            return;
        }
        let line = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
        log_line(&line);
        let mut lines = last_lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push_back(line);
        if lines.len() > LAST_LINES_MAX {
            lines.pop_front();
        }
    }
}
