//! Retention of jobs, histories and counters. Jobs are locked first, in the order that [`locking`] defines.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use punctual_core::{Job, JobId, RetentionPolicy, Status, Timestamp, Verb, WorkflowId, change, limits};
use sqlx::{PgConnection, Row};

use super::{
    change::{ChangeEvent, lock, replace},
    changes,
    core::Core,
    db::serve,
    error,
    flow::{self, FlowWriter, Tables, Woken},
    locking, partition_retention, queue_limits, rollups, rows,
    session::Unit,
    statements as sql,
    value::{At, Uuid, job_id, uuid},
};
use crate::ops::{edit::Edit, tokens};

/// Begins a transaction for retention, unless another process is running retention: two would only block each other.
async fn begin(store: &Core) -> sqlx::Result<Option<Unit>> {
    let mut unit = store.sessions.several().await?;
    let alone = "select pg_try_advisory_xact_lock(hashtext('punctual retention'), hashtext(current_schema()))";
    let alone = sqlx::query_scalar::<_, bool>(alone).fetch_one(&mut *unit).await;
    match alone {
        Ok(true) => Ok(Some(unit)),
        alone => unit.ended(alone.map(|_| None)).await,
    }
}

/// Maintenance whose rows were changed by another transaction has done nothing, and is executed again later.
fn or_nothing(done: sqlx::Result<usize>) -> sqlx::Result<usize> {
    match done {
        Err(error) if error::is_concurrent_change(&error) => Ok(0),
        done => done,
    }
}

/// Marks finished jobs as deleted once their retention period is over.
pub(crate) async fn expire(store: &Core, keep: RetentionPolicy, limit: usize) -> sqlx::Result<usize> {
    or_nothing(try_expire(store, keep, limit).await)
}

async fn try_expire(store: &Core, keep: RetentionPolicy, limit: usize) -> sqlx::Result<usize> {
    let Some(mut unit) = begin(store).await? else { return Ok(0) };
    let expired = expire_within(store, &mut unit, keep, limit).await;
    let (expired, woken) = unit.ended(expired).await?;
    flow::announce(store, &woken);
    Ok(expired)
}

/// Returns the number of expired jobs, and the lanes in which jobs were queued that had waited for one.
async fn expire_within(
    store: &Core,
    connection: &mut PgConnection,
    keep: RetentionPolicy,
    limit: usize,
) -> sqlx::Result<(usize, Woken)> {
    let now = store.sessions.now(connection).await?;
    let ids = Expiry { keep, now, limit }.find(store, connection).await?;
    let mut deleted: BTreeMap<JobId, Status> = ids.iter().map(|id| (*id, Status::Deleted)).collect();
    let family = flow::affected(connection, deleted.clone()).await?;
    let mut jobs = lock(connection, &ids, &family, now).await?;
    for (id, locked) in &mut jobs {
        let before = locked.clone();
        if change::keep_for_unique_key(&mut locked.job, now) {
            deleted.remove(id);
            keep_longer(connection, &before.job, &locked.job).await?;
            continue;
        }
        // An operator may have deleted the job meanwhile.
        if matches!(change::apply(Verb::Delete, &mut locked.job, now), Ok(false)) {
            replace(connection, &before, locked, ChangeEvent { at: now, actor: "retention", detail: None }).await?;
        }
    }
    let writer = FlowWriter { now: store.sessions.clock(), tables: Tables::Whole };
    let woken = writer.follow(connection, deleted, &family).await?;
    Ok((ids.len(), woken))
}

/// Extends the retention period of a finished job.
async fn keep_longer(connection: &mut PgConnection, before: &Job, after: &Job) -> sqlx::Result<()> {
    let ms = |job: &Job| job.spec.keep_for.map(|keep| keep.as_millis() as i64);
    let query = sqlx::query(*sql::SET_RETENTION).bind(uuid(after.id)).bind(At(after.scheduled_at()));
    query.bind(ms(before)).bind(ms(after)).execute(connection).await.map(drop)
}

