//! Route handlers, one file per resource.

use punctual_core::{JobId, WorkflowId};
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) mod jobs;
pub(crate) mod locks;
pub(crate) mod notifications;
pub(crate) mod queues;
pub(crate) mod reports;
pub(crate) mod schedules;
pub(crate) mod stream;
pub(crate) mod tokens;
pub(crate) mod work;
pub(crate) mod workflows;

/// Default number of rows per page.
const PAGE_DEFAULT: usize = 50;

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
