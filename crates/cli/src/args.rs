//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use punctual::{JobId, OnParentFailure, Status, Timestamp, WorkflowId};
use punctual_bench::Scenario;

use crate::{
    human::{Past, Span, parse_instant, parse_past},
    line::OnConflict,
    recurring::ScheduleArgs,
};

/// A durable job scheduler: one SQLite file to start with, every job on time, every step recorded.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, propagate_version = true)]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 store unreachable, 5 refused.\n\
    Settings: flags over PUNCTUAL_* over punctual.toml. PUNCTUAL_LOG=debug shows what happens inside.")]
pub(crate) struct Cli {
    /// Where the jobs are [default: sqlite:punctual.db]
    #[arg(long, global = true, env = "PUNCTUAL_STORE", value_name = "URL")]
    pub(crate) store: Option<String>,
    /// The configuration file [default: punctual.toml, if it exists]
    #[arg(long, global = true, env = "PUNCTUAL_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run everything: workers and upkeep, with a live status line
    Up(Up),
    /// Run a worker
    Work(Work),
    /// Enqueue jobs; prints one id a line
    Enqueue(Box<Enqueue>),
    /// See and change jobs
    #[command(subcommand)]
    Jobs(Jobs),
    /// See and change schedules: jobs that recur
    #[command(subcommand)]
    Schedules(Schedules),
    /// Submit, see and change workflows: jobs that wait for others
    #[command(subcommand)]
    Workflows(Workflows),
    /// See, pause and resume queues, and say what their jobs are by default
    #[command(subcommand)]
    Queues(Queues),
    /// List the workers
    Workers,
    /// List the locks that are held, or free one
    Locks {
        /// Free this lock, whoever holds it
        #[arg(long, value_name = "NAME")]
        free: Option<String>,
    },
    /// Count the jobs by status and queue
    Stats,
    /// Answer a question about many jobs
    #[command(subcommand)]
    Report(Report),
    /// Run retention now: delete finished jobs past their time, purge deleted ones
    Cleanup,
    /// Bring the store's schema up to date and show it
    Migrate,
    /// Look for damage, bad settings and jobs that nobody will run
    Doctor,
    /// Measure speed in a place of its own; no store that holds jobs is touched
    Bench(Bench),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Enqueue a small varied load, so that there is something to see
    #[arg(long)]
    pub(crate) demo: bool,
    #[command(flatten)]
    pub(crate) worker: WorkerArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Work {
    /// Stop once nothing is due and nothing runs
    #[arg(long)]
    pub(crate) until_empty: bool,
    #[command(flatten)]
    pub(crate) worker: WorkerArgs,
}

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// Work on these queues only; `a=5,b=1` gives each its share by weight
    #[arg(long, value_delimiter = ',', env = "PUNCTUAL_QUEUES", value_name = "A,B")]
    pub(crate) queues: Option<Vec<String>>,
    /// Take nothing of the second queue while there is something of the first
    #[arg(long, env = "PUNCTUAL_STRICT", requires = "queues")]
    pub(crate) strict: bool,
    /// Run at most so many jobs at once [default: 32]
    #[arg(long, env = "PUNCTUAL_CONCURRENCY", value_name = "N")]
    pub(crate) concurrency: Option<usize>,
    /// How long a job is held without a sign of life [default: 30s]
    #[arg(long, env = "PUNCTUAL_LEASE", value_name = "DURATION")]
    pub(crate) lease: Option<Span>,
    /// How long to wait for running jobs at the end [default: 30s]
    #[arg(long, env = "PUNCTUAL_DRAIN_TIMEOUT", value_name = "DURATION")]
    pub(crate) drain_timeout: Option<Span>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A line of --file is an object: {\"name\": \"resize\", \"payload\": {…}, \"queue\": \"images\", \
    \"priority\": 9, \"in\": \"5m\", \"key\": \"k\", \"user\": \"u\", \"tags\": [\"t\"], \"max_attempts\": 5, \"timeout\": \"30s\"}"
)]
pub(crate) struct Enqueue {
    /// The job's name
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    pub(crate) name: Option<String>,
    /// The payload, as JSON
    #[arg(value_name = "JSON")]
    pub(crate) payload: Option<String>,
    /// Enqueue one job for each line of a file; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The queue to stand in
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// 0 to 10, higher first
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) priority: Option<i64>,
    /// Start no sooner than this time from now, such as 5m
    #[arg(long = "in", value_name = "DURATION", conflicts_with = "at", allow_hyphen_values = true)]
    pub(crate) delay: Option<Span>,
    /// Start no sooner than this, such as 2026-03-01T12:00:00Z
    #[arg(long, value_parser = parse_instant, value_name = "TIME")]
    pub(crate) at: Option<Timestamp>,
    /// Return the job of this name that holds the key, if there is one
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Instead of a key: `payload`, or parts of it such as /order,/user/id
    #[arg(long, value_delimiter = ',', value_name = "PARTS", conflicts_with = "key")]
    pub(crate) unique_by: Vec<String>,
    /// The key is in force for so long only
    #[arg(long, value_name = "DURATION")]
    pub(crate) unique_for: Option<Span>,
    /// Only jobs in these statuses count
    #[arg(long, value_delimiter = ',', value_name = "STATUS")]
    pub(crate) unique_in: Vec<Status>,
    /// Only jobs of the same queue count
    #[arg(long)]
    pub(crate) unique_per_queue: bool,
    /// Jobs of any name count
    #[arg(long)]
    pub(crate) unique_any_name: bool,
    /// What to do if there is such a job: existing, replace (its payload), debounce (push it back)
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT", hide_possible_values = true)]
    pub(crate) on_conflict: Vec<OnConflict>,
    /// On whose behalf it runs
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// A word to find it by; may be given several times
    #[arg(long)]
    pub(crate) tag: Vec<String>,
    /// Ties together what belongs together
    #[arg(long, value_name = "ID")]
    pub(crate) correlation: Option<String>,
    /// A sentence for people
    #[arg(long)]
    pub(crate) description: Option<String>,
    /// Anything to keep with it, as JSON
    #[arg(long, value_name = "JSON")]
    pub(crate) metadata: Option<String>,
    /// How often it may be tried
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) max_attempts: Option<i64>,
    /// How long one attempt may take
    #[arg(long, value_name = "DURATION")]
    pub(crate) timeout: Option<Span>,
    /// When to try again: none, or fixed:10s, linear:10s, exponential:5s, list:1s,10s,1m
    #[arg(long, value_name = "POLICY")]
    pub(crate) retry: Option<String>,
    /// How long to keep it once finished
    #[arg(long, value_name = "DURATION")]
    pub(crate) keep_for: Option<Span>,
    /// Drop it at restart
    #[arg(long)]
    pub(crate) ephemeral: bool,
    /// Start once these jobs have succeeded; may be given several times
    #[arg(long, value_delimiter = ',', value_name = "ID")]
    pub(crate) after: Vec<JobId>,
    /// What to do if one of those dies or is cancelled: cancel, run, wait, or only (run only then)
    #[arg(long, default_value_t, value_name = "POLICY")]
    pub(crate) on_parent_failure: OnParentFailure,
    /// Wait until it has ended, and print its result
    #[arg(long, conflicts_with = "file")]
    pub(crate) wait: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Jobs {
    /// List jobs
    List {
        #[command(flatten)]
        filter: FilterArgs,
        /// At most so many
        #[arg(long, default_value_t = 50)]
        limit: usize,
        /// Continue after the `next` of a former page
        #[arg(long, value_name = "CURSOR")]
        after: Option<String>,
    },
    /// Tell the whole story of a job
    Show {
        /// The job
        id: JobId,
    },
    /// Run dead jobs again, or retrying ones now
    Retry(Selection),
    /// Make sure that jobs do not run (any more)
    Cancel(Selection),
    /// Hide jobs; retention removes them later
    Delete(Selection),
    /// Start jobs that wait for their time; of finished ones, a new one each
    Run(Selection),
}

