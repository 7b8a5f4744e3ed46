//! `punctual schedules`.

use clap::Subcommand;

use crate::{
    human::{Past, parse_past},
    recurring::ScheduleArgs,
};

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
