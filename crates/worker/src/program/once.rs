//! Programs with one process per job.

use std::{
    fs::File,
    io::Read,
    os::unix::{
        fs::{MetadataExt, OpenOptionsExt},
        process::ExitStatusExt,
    },
    pin::pin,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use nix::{fcntl::OFlag, sys::signal::Signal, unistd::User};
use punctual_client::{Context, Failure};
use punctual_core::{JobError, Json, Retry, job::E_LIMIT, limits};
use tempfile::NamedTempFile;
use tokio::{
    io::AsyncWriteExt,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    time,
};
use tokio_util::sync::CancellationToken;

use super::{
    Program, ResultFrom,
    group::Group,
    launch::launch,
    mark::Mark,
    messages::{self, ProgramEnd},
    output::{Line, Lines, Log},
};
use crate::HandlerResult;

/// How long to wait for output after a program's end, if a detached process that it started keeps the output open.
const PIPES_OPEN_MAX: Duration = Duration::from_secs(1);
/// Maximum length of a line of output: a result of maximum size, in a message.
pub(super) const LINE_MAX_BYTES: usize = limits::RESULT_MAX_BYTES + 1_024;

/// The messages of a program so far.
#[derive(Default)]
struct Received {
    end: Option<ProgramEnd>,
    last_line: Line,
    /// The error of an invalid message, or of one that could not be executed.
    problem: Option<String>,
    last_error: Option<String>,
}

/// Runs a job.
pub(super) async fn run(program: Arc<Program>, ctx: Context) -> HandlerResult {
    let account = program.account().map_err(|invalid| Failure::new(invalid.to_string()))?;
    let files = Files::make(&program, &ctx, account.as_ref())?;
    let mut command = command(&program, &ctx, account.as_ref());
    set_job_environment(&mut command, &ctx, &files);
    let (mut child, group) = start(&program, command, &ctx).await?;
    let (received, signal) = (Mutex::new(Received::default()), ctx.signal());
    let status = {
        let mut exchange = pin!(exchange(&ctx, &mut child, &group, &received));
        tokio::select! {
            status = &mut exchange => status,
            () = signal.cancelled() => {
                // Its messages are still received meanwhile.
                let grace = program.grace(&ctx);
                let _ = tokio::join!(group.stop(grace), time::timeout(grace, exchange));
                return Err(Failure::new("asked to stop"));
            }
        }
    };
    let status = status.map_err(|error| Failure::new(format!("cannot wait for the program: {error}")))?;
    let received = received.into_inner().unwrap_or_else(PoisonError::into_inner);
    if group.excess().is_some() || !status.success() && received.problem.is_none() {
        let exit = ProgramExit { status, last_line: received.last_error, reported: received.end };
        return Err(exit_failure(&program, &group, exit));
    }
    if let Some(problem) = received.problem {
        return Err(Failure::new(problem));
    }
    match (received.end, program.result) {
        (Some(end), _) => end.into_result(program.snooze),
        (None, ResultFrom::Line) => of_line(received.last_line),
        (None, ResultFrom::File) => files.result(account.as_ref()),
        (None, ResultFrom::Nowhere) => Ok(None),
    }
}

/// Writes the payload to the program and receives its messages until it has ended, together with all that it started.
async fn exchange(
    ctx: &Context,
    child: &mut Child,
    group: &Group,
    received: &Mutex<Received>,
) -> std::io::Result<ExitStatus> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let payload = ctx.claim().job.spec.payload.as_str().as_bytes();
    let ended = CancellationToken::new();
    let wait = async {
        let status = child.wait().await;
        group.end();
        group.kill_descendants().await;
        ended.cancel();
        status
    };
    let feed = ended.run_until_cancelled(feed(stdin, payload));
    let (_, (), (), status) =
        tokio::join!(feed, listen(stdout, ctx, received, &ended), log(stderr, ctx, received, &ended), wait);
    status
}

async fn feed(stdin: Option<ChildStdin>, payload: &[u8]) {
    if let Some(mut stdin) = stdin {
        // A program that does not read its payload may close the pipe.
        let _ = stdin.write_all(payload).await;
    }
}

/// Completes when no more output is expected from a program that has ended, although a process that it started keeps
/// its output open.
async fn output_ended(ended: &CancellationToken) {
    ended.cancelled().await;
    time::sleep(PIPES_OPEN_MAX).await;
}

