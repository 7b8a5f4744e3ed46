//! Schedules.

use punctual_client::{
    admin::{Backfilled, Put, ScheduleDetail, ScheduleList},
    input::ScheduleInput,
};
use punctual_core::{JobId, Timestamp, time::When};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Named, PAGE_DEFAULT};
use crate::{problem::Problem, request::RequestContext, route::Nothing};

/// Default number of upcoming occurrences in the details of a schedule.
const UPCOMING: usize = 10;

/// Selects a page of a list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SchedulePage {
    /// Maximum number of rows.
    limit: Option<usize>,
    /// Cursor: the `next` of the previous page.
    after: Option<String>,
}

pub(crate) async fn list(request: RequestContext, page: SchedulePage) -> Result<ScheduleList, Problem> {
    Ok(request.admin().schedules(page.after, page.limit.unwrap_or(PAGE_DEFAULT)).await?)
}

/// Selects a schedule.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleParams {
    /// Name of the schedule.
    name: String,
    /// Maximum number of upcoming occurrences, up to 1,000; by default 10.
    upcoming: Option<usize>,
}

pub(crate) async fn show(
    request: RequestContext,
    ScheduleParams { name, upcoming }: ScheduleParams,
) -> Result<ScheduleDetail, Problem> {
    Ok(request.admin().schedule(&name, upcoming.unwrap_or(UPCOMING)).await?)
}

/// Result of storing a schedule.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PutResult {
    /// Whether the schedule is new, changed or unchanged.
    put: Put,
}

pub(crate) async fn put(
    request: RequestContext,
    Named { name }: Named,
    input: ScheduleInput,
) -> Result<PutResult, Problem> {
    Ok(PutResult { put: request.admin().put_schedule(input.recurring(&name)?).await? })
}

pub(crate) async fn delete(request: RequestContext, Named { name }: Named, _: Nothing) -> Result<(), Problem> {
    Ok(request.admin().delete_schedule(&name).await?)
}

pub(crate) async fn pause(request: RequestContext, Named { name }: Named, _: Nothing) -> Result<(), Problem> {
    Ok(request.admin().pause_schedule(&name).await?)
}

pub(crate) async fn resume(request: RequestContext, Named { name }: Named, _: Nothing) -> Result<(), Problem> {
    Ok(request.admin().resume_schedule(&name).await?)
}

/// The job that was enqueued.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Triggered {
    /// Job id.
    job: JobId,
}

pub(crate) async fn trigger(request: RequestContext, Named { name }: Named, _: Nothing) -> Result<Triggered, Problem> {
    Ok(Triggered { job: request.admin().trigger_schedule(&name).await? })
}

/// A past period of a schedule.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackfillParams {
    /// Name of the schedule.
    name: String,
    /// Start of the period, inclusive.
    since: When,
    /// End of the period; by default now.
    until: Option<When>,
}

impl BackfillParams {
    fn period(&self, now: Timestamp) -> (Timestamp, Timestamp) {
        (self.since.0, self.until.map_or(now, |when| when.0))
    }
}

/// Occurrences that have no job.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MissingOccurrences {
    /// Times of the occurrences.
    occurrences: Vec<Timestamp>,
}

pub(crate) async fn preview_backfill(
    request: RequestContext,
    params: BackfillParams,
) -> Result<MissingOccurrences, Problem> {
    let (since, until) = params.period(request.punctual().store().now());
    Ok(MissingOccurrences { occurrences: request.admin().preview_backfill(&params.name, since, until).await? })
}

pub(crate) async fn backfill(
    request: RequestContext,
    params: BackfillParams,
    _: Nothing,
) -> Result<Backfilled, Problem> {
    let (since, until) = params.period(request.punctual().store().now());
    Ok(request.admin().backfill_schedule(&params.name, since, until).await?)
}
