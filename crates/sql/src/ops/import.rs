//! Imports data from another store.

use std::collections::BTreeSet;

use punctual_core::{
    AttemptId, Job, JobId, LogLine, Notification, Queue, QueueEvent, Schedule, ScheduleEvent, Status, StoreResult,
    Timestamp, Workflow,
    effects::{Effects, Phase},
    measure::Rollup,
    transfer::{Dependency, ExportBatch, Record},
};

use super::{
    effects::{self, IndexedJob},
    independent_batches::independent_batches,
    leases,
    queue_controls::QueueControls,
    rows,
    running::Running,
    schedules, statements as sql, stored_settings,
    tx::{EventLine, NewEvent, Tx},
};
use crate::db::{Db, Value, params};
use crate::level::Level;

/// The dependencies of these jobs, pending and finished.
pub(crate) fn dependencies(db: &dyn Db, children: &[JobId]) -> StoreResult<Vec<Dependency>> {
    let found = db.all_each(
        sql::DEPENDENCIES_OF,
        &mut |row| children.iter().try_for_each(|child| row(params![child.to_bytes()])),
        |row| Ok((JobId::from_bytes(row.get(0)?), rows::word(row, 1)?, row.get(2)?)),
    )?;
    let dependency = |(index, (parent, policy, succeeded)): (usize, _)| Dependency {
        parent,
        child: children[index],
        policy,
        succeeded,
    };
    Ok(found.into_iter().map(dependency).collect())
}

/// Imports a batch; returns how many of its records were new.
pub(crate) fn import(tx: &mut Tx<'_>, batch: &ExportBatch) -> StoreResult<usize> {
    (tx.new_work, tx.jobs_changed) = (true, true);
    match batch {
        ExportBatch::Queues(all) => new_of(all, |(queue, done)| import_queue(tx, queue, done)),
        ExportBatch::Jobs(all) => {
            let parts = independent_batches(all, |record, is_new| is_new(record.job.id));
            parts.into_iter().try_fold(0, |new, part| Ok(new + import_jobs(tx, part)?))
        }
        ExportBatch::Dependencies(all) => import_dependencies(tx, all),
        ExportBatch::Workflows(all) => new_of(all, |(workflow, nodes)| import_workflow(tx, workflow, nodes)),
        ExportBatch::Schedules(all) => new_of(all, |(schedule, done)| import_schedule(tx, schedule, done)),
        ExportBatch::Rollups(hour, all) => import_rollups(tx, *hour, all),
        ExportBatch::Notifications(all) => new_of(all, |message| import_notification(tx, message)),
    }
}

/// How many of them were new.
fn new_of<T>(all: &[T], mut import: impl FnMut(&T) -> StoreResult<bool>) -> StoreResult<usize> {
    all.iter().try_fold(0, |new, one| Ok(new + usize::from(import(one)?)))
}

fn micros(at: Option<Timestamp>) -> Option<i64> {
    at.map(|at| at.as_micros())
}

fn import_jobs(tx: &mut Tx<'_>, records: &[Record]) -> StoreResult<usize> {
    let controls = QueueControls::read(tx.db)?;
    let seqs = tx.job_db.insert_each(sql::IMPORT_JOB, &mut |row| {
        records.iter().try_for_each(|record| insert(&record.at_rest(), row))
    })?;
    let new = records.iter().zip(seqs).filter_map(|(record, seq)| Some(NewRecord { record, seq: seq? }));
    let new: Vec<NewRecord<'_>> = new.collect();
    tx.expect_events(new.iter().map(|new| new.record.events.len()).sum())?;
    new.iter().try_for_each(|new| new.insert_rows(tx, &controls))?;
    new.iter().try_for_each(|new| new.insert_attempts(tx))?;
    Ok(new.len())
}

