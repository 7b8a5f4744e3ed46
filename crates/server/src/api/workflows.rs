//! Workflows.

use punctual_client::{
    admin::{WorkflowDetail, WorkflowList, WorkflowRetried},
    input::WorkflowInput,
};
use punctual_core::{Json, WorkflowId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ActionReason, OfWorkflow, PAGE_DEFAULT};
use crate::{problem::Problem, request::RequestContext, route::Nothing};

/// The submitted workflow.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Submitted {
    /// Workflow id.
    id: WorkflowId,
}

pub(crate) async fn submit(
    request: RequestContext,
    _: Nothing,
    input: WorkflowInput<Json>,
) -> Result<Submitted, Problem> {
    let workflow = input.workflow(&request.caller.name())?;
    Ok(Submitted { id: request.submit(workflow).await? })
}

/// Selects a page of a list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WorkflowPage {
    /// Maximum number of rows.
    limit: Option<usize>,
    /// Cursor: the `next` of the previous page.
    after: Option<WorkflowId>,
}

pub(crate) async fn list(request: RequestContext, page: WorkflowPage) -> Result<WorkflowList, Problem> {
    Ok(request.admin().workflows(page.after, page.limit.unwrap_or(PAGE_DEFAULT)).await?)
}

pub(crate) async fn show(request: RequestContext, OfWorkflow { id }: OfWorkflow) -> Result<WorkflowDetail, Problem> {
    Ok(request.admin().workflow(id).await?)
}

/// Result of a cancellation.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Cancelled {
    /// Number of jobs that were cancelled.
    cancelled: u64,
}

pub(crate) async fn cancel(
    request: RequestContext,
    OfWorkflow { id }: OfWorkflow,
    ActionReason { reason }: ActionReason,
) -> Result<Cancelled, Problem> {
    Ok(Cancelled { cancelled: request.admin().cancel_workflow(id, reason).await? })
}

pub(crate) async fn retry(
    request: RequestContext,
    OfWorkflow { id }: OfWorkflow,
    _: Nothing,
) -> Result<WorkflowRetried, Problem> {
    Ok(request.admin().retry_workflow(id).await?)
}