async fn log(stderr: Option<ChildStderr>, ctx: &Context, received: &Mutex<Received>, ended: &CancellationToken) {
    let Some(stderr) = stderr else { return };
    let mut log = Log::new(stderr);
    loop {
        let more = tokio::select! {
            biased;
            more = log.copy_next(ctx) => more,
            () = output_ended(ended) => false,
        };
        received.lock().unwrap_or_else(PoisonError::into_inner).last_error.clone_from(&log.last);
        if !more {
            return;
        }
    }
}

async fn listen(stdout: Option<ChildStdout>, ctx: &Context, received: &Mutex<Received>, ended: &CancellationToken) {
    let Some(stdout) = stdout else { return };
    let mut lines = Lines::new(stdout, LINE_MAX_BYTES);
    loop {
        let line = tokio::select! {
            biased;
            line = lines.next() => line,
            () = output_ended(ended) => lines.rest(),
        };
        let Some(line) = line else { return };
        let result = match messages::parse(&line) {
            Some(Ok(message)) => messages::act(ctx, message).await,
            Some(Err(problem)) => Err(problem),
            None => {
                if !line.is_blank() {
                    received.lock().unwrap_or_else(PoisonError::into_inner).last_line = line;
                }
                continue;
            }
        };
        let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(end) => received.end = end.or(received.end.take()),
            Err(problem) => received.problem = Some(problem),
        }
    }
}

/// How a program ended.
pub(super) struct ProgramExit {
    pub(super) status: ExitStatus,
    /// The last line of its standard error.
    pub(super) last_line: Option<String>,
    /// The end of the job that it reported before.
    pub(super) reported: Option<ProgramEnd>,
}

/// The failure for an unsuccessful end of a program.
pub(super) fn exit_failure(program: &Program, group: &Group, exit: ProgramExit) -> Failure {
    let ProgramExit { status, last_line, reported } = exit;
    let limit = |problem: String| Failure::of(JobError::coded(E_LIMIT, problem), Retry::ByPolicy);
    if let Some(excess) = group.excess() {
        return limit(excess.to_owned());
    }
    if let Some(time) = program.limits.cpu_time.filter(|_| status.signal() == Some(Signal::SIGXCPU as i32)) {
        return limit(format!("cpu_time: it used more than {} s of CPU time", time.as_secs()));
    }
    let reason = match &reported {
        Some(ProgramEnd::Fail { error, .. }) => Some(error.clone()),
        _ => last_line,
    };
    let problem =
        format!("the program ended with {status}{}", reason.map_or(String::new(), |reason| format!(": {reason}")));
    match status.code() {
        Some(code) if program.fail_codes.contains(&code) => Failure::permanent(problem),
        Some(code) if program.snooze_codes.contains(&code) => match reported {
            Some(ProgramEnd::Snooze(Some(after))) => Failure::snooze(after),
            _ => Failure::snooze(program.snooze),
        },
        _ => Failure::new(problem),
    }
}

/// Reads a result from the last line of the output.
fn of_line(line: Line) -> HandlerResult {
    if line.cut > 0 || line.text.len() > limits::RESULT_MAX_BYTES {
        let problem = format!("the last line of the output has more than {} bytes", limits::RESULT_MAX_BYTES);
        return Err(Failure::permanent(problem));
    }
    Ok(as_json(&String::from_utf8_lossy(line.text.trim_ascii())))
}

/// Valid JSON as it is; any other text as a JSON string.
fn as_json(text: &str) -> Option<Json> {
    let json = || text.parse().or_else(|_| Json::of(&text)).ok();
    if text.is_empty() { None } else { json() }
}

