//! Programs as handlers. docs/programs.md says what they get and how they answer.
//!
//! | question | file |
//! |---|---|
//! | what may be said of a program? | [`Program`] |
//! | one process a job | `once` |
//! | one process for many jobs | `pool` |
//! | how is a process started? | `launch` |
//! | how is it ended, with all that it started? | `group`, `descendants` |
//! | how is found what it started? | `mark` |
//! | how much memory does it use? | `memory_watchdog` |
//! | what does it say? | `messages`, `output` |

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
use crate::{Handler, HandlerResult};

/// The longest that a program may be given to end by itself: its worker waits no longer.
pub const STOP_GRACE_MAX: Duration = Duration::from_secs(5);

/// Where a program's result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResultFrom {
    /// The last line of its standard output that is not blank.
    #[default]
    Line,
    /// The file that `PUNCTUAL_RESULT_FILE` names.
    File,
    /// It has none.
    Nowhere,
}

/// What a program and all that it starts may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProgramLimits {
    /// Memory of their own, together.
    pub memory_bytes: Option<u64>,
    /// Processes and threads of its user at once, those of other jobs included.
    pub processes: Option<u32>,
    /// Processor time of each process.
    pub cpu_time: Option<Duration>,
    /// Open files of each process.
    pub open_files: Option<u64>,
}

/// A program that runs jobs: one process a job, or one of a pool for many.
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
    /// Where it runs, if not where the worker does.
    pub directory: Option<PathBuf>,
    /// Variables that it gets.
    pub env: BTreeMap<String, String>,
    /// Variables of our own environment that it gets, besides `PATH`.
    pub inherit: Vec<String>,
    /// Keep up to so many processes for many jobs, instead of one process a job.
    pub pool: Option<usize>,
    /// A process of a pool is replaced after so many jobs.
    pub jobs_per_process: Option<u64>,
    /// Where its result is, if it does not say so in a message.
    pub result: ResultFrom,
    /// Whether it wants what the jobs returned that its own waited for.
    pub parent_results: bool,
    /// When a job runs again that was snoozed and did not say when.
    pub snooze: Duration,
    /// Exit codes that say that trying again would not help.
    pub fail_codes: Vec<i32>,
    /// Exit codes that say: not now.
    pub snooze_codes: Vec<i32>,
    /// How long after it was asked to end it is killed.
    pub stop_grace: Duration,
    /// What it may use.
    pub limits: ProgramLimits,
    /// The user that it runs as, if not ours.
    pub user: Option<String>,
    /// Lines of its log below this level are not kept, unless the job says otherwise.
    pub log_level: LogLevel,
}

impl Program {
    /// A program with its arguments, and all else as by default.
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

    /// A line for `/bin/sh`.
    pub fn shell(line: impl Into<String>) -> Self {
        Self::new(["/bin/sh".to_owned(), "-c".to_owned(), line.into()])
    }

    /// Refuses what cannot work, naming the setting.
    pub fn check(&self) -> Result<(), Invalid> {
        let wrong = |field, problem: &str| Err(Invalid::new(field, problem));
        if self.command.first().is_none_or(String::is_empty) {
            return wrong("command", "must not be empty; expected the program and its arguments");
        }
        if self.command.iter().any(|part| part.contains('\0')) {
            return wrong("command", "contains a NUL character");
        }
        let is_name = |name: &String| !name.is_empty() && !name.contains(['=', '\0']);
        if !self.env.keys().chain(&self.inherit).all(is_name) || self.env.values().any(|value| value.contains('\0')) {
            return wrong("env", "a variable's name is not empty and has no `=`, and neither has a NUL character");
        }
        if self.env.keys().any(|name| name.starts_with("PUNCTUAL_")) {
            return wrong("env", "names that begin with PUNCTUAL_ are Punctual's own");
        }
        if let Some(directory) = self.directory.as_ref().filter(|directory| !directory.is_dir()) {
            return Err(Invalid::new("directory", format!("directory {} not found", directory.display())));
        }
        if self.pool.is_some_and(|processes| !(1..=1_000).contains(&processes)) {
            return wrong("pool", "is between 1 and 1000 processes");
        }
        if self.jobs_per_process == Some(0) {
            return wrong("jobs_per_process", "is at least 1");
        }
        if self.stop_grace > STOP_GRACE_MAX {
            return wrong("stop_grace", "is at most 5s");
        }
        self.check_limits()
    }

    fn check_limits(&self) -> Result<(), Invalid> {
        let ProgramLimits { memory_bytes, processes, cpu_time, open_files } = self.limits;
        if !cfg!(target_os = "linux") && (memory_bytes.is_some() || processes.is_some()) {
            return Err(Invalid::new("limits", "memory and processes can be limited on Linux only"));
        }
        if memory_bytes.is_some_and(|bytes| bytes < 1 << 20) {
            return Err(Invalid::new("memory", "is at least 1MiB"));
        }
        let is_root = self.account()?.map_or_else(nix::unistd::getuid, |account| account.uid).is_root();
        if processes.is_some() && is_root {
            return Err(Invalid::new("processes", "needs a `user`: nothing limits the processes of root"));
        }
        if processes == Some(0) {
            return Err(Invalid::new("processes", "is at least 1"));
        }
        if cpu_time.is_some_and(|time| time < Duration::from_secs(1) || time.subsec_nanos() > 0) {
            return Err(Invalid::new("cpu_time", "is a whole number of seconds, at least 1s"));
        }
        let files_max = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(_, hard)| hard);
        if open_files.is_some_and(|files| !(8..=files_max).contains(&files)) {
            return Err(Invalid::new("open_files", format!("is at least 8 and, on this machine, at most {files_max}")));
        }
        Ok(())
    }

    /// The user that it runs as, if another one.
    fn account(&self) -> Result<Option<User>, Invalid> {
        let Some(name) = &self.user else { return Ok(None) };
        let user = User::from_name(name).ok().flatten();
        let user = user.ok_or_else(|| Invalid::new("user", format!("user `{name}` not found on this machine")))?;
        if !nix::unistd::geteuid().is_root() && user.uid != nix::unistd::geteuid() {
            return Err(Invalid::new("user", format!("only root may run a program as another user, here {name}")));
        }
        Ok(Some(user))
    }

    /// How long it gets to end, now that it is told to. None once its lease is over: another worker may have the job.
    fn grace(&self, ctx: &Context) -> Duration {
        if ctx.is_lease_over() { Duration::ZERO } else { self.stop_grace }
    }

    /// The handler that runs jobs with it.
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
    fn run(&self, ctx: Context) -> Pin<Box<dyn Future<Output = HandlerResult> + Send>> {
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
