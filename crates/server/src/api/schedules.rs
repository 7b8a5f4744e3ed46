//! Schedules.

use punctual_client::{
    admin::{Backfilled, Put, ScheduleDetail, ScheduleList},
    input::ScheduleInput,
};
use punctual_core::{JobId, Timestamp, time::When};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Named, PAGE_DEFAULT};
use crate::{call::Call, problem::Problem, route::Nothing};

/// Number of upcoming occurrences in the details of a schedule.
const UPCOMING: usize = 10;

/// Selects a page of a list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Paged {
    /// Maximum number of rows.
    limit: Option<usize>,
    /// Cursor: the `next` of the previous page.
    after: Option<String>,
}

pub(crate) async fn list(call: Call, page: Paged) -> Result<ScheduleList, Problem> {
    Ok(call.admin().schedules(page.after, page.limit.unwrap_or(PAGE_DEFAULT)).await?)
}

pub(crate) async fn show(call: Call, Named { name }: Named) -> Result<ScheduleDetail, Problem> {
    Ok(call.admin().schedule(&name, UPCOMING).await?)
}

/// Result of storing a schedule.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WasPut {
    /// Whether the schedule is new, changed or unchanged.
    put: Put,
}

pub(crate) async fn put(call: Call, Named { name }: Named, words: ScheduleInput) -> Result<WasPut, Problem> {
    Ok(WasPut { put: call.admin().put_schedule(words.recurring(&name)?).await? })
}

pub(crate) async fn delete(call: Call, Named { name }: Named, _: Nothing) -> Result<(), Problem> {
    Ok(call.admin().delete_schedule(&name).await?)
}

pub(crate) async fn pause(call: Call, Named { name }: Named, _: Nothing) -> Result<(), Problem> {
    Ok(call.admin().pause_schedule(&name).await?)
}

pub(crate) async fn resume(call: Call, Named { name }: Named, _: Nothing) -> Result<(), Problem> {
    Ok(call.admin().resume_schedule(&name).await?)
}

/// The job that was enqueued.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Triggered {
    /// Job id.
    job: JobId,
}

pub(crate) async fn trigger(call: Call, Named { name }: Named, _: Nothing) -> Result<Triggered, Problem> {
    Ok(Triggered { job: call.admin().trigger_schedule(&name).await? })
}

/// A past period of a schedule.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Past {
    /// Name of the schedule.
    name: String,
    /// Start of the period, inclusive.
    since: When,
    /// End of the period; by default now.
    until: Option<When>,
}

impl Past {
    fn period(&self, now: Timestamp) -> (Timestamp, Timestamp) {
        (self.since.0, self.until.map_or(now, |when| when.0))
    }
}

/// Occurrences that have no job.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Missing {
    /// Times of the occurrences.
    occurrences: Vec<Timestamp>,
}

pub(crate) async fn preview_backfill(call: Call, past: Past) -> Result<Missing, Problem> {
    let (since, until) = past.period(call.punctual().store().now());
    Ok(Missing { occurrences: call.admin().preview_backfill(&past.name, since, until).await? })
}

pub(crate) async fn backfill(call: Call, past: Past, _: Nothing) -> Result<Backfilled, Problem> {
    let (since, until) = past.period(call.punctual().store().now());
    Ok(call.admin().backfill_schedule(&past.name, since, until).await?)
}
