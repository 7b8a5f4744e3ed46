//! Programs as handlers: the payload on standard input, the result as the last line of standard output, standard
//! error as the attempt's log, and the exit code decides.

use std::{collections::BTreeMap, path::PathBuf, pin::Pin, process::Stdio, time::Duration};

use anyhow::Result;
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use punctual::{
    Context, Failure, Handler, HandlerResult, Json,
    core::{LogLevel, limits},
};
use serde::Deserialize;
use tempfile::NamedTempFile;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
    time,
};

use crate::exit::Usage;

/// `[handlers.NAME]` of the configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommandConfig {
    /// The program and its arguments. No shell is involved.
    command: Vec<String>,
    /// Where it runs.
    directory: Option<PathBuf>,
    /// Its environment, besides PATH, HOME, LANG and PUNCTUAL_*.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Whether it wants what the jobs returned that its own waited for, in the file that PUNCTUAL_PARENT_RESULTS names.
    #[serde(default)]
    parent_results: bool,
}

/// How long a program that was told to stop may still run.
const STOP_GRACE: Duration = Duration::from_secs(3);
/// Variables of our own environment that programs inherit.
const INHERITED: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];

impl CommandConfig {
    /// Refuses an empty command.
    pub(crate) fn check(&self, name: &str) -> Result<(), Usage> {
        match self.command.first() {
            Some(program) if !program.is_empty() => Ok(()),
            _ => Err(Usage(format!("handlers.{name}.command: is empty; write the program and its arguments"))),
        }
    }

    async fn converse(self, ctx: Context) -> HandlerResult {
        let parents = parents_file(&ctx)?;
        let mut child = self.spawn(&ctx, parents.as_ref())?;
        let group = Group::of(&child);
        let payload = ctx.claim().job.spec.payload.as_str().as_bytes().to_vec();
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A program that does not read its payload closes the pipe; that is its right.
                let _ = stdin.write_all(&payload).await;
            }
        };
        let conversation = async { tokio::join!(feed, last_line(stdout), log_lines(stderr, &ctx), child.wait()) };
        let signal = ctx.signal();
        let ((), result, (), status) = tokio::select! {
            all = conversation => all,
            () = signal.cancelled() => {
                group.stop().await;
                return Err(Failure::new("told to stop"));
            }
        };
        let status = status.map_err(|error| Failure::new(format!("cannot wait for the program: {error}")))?;
        if !status.success() {
            return Err(Failure::new(format!("the program ended with {status}")));
        }
        Ok(result.map_err(Failure::for_good)?.map(as_json))
    }

    fn spawn(&self, ctx: &Context, parents: Option<&NamedTempFile>) -> Result<Child, Failure> {
        let job = &ctx.claim().job;
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).env_clear();
        command.envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.envs(&self.env);
        command.env("PUNCTUAL_JOB_ID", job.id.to_string());
        command.env("PUNCTUAL_JOB_NAME", &job.spec.name);
        command.env("PUNCTUAL_QUEUE", &job.spec.queue);
        command.env("PUNCTUAL_ATTEMPT", job.attempt.to_string());
        command.env("PUNCTUAL_MAX_ATTEMPTS", job.spec.max_attempts.to_string());
        if let Some(file) = parents {
            command.env("PUNCTUAL_PARENT_RESULTS", file.path());
        }
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own, so that what it starts ends with it.
        command.process_group(0).kill_on_drop(true);
        command.spawn().map_err(|error| Failure::new(format!("cannot start {}: {error}", self.command[0])))
    }
}

impl Handler for CommandConfig {
    fn run(&self, ctx: Context) -> Pin<Box<dyn Future<Output = HandlerResult> + Send>> {
        Box::pin(self.clone().converse(ctx))
    }

    fn wants_parent_results(&self) -> bool {
        self.parent_results
    }
}

/// A file with what the job's parents returned, each under its id and under its name in the workflow; gone when it goes out of scope.
fn parents_file(ctx: &Context) -> Result<Option<NamedTempFile>, Failure> {
    if ctx.parent_results().is_empty() {
        return Ok(None);
    }
    let mut results = BTreeMap::new();
    for parent in ctx.parent_results() {
        results.insert(parent.id.to_string(), &parent.result);
        results.extend(parent.node.clone().map(|node| (node, &parent.result)));
    }
    // Only its owner may read what the system puts there.
    let file = NamedTempFile::with_prefix("punctual-parents-")?;
    serde_json::to_writer(&file, &results)?;
    Ok(Some(file))
}

/// A program and all that it started; killed together when it goes out of scope.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw))
    }

    /// Asks all of it to end, and waits a moment.
    async fn stop(&self) {
        if let Some(group) = self.0 {
            let _ = killpg(group, Signal::SIGTERM);
            for _ in 0..STOP_GRACE.as_millis() / 50 {
                // A group without members cannot be signalled.
                if killpg(group, None).is_err() {
                    return;
                }
                time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

/// The last line that is not blank, if it is not too long.
async fn last_line(output: Option<impl AsyncRead + Unpin>) -> Result<Option<String>, String> {
    let Some(output) = output else { return Ok(None) };
    let (mut reader, mut last, mut too_long) = (BufReader::new(output), Vec::new(), false);
    loop {
        let mut line = Vec::new();
        let limit = limits::RESULT_MAX_BYTES as u64 + 1;
        let read = (&mut reader).take(limit).read_until(b'\n', &mut line).await.unwrap_or(0);
        if read == 0 {
            break;
        }
        let whole = line.last() == Some(&b'\n') || (read as u64) < limit;
        if !line.trim_ascii().is_empty() {
            too_long = !whole;
            last = line;
        }
    }
    if too_long {
        return Err(format!("the last line of the output has more than {} bytes", limits::RESULT_MAX_BYTES));
    }
    let text = String::from_utf8_lossy(last.trim_ascii()).into_owned();
    Ok((!text.is_empty()).then_some(text))
}

/// JSON as it is; anything else as a text.
fn as_json(line: String) -> Json {
    line.parse().or_else(|_| Json::of(&line)).unwrap_or_else(|_| Json::null())
}

/// Each line into the attempt's log. Longer ones come in parts.
async fn log_lines(errors: Option<impl AsyncRead + Unpin>, ctx: &Context) {
    let Some(errors) = errors else { return };
    let mut reader = BufReader::new(errors);
    loop {
        let mut line = Vec::new();
        let limit = limits::LOG_LINE_MAX_BYTES as u64;
        let read = (&mut reader).take(limit).read_until(b'\n', &mut line).await.unwrap_or(0);
        if read == 0 {
            return;
        }
        ctx.log(LogLevel::Info, String::from_utf8_lossy(line.trim_ascii_end()).into_owned());
    }
}
