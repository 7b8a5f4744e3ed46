//! `punctual workflows`.

use std::path::PathBuf;

use clap::Subcommand;
use punctual::WorkflowId;

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
