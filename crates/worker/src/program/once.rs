//! One process a job.

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
    messages::{self, End},
    output::{Line, Lines, Log},
};
use crate::HandlerResult;

/// How long after a program's end its output is waited for, if something that it started has gone its own way and keeps
/// it open.
const PIPES_OPEN_MAX: Duration = Duration::from_secs(1);
/// A line of output: a result of the greatest size, in a message.
pub(super) const LINE_MAX_BYTES: usize = limits::RESULT_MAX_BYTES + 1_024;

/// What a program has said so far.
#[derive(Default)]
struct Heard {
    end: Option<End>,
    last_line: Line,
    /// What it said that cannot be understood, or could not be done.
    wrong: Option<String>,
    last_error: Option<String>,
}

/// Runs a job.
pub(super) async fn run(program: Arc<Program>, ctx: Context) -> HandlerResult {
    let account = program.account().map_err(|invalid| Failure::new(invalid.to_string()))?;
    let files = Files::make(&program, &ctx, account.as_ref())?;
    let mut command = command(&program, &ctx, account.as_ref());
    tell_of_job(&mut command, &ctx, &files);
    let (mut child, group) = start(&program, command, &ctx).await?;
    let (heard, signal) = (Mutex::new(Heard::default()), ctx.signal());
    let status = {
        let mut talk = pin!(talk(&ctx, &mut child, &group, &heard));
        tokio::select! {
            status = &mut talk => status,
            () = signal.cancelled() => {
                // What it says meanwhile is heard.
                let grace = program.grace(&ctx);
                let _ = tokio::join!(group.stop(grace), time::timeout(grace, talk));
                return Err(Failure::new("told to stop"));
            }
        }
    };
    let status = status.map_err(|error| Failure::new(format!("cannot wait for the program: {error}")))?;
    let heard = heard.into_inner().unwrap_or_else(PoisonError::into_inner);
    if group.excess().is_some() || !status.success() && heard.wrong.is_none() {
        return Err(ended(&program, &group, status, heard.last_error, heard.end));
    }
    if let Some(wrong) = heard.wrong {
        return Err(Failure::new(wrong));
    }
    match (heard.end, program.result) {
        (Some(end), _) => end.into_result(program.snooze),
        (None, ResultFrom::Line) => of_line(heard.last_line),
        (None, ResultFrom::File) => files.result(account.as_ref()),
        (None, ResultFrom::Nowhere) => Ok(None),
    }
}

/// Gives the program its job and hears what it says, until it has ended, and what it started with it.
async fn talk(ctx: &Context, child: &mut Child, group: &Group, heard: &Mutex<Heard>) -> std::io::Result<ExitStatus> {
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
        tokio::join!(feed, listen(stdout, ctx, heard, &ended), log(stderr, ctx, heard, &ended), wait);
    status
}

async fn feed(stdin: Option<ChildStdin>, payload: &[u8]) {
    if let Some(mut stdin) = stdin {
        // A program that does not read its payload closes the pipe; that is its right.
        let _ = stdin.write_all(payload).await;
    }
}

/// Ends when nothing more can be expected of a program that has ended, although something that it started keeps its
/// output open.
async fn silence(ended: &CancellationToken) {
    ended.cancelled().await;
    time::sleep(PIPES_OPEN_MAX).await;
}

async fn log(stderr: Option<ChildStderr>, ctx: &Context, heard: &Mutex<Heard>, ended: &CancellationToken) {
    let Some(stderr) = stderr else { return };
    let mut log = Log::new(stderr);
    loop {
        let more = tokio::select! {
            biased;
            more = log.follow(ctx) => more,
            () = silence(ended) => false,
        };
        heard.lock().unwrap_or_else(PoisonError::into_inner).last_error.clone_from(&log.last);
        if !more {
            return;
        }
    }
}