/// Which finished jobs expire: those whose retention period is over at a time, up to a number of them.
struct Expiry {
    keep: RetentionPolicy,
    now: Timestamp,
    limit: usize,
}

impl Expiry {
    /// The finished jobs to expire.
    async fn find(&self, store: &Core, connection: &mut PgConnection) -> sqlx::Result<BTreeSet<JobId>> {
        let Self { keep, now, limit } = *self;
        let mut found: Vec<Uuid> = Vec::new();
        let room = |found: &Vec<Uuid>| (limit - found.len().min(limit)) as i64;
        // Only jobs that ended between the days that are removed as whole partitions.
        let whole = partition_retention::whole(store, connection, keep).await?;
        let starts = std::iter::once(Timestamp::MIN).chain(whole.iter().map(|day| day.plus(1).start()));
        let ends = whole.iter().map(|day| day.start()).chain([Timestamp::MAX]);
        let times: Vec<_> = starts.zip(ends).filter(|(since, until)| since < until).collect();
        for (status, end) in sql::ENDS {
            let cutoff = now.before(keep.of(status));
            for (since, until) in times.iter().filter(|(since, _)| *since <= cutoff) {
                let query = sqlx::query_scalar::<_, Uuid>(*sql::EXPIRABLE).bind(At(cutoff)).bind(room(&found));
                found.extend(query.bind(At(*since)).bind(At(*until)).bind(end).fetch_all(&mut *connection).await?);
            }
        }
        let kept = sqlx::query_scalar::<_, Uuid>(*sql::EXPIRABLE_BY_JOB).bind(At(now)).bind(room(&found));
        found.extend(kept.fetch_all(&mut *connection).await?);
        Ok(found.into_iter().map(job_id).collect())
    }
}

/// Removes deleted jobs with all rows that belong to them.
pub(crate) async fn purge(store: &Core, after: Duration, limit: usize) -> sqlx::Result<usize> {
    let Some(mut unit) = begin(store).await? else { return Ok(0) };
    let removed = purge_within(store, &mut unit, after, limit).await;
    unit.ended(removed).await
}

async fn purge_within(
    store: &Core,
    connection: &mut PgConnection,
    after: Duration,
    limit: usize,
) -> sqlx::Result<usize> {
    let cutoff = store.sessions.now(connection).await?.before(after);
    let query = sqlx::query_scalar(*sql::PURGEABLE).bind(At(cutoff)).bind(limit as i64);
    let ids = query.fetch_all(&mut *connection).await?;
    remove(connection, ids).await
}

/// Removes ephemeral jobs that are not running.
pub(crate) async fn drop_ephemeral(store: &Core, before: Timestamp, limit: usize) -> sqlx::Result<usize> {
    or_nothing(try_drop_ephemeral(store, before, limit).await)
}

async fn try_drop_ephemeral(store: &Core, before: Timestamp, limit: usize) -> sqlx::Result<usize> {
    let Some(mut unit) = begin(store).await? else { return Ok(0) };
    let dropped = drop_within(store, &mut unit, before, limit).await;
    let (removed, woken) = unit.ended(dropped).await?;
    store.scan_bounds.changed();
    flow::announce(store, &woken);
    Ok(removed)
}

