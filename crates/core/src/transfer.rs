//! Transfer of everything that one store contains to another.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;

use crate::{
    Attempt, Event, Filter, History, Job, JobId, LogLine, Notification, OnParentFailure, Page, Queue, QueueEvent,
    Schedule, ScheduleEvent, Status, Store, StoreResult, Timestamp, Workflow,
    limits::{LOG_MAX_LINES, PAGE_MAX_JOBS, ROLLUPS_KEPT},
    measure::{self, Rollup},
};

/// Maximum number of records per batch.
const BATCH_MAX: usize = 500;
/// Size of payloads, results and logs at which a batch is full.
const BATCH_MAX_BYTES: usize = 16 << 20;
/// Jobs whose logs are read concurrently.
const READERS: usize = 16;
/// Maximum number of jobs whose histories are read by one call. Histories have no bound: those of a whole batch could
/// take longer than a statement may.
const HISTORIES_MAX: usize = 16;
/// Maximum number of events of a queue or schedule that are transferred.
const HISTORY_MAX: usize = 10_000;

/// A batch of the transfer. Records that the target store has already are skipped, so that a batch may be sent twice.
#[derive(Debug, Clone)]
pub enum ExportBatch {
    /// Settings of queues, and the changes of each, latest first. Sent before their jobs.
    Queues(Vec<(Queue, Vec<QueueEvent>)>),
    /// Jobs, later ids first: of several jobs that had a unique key in succession, the first that is imported gets it.
    Jobs(Vec<Record>),
    /// Current and former dependencies between jobs. Sent after all jobs.
    Dependencies(Vec<Dependency>),
    /// Workflows, and their jobs with their names in the workflow. Sent after all jobs.
    Workflows(Vec<(Workflow, Vec<(String, JobId)>)>),
    /// Schedules, and the actions on each, latest first.
    Schedules(Vec<(Schedule, Vec<ScheduleEvent>)>),
    /// The counters of one hour.
    Rollups(Timestamp, Vec<Rollup>),
    /// Messages to users, with their numbers.
    Notifications(Vec<Notification>),
}

/// A job with its attempts, events and logs.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The job in its current state.
    pub job: Job,
    /// Its events, oldest first.
    pub events: Vec<Event>,
    /// Its executions that are still stored, oldest first.
    pub attempts: Vec<Attempt>,
    /// Its log lines that are still stored, oldest first.
    pub logs: Vec<LogLine>,
    /// Whether it waits for its parents, and one of them has failed.
    pub any_failed: bool,
}

impl Record {
    /// The job as it was before its current execution, if there is one; stores keep the execution separate from the
    /// job.
    pub fn at_rest(&self) -> Job {
        let mut job = self.job.clone();
        if job.status == Status::Processing {
            (job.status, job.worker_id, job.lease_until) = (Status::Queued, None, None);
            (job.run, job.attempt) = (job.run.saturating_sub(1), job.attempt.saturating_sub(1));
            job.updated_at = self.queued_at();
            job.started_at = self.attempts.iter().rev().nth(1).map(|attempt| attempt.started_at);
        }
        job
    }

    /// The number of its events before its current execution, if there is one.
    pub fn events_at_rest(&self) -> usize {
        self.events.len() - usize::from(self.job.status == Status::Processing && !self.events.is_empty())
    }

    /// Its approximate size.
    fn bytes(&self) -> usize {
        let logs: usize = self.logs.iter().map(|line| line.message.len()).sum();
        let result = self.job.result.as_ref().map_or(0, |result| result.as_str().len());
        self.job.spec.payload.as_str().len() + result + logs
    }

    /// The time of the last of these events.
    pub fn queued_at(&self) -> Timestamp {
        let last = self.events[..self.events_at_rest()].last();
        last.map_or(self.job.created_at, |event| event.at)
    }
}

/// A current or former dependency of one job on another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dependency {
    /// The job that must end.
    pub parent: JobId,
    /// The job that waits.
    pub child: JobId,
    /// What the child does if the parent fails.
    pub policy: OnParentFailure,
    /// Whether the parent succeeded, once the child no longer waits for it.
    pub succeeded: Option<bool>,
}

/// The number of new records that were transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Transferred {
    /// Jobs.
    pub jobs: usize,
    /// Dependencies between jobs.
    pub dependencies: usize,
    /// Workflows.
    pub workflows: usize,
    /// Schedules.
    pub schedules: usize,
    /// Queues that have settings.
    pub queues: usize,
    /// Messages to users.
    pub notifications: usize,
    /// Tokens, except sessions.
    pub tokens: usize,
}

