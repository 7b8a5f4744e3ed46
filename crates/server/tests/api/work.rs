//! Remote workers: claim, extend, settle, and fencing.

use std::{sync::Arc, time::Duration};

use punctual_client::{Draft, Punctual};
use punctual_core::{Outcome, settle as decide};
use punctual_server::Server;
use punctual_testkit::{FaultyStore, When};
use serde_json::{Value, json};

use crate::common::{World, until};

const ONE: &str = "wrk_00000000000000000000000000000001";
const OTHER: &str = "wrk_00000000000000000000000000000002";

async fn claim(world: &World, worker: &str, more: Value) -> Vec<Value> {
    let mut params = json!({"worker": worker, "names": ["mail"], "limit": 10});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.post("/v1/work/claim", params).await.good()["jobs"].as_array().unwrap().clone()
}

async fn settle(world: &World, worker: &str, ends: Value) -> Value {
    world.post("/v1/work/settle", json!({"worker": worker, "jobs": ends})).await.good()["settled"].clone()
}

#[tokio::test]
async fn a_remote_worker_runs_jobs_to_every_end() {
    let world = World::new().await;
    let jobs: Vec<Value> =
        (0..5).map(|number| json!({"name": "mail", "payload": {"number": number, "secret": "raw"}})).collect();
    world.post("/v1/jobs/batch", json!({"jobs": jobs})).await.good();
    let heartbeat = json!({"worker": ONE, "host": "far", "names": ["mail"], "concurrency": 10, "running": 0});
    assert_eq!(world.post("/v1/work/heartbeat", heartbeat).await.status, 204);
    assert_eq!(world.get("/v1/workers").await.good()[0]["host"], "far");

    let claimed = claim(&world, ONE, json!({})).await;
    assert_eq!(claimed.len(), 5);
    assert_eq!(claimed[3]["payload"], json!({"number": 3, "secret": "raw"}), "a worker gets it raw");
    assert_eq!((&claimed[0]["attempt"], &claimed[0]["timeout_ms"].is_u64()), (&json!(1), &true));
    let attempts: Vec<&str> = claimed.iter().map(|job| job["attempt_id"].as_str().unwrap()).collect();

    let note = json!({"worker": ONE, "reports": [{"attempt_id": attempts[0], "percent": 40, "message": "half", "lines": [{"number": 1, "message": "begun"}]}]});
    assert_eq!(world.post("/v1/work/progress", note).await.status, 204);
    let held =
        world.post("/v1/work/extend", json!({"worker": ONE, "attempts": [attempts[0]], "lease": "1m"})).await.good();
    assert_eq!(held, json!({"held": [true]}));
    let stranger = world.post("/v1/work/extend", json!({"worker": OTHER, "attempts": [attempts[0]]})).await.good();
    assert_eq!(stranger, json!({"held": [false]}));

    let ends = json!([
        {"attempt_id": attempts[0], "outcome": "succeeded", "result": {"sent": true}},
        {"attempt_id": attempts[1], "outcome": "failed", "error": "no such mailbox", "retry": false},
        {"attempt_id": attempts[2], "outcome": "failed", "error": "later", "after": "1h"},
        {"attempt_id": attempts[3], "outcome": "snoozed", "after": "5m"},
        {"attempt_id": attempts[4], "outcome": "released"},
    ]);
    assert_eq!(settle(&world, OTHER, ends.clone()).await, json!([false, false, false, false, false]), "not theirs");
    assert_eq!(settle(&world, ONE, ends.clone()).await, json!([true, true, true, true, true]));
    assert_eq!(settle(&world, ONE, ends).await, json!([false, false, false, false, false]), "settled already");
    let mut found = Vec::new();
    for job in &claimed {
        let detail = world.get(&format!("/v1/jobs/{}", job["id"].as_str().unwrap())).await.good();
        found.push(detail["job"]["status"].as_str().unwrap().to_owned());
    }
    assert_eq!(found, ["succeeded", "dead", "retrying", "scheduled", "queued"]);
    let done = world.get(&format!("/v1/jobs/{}", claimed[0]["id"].as_str().unwrap())).await.good();
    assert_eq!(
        (&done["job"]["result_preview"], &done["logs"][0]["message"]),
        (&json!({"sent": true}), &json!("begun"))
    );
}

