//! Jobs with dependencies: random graphs, random failures, crashes and retries.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, TestRunner},
};
use punctual::{
    Context, Draft, Failure, JobId, OnParentFailure, ParentResults, Punctual, RetryPolicy, Status, Worker, Workflow,
    WorkflowId,
    core::{ClaimRequest, Clock, JobError, ManualClock, Outcome, Retry, Settlement, WorkerId, WorkflowStatus, settle},
};
use punctual_testkit::conformance::audit_store;
use punctual_tests::{Helper, TestStore, helper, on_each_engine, until};
use serde_json::{Value, json};

const HELPER: Helper = helper!();

on_each_engine! {
    random_graphs_end_as_their_policies_demand
    a_large_workflow_survives_the_death_of_its_workers
    many_children_and_many_parents_run_to_the_end
    results_are_passed_to_jobs_that_request_them
    a_failed_workflow_is_retried_as_a_whole
    a_cancelled_workflow_runs_its_callbacks_and_can_be_retried
    results_that_are_too_large_together_are_refused_by_name
}

/// A job of a random graph: its parents, and what will happen to it.
#[derive(Debug, Clone)]
struct Plan {
    /// Parents are chosen from earlier jobs.
    parents: BTreeSet<usize>,
    policy: OnParentFailure,
    /// Number of lost workers and of failures before it ends.
    crashes: u32,
    failures: u32,
    dies: bool,
}

fn plans(max: usize) -> impl Strategy<Value = Vec<Plan>> {
    let plan = (vec(any::<prop::sample::Index>(), 0..4), 0..4usize, 0..3u32, 0..3u32, 0..5u8);
    vec(plan, 1..max).prop_map(|plans| {
        let plan = |(index, (parents, policy, crashes, failures, dies)): (
            usize,
            (Vec<prop::sample::Index>, usize, u32, u32, u8),
        )| {
            let parents =
                if index == 0 { BTreeSet::new() } else { parents.iter().map(|parent| parent.index(index)).collect() };
            Plan { parents, policy: OnParentFailure::ALL[policy], crashes, failures, dies: dies == 0 }
        };
        plans.into_iter().enumerate().map(plan).collect()
    })
}

/// The expected final status of each job. Computed independently of the engines' code.
fn demanded(plans: &[Plan]) -> Vec<Status> {
    let mut ends: Vec<Status> = Vec::new();
    for plan in plans {
        let parents: Vec<Status> = plan.parents.iter().map(|parent| ends[*parent]).collect();
        let failed = parents.iter().any(|end| matches!(end, Status::Dead | Status::Cancelled));
        let stuck = parents.contains(&Status::Waiting);
        let end = match plan.policy {
            OnParentFailure::Cancel if failed => Status::Cancelled,
            OnParentFailure::Wait if failed => Status::Waiting,
            _ if stuck => Status::Waiting,
            OnParentFailure::Only if !failed && !parents.is_empty() => Status::Cancelled,
            _ if plan.dies => Status::Dead,
            _ => Status::Succeeded,
        };
        ends.push(end);
    }
    ends
}

async fn random_graphs_end_as_their_policies_demand(new_store: fn() -> TestStore) {
    let runtime = tokio::runtime::Handle::current();
    let check = move || {
        let mut runner = TestRunner::new(Config { cases: 12, failure_persistence: None, ..Config::default() });
        runner.run(&plans(24), |plans| {
            runtime.block_on(run_plans(&new_store(), &plans));
            Ok(())
        })
    };
    tokio::task::spawn_blocking(check).await.unwrap().unwrap();
}