/// Transfers everything from `from` except workers, locks, sessions, idempotent requests, and the usage of rate limits.
/// Can be restarted after an interruption: records that `to` has already are skipped. `on_jobs` is called with the
/// number of jobs that were processed.
pub async fn transfer(from: &dyn Store, to: &dyn Store, mut on_jobs: impl FnMut(usize)) -> StoreResult<Transferred> {
    let queues = transfer_queues(from, to).await?;
    let mut done = Transferred { queues, ..Transferred::default() };
    let mut seen = 0;
    let mut pages = Pages::of(from);
    while let Some(jobs) = pages.next().await? {
        seen += jobs.len();
        let mut records = records(from, jobs).await?;
        while !records.is_empty() {
            let rest = records.split_off(fitting(&records));
            done.jobs += to.import(ExportBatch::Jobs(std::mem::replace(&mut records, rest))).await?;
        }
        on_jobs(seen);
    }
    let mut pages = Pages::of(from);
    while let Some(jobs) = pages.next().await? {
        let ids = jobs.iter().map(|job| job.id).collect();
        let dependencies = from.dependencies(ids).await?;
        if !dependencies.is_empty() {
            done.dependencies += to.import(ExportBatch::Dependencies(dependencies)).await?;
        }
    }
    done.workflows = transfer_workflows(from, to).await?;
    done.schedules = transfer_schedules(from, to).await?;
    done.notifications = transfer_notifications(from, to).await?;
    done.tokens = transfer_tokens(from, to).await?;
    transfer_rollups(from, to).await?;
    Ok(done)
}

/// All jobs, later ids first.
struct Pages<'a> {
    store: &'a dyn Store,
    page: Option<Page>,
}

impl<'a> Pages<'a> {
    fn of(store: &'a dyn Store) -> Self {
        Self { store, page: Some(Page::first(BATCH_MAX.min(PAGE_MAX_JOBS))) }
    }

    async fn next(&mut self) -> StoreResult<Option<Vec<Job>>> {
        let Some(page) = self.page.take() else { return Ok(None) };
        let filter = Filter { statuses: Status::ALL.to_vec(), ..Filter::default() };
        let limit = page.limit;
        let found = self.store.list(filter, page).await?;
        self.page = found.next.map(|next| Page { limit, after: Some(next) });
        Ok(Some(found.jobs))
    }
}

/// The number of leading jobs, at least one, that fit into one batch.
fn fitting(records: &[Record]) -> usize {
    let mut room = BATCH_MAX_BYTES;
    let fits = records.iter().take_while(|record| {
        let fits = room > 0;
        room = room.saturating_sub(record.bytes());
        fits
    });
    fits.count()
}

/// Jobs with their histories and logs.
async fn records(from: &dyn Store, jobs: Vec<Job>) -> StoreResult<Vec<Record>> {
    let ids = jobs.iter().filter(|job| job.status == Status::Waiting).map(|job| job.id).collect();
    let parents = from.dependencies(ids).await?;
    let failed = |id: JobId| parents.iter().any(|one| one.child == id && one.succeeded == Some(false));
    let mut histories = Vec::with_capacity(jobs.len());
    for jobs in jobs.chunks(HISTORIES_MAX) {
        histories.extend(from.histories(jobs.iter().map(|job| job.id).collect()).await?);
    }
    let record = async |(job, History { events, attempts }): (Job, History)| {
        let ran = job.run > 0;
        let logs = if ran { from.logs(job.id, LOG_MAX_LINES * job.run as usize).await? } else { Vec::new() };
        Ok(Record { events, attempts, logs, any_failed: failed(job.id), job })
    };
    stream::iter(jobs.into_iter().zip(histories)).map(record).buffered(READERS).try_collect().await
}

async fn transfer_queues(from: &dyn Store, to: &dyn Store) -> StoreResult<usize> {
    let mut queues = Vec::new();
    for queue in from.queues().await? {
        let done = from.queue_events(queue.name.clone(), HISTORY_MAX).await?;
        queues.push((queue, done));
    }
    to.import(ExportBatch::Queues(queues)).await
}

async fn transfer_workflows(from: &dyn Store, to: &dyn Store) -> StoreResult<usize> {
    let (mut before, mut new) = (None, 0);
    loop {
        let found = from.workflows(before, BATCH_MAX).await?;
        let Some(last) = found.last() else { return Ok(new) };
        before = Some(last.id);
        let mut workflows = Vec::with_capacity(found.len());
        for workflow in found {
            let nodes = from.nodes(workflow.id).await?;
            workflows.push((workflow, nodes.into_iter().map(|node| (node.node, node.id)).collect()));
        }
        new += to.import(ExportBatch::Workflows(workflows)).await?;
    }
}