/// The command of a program, without what depends on the kind of handler.
pub(super) fn command(program: &Program, ctx: &Context, account: Option<&User>) -> Command {
    let mut command = Command::new(&program.command[0]);
    command.args(&program.command[1..]).env_clear();
    let inherit = program.inherit.iter().map(String::as_str).chain(["PATH"]);
    command.envs(inherit.filter_map(|name| Some((name, std::env::var_os(name)?))));
    if let Some(account) = account {
        command.uid(account.uid.as_raw()).gid(account.gid.as_raw());
        command.env("HOME", &account.dir).env("USER", &account.name).env("LOGNAME", &account.name);
    }
    command.envs(&program.env);
    command.env("PUNCTUAL_WORKER_ID", ctx.claim().worker.to_string());
    command.env("PUNCTUAL_PROTOCOL", if program.pool.is_some() { "pool" } else { "once" });
    if let Some(directory) = &program.directory {
        command.current_dir(directory);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts a program.
pub(super) async fn start(program: &Program, command: Command, ctx: &Context) -> Result<(Child, Group), Failure> {
    let failed = |error| Failure::new(format!("cannot start {}: {error}", program.command[0]));
    let mark = Mark::new(ctx.claim().worker);
    let child = launch(command, program.limits, mark).await.map_err(failed)?;
    let group = Group::of(&child, program.limits, mark).ok_or_else(|| Failure::new("the program has no id"))?;
    Ok((child, group))
}

fn set_job_environment(command: &mut Command, ctx: &Context, files: &Files) {
    let job = &ctx.claim().job;
    command.env("PUNCTUAL_JOB_ID", job.id.to_string());
    command.env("PUNCTUAL_JOB_NAME", &job.spec.name);
    command.env("PUNCTUAL_QUEUE", &job.spec.queue);
    command.env("PUNCTUAL_ATTEMPT", job.attempt.to_string());
    command.env("PUNCTUAL_MAX_ATTEMPTS", job.spec.max_attempts.to_string());
    let labels = [("PUNCTUAL_USER_ID", &job.spec.user_id), ("PUNCTUAL_CORRELATION_ID", &job.spec.correlation_id)];
    command.envs(labels.into_iter().filter_map(|(name, label)| Some((name, label.as_deref()?))));
    if let Some(trace) = ctx.trace() {
        command.env("TRACEPARENT", trace.parent.to_string());
        command.envs(trace.state.map(|state| ("TRACESTATE", state)));
    }
    let files = [("PUNCTUAL_PARENT_RESULTS", &files.parents), ("PUNCTUAL_RESULT_FILE", &files.result)];
    command.envs(files.into_iter().filter_map(|(name, file)| Some((name, file.as_ref()?.path()))));
}

/// Files for the communication with a program, removed after its job.
struct Files {
    parents: Option<NamedTempFile>,
    result: Option<NamedTempFile>,
}

impl Files {
    fn make(program: &Program, ctx: &Context, account: Option<&User>) -> Result<Self, Failure> {
        let parents = (!ctx.parent_results().is_empty()).then(|| file("punctual-parents-", account)).transpose()?;
        if let Some(file) = &parents {
            serde_json::to_writer(file, &messages::by_name(ctx.parent_results()))?;
        }
        let wants_file = program.result == ResultFrom::File;
        Ok(Self { parents, result: wants_file.then(|| file("punctual-result-", account)).transpose()? })
    }

    /// The contents of the result file, which the program may have replaced by a rename.
    fn result(self, account: Option<&User>) -> HandlerResult {
        let Some(file) = self.result else { return Ok(None) };
        // The path may be anything now: a link to a file that only we may read, or a pipe without a writer.
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let opened = File::options().read(true).custom_flags(flags.bits()).open(file.path())?;
        let (about, user) = (opened.metadata()?, account.map_or_else(nix::unistd::geteuid, |account| account.uid));
        if !about.is_file() || about.uid() != user.as_raw() {
            return Err(Failure::permanent("PUNCTUAL_RESULT_FILE is not a regular file of the program's user"));
        }
        let mut text = Vec::new();
        opened.take(limits::RESULT_MAX_BYTES as u64 + 1).read_to_end(&mut text)?;
        if text.len() > limits::RESULT_MAX_BYTES {
            let problem = format!("the result has more than {} bytes", limits::RESULT_MAX_BYTES);
            return Err(Failure::permanent(problem));
        }
        Ok(as_json(&String::from_utf8_lossy(text.trim_ascii())))
    }
}

/// A file that only its program may read.
fn file(prefix: &str, account: Option<&User>) -> Result<NamedTempFile, Failure> {
    let file = NamedTempFile::with_prefix(prefix)?;
    if let Some(account) = account {
        std::os::unix::fs::chown(file.path(), Some(account.uid.as_raw()), Some(account.gid.as_raw()))?;
    }
    Ok(file)
}
