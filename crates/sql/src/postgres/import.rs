//! Imports the data of another store: rows as JSON documents, one set per table, keyed by column names.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use punctual_core::{
    Event, Job, JobId, NewJob, Notification, Queue, QueueEvent, Schedule, ScheduleEvent, Status, StoreError, Timestamp,
    Workflow, WorkflowId,
    measure::Rollup,
    spec::DEFAULT_PRIORITY,
    transfer::{Dependency, ExportBatch, Record},
};
use serde::Serialize;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgConnection, Row, postgres::PgRow};

use super::{
    core::Core,
    enqueue, old_partitions,
    queues::QueueSnapshot,
    rows,
    statements::{self as sql, DispatchedBy},
    suspects,
    value::{At, Uuid, job_id, uuid},
};
use crate::{labels::labels, level::Level};

/// The dependencies of some jobs, pending or met.
pub(crate) async fn dependencies(store: &Core, children: &[JobId]) -> sqlx::Result<Vec<Dependency>> {
    let mut unit = store.sessions.single().await?;
    let ids: Vec<Uuid> = children.iter().map(|id| uuid(*id)).collect();
    let found = sqlx::query(*sql::DEPENDENCIES_OF).bind(ids).fetch_all(&mut *unit).await?;
    unit.done().await?;
    let dependency = |row: &PgRow| {
        Ok(Dependency {
            parent: job_id(row.try_get(0)?),
            child: job_id(row.try_get(1)?),
            policy: rows::word(row, 2)?,
            succeeded: row.try_get(3)?,
        })
    };
    found.iter().map(dependency).collect()
}

/// Imports one batch; returns how many of its items were new.
pub(crate) async fn import(store: &Core, batch: &ExportBatch) -> Result<usize, StoreError> {
    let error = |error| store.sessions.error(error);
    let jobs: Vec<NewJob> = match batch {
        ExportBatch::Jobs(records) => records.iter().map(|one| NewJob::new(one.job.id, one.job.spec.clone())).collect(),
        _ => Vec::new(),
    };
    enqueue::prepare(store, &jobs).await?;
    if let ExportBatch::Jobs(records) = batch {
        let suspects: Vec<_> = records.iter().map(|one| &one.job).filter(|job| job.is_suspect()).collect();
        suspects::make_lanes_of(store, &suspects).await.map_err(error)?;
    }
    if let ExportBatch::Rollups(_, rollups) = batch {
        make_lanes(store, rollups).await.map_err(error)?;
    }
    let mut unit = store.sessions.several().await.map_err(error)?;
    let imported = import_batch(store, &mut unit, batch, &jobs).await;
    let new = unit.ended(imported).await.map_err(error)?;
    enqueue::announce(store, &jobs, DispatchedBy::Loader);
    store.hints.notify_jobs();
    Ok(new)
}

async fn import_batch(
    store: &Core,
    connection: &mut PgConnection,
    batch: &ExportBatch,
    jobs: &[NewJob],
) -> sqlx::Result<usize> {
    match batch {
        ExportBatch::Queues(all) => import_queues(connection, all).await,
        ExportBatch::Jobs(records) => import_jobs(store, connection, records, jobs).await,
        ExportBatch::Dependencies(all) => import_dependencies(connection, all).await,
        ExportBatch::Workflows(all) => import_workflows(connection, all).await,
        ExportBatch::Schedules(all) => import_schedules(connection, all).await,
        ExportBatch::Rollups(hour, all) => import_rollups(store, connection, *hour, all).await,
        ExportBatch::Notifications(all) => import_notifications(connection, all).await,
    }
}

/// Rows as objects keyed by column names.
type Rows = Vec<Value>;

/// Inserts the rows that a table does not have yet; returns the first column of the inserted rows.
async fn put<T>(connection: &mut PgConnection, table: &str, rows: Rows, first: &str) -> sqlx::Result<Vec<T>>
where
    T: for<'d> sqlx::Decode<'d, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + Send + Unpin,
{
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let text = format!(
        "insert into {table} select * from json_populate_recordset(null::{table}, $1::json) on conflict do nothing returning {first}"
    );
    sqlx::query_scalar(AssertSqlSafe(text)).bind(written(&rows)?).persistent(false).fetch_all(connection).await
}

