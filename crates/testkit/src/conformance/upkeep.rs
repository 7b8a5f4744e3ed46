use std::time::Duration;

use punctual_core::{
    Change, Ends, Filter, Heartbeat, JobId, LogLevel, LogLine, NewJob, NewWorkflow, Page, ProgressReport,
    RetentionPolicy, Status, Timestamp, Unique, Verb, WorkerId, WorkflowId, limits,
};

use crate::{
    Fixture,
    fixture::{failure, success},
};

const HOUR: Duration = Duration::from_secs(3_600);
const KEEP: RetentionPolicy = RetentionPolicy { succeeded: HOUR, dead: Duration::from_secs(7_200), cancelled: HOUR };

async fn finished(fx: &Fixture, adjust: impl FnOnce(&mut punctual_core::Spec)) -> JobId {
    let id = fx.enqueue(adjust).await;
    let claim = fx.claim_one(fx.worker()).await;
    fx.settle(&claim, success()).await;
    id
}

pub async fn retention_deletes_old_finished_jobs_and_never_an_active_one(fx: &Fixture) {
    let succeeded = finished(fx, |_| ()).await;
    let dead = fx.enqueue(|spec| spec.max_attempts = 1).await;
    let claim = fx.claim_one(fx.worker()).await;
    fx.settle(&claim, failure("x")).await;
    let running = fx.enqueue(|_| ()).await;
    fx.claim_one(fx.worker()).await;
    let queued = fx.enqueue(|_| ()).await;
    let scheduled = fx.enqueue_in(9_000_000, |_| ()).await;
    fx.pass(3_599);
    assert_eq!(fx.store.expire(KEEP, 100).await.unwrap(), 0);
    fx.pass(1);
    assert_eq!(fx.store.expire(KEEP, 100).await.unwrap(), 1);
    assert_eq!(fx.job(succeeded).await.status, Status::Deleted);
    let event = fx.store.history(succeeded).await.unwrap().events.pop().unwrap();
    assert_eq!((event.status, event.actor.as_deref()), (Status::Deleted, Some("retention")));
    fx.pass(7_200_000);
    assert_eq!(fx.store.expire(KEEP, 100).await.unwrap(), 1);
    assert_eq!(fx.job(dead).await.status, Status::Deleted);
    for id in [running, queued, scheduled] {
        assert!(fx.job(id).await.status.is_active());
    }
    assert_eq!(fx.store.expire(KEEP, 100).await.unwrap(), 0);
}

pub async fn a_job_may_define_its_retention(fx: &Fixture) {
    let briefly = finished(fx, |spec| spec.keep_for = Some(Duration::from_secs(60))).await;
    let long = finished(fx, |spec| spec.keep_for = Some(100 * HOUR)).await;
    let at_once = finished(fx, |spec| spec.keep_for = Some(Duration::ZERO)).await;
    assert_eq!(fx.store.expire(KEEP, 100).await.unwrap(), 1);
    assert_eq!(fx.job(at_once).await.status, Status::Deleted);
    fx.pass(60);
    fx.store.expire(KEEP, 100).await.unwrap();
    assert_eq!(fx.job(briefly).await.status, Status::Deleted);
    fx.pass(99 * 3_600);
    fx.store.expire(KEEP, 100).await.unwrap();
    assert_eq!(fx.job(long).await.status, Status::Succeeded);
    fx.pass(3_600);
    fx.store.expire(KEEP, 100).await.unwrap();
    assert_eq!(fx.job(long).await.status, Status::Deleted);
}

pub async fn retention_keeps_a_job_while_the_period_of_its_unique_key_lasts(fx: &Fixture) {
    let keyed = |key: &'static str, keep_for| {
        move |spec: &mut punctual_core::Spec| {
            (spec.unique_key, spec.keep_for) = (Some(key.to_owned()), keep_for);
            spec.options.unique = Some(Unique { period: Some(10 * HOUR), ..Unique::default() });
        }
    };
    let first = finished(fx, keyed("a", None)).await;
    let brief = finished(fx, keyed("b", Some(Duration::from_secs(60)))).await;
    let other = finished(fx, |spec| spec.unique_key = Some("c".to_owned())).await;
    let cancelled = fx.enqueue(keyed("d", None)).await;
    let cancel = Change { job: cancelled, verb: Verb::Cancel, actor: "ada".into(), reason: None };
    fx.store.change(vec![cancel]).await.unwrap();
    for hours in [1, 8] {
        fx.pass(hours * 3_600);
        for _ in 0..2 {
            fx.store.expire(KEEP, 100).await.unwrap();
        }
        for id in [first, brief] {
            assert_eq!(fx.job(id).await.status, Status::Succeeded, "after {hours} hours");
        }
        for id in [other, cancelled] {
            assert_eq!(fx.job(id).await.status, Status::Deleted);
        }
    }
    assert_eq!(fx.enqueue(keyed("a", None)).await, first, "the key is in force");
    fx.pass(3_600);
    assert_eq!(fx.store.expire(KEEP, 100).await.unwrap(), 2);
    assert_eq!(fx.job(first).await.status, Status::Deleted);
    assert_ne!(fx.enqueue(keyed("a", None)).await, first);
    assert_eq!(fx.store.expire(KEEP, 100).await.unwrap(), 0);
}

