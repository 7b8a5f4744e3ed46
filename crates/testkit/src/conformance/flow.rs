use std::time::Duration;

use punctual_core::{
    Change, Changed, Ends, Enqueued, Filter, JobId, Json, NewJob, NewWorkflow, OnParentFailure, Outcome, Page,
    RetentionPolicy, Settled, Spec, Status, StoreError, Timestamp, Verb, WorkflowId, WorkflowStatus, settle,
};

use crate::{
    Fixture,
    fixture::{LEASE, success},
};

/// A job that waits for `parents`.
fn child(fx: &Fixture, parents: &[JobId], adjust: impl FnOnce(&mut Spec)) -> NewJob {
    NewJob { parents: parents.to_vec(), ..fx.new_job(adjust) }
}

async fn enqueue_child(fx: &Fixture, parents: &[JobId], policy: OnParentFailure) -> JobId {
    fx.enqueue_all(vec![child(fx, parents, |spec| spec.options.on_parent_failure = policy)]).await[0]
}

/// Runs the only job that can be claimed.
async fn run_one(fx: &Fixture, outcome: Outcome) -> JobId {
    let claim = fx.claim_one(fx.worker()).await;
    assert_eq!(fx.settle(&claim, outcome).await, Settled::Done);
    claim.job.id
}

pub async fn a_job_that_is_cancelled_as_it_comes_was_never_pending(fx: &Fixture) {
    let parent = fx.enqueue(|_| ()).await;
    run_one(fx, death()).await;
    let late = child(fx, &[parent], |spec| spec.user_id = Some("ada".into()));
    let id = fx.enqueue_all(vec![late]).await[0];
    assert_eq!(fx.job(id).await.status, Status::Cancelled);
    assert_eq!(fx.store.pending_by_user(10).await.unwrap(), []);
}

pub async fn a_job_that_is_cancelled_as_it_comes_keeps_no_key(fx: &Fixture) {
    let parent = fx.enqueue(|_| ()).await;
    run_one(fx, death()).await;
    let unique = |spec: &mut Spec| spec.unique_key = Some("one".into());
    let (cancelled, takes) = (child(fx, &[parent], unique), fx.new_job(unique));
    let ids = [cancelled.id, takes.id];
    assert_eq!(fx.store.enqueue(vec![cancelled, takes]).await.unwrap(), ids.map(Enqueued::new));
    assert_eq!((fx.job(ids[0]).await.status, fx.job(ids[1]).await.status), (Status::Cancelled, Status::Queued));
}

/// A rejected workflow has changed nothing, and holds no locks.
pub async fn a_refused_workflow_does_not_block_its_parents(fx: &Fixture) {
    for number in 0..10 {
        let (parent, unknown) = (fx.enqueue(|_| ()).await, fx.new_job(|_| ()).id);
        let claim = fx.claim_one(fx.worker()).await;
        let id = WorkflowId::from_bits(number + 1);
        let new = NewWorkflow { id, name: "refused".into(), created_by: None };
        let job = child(fx, &[parent, unknown], |spec| {
            (spec.workflow_id, spec.options.node) = (Some(id), Some("node".into()));
        });
        assert!(matches!(fx.store.submit(new, vec![job]).await, Err(StoreError::UnknownParent(_))));
        fx.pass(1);
        assert_eq!(fx.store.extend(claim.worker, LEASE, vec![claim.attempt_id()]).await.unwrap(), [true]);
        assert_eq!(fx.job(parent).await.lease_until, Some(fx.now().after(LEASE)));
        fx.settle(&claim, success()).await;
    }
}

fn death() -> Outcome {
    use punctual_core::{JobError, Retry};
    Outcome::Failed { fault: JobError::new("no"), retry: Retry::Never }
}

async fn change(fx: &Fixture, job: JobId, verb: Verb) -> Changed {
    let change = Change { job, verb, actor: "ada".into(), reason: None };
    fx.store.change(vec![change]).await.unwrap().remove(0)
}

