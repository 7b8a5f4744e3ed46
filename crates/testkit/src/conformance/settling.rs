use std::time::Duration;

use punctual_core::{
    AttemptId, AttemptStatus, Ending, JobError, JobId, Json, LogLevel, LogLine, Outcome, Progress, ProgressReport,
    Retry, RetryPolicy, Settled, Settlement, Status, Timestamp, job, settle,
};

use super::suspects::lose;
use crate::{
    Fixture,
    fixture::{LEASE, failure, lost, success},
};

async fn attempt_statuses(fx: &Fixture, id: JobId) -> Vec<(u32, AttemptStatus)> {
    let attempts = fx.store.history(id).await.unwrap().attempts;
    attempts.into_iter().map(|attempt| (attempt.attempt, attempt.status)).collect()
}

pub async fn a_success_is_recorded_with_its_result(fx: &Fixture) {
    let id = fx.enqueue(|_| ()).await;
    let claim = fx.claim_one(fx.worker()).await;
    fx.pass(3);
    let result = Json::trusted(r#"{"sent": true}"#);
    assert_eq!(fx.settle(&claim, Outcome::Succeeded { result: Some(result.clone()) }).await, Settled::Done);
    let job = fx.job(id).await;
    assert_eq!(job.status, Status::Succeeded);
    assert_eq!(job.result, Some(result));
    assert_eq!(job.finished_at, Some(fx.now()));
    assert_eq!(job.attempt, 1);
    assert_eq!(job.worker_id, None);
    assert_eq!(job.lease_until, None);
    assert_eq!(job.error, None);
    assert_eq!(attempt_statuses(fx, id).await, [(1, AttemptStatus::Succeeded)]);
    assert_eq!(fx.store.history(id).await.unwrap().attempts[0].finished_at, Some(fx.now()));
    assert_eq!(fx.history(id).await, [Status::Queued, Status::Processing, Status::Succeeded]);
}

pub async fn a_failure_waits_for_its_retry_and_then_dies(fx: &Fixture) {
    let id = fx
        .enqueue(|spec| {
            spec.max_attempts = 2;
            spec.options.retry = Some(RetryPolicy::fixed(Duration::from_secs(10)).jitter(0.0));
        })
        .await;
    let claim = fx.claim_one(fx.worker()).await;
    fx.settle(&claim, failure("first")).await;
    let job = fx.job(id).await;
    assert_eq!((job.status, job.run_at), (Status::Retrying, fx.now().after(Duration::from_secs(10))));
    assert_eq!(job.attempt, 1);
    assert_eq!(job.error, Some(JobError::new("first")));
    assert_eq!(job.finished_at, None);
    assert!(fx.claim(fx.worker(), 1).await.is_empty());
    fx.pass(10);
    let claim = fx.claim_one(fx.worker()).await;
    assert_eq!((claim.job.attempt, claim.job.error.clone()), (2, Some(JobError::new("first"))));
    fx.settle(&claim, failure("second")).await;
    let job = fx.job(id).await;
    assert_eq!(job.status, Status::Dead);
    assert_eq!(job.finished_at, Some(fx.now()));
    assert_eq!(job.error, Some(JobError::new("second")));
    use Status::*;
    assert_eq!(fx.history(id).await, [Queued, Processing, Failed, Retrying, Queued, Processing, Failed, Dead]);
    assert_eq!(attempt_statuses(fx, id).await, [(1, AttemptStatus::Failed), (2, AttemptStatus::Failed)]);
}

pub async fn an_immediate_retry_skips_the_waiting(fx: &Fixture) {
    let id = fx.enqueue(|_| ()).await;
    let claim = fx.claim_one(fx.worker()).await;
    let outcome = Outcome::Failed { fault: JobError::new("x"), retry: Retry::After(Duration::ZERO) };
    fx.settle(&claim, outcome).await;
    assert_eq!(fx.history(id).await, [Status::Queued, Status::Processing, Status::Failed, Status::Queued]);
    assert_eq!(fx.claim_one(fx.worker()).await.job.attempt, 2);
}

pub async fn a_permanent_failure_is_dead_at_once(fx: &Fixture) {
    let id = fx.enqueue(|_| ()).await;
    let claim = fx.claim_one(fx.worker()).await;
    fx.settle(&claim, Outcome::Failed { fault: JobError::new("no such user"), retry: Retry::Never }).await;
    assert_eq!(fx.history(id).await, [Status::Queued, Status::Processing, Status::Failed, Status::Dead]);
}

pub async fn a_timeout_is_distinguished_from_a_failure(fx: &Fixture) {
    let id = fx.enqueue(|_| ()).await;
    let claim = fx.claim_one(fx.worker()).await;
    fx.settle(&claim, Outcome::TimedOut).await;
    assert_eq!(attempt_statuses(fx, id).await, [(1, AttemptStatus::TimedOut)]);
    let attempts = fx.store.history(id).await.unwrap().attempts;
    assert_eq!(attempts[0].error.as_ref().unwrap().code.as_deref(), Some(job::E_TIMEOUT));
    assert_eq!(fx.job(id).await.error, attempts[0].error);
}

pub async fn a_snooze_spends_no_attempt(fx: &Fixture) {
    let id = fx.enqueue(|spec| spec.max_attempts = 1).await;
    let worker = fx.worker();
    for _ in 0..3 {
        let claim = fx.claim_one(worker).await;
        assert_eq!(claim.job.attempt, 1);
        fx.settle(&claim, Outcome::Snoozed { after: Duration::from_secs(5) }).await;
        let job = fx.job(id).await;
        assert_eq!((job.status, job.attempt), (Status::Scheduled, 0));
        assert!(fx.claim(worker, 1).await.is_empty());
        fx.pass(5);
    }
    let claim = fx.claim_one(worker).await;
    assert_eq!((claim.job.attempt, claim.job.run), (1, 4));
    fx.settle(&claim, success()).await;
    assert_eq!(attempt_statuses(fx, id).await[2..], [(1, AttemptStatus::Released), (1, AttemptStatus::Succeeded)]);
}

pub async fn a_release_spends_no_attempt_and_keeps_the_job_ready(fx: &Fixture) {
    let (id, due) = (fx.enqueue(|spec| spec.max_attempts = 1).await, fx.now());
    let claim = fx.claim_one(fx.worker()).await;
    fx.pass(1);
    fx.settle(&claim, Outcome::Released).await;
    let job = fx.job(id).await;
    assert_eq!(job.status, Status::Queued);
    assert_eq!(job.attempt, 0);
    assert_eq!(job.run_at, due);
    let claim = fx.claim_one(fx.worker()).await;
    assert_eq!((claim.job.attempt, claim.job.run), (1, 2));
    assert_eq!(attempt_statuses(fx, id).await, [(1, AttemptStatus::Released), (1, AttemptStatus::Running)]);
}

pub async fn a_settle_by_another_worker_or_run_is_stale(fx: &Fixture) {
    let id = fx.enqueue(|_| ()).await;
    let claim = fx.claim_one(fx.worker()).await;
    let right = settle(&claim, success(), 0.5);
    let mut other_worker = right.clone();
    other_worker.worker = fx.worker();
    let mut other_run = right.clone();
    other_run.attempt.run += 1;
    let mut other_job = right.clone();
    other_job.attempt.job = fx.new_job(|_| ()).id;
    let before = fx.job(id).await;
    for wrong in [other_worker, other_run, other_job] {
        assert_eq!(fx.apply(wrong).await, Settled::Stale);
    }
    assert_eq!(fx.job(id).await, before);
    assert_eq!(fx.history(id).await.len(), 2);
    assert_eq!(fx.apply(right).await, Settled::Done);
}

pub async fn a_settle_that_is_sent_twice_counts_once(fx: &Fixture) {
    let id = fx.enqueue(|_| ()).await;
    let claim = fx.claim_one(fx.worker()).await;
    let settlement = settle(&claim, success(), 0.5);
    let answers = fx.store.settle(vec![settlement.clone(), settlement.clone()]).await.unwrap();
    assert_eq!(answers, [Settled::Done, Settled::Stale]);
    assert_eq!(fx.apply(settlement).await, Settled::Stale);
    assert_eq!(fx.history(id).await.len(), 3);
    assert_eq!(fx.store.history(id).await.unwrap().attempts.len(), 1);
}

pub async fn a_stale_settle_does_not_disturb_the_others_in_its_batch(fx: &Fixture) {
    fx.enqueue_all((0..3).map(|_| fx.new_job(|_| ())).collect()).await;
    let claims = fx.claim(fx.worker(), 3).await;
    let mut batch: Vec<_> = claims.iter().map(|claim| settle(claim, success(), 0.5)).collect();
    batch[1].worker = fx.worker();
    let answers = fx.store.settle(batch).await.unwrap();
    assert_eq!(answers, [Settled::Done, Settled::Stale, Settled::Done]);
    assert_eq!(fx.job(claims[1].job.id).await.status, Status::Processing);
    assert_eq!(fx.job(claims[2].job.id).await.status, Status::Succeeded);
}

pub async fn a_worker_that_takes_its_own_released_job_again_has_a_new_fence(fx: &Fixture) {
    let id = fx.enqueue(|_| ()).await;
    let worker = fx.worker();
    let first = fx.claim_one(worker).await;
    let release = settle(&first, Outcome::Released, 0.5);
    assert_eq!(fx.apply(release.clone()).await, Settled::Done);
    let second = fx.claim_one(worker).await;
    assert_eq!((first.job.attempt, second.job.attempt), (1, 1));
    // The first release is sent again because its answer was lost. It must not end the second execution.
    assert_eq!(fx.apply(release).await, Settled::Stale);
    assert_eq!(fx.job(id).await.status, Status::Processing);
}

pub async fn a_settle_after_the_lease_expired_is_accepted_unless_the_job_was_taken(fx: &Fixture) {
    let id = fx.enqueue(|_| ()).await;
    let claim = fx.claim_one(fx.worker()).await;
    fx.pass(LEASE.as_secs() + 5);
    assert_eq!(fx.settle(&claim, success()).await, Settled::Done);
    assert_eq!(fx.job(id).await.status, Status::Succeeded);
    // Once another worker has claimed the job, the late settle is reported as stale.
    let id = fx.enqueue(|_| ()).await;
    let late = fx.claim_one(fx.worker()).await;
    fx.pass(LEASE.as_secs());
    assert_eq!(fx.reap().await, 1);
    let second = fx.claim_one(fx.worker()).await;
    assert_eq!(fx.settle(&late, success()).await, Settled::Stale);
    assert_eq!(fx.settle(&second, success()).await, Settled::Done);
    assert_eq!(fx.history(id).await.iter().filter(|status| status.is_finished()).count(), 1);
}

pub async fn an_extension_after_the_lease_ran_out_is_refused(fx: &Fixture) {
    fx.enqueue(|_| ()).await;
    let worker = fx.worker();
    let claim = fx.claim_one(worker).await;
    let attempt = claim.attempt_id();
    fx.pass(LEASE.as_secs() - 1);
    assert_eq!(fx.store.extend(worker, LEASE, vec![attempt]).await.unwrap(), [true]);
    assert_eq!(fx.job(attempt.job).await.lease_until, Some(fx.now().after(LEASE)));
    assert_eq!(fx.store.extend(fx.worker(), LEASE, vec![attempt]).await.unwrap(), [false]);
    let wrong_run = AttemptId { run: 2, ..attempt };
    assert_eq!(fx.store.extend(worker, LEASE, vec![wrong_run, attempt]).await.unwrap(), [false, true]);
    fx.pass(LEASE.as_secs());
    assert_eq!(fx.store.extend(worker, LEASE, vec![attempt]).await.unwrap(), [false]);
}

pub async fn an_extension_never_shortens_a_lease(fx: &Fixture) {
    let id = fx.enqueue(|_| ()).await;
    let worker = fx.worker();
    let attempt = fx.claim_one(worker).await.attempt_id();
    for lease in [10 * LEASE, LEASE] {
        assert_eq!(fx.store.extend(worker, lease, vec![attempt]).await.unwrap(), [true]);
        assert_eq!(fx.job(id).await.lease_until, Some(fx.now().after(10 * LEASE)));
    }
}

pub async fn an_extension_keeps_the_reaper_away(fx: &Fixture) {
    fx.enqueue(|_| ()).await;
    let worker = fx.worker();
    let claim = fx.claim_one(worker).await;
    for _ in 0..3 {
        fx.pass(LEASE.as_secs() - 1);
        fx.store.extend(worker, LEASE, vec![claim.attempt_id()]).await.unwrap();
        assert_eq!(fx.reap().await, 0);
    }
    fx.pass(LEASE.as_secs());
    assert_eq!(fx.reap().await, 1);
}

pub async fn a_returned_job_keeps_its_position(fx: &Fixture) {
    let lost = fx.enqueue(|_| ()).await;
    fx.pass(1);
    let released = fx.enqueue(|_| ()).await;
    fx.pass(1);
    let (first, second) = (fx.claim(fx.worker(), 1).await.remove(0), fx.claim(fx.worker(), 1).await.remove(0));
    for _ in 0..5 {
        fx.enqueue(|_| ()).await;
        fx.pass(1);
    }
    // Later jobs have been claimed since.
    assert_eq!(fx.claim(fx.worker(), 3).await.len(), 3);
    fx.settle(&second, Outcome::Released).await;
    assert_eq!(fx.store.end_leases(first.worker).await.unwrap(), 1);
    assert_eq!(fx.reap().await, 1);
    let again: Vec<_> = fx.claim(fx.worker(), 2).await.iter().map(|claim| claim.job.id).collect();
    assert_eq!(again, [lost, released]);
}

pub async fn a_lost_worker_costs_a_crash_and_no_attempt(fx: &Fixture) {
    let (id, due) = (fx.enqueue(|_| ()).await, fx.now());
    let claim = fx.claim_one(fx.worker()).await;
    fx.pass(LEASE.as_secs());
    let expired = fx.store.expired(10).await.unwrap();
    assert_eq!(expired, [claim]);
    assert_eq!(fx.reap().await, 1);
    let job = fx.job(id).await;
    assert_eq!(job.status, Status::Queued);
    assert_eq!(job.attempt, 0);
    assert_eq!(job.crash_count, 1);
    assert_eq!(job.run_at, due);
    assert_eq!(job.error.unwrap().code.as_deref(), Some(job::E_LOST));
    assert_eq!(attempt_statuses(fx, id).await, [(1, AttemptStatus::Lost)]);
    assert_eq!(fx.history(id).await, [Status::Queued, Status::Processing, Status::Failed, Status::Queued]);
    assert_eq!(fx.claim_one(fx.worker()).await.job.attempt, 1);
}

pub async fn a_job_that_runs_at_most_once_goes_back_unless_its_start_was_confirmed(fx: &Fixture) {
    let id = fx.enqueue(|spec| spec.max_attempts = 1).await;
    lose(fx, id).await;
    let job = fx.job(id).await;
    assert_eq!(job.status, Status::Queued, "nothing was spent");
    assert_eq!(job.attempt, 0, "nothing was spent");
    assert_eq!(job.crash_count, 0, "nothing was spent");
    let claim = fx.claim_one(fx.worker()).await;
    assert_eq!((claim.job.run, claim.confirmed), (2, false));
    let attempts = vec![claim.attempt_id()];
    assert_eq!(fx.store.confirm(claim.worker, attempts.clone()).await.unwrap(), [true]);
    assert_eq!(fx.store.confirm(claim.worker, attempts).await.unwrap(), [true], "a repeated confirmation succeeds");
    fx.pass(LEASE.as_secs());
    assert!(fx.store.expired(10).await.unwrap()[0].confirmed);
    assert_eq!(fx.reap().await, 1);
    let job = fx.job(id).await;
    assert_eq!((job.status, job.crash_count), (Status::Dead, 1));
    assert!(job.error.unwrap().message.contains("max_attempts is 1"));
}

pub async fn a_start_is_confirmed_only_while_the_lease_lasts_and_by_its_worker(fx: &Fixture) {
    fx.enqueue_all((0..2).map(|_| fx.new_job(|spec| spec.max_attempts = 1)).collect()).await;
    let worker = fx.worker();
    let claims = fx.claim(worker, 2).await;
    let attempts: Vec<_> = claims.iter().map(|claim| claim.attempt_id()).collect();
    assert_eq!(fx.store.confirm(fx.worker(), attempts.clone()).await.unwrap(), [false, false]);
    let other_run = AttemptId { run: 2, ..attempts[1] };
    assert_eq!(fx.store.confirm(worker, vec![other_run, attempts[0]]).await.unwrap(), [false, true]);
    fx.pass(LEASE.as_secs());
    assert_eq!(fx.store.confirm(worker, attempts).await.unwrap(), [false, false]);
    assert_eq!(fx.reap().await, 2);
}

pub async fn a_reaper_cannot_end_a_lease_that_was_extended_meanwhile(fx: &Fixture) {
    let id = fx.enqueue(|_| ()).await;
    let worker = fx.worker();
    let claim = fx.claim_one(worker).await;
    fx.pass(LEASE.as_secs() - 1);
    let late = settle(&claim, lost(), 0.5);
    assert_eq!(late.ending, Ending::Requeue);
    fx.store.extend(worker, LEASE, vec![claim.attempt_id()]).await.unwrap();
    fx.pass(2);
    assert_eq!(fx.apply(late).await, Settled::Stale);
    assert_eq!(fx.job(id).await.status, Status::Processing);
}

pub async fn the_leases_of_a_dead_worker_end_at_once(fx: &Fixture) {
    let (dead, alive) = (fx.worker(), fx.worker());
    fx.enqueue(|_| ()).await;
    let claim_of_dead = fx.claim_one(dead).await;
    fx.enqueue(|_| ()).await;
    let kept = fx.claim_one(alive).await;
    assert_eq!(fx.store.end_leases(dead).await.unwrap(), 1);
    assert_eq!(fx.store.end_leases(dead).await.unwrap(), 0, "it has ended");
    let expired: Vec<_> = fx.store.expired(10).await.unwrap().iter().map(|claim| claim.job.id).collect();
    assert_eq!(expired, [claim_of_dead.job.id]);
    let extended = fx.store.extend(dead, LEASE, vec![claim_of_dead.attempt_id()]).await.unwrap();
    assert_eq!(extended, [false], "one that was not dead after all finds that it has lost it");
    assert_eq!(fx.apply(settle(&claim_of_dead, lost(), 0.5)).await, Settled::Done);
    assert_eq!(fx.claim_one(alive).await.job.id, claim_of_dead.job.id);
    assert_eq!(fx.store.extend(alive, LEASE, vec![kept.attempt_id()]).await.unwrap(), [true]);
}

pub async fn jobs_of_a_dead_worker_are_settled_by_the_process_that_detects_its_death(fx: &Fixture) {
    let (dead, alive) = (fx.worker(), fx.worker());
    let jobs = fx.enqueue_all((0..4).map(|_| fx.new_job(|spec| spec.max_attempts = 1)).collect()).await;
    let claims = fx.claim(dead, 3).await;
    let kept = fx.claim_one(alive).await;
    assert_eq!(fx.store.confirm(dead, vec![claims[0].attempt_id()]).await.unwrap(), [true]);
    assert_eq!(fx.settle(&claims[2], success()).await, Settled::Done);
    let held = fx.store.claims_of_dead(dead, 10).await.unwrap();
    let actual: Vec<_> = held.iter().map(|claim| (claim.attempt_id(), claim.worker, claim.confirmed)).collect();
    assert_eq!(actual, [(claims[0].attempt_id(), dead, true), (claims[1].attempt_id(), dead, false)]);
    assert_eq!(fx.store.claims_of_dead(dead, 1).await.unwrap(), held[..1]);
    assert!(fx.store.claims_of_dead(fx.worker(), 10).await.unwrap().is_empty());
    assert!(fx.store.expired(10).await.unwrap().is_empty(), "the reaper must not settle it without the reason");
    for claim in &held {
        let lost = settle(claim, Outcome::Lost { evidence: Some("signal: 9".into()) }, 0.5);
        assert_eq!(fx.apply(Settlement { only_if_expired: false, ..lost }).await, Settled::Done);
    }
    let died = fx.job(claims[0].job.id).await;
    assert!(died.status == Status::Dead && died.error.unwrap().message.contains("signal: 9"));
    assert_eq!(fx.claim_one(alive).await.job.id, claims[1].job.id, "it had not begun");
    assert!(fx.store.claims_of_dead(dead, 10).await.unwrap().is_empty());
    assert_eq!(fx.settle(&kept, success()).await, Settled::Done);
    assert_eq!(kept.job.id, jobs[3]);
}

pub async fn progress_is_kept_while_the_fence_holds(fx: &Fixture) {
    let id = fx.enqueue(|_| ()).await;
    let claim = fx.claim_one(fx.worker()).await;
    let note = |percent: f32| ProgressReport {
        attempt: claim.attempt_id(),
        worker: claim.worker,
        progress: Some(Progress { percent, message: Some("half".into()) }),
        lines: Vec::new(),
    };
    fx.store.report_progress(vec![note(50.0)]).await.unwrap();
    assert_eq!(fx.job(id).await.progress, note(50.0).progress);
    fx.settle(&claim, success()).await;
    fx.store.report_progress(vec![note(75.0)]).await.unwrap();
    assert_eq!(fx.job(id).await.progress, note(50.0).progress, "progress after the end is ignored");
}

pub async fn logs_are_kept_in_order_and_once(fx: &Fixture) {
    let id = fx.enqueue(|_| ()).await;
    let claim = fx.claim_one(fx.worker()).await;
    let line = |number: u32| {
        let at = Timestamp::from_micros(fx.now().as_micros() + i64::from(number));
        (number, LogLine { run: 1, at, level: LogLevel::Warn, message: format!("line {number} ✓") })
    };
    let note = |lines| ProgressReport { attempt: claim.attempt_id(), worker: claim.worker, progress: None, lines };
    fx.store.report_progress(vec![note(vec![line(1), line(2)])]).await.unwrap();
    fx.store.report_progress(vec![note(vec![line(2), line(3)])]).await.unwrap();
    let expected: Vec<_> = (1..=3).map(|number| line(number).1).collect();
    assert_eq!(fx.store.logs(id, 10).await.unwrap(), expected);
    assert_eq!(fx.store.logs(id, 2).await.unwrap(), expected[..2]);
    let unknown = fx.new_job(|_| ()).id;
    assert!(fx.store.logs(unknown, 10).await.unwrap().is_empty());
}

pub async fn check_leases_returns_which_attempts_are_still_held(fx: &Fixture) {
    fx.enqueue_all((0..2).map(|_| fx.new_job(|_| ())).collect()).await;
    let worker = fx.worker();
    let claims = fx.claim(worker, 2).await;
    let attempts: Vec<_> = claims.iter().map(|claim| claim.attempt_id()).collect();
    assert_eq!(fx.store.check_leases(worker, attempts.clone()).await.unwrap(), [true, true]);
    assert_eq!(fx.store.check_leases(fx.worker(), attempts.clone()).await.unwrap(), [false, false]);
    fx.settle(&claims[0], success()).await;
    assert_eq!(fx.store.check_leases(worker, attempts).await.unwrap(), [false, true]);
}
