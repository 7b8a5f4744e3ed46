//! Statistics and reports.

use std::time::Duration;

use punctual_client::admin::{DurationRow, FailureReport, JobView, Overview, SuccessRow};
use punctual_core::{
    Pending, Timestamp,
    time::{Span, When},
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{call::Call, problem::Problem, route::Nothing};

const DAY: Duration = Duration::from_secs(24 * 3_600);
/// Default minimum duration of a stuck job.
const STUCK: Duration = Duration::from_secs(3_600);

pub(crate) async fn stats(call: Call, _: Nothing) -> Result<Overview, Problem> {
    Ok(call.admin().overview().await?)
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
    fn bounds(&self, call: &Call) -> Result<(Timestamp, Timestamp), Problem> {
        let until = self.until.map_or_else(|| call.punctual().store().now(), |when| when.0);
        let since = self.since.map_or_else(|| until.before(DAY), |when| when.0);
        if since >= until {
            return Err(Problem::invalid("since", "is not before `until`"));
        }
        Ok((since, until))
    }
}

pub(crate) async fn failures(call: Call, period: Period) -> Result<FailureReport, Problem> {
    let (since, until) = period.bounds(&call)?;
    Ok(call.admin().failures(since, until).await?)
}

pub(crate) async fn success(call: Call, period: Period) -> Result<Vec<SuccessRow>, Problem> {
    let (since, until) = period.bounds(&call)?;
    Ok(call.admin().success_rates(since, until).await?)
}

pub(crate) async fn durations(call: Call, period: Period) -> Result<Vec<DurationRow>, Problem> {
    let (since, until) = period.bounds(&call)?;
    Ok(call.admin().durations(since, until).await?)
}

/// Minimum duration of stuck jobs.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Stuck {
    /// Minimum duration, such as `10m`; by default 1 hour.
    longer_than: Option<Span>,
}

pub(crate) async fn stuck(call: Call, Stuck { longer_than }: Stuck) -> Result<Vec<JobView>, Problem> {
    Ok(call.admin().stuck(longer_than.map_or(STUCK, |span| span.0)).await?)
}

pub(crate) async fn pending(call: Call, _: Nothing) -> Result<Vec<Pending>, Problem> {
    Ok(call.admin().pending().await?)
}