#[tokio::test]
async fn a_claim_waits_for_a_job_and_for_nothing_once_the_server_ends() {
    let world = World::new().await;
    let waiting = claim(&world, ONE, json!({"wait": "30s"}));
    let (claimed, _) = tokio::join!(waiting, async { world.post("/v1/jobs", json!({"name": "mail"})).await.good() });
    assert_eq!(claimed.len(), 1);

    // Another server on the same store, whose next claim waits in vain.
    let store = FaultyStore::new(world.punctual.store().clone());
    store.fail_next("claim", When::Never);
    let server = Server::new(Punctual::new(Arc::new(store.clone())));
    let server = server.start("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let params = json!({"worker": OTHER, "names": ["mail"], "limit": 1, "wait": "60s", "suspects": "elsewhere"});
    let waiting_claim = world.client.post(format!("{}/v1/work/claim", server.url())).json(&params).send();
    let waiting_claim = tokio::spawn(waiting_claim);
    until("the claim to wait", async || store.faults_left() == 0).await;
    server.stop(Duration::from_secs(30)).await;
    let answer: Value = waiting_claim.await.unwrap().unwrap().json().await.unwrap();
    assert_eq!(answer, json!({"jobs": []}));
}

#[tokio::test]
async fn the_jobs_of_a_worker_are_released_when_it_deregisters() {
    let world = World::new().await;
    world.post("/v1/jobs", json!({"name": "mail"})).await.good();
    let claimed = claim(&world, ONE, json!({"lease": "1h"})).await;
    assert_eq!(world.post("/v1/work/deregister", json!({"worker": ONE})).await.good(), json!({"jobs": 1}));
    assert_eq!(world.get("/v1/workers").await.good(), json!([]));
    let held =
        world.post("/v1/work/extend", json!({"worker": ONE, "attempts": [claimed[0]["attempt_id"]]})).await.good();
    assert_eq!(held, json!({"held": [false]}));
}

#[tokio::test]
async fn bad_wishes_are_named() {
    let world = World::new().await;
    for (path, body, field) in [
        ("claim", json!({"worker": ONE, "names": [], "limit": 1}), "names"),
        ("claim", json!({"worker": ONE, "names": ["a"], "limit": 1001}), "limit"),
        ("claim", json!({"worker": ONE, "names": ["a"], "limit": 1, "lease": "1ms"}), "lease"),
        ("claim", json!({"worker": "me", "names": ["a"], "limit": 1}), "worker"),
        ("extend", json!({"worker": ONE, "attempts": ["x"]}), "attempts[0]"),
        (
            "settle",
            json!({"worker": ONE, "jobs": [{"attempt_id": "att_1", "outcome": "succeeded"}]}),
            "jobs[0].attempt_id",
        ),
        ("claim", json!({"worker": ONE, "names": ["a"], "limit": 1, "suspects": "all"}), "suspects"),
        ("confirm", json!({"worker": ONE, "attempts": ["x"]}), "attempts[0]"),
        ("progress", json!({"worker": ONE, "reports": 7}), "reports"),
        ("heartbeat", json!({"worker": ONE, "host": "", "names": [], "concurrency": 1}), "host"),
    ] {
        let answer = world.post(&format!("/v1/work/{path}"), body.clone()).await;
        assert_eq!(answer.field().0, field, "{path} {body}");
    }
    world.post("/v1/jobs", json!({"name": "mail"})).await.good();
    let claimed = claim(&world, ONE, json!({})).await;
    let attempt = &claimed[0]["attempt_id"];
    let snooze = world
        .post("/v1/work/settle", json!({"worker": ONE, "jobs": [{"attempt_id": attempt, "outcome": "snoozed"}]}))
        .await;
    assert_eq!(snooze.field().0, "jobs[0].after");
    let large = "x".repeat(1 << 20);
    let end = json!({"worker": ONE, "jobs": [{"attempt_id": attempt, "outcome": "succeeded", "result": large}]});
    assert_eq!(world.post("/v1/work/settle", end).await.field().0, "jobs[0].result");
}

#[tokio::test]
async fn children_continue_when_a_remote_worker_has_run_their_parent() {
    let world = World::new().await;
    let pack = json!({"name": "mail", "payload": 1});
    let send = json!({"name": "mail", "after": ["pack"], "parent_results": "always"});
    let workflow = json!({"name": "ship", "jobs": {"pack": pack, "send": send}});
    let id = world.post("/v1/workflows", workflow).await.good()["id"].as_str().unwrap().to_owned();
    let claimed = claim(&world, ONE, json!({})).await;
    assert_eq!(claimed.len(), 1, "the other one waits");
    let end = json!([{"attempt_id": claimed[0]["attempt_id"], "outcome": "succeeded", "result": {"boxes": 2}}]);
    assert_eq!(settle(&world, ONE, end).await, json!([true]));
    let claimed = claim(&world, ONE, json!({})).await;
    assert_eq!(claimed[0]["parents"]["pack"], json!({"boxes": 2}));
    let end = json!([{"attempt_id": claimed[0]["attempt_id"], "outcome": "succeeded"}]);
    assert_eq!(settle(&world, ONE, end).await, json!([true]));
    assert_eq!(world.get(&format!("/v1/workflows/{id}")).await.good()["status"], "succeeded");
}

#[tokio::test]
async fn a_trace_goes_from_a_request_to_the_worker() {
    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const OTHER_PARENT: &str = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    let world = World::new().await;
    let traced = async |path: &str, parent: &str, body: Value| {
        let request = world.client.post(world.url(path)).header("traceparent", parent);
        world.send(request.header("tracestate", "a=1").header("tracestate", "b=2").json(&body)).await
    };
    let mail = json!({"name": "mail", "priority": 9});
    let own = json!({"name": "mail", "priority": 8, "trace": OTHER_PARENT});
    traced("/v1/jobs/batch", PARENT, json!({"jobs": [mail, own]})).await.good();
    traced("/v1/jobs", "nonsense", json!({"name": "mail", "priority": 7})).await.good();
    let nodes = json!({"name": "w", "jobs": {"mail": {"priority": 6}}});
    traced("/v1/workflows", PARENT, nodes).await.good();
    let claimed = claim(&world, ONE, json!({})).await;
    let traces: Vec<_> = claimed.iter().map(|job| (job["trace"].as_str(), job["trace_state"].as_str())).collect();
    let (whole, none) = ((Some(PARENT), Some("a=1,b=2")), (None, None));
    assert_eq!(traces, [whole, (Some(OTHER_PARENT), None), none, whole], "an invalid trace context is ignored");

    let end = json!([{"attempt_id": claimed[2]["attempt_id"], "outcome": "succeeded"}]);
    settle(&world, ONE, end).await;
    let again = format!("/v1/jobs/{}/run", claimed[2]["id"].as_str().unwrap());
    let again = traced(&again, PARENT, json!({})).await.good();
    let shown = world.get(&format!("/v1/jobs/{}", again["job"].as_str().unwrap())).await.good();
    assert_eq!(shown["job"]["trace"], PARENT, "a copy continues the trace of the request that runs it again");
    let wrong = world.post("/v1/jobs", json!({"name": "mail", "trace": "00-1-2-3"})).await;
    assert_eq!(wrong.field(), ("trace", "trace: invalid traceparent; expected 00-32 digits-16 digits-01"));
}

/// Loses the worker, and detects the loss.
async fn lose(world: &World, worker: &str) {
    let store = world.punctual.store();
    store.end_leases(worker.parse().unwrap()).await.unwrap();
    let lost = store.expired(10).await.unwrap();
    assert!(!lost.is_empty());
    store
        .settle(lost.iter().map(|claim| decide(claim, Outcome::Lost { evidence: None }, 0.5)).collect())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_suspect_is_claimed_alone_and_only_by_workers_that_accept_suspects() {
    let world = World::new().await;
    let killer = world.post("/v1/jobs", json!({"name": "mail", "max_crashes": 2})).await.good()["id"].clone();
    assert_eq!(claim(&world, ONE, json!({})).await[0]["suspect"], false);
    lose(&world, ONE).await;
    for _ in 0..3 {
        world.post("/v1/jobs", json!({"name": "mail"})).await.good();
    }
    let others = claim(&world, OTHER, json!({"suspects": "elsewhere", "limit": 1})).await;
    assert!(others.len() == 1 && others[0]["id"] != killer);
    let suspects = claim(&world, OTHER, json!({"confirms": true})).await;
    assert_eq!((suspects.len(), &suspects[0]["id"]), (1, &killer), "before others, and without any");
    assert_eq!((&suspects[0]["suspect"], &suspects[0]["runs_alone"]), (&json!(true), &json!(true)));
    assert_eq!(suspects[0]["confirm"], true, "it would die of another crash");
    assert!(claim(&world, ONE, json!({"suspects": "only"})).await.is_empty());
    assert_eq!(claim(&world, ONE, json!({})).await.len(), 2);
}

#[tokio::test]
async fn a_job_with_one_attempt_is_spent_once_its_start_is_confirmed() {
    let world = World::new().await;
    let job = world.post("/v1/jobs", json!({"name": "mail", "max_attempts": 1})).await.good()["id"].clone();
    let status = async || {
        let job = world.get(&format!("/v1/jobs/{}", job.as_str().unwrap())).await.good()["job"].clone();
        (job["status"].clone(), job["crash_count"].clone())
    };
    let first = claim(&world, ONE, json!({"confirms": true})).await;
    assert_eq!(first[0]["confirm"], true);
    lose(&world, ONE).await;
    assert_eq!(status().await, (json!("queued"), json!(0)), "nothing of it ran");
    let attempt = json!([claim(&world, OTHER, json!({"confirms": true})).await[0]["attempt_id"]]);
    let confirm = async |worker: &str, attempts: &Value| {
        world.post("/v1/work/confirm", json!({"worker": worker, "attempts": attempts})).await.good()["held"].clone()
    };
    assert_eq!(confirm(ONE, &attempt).await, json!([false]), "not theirs");
    assert_eq!(confirm(OTHER, &attempt).await, json!([true]));
    assert_eq!(confirm(OTHER, &attempt).await, json!([true]), "the answer may have been lost");
    lose(&world, OTHER).await;
    assert_eq!(status().await.0, json!("dead"));

    // A worker that does not confirm receives jobs that are confirmed.
    let job = world.post("/v1/jobs", json!({"name": "mail", "max_attempts": 1})).await.good()["id"].clone();
    assert_eq!(claim(&world, ONE, json!({})).await[0]["confirm"], false);
    lose(&world, ONE).await;
    assert_eq!(world.get(&format!("/v1/jobs/{}", job.as_str().unwrap())).await.good()["job"]["status"], "dead");
}

#[tokio::test]
async fn messages_and_logs_of_remote_jobs_are_stored_with_secrets_redacted() {
    let world = World::new().await;
    let id = world.punctual.enqueue(Draft::new("mail", &()).redact("customer")).await.unwrap().id;
    let attempt = &claim(&world, ONE, json!({})).await[0]["attempt_id"];
    let lines = json!([{"number": 1, "message": "sent to customer=Ada"}, {"number": 2, "message": "token=hunter2"}]);
    let note = json!({"attempt_id": attempt, "percent": 1, "message": "password: hunter2", "lines": lines});
    assert_eq!(world.post("/v1/work/progress", json!({"worker": ONE, "reports": [note]})).await.status, 204);
    let job = world.get(&format!("/v1/jobs/{id}")).await.good().to_string();
    assert!(job.matches("[redacted]").count() == 3 && !job.contains("Ada") && !job.contains("hunter2"), "{job}");
}