/// Passes the values of the job's row to `row`.
fn insert(job: &Job, row: &mut dyn FnMut(&[Value<'_>]) -> StoreResult<()>) -> StoreResult<()> {
    let spec = &job.spec;
    row(params![
        job.id.to_bytes(),
        spec.name,
        spec.queue,
        job.status.as_str(),
        spec.priority,
        job.id.timestamp().as_micros(),
        job.run_at.as_micros(),
        job.attempt,
        job.run,
        job.crash_count,
        spec.max_attempts,
        spec.timeout.as_millis() as i64,
        spec.user_id,
        spec.correlation_id,
        spec.unique_key,
        spec.workflow_id.map(|id| id.to_bytes()),
        spec.keep_for.map(|keep| keep.as_millis() as i64),
        spec.ephemeral,
        job.waiting_on,
        job.created_at.as_micros(),
        job.updated_at.as_micros(),
        micros(job.started_at),
        micros(job.finished_at),
        rows::options_text(&spec.options)?,
        spec.payload.as_str(),
        job.progress.as_ref().map(rows::text).transpose()?,
        job.result.as_ref().map(|result| result.as_str()),
        job.error.as_ref().map(rows::text).transpose()?,
        spec.workflow_id.is_some(),
    ])
}

/// A record that this store did not have, and the row number of its job.
struct NewRecord<'a> {
    record: &'a Record,
    seq: i64,
}

impl NewRecord<'_> {
    /// Inserts the rows that belong to the job, except those of its attempts.
    fn insert_rows(&self, tx: &mut Tx<'_>, controls: &QueueControls) -> StoreResult<()> {
        let (job, seq) = (&self.record.job, self.seq);
        let last_event = self.insert_events(tx)?;
        if job.status == Status::Processing {
            self.insert_lease(tx, controls, last_event)?;
        }
        let indexed = IndexedJob { any_failed: self.record.any_failed, ..IndexedJob::of(job, seq) };
        let effects = Effects::stored(Phase::of(job));
        effects::store(tx, &indexed, &effects, (sql::IMPORT_KEY, job.created_at))
    }

    /// Inserts the job's events; returns the number of the last one.
    fn insert_events(&self, tx: &mut Tx<'_>) -> StoreResult<Option<i64>> {
        let Self { record, seq: job } = *self;
        let (mut last, mut at_rest) = (None, None);
        for (index, event) in record.events.iter().enumerate() {
            let line = EventLine {
                status: event.status,
                run: event.run,
                actor: event.actor.as_deref(),
                detail: event.detail.as_deref(),
            };
            last = Some(tx.past_event(NewEvent { job, previous: last, at: event.at, line })?);
            if index < record.events_at_rest() {
                at_rest = last;
            }
        }
        tx.write(sql::IMPORT_LAST_EVENT, params![job, at_rest])?;
        Ok(last)
    }

    /// Inserts the lease of the job, which is running. If its worker no longer exists, the lease expires.
    fn insert_lease(&self, tx: &Tx<'_>, controls: &QueueControls, last_event: Option<i64>) -> StoreResult<()> {
        let job = &self.record.job;
        let spec = &job.spec;
        let limit_key = spec.options.concurrency_key.clone().or_else(|| controls.guards(&spec.queue).then(String::new));
        let (Some(worker), Some(lease_until), Some(started_at)) = (job.worker_id, job.lease_until, job.started_at)
        else {
            return Ok(());
        };
        let running = Running {
            seq: self.seq,
            run: job.run,
            attempt: job.attempt,
            worker,
            lease_until,
            started_at,
            level: Level::of(spec.priority, job.is_suspect()),
            queue: spec.queue.clone(),
            name: spec.name.clone(),
            keep_for: spec.keep_for,
            user: spec.user_id.clone(),
            last_event,
            flow: spec.workflow_id.is_some(),
            limit_key,
        };
        running.insert(tx.db, job.id.to_bytes())?;
        // A job that runs at most once and was started by the other store must not be started again here.
        let attempt = AttemptId { job: job.id, run: job.run };
        leases::confirm_at(tx, Timestamp::MIN, worker, &[attempt]).map(drop)
    }

    /// Inserts the job's ended attempts and its logs.
    fn insert_attempts(&self, tx: &Tx<'_>) -> StoreResult<()> {
        let Self { record, seq } = *self;
        for attempt in &record.attempts {
            let Some(finished_at) = attempt.finished_at else { continue };
            tx.write(
                sql::INSERT_ATTEMPT,
                params![
                    seq,
                    attempt.id.run,
                    attempt.attempt,
                    attempt.status.as_str(),
                    attempt.worker_id.to_bytes(),
                    attempt.started_at.as_micros(),
                    finished_at.as_micros(),
                    attempt.error.as_ref().map(rows::text).transpose()?,
                ],
            )?;
        }
        let id = record.job.id.to_bytes();
        for (line, log) in record.logs.iter().enumerate() {
            let LogLine { run, at, level, message } = log;
            tx.write(sql::INSERT_LOG, params![id, run, line, at.as_micros(), level.as_str(), message])?;
        }
        Ok(())
    }
}

