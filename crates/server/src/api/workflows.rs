//! Workflows.

use std::time::Duration;

use punctual_client::{
    admin::{WorkflowDetail, WorkflowList, WorkflowRetried, WorkflowView},
    input::WorkflowInput,
};
use punctual_core::{Json, WorkflowId, WorkflowStatus, time::Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ActionReason, OfWorkflow, PAGE_DEFAULT, wait_time};
use crate::{
    problem::{Code, Problem},
    request::RequestContext,
    route::Nothing,
};

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

/// A wait for a workflow to finish.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkflowWait {
    /// Workflow id.
    id: WorkflowId,
    /// Maximum wait, such as `10s`; by default 30 seconds, at most 60 seconds.
    timeout: Option<Span>,
}

pub(crate) async fn wait(
    request: RequestContext,
    WorkflowWait { id, timeout }: WorkflowWait,
) -> Result<WorkflowView, Problem> {
    let timeout = wait_time(timeout)?;
    let workflow = tokio::select! {
        workflow = request.punctual().wait_workflow(id, timeout) => workflow?,
        () = request.app.stopping.cancelled() => request.punctual().wait_workflow(id, Duration::ZERO).await?,
    };
    let is_late = workflow.status() == WorkflowStatus::Running && !request.app.stopping.is_cancelled();
    if is_late {
        let detail = format!("{id} was still running after {} ms", timeout.as_millis());
        return Err(Problem::new(Code::TimedOut, detail));
    }
    Ok(WorkflowView::of(workflow))
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