/// Like [`put`]; returns only the number of inserted rows.
async fn put_all(connection: &mut PgConnection, table: &str, rows: Rows) -> sqlx::Result<usize> {
    Ok(put::<i32>(connection, table, rows, "1").await?.len())
}

/// Appends events of schedules or queues, each of which the first column names.
async fn put_history(connection: &mut PgConnection, table: &str, of: &str, rows: Rows) -> sqlx::Result<()> {
    let text = format!(
        "insert into {table} ({of}, at, actor, action) select {of}, at, actor, action from json_populate_recordset(null::{table}, $1::json)"
    );
    sqlx::query(AssertSqlSafe(text)).bind(written(&rows)?).persistent(false).execute(connection).await.map(drop)
}

/// An id as a hexadecimal text, which the server accepts as a `uuid`.
fn hex(id: u128) -> String {
    format!("{id:032x}")
}

fn text_of(id: JobId) -> String {
    hex(id.to_bits())
}

fn written(value: &impl Serialize) -> sqlx::Result<String> {
    rows::text(value)
}

async fn import_jobs(
    store: &Core,
    connection: &mut PgConnection,
    records: &[Record],
    jobs: &[NewJob],
) -> sqlx::Result<usize> {
    if jobs.iter().any(|job| old_partitions::is_old(super::partitions::Day::of(job.id.timestamp()), store.clock_now()))
    {
        old_partitions::share(connection).await?;
    }
    let lane = |(record, lane): (&Record, i32)| {
        if record.job.is_suspect() { store.lanes.of_suspect(&record.job.spec).unwrap_or(lane) } else { lane }
    };
    let lanes: Vec<i32> = records.iter().zip(store.lanes.numbers(jobs)).map(lane).collect();
    let all =
        records.iter().zip(&lanes).map(|(record, lane)| job_row(record, *lane)).collect::<sqlx::Result<Rows>>()?;
    let new: HashSet<JobId> =
        put::<Uuid>(connection, "punctual_jobs", all, "id").await?.into_iter().map(job_id).collect();
    let mut tables = ImportedRows::default();
    let queues = store.queues.known();
    for (record, lane) in records.iter().zip(lanes).filter(|(record, _)| new.contains(&record.job.id)) {
        tables.add(record, lane, &queues)?;
    }
    for (table, rows) in tables.rows {
        put_all(connection, table, rows).await?;
    }
    Ok(new.len())
}

fn job_row(record: &Record, lane: i32) -> sqlx::Result<Value> {
    let job = record.at_rest();
    let spec = &job.spec;
    Ok(json!({
        "id": text_of(job.id),
        "scheduled_at": job.id.timestamp(),
        "lane": lane,
        "name": spec.name,
        "queue": spec.queue,
        "status": job.status,
        "priority": spec.priority,
        "run_at": job.run_at,
        "attempt": job.attempt,
        "run": job.run,
        "crash_count": job.crash_count,
        "max_attempts": spec.max_attempts,
        "timeout_ms": spec.timeout.as_millis() as u64,
        "user_id": spec.user_id,
        "correlation_id": spec.correlation_id,
        "unique_key": spec.unique_key,
        "workflow_id": spec.workflow_id.map(workflow_text),
        "keep_for_ms": spec.keep_for.map(|keep| keep.as_millis() as u64),
        "ephemeral": spec.ephemeral,
        "waiting_on": job.waiting_on,
        "created_at": job.created_at,
        "updated_at": job.updated_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "events": record.events_at_rest(),
        "options": if spec.options == Default::default() { None } else { Some(written(&spec.options)?) },
        "payload": spec.payload.as_str(),
        "progress": job.progress.as_ref().map(written).transpose()?,
        "result": job.result.as_ref().map(|result| result.as_str()),
        "error": job.error.as_ref().map(written).transpose()?,
        "flow": spec.workflow_id.is_some(),
    }))
}

fn workflow_text(id: WorkflowId) -> String {
    hex(id.to_bits())
}

/// The rows that belong to jobs, by table.
#[derive(Default)]
struct ImportedRows {
    rows: BTreeMap<&'static str, Rows>,
}

impl ImportedRows {
    fn push(&mut self, table: &'static str, row: Value) {
        self.rows.entry(table).or_default().push(row);
    }