pub async fn a_job_waits_until_the_last_of_its_parents_has_succeeded(fx: &Fixture) {
    let parents = [fx.enqueue(|_| ()).await, fx.enqueue(|_| ()).await];
    let id = enqueue_child(fx, &parents, OnParentFailure::Cancel).await;
    assert_eq!((fx.job(id).await.status, fx.job(id).await.waiting_on), (Status::Waiting, 2));
    let claims = fx.claim(fx.worker(), 10).await;
    assert_eq!(claims.len(), 2, "only the parents can be claimed");
    fx.settle(&claims[0], success()).await;
    assert_eq!((fx.job(id).await.status, fx.job(id).await.waiting_on), (Status::Waiting, 1));
    fx.pass(5);
    fx.settle(&claims[1], success()).await;
    let job = fx.job(id).await;
    assert_eq!(job.status, Status::Queued);
    assert_eq!(job.waiting_on, 0);
    assert_eq!(job.run_at, fx.now());
    assert_eq!(job.updated_at, fx.now());
    assert_eq!(run_one(fx, success()).await, id);
    let history = [Status::Waiting, Status::Queued, Status::Processing, Status::Succeeded];
    assert_eq!(fx.history(id).await, history);
}

pub async fn a_released_job_still_waits_for_its_time(fx: &Fixture) {
    let parent = fx.enqueue(|_| ()).await;
    let new = NewJob { parents: vec![parent], ..fx.new_job_in(60, |_| ()) };
    let id = fx.enqueue_all(vec![new]).await[0];
    run_one(fx, success()).await;
    let due = fx.job(id).await.scheduled_at();
    assert_eq!((fx.job(id).await.status, fx.job(id).await.run_at), (Status::Scheduled, due));
    assert!(fx.claim(fx.worker(), 1).await.is_empty());
    fx.pass(60);
    assert_eq!(run_one(fx, success()).await, id);
}

pub async fn a_job_whose_parents_have_ended_begins_as_they_ended(fx: &Fixture) {
    let done = fx.enqueue(|_| ()).await;
    run_one(fx, success()).await;
    let dead = fx.enqueue(|_| ()).await;
    run_one(fx, death()).await;
    let after_success = enqueue_child(fx, &[done], OnParentFailure::Cancel).await;
    assert_eq!(fx.history(after_success).await, [Status::Queued]);
    run_one(fx, success()).await;
    let after_death = enqueue_child(fx, &[done, dead], OnParentFailure::Cancel).await;
    assert_eq!(fx.history(after_death).await, [Status::Waiting, Status::Cancelled]);
    let all_the_same = enqueue_child(fx, &[dead], OnParentFailure::Run).await;
    assert_eq!(fx.history(all_the_same).await, [Status::Queued]);
    let patient = enqueue_child(fx, &[dead], OnParentFailure::Wait).await;
    assert_eq!((fx.history(patient).await, fx.job(patient).await.waiting_on), (vec![Status::Waiting], 1));
    let needless = enqueue_child(fx, &[done], OnParentFailure::Only).await;
    assert_eq!(fx.history(needless).await, [Status::Waiting, Status::Cancelled]);
    // A child of a child that was cancelled at once is cancelled at once.
    let grandchild = enqueue_child(fx, &[after_death], OnParentFailure::Cancel).await;
    assert_eq!(fx.job(grandchild).await.status, Status::Cancelled);
}

pub async fn a_dead_parent_cancels_its_children_and_theirs(fx: &Fixture) {
    let root = fx.enqueue(|_| ()).await;
    let first = enqueue_child(fx, &[root], OnParentFailure::Cancel).await;
    let second = enqueue_child(fx, &[first], OnParentFailure::Cancel).await;
    let third = enqueue_child(fx, &[second], OnParentFailure::Run).await;
    fx.pass(1);
    run_one(fx, death()).await;
    for id in [first, second] {
        let job = fx.job(id).await;
        assert_eq!((job.status, job.finished_at), (Status::Cancelled, Some(fx.now())));
        assert_eq!(fx.history(id).await, [Status::Waiting, Status::Cancelled]);
    }
    let last = fx.store.history(first).await.unwrap().events.pop().unwrap();
    assert_eq!(last.detail, Some(format!("its parent {root} is dead")));
    assert_eq!(run_one(fx, success()).await, third, "it runs all the same");
}

pub async fn each_policy_has_its_answer_to_a_failed_parent(fx: &Fixture) {
    let parent = fx.enqueue(|_| ()).await;
    let mut children = Vec::new();
    for policy in OnParentFailure::ALL {
        children.push(enqueue_child(fx, &[parent], policy).await);
    }
    run_one(fx, death()).await;
    let mut statuses = Vec::new();
    for id in &children {
        statuses.push(fx.job(*id).await.status);
    }
    assert_eq!(statuses, [Status::Cancelled, Status::Queued, Status::Waiting, Status::Queued]);
}