fn import_dependencies(tx: &Tx<'_>, all: &[Dependency]) -> StoreResult<usize> {
    let new = tx.db.execute_each(sql::IMPORT_DEPENDENCY, &mut |row| {
        all.iter().try_for_each(|Dependency { parent, child, policy, succeeded }| {
            row(params![parent.to_bytes(), child.to_bytes(), policy.as_str(), succeeded])
        })
    })?;
    let waited_for = all.iter().filter(|dependency| dependency.succeeded.is_none()).map(|dependency| dependency.parent);
    let parents: Vec<JobId> = waited_for.collect::<BTreeSet<_>>().into_iter().collect();
    let seqs = tx.db.all_each(
        sql::SEQ_OF,
        &mut |row| parents.iter().try_for_each(|parent| row(params![parent.to_bytes()])),
        |row| row.get::<i64>(0),
    )?;
    for (index, seq) in seqs {
        tx.write(sql::MARK_PARENT, params![seq])?;
        tx.write(sql::MARK_RUNNING_PARENT, params![parents[index].to_bytes()])?;
    }
    Ok(new)
}

fn import_workflow(tx: &Tx<'_>, workflow: &Workflow, nodes: &[(String, JobId)]) -> StoreResult<bool> {
    let Workflow { id, name, created_by, created_at, updated_at, ends } = workflow;
    let (created_at, updated_at) = (created_at.as_micros(), updated_at.as_micros());
    let id = id.to_bytes();
    let row =
        params![id, name, created_by, created_at, updated_at, ends.total, ends.succeeded, ends.dead, ends.cancelled];
    let is_new = tx.execute(sql::IMPORT_WORKFLOW, row)? == 1;
    for (node, job) in nodes {
        tx.write(sql::IMPORT_NODE, params![id, node, job.to_bytes()])?;
    }
    Ok(is_new)
}

fn import_schedule(tx: &Tx<'_>, schedule: &Schedule, done: &[ScheduleEvent]) -> StoreResult<bool> {
    let mut is_new = false;
    schedules::add_row(schedule, &mut |row| {
        is_new = tx.execute(sql::IMPORT_SCHEDULE, row)? == 1;
        Ok(())
    })?;
    for event in done.iter().rev().filter(|_| is_new) {
        let row = (&schedule.spec.name, event.at.as_micros());
        tx.write(sql::INSERT_SCHEDULE_EVENT, params![row.0, row.1, event.actor, event.action])?;
    }
    Ok(is_new)
}

fn import_queue(tx: &Tx<'_>, queue: &Queue, done: &[QueueEvent]) -> StoreResult<bool> {
    let Queue { name, settings, revision, updated_at, updated_by } = queue;
    let (at, limited) = (updated_at.as_micros(), settings.may_limit());
    let is_new = tx.execute(
        sql::IMPORT_QUEUE,
        params![name, settings.paused, stored_settings::text(name, settings)?, revision, at, updated_by, limited],
    )? == 1;
    for event in done.iter().rev().filter(|_| is_new) {
        tx.write(sql::INSERT_QUEUE_EVENT, params![name, event.at.as_micros(), event.actor, event.action])?;
    }
    Ok(is_new)
}

fn import_rollups(tx: &Tx<'_>, hour: Timestamp, all: &[Rollup]) -> StoreResult<usize> {
    tx.db.execute_each(sql::IMPORT_ROLLUP, &mut |row| {
        all.iter().try_for_each(|Rollup { name, queue, measure, bucket, count }| {
            row(params![hour.as_micros(), name, queue, measure.as_str(), bucket, count])
        })
    })
}

fn import_notification(tx: &Tx<'_>, message: &Notification) -> StoreResult<bool> {
    let Notification { id, user_id, message, job, created_at } = message;
    Ok(tx.execute(
        sql::IMPORT_NOTIFICATION,
        params![id, user_id, message.as_str(), job.map(JobId::to_bytes), created_at.as_micros()],
    )? == 1)
}
