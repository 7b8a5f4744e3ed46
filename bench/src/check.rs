//! Validates a run: every job must have succeeded once, with one attempt and the right events.

use anyhow::{Result, ensure};
use punctual::{AttemptStatus, Filter, JobId, Page, Punctual, Status};

/// Number of jobs whose complete history is read; for the others, only the counters are compared.
const SAMPLE: usize = 200;

/// Checks that `jobs` jobs succeeded and that there are no others.
pub(crate) async fn all_succeeded(punctual: &Punctual, jobs: usize) -> Result<()> {
    let overview = punctual.admin("bench").overview().await?;
    for (status, count) in &overview.jobs {
        let expected = if *status == Status::Succeeded { jobs as u64 } else { 0 };
        ensure!(*count == expected, "{count} jobs are {status}, expected {expected}: the run is invalid");
    }
    for diagnostic in punctual.store().check().await? {
        ensure!(diagnostic.ok, "{}: {}: the run is invalid", diagnostic.check, diagnostic.message);
    }
    let latest = punctual.store().list(Filter::status(Status::Succeeded), Page::first(SAMPLE.min(jobs.max(1)))).await?;
    for job in latest.jobs {
        one(punctual, job.id).await?;
    }
    Ok(())
}

async fn one(punctual: &Punctual, id: JobId) -> Result<()> {
    let punctual::core::History { events, attempts } = punctual.store().history(id).await?;
    let once = attempts.len() == 1 && attempts[0].status == AttemptStatus::Succeeded;
    ensure!(once, "{id} has {} attempts: the run is invalid", attempts.len());
    let events: Vec<_> = events.into_iter().map(|event| event.status).collect();
    let queued_first = [Status::Queued, Status::Processing, Status::Succeeded];
    let right =
        events.ends_with(&queued_first) && (events.len() == 3 || events[0] == Status::Scheduled && events.len() == 4);
    ensure!(right, "{id} has the events {events:?}: the run is invalid");
    Ok(())
}