pub async fn a_job_that_keeps_waiting_runs_once_its_parent_is_retried(fx: &Fixture) {
    let parent = fx.enqueue(|_| ()).await;
    let patient = enqueue_child(fx, &[parent], OnParentFailure::Wait).await;
    let hasty = enqueue_child(fx, &[parent], OnParentFailure::Run).await;
    run_one(fx, death()).await;
    assert_eq!(run_one(fx, success()).await, hasty);
    assert_eq!(change(fx, parent, Verb::Retry).await, Changed::Done);
    assert_eq!(run_one(fx, success()).await, parent);
    assert_eq!(run_one(fx, success()).await, patient);
    assert_eq!(fx.job(hasty).await.status, Status::Succeeded, "it does not run twice");
    // A job does not wait for a parent that can no longer be retried.
    let gone = fx.enqueue(|_| ()).await;
    let hopeless = enqueue_child(fx, &[gone], OnParentFailure::Wait).await;
    run_one(fx, death()).await;
    assert_eq!(fx.job(hopeless).await.status, Status::Waiting);
    assert_eq!(change(fx, gone, Verb::Delete).await, Changed::Done);
    assert_eq!(fx.job(hopeless).await.status, Status::Cancelled);
}

pub async fn a_job_that_runs_only_after_a_failure_is_cancelled_without_one(fx: &Fixture) {
    for (fails, end) in [(false, Status::Cancelled), (true, Status::Queued)] {
        let parents = [fx.enqueue(|_| ()).await, fx.enqueue(|_| ()).await];
        let id = enqueue_child(fx, &parents, OnParentFailure::Only).await;
        let claims = fx.claim(fx.worker(), 2).await;
        fx.settle(&claims[0], if fails { death() } else { success() }).await;
        assert_eq!(fx.job(id).await.status, Status::Waiting, "it waits for all");
        fx.settle(&claims[1], success()).await;
        assert_eq!(fx.job(id).await.status, end);
    }
}

pub async fn an_unknown_parent_refuses_the_whole_batch(fx: &Fixture) {
    let unknown = JobId::from_bits(5);
    let (first, second) = (fx.new_job(|_| ()), child(fx, &[unknown], |_| ()));
    let refused = fx.store.enqueue(vec![first.clone(), second.clone()]).await.unwrap_err();
    assert!(matches!(refused, StoreError::UnknownParent(id) if id == unknown), "{refused}");
    assert!(fx.store.get(first.id).await.unwrap().is_none() && fx.store.counts().await.unwrap().is_empty());
    let deleted = fx.enqueue(|_| ()).await;
    change(fx, deleted, Verb::Delete).await;
    let refused = fx.store.enqueue(vec![child(fx, &[deleted], |_| ())]).await.unwrap_err();
    assert!(matches!(refused, StoreError::UnknownParent(id) if id == deleted), "{refused}");
}

pub async fn cancelling_and_deleting_affect_waiting_jobs(fx: &Fixture) {
    let cancelled = fx.enqueue(|_| ()).await;
    let deleted = fx.enqueue(|_| ()).await;
    let running = fx.enqueue(|spec| spec.priority = 9).await;
    let mut children = Vec::new();
    for parent in [cancelled, deleted, running] {
        children.push(enqueue_child(fx, &[parent], OnParentFailure::Cancel).await);
    }
    let claim = fx.claim(fx.worker(), 1).await.remove(0);
    assert_eq!(claim.job.id, running);
    change(fx, cancelled, Verb::Cancel).await;
    change(fx, deleted, Verb::Delete).await;
    change(fx, running, Verb::Cancel).await;
    assert_eq!(fx.settle(&claim, success()).await, Settled::Stale);
    for id in children {
        assert_eq!(fx.history(id).await, [Status::Waiting, Status::Cancelled]);
    }
}

pub async fn a_waiting_job_can_be_cancelled_or_started(fx: &Fixture) {
    let parent = fx.enqueue_in(60, |_| ()).await;
    let (cancelled, started) = (
        enqueue_child(fx, &[parent], OnParentFailure::Cancel).await,
        enqueue_child(fx, &[parent], OnParentFailure::Cancel).await,
    );
    let grandchild = enqueue_child(fx, &[cancelled], OnParentFailure::Run).await;
    change(fx, cancelled, Verb::Cancel).await;
    assert_eq!(fx.job(grandchild).await.status, Status::Queued);
    change(fx, started, Verb::RunNow).await;
    assert_eq!(fx.job(started).await.waiting_on, 0);
    for claim in fx.claim(fx.worker(), 2).await {
        fx.settle(&claim, success()).await;
    }
    fx.pass(60);
    assert_eq!(run_one(fx, success()).await, parent);
    assert_eq!(fx.job(started).await.status, Status::Succeeded, "the parent's end does not start it again");
    assert_eq!(fx.job(cancelled).await.status, Status::Cancelled);
}