    fn add(&mut self, record: &Record, lane: i32, queues: &QueueSnapshot) -> sqlx::Result<()> {
        let Job { id, spec, status, .. } = &record.job;
        let id = text_of(*id);
        self.add_state(record, lane, queues);
        self.add_events(record, lane)?;
        self.add_labels(record);
        if spec.ephemeral {
            self.push("punctual_ephemeral", json!({"id": id, "created_at": record.job.created_at}));
        }
        if let Some((scope, key)) = spec.unique_key()
            && !matches!(status, Status::Cancelled | Status::Deleted)
        {
            let expires_at = spec.unique().expires_at(record.job.created_at);
            self.push("punctual_keys", json!({"scope": scope, "key": key, "job_id": id, "expires_at": expires_at}));
        }
        for (line, log) in record.logs.iter().enumerate() {
            let row = json!({
                "job_id": id, "run": log.run, "line": line, "at": log.at, "level": log.level, "message": log.message,
            });
            self.push("punctual_logs", row);
        }
        self.push("punctual_counts_new", json!({"lane": lane, "status": status, "n": 1}));
        if let Some(user) = spec.user_id.as_ref().filter(|_| status.is_active()) {
            self.push("punctual_pending_new", json!({"user_id": user, "name": spec.name, "n": 1}));
        }
        Ok(())
    }

    /// Adds the row of a job's state: queued, due, waiting, running or deleted.
    fn add_state(&mut self, record: &Record, lane: i32, queues: &QueueSnapshot) {
        let job = &record.job;
        let (spec, id, key) = (&job.spec, text_of(job.id), &job.spec.options.concurrency_key);
        let keep = |keep: &std::time::Duration| keep.as_millis() as u64;
        let mut row = json!({
            "id": id, "run_at": job.run_at, "scheduled_at": job.id.timestamp(), "lane": lane, "status": job.status,
            "run": job.run, "attempt": job.attempt, "events": record.events.len(), "user_id": spec.user_id,
            "keep_for_ms": spec.keep_for.as_ref().map(keep), "flow": spec.workflow_id.is_some(), "limit_key": key,
            "queued_at": record.queued_at(), "since": record.queued_at(), "dispatched": false,
            "waiting_on": job.waiting_on, "any_failed": record.any_failed,
            "started_at": job.started_at, "lease_until": job.lease_until,
        });
        match job.status {
            Status::Queued => {
                self.push("punctual_ready", row);
                if let Some(key) = key {
                    self.push("punctual_limit_wakeups", json!({"queue": spec.queue, "at": job.updated_at, "key": key}));
                }
            }
            Status::Scheduled | Status::Retrying => self.push("punctual_due", row),
            Status::Waiting => self.push("punctual_waiting", row),
            Status::Processing => {
                // An execution that another store has started must not start a second time here if the job runs at most
                // once.
                row["confirmed"] = json!(true);
                row["worker_id"] = json!(job.worker_id.map(|worker| hex(worker.to_bits())));
                if key.is_none() && queues.guards(&spec.queue) {
                    row["limit_key"] = json!("");
                }
                self.push("punctual_running", row);
            }
            Status::Deleted => {
                let (deleted_at, finished_at) = (job.updated_at, job.finished_at.unwrap_or(job.updated_at));
                let row = json!({"id": id, "deleted_at": deleted_at, "finished_at": finished_at});
                self.push("punctual_deleted", row);
            }
            _ => {}
        }
        if let (Some(finished_at), Some(keep), true) = (job.finished_at, spec.keep_for, job.status != Status::Deleted) {
            self.push("punctual_expiries", json!({"id": id, "expires_at": finished_at.after(keep)}));
        }
    }

