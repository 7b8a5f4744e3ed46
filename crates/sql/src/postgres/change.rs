//! Operators' actions, and the removal of jobs. Jobs are locked first, in the order that [`locking`] defines.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use punctual_core::{
    Change, Changed, Job, JobId, NewJob, RetentionPolicy, Status, StoreError, Timestamp, Verb, WorkflowId, change,
    effects::{Effects, Index, Phase},
    limits,
};
use sqlx::{PgConnection, Row};

use super::{
    changes,
    core::Core,
    db::serve,
    enqueue::{Enqueue, Ids},
    error,
    flow::{self, FlowWriter, Tables, Woken},
    keys,
    locking::{self, LockedJob},
    partition_retention, queue_limits, rows,
    session::Unit,
    statements as sql,
    value::{At, Uuid, job_id, uuid},
};
use crate::ops::{edit::Edit, tokens};

/// Maximum number of tries if jobs change state meanwhile.
const TRIES_MAX: usize = 20;

/// Applies operators' changes.
pub(crate) async fn change(store: &Core, changes: &[Change]) -> Result<Vec<Changed>, StoreError> {
    change_and_enqueue(store, changes, &[]).await
}

/// Applies operators' changes, then stores jobs, all in one transaction.
pub(crate) async fn change_and_enqueue(
    store: &Core,
    changes: &[Change],
    jobs: &[NewJob],
) -> Result<Vec<Changed>, StoreError> {
    for _ in 0..TRIES_MAX {
        match try_change(store, changes, jobs).await {
            Ok(changed) => {
                store.scan_bounds.changed();
                store.hints.notify_work();
                store.hints.notify_jobs();
                return Ok(changed);
            }
            // A job changed state between being read and being locked.
            Err(error)
                if error::is_concurrent_change(&error)
                    || error::is_retryable(&error)
                    || error::is_partition_conflict(&error) => {}
            Err(error) => return Err(store.sessions.error(error)),
        }
    }
    Err(StoreError::Busy { waited_ms: 0 })
}

async fn try_change(store: &Core, changes: &[Change], new: &[NewJob]) -> sqlx::Result<Vec<Changed>> {
    let mut unit = store.sessions.several().await?;
    let changed = change_within(store, &mut unit, changes, new).await;
    let (answers, jobs, woken) = unit.ended(changed).await?;
    let queued = jobs.values().filter(|locked| locked.job.status == Status::Queued);
    queued.for_each(|locked| store.lanes.put(locked.lane, locked.job.run_at));
    flow::announce(store, &woken);
    Ok(answers)
}

/// Returns the answer to each change, the changed jobs, and the lanes in which other jobs were queued.
async fn change_within(
    store: &Core,
    connection: &mut PgConnection,
    changes: &[Change],
    new: &[NewJob],
) -> sqlx::Result<(Vec<Changed>, BTreeMap<JobId, LockedJob>, Woken)> {
    let now = store.sessions.now(connection).await?;
    let ends =
        changes.iter().map(|change| (change.job, change.verb.target())).filter(|(_, target)| target.is_finished());
    let family = flow::affected(connection, ends.collect()).await?;
    let ids: BTreeSet<JobId> = changes.iter().map(|change| change.job).collect();
    // Together with the parents of the new jobs, to lock all of them in one order.
    let parents: BTreeSet<JobId> = new.iter().flat_map(|job| job.parents.iter().copied()).collect();
    let mut jobs = lock(connection, &(&ids | &parents), &family, now).await?;
    let (mut answers, mut ended) = (Vec::with_capacity(changes.len()), BTreeMap::new());
    for change in changes {
        let Some(locked) = jobs.get_mut(&change.job) else {
            answers.push(Changed::NotFound);
            continue;
        };
        let before = locked.clone();
        if let Err(refused) = keys::retake(connection, change.verb, &locked.job, now).await? {
            answers.push(Changed::Refused(refused));
            continue;
        }
        answers.push(match change::apply(change.verb, &mut locked.job, now) {
            Ok(true) => Changed::Already,
            Err(refused) => Changed::Refused(refused),
            Ok(false) => {
                let event = ChangeEvent { at: now, actor: &change.actor, detail: change.reason.as_deref() };
                replace(connection, &before, locked, event).await?;
                if locked.job.status.is_finished() {
                    ended.insert(change.job, locked.job.status);
                }
                Changed::Done
            }
        });
    }
    let writer = FlowWriter { now: store.sessions.clock(), tables: Tables::Whole };
    let woken = writer.follow(connection, ended, &family).await?;
    let parents = locking::states(connection, &parents).await?;
    let enqueue = Enqueue { store, ids: Ids::New, dispatched_by: store.dispatched_by() };
    enqueue.run_with_parents(connection, new, &parents).await?;
    Ok((answers, jobs, woken))
}

/// Locks jobs and the rows of the waiting jobs in `family`, and reads the jobs.
async fn lock(
    connection: &mut PgConnection,
    ids: &BTreeSet<JobId>,
    family: &BTreeSet<JobId>,
    now: Timestamp,
) -> sqlx::Result<BTreeMap<JobId, LockedJob>> {
    if locking::lock(connection, ids, family, now).await?.is_none() {
        return Err(error::concurrent_change());
    }
    let (uuids, times) = locking::ids_and_times(ids);
    locking::read(connection, &uuids, &times).await
}

