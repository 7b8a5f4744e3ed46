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
const LAST_WORDS_MAX_LINES: usize = 5;
/// Maximum length of such a line.
const LINE_MAX_BYTES: u64 = 64 << 10;
/// Maximum time for the start of a process.
const STARTING_MAX: Duration = Duration::from_secs(90);
/// How long to wait for its output after it has ended.
const OUTPUT_OPEN_MAX: Duration = Duration::from_secs(1);

/// The result of running a child.
pub(super) struct Life {
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
    Strange(String),
    /// It ended by itself, with this status and this last output.
    Died(ExitStatus, String),
}

impl fmt::Display for ChildExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InOrder => write!(f, "it ended in order"),
            Self::NotStarted(error) => write!(f, "it cannot be started: {error}"),
            Self::Silent(silence) => write!(f, "it said nothing for {} s and was killed", silence.as_secs_f32()),
            Self::Strange(problem) => write!(f, "it said what cannot be understood: {problem}"),
            Self::Died(status, words) if words.is_empty() => write!(f, "it ended with {status}"),
            Self::Died(status, words) => write!(f, "it ended with {status}: {words}"),
        }
    }
}

/// Starts a child, and serves it until it has ended.
pub(super) async fn live(fleet: &Fleet, slot: usize) -> Life {
    let began = Instant::now();
    let mut worker = None;
    let end = match start(fleet, slot) {
        Ok((mut child, stream)) => {
            let end = attend(fleet, slot, &mut child, stream, &mut worker).await;
            fleet.set_stats(slot, None);
            end
        }
        Err(error) => ChildExit::NotStarted(error),
    };
    Life { worker, end, lasted: began.elapsed() }
}

fn start(fleet: &Fleet, slot: usize) -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let mut command = fleet.command(slot);
    command.stdin(Stdio::from(OwnedFd::from(theirs))).stderr(Stdio::piped());
    // A process group of its own: signals from a terminal reach only the supervisor, which decides what to do.
    command.process_group(0).kill_on_drop(true);
    let child = command.spawn()?;
    Ok((child, UnixStream::from_std(ours)?))
}

/// Forwards messages and log lines until the child has ended.
async fn attend(
    fleet: &Fleet,
    slot: usize,
    child: &mut Child,
    stream: UnixStream,
    worker: &mut Option<WorkerId>,
) -> ChildExit {
    let (from, mut to) = stream.into_split();
    let words = Arc::new(Mutex::new(VecDeque::new()));
    let output = tokio::spawn(pass_on(child.stderr.take(), Arc::clone(&words), fleet.log_line()));
    let talked = {
        let mut talk = pin!(talk(fleet, slot, Messages::new(from), worker));
        tokio::select! {
            talked = &mut talk => talked,
            never = pass_orders(fleet, slot, &mut to) => never,
            () = fleet.ending_now.cancelled() => Talk::Over,
            // Its last messages are still read, but not for long, since a process that it started may keep the link
            // open.
            _ = child.wait() => time::timeout(OUTPUT_OPEN_MAX, talk).await.unwrap_or(Talk::Over),
        }
    };
    if matches!(talked, Talk::Silent(_) | Talk::Strange(_)) || fleet.ending_now.is_cancelled() {
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
    let words = words.lock().unwrap_or_else(PoisonError::into_inner).make_contiguous().join("; ");
    match (talked, status) {
        (Talk::InOrder, _) => ChildExit::InOrder,
        (Talk::Silent(silence), _) => ChildExit::Silent(silence),
        (Talk::Strange(problem), _) => ChildExit::Strange(problem),
        (Talk::Failed(problem), Ok(status)) => ChildExit::Died(status, problem),
        // The log lines of a working worker have been forwarded, and do not explain its end.
        (Talk::Over, Ok(status)) if worker.is_some() => ChildExit::Died(status, String::new()),
        (Talk::Over, Ok(status)) => ChildExit::Died(status, words),
        (_, Err(error)) => ChildExit::NotStarted(error),
    }
}

/// How the communication with a child ended.
enum Talk {
    InOrder,
    /// It closed the link.
    Over,
    /// It sent no message for this time.
    Silent(Duration),
    Strange(String),
    /// It reported why it cannot work.
    Failed(String),
}

/// Receives the messages of the child.
async fn talk(fleet: &Fleet, slot: usize, mut from: Messages, worker: &mut Option<WorkerId>) -> Talk {
    let mut problem = None;
    loop {
        // A child sends nothing before it works, and may have to wait for its store.
        let silence = if worker.is_some() { fleet.silence } else { fleet.silence.max(STARTING_MAX) };
        let message = match time::timeout(silence, from.next::<FromWorker>()).await {
            Err(_) => return Talk::Silent(silence),
            Ok(Err(error)) => return Talk::Strange(error.to_string()),
            Ok(Ok(None)) => return problem.map_or(Talk::Over, Talk::Failed),
            Ok(Ok(Some(message))) => message,
        };
        match message {
            FromWorker::WorkerStarted { version, .. } if version != VERSION => {
                return Talk::Strange(format!("it speaks version {version}, not {VERSION}"));
            }
            FromWorker::WorkerStarted { worker: id, pid, .. } => {
                tracing::info!(worker = %id, pid, slot, "a worker process has started");
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
                return Talk::InOrder;
            }
            FromWorker::SendToUser { .. } | FromWorker::Broadcast { .. } => fleet.punctual.look_for_notifications(),
        }
    }
}

/// Sends the drain request to the child. Never returns before the child has ended.
async fn pass_orders(fleet: &Fleet, slot: usize, to: &mut OwnedWriteHalf) -> Talk {
    tokio::select! {
        () = fleet.draining.cancelled() => {}
        () = fleet.until_unwanted(slot) => {}
    }
    if send(to, &ToWorker::Drain).await.is_err() {
        tracing::debug!("a worker process had gone before it was told to");
    }
    std::future::pending().await
}

/// Forwards a child's log lines, and keeps the last ones.
async fn pass_on(
    output: Option<ChildStderr>,
    words: Arc<Mutex<VecDeque<String>>>,
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
        let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
        words.push_back(line);
        if words.len() > LAST_WORDS_MAX_LINES {
            words.pop_front();
        }
    }
}
