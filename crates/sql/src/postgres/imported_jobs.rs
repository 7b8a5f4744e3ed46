//! The rows of jobs that another store transfers, and of all that belongs to them.

use std::collections::BTreeMap;

use punctual_core::{
    Event, Job, JobId, Status, Timestamp, WorkflowId,
    effects::{Effects, Entries, Index, Phase},
    transfer::Record,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{queues::QueueSnapshot, rows, statements as sql};
use crate::labels::labels;

/// Rows as objects keyed by column names.
pub(crate) type Rows = Vec<Value>;

/// An id as a hexadecimal text, which the server accepts as a `uuid`.
pub(crate) fn hex(id: u128) -> String {
    format!("{id:032x}")
}

/// The id of a job as such a text.
pub(crate) fn text_of(id: JobId) -> String {
    hex(id.to_bits())
}

/// A value as a JSON document.
pub(crate) fn written(value: &impl Serialize) -> sqlx::Result<String> {
    rows::text(value)
}

/// The row of a job, without its state.
pub(crate) fn job_row(record: &Record, lane: i32) -> sqlx::Result<Value> {
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

/// The id of a workflow as a hexadecimal text.
pub(crate) fn workflow_text(id: WorkflowId) -> String {
    hex(id.to_bits())
}

/// The rows that belong to jobs, by table.
#[derive(Default)]
pub(crate) struct ImportedRows {
    pub(crate) rows: BTreeMap<&'static str, Rows>,
}

impl ImportedRows {
    fn push(&mut self, table: &'static str, row: Value) {
        self.rows.entry(table).or_default().push(row);
    }

    /// Adds the rows that belong to a job.
    pub(crate) fn add(&mut self, record: &Record, lane: i32, queues: &QueueSnapshot) -> sqlx::Result<()> {
        let Job { id, spec, status, .. } = &record.job;
        let (id, effects) = (text_of(*id), Effects::stored(Phase::of(&record.job)));
        self.add_state(record, lane, queues);
        self.add_events(record, lane)?;
        self.add_labels(record);
        if spec.ephemeral {
            self.push("punctual_ephemeral", json!({"id": id, "created_at": record.job.created_at}));
        }
        if effects.inserted.key
            && let Some((scope, key)) = spec.unique_key()
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
        if let Some(user) = spec.user_id.as_ref().filter(|_| effects.pending != 0) {
            self.push("punctual_pending_new", json!({"user_id": user, "name": spec.name, "n": effects.pending}));
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
        let Entries { index, expiry, deleted, .. } = Entries::of(&Phase::of(job));
        match index {
            Some(Index::Ready { .. }) => {
                self.push("punctual_ready", row);
                if let Some(key) = key {
                    self.push("punctual_limit_wakeups", json!({"queue": spec.queue, "at": job.updated_at, "key": key}));
                }
            }
            Some(Index::Due { .. }) => self.push("punctual_due", row),
            Some(Index::Waiting { .. }) => self.push("punctual_waiting", row),
            Some(Index::Running) => {
                // An execution that another store has started must not start a second time here if the job runs at most
                // once.
                row["confirmed"] = json!(true);
                row["worker_id"] = json!(job.worker_id.map(|worker| hex(worker.to_bits())));
                if key.is_none() && queues.guards(&spec.queue) {
                    row["limit_key"] = json!("");
                }
                self.push("punctual_running", row);
            }
            None => {}
        }
        if let Some(deleted_at) = deleted {
            let finished_at = job.finished_at.unwrap_or(deleted_at);
            let row = json!({"id": id, "deleted_at": deleted_at, "finished_at": finished_at});
            self.push("punctual_deleted", row);
        }
        if let Some(expires_at) = expiry {
            self.push("punctual_expiries", json!({"id": id, "expires_at": expires_at}));
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