async fn run_plans(test_store: &TestStore, plans: &[Plan]) {
    let (punctual, clock) = test_store.connect_with_clock().await;
    let mut ids: Vec<JobId> = Vec::new();
    for plan in plans {
        let draft = Draft::new("node", &())
            .after(plan.parents.iter().map(|parent| ids[*parent]))
            .on_parent_failure(plan.policy)
            .max_attempts(100)
            .max_crashes(100)
            .retry(RetryPolicy::fixed(Duration::from_secs(1)).jitter(0.0));
        ids.push(punctual.enqueue(draft).await.unwrap().id);
    }
    let left = drive(&punctual, &clock, plans, &ids).await;
    assert_eq!(left, 0, "every crash and failure that was planned for a job that ran has happened");
    for (index, (id, end)) in ids.iter().zip(demanded(plans)).enumerate() {
        assert_eq!(punctual.job(*id).await.unwrap().status, end, "job {index}");
    }
    audit_store(&**punctual.store()).await;
}

/// Runs all jobs that can run, with the planned crashes and failures, until none can; returns how many of those did not
/// happen to jobs that finished on their own.
async fn drive(punctual: &Punctual, clock: &ManualClock, plans: &[Plan], ids: &[JobId]) -> u32 {
    let store = punctual.store();
    let mut left: HashMap<JobId, Plan> = ids.iter().copied().zip(plans.iter().cloned()).collect();
    let mut random = fastrand::Rng::with_seed(plans.len() as u64);
    let mut idle = 0;
    while idle < 6 {
        let worker = WorkerId::from_bits(random.u128(1..4));
        let request = ClaimRequest {
            // Suspects are claimed separately.
            suspects: idle % 2 == 1,
            ..ClaimRequest::new(worker, random.usize(1..6), Duration::from_secs(30))
        };
        let claims = store.claim(request).await.unwrap().claims;
        idle = if claims.is_empty() { idle + 1 } else { 0 };
        let mut settlements: Vec<Settlement> = Vec::new();
        for claim in &claims {
            for parent in store.parents(claim.job.id).await.unwrap() {
                assert!(parent.status.is_finished(), "{} runs before its parent {}", claim.job.id, parent.id);
            }
            let plan = left.get_mut(&claim.job.id).unwrap();
            let failed = |retry| Outcome::Failed { fault: JobError::new("planned"), retry };
            let outcome = match plan {
                // Its worker is lost; the lease will expire.
                Plan { crashes: 1.., .. } => {
                    plan.crashes -= 1;
                    continue;
                }
                Plan { failures: 1.., .. } => {
                    plan.failures -= 1;
                    failed(Retry::ByPolicy)
                }
                Plan { dies: true, .. } => failed(Retry::Never),
                _ => Outcome::Succeeded { result: None },
            };
            settlements.push(settle(claim, outcome, 0.5));
        }
        store.settle(settlements).await.unwrap();
        // Longer than any lease, if there is nothing else to do.
        clock.advance(Duration::from_secs(if claims.is_empty() { 40 } else { random.u64(1..40) }));
        let expired = store.expired(100).await.unwrap();
        let lost = expired.iter().map(|claim| settle(claim, Outcome::Lost { evidence: None }, 0.5)).collect();
        store.settle(lost).await.unwrap();
    }
    assert!(clock.now() > punctual.job(ids[0]).await.unwrap().created_at);
    let ends = demanded(plans);
    let ran = plans.iter().zip(ids).zip(ends).filter(|(_, end)| matches!(end, Status::Succeeded | Status::Dead));
    ran.map(|((_, id), _)| left[id].crashes + left[id].failures).sum()
}