    /// Adds the events of a job. The initial queueing and the beginnings of executions are derived from other rows.
    fn add_events(&mut self, record: &Record, lane: i32) -> sqlx::Result<()> {
        let (job, events) = (&record.job, &record.events[..record.events_at_rest()]);
        let last = events.iter().rposition(|event| ends(job, event));
        for (index, event) in events.iter().enumerate() {
            let begins = |index: usize| index.checked_sub(1).and_then(|before| began(&events[before], &events[index]));
            if index + 1 < events.len() && begins(index + 1).is_some() || is_derived_from_job(job, index, event) {
                continue;
            }
            let started_at = begins(index);
            let attempt = record.attempts.iter().find(|one| started_at.is_some() && Some(one.id.run) == event.run);
            let before = index.checked_sub(1 + usize::from(started_at.is_some()));
            let finals = |status| sql::ENDS.iter().find(|(end, _)| *end == status).map(|(_, number)| *number);
            self.push(
                "punctual_events",
                json!({
                    "job_id": text_of(job.id),
                    "n": index + 1,
                    "at": event.at,
                    "previous_at": before.map(|before| events[before].at),
                    "started_at": started_at,
                    "lane": lane,
                    "run": event.run,
                    "attempt": attempt.map(|attempt| attempt.attempt),
                    "worker_id": attempt.map(|attempt| hex(attempt.worker_id.to_bits())),
                    "final": if Some(index) == last { finals(event.status).unwrap_or(0) } else { 0 },
                    "status": event.status,
                    "outcome": attempt.map(|attempt| attempt.status),
                    "error": attempt.and_then(|attempt| attempt.error.as_ref()).map(written).transpose()?,
                    "actor": event.actor,
                    "detail": event.detail,
                }),
            );
        }
        Ok(())
    }

    fn add_labels(&mut self, record: &Record) {
        let Job { id, spec, .. } = &record.job;
        for (kind, value) in labels(spec) {
            let row = json!({"kind": kind, "value": value, "scheduled_at": id.timestamp(), "id": text_of(*id)});
            self.push("punctual_labels", row);
        }
    }
}

/// When the execution that `end` ended began, if `event` is its beginning.
fn began(event: &Event, end: &Event) -> Option<Timestamp> {
    let is_beginning = event.status == Status::Processing && event.run.is_some() && event.run == end.run;
    is_beginning.then_some(event.at)
}

/// Whether this event finished the job.
fn ends(job: &Job, event: &Event) -> bool {
    job.status.is_finished() && event.status == job.status && Some(event.at) == job.finished_at
}

/// Whether this is the first event of a job that was queued at once, which is derived from the job's row.
fn is_derived_from_job(job: &Job, index: usize, event: &Event) -> bool {
    let apart = job.created_at.since(job.id.timestamp()).max(job.id.timestamp().since(job.created_at));
    index == 0 && event.status == Status::Queued && event.at == job.created_at && apart.as_millis() < 1_000
}

async fn import_dependencies(connection: &mut PgConnection, all: &[Dependency]) -> sqlx::Result<usize> {
    let row = |one: &Dependency| {
        let (parent, child) = (text_of(one.parent), text_of(one.child));
        json!({"parent": parent, "child": child, "policy": one.policy, "succeeded": one.succeeded})
    };
    let new = put_all(connection, "punctual_dependencies", all.iter().map(row).collect()).await?;
    let parents: Vec<JobId> = all.iter().filter(|one| one.succeeded.is_none()).map(|one| one.parent).collect();
    let (ids, times): (Vec<Uuid>, Vec<At>) = parents.iter().map(|id| (uuid(*id), At(id.timestamp()))).unzip();
    sqlx::query(*sql::IMPORT_PARENTS).bind(ids).bind(times).execute(connection).await?;
    Ok(new)
}

async fn import_workflows(
    connection: &mut PgConnection,
    all: &[(Workflow, Vec<(String, JobId)>)],
) -> sqlx::Result<usize> {
    let (mut workflows, mut nodes) = (Rows::new(), Rows::new());
    for (Workflow { id, name, created_by, created_at, updated_at, ends }, jobs) in all {
        let id = workflow_text(*id);
        nodes.extend(jobs.iter().map(|(node, job)| json!({"workflow": id, "node": node, "job_id": text_of(*job)})));
        workflows.push(json!({
            "id": id, "name": name, "created_by": created_by, "created_at": created_at, "updated_at": updated_at,
            "total": ends.total, "succeeded": ends.succeeded, "dead": ends.dead, "cancelled": ends.cancelled,
        }));
    }
    let new = put_all(connection, "punctual_workflows", workflows).await?;
    put_all(connection, "punctual_nodes", nodes).await?;
    Ok(new)
}