async fn listen(stdout: Option<ChildStdout>, ctx: &Context, heard: &Mutex<Heard>, ended: &CancellationToken) {
    let Some(stdout) = stdout else { return };
    let mut lines = Lines::new(stdout, LINE_MAX_BYTES);
    loop {
        let line = tokio::select! {
            biased;
            line = lines.next() => line,
            () = silence(ended) => lines.rest(),
        };
        let Some(line) = line else { return };
        let said = match messages::parse(&line) {
            Some(Ok(message)) => messages::act(ctx, message).await,
            Some(Err(problem)) => Err(problem),
            None => {
                if !line.is_blank() {
                    heard.lock().unwrap_or_else(PoisonError::into_inner).last_line = line;
                }
                continue;
            }
        };
        let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        match said {
            Ok(end) => heard.end = end.or(heard.end.take()),
            Err(problem) => heard.wrong = Some(problem),
        }
    }
}

/// What it means that a program ended otherwise than well.
pub(super) fn ended(
    program: &Program,
    group: &Group,
    status: ExitStatus,
    last_words: Option<String>,
    said: Option<End>,
) -> Failure {
    let limit = |problem: String| Failure::of(JobError::coded(E_LIMIT, problem), Retry::ByPolicy);
    if let Some(excess) = group.excess() {
        return limit(excess.to_owned());
    }
    if let Some(time) = program.limits.cpu_time.filter(|_| status.signal() == Some(Signal::SIGXCPU as i32)) {
        return limit(format!("cpu_time: it used more than {} s of the processor", time.as_secs()));
    }
    let words = match &said {
        Some(End::Fail { error, .. }) => Some(error.clone()),
        _ => last_words,
    };
    let problem =
        format!("the program ended with {status}{}", words.map_or(String::new(), |words| format!(": {words}")));
    match status.code() {
        Some(code) if program.fail_codes.contains(&code) => Failure::for_good(problem),
        Some(code) if program.snooze_codes.contains(&code) => match said {
            Some(End::Snooze(Some(after))) => Failure::snooze(after),
            _ => Failure::snooze(program.snooze),
        },
        _ => Failure::new(problem),
    }
}

/// A result in the last line of the output.
fn of_line(line: Line) -> HandlerResult {
    if line.cut > 0 || line.text.len() > limits::RESULT_MAX_BYTES {
        let problem = format!("the last line of the output has more than {} bytes", limits::RESULT_MAX_BYTES);
        return Err(Failure::for_good(problem));
    }
    Ok(as_json(&String::from_utf8_lossy(line.text.trim_ascii())))
}

/// JSON as it is; anything else as a text.
fn as_json(text: &str) -> Option<Json> {
    let json = || text.parse().or_else(|_| Json::of(&text)).ok();
    if text.is_empty() { None } else { json() }
}

/// A program as it is started, whatever its job.
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

/// Starts it.
pub(super) async fn start(program: &Program, command: Command, ctx: &Context) -> Result<(Child, Group), Failure> {
    let failed = |error| Failure::new(format!("cannot start {}: {error}", program.command[0]));
    let mark = Mark::new(ctx.claim().worker);
    let child = launch(command, program.limits, mark).await.map_err(failed)?;
    let group = Group::of(&child, program.limits, mark).ok_or_else(|| Failure::new("the program has no id"))?;
    Ok((child, group))
}

fn tell_of_job(command: &mut Command, ctx: &Context, files: &Files) {
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

/// Files between us and a program, which go with its job.
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

    /// What the program has left in its file, which it may have put there by a rename.
    fn result(self, account: Option<&User>) -> HandlerResult {
        let Some(file) = self.result else { return Ok(None) };
        // What it has put there may be anything: a link to what only we may read, or a pipe that nobody writes to.
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let opened = File::options().read(true).custom_flags(flags.bits()).open(file.path())?;
        let (about, user) = (opened.metadata()?, account.map_or_else(nix::unistd::geteuid, |account| account.uid));
        if !about.is_file() || about.uid() != user.as_raw() {
            return Err(Failure::for_good("PUNCTUAL_RESULT_FILE is not a regular file of the program's user"));
        }
        let mut text = Vec::new();
        opened.take(limits::RESULT_MAX_BYTES as u64 + 1).read_to_end(&mut text)?;
        if text.len() > limits::RESULT_MAX_BYTES {
            let problem = format!("the result has more than {} bytes", limits::RESULT_MAX_BYTES);
            return Err(Failure::for_good(problem));
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