pub async fn purging_removes_every_trace(fx: &Fixture) {
    let id = finished(fx, |spec| spec.unique_key = Some("k".into())).await;
    let kept = finished(fx, |_| ()).await;
    let change = Change { job: id, verb: Verb::Delete, actor: "ada".into(), reason: None };
    fx.store.change(vec![change]).await.unwrap();
    fx.pass(3_599);
    assert_eq!(fx.store.purge(HOUR, 100).await.unwrap(), 0);
    fx.pass(1);
    assert_eq!(fx.store.purge(HOUR, 100).await.unwrap(), 1);
    assert_eq!(fx.store.get(id).await.unwrap(), None);
    assert!(fx.store.history(id).await.unwrap().attempts.is_empty());
    assert!(fx.store.history(id).await.unwrap().events.is_empty());
    assert_eq!(fx.job(kept).await.status, Status::Succeeded);
    let everything = Filter { statuses: Status::ALL.to_vec(), ..Filter::default() };
    assert_eq!(fx.store.list(everything, Page::first(10)).await.unwrap().jobs.len(), 1);
}

pub async fn trimming_removes_old_attempts_and_logs(fx: &Fixture) {
    let old = fx.enqueue(|_| ()).await;
    let claim = fx.claim_one(fx.worker()).await;
    let line = LogLine { run: 1, at: fx.now(), level: LogLevel::Info, message: "hello".into() };
    let note =
        ProgressReport { attempt: claim.attempt_id(), worker: claim.worker, progress: None, lines: vec![(1, line)] };
    fx.store.report_progress(vec![note]).await.unwrap();
    fx.settle(&claim, success()).await;
    let worker = Heartbeat {
        id: WorkerId::from_bits(1),
        host: "h".into(),
        pid: 1,
        queues: vec![],
        names: vec![],
        concurrency: 1,
        running: 0,
        registered_by: None,
    };
    fx.store.heartbeat(worker).await.unwrap();
    fx.pass(2 * limits::WORKER_SILENT_MAX.as_secs());
    let recent = finished(fx, |_| ()).await;
    assert_eq!(fx.store.prune(HOUR, 100).await.unwrap(), 3);
    assert!(fx.store.history(old).await.unwrap().attempts.is_empty());
    assert!(fx.store.logs(old, 10).await.unwrap().is_empty());
    assert!(fx.store.workers().await.unwrap().is_empty());
    assert_eq!(fx.store.history(recent).await.unwrap().attempts.len(), 1);
    assert_eq!(fx.history(old).await.len(), 3, "the audit trail stays as long as the job");
}

pub async fn ephemeral_jobs_are_dropped_unless_they_run(fx: &Fixture) {
    let running = fx.enqueue(|spec| spec.ephemeral = true).await;
    fx.claim_one(fx.worker()).await;
    let gone = [
        fx.enqueue(|spec| (spec.ephemeral, spec.unique_key) = (true, Some("k".into()))).await,
        fx.enqueue_in(60, |spec| spec.ephemeral = true).await,
    ];
    let kept = fx.enqueue(|_| ()).await;
    fx.pass(1);
    let newer = fx.enqueue_in(600, |spec| spec.ephemeral = true).await;
    assert_eq!(fx.store.drop_ephemeral(fx.now(), 100).await.unwrap(), 2);
    assert_eq!(fx.job(newer).await.status, Status::Scheduled, "only those from before");
    for id in gone {
        assert_eq!(fx.store.get(id).await.unwrap(), None);
    }
    assert_eq!(fx.job(running).await.status, Status::Processing);
    assert_eq!(fx.claim_one(fx.worker()).await.job.id, kept);
    fx.pass(60);
    assert!(fx.claim(fx.worker(), 1).await.is_empty());
    assert!(!fx.store.enqueue(vec![fx.new_job(|spec| spec.unique_key = Some("k".into()))]).await.unwrap()[0].existing);
}

