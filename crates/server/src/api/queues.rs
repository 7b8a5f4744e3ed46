//! Queues.

use punctual_client::{
    admin::{QueueDetail, QueueView},
    input::{DefaultsInput, LimitChanges},
};
use punctual_core::Limits;

use super::Named;
use crate::{problem::Problem, request::RequestContext, route::Nothing};

pub(crate) async fn list(request: RequestContext, _: Nothing) -> Result<Vec<QueueView>, Problem> {
    Ok(request.admin().queues().await?)
}

pub(crate) async fn show(request: RequestContext, Named { name }: Named) -> Result<QueueDetail, Problem> {
    Ok(request.admin().queue(&name).await?)
}

pub(crate) async fn pause(request: RequestContext, Named { name }: Named, _: Nothing) -> Result<(), Problem> {
    Ok(request.admin().pause_queue(&name).await?)
}

pub(crate) async fn resume(request: RequestContext, Named { name }: Named, _: Nothing) -> Result<(), Problem> {
    Ok(request.admin().resume_queue(&name).await?)
}

pub(crate) async fn set_limits(request: RequestContext, Named { name }: Named, limits: Limits) -> Result<(), Problem> {
    Ok(request.admin().set_queue_limits(&name, limits).await?)
}

pub(crate) async fn change_limits(
    request: RequestContext,
    Named { name }: Named,
    changes: LimitChanges,
) -> Result<(), Problem> {
    Ok(request.admin().change_queue_limits(&name, |limits| changes.apply(limits)).await?)
}

pub(crate) async fn set_defaults(
    request: RequestContext,
    Named { name }: Named,
    input: DefaultsInput,
) -> Result<(), Problem> {
    Ok(request.admin().set_queue_defaults(&name, input.defaults()?).await?)
}
