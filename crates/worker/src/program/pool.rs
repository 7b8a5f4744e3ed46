//! Processes that run many jobs, one after the other.

use std::{
    fmt,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::join_all;
use punctual_client::{Context, Failure};
use punctual_core::LogLevel;
use tokio::{
    io::AsyncWriteExt,
    process::{Child, ChildStderr, ChildStdin, ChildStdout},
    sync::Semaphore,
    time,
};

use super::{
    Program,
    group::Group,
    messages::{self, ProgramEnd},
    once::{self, LINE_MAX_BYTES, ProgramExit},
    output::{Lines, Log},
};
use crate::HandlerResult;

/// How long a process may live after it has closed its output.
const END_MAX: Duration = Duration::from_secs(1);

/// The processes of one program.
pub(super) struct Pool {
    program: Arc<Program>,
    /// One permit per possible process.
    slots: Semaphore,
    /// Processes without a job.
    idle: Mutex<Vec<PooledProcess>>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("idle", &self.idle().len()).finish()
    }
}

impl Pool {
    pub(super) fn new(program: Arc<Program>, processes: usize) -> Self {
        Self { program, slots: Semaphore::new(processes), idle: Mutex::default() }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<PooledProcess>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a job as soon as a process is free.
    pub(super) async fn run(self: Arc<Self>, ctx: Context) -> HandlerResult {
        let signal = ctx.signal();
        let stopped = || Failure::new("asked to stop");
        let slot = signal.run_until_cancelled(self.slots.acquire()).await;
        let _slot = slot.ok_or_else(stopped)?.map_err(|_| stopped())?;
        loop {
            let mut process = self.free_process(&ctx).await?;
            let served = {
                let mut serve = pin!(process.conversation.serve(&ctx));
                tokio::select! {
                    served = &mut serve => served,
                    () = signal.cancelled() => {
                        let grace = self.program.grace(&ctx);
                        let _ = tokio::join!(process.group.stop(grace), time::timeout(grace, serve));
                        return Err(stopped());
                    }
                }
            };
            match served {
                Served::Ended(end) => {
                    self.take_back(process);
                    return end.into_result(self.program.snooze);
                }
                // It was probably killed in the middle of a message.
                Served::Invalid(_) if process.group.excess().is_some() => {
                    return Err(process.exit_failure(&self.program).await);
                }
                Served::Invalid(problem) => return Err(Failure::new(problem)),
                // It ended before it received the job, so the job is passed to another process. A process that has
                // never run a job cannot run this one.
                Served::Refused if process.jobs > 0 => {}
                Served::Refused | Served::Gone => return Err(process.exit_failure(&self.program).await),
            }
        }
    }

    /// Returns a free process, or starts a new one.
    async fn free_process(&self, ctx: &Context) -> Result<PooledProcess, Failure> {
        loop {
            let idle = self.idle().pop();
            let Some(mut process) = idle else { return PooledProcess::start(&self.program, ctx).await };
            match process.child.try_wait() {
                Ok(None) if process.conversation.stdout.is_quiet() => return Ok(process),
                // Output between two jobs would be taken for the answer to the next job.
                Ok(None) => tracing::warn!(?process.group, "replaced a program that wrote output without a job"),
                // A process that ended while it was idle affects no job.
                _ => process.group.end(),
            }
        }
    }

    /// Keeps a process for the next job.
    fn take_back(&self, mut process: PooledProcess) {
        process.jobs += 1;
        if self.program.jobs_per_process.is_none_or(|most| process.jobs < most) {
            self.idle().push(process);
        } else {
            tokio::spawn(process.stop(self.program.stop_grace));
        }
    }

    /// Ends all idle processes. Called when no more jobs run.
    pub(super) async fn stop(&self) {
        let idle = std::mem::take(&mut *self.idle());
        let grace = self.program.stop_grace;
        join_all(idle.into_iter().map(|process| process.stop(grace))).await;
    }
}

/// A process of a pool.
struct PooledProcess {
    // Dropped before the child, whose process id may be reused once it has been waited for.
    group: Group,
    child: Child,
    conversation: Conversation,
    jobs: u64,
}

/// The pipes to and from a process.
struct Conversation {
    stdin: ChildStdin,
    stdout: Lines<ChildStdout>,
    log: Log<ChildStderr>,
    /// Whether its standard error is still open.
    logs: bool,
}

/// How a process handled a job.
enum Served {
    Ended(ProgramEnd),
    /// It sent an invalid message, or one that could not be executed.
    Invalid(String),
    /// It ended before it received the job.
    Refused,
    /// It ended while it ran the job.
    Gone,
}

impl PooledProcess {
    async fn start(program: &Program, ctx: &Context) -> Result<Self, Failure> {
        let account = program.account().map_err(|invalid| Failure::new(invalid.to_string()))?;
        let (mut child, group) = once::start(program, once::command(program, ctx, account.as_ref()), ctx).await?;
        let parts = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = parts else {
            return Err(Failure::new("the program has no input or output"));
        };
        let stdout = Lines::new(stdout, LINE_MAX_BYTES);
        let conversation = Conversation { stdin, stdout, log: Log::new(stderr), logs: true };
        Ok(Self { group, child, conversation, jobs: 0 })
    }