pub async fn jobs_that_are_removed_with_their_parents_are_counted_once(fx: &Fixture) {
    let id = WorkflowId::from_bits(7);
    let member = |node: &str, ephemeral: bool, parents: &[&NewJob]| NewJob {
        parents: parents.iter().map(|parent| parent.id).collect(),
        ..fx.new_job(|spec| {
            (spec.workflow_id, spec.ephemeral) = (Some(id), ephemeral);
            spec.options.node = Some(node.into());
        })
    };
    let first = member("first", true, &[]);
    let child = member("child", true, &[&first]);
    // Is cancelled by the end of its parent; its own child is removed.
    let kept = member("kept", false, &[&first]);
    let grandchild = member("grandchild", true, &[&kept]);
    let (new, cancelled) = (NewWorkflow { id, name: "nightly".into(), created_by: None }, kept.id);
    fx.store.submit(new, vec![first, child, kept, grandchild]).await.unwrap();
    assert_eq!(fx.store.drop_ephemeral(Timestamp::MAX, 100).await.unwrap(), 3);
    assert_eq!(fx.job(cancelled).await.status, Status::Cancelled);
    let ends = fx.store.workflow(id).await.unwrap().unwrap().ends;
    assert_eq!(ends, Ends { total: 4, cancelled: 4, ..Ends::default() });
}

pub async fn histories_of_several_jobs_are_those_of_each(fx: &Fixture) {
    let done = finished(fx, |_| ()).await;
    let [unknown, retried] = [fx.new_job(|_| ()).id, fx.enqueue(|_| ()).await];
    for _ in 0..3 {
        let claim = fx.claim_one(fx.worker()).await;
        fx.settle(&claim, failure("again")).await;
        // Executions on several days.
        fx.pass(86_400);
        fx.store.promote(100).await.unwrap();
    }
    fx.claim_one(fx.worker()).await;
    let queued = fx.enqueue(|_| ()).await;
    let ids = vec![retried, unknown, queued, done, retried];
    let histories = fx.store.histories(ids.clone()).await.unwrap();
    for (id, history) in ids.iter().zip(&histories) {
        assert_eq!(*history, fx.store.history(*id).await.unwrap(), "{id}");
    }
    let counts = histories.iter().map(|history| (history.events.len(), history.attempts.len()));
    assert_eq!(counts.collect::<Vec<_>>(), [(14, 4), (0, 0), (1, 0), (3, 1), (14, 4)]);
    assert_eq!(fx.store.histories(Vec::new()).await.unwrap(), []);
}

pub async fn upkeep_is_bounded_by_its_limit(fx: &Fixture) {
    for _ in 0..5 {
        finished(fx, |_| ()).await;
        fx.enqueue_in(60, |_| ()).await;
    }
    fx.enqueue_all((0..2).map(|_| fx.new_job_in(60, |spec| spec.ephemeral = true)).collect()).await;
    assert_eq!(fx.store.drop_ephemeral(Timestamp::MAX, 1).await.unwrap(), 1);
    assert_eq!(fx.store.drop_ephemeral(Timestamp::MAX, 9).await.unwrap(), 1);
    fx.pass(3_600);
    assert_eq!(fx.store.promote(3).await.unwrap(), 3);
    assert_eq!(fx.store.promote(3).await.unwrap(), 2);
    assert_eq!(fx.store.expire(KEEP, 3).await.unwrap(), 3);
    assert_eq!(fx.store.expire(KEEP, 3).await.unwrap(), 2);
    assert_eq!(fx.store.purge(Duration::ZERO, 4).await.unwrap(), 4);
    assert_eq!(fx.store.purge(Duration::ZERO, 4).await.unwrap(), 1);
}

pub async fn the_store_finds_itself_well(fx: &Fixture) {
    let diagnostics = fx.store.check().await.unwrap();
    assert!(!diagnostics.is_empty() && diagnostics.iter().all(|diagnostic| diagnostic.ok), "{diagnostics:?}");
    assert!(!fx.store.info().engine.is_empty());
    assert!(fx.store.schema().await.unwrap().version > 0);
}
