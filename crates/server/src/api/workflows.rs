//! Workflows.

use punctual_client::{
    admin::{WorkflowDetail, WorkflowList, WorkflowRetried},
    input::WorkflowInput,
};
use punctual_core::{Json, WorkflowId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{OfWorkflow, PAGE_DEFAULT, Why};
use crate::{call::Call, problem::Problem, route::Nothing};

/// The submitted workflow.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Submitted {
    /// Workflow id.
    id: WorkflowId,
}

pub(crate) async fn submit(call: Call, _: Nothing, words: WorkflowInput<Json>) -> Result<Submitted, Problem> {
    let workflow = words.workflow(&call.caller.name())?;
    Ok(Submitted { id: call.submit(workflow).await? })
}

/// Selects a page of a list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Paged {
    /// Maximum number of rows.
    limit: Option<usize>,
    /// Cursor: the `next` of the previous page.
    after: Option<WorkflowId>,
}

pub(crate) async fn list(call: Call, page: Paged) -> Result<WorkflowList, Problem> {
    Ok(call.admin().workflows(page.after, page.limit.unwrap_or(PAGE_DEFAULT)).await?)
}

pub(crate) async fn show(call: Call, OfWorkflow { id }: OfWorkflow) -> Result<WorkflowDetail, Problem> {
    Ok(call.admin().workflow(id).await?)
}

/// Result of a cancellation.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Cancelled {
    /// Number of jobs that were cancelled.
    cancelled: u64,
}

pub(crate) async fn cancel(call: Call, OfWorkflow { id }: OfWorkflow, why: Why) -> Result<Cancelled, Problem> {
    Ok(Cancelled { cancelled: call.admin().cancel_workflow(id, why.reason).await? })
}

pub(crate) async fn retry(call: Call, OfWorkflow { id }: OfWorkflow, _: Nothing) -> Result<WorkflowRetried, Problem> {
    Ok(call.admin().retry_workflow(id).await?)
}
