//! Reports for operators, read from counters and indexes, so that they are fast at any size.

use std::{collections::BTreeMap, time::Duration};

use punctual_core::{
    AttemptStatus, Error, Filter, Page, Pending, Status, Timestamp, limits,
    measure::{Measure, percentile},
};
use serde::{Deserialize, Serialize};

use super::{Admin, JobView};

/// Jobs that died in a period and have not been retried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailureReport {
    /// Number of jobs by name, highest first.
    pub by_name: Vec<(String, u64)>,
    /// The latest jobs.
    pub latest: Vec<JobView>,
}

/// Success and failure counts of one job name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SuccessRow {
    /// Job name.
    pub name: String,
    /// Number of jobs that succeeded.
    pub succeeded: u64,
    /// Number of jobs that died.
    pub died: u64,
    /// Number of attempts that failed, timed out or were lost; most of them were retried.
    pub failed_attempts: u64,
    /// Jobs that succeeded, in percent of those that succeeded or died.
    pub success_percent: f64,
}

/// Durations and start delays of the attempts of one job name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DurationRow {
    /// Job name.
    pub name: String,
    /// Number of attempts that were measured.
    pub attempts: u64,
    /// Duration in milliseconds: 50th, 95th and 99th percentile.
    pub took_ms: [f64; 3],
    /// Delay between the scheduled time and the start in milliseconds: 50th, 95th and 99th percentile.
    pub late_ms: [f64; 3],
}

/// Number of attempts that ended in a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EndedAttempts {
    /// Number of attempts that succeeded.
    pub succeeded: u64,
    /// Number of attempts that failed, timed out or were lost.
    pub failed: u64,
}

/// Number of jobs in a failure report.
const LATEST_MAX_JOBS: usize = 20;
/// Maximum number of rows of the report on pending jobs.
const PENDING_MAX_ROWS: usize = 1_000;
const SHARES: [f64; 3] = [0.50, 0.95, 0.99];

impl Admin {
    /// Returns the jobs that died from `since` up to `until` and have not been retried.
    pub async fn failures(&self, since: Timestamp, until: Timestamp) -> Result<FailureReport, Error> {
        let store = self.punctual.store();
        let by_name = store.dead_by_name(since, until).await?;
        let filter = Filter { since: Some(since), until: Some(until), ..Filter::status(Status::Dead) };
        let latest = store.list(filter, Page::first(LATEST_MAX_JOBS)).await?.jobs;
        Ok(FailureReport { by_name, latest: latest.iter().map(JobView::of).collect() })
    }

    /// Returns the jobs that have been running for longer than `longer_than`, longest first.
    pub async fn stuck(&self, longer_than: Duration) -> Result<Vec<JobView>, Error> {
        let store = self.punctual.store();
        let before = store.now().before(longer_than);
        let (mut stuck, mut page) = (Vec::new(), Page::first(limits::PAGE_MAX_JOBS));
        loop {
            let found = store.list(Filter::status(Status::Processing), page).await?;
            let old = found.jobs.iter().filter(|job| job.started_at.is_some_and(|started| started <= before));
            stuck.extend(old.map(JobView::of));
            match found.next {
                Some(next) => page = Page { limit: limits::PAGE_MAX_JOBS, after: Some(next) },
                None => break,
            }
        }
        stuck.sort_by_key(|job| job.started_at);
        Ok(stuck)
    }

    /// Returns the number of unfinished jobs by user and name.
    pub async fn pending(&self) -> Result<Vec<Pending>, Error> {
        Ok(self.punctual.store().pending_by_user(PENDING_MAX_ROWS).await?)
    }

    /// Returns the success rates by job name for the whole hours from `since` up to `until`, lowest first.
    pub async fn success_rates(&self, since: Timestamp, until: Timestamp) -> Result<Vec<SuccessRow>, Error> {
        let mut rows = BTreeMap::<String, (u64, u64, u64)>::new();
        for rollup in self.punctual.store().rollups(since, until).await? {
            let row = rows.entry(rollup.name).or_default();
            match rollup.measure {
                Measure::Ended(AttemptStatus::Succeeded) => row.0 += rollup.count,
                Measure::Died => row.1 += rollup.count,
                Measure::Ended(AttemptStatus::Failed | AttemptStatus::TimedOut | AttemptStatus::Lost) => {
                    row.2 += rollup.count
                }
                _ => {}
            }
        }
        let ended = rows.into_iter().filter(|(_, (succeeded, died, _))| succeeded + died > 0);
        let mut rows: Vec<_> = ended
            .map(|(name, (succeeded, died, failed_attempts))| {
                let success_percent = 100.0 * succeeded as f64 / (succeeded + died) as f64;
                SuccessRow { name, succeeded, died, failed_attempts, success_percent }
            })
            .collect();
        rows.sort_by(|a, b| a.success_percent.total_cmp(&b.success_percent).then_with(|| a.name.cmp(&b.name)));
        Ok(rows)
    }

    /// Returns the number of attempts that ended in the whole hours from `since` up to `until`.
    pub async fn ended_attempts(&self, since: Timestamp, until: Timestamp) -> Result<EndedAttempts, Error> {
        let mut ended = EndedAttempts::default();
        for rollup in self.punctual.store().rollups(since, until).await? {
            match rollup.measure {
                Measure::Ended(AttemptStatus::Succeeded) => ended.succeeded += rollup.count,
                Measure::Ended(AttemptStatus::Failed | AttemptStatus::TimedOut | AttemptStatus::Lost) => {
                    ended.failed += rollup.count;
                }
                _ => {}
            }
        }
        Ok(ended)
    }

    /// Returns attempt durations and start delays by job name for the whole hours from `since` up to `until`.
    pub async fn durations(&self, since: Timestamp, until: Timestamp) -> Result<Vec<DurationRow>, Error> {
        let mut rows = BTreeMap::<String, [Vec<(u16, u64)>; 2]>::new();
        for rollup in self.punctual.store().rollups(since, until).await? {
            let [took, late] = rows.entry(rollup.name).or_default();
            match rollup.measure {
                Measure::Lateness => late.push((rollup.bucket, rollup.count)),
                Measure::Ended(AttemptStatus::Released) | Measure::Died => {}
                Measure::Ended(_) => took.push((rollup.bucket, rollup.count)),
            }
        }
        let millis = |buckets: &[(u16, u64)]| {
            SHARES.map(|share| percentile(buckets, share).map_or(0.0, |duration| duration.as_secs_f64() * 1e3))
        };
        let row = |(name, [took, late]): (String, [Vec<(u16, u64)>; 2])| DurationRow {
            name,
            attempts: took.iter().map(|(_, count)| count).sum(),
            took_ms: millis(&took),
            late_ms: millis(&late),
        };
        Ok(rows.into_iter().map(row).filter(|row| row.attempts > 0).collect())
    }
}