async fn import_schedules(
    connection: &mut PgConnection,
    all: &[(Schedule, Vec<ScheduleEvent>)],
) -> sqlx::Result<usize> {
    let mut schedules = Rows::new();
    for (schedule, _) in all {
        let definition = schedule.spec.to_stored().map_err(|error| sqlx::Error::Encode(error.into()))?;
        let definition: Value = serde_json::from_str(&definition).map_err(|error| sqlx::Error::Encode(error.into()))?;
        schedules.push(json!({
            "name": schedule.spec.name,
            "id": hex(schedule.id.to_bits()),
            "definition": definition,
            "enabled": schedule.enabled,
            "problem": schedule.problem,
            "revision": schedule.revision,
            "last_run_at": schedule.last_run_at,
            "next_run_at": schedule.next_run_at,
            "last_job": schedule.last_job.map(text_of),
            "created_at": schedule.created_at,
            "updated_at": schedule.updated_at,
            "updated_by": schedule.updated_by,
        }));
    }
    let new: HashSet<String> =
        put::<String>(connection, "punctual_schedules", schedules, "name").await?.into_iter().collect();
    let mut history = Rows::new();
    for (schedule, done) in all.iter().filter(|(schedule, _)| new.contains(&schedule.spec.name)) {
        let event = |event: &ScheduleEvent| json!({"schedule": schedule.spec.name, "at": event.at, "actor": event.actor, "action": event.action});
        history.extend(done.iter().rev().map(event));
    }
    put_history(connection, "punctual_schedule_events", "schedule", history).await?;
    Ok(new.len())
}

async fn import_queues(connection: &mut PgConnection, all: &[(Queue, Vec<QueueEvent>)]) -> sqlx::Result<usize> {
    let mut rows = Rows::new();
    for (Queue { name, settings, revision, updated_at, updated_by }, _) in all {
        rows.push(json!({
            "name": name, "paused": settings.paused, "settings": written(settings)?, "revision": revision,
            "updated_at": updated_at, "updated_by": updated_by,
        }));
    }
    let new: HashSet<String> = put::<String>(connection, "punctual_queues", rows, "name").await?.into_iter().collect();
    let mut history = Rows::new();
    for (queue, done) in all.iter().filter(|(queue, _)| new.contains(&queue.name)) {
        let event = |event: &QueueEvent| json!({"queue": queue.name, "at": event.at, "actor": event.actor, "action": event.action});
        history.extend(done.iter().rev().map(event));
    }
    put_history(connection, "punctual_queue_events", "queue", history).await?;
    Ok(new.len())
}

/// Any lane of a rollup's queue and name, always the same one: rollups are per queue and name.
fn lane_of(store: &Core, queue: &String, name: &String) -> Option<i32> {
    store.lanes.of(Some(queue), Some(name)).first().copied()
}

/// Creates the lanes that rollups need, outside of the transaction that imports them: this process caches the lanes
/// even if that transaction fails.
async fn make_lanes(store: &Core, rollups: &[Rollup]) -> sqlx::Result<()> {
    let unknown = rollups.iter().filter(|rollup| lane_of(store, &rollup.queue, &rollup.name).is_none());
    let level = Level::of(DEFAULT_PRIORITY, false);
    let lanes: BTreeSet<_> = unknown.map(|rollup| (rollup.queue.clone(), rollup.name.clone(), level, false)).collect();
    if lanes.is_empty() {
        return Ok(());
    }
    let mut unit = store.sessions.single().await?;
    store.lanes.add(&mut unit, lanes.into_iter().collect()).await?;
    unit.done().await
}

async fn import_rollups(
    store: &Core,
    connection: &mut PgConnection,
    hour: Timestamp,
    all: &[Rollup],
) -> sqlx::Result<usize> {
    let mut rows = Rows::new();
    for Rollup { name, queue, measure, bucket, count } in all {
        let lane = lane_of(store, queue, name);
        rows.push(json!({"hour": hour, "lane": lane, "measure": measure.as_str(), "bucket": bucket, "n": count}));
    }
    put_all(connection, "punctual_rollups", rows).await
}

async fn import_notifications(connection: &mut PgConnection, all: &[Notification]) -> sqlx::Result<usize> {
    let row = |Notification { id, user_id, message, job, created_at }: &Notification| {
        let (job, message) = (job.map(text_of), message.as_str());
        json!({"id": id, "user_id": user_id, "message": message, "job_id": job, "created_at": created_at})
    };
    let last = all.iter().map(|one| one.id as i64).max().unwrap_or(0);
    let new = put_all(connection, "punctual_notifications", all.iter().map(row).collect()).await?;
    let text = "update punctual_notifications_last set id = greatest(id, $1::int8)";
    sqlx::query(text).bind(last).execute(connection).await?;
    Ok(new)
}
