//! Leases of jobs, and what their holders report; due jobs.

use std::time::Duration;

use async_trait::async_trait;
use punctual_core::{
    AttemptId, Claim, JobId, ProgressReport, Status, StoreResult, Timestamp, WorkerId, store::ports::LeaseStore,
};

use super::{
    state::{NewEvent, Record, State},
    store::ModelStore,
};

impl State {
    /// The record of an attempt that is in progress and held by the worker.
    pub(super) fn held(&mut self, attempt: AttemptId, worker: WorkerId) -> Option<&mut Record> {
        let record = self.find(attempt.job)?;
        let job = &record.job;
        let holds = job.status == Status::Processing && job.run == attempt.run && job.worker_id == Some(worker);
        holds.then_some(record)
    }

    pub(super) fn promote(&mut self, now: Timestamp, limit: usize) -> usize {
        let mut due: Vec<(Timestamp, u128, usize, JobId)> = self
            .jobs
            .iter()
            .enumerate()
            .filter(|(_, record)| record.job.status.is_timed() && record.job.run_at <= now)
            .map(|(index, record)| (record.job.run_at, self.rank(index), index, record.job.id))
            .collect();
        due.sort();
        due.truncate(limit);
        for (_, _, index, id) in &due {
            let job = &mut self.jobs[*index].job;
            job.status = Status::Queued;
            job.updated_at = now;
            self.event(*id, NewEvent::new(now, Status::Queued));
        }
        due.len()
    }
}

#[async_trait]
impl LeaseStore for ModelStore {
    async fn extend(&self, worker: WorkerId, lease: Duration, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>> {
        self.write(|state, now| {
            let mut extend = |attempt: &AttemptId| {
                let held = state.held(*attempt, worker);
                let live = held.filter(|record| record.job.lease_until.is_some_and(|until| until > now));
                live.map(|record| record.job.lease_until = record.job.lease_until.max(Some(now.after(lease)))).is_some()
            };
            attempts.iter().map(&mut extend).collect()
        })
    }

    async fn check_leases(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>> {
        let mut state = self.state();
        Ok(attempts.iter().map(|attempt| state.held(*attempt, worker).is_some()).collect())
    }

    async fn release_slots(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<()> {
        self.write(|state, _| state.release_slots(worker, &attempts))
    }

    async fn report_progress(&self, notes: Vec<ProgressReport>) -> StoreResult<()> {
        self.write(|state, _| {
            for note in notes {
                if let (Some(progress), Some(record)) = (note.progress, state.held(note.attempt, note.worker)) {
                    record.job.progress = Some(progress);
                }
                if let Some(record) = state.find(note.attempt.job) {
                    for (number, line) in note.lines {
                        record.logs.entry((note.attempt.run, number)).or_insert(line);
                    }
                }
            }
        })
    }

    async fn expired(&self, limit: usize) -> StoreResult<Vec<Claim>> {
        let (state, now) = (self.state(), self.clock.now());
        let lease_until = |index: &usize| state.jobs[*index].job.lease_until;
        let mut indexes: Vec<usize> =
            (0..state.jobs.len()).filter(|index| lease_until(index).is_some_and(|until| until <= now)).collect();
        indexes.sort_by_key(|index| (lease_until(index), state.rank(*index)));
        indexes.truncate(limit);
        Ok(indexes.into_iter().filter_map(|index| state.jobs[index].claim()).collect())
    }

    async fn promote(&self, limit: usize) -> StoreResult<usize> {
        self.write(|state, now| state.promote(now, limit))
    }
}
