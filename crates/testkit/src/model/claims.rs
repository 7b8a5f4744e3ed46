//! Hands jobs to workers and settles them.

use std::time::Duration;

use async_trait::async_trait;
use punctual_core::{
    Attempt, AttemptId, AttemptStatus, Claim, ClaimRequest, Claimed, Job, LeaseGrant, Settled, Settlement, Status,
    StoreResult, Timestamp, WorkerId, limits, measure::Measure, store::ports::ClaimStore,
};
use tokio::time;

use super::{
    state::{NewEvent, Record, State},
    store::ModelStore,
};

impl State {
    pub(super) fn claim(&mut self, now: Timestamp, request: &ClaimRequest) -> Claimed {
        self.promote(now, limits::PROMOTE_MAX_JOBS);
        let (indexes, opens_at) = self.apply_limits(now, request);
        let mut claims: Vec<Claim> = indexes.into_iter().map(|index| self.hold(now, now, index, request)).collect();
        claims.extend(self.claim_ahead(now, request, request.limit - claims.len()));
        let timed = self.jobs.iter().filter(|record| record.job.status.is_timed());
        Claimed { claims, next_run_at: timed.map(|record| record.job.run_at).min(), opens_at }
    }

    pub(super) fn serves(&self, request: &ClaimRequest, job: &Job) -> bool {
        let paused = self.queues.get(&job.spec.queue).is_some_and(|queue| queue.settings.paused);
        !paused && request.serves(&job.spec.queue, &job.spec.name) && request.suspects == job.is_suspect()
    }

    pub(super) fn claim_ahead(&mut self, now: Timestamp, request: &ClaimRequest, limit: usize) -> Vec<Claim> {
        let mut indexes: Vec<usize> = (0..self.jobs.len())
            .filter(|index| {
                let job = &self.jobs[*index].job;
                job.status.is_timed()
                    && (now..=now.after(request.ahead)).contains(&job.run_at)
                    && self.serves(request, job)
                    && !self.is_limited(job)
            })
            .collect();
        indexes.sort_by_key(|index| (self.jobs[*index].job.run_at, self.rank(*index)));
        indexes.truncate(limit);
        let claim = |index: usize| {
            let (id, at) = (self.jobs[index].job.id, self.jobs[index].job.run_at);
            self.event(id, NewEvent::new(at, Status::Queued));
            self.hold(now, at, index, request)
        };
        indexes.into_iter().map(claim).collect()
    }

    /// Hands a job to a worker, which starts it at the time `at`.
    pub(super) fn hold(&mut self, now: Timestamp, at: Timestamp, index: usize, request: &ClaimRequest) -> Claim {
        let was_limited = self.is_limited(&self.jobs[index].job);
        let record = &mut self.jobs[index];
        record.was_limited = was_limited;
        let job = &mut record.job;
        let lease = LeaseGrant { worker: request.worker, from: at, duration: request.lease };
        job.begin(job.run + 1, job.attempt + 1, lease);
        record.attempts.push(Attempt {
            id: AttemptId { job: job.id, run: job.run },
            attempt: job.attempt,
            status: AttemptStatus::Running,
            worker_id: request.worker,
            started_at: at,
            finished_at: None,
            error: None,
        });
        let job = job.clone();
        self.event(job.id, NewEvent { run: Some(job.run), ..NewEvent::new(at, Status::Processing) });
        self.rollup(now, &job, Measure::Lateness, at.since(job.run_at));
        Claim::new(Box::new(job), request.worker)
    }

    pub(super) fn confirm(&mut self, now: Timestamp, attempt: AttemptId, worker: WorkerId) -> bool {
        let held = self.held(attempt, worker).filter(|record| record.job.lease_until.is_some_and(|until| until > now));
        held.map(|record| record.confirmed = Some(attempt.run)).is_some()
    }

    pub(super) fn settle_all(&mut self, now: Timestamp, settlements: Vec<Settlement>) -> Vec<Settled> {
        let settled = settlements.into_iter().map(|one| self.settle(now, one)).collect();
        self.follow(now);
        settled
    }

    fn settle(&mut self, now: Timestamp, settlement: Settlement) -> Settled {
        let Some(record) = self.held(settlement.attempt, settlement.worker) else {
            if !settlement.only_if_expired {
                self.release_slots(settlement.worker, &[settlement.attempt]);
            }
            return Settled::Stale;
        };
        if settlement.only_if_expired && record.job.lease_until.is_some_and(|until| until > now) {
            return Settled::Stale;
        }
        let ending = settlement.ending;
        let before = record.job.clone();
        record.close_attempt(now, settlement.attempt_status, settlement.fault.clone());
        let job = &mut record.job;
        job.status = ending.status();
        job.run_at = ending.run_at(job.run_at, now);
        job.attempt -= u32::from(settlement.gives_back_attempt());
        job.crash_count += u32::from(settlement.attempt_status == AttemptStatus::Lost);
        job.updated_at = now;
        job.finished_at = job.status.is_finished().then_some(now);
        job.worker_id = None;
        job.lease_until = None;
        job.result = settlement.result.or(job.result.take());
        job.error = settlement.fault.or(job.error.take());
        for step in ending.path() {
            self.event(before.id, NewEvent { run: Some(before.run), ..NewEvent::new(now, *step) });
        }
        let took = now.since(before.started_at.unwrap_or(now));
        self.rollup(now, &before, Measure::Ended(settlement.attempt_status), took);
        if ending.status() == Status::Dead {
            self.rollup(now, &before, Measure::Died, took);
        }
        self.moved(now, before.id, before.status, ending.status());
        Settled::Done
    }
}

#[async_trait]
impl ClaimStore for ModelStore {
    async fn claim(&self, request: ClaimRequest) -> StoreResult<Claimed> {
        let deadline = time::Instant::now() + request.wait.min(limits::WAIT_MAX);
        let wakeups = self.claim_wakeups.subscribe();
        loop {
            let mut hints = self.hints.subscribe();
            let claimed = self.write(|state, now| state.claim(now, &request))?;
            hints.mark_unchanged();
            let left = deadline.saturating_duration_since(time::Instant::now());
            if !claimed.claims.is_empty() || left.is_zero() || wakeups.has_changed().unwrap_or(true) {
                return Ok(claimed);
            }
            // A test may set the clock, so the model polls at short intervals instead of waiting for the next due time.
            let _ = time::timeout(left.min(Duration::from_millis(5)), hints.changed()).await;
        }
    }

    async fn confirm(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>> {
        self.write(|state, now| attempts.iter().map(|attempt| state.confirm(now, *attempt, worker)).collect())
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> StoreResult<Vec<Settled>> {
        self.write(|state, now| state.settle_all(now, settlements))
    }

    async fn share_claims(&self, _attempts: Vec<AttemptId>) -> StoreResult<()> {
        Ok(())
    }

    async fn claims_of_dead(&self, worker: WorkerId, limit: usize) -> StoreResult<Vec<Claim>> {
        let all = self.state().jobs.iter().filter_map(Record::claim).collect::<Vec<_>>();
        let mut claims: Vec<Claim> = all.into_iter().filter(|claim| claim.worker == worker).collect();
        claims.sort_by_key(|claim| claim.job.id);
        claims.truncate(limit);
        Ok(claims)
    }
}
