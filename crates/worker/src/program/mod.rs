//! Programs as handlers. docs/programs.md describes their input and output.
//!
//! | question | file |
//! |---|---|
//! | which settings does a program have? | [`Program`] |
//! | one process per job | `once` |
//! | one process for many jobs | `pool` |
//! | how is a process started? | `launch` |
//! | how is it ended, with all processes that it started? | `group`, `descendants` |
//! | how are these processes found? | `mark` |
//! | how much memory does it use? | `memory_watchdog` |
//! | how is its output read? | `messages`, `output` |

mod descendants;
mod group;
mod launch;
mod mark;
mod memory_watchdog;
mod messages;
mod once;
mod output;
mod pool;

use std::{collections::BTreeMap, path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use nix::{
    sys::resource::{Resource, getrlimit},
    unistd::User,
};
use punctual_client::Context;
use punctual_core::{Invalid, LogLevel};

pub(crate) use self::group::kill_programs_of;
use self::pool::Pool;
use crate::{Handler, HandlerFuture};

/// Maximum time that a program may be given to end by itself: a worker does not wait longer.
pub const STOP_GRACE_MAX: Duration = Duration::from_secs(5);

/// Where the result of a program is read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResultFrom {
    /// The last non-blank line of its standard output.
    #[default]
    Line,
    /// The file that `PUNCTUAL_RESULT_FILE` names.
    File,
    /// The program has no result.
    Nowhere,
}

/// Resource limits of a program and all processes that it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProgramLimits {
    /// Maximum private memory of all processes together.
    pub memory_bytes: Option<u64>,
    /// Maximum number of processes and threads of its user, including those of other jobs.
    pub processes: Option<u32>,
    /// Maximum CPU time per process.
    pub cpu_time: Option<Duration>,
    /// Maximum number of open files per process.
    pub open_files: Option<u64>,
}

/// A program that runs jobs: with one process per job, or with a pool of processes that run many jobs each.
///
/// ```
/// use punctual_worker::Program;
/// let resize = Program::new(["python3", "resize.py"]);
/// resize.check()?;
/// # Ok::<(), punctual_core::Invalid>(())
/// ```
#[derive(Debug, Clone)]
pub struct Program {
    /// The program and its arguments. No shell is involved.
    pub command: Vec<String>,
    /// Working directory, if not that of the worker.
    pub directory: Option<PathBuf>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Environment variables inherited from the worker, besides `PATH`.
    pub inherit: Vec<String>,
    /// Maximum number of processes in a pool that run many jobs each; `None`: one process per job.
    pub pool: Option<usize>,
    /// Number of jobs after which a process of a pool is replaced.
    pub jobs_per_process: Option<u64>,
    /// Where the result is read from, if no message contains it.
    pub result: ResultFrom,
    /// Whether the program receives the results of the job's parents.
    pub parent_results: bool,
    /// Delay of a snoozed job whose program did not set one.
    pub snooze: Duration,
    /// Exit codes for a permanent failure, without retry.
    pub fail_codes: Vec<i32>,
    /// Exit codes that snooze the job.
    pub snooze_codes: Vec<i32>,
    /// Time between the request to end and the kill.
    pub stop_grace: Duration,
    /// Resource limits.
    pub limits: ProgramLimits,
    /// The user that it runs as, if not that of the worker.
    pub user: Option<String>,
    /// Minimum level of stored log lines, unless the job sets it.
    pub log_level: LogLevel,
}

impl Program {
    /// A program with its arguments, and defaults for all other settings.
    pub fn new<A: Into<String>>(command: impl IntoIterator<Item = A>) -> Self {
        Self {
            command: command.into_iter().map(Into::into).collect(),
            directory: None,
            env: BTreeMap::new(),
            inherit: Vec::new(),
            pool: None,
            jobs_per_process: None,
            result: ResultFrom::Line,
            parent_results: false,
            snooze: Duration::from_secs(60),
            fail_codes: vec![65],
            snooze_codes: vec![75],
            stop_grace: Duration::from_secs(3),
            limits: ProgramLimits::default(),
            user: None,
            log_level: LogLevel::Info,
        }
    }

    /// A command line for `/bin/sh`.
    pub fn shell(line: impl Into<String>) -> Self {
        Self::new(["/bin/sh".to_owned(), "-c".to_owned(), line.into()])
    }

