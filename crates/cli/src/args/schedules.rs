//! `punctual schedules`.

use clap::{Args, Subcommand};

use crate::{
    format::{Past, parse_past},
    recurring::ScheduleArgs,
};

#[derive(Debug, Subcommand)]
pub(crate) enum Schedules {
    /// List schedules with their next runs
    List(ListSchedules),
    /// Show a schedule, its next runs and its last jobs
    Show {
        /// Schedule name
        name: String,
    },
    /// Add or change a schedule
    // Boxed, since it is many times as large as the others.
    Put(Box<PutSchedule>),
    /// Pause schedules
    Pause {
        /// Schedule names
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Resume schedules with their next run from now
    Resume {
        /// Schedule names
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Enqueue a job of a schedule now; prints its id
    Trigger {
        /// Schedule name
        name: String,
    },
    /// Backfill: enqueue past runs that have no job yet; prints one id per line
    Backfill(Backfill),
    /// Show the next runs of a schedule, or of a cron expression
    Preview {
        /// Schedule name
        #[arg(required_unless_present = "cron", conflicts_with = "cron")]
        name: Option<String>,
        /// Cron expression instead of a schedule
        #[arg(long)]
        cron: Option<String>,
        /// Time zone of the expression
        #[arg(long, requires = "cron", default_value = "UTC")]
        zone: String,
        /// Number of runs
        #[arg(long, short = 'n', default_value_t = 10)]
        count: usize,
    },
    /// Remove schedules; their jobs stay
    Delete {
        /// Schedule names
        #[arg(required = true)]
        names: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ListSchedules {
    /// Maximum number of rows, at most 1000
    #[arg(long, default_value_t = 100)]
    pub(crate) limit: usize,
    /// Cursor: the `next` of the previous page
    #[arg(long, value_name = "NAME")]
    pub(crate) after: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PutSchedule {
    /// Schedule name
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) schedule: ScheduleArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Backfill {
    /// Schedule name
    pub(crate) name: String,
    /// Start of the period: 24h, 7d, or a time
    #[arg(long, value_parser = parse_past, value_name = "TIME")]
    pub(crate) since: Past,
    /// End of the period
    #[arg(long, value_parser = parse_past, default_value = "0s", value_name = "TIME")]
    pub(crate) until: Past,
    /// Show which runs, and enqueue nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}
