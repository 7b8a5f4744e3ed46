//! `punctual jobs`.

use clap::{Args, Subcommand};
use punctual::{JobId, Status};

use crate::human::{Past, parse_past};

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
    /// Say why a job is not running, and what to do
    Explain {
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
