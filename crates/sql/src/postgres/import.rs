//! Imports the data of another store: rows as JSON documents, one set per table, keyed by column names.

use std::collections::{BTreeSet, HashSet};

use punctual_core::{
    JobId, NewJob, Notification, Queue, QueueEvent, Schedule, ScheduleEvent, StoreError, Timestamp, Workflow,
    measure::Rollup,
    spec::DEFAULT_PRIORITY,
    transfer::{Dependency, ExportBatch, Record},
};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgConnection, Row, postgres::PgRow};

use super::{
    claim::suspects,
    core::Core,
    enqueue,
    imported_jobs::{ImportedRows, Rows, hex, job_row, text_of, workflow_text, written},
    old_partitions, rows,
    statements::{self as sql, DispatchedBy},
    value::{At, Uuid, job_id, uuid},
};
use crate::level::Level;

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
        let text = settings.to_stored().map_err(|error| sqlx::Error::Encode(error.into()))?;
        rows.push(json!({
            "name": name, "paused": settings.paused, "settings": text, "revision": revision,
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
