//! Route handlers, one file per resource.

use std::time::Duration;

use punctual_core::{JobId, WorkflowId, time::Span};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::problem::Problem;

pub(crate) mod jobs;
pub(crate) mod locks;
pub(crate) mod notifications;
pub(crate) mod queues;
pub(crate) mod reports;
pub(crate) mod schedules;
pub(crate) mod server;
pub(crate) mod stream;
pub(crate) mod tokens;
pub(crate) mod work;
pub(crate) mod workflows;

/// Default wait for a job or a workflow.
const WAIT_DEFAULT: Duration = Duration::from_secs(30);
/// Maximum wait of one request.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Default number of rows per page.
const PAGE_DEFAULT: usize = 50;

/// How long a request waits for a job or a workflow.
fn wait_time(timeout: Option<Span>) -> Result<Duration, Problem> {
    let timeout = timeout.map_or(WAIT_DEFAULT, |span| span.0);
    if timeout > WAIT_MAX {
        let problem = format!("must be at most {} s; to wait longer, repeat the request", WAIT_MAX.as_secs());
        return Err(Problem::invalid("timeout", problem));
    }
    Ok(timeout)
}

/// Selects a job.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfJob {
    /// Job id.
    pub(crate) id: JobId,
}

/// Selects a workflow.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfWorkflow {
    /// Workflow id.
    pub(crate) id: WorkflowId,
}

/// Selects a resource by its name.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Named {
    /// Name of the resource.
    pub(crate) name: String,
}

/// Reason for an action.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ActionReason {
    /// Reason, recorded with the event.
    pub(crate) reason: Option<String>,
}