/// Workers are killed while they run a random graph of hundreds of jobs.
async fn a_large_workflow_survives_the_death_of_its_workers(new_store: fn() -> TestStore) {
    const JOBS: usize = 600;
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let plan = |index: usize, random: &mut fastrand::Rng| Plan {
        parents: (0..random.usize(0..4).min(index)).map(|_| random.usize(index.saturating_sub(60)..index)).collect(),
        policy: [OnParentFailure::Cancel, OnParentFailure::Run, OnParentFailure::Only][random.usize(0..3)],
        crashes: 0,
        failures: random.u32(0..2),
        dies: random.u8(0..20) == 0,
    };
    let plans: Vec<Plan> = (0..JOBS).map(|index| plan(index, &mut random)).collect();
    let test_store = new_store();
    let punctual = test_store.connect().await;
    let mut workflow = Workflow::new("random");
    for (number, plan) in plans.iter().enumerate() {
        let draft = Draft::new("node", &json!({"failures": plan.failures, "dies": plan.dies}))
            .max_attempts(1_000)
            .max_crashes(100)
            .retry(RetryPolicy::fixed(Duration::from_millis(50)));
        workflow
            .job(number.to_string(), draft)
            .after(plan.parents.iter().map(ToString::to_string))
            .on_parent_failure(plan.policy);
    }
    let id = punctual.submit(workflow).await.unwrap();
    let mut workers: Vec<_> = (0..3).map(|_| HELPER.start_worker(&test_store, 500)).collect();
    let ended = async || JOBS as u32 - punctual.store().workflow(id).await.unwrap().unwrap().ends.unfinished();
    for kill in 1..=8 {
        let enough = kill * JOBS as u32 / 12;
        until("the workers to work", async || ended().await >= enough).await;
        workers.remove(0).kill();
        workers.push(HELPER.start_worker(&test_store, 500));
    }
    until("all of it to end", async || ended().await == JOBS as u32).await;
    let nodes = punctual.store().nodes(id).await.unwrap();
    let ids: BTreeMap<usize, JobId> = nodes.iter().map(|node| (node.node.parse().unwrap(), node.id)).collect();
    let mut jobs = Vec::new();
    for job in ids.values() {
        jobs.push(punctual.job(*job).await.unwrap());
    }
    for (number, (plan, end)) in plans.iter().zip(demanded(&plans)).enumerate() {
        assert_eq!(jobs[number].status, end, "job {number}");
        if jobs[number].run > 0 {
            let first = punctual.store().history(ids[&number]).await.unwrap().attempts[0].started_at;
            let parents = plan.parents.iter().map(|parent| jobs[*parent].finished_at.unwrap());
            assert!(parents.max().is_none_or(|last| last <= first), "job {number} ran before a parent had ended");
        }
    }
    drop(workers);
    audit_store(&**punctual.store()).await;
}

/// Starts a worker for nodes that return a result.
async fn start_worker(punctual: &Punctual) -> punctual::RunningWorker {
    Worker::builder(punctual.clone())
        .handler("number", |ctx: Context| async move { Ok(Some(ctx.claim().job.spec.payload.clone())) })
        .handler("sum", |ctx: Context| async move {
            let numbers = ctx.parent_results().iter().map(|parent| parent.result.as_ref().unwrap().read::<u64>());
            let sum: u64 = numbers.sum::<Result<u64, _>>().map_err(Failure::from)?;
            Ok(Some(punctual::Json::of(&sum).unwrap()))
        })
        .handler("fail", |ctx: Context| async move {
            if ctx.attempt() == 1 { Err(Failure::permanent("as planned")) } else { Ok(None) }
        })
        .concurrency(500)
        .start()
        .await
        .unwrap()
}

async fn many_children_and_many_parents_run_to_the_end(new_store: fn() -> TestStore) {
    const MANY: usize = 3_000;
    let test_store = new_store();
    let punctual = test_store.connect().await;
    let mut workflow = Workflow::new("wide");
    workflow.job("root", Draft::new("number", &0));
    for number in 0..MANY {
        workflow.job(format!("n{number}"), Draft::new("number", &number)).after(["root"]);
    }
    let all = (0..MANY).map(|number| format!("n{number}"));
    workflow.job("sum", Draft::new("sum", &())).after(all).parent_results(ParentResults::Always);
    workflow.on_complete(Draft::new("number", &1));
    let id = punctual.submit(workflow).await.unwrap();
    let worker = start_worker(&punctual).await;
    let done = punctual.wait_workflow(id, Duration::from_secs(300)).await.unwrap();
    assert_eq!(done.status(), WorkflowStatus::Succeeded);
    let detail = punctual.admin("test").workflow(id).await.unwrap();
    assert_eq!(detail.result, BTreeMap::from([("sum".to_owned(), json!(MANY * (MANY - 1) / 2))]));
    worker.stop().await;
}

