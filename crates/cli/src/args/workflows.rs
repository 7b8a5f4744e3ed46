//! `punctual workflows`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use punctual::WorkflowId;

#[derive(Debug, Subcommand)]
pub(crate) enum Workflows {
    /// Submit a workflow from a YAML or JSON file; prints its id
    #[command(after_help = "Such a file:\n\n  name: nightly\n  jobs:\n    extract: {payload: {day: 2026-03-01}}\n    \
        resize: {after: [extract], queue: images}\n    publish: {job: upload, after: [extract, resize], on_parent_failure: run}\n  \
        on_failure: {job: notify-oncall}\n\nA job has the fields of a line of `enqueue --file`, with `job` for its name \
        (by default its key in `jobs`),\nand `after`, `on_parent_failure` (cancel, run, wait, only) and `parent_results` (auto, always, never).\n\
        on_success, on_failure and on_complete are jobs too.")]
    Submit {
        /// File; `-` reads standard input
        file: PathBuf,
        /// Wait for the workflow to finish
        #[arg(long)]
        wait: bool,
    },
    /// List workflows, latest first
    List(ListWorkflows),
    /// Show a workflow
    Show {
        /// Workflow id
        id: WorkflowId,
        /// Draw the graph
        #[arg(long)]
        graph: bool,
        /// Write the graph as DOT, for Graphviz, to this file; `-` is standard output
        #[arg(long, value_name = "FILE")]
        dot: Option<PathBuf>,
        /// Write the graph as SVG to this file; `-` is standard output
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
    },
    /// Cancel the unfinished jobs of workflows
    Cancel {
        /// Workflow ids
        #[arg(required = true)]
        ids: Vec<WorkflowId>,
        /// Reason, recorded with the events
        #[arg(long)]
        reason: Option<String>,
    },
    /// Retry failed jobs and those that depend on them
    Retry {
        /// Workflow ids
        #[arg(required = true)]
        ids: Vec<WorkflowId>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ListWorkflows {
    /// Maximum number of rows, at most 200
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: usize,
    /// Cursor: the `next` of the previous page
    #[arg(long, value_name = "ID")]
    pub(crate) after: Option<WorkflowId>,
}