/// Jobs by id, or by filter.
#[derive(Debug, Args)]
pub(crate) struct Selection {
    /// The jobs
    pub(crate) ids: Vec<JobId>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Do it for all that the filter selects, without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// Only say what would be touched
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Why; kept with the event
    #[arg(long)]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct FilterArgs {
    /// Any of these statuses
    #[arg(long, value_delimiter = ',', value_name = "STATUS")]
    pub(crate) status: Vec<Status>,
    /// This queue
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// This name
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// This user
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// This correlation id
    #[arg(long, value_name = "ID")]
    pub(crate) correlation: Option<String>,
    /// This tag
    #[arg(long)]
    pub(crate) tag: Option<String>,
    /// Occurrences of this schedule
    #[arg(long)]
    pub(crate) schedule: Option<String>,
    /// Not before: 24h, 7d, or a time. Of finished jobs when they finished, of waiting ones when they are due
    #[arg(long, value_parser = parse_past, value_name = "TIME")]
    pub(crate) since: Option<Past>,
    /// Before: 1h, or a time
    #[arg(long, value_parser = parse_past, value_name = "TIME")]
    pub(crate) until: Option<Past>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Schedules {
    /// List schedules with their next runs
    List {
        /// At most so many
        #[arg(long, default_value_t = 100)]
        limit: usize,
        /// Continue after the `next` of a former page
        #[arg(long, value_name = "NAME")]
        after: Option<String>,
    },
    /// Tell all of a schedule: its next runs, its last jobs
    Show {
        /// The schedule
        name: String,
    },
    /// Add a schedule, or change the one of that name
    Put {
        /// The schedule
        name: String,
        // Boxed, since it is many times as large as the others.
        #[command(flatten)]
        schedule: Box<ScheduleArgs>,
    },
    /// Enqueue nothing any more until it is resumed
    Pause {
        /// The schedules
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Go on with the next run from now
    Resume {
        /// The schedules
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Enqueue a job of a schedule now; prints its id
    Trigger {
        /// The schedule
        name: String,
    },
    /// Enqueue the runs of a past time that have no job yet; prints one id a line
    Backfill {
        /// The schedule
        name: String,
        /// From when: 24h, 7d, or a time
        #[arg(long, value_parser = parse_past, value_name = "TIME")]
        since: Past,
        /// Until when
        #[arg(long, value_parser = parse_past, default_value = "0s", value_name = "TIME")]
        until: Past,
        /// Only say which
        #[arg(long)]
        dry_run: bool,
    },
    /// Show the next runs of a schedule, or of a cron expression
    Preview {
        /// The schedule
        #[arg(required_unless_present = "cron", conflicts_with = "cron")]
        name: Option<String>,
        /// A cron expression instead
        #[arg(long)]
        cron: Option<String>,
        /// The time zone of the expression
        #[arg(long, requires = "cron", default_value = "UTC")]
        zone: String,
        /// How many
        #[arg(long, short = 'n', default_value_t = 10)]
        count: usize,
    },
    /// Remove a schedule; its jobs stay
    Delete {
        /// The schedules
        #[arg(required = true)]
        names: Vec<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Workflows {
    /// Submit a workflow from a YAML or JSON file; prints its id
    #[command(after_help = "Such a file:\n\n  name: nightly\n  jobs:\n    extract: {payload: {day: 2026-03-01}}\n    \
        resize: {after: [extract], queue: images}\n    publish: {job: upload, after: [extract, resize], on_parent_failure: run}\n  \
        on_failure: {job: tell-somebody}\n\nA job has the fields of a line of `enqueue --file`, with `job` for its name \
        (by default that of its place),\nand `after`, `on_parent_failure` (cancel, run, wait, only) and `parent_results` (auto, always, never).\n\
        on_success, on_failure and on_complete are jobs too.")]
    Submit {
        /// The file; `-` is standard input
        file: PathBuf,
        /// Wait until all of it has ended
        #[arg(long)]
        wait: bool,
    },
    /// List workflows, latest first
    List {
        /// At most so many
        #[arg(long, default_value_t = 50)]
        limit: usize,
        /// Continue after the `next` of a former page
        #[arg(long, value_name = "ID")]
        after: Option<WorkflowId>,
    },
    /// Tell all of a workflow
    Show {
        /// The workflow
        id: WorkflowId,
        /// Draw it
        #[arg(long)]
        graph: bool,
        /// Write it as DOT, for Graphviz, to this file; `-` is standard output
        #[arg(long, value_name = "FILE")]
        dot: Option<PathBuf>,
        /// Write it as SVG to this file; `-` is standard output
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
    },
    /// Cancel what has not ended of workflows
    Cancel {
        /// The workflows
        #[arg(required = true)]
        ids: Vec<WorkflowId>,
        /// Why; kept with the events
        #[arg(long)]
        reason: Option<String>,
    },
    /// Run again what failed, and what waited for it
    Retry {
        /// The workflows
        #[arg(required = true)]
        ids: Vec<WorkflowId>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Queues {
    /// List queues with what stands in them
    List,
    /// Tell all of a queue
    Show {
        /// The queue
        name: String,
    },
    /// Start nothing of queues until they are resumed; what runs goes on
    Pause {
        /// The queues; with * and ? for all there are that fit
        #[arg(required = true)]
        queues: Vec<String>,
    },
    /// Start jobs of queues again
    Resume {
        /// The queues; with * and ? for all there are that fit
        #[arg(required = true)]
        queues: Vec<String>,
    },
    /// Say what the jobs of a queue are if they do not say otherwise; what is not given has no default any more
    Defaults {
        /// The queue
        name: String,
        #[command(flatten)]
        defaults: DefaultsArgs,
    },
}

/// What the jobs of a queue are by default: on the command line, and in `[queues.NAME]` of the configuration.
#[derive(Debug, Clone, Default, Args, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DefaultsArgs {
    /// 0 to 10, higher first
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) priority: Option<i64>,
    /// How often they may be tried
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) max_attempts: Option<i64>,
    /// How long one attempt may take
    #[arg(long, value_name = "DURATION")]
    pub(crate) timeout: Option<Span>,
    /// When to try again: none, or fixed:10s, linear:10s, exponential:5s, list:1s,10s,1m
    #[arg(long, value_name = "POLICY")]
    pub(crate) retry: Option<String>,
    /// How long to keep them once finished
    #[arg(long, value_name = "DURATION")]
    pub(crate) keep_for: Option<Span>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Report {
    /// Jobs that died in a period and that nobody has retried
    Failures(Period),
    /// Jobs that have been running for long
    Stuck {
        /// How long
        #[arg(long, default_value = "1h", value_name = "DURATION")]
        longer_than: Span,
    },
    /// Unfinished jobs by user and name
    Pending,
    /// How the jobs of each name fared
    Success(Period),
    /// How long attempts took and how late they started
    Durations(Period),
}

#[derive(Debug, Args)]
pub(crate) struct Period {
    /// From when: 24h, 7d, or a time
    #[arg(long, value_parser = parse_past, default_value = "24h", value_name = "TIME")]
    pub(crate) since: Past,
    /// Until when
    #[arg(long, value_parser = parse_past, default_value = "0s", value_name = "TIME")]
    pub(crate) until: Past,
}

#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// lifecycle, steady, single, pickup, ontime, backlog, held, report, schedules or crash
    pub(crate) scenario: BenchScenario,
    /// How many jobs
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// How many run at once
    #[arg(long, default_value_t = 3_000, value_name = "N")]
    pub(crate) concurrency: usize,
    /// How long `steady` lasts
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    pub(crate) seconds: u64,
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