    /// The failure of a process that ended while it ran a job.
    async fn exit_failure(mut self, program: &Program) -> Failure {
        let status = time::timeout(END_MAX, self.child.wait()).await;
        let Ok(Ok(status)) = status else {
            return Failure::new("the program closed its output in the middle of a job");
        };
        let exit = ProgramExit { status, last_line: self.conversation.log.last.take(), reported: None };
        let failure = once::exit_failure(program, &self.group, exit);
        self.group.end();
        self.group.kill_descendants().await;
        failure
    }

    async fn stop(self, grace: Duration) {
        let Self { group, mut child, conversation, .. } = self;
        // Closing its input tells the process to end; its output stays open, so that writing to it does not kill the
        // process.
        let Conversation { stdin, stdout: _stdout, log: _log, .. } = conversation;
        drop(stdin);
        let ended = time::timeout(grace, child.wait()).await;
        if ended.is_err() {
            let _ = tokio::join!(group.stop(grace), child.wait());
        }
        group.end();
        group.kill_descendants().await;
    }
}

impl Conversation {
    async fn serve(&mut self, ctx: &Context) -> Served {
        let line = match messages::job_line(ctx) {
            Ok(line) => line,
            Err(_) => return Served::Invalid("the job cannot be written as JSON".into()),
        };
        self.log.last = None;
        let Self { stdin, stdout, log, logs } = self;
        let served = {
            let mut write = pin!(stdin.write_all(&line));
            let mut written = false;
            let mut receive = pin!(receive(stdout, ctx));
            loop {
                tokio::select! {
                    result = &mut write, if !written => match result {
                        Ok(()) => written = true,
                        Err(_) => break Served::Refused,
                    },
                    served = &mut receive => break match served {
                        // The unsent rest of the line would precede the next job.
                        Served::Ended(_) if !written => {
                            Served::Invalid("the program reported an end before it had read its job".into())
                        }
                        served => served,
                    },
                    more = log.copy_next(ctx), if *logs => *logs = more,
                }
            }
        };
        // Log lines written before its answer belong to this job.
        log.copy_rest(ctx);
        served
    }
}

/// Receives messages until one reports the end of the job. All other lines go to the job's log.
async fn receive(stdout: &mut Lines<ChildStdout>, ctx: &Context) -> Served {
    while let Some(line) = stdout.next().await {
        match messages::parse(&line) {
            None => ctx.log(LogLevel::Info, line.to_text()),
            Some(Err(problem)) => return Served::Invalid(problem),
            Some(Ok(message)) => match messages::act(ctx, message).await {
                Ok(None) => {}
                Ok(Some(end)) => return Served::Ended(end),
                Err(problem) => return Served::Invalid(problem),
            },
        }
    }
    Served::Gone
}