pub async fn a_running_job_may_get_children(fx: &Fixture) {
    let parent = fx.enqueue(|_| ()).await;
    let claim = fx.claim_one(fx.worker()).await;
    let id = enqueue_child(fx, &[parent], OnParentFailure::Cancel).await;
    assert_eq!(fx.job(id).await.status, Status::Waiting);
    // A release does not end a job.
    fx.settle(&claim, Outcome::Released).await;
    assert_eq!(fx.job(id).await.status, Status::Waiting);
    assert_eq!(run_one(fx, success()).await, parent);
    assert_eq!(run_one(fx, success()).await, id);
    // The same applies to a parent that waits for its retry.
    let parent = fx.enqueue(|spec| spec.max_attempts = 2).await;
    run_one(fx, Outcome::TimedOut).await;
    let id = enqueue_child(fx, &[parent], OnParentFailure::Cancel).await;
    fx.pass(10);
    assert_eq!(run_one(fx, success()).await, parent);
    assert_eq!(run_one(fx, success()).await, id);
}

pub async fn many_parents_and_many_children_settle_in_any_batches(fx: &Fixture) {
    const MANY: usize = 300;
    let root = fx.enqueue(|_| ()).await;
    let middle: Vec<NewJob> = (0..MANY).map(|_| child(fx, &[root], |_| ())).collect();
    let middle = fx.enqueue_all(middle).await;
    let sink = enqueue_child(fx, &middle, OnParentFailure::Cancel).await;
    assert_eq!(fx.job(sink).await.waiting_on, MANY as u32);
    run_one(fx, success()).await;
    let claims = fx.claim(fx.worker(), MANY).await;
    assert_eq!(claims.len(), MANY);
    for batch in claims.chunks(7) {
        let settlements = batch.iter().map(|claim| settle(claim, success(), 0.5)).collect();
        let settled = fx.store.settle(settlements).await.unwrap();
        assert!(settled.iter().all(|settled| *settled == Settled::Done));
    }
    assert_eq!(run_one(fx, success()).await, sink);
}