async fn results_are_passed_to_jobs_that_request_them(new_store: fn() -> TestStore) {
    let test_store = new_store();
    let punctual = test_store.connect().await;
    let worker = Worker::builder(punctual.clone())
        .handler("number", |ctx: Context| async move { Ok(Some(ctx.claim().job.spec.payload.clone())) })
        .handler("probe", |ctx: Context| async move {
            let seen: BTreeMap<String, Value> = ctx
                .parent_results()
                .iter()
                .map(|parent| (parent.node.clone().unwrap_or_default(), json!(parent.result)))
                .collect();
            Ok(Some(punctual::Json::of(&seen).unwrap()))
        })
        .start()
        .await
        .unwrap();
    for (policy, seen) in [
        (ParentResults::Always, json!({"a": 7, "b": null})),
        // A plain handler does not request them.
        (ParentResults::Auto, json!({})),
        (ParentResults::Never, json!({})),
    ] {
        let mut workflow = Workflow::new("results");
        workflow.job("a", Draft::new("number", &7));
        workflow.job("b", Draft::new("number", &()));
        workflow.job("probe", Draft::new("probe", &())).after(["a", "b"]).parent_results(policy);
        let id = punctual.submit(workflow).await.unwrap();
        punctual.wait_workflow(id, Duration::from_secs(60)).await.unwrap();
        assert_eq!(punctual.admin("test").workflow(id).await.unwrap().result["probe"], seen);
    }
    worker.stop().await;
}

/// The status of each node of a workflow.
async fn statuses(punctual: &Punctual, id: WorkflowId) -> BTreeMap<String, Status> {
    let nodes = punctual.store().nodes(id).await.unwrap();
    nodes.into_iter().map(|node| (node.node, node.status)).collect()
}

async fn all_ended(punctual: &Punctual, id: WorkflowId) {
    until("all nodes to end", async || statuses(punctual, id).await.values().all(|status| status.is_finished())).await;
}

async fn a_failed_workflow_is_retried_as_a_whole(new_store: fn() -> TestStore) {
    let test_store = new_store();
    let punctual = test_store.connect().await;
    let worker = start_worker(&punctual).await;
    let mut workflow = Workflow::new("fails once");
    workflow.job("a", Draft::new("number", &1));
    workflow.job("b", Draft::new("fail", &())).after(["a"]);
    workflow.job("c", Draft::new("number", &3)).after(["b"]);
    workflow.job("d", Draft::new("sum", &())).after(["a", "c"]).parent_results(ParentResults::Always);
    workflow.on_success(Draft::new("number", &1));
    workflow.on_failure(Draft::new("number", &2));
    workflow.on_complete(Draft::new("number", &3));
    let id = punctual.submit(workflow).await.unwrap();
    all_ended(&punctual, id).await;
    let expected = |nodes: &[(&str, Status)]| -> BTreeMap<String, Status> {
        nodes.iter().map(|(name, status)| ((*name).to_owned(), *status)).collect()
    };
    use Status::{Cancelled, Dead, Succeeded};
    let (first, second) = (
        [("a", Succeeded), ("b", Dead), ("c", Cancelled), ("d", Cancelled)],
        [("a", Succeeded), ("b", Succeeded), ("c", Succeeded), ("d", Succeeded)],
    );
    let callbacks = |[success, failure]: [Status; 2]| {
        [("on_success", success), ("on_failure", failure), ("on_complete", Succeeded)]
    };
    assert_eq!(statuses(&punctual, id).await, expected(&[&first[..], &callbacks([Cancelled, Succeeded])].concat()));
    let admin = punctual.admin("ada");
    assert_eq!(admin.workflow(id).await.unwrap().status, WorkflowStatus::Failed);
    let before = admin.workflow(id).await.unwrap().nodes;
    let done = admin.retry_workflow(id).await.unwrap();
    assert_eq!((done.retried, done.renewed), (1, 5), "b again; c, d and three callbacks anew");
    all_ended(&punctual, id).await;
    assert_eq!(statuses(&punctual, id).await, expected(&[&second[..], &callbacks([Succeeded, Cancelled])].concat()));
    let after = admin.workflow(id).await.unwrap();
    assert_eq!((after.status, after.result["d"].clone()), (WorkflowStatus::Succeeded, json!(4)));
    // The old job still exists, and the new one refers to it.
    let of = |nodes: &[punctual::core::Node], name: &str| nodes.iter().find(|node| node.node == name).unwrap().id;
    let (old, new) = (of(&before, "c"), of(&after.nodes, "c"));
    assert_eq!(punctual.job(new).await.unwrap().spec.options.rerun_of, Some(old));
    assert_eq!(punctual.job(old).await.unwrap().status, Cancelled);
    assert_eq!(of(&before, "b"), of(&after.nodes, "b"), "a dead job continues its own history");
    let refused = admin.retry_workflow(id).await.unwrap_err().to_string();
    assert!(refused.ends_with("has nothing to retry: none of its jobs is dead or cancelled"), "{refused}");
    worker.stop().await;
    audit_store(&**punctual.store()).await;
}

