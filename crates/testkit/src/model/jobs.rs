//! Enqueues jobs and changes them.

use std::collections::BTreeMap;

use async_trait::async_trait;
use punctual_core::{
    AttemptStatus, Change, Changed, Enqueued, Job, JobId, NewJob, Refused, Status, StoreResult, Timestamp, Verb,
    change, flow::Next, measure::Measure, store::ports::JobStore,
};

use super::{
    state::{Cause, NewEvent, Record, State},
    store::ModelStore,
};

impl State {
    /// Stores all jobs or none.
    pub(super) fn enqueue_all(&mut self, now: Timestamp, jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>> {
        self.check_parents(now, &jobs)?;
        let enqueued = jobs.into_iter().map(|job| self.enqueue(now, job)).collect();
        self.follow(now);
        Ok(enqueued)
    }

    pub(super) fn enqueue(&mut self, now: Timestamp, new: NewJob) -> Enqueued {
        if self.find(new.id).is_some() {
            return Enqueued::existing(new.id);
        }
        let key = new.spec.unique_key().map(|(scope, key)| (scope, key.to_owned()));
        if let Some(holder) = key.as_ref().and_then(|key| self.in_the_way(now, key, &new)) {
            return Enqueued { updated: self.update(now, holder, &new), ..Enqueued::existing(holder) };
        }
        let expires_at = new.spec.unique().expires_at(now);
        let (id, waiting, next) = (new.id, self.join(&new), self.begin(&new));
        let mut job = new.into_job(now);
        job.waiting_on = waiting;
        if next != Next::Start {
            job.status = Status::Waiting;
        }
        let (status, node) = (job.status, job.workflow_node().map(|(workflow, node)| (workflow, node.to_owned())));
        self.jobs.push(Record {
            job,
            attempts: Vec::new(),
            events: Vec::new(),
            logs: BTreeMap::new(),
            confirmed: None,
            was_limited: false,
        });
        self.event(id, NewEvent::new(now, status));
        self.keys.extend(key.map(|key| (key, (id, expires_at))));
        if let Some(node) = node {
            self.take_node(now, id, node);
        }
        if let Next::Cancel(reason) = next {
            self.cancel(now, id, &reason);
        }
        Enqueued::new(id)
    }

    /// The job that holds the unique key of a new one, if there is a conflict.
    pub(super) fn in_the_way(&mut self, now: Timestamp, key: &(String, String), new: &NewJob) -> Option<JobId> {
        let (holder, expires_at) = *self.keys.get(key)?;
        let status = self.find(holder)?.job.status;
        new.spec.unique().conflicts(status, expires_at, now).then_some(holder)
    }

    /// A new job that is not stored may change the existing one; returns whether it does.
    fn update(&mut self, now: Timestamp, holder: JobId, new: &NewJob) -> bool {
        let (unique, (_, run_at)) = (new.spec.unique(), new.start(now));
        let Some(record) = self.find(holder) else { return false };
        let job = &mut record.job;
        let Some(update) = unique.update(job.status, job.run_at, run_at) else { return false };
        if update.payload {
            job.spec.payload = new.spec.payload.clone();
        }
        job.run_at = update.run_at.unwrap_or(job.run_at);
        job.updated_at = now;
        let status = job.status;
        let cause = Cause { actor: None, detail: Some(update.detail()) };
        self.event(holder, NewEvent { cause, ..NewEvent::new(now, status) });
        true
    }

    pub(super) fn change_all(&mut self, now: Timestamp, changes: Vec<Change>) -> Vec<Changed> {
        let changed = changes.into_iter().map(|change| self.change(now, change)).collect();
        self.follow(now);
        changed
    }

    fn change(&mut self, now: Timestamp, change: Change) -> Changed {
        let Some(record) = self.find(change.job) else { return Changed::NotFound };
        let before = record.job.clone();
        if let Err(refused) = self.retake_key(now, change.verb, &before) {
            return Changed::Refused(refused);
        }
        let Some(record) = self.find(change.job) else { return Changed::NotFound };
        match change::apply(change.verb, &mut record.job, now) {
            Ok(true) => Changed::Already,
            Err(refused) => Changed::Refused(refused),
            Ok(false) => {
                let cause = Cause { actor: Some(&change.actor), detail: change.reason.as_deref() };
                self.changed(now, &before, cause);
                Changed::Done
            }
        }
    }

    /// A job that is to run again takes its unique key, unless there is a conflict.
    fn retake_key(&mut self, now: Timestamp, verb: Verb, job: &Job) -> Result<(), Refused> {
        let Some((scope, key)) = change::needed_key(verb, job) else { return Ok(()) };
        let key = (scope, key.to_owned());
        let held = self.keys.get(&key).copied();
        let holder = held.and_then(|(holder, expires_at)| {
            let status = self.find(holder)?.job.status;
            Some(change::KeyHolder { job: holder, status, expires_at })
        });
        if let change::KeyChange::Take(expires_at) = change::retake_key(verb, job, holder, now)? {
            self.keys.insert(key, (job.id, expires_at));
        }
        Ok(())
    }

    /// Applies the consequences of a change of a job's row.
    pub(super) fn changed(&mut self, now: Timestamp, before: &Job, cause: Cause<'_>) {
        let Some(record) = self.find(before.id) else { return };
        let status = record.job.status;
        let was_running = before.status == Status::Processing;
        if was_running {
            record.close_attempt(now, AttemptStatus::Cancelled, None);
            if record.was_limited {
                self.occupy_slot(now, before);
            }
            let took = now.since(before.started_at.unwrap_or(now));
            self.rollup(now, before, Measure::Ended(AttemptStatus::Cancelled), took);
        }
        if matches!(status, Status::Cancelled | Status::Deleted) {
            self.keys.retain(|_, (holder, _)| *holder != before.id);
        }
        self.event(before.id, NewEvent { at: now, status, run: was_running.then_some(before.run), cause });
        self.moved(now, before.id, before.status, status);
    }
}

#[async_trait]
impl JobStore for ModelStore {
    async fn enqueue(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>> {
        self.write(|state, now| state.enqueue_all(now, jobs))?
    }

    async fn change(&self, changes: Vec<Change>) -> StoreResult<Vec<Changed>> {
        self.write(|state, now| state.change_all(now, changes))
    }
}
