//! Jobs that were running when their workers were lost: how many crashes they survive, and which claims take them.

use std::time::Duration;

use punctual_core::{
    Change, Changed, ClaimRequest, JobError, JobId, Limits, Outcome, Retry, Settled, Spec, Status, Verb,
};

use super::limits::limit;
use crate::{
    Fixture,
    fixture::{LEASE, failure, success},
};

pub async fn a_job_that_kills_its_workers_ends_dead(fx: &Fixture) {
    let id = fx.enqueue(|spec| spec.max_attempts = 2).await;
    crash(fx, id).await;
    assert_eq!(fx.job(id).await.status, Status::Queued, "after the first crash it keeps its position");
    crash(fx, id).await;
    assert_eq!(fx.job(id).await.status, Status::Retrying, "after the second it waits");
    fx.pass(10);
    lose(fx, id).await;
    let job = fx.job(id).await;
    assert_eq!((job.status, job.crash_count), (Status::Queued, 2), "its handler was not about to start");
    crash(fx, id).await;
    let job = fx.job(id).await;
    assert_eq!(job.status, Status::Dead);
    assert_eq!(job.attempt, 0);
    assert_eq!(job.crash_count, 3);
    assert!(job.error.unwrap().message.contains("quarantined"));
    assert!(fx.claim(fx.worker(), 1).await.is_empty());
}

pub async fn a_job_may_define_its_maximum_of_crashes(fx: &Fixture) {
    let id = fx.enqueue(|spec| spec.options.max_crashes = Some(1)).await;
    crash(fx, id).await;
    assert_eq!(fx.job(id).await.status, Status::Dead);
}

/// The worker of a job, which must be claimable, is lost while it runs the job.
async fn crash(fx: &Fixture, id: JobId) {
    let claim = fx.claim_one(fx.worker()).await;
    assert_eq!(claim.job.id, id);
    assert_eq!(fx.store.confirm(claim.worker, vec![claim.attempt_id()]).await.unwrap(), [true]);
    fx.pass(LEASE.as_secs());
    assert_eq!(fx.reap().await, 1);
}

/// The same, but before the handler starts.
pub(super) async fn lose(fx: &Fixture, id: JobId) {
    assert_eq!(fx.claim_one(fx.worker()).await.job.id, id);
    fx.pass(LEASE.as_secs());
    assert_eq!(fx.reap().await, 1);
}

/// The ids of the claimable suspects and of the other claimable jobs. All claims are released.
async fn claimable(fx: &Fixture) -> [Vec<JobId>; 2] {
    let mut ids = [Vec::new(), Vec::new()];
    for (ids, suspects) in ids.iter_mut().zip([true, false]) {
        let request = ClaimRequest { suspects, ..fx.request(fx.worker(), 10) };
        for claim in fx.store.claim(request).await.unwrap().claims {
            assert_eq!(claim.job.is_suspect(), suspects);
            ids.push(claim.job.id);
            assert_eq!(fx.settle(&claim, Outcome::Released).await, Settled::Done);
        }
    }
    ids
}

pub async fn a_suspect_is_handed_out_only_to_claims_of_suspects_whatever_becomes_of_it(fx: &Fixture) {
    for key in [None, Some("key".to_owned())] {
        let id = fx.enqueue(|spec| spec.options.concurrency_key = key.clone()).await;
        crash(fx, id).await;
        let other = fx.enqueue(|spec| spec.options.concurrency_key = key.clone()).await;
        assert_eq!(claimable(fx).await, [vec![id], vec![other]], "{key:?}");
        // A suspect that is snoozed, fails or is retried manually remains a suspect.
        for outcome in [Outcome::Snoozed { after: Duration::from_secs(60) }, failure("no")] {
            let claim = fx.claim(fx.worker(), 1).await.remove(0);
            assert_eq!(claim.job.id, id);
            fx.settle(&claim, outcome).await;
            assert_eq!(claimable(fx).await, [vec![], vec![other]]);
            fx.pass(60);
            assert_eq!(claimable(fx).await, [vec![id], vec![other]]);
        }
        let claim = fx.claim(fx.worker(), 1).await.remove(0);
        fx.settle(&claim, Outcome::Failed { fault: JobError::new("no"), retry: Retry::Never }).await;
        let retry = Change { job: id, verb: Verb::Retry, actor: "ada".into(), reason: None };
        assert_eq!(fx.store.change(vec![retry]).await.unwrap(), [Changed::Done]);
        assert_eq!(claimable(fx).await, [vec![id], vec![other]]);
        for claim in fx.claim(fx.worker(), 2).await {
            fx.settle(&claim, success()).await;
        }
    }
}

pub async fn suspects_pass_the_limits_of_their_queue_and_key_like_others(fx: &Fixture) {
    let limits = Limits { concurrency: Some(2), key_concurrency: Some(1), ..Limits::default() };
    limit(fx, "default", limits).await;
    let keyed = |spec: &mut Spec| spec.options.concurrency_key = Some("key".into());
    let suspect = fx.enqueue(keyed).await;
    crash(fx, suspect).await;
    let others = [fx.enqueue(keyed).await, fx.enqueue(|_| ()).await, fx.enqueue(|_| ()).await];
    let request = |suspects| ClaimRequest { suspects, ..fx.request(fx.worker(), 10) };
    let held = fx.store.claim(request(false)).await.unwrap().claims;
    assert_eq!(held.len(), 2);
    assert!(fx.store.claim(request(true)).await.unwrap().claims.is_empty(), "the queue is full");
    let (of_key, plain): (Vec<_>, Vec<_>) = held.into_iter().partition(|claim| claim.job.id == others[0]);
    fx.settle(&plain[0], success()).await;
    assert!(fx.store.claim(request(true)).await.unwrap().claims.is_empty(), "the key is taken");
    fx.settle(&of_key[0], success()).await;
    let claims = fx.store.claim(request(true)).await.unwrap().claims;
    assert_eq!(claims.iter().map(|claim| claim.job.id).collect::<Vec<_>>(), [suspect]);
    fx.settle(&claims[0], success()).await;
}