async fn a_cancelled_workflow_runs_its_callbacks_and_can_be_retried(new_store: fn() -> TestStore) {
    let test_store = new_store();
    let punctual = test_store.connect().await;
    let mut workflow = Workflow::new("cancelled");
    workflow.job("a", Draft::new("number", &1));
    workflow.job("b", Draft::new("number", &2)).after(["a"]);
    workflow.on_failure(Draft::new("number", &3));
    let id = punctual.submit(workflow).await.unwrap();
    let admin = punctual.admin("ada");
    assert_eq!(admin.cancel_workflow(id, None).await.unwrap(), 2);
    assert_eq!(admin.workflow(id).await.unwrap().status, WorkflowStatus::Cancelled);
    let event =
        punctual.store().history(admin.workflow(id).await.unwrap().nodes[0].id).await.unwrap().events.pop().unwrap();
    assert_eq!((event.actor.as_deref(), event.detail.as_deref()), (Some("ada"), Some("the workflow was cancelled")));
    let worker = start_worker(&punctual).await;
    all_ended(&punctual, id).await;
    assert_eq!(statuses(&punctual, id).await["on_failure"], Status::Succeeded);
    admin.retry_workflow(id).await.unwrap();
    all_ended(&punctual, id).await;
    assert_eq!(admin.workflow(id).await.unwrap().status, WorkflowStatus::Succeeded);
    assert_eq!(statuses(&punctual, id).await["on_failure"], Status::Cancelled);
    worker.stop().await;
}

async fn results_that_are_too_large_together_are_refused_by_name(new_store: fn() -> TestStore) {
    let test_store = new_store();
    let punctual = test_store.connect().await;
    let worker = start_worker(&punctual).await;
    let mut workflow = Workflow::new("large");
    let text = "x".repeat(1_000_000);
    for number in 0..17 {
        workflow.job(format!("n{number}"), Draft::new("number", &text));
    }
    let all = (0..17).map(|number| format!("n{number}"));
    workflow.job("sum", Draft::new("sum", &())).after(all).parent_results(ParentResults::Always);
    let id = punctual.submit(workflow).await.unwrap();
    let done = punctual.wait_workflow(id, Duration::from_secs(120)).await.unwrap();
    assert_eq!((done.status(), done.ends.dead), (WorkflowStatus::Failed, 1));
    let nodes = punctual.store().nodes(id).await.unwrap();
    let sum = nodes.iter().find(|node| node.node == "sum").unwrap().id;
    let fault = punctual.job(sum).await.unwrap().error.unwrap();
    assert!(
        fault.to_string().starts_with("PUNCTUAL_E_DATA: the results of the parents have more than 16777216 bytes"),
        "{fault}"
    );
    worker.stop().await;
}