pub async fn relatives_and_results_are_returned(fx: &Fixture) {
    let first = fx.enqueue(|spec| spec.options.node = Some("a".into())).await;
    let second = fx.enqueue(|_| ()).await;
    let id = enqueue_child(fx, &[first, second], OnParentFailure::Cancel).await;
    for claim in fx.claim(fx.worker(), 2).await {
        let result = (claim.job.id == first).then(|| Json::trusted(r#"{"n":1}"#));
        fx.settle(&claim, Outcome::Succeeded { result }).await;
    }
    let parents = fx.store.parents(id).await.unwrap();
    let actual: Vec<_> = parents.iter().map(|parent| (parent.id, parent.node.as_deref(), parent.status)).collect();
    assert_eq!(actual, [(first, Some("a"), Status::Succeeded), (second, None, Status::Succeeded)]);
    let children = fx.store.children(first, 10).await.unwrap();
    assert_eq!(children.iter().map(|child| (child.id, child.status)).collect::<Vec<_>>(), [(id, Status::Queued)]);
    assert!(fx.store.children(first, 0).await.unwrap().is_empty());
    assert_eq!(fx.store.results(vec![first, second]).await.unwrap(), [(first, Json::trusted(r#"{"n":1}"#))]);
    assert!(fx.store.parents(first).await.unwrap().is_empty());
}

pub async fn waiting_jobs_are_listed_and_counted(fx: &Fixture) {
    let parent = fx.enqueue(|_| ()).await;
    let id = fx.enqueue_all(vec![child(fx, &[parent], |spec| spec.user_id = Some("ada".into()))]).await[0];
    let waiting = fx.store.list(Filter::status(Status::Waiting), Page::first(10)).await.unwrap().jobs;
    assert_eq!(waiting.iter().map(|job| job.id).collect::<Vec<_>>(), [id]);
    let counts = fx.store.counts().await.unwrap();
    assert!(counts.iter().any(|count| count.status == Status::Waiting && count.count == 1), "{counts:?}");
    assert_eq!(fx.store.pending_by_user(10).await.unwrap().len(), 2);
    run_one(fx, death()).await;
    assert!(fx.store.list(Filter::status(Status::Waiting), Page::first(10)).await.unwrap().jobs.is_empty());
    assert!(fx.store.pending_by_user(10).await.unwrap().is_empty());
}

/// A workflow of `a`, `b` after it, `c` after both, and a callback; returned with all ids.
fn workflow(fx: &Fixture, number: u128) -> (NewWorkflow, Vec<NewJob>) {
    let id = WorkflowId::from_bits(number);
    let member = |node: &str, parents: &[&NewJob]| {
        let parents: Vec<JobId> = parents.iter().map(|parent| parent.id).collect();
        child(fx, &parents, |spec| (spec.workflow_id, spec.options.node) = (Some(id), Some(node.into())))
    };
    let a = member("a", &[]);
    let b = member("b", &[&a]);
    let c = member("c", &[&a, &b]);
    let callback = child(fx, &[a.id, b.id, c.id], |spec| {
        spec.options.callback_of = Some(id);
        spec.options.node = Some("on_failure".into());
        spec.options.on_parent_failure = OnParentFailure::Only;
    });
    (NewWorkflow { id, name: "nightly".into(), created_by: Some("ada".into()) }, vec![a, b, c, callback])
}

pub async fn a_workflow_is_stored_whole_and_counts_its_ends(fx: &Fixture) {
    let (new, jobs) = workflow(fx, 7);
    let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
    fx.store.submit(new.clone(), jobs).await.unwrap();
    let stored = fx.store.workflow(new.id).await.unwrap().unwrap();
    assert_eq!(&*stored.name, "nightly");
    assert_eq!(stored.created_by.as_deref(), Some("ada"));
    assert_eq!(stored.created_at, fx.now());
    assert_eq!((stored.ends, stored.status()), (Ends { total: 3, ..Ends::default() }, WorkflowStatus::Running));
    let nodes = fx.store.nodes(new.id).await.unwrap();
    let actual: Vec<_> = nodes.iter().map(|node| (&*node.node, node.id, node.status, node.parents.len())).collect();
    let expected = [
        ("a", ids[0], Status::Queued, 0),
        ("b", ids[1], Status::Waiting, 1),
        ("c", ids[2], Status::Waiting, 2),
        ("on_failure", ids[3], Status::Waiting, 3),
    ];
    assert_eq!(actual, expected);
    fx.pass(3);
    assert_eq!(run_one(fx, success()).await, ids[0]);
    assert_eq!(run_one(fx, death()).await, ids[1]);
    let stored = fx.store.workflow(new.id).await.unwrap().unwrap();
    assert_eq!(stored.ends, Ends { total: 3, succeeded: 1, dead: 1, cancelled: 1 });
    assert_eq!((stored.status(), stored.updated_at), (WorkflowStatus::Failed, fx.now()));
    assert_eq!(run_one(fx, success()).await, ids[3], "the callback runs, and is no job of the workflow");
    assert_eq!(fx.store.workflow(new.id).await.unwrap().unwrap().ends, stored.ends);
}

pub async fn a_workflow_that_is_refused_leaves_nothing(fx: &Fixture) {
    let (new, mut jobs) = workflow(fx, 7);
    jobs[2].parents.push(JobId::from_bits(9));
    assert!(matches!(fx.store.submit(new.clone(), jobs).await, Err(StoreError::UnknownParent(_))));
    assert_eq!(fx.store.workflow(new.id).await.unwrap(), None);
    assert!(fx.store.nodes(new.id).await.unwrap().is_empty() && fx.store.counts().await.unwrap().is_empty());
}

pub async fn a_node_of_a_workflow_can_be_replaced_by_another_job(fx: &Fixture) {
    let (new, jobs) = workflow(fx, 7);
    let (a, b, c) = (jobs[0].id, jobs[1].id, jobs[2].clone());
    fx.store.submit(new.clone(), jobs).await.unwrap();
    run_one(fx, success()).await;
    run_one(fx, death()).await;
    run_one(fx, success()).await;
    let again = child(fx, &[a, b], |spec| {
        *spec = c.spec.clone();
        spec.options.rerun_of = Some(c.id);
    });
    let retry = Change { job: b, verb: Verb::Retry, actor: "ada".into(), reason: None };
    let unknown = child(fx, &[JobId::from_bits(9)], |_| ());
    let refused = fx.store.resubmit(vec![retry.clone()], vec![again.clone(), unknown]).await;
    assert!(matches!(refused, Err(StoreError::UnknownParent(_))), "all or nothing");
    assert_eq!(fx.job(b).await.status, Status::Dead);
    let changed = fx.store.resubmit(vec![retry], vec![again.clone()]).await.unwrap();
    assert_eq!(changed, [Changed::Done]);
    let stored = fx.store.workflow(new.id).await.unwrap().unwrap();
    assert_eq!(stored.ends, Ends { total: 3, succeeded: 1, dead: 0, cancelled: 0 });
    let late = NewJob { parents: vec![a, b], ..fx.new_job(|spec| *spec = again.spec.clone()) };
    let refused = fx.store.resubmit(Vec::new(), vec![late]).await.unwrap_err();
    assert!(matches!(refused, StoreError::Superseded(id) if id == again.id), "{refused}");
    // A job that was replaced in its workflow is no longer counted.
    change(fx, c.id, Verb::Delete).await;
    assert_eq!(fx.store.workflow(new.id).await.unwrap().unwrap().ends, stored.ends);
    assert_eq!(run_one(fx, success()).await, b);
    assert_eq!(run_one(fx, success()).await, again.id);
    let stored = fx.store.workflow(new.id).await.unwrap().unwrap();
    assert_eq!((stored.status(), stored.ends.succeeded), (WorkflowStatus::Succeeded, 3));
    let nodes = fx.store.nodes(new.id).await.unwrap();
    assert_eq!(nodes.iter().find(|node| node.node == "c").map(|node| node.id), Some(again.id));
    assert_eq!(fx.job(c.id).await.status, Status::Deleted, "history stays");
}

pub async fn workflows_are_listed_latest_first(fx: &Fixture) {
    for number in 1..=5 {
        let (new, jobs) = workflow(fx, number);
        fx.store.submit(new, jobs).await.unwrap();
    }
    let number = |workflow: &punctual_core::Workflow| workflow.id.to_bits();
    let first = fx.store.workflows(None, 2).await.unwrap();
    assert_eq!(first.iter().map(number).collect::<Vec<_>>(), [5, 4]);
    let rest = fx.store.workflows(Some(first[1].id), 10).await.unwrap();
    assert_eq!(rest.iter().map(number).collect::<Vec<_>>(), [3, 2, 1]);
}

pub async fn a_family_that_leaves_takes_its_dependencies_along(fx: &Fixture) {
    let (new, jobs) = workflow(fx, 7);
    fx.store.submit(new.clone(), jobs).await.unwrap();
    for _ in 0..3 {
        run_one(fx, success()).await;
    }
    let keep = RetentionPolicy { succeeded: Duration::ZERO, dead: Duration::ZERO, cancelled: Duration::ZERO };
    fx.pass(1);
    assert_eq!(fx.store.expire(keep, 100).await.unwrap(), 4);
    assert_eq!(fx.store.workflow(new.id).await.unwrap().unwrap().ends.succeeded, 3);
    fx.pass(1);
    assert_eq!(fx.store.purge(Duration::ZERO, 100).await.unwrap(), 4);
    assert!(fx.store.nodes(new.id).await.unwrap().is_empty());
    fx.pass(1);
    fx.store.prune(Duration::ZERO, 100).await.unwrap();
    assert_eq!(fx.store.workflow(new.id).await.unwrap(), None);
    // A dropped ephemeral parent is no longer waited for.
    let dropped = fx.enqueue(|spec| spec.ephemeral = true).await;
    let cancelled = enqueue_child(fx, &[dropped], OnParentFailure::Cancel).await;
    let runs = enqueue_child(fx, &[dropped], OnParentFailure::Run).await;
    assert_eq!(fx.store.drop_ephemeral(Timestamp::MAX, 10).await.unwrap(), 1);
    assert_eq!((fx.job(cancelled).await.status, fx.job(runs).await.status), (Status::Cancelled, Status::Queued));
    assert!(fx.store.parents(runs).await.unwrap().is_empty());
    assert_eq!(run_one(fx, success()).await, runs);
    // So is a dead ephemeral parent.
    let dead = fx.enqueue(|spec| spec.ephemeral = true).await;
    let patient = enqueue_child(fx, &[dead], OnParentFailure::Wait).await;
    run_one(fx, death()).await;
    assert_eq!(fx.store.drop_ephemeral(Timestamp::MAX, 10).await.unwrap(), 1);
    assert_eq!(fx.job(patient).await.status, Status::Cancelled);
}