    /// Checks the settings; an error names the invalid one.
    pub fn check(&self) -> Result<(), Invalid> {
        let invalid = |field, problem: &str| Err(Invalid::new(field, problem));
        if self.command.first().is_none_or(String::is_empty) {
            return invalid("command", "must not be empty; expected the program and its arguments");
        }
        if self.command.iter().any(|part| part.contains('\0')) {
            return invalid("command", "contains a NUL character");
        }
        let is_name = |name: &String| !name.is_empty() && !name.contains(['=', '\0']);
        if !self.env.keys().chain(&self.inherit).all(is_name) || self.env.values().any(|value| value.contains('\0')) {
            return invalid(
                "env",
                "names must not be empty or contain `=`, and names and values must not contain NUL characters",
            );
        }
        if self.env.keys().any(|name| name.starts_with("PUNCTUAL_")) {
            return invalid("env", "names that begin with PUNCTUAL_ are reserved");
        }
        if let Some(directory) = self.directory.as_ref().filter(|directory| !directory.is_dir()) {
            return Err(Invalid::new("directory", format!("directory {} not found", directory.display())));
        }
        if self.pool.is_some_and(|processes| !(1..=1_000).contains(&processes)) {
            return invalid("pool", "must be between 1 and 1000");
        }
        if self.jobs_per_process == Some(0) {
            return invalid("jobs_per_process", "must be at least 1");
        }
        if self.stop_grace > STOP_GRACE_MAX {
            return invalid("stop_grace", "must be at most 5s");
        }
        self.check_limits()
    }

    fn check_limits(&self) -> Result<(), Invalid> {
        let ProgramLimits { memory_bytes, processes, cpu_time, open_files } = self.limits;
        if !cfg!(target_os = "linux") && (memory_bytes.is_some() || processes.is_some()) {
            return Err(Invalid::new("limits", "memory and processes can be limited on Linux only"));
        }
        if memory_bytes.is_some_and(|bytes| bytes < 1 << 20) {
            return Err(Invalid::new("memory", "must be at least 1MiB"));
        }
        let is_root = self.account()?.map_or_else(nix::unistd::getuid, |account| account.uid).is_root();
        if processes.is_some() && is_root {
            return Err(Invalid::new(
                "processes",
                "requires a `user` other than root: the processes of root are not limited",
            ));
        }
        if processes == Some(0) {
            return Err(Invalid::new("processes", "must be at least 1"));
        }
        if cpu_time.is_some_and(|time| time < Duration::from_secs(1) || time.subsec_nanos() > 0) {
            return Err(Invalid::new("cpu_time", "must be a whole number of seconds, at least 1s"));
        }
        let files_max = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(_, hard)| hard);
        if open_files.is_some_and(|files| !(8..=files_max).contains(&files)) {
            return Err(Invalid::new(
                "open_files",
                format!("must be between 8 and {files_max}, the limit of this machine"),
            ));
        }
        Ok(())
    }

    /// The user that it runs as, if it is another one.
    fn account(&self) -> Result<Option<User>, Invalid> {
        let Some(name) = &self.user else { return Ok(None) };
        let user = User::from_name(name).ok().flatten();
        let user = user.ok_or_else(|| Invalid::new("user", format!("user `{name}` not found on this machine")))?;
        if !nix::unistd::geteuid().is_root() && user.uid != nix::unistd::geteuid() {
            return Err(Invalid::new("user", format!("only root may run a program as another user, here {name}")));
        }
        Ok(Some(user))
    }

    /// How long the program gets to end when it is stopped. Zero once its lease has expired: another worker may have
    /// the job.
    fn grace(&self, ctx: &Context) -> Duration {
        if ctx.is_lease_over() { Duration::ZERO } else { self.stop_grace }
    }

    /// The handler that runs jobs with this program.
    pub fn handler(self) -> Result<ProgramHandler, Invalid> {
        self.check()?;
        let program = Arc::new(self);
        let pool = program.pool.map(|processes| Arc::new(Pool::new(Arc::clone(&program), processes)));
        Ok(ProgramHandler { program, pool })
    }
}

/// Runs jobs with a [`Program`].
#[derive(Debug, Clone)]
pub struct ProgramHandler {
    program: Arc<Program>,
    pool: Option<Arc<Pool>>,
}

impl Handler for ProgramHandler {
    fn run(&self, ctx: Context) -> HandlerFuture {
        ctx.log_from(self.program.log_level);
        match &self.pool {
            Some(pool) => Box::pin(Arc::clone(pool).run(ctx)),
            None => Box::pin(once::run(Arc::clone(&self.program), ctx)),
        }
    }

    fn wants_parent_results(&self) -> bool {
        self.program.parent_results
    }

    fn stop(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        match self.pool.clone() {
            Some(pool) => Box::pin(async move {
                pool.stop().await;
                descendants::all_killed().await;
            }),
            None => Box::pin(descendants::all_killed()),
        }
    }
}
