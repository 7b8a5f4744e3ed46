//! Operators' actions. Jobs are locked first, in the order that [`locking`] defines.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::{
    Change, Changed, JobId, NewJob, Status, StoreError, Timestamp, change,
    effects::{Effects, Index, Phase},
};
use sqlx::PgConnection;

use super::{
    core::Core,
    enqueue::{Enqueue, Ids},
    error,
    flow::{self, FlowWriter, Tables, Woken},
    keys,
    locking::{self, LockedJob},
    statements as sql,
    value::{At, uuid},
};

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
pub(crate) async fn lock(
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
pub(crate) struct ChangeEvent<'a> {
    pub(crate) at: Timestamp,
    pub(crate) actor: &'a str,
    pub(crate) detail: Option<&'a str>,
}

/// Moves a job from its state in `before` to its state in `after`, with one event.
pub(crate) async fn replace(
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