/// Returns the number of removed jobs, and the lanes in which jobs were queued that had waited for one.
async fn drop_within(
    store: &Core,
    connection: &mut PgConnection,
    before: Timestamp,
    limit: usize,
) -> sqlx::Result<(usize, Woken)> {
    let query = sqlx::query_scalar(*sql::EPHEMERAL).bind(At(before)).bind(limit as i64);
    let ids: Vec<Uuid> = query.fetch_all(&mut *connection).await?;
    let ids: BTreeSet<JobId> = ids.into_iter().map(job_id).collect();
    let gone = |ids: &BTreeSet<JobId>| ids.iter().map(|id| (*id, Status::Deleted)).collect::<BTreeMap<_, _>>();
    let family = flow::affected(connection, gone(&ids)).await?;
    let locked = locking::lock(connection, &ids, &family, store.clock_now()).await?.unwrap_or_default();
    // A job that was claimed meanwhile is kept.
    let of = |matches: fn(Status) -> bool| {
        locked.iter().filter(move |(_, job)| matches(job.status)).map(|(id, _)| *id).collect::<BTreeSet<_>>()
    };
    let idle = of(|status| status != Status::Processing);
    let (active, followed) = (&of(Status::is_active) & &idle, &of(|status| status != Status::Deleted) & &idle);
    let removed: Vec<Uuid> = idle.iter().map(|id| uuid(*id)).collect();
    // A job that is removed together with its parent must not be cancelled, and counted, by the parent's end too.
    sqlx::query(*sql::DELETE_DEPENDENCIES).bind(&removed).execute(&mut *connection).await?;
    let writer = FlowWriter { now: store.sessions.clock(), tables: Tables::Whole };
    writer.count_ends(connection, &gone(&active)).await?;
    let woken = writer.follow(connection, gone(&followed), &family).await?;
    Ok((remove(connection, removed).await?, woken))
}

async fn remove(connection: &mut PgConnection, mut ids: Vec<Uuid>) -> sqlx::Result<usize> {
    if ids.is_empty() {
        return Ok(0);
    }
    ids.sort_unstable();
    let times: Vec<At> = ids.iter().map(|id| At(job_id(*id).timestamp())).collect();
    sqlx::query(*sql::CHANGE_HOLD_JOBS).bind(&ids).bind(&times).execute(&mut *connection).await?;
    locking::lock_keys(connection, &ids).await?;
    let removed: i64 = sqlx::query_scalar(*sql::DELETE_JOBS)
        .persistent(false)
        .bind(ids)
        .bind(times)
        .fetch_one(&mut *connection)
        .await?;
    Ok(removed as usize)
}

/// Removes old attempts, logs, counters and workers.
pub(crate) async fn prune(store: &Core, after: Duration, limit: usize) -> sqlx::Result<usize> {
    let Some(mut unit) = begin(store).await? else { return Ok(0) };
    let pruned = prune_within(store, &mut unit, after, limit).await;
    let (pruned, until) = unit.ended(pruned).await?;
    store.maintenance.pruned(until);
    Ok(pruned)
}

/// Returns the number of removed rows, and the time up to which events were cleared.
async fn prune_within(
    store: &Core,
    connection: &mut PgConnection,
    after: Duration,
    limit: usize,
) -> sqlx::Result<(usize, Timestamp)> {
    let now = store.sessions.now(connection).await?;
    // A workflow with ends that are not yet rolled up is kept.
    if rollups::try_lock(connection).await? {
        sqlx::query(*sql::ROLL_UP_ENDS).execute(&mut *connection).await?;
    }
    // Many events have the same timestamp; a hash join finds the ones to remove.
    sqlx::query("select set_config('enable_hashjoin', 'on', true)").execute(&mut *connection).await?;
    let cutoff = now.before(after);
    let row = sqlx::query(*sql::PRUNE)
        .persistent(false)
        .bind(At(cutoff))
        .bind(At(now.before(limits::ROLLUPS_KEPT)))
        .bind(At(now.before(limits::WORKER_SILENT_MAX)))
        .bind(limit as i64)
        .bind(At(store.maintenance.pruned_until()))
        .bind(Uuid::from_u128(WorkflowId::last_of(cutoff).to_bits()))
        .fetch_one(&mut *connection)
        .await?;
    queue_limits::prune(connection, now, limit).await?;
    serve(connection, |db| tokens::prune(Edit { db, now }, limit)).await?;
    changes::prune(connection, now).await?;
    Ok((row.try_get::<i64, _>(0)? as usize, rows::optional_instant(&row, 1)?.unwrap_or(cutoff)))
}
