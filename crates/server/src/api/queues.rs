//! Queues.

use punctual_client::{
    admin::{QueueDetail, QueueView},
    input::DefaultsInput,
};
use punctual_core::Limits;

use super::Named;
use crate::{call::Call, problem::Problem, route::Nothing};

pub(crate) async fn list(call: Call, _: Nothing) -> Result<Vec<QueueView>, Problem> {
    Ok(call.admin().queues().await?)
}

pub(crate) async fn show(call: Call, Named { name }: Named) -> Result<QueueDetail, Problem> {
    Ok(call.admin().queue(&name).await?)
}

pub(crate) async fn pause(call: Call, Named { name }: Named, _: Nothing) -> Result<(), Problem> {
    Ok(call.admin().pause_queue(&name).await?)
}

pub(crate) async fn resume(call: Call, Named { name }: Named, _: Nothing) -> Result<(), Problem> {
    Ok(call.admin().resume_queue(&name).await?)
}

pub(crate) async fn set_limits(call: Call, Named { name }: Named, limits: Limits) -> Result<(), Problem> {
    Ok(call.admin().set_queue_limits(&name, limits).await?)
}

pub(crate) async fn set_defaults(call: Call, Named { name }: Named, words: DefaultsInput) -> Result<(), Problem> {
    Ok(call.admin().set_queue_defaults(&name, words.defaults()?).await?)
}
