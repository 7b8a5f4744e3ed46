//! The command line.

mod backups;
mod enqueue;
mod http;
mod jobs;
mod queues;
mod schedules;
mod server;
mod workflows;

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};
use punctual::core::check;
use punctual_bench::Scenario;

pub(crate) use self::{
    backups::{Backup, Restore},
    enqueue::{Enqueue, OptionArgs},
    http::{Health, Listen, ListenArgs, TokensCommand},
    jobs::{Jobs, ListJobs, Selection},
    queues::{QueueConfig, Queues},
    schedules::{Backfill, ListSchedules, PutSchedule, Schedules},
    server::{CA_FILE, CONTEXT, ContextCommand, SERVER, ServerArgs, TOKEN},
    workflows::{ListWorkflows, Workflows},
};
use crate::{
    alerts::AlertArgs,
    format::{Past, Span, parse_past},
};

/// A durable job scheduler: one SQLite file to start with, every job on time, every step recorded.
#[derive(Debug, Parser)]
#[command(name = "punctual", version, max_term_width = 100, propagate_version = true)]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 store or server unreachable,\n\
    5 refused.\n\
    The store is created by up, serve, work, migrate, and commands that add to it: enqueue, workflows submit,\n\
    schedules put, queues limit, queues defaults, tokens create, and the target of move.\n\
    Settings: flags over PUNCTUAL_* over punctual.toml over the current context; `punctual config keys` lists those\n\
    of the file.\n\
    A variable with _FILE at its end, such as PUNCTUAL_STORE_FILE, names a file with the secret.\n\
    Commands that administer work over HTTP, too, with the roles of the token: --server or --context.\n\
    PUNCTUAL_LOG=debug prints details, PUNCTUAL_LOG_FORMAT=json prints one JSON object per line.")]
pub(crate) struct Cli {
    /// Store URL [default: sqlite:punctual.db]
    #[arg(long, global = true, env = "PUNCTUAL_STORE", value_name = "URL", hide_env_values = true)]
    pub(crate) store: Option<String>,
    /// Redis in front of a PostgreSQL store, to dispatch its jobs: redis://, rediss://, redis+cluster://,
    /// redis+sentinel://
    #[arg(long, global = true, env = "PUNCTUAL_DISPATCH", value_name = "URL", hide_env_values = true)]
    pub(crate) dispatch: Option<String>,
    /// Independent Redis servers for locks, an odd number, a majority of which must agree [default: that of
    /// --dispatch]
    #[arg(long, global = true, env = "PUNCTUAL_LOCKS", value_name = "URL,…", hide_env_values = true)]
    pub(crate) locks: Option<String>,
    /// Also lock each job on these servers until PostgreSQL has recorded its start
    #[arg(long, global = true, env = "PUNCTUAL_LOCK_JOBS")]
    pub(crate) lock_jobs: bool,
    /// Configuration file [default: punctual.toml, if it exists]
    #[arg(long, global = true, env = "PUNCTUAL_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print one JSON document instead of text; errors too are JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run everything in one process: workers, maintenance, the API and the dashboard
    Up(Up),
    /// Run the API, the dashboard and supervised worker processes, for production
    Serve(Serve),
    /// Run a worker
    Work(Work),
    /// Enqueue jobs; prints one id per line
    Enqueue(Box<Enqueue>),
    /// Inspect and change jobs
    #[command(subcommand)]
    Jobs(Jobs),
    /// Manage schedules of recurring jobs
    #[command(subcommand)]
    Schedules(Schedules),
    /// Manage workflows: jobs that depend on each other
    #[command(subcommand)]
    Workflows(Workflows),
    /// Manage queues: pause, resume, limits and defaults
    #[command(subcommand)]
    Queues(Queues),
    /// Inspect workers
    #[command(subcommand)]
    Workers(WorkersCommand),
    /// List and release locks
    #[command(subcommand)]
    Locks(LocksCommand),
    /// Manage API tokens
    #[command(subcommand)]
    Tokens(TokensCommand),
    /// Save servers and tokens under names, for --context
    #[command(subcommand)]
    Context(ContextCommand),
    /// Watch queues, rates, running and dead jobs in the terminal, with keys to pause, retry, cancel and open
    Top(Top),
    /// Count jobs by status and queue
    Stats,
    /// Report on failures, long runs, backlogs, outcomes and durations
    #[command(subcommand)]
    Report(Report),
    /// Run retention now: delete finished jobs past their time, purge deleted ones
    Cleanup,
    /// Create the store or migrate its schema, and show its version
    Migrate(Migrate),
    /// Move everything from one store to another: jobs with their histories, schedules, queues, workflows, tokens
    Move(Move),
    /// Back up a SQLite store to a file, also while processes use it
    Backup(Backup),
    /// Restore a SQLite store from a backup
    Restore(Restore),
    /// Check the store for damage, bad settings and jobs without a worker
    Doctor,
    /// Check that a server answers; exit code 1 if it does not
    Health(Health),
    /// Check and show the configuration, without connecting to the store
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Run benchmarks in a separate database or schema
    Bench(Bench),
    /// Verify that a database keeps the guarantees: the conformance suite, and worker processes that are killed under
    /// load
    Verify(Verify),
    /// Print shell completions
    Completions {
        /// Shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a folder
    #[command(hide = true)]
    Man {
        /// Folder; created if it does not exist
        folder: PathBuf,
    },
}

impl Command {
    /// Whether the command stores something new, and so creates a store that does not exist. A command that reads or
    /// changes what exists is in the wrong folder then. Limits, schedules and tokens are stored before the first start:
    /// without a token, a server does not listen on other addresses.
    pub(crate) const fn adds(&self) -> bool {
        matches!(
            self,
            Self::Up(_)
                | Self::Serve(_)
                | Self::Work(_)
                | Self::Enqueue(_)
                | Self::Schedules(Schedules::Put(_))
                | Self::Workflows(Workflows::Submit { .. })
                | Self::Queues(Queues::Limit { .. } | Queues::Defaults { .. })
                | Self::Tokens(TokensCommand::Create { .. })
        )
    }

