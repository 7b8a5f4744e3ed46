//! What each route does. A file for each noun.

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

/// Rows of a page if nothing is said.
const PAGE_DEFAULT: usize = 50;

/// Which job.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfJob {
    /// The job.
    pub(crate) id: JobId,
}

/// Which workflow.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfWorkflow {
    /// The workflow.
    pub(crate) id: WorkflowId,
}

/// Which one, by its name.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Named {
    /// Its name.
    pub(crate) name: String,
}

/// Why something is done.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Reasoned")]
pub(crate) struct Why {
    /// Kept with what was done.
    pub(crate) reason: Option<String>,
}