async fn transfer_schedules(from: &dyn Store, to: &dyn Store) -> StoreResult<usize> {
    let (mut after, mut new) = (None, 0);
    loop {
        let found = from.schedules(after, BATCH_MAX).await?;
        let Some(last) = found.last() else { return Ok(new) };
        after = Some(last.spec.name.clone());
        let mut schedules = Vec::with_capacity(found.len());
        for schedule in found {
            let done = from.schedule_events(schedule.spec.name.clone(), HISTORY_MAX).await?;
            schedules.push((schedule, done));
        }
        new += to.import(ExportBatch::Schedules(schedules)).await?;
    }
}

async fn transfer_notifications(from: &dyn Store, to: &dyn Store) -> StoreResult<usize> {
    let (mut after, mut new) = (0, 0);
    loop {
        let found = from.notifications(None, after, BATCH_MAX).await?;
        let Some(last) = found.last() else { return Ok(new) };
        after = last.id;
        new += to.import(ExportBatch::Notifications(found)).await?;
    }
}

async fn transfer_tokens(from: &dyn Store, to: &dyn Store) -> StoreResult<usize> {
    let (known, mut new) = (to.tokens().await?, 0);
    for token in from.tokens().await?.into_iter().filter(|token| token.session_of.is_none()) {
        if !known.iter().any(|known| known.id == token.id) {
            to.add_token(token).await?;
            new += 1;
        }
    }
    Ok(new)
}

/// Long periods without counters are skipped.
async fn transfer_rollups(from: &dyn Store, to: &dyn Store) -> StoreResult<()> {
    const HOUR: Duration = Duration::from_secs(3_600);
    let end = measure::hour(from.now()).after(2 * HOUR);
    let mut stretches = vec![(measure::hour(end.before(ROLLUPS_KEPT)), end)];
    while let Some((since, until)) = stretches.pop() {
        let rollups = from.rollups(since, until).await?;
        if rollups.is_empty() {
            continue;
        }
        if until.since(since) <= HOUR {
            to.import(ExportBatch::Rollups(since, rollups)).await?;
            continue;
        }
        let half = measure::hour(since.after(until.since(since) / 2));
        stretches.extend([(since, half), (half, until)]);
    }
    Ok(())
}

/// The differences between two stores after a transfer: jobs by queue, name and status; schedules; queues; workflows;
/// messages. One line for each difference.
pub async fn differences(from: &dyn Store, to: &dyn Store) -> StoreResult<Vec<String>> {
    let mut lines = Vec::new();
    let counts = async |store: &dyn Store| -> StoreResult<std::collections::BTreeMap<String, u64>> {
        let mut counts = std::collections::BTreeMap::new();
        for count in store.counts().await?.into_iter().filter(|count| count.count > 0) {
            let what = format!("{} jobs {} in the queue {}", count.status, count.name, count.queue);
            *counts.entry(what).or_default() += count.count;
        }
        counts.insert("queues".to_owned(), store.queues().await?.len() as u64);
        counts.insert("messages".to_owned(), count_notifications(store).await?);
        counts.insert("schedules".to_owned(), count_schedules(store).await?);
        counts.insert("workflows".to_owned(), count_workflows(store).await?);
        Ok(counts)
    };
    let (left, right) = (counts(from).await?, counts(to).await?);
    for (what, count) in &left {
        let there = right.get(what).copied().unwrap_or(0);
        if there != *count {
            lines.push(format!("{what}: {count} in the source, {there} in the target"));
        }
    }
    lines.extend(
        right
            .iter()
            .filter(|(what, _)| !left.contains_key(*what))
            .map(|(what, count)| format!("{what}: 0 in the source, {count} in the target")),
    );
    Ok(lines)
}

async fn count_notifications(store: &dyn Store) -> StoreResult<u64> {
    let (mut after, mut count) = (0, 0);
    loop {
        let found = store.notifications(None, after, BATCH_MAX).await?;
        let Some(last) = found.last() else { return Ok(count) };
        count += found.len() as u64;
        after = last.id;
    }
}

async fn count_schedules(store: &dyn Store) -> StoreResult<u64> {
    let (mut after, mut count) = (None, 0);
    loop {
        let found = store.schedules(after, BATCH_MAX).await?;
        let Some(last) = found.last() else { return Ok(count) };
        count += found.len() as u64;
        after = Some(last.spec.name.clone());
    }
}

async fn count_workflows(store: &dyn Store) -> StoreResult<u64> {
    let (mut before, mut count) = (None, 0);
    loop {
        let found = store.workflows(before, BATCH_MAX).await?;
        let Some(last) = found.last() else { return Ok(count) };
        count += found.len() as u64;
        before = Some(last.id);
    }
}
