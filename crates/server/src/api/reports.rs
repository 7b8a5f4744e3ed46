//! Statistics and reports.

use std::time::Duration;

use punctual_client::admin::{DurationRow, EndedAttempts, FailureReport, JobView, Overview, SuccessRow};
use punctual_core::{
    Pending, Timestamp,
    time::{Span, When},
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{problem::Problem, request::RequestContext, route::Nothing};

const DAY: Duration = Duration::from_secs(24 * 3_600);
/// Default minimum duration of a stuck job.
const STUCK: Duration = Duration::from_secs(3_600);

pub(crate) async fn stats(request: RequestContext, _: Nothing) -> Result<Overview, Problem> {
    Ok(request.admin().overview().await?)
}

/// A period; by default the last 24 hours.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Period {
    /// Start of the period, inclusive.
    since: Option<When>,
    /// End of the period; by default now.
    until: Option<When>,
}

impl Period {
    fn bounds(&self, request: &RequestContext) -> Result<(Timestamp, Timestamp), Problem> {
        let until = self.until.map_or_else(|| request.punctual().store().now(), |when| when.0);
        let since = self.since.map_or_else(|| until.before(DAY), |when| when.0);
        if since >= until {
            return Err(Problem::invalid("since", "must be before `until`"));
        }
        Ok((since, until))
    }
}

pub(crate) async fn failures(request: RequestContext, period: Period) -> Result<FailureReport, Problem> {
    let (since, until) = period.bounds(&request)?;
    Ok(request.admin().failures(since, until).await?)
}

pub(crate) async fn success(request: RequestContext, period: Period) -> Result<Vec<SuccessRow>, Problem> {
    let (since, until) = period.bounds(&request)?;
    Ok(request.admin().success_rates(since, until).await?)
}

pub(crate) async fn durations(request: RequestContext, period: Period) -> Result<Vec<DurationRow>, Problem> {
    let (since, until) = period.bounds(&request)?;
    Ok(request.admin().durations(since, until).await?)
}

pub(crate) async fn attempts(request: RequestContext, period: Period) -> Result<EndedAttempts, Problem> {
    let (since, until) = period.bounds(&request)?;
    Ok(request.admin().ended_attempts(since, until).await?)
}

/// Minimum duration of stuck jobs.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Stuck {
    /// Minimum duration, such as `10m`; by default 1 hour.
    longer_than: Option<Span>,
}

pub(crate) async fn stuck(request: RequestContext, Stuck { longer_than }: Stuck) -> Result<Vec<JobView>, Problem> {
    Ok(request.admin().stuck(longer_than.map_or(STUCK, |span| span.0)).await?)
}

pub(crate) async fn pending(request: RequestContext, _: Nothing) -> Result<Vec<Pending>, Problem> {
    Ok(request.admin().pending().await?)
}