/// The event of a change, besides the job's new status.
#[derive(Clone, Copy)]
struct ChangeEvent<'a> {
    at: Timestamp,
    actor: &'a str,
    detail: Option<&'a str>,
}

/// Moves a job from its state in `before` to its state in `after`, with one event.
async fn replace(
    connection: &mut PgConnection,
    before: &LockedJob,
    after: &mut LockedJob,
    event: ChangeEvent<'_>,
) -> sqlx::Result<()> {
    let (old, new) = (&before.job, &after.job);
    let effects = Effects::changed(Phase::of(old), Phase::of(new));
    match effects.deleted.index {
        Some(Index::Ready { run_at }) => {
            let query = sqlx::query(*sql::CHANGE_LEAVE_READY).bind(before.lane).bind(At(run_at)).bind(uuid(old.id));
            query.execute(&mut *connection).await?;
        }
        Some(Index::Due { run_at }) => {
            let query = sqlx::query(*sql::CHANGE_LEAVE_DUE).bind(At(run_at)).bind(uuid(old.id));
            query.execute(&mut *connection).await?;
        }
        // The statement below deletes these.
        Some(Index::Waiting { .. } | Index::Running) | None => {}
    }
    let run = (old.status == Status::Processing).then_some(old.run as i32);
    sqlx::query(*sql::CHANGE_SAVE)
        .bind(uuid(new.id))
        .bind(At(new.id.timestamp()))
        .bind(At(event.at))
        .bind(new.status.as_str())
        .bind(At(new.run_at))
        .bind(new.attempt as i32)
        .bind(new.run as i32)
        .bind(new.spec.max_attempts as i32)
        .bind(new.started_at.map(At))
        .bind(new.finished_at.map(At))
        .bind(before.events)
        .bind(At(old.updated_at))
        .bind(run)
        .bind(Some(event.actor))
        .bind(event.detail)
        .bind(old.status.as_str())
        .bind(old.finished_at.map(At))
        .bind(effects.pending)
        .bind(new.waiting_on as i32)
        .bind(effects.ends.succeeded)
        .bind(effects.ends.dead)
        .bind(effects.ends.cancelled)
        .execute(connection)
        .await?;
    after.events += 1;
    Ok(())
}

/// Begins a transaction for retention, unless another process is running retention: two would only block each other.
async fn retention(store: &Core) -> sqlx::Result<Option<Unit>> {
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
    let Some(mut unit) = retention(store).await? else { return Ok(0) };
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
    let Some(mut unit) = retention(store).await? else { return Ok(0) };
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
    let Some(mut unit) = retention(store).await? else { return Ok(0) };
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
pub(crate) async fn trim(store: &Core, after: Duration, limit: usize) -> sqlx::Result<usize> {
    let Some(mut unit) = retention(store).await? else { return Ok(0) };
    let trimmed = trim_within(store, &mut unit, after, limit).await;
    let (trimmed, until) = unit.ended(trimmed).await?;
    store.upkeep.trimmed(until);
    Ok(trimmed)
}

/// Returns the number of removed rows, and the time up to which events were cleared.
async fn trim_within(
    store: &Core,
    connection: &mut PgConnection,
    after: Duration,
    limit: usize,
) -> sqlx::Result<(usize, Timestamp)> {
    let now = store.sessions.now(connection).await?;
    // A workflow with ends that are not yet rolled up is kept.
    if try_lock_rollups(connection).await? {
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
        .bind(At(store.upkeep.trimmed_until()))
        .bind(Uuid::from_u128(WorkflowId::last_of(cutoff).to_bits()))
        .fetch_one(&mut *connection)
        .await?;
    queue_limits::trim(connection, now, limit).await?;
    serve(connection, |db| tokens::trim(Edit { db, now }, limit)).await?;
    changes::trim(connection, now).await?;
    Ok((row.try_get::<i64, _>(0)? as usize, rows::optional_instant(&row, 1)?.unwrap_or(cutoff)))
}

/// Takes the advisory lock for rolling up counters; returns whether it was free.
async fn try_lock_rollups(connection: &mut PgConnection) -> sqlx::Result<bool> {
    let alone = "select pg_try_advisory_xact_lock(hashtext('punctual fold'), hashtext(current_schema()))";
    sqlx::query_scalar(alone).fetch_one(connection).await
}

/// Rolls up the counters' changes, unless another process is doing so.
pub(crate) async fn roll_up(store: &Core) -> sqlx::Result<()> {
    let mut unit = store.sessions.several().await?;
    let rolled_up = roll_up_within(&mut unit).await;
    unit.ended(rolled_up).await
}

async fn roll_up_within(connection: &mut PgConnection) -> sqlx::Result<()> {
    if try_lock_rollups(connection).await? {
        for statement in [*sql::ROLL_UP_COUNTS, *sql::ROLL_UP_PENDING, *sql::ROLL_UP_ROLLUPS, *sql::ROLL_UP_ENDS] {
            sqlx::query(statement).execute(&mut *connection).await?;
        }
    }
    Ok(())
}