    /// For a command that needs the store itself: its name, and why.
    pub(crate) const fn of_store(&self) -> Option<(&'static str, &'static str)> {
        const WORKS: &str = "runs jobs; workers of other machines use /v1/work";
        const TABLES: &str = "reads and changes the tables of the store";
        const FILE: &str = "reads and writes the file of the store";
        const CREATES: &str = "creates databases or schemas beside the store";
        Some(match self {
            Self::Up(_) => ("up", WORKS),
            Self::Serve(_) => ("serve", WORKS),
            Self::Work(_) => ("work", WORKS),
            Self::Migrate(_) => ("migrate", TABLES),
            Self::Move(_) => ("move", TABLES),
            Self::Backup(_) => ("backup", FILE),
            Self::Restore(_) => ("restore", FILE),
            Self::Doctor => ("doctor", TABLES),
            Self::Bench(_) => ("bench", CREATES),
            Self::Verify(_) => ("verify", CREATES),
            Self::Tokens(TokensCommand::Open) => ("tokens open", "opens it to requests without a token"),
            _ => return None,
        })
    }

    /// Whether this is a worker process of another process, which has printed what people should know.
    pub(crate) const fn is_supervised(&self) -> bool {
        matches!(self, Self::Work(Work { supervised: true, .. }))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check the file, the environment, cron expressions, programs, secrets and URLs
    #[command(after_help = "Exit codes: 0 valid, 2 not valid.")]
    Check,
    /// Show the settings that are in effect, and where each comes from; secrets are not shown
    Show,
    /// List all keys with their variables, flags and defaults
    Keys,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkersCommand {
    /// List workers with their queues and running jobs
    List,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LocksCommand {
    /// List held locks
    List,
    /// Release a lock of any owner
    Release {
        /// Lock name
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// Share a SQLite file with another program: add Punctual's tables to those that it has
    #[arg(long)]
    pub(crate) alongside: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Move {
    /// Source store; it is not changed
    #[arg(long, value_name = "URL")]
    pub(crate) from: String,
    /// Target store, which must be empty
    #[arg(long, value_name = "URL")]
    pub(crate) to: String,
    /// Resume an interrupted move; what has been moved stays as it is
    #[arg(long)]
    pub(crate) resume: bool,
    /// Move although workers are live at --from
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Enqueue a small, varied demo load
    #[arg(long)]
    pub(crate) demo: bool,
    /// Number of supervised worker processes [default: work in this process]
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<usize>,
    #[command(flatten)]
    pub(crate) http: ListenArgs,
    #[command(flatten)]
    pub(crate) worker: WorkerArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Number of worker processes; 0 runs only the API and the dashboard
    #[arg(long, env = "PUNCTUAL_WORKERS", default_value_t = 1, value_name = "N")]
    pub(crate) workers: usize,
    #[command(flatten)]
    pub(crate) http: ListenArgs,
    #[command(flatten)]
    pub(crate) worker: WorkerArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Work {
    /// Be a worker process of the one that started us
    #[arg(long, hide = true)]
    pub(crate) supervised: bool,
    /// Stop when no job is due or running
    #[arg(long)]
    pub(crate) until_empty: bool,
    /// Listen address of /healthz, /readyz and /metrics [default: none]
    #[arg(long, env = "PUNCTUAL_WORK_LISTEN", value_name = "ADDRESS")]
    pub(crate) listen: Option<Listen>,
    #[command(flatten)]
    pub(crate) worker: WorkerArgs,
}

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// Queues to work on [default: all]; `a=5,b=1` shares by weight
    #[arg(long, value_delimiter = ',', env = "PUNCTUAL_QUEUES", value_name = "A,B")]
    pub(crate) queues: Option<Vec<String>>,
    /// Strict order: take from a queue only while those before it are empty
    #[arg(long, env = "PUNCTUAL_STRICT", requires = "queues")]
    pub(crate) strict: bool,
    /// Maximum concurrent jobs [default: 32]
    #[arg(long, env = "PUNCTUAL_CONCURRENCY", value_name = "N")]
    pub(crate) concurrency: Option<usize>,
    /// Lease of a job without a heartbeat [default: 30s]
    #[arg(long, env = "PUNCTUAL_LEASE", value_name = "DURATION")]
    pub(crate) lease: Option<Span>,
    /// Grace period for running jobs at shutdown [default: 30s]
    #[arg(long, env = "PUNCTUAL_DRAIN_TIMEOUT", value_name = "DURATION")]
    pub(crate) drain_timeout: Option<Span>,
    #[command(flatten)]
    pub(crate) alerts: AlertArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Keys: Tab or 1 2 3 for the tables, j k to move, Enter to open, p to pause or resume a queue,\n\
    r to retry a dead job, c to cancel one, Space to freeze the display, ? for help, q to quit.\n\
    It reads counters and short lists only: the cost does not grow with the number of jobs."
)]
pub(crate) struct Top {
    /// Refresh interval, from 200ms to 1m
    #[arg(long, default_value = "1s", value_parser = parse_every, value_name = "DURATION")]
    pub(crate) every: Span,
    /// Print one snapshot as plain text, or as JSON with --json
    #[arg(long)]
    pub(crate) once: bool,
}

fn parse_every(text: &str) -> Result<Span, String> {
    let span: Span = text.parse()?;
    let range = Span(Duration::from_millis(200))..=Span(Duration::from_secs(60));
    if range.contains(&span) { Ok(span) } else { Err(check::out_of_range(&span, &range)) }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Report {
    /// Dead jobs of a period that have not been retried
    Failures(Period),
    /// Long-running jobs
    Stuck {
        /// Minimum duration
        #[arg(long, default_value = "1h", value_name = "DURATION")]
        longer_than: Span,
    },
    /// Unfinished jobs by user and name
    Pending,
    /// Outcomes by job name
    Success(Period),
    /// Durations and lateness of attempts
    Durations(Period),
}

#[derive(Debug, Args)]
pub(crate) struct Period {
    /// Start of the period: 24h, 7d, or a time
    #[arg(long, value_parser = parse_past, default_value = "24h", value_name = "TIME")]
    pub(crate) since: Past,
    /// End of the period
    #[arg(long, value_parser = parse_past, default_value = "0s", value_name = "TIME")]
    pub(crate) until: Past,
}

#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// lifecycle, steady, single, pickup, ontime, backlog, held, report, limits, schedules, crash, rebuild, programs,
    /// http or sockets
    pub(crate) scenario: BenchScenario,
    /// Number of jobs
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Number of jobs that run concurrently
    #[arg(long, default_value_t = 3_000, value_name = "N")]
    pub(crate) concurrency: usize,
    /// Duration of `steady`
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    pub(crate) seconds: u64,
}

#[derive(Debug, Args)]
#[command(after_help = "Everything happens in schemas (PostgreSQL) or databases (SQL Server) named\n\
    punctual_verify_*, or in a temporary folder (SQLite), which are dropped at the end.\n\
    The role needs the permission to create them. Jobs that the store holds are not touched.\n\
    The load is that of four busy workers.\n\
    Exit codes: 0 all guarantees held, 1 some did not.")]
pub(crate) struct Verify {
    /// Duration of the chaos run, 5 to 3600
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(5..=3600))]
    pub(crate) seconds: u64,
    /// Seed of the chaos run, as an earlier report shows it [default: random]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Skip the conformance suite; run the chaos part only
    #[arg(long)]
    pub(crate) skip_suite: bool,
    /// Be a worker process of the one that started us
    #[arg(long, hide = true)]
    pub(crate) worker: bool,
}

/// A scenario, or the process that `crash` starts in order to kill it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BenchScenario {
    Measure(Scenario),
    CrashVictim,
}

impl std::str::FromStr for BenchScenario {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "crash-victim" { Ok(Self::CrashVictim) } else { text.parse().map(Self::Measure) }
    }
}
