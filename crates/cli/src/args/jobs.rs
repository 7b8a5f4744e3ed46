//! `punctual jobs`.

use clap::{Args, Subcommand};
use punctual::{Filter, JobId, Status, Timestamp};

use crate::format::{Past, parse_past};

#[derive(Debug, Subcommand)]
pub(crate) enum Jobs {
    /// List jobs
    List(ListJobs),
    /// Show a job with its attempts, events and logs
    Show {
        /// Job id
        id: JobId,
    },
    /// Explain why a job is not running, and what to do
    Explain {
        /// Job id
        id: JobId,
    },
    /// Retry dead jobs, or retrying ones now
    Retry(Selection),
    /// Cancel jobs
    Cancel(Selection),
    /// Delete jobs; retention removes them later
    Delete(Selection),
    /// Run scheduled jobs now; of finished jobs, enqueue a copy
    Run(Selection),
}

#[derive(Debug, Args)]
pub(crate) struct ListJobs {
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Maximum number of rows; more than 1000 are read page by page
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: usize,
    /// Cursor: the `next` of the previous page
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<String>,
}

/// Jobs by id, or by filter.
#[derive(Debug, Args)]
pub(crate) struct Selection {
    /// Job ids
    pub(crate) ids: Vec<JobId>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Apply to all jobs that match the filter, without confirmation
    #[arg(long)]
    pub(crate) yes: bool,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Reason, recorded with the event
    #[arg(long)]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct FilterArgs {
    /// Filter by statuses
    #[arg(long, value_delimiter = ',', value_name = "STATUS")]
    pub(crate) status: Vec<Status>,
    /// Filter by queue
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// Filter by job name
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Filter by user
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// Filter by correlation id
    #[arg(long, value_name = "ID")]
    pub(crate) correlation: Option<String>,
    /// Filter by tag
    #[arg(long)]
    pub(crate) tag: Option<String>,
    /// Filter by schedule
    #[arg(long)]
    pub(crate) schedule: Option<String>,
    /// Start of the period: 24h, 7d, or a time. Compared with the end of finished jobs and the due time of waiting ones
    #[arg(long, value_parser = parse_past, value_name = "TIME")]
    pub(crate) since: Option<Past>,
    /// End of the period: 1h, or a time
    #[arg(long, value_parser = parse_past, value_name = "TIME")]
    pub(crate) until: Option<Past>,
}

impl FilterArgs {
    /// The filter for the store; relative times are before `now`.
    pub(crate) fn filter(&self, now: Timestamp) -> Filter {
        Filter {
            statuses: self.status.clone(),
            queue: self.queue.clone(),
            name: self.name.clone(),
            user_id: self.user.clone(),
            correlation_id: self.correlation.clone(),
            tag: self.tag.clone(),
            schedule: self.schedule.clone(),
            since: self.since.map(|past| past.from(now)),
            until: self.until.map(|past| past.from(now)),
        }
    }
}
