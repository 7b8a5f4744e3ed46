//! Jobs over HTTP: enqueue, read, change; idempotency keys; errors that name the invalid field.

use reqwest::Method;
use serde_json::{Value, json};

use crate::common::World;

fn ids(list: &Value) -> Vec<String> {
    list["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_job_is_enqueued_seen_and_changed() {
    let world = World::new().await;
    let job = json!({"name": "mail", "payload": {"to": "ada", "password": "hidden"}, "queue": "post", "tags": ["a"], "in": "1h", "user": "ada"});
    let enqueued = world.post("/v1/jobs", job).await.good();
    assert_eq!((&enqueued["existing"], &enqueued["updated"]), (&json!(false), &json!(false)));
    let id = enqueued["id"].as_str().unwrap();

    let detail = world.get(&format!("/v1/jobs/{id}")).await.good();
    assert_eq!(detail["job"]["status"], "scheduled");
    assert_eq!(detail["job"]["payload_preview"], json!({"to": "ada", "password": "[redacted]"}));
    assert_eq!(detail["job"]["created_by"], "local");
    assert!(detail["job"].get("payload").is_none(), "no raw payload");
    assert_eq!(world.get(&format!("/v1/jobs/{id}/events")).await.good().as_array().unwrap().len(), 1);
    assert_eq!(world.get(&format!("/v1/jobs/{id}/attempts")).await.good(), json!([]));
    assert_eq!(world.get(&format!("/v1/jobs/{id}/logs")).await.good(), json!([]));
    let explained = world.get(&format!("/v1/jobs/{id}/explain")).await.good();
    assert_eq!(explained["reasons"][0]["cause"], "not_due");

    for (query, found) in [
        ("status=scheduled", 1),
        ("status=dead&status=scheduled", 1),
        ("status=dead", 0),
        ("tag=a&user=ada", 1),
        ("queue=other", 0),
    ] {
        let list = world.get(&format!("/v1/jobs?{query}")).await.good();
        assert_eq!(ids(&list).len(), found, "{query}");
    }

    let ran = world.post(&format!("/v1/jobs/{id}/run"), json!({})).await.good();
    assert_eq!(ran, json!({"job": id, "again": false}));
    assert_eq!(world.get(&format!("/v1/jobs/{id}")).await.good()["job"]["status"], "queued");
    let cancelled = world.post(&format!("/v1/jobs/{id}/cancel"), json!({"reason": "no need"})).await;
    assert_eq!(cancelled.status, 204);
    let refused = world.post(&format!("/v1/jobs/{id}/retry"), json!({})).await;
    assert_eq!(refused.problem(), (409, "refused"));
    let events = world.get(&format!("/v1/jobs/{id}/events")).await.good();
    let last = events.as_array().unwrap().last().unwrap();
    assert_eq!(last["status"], "cancelled");
    assert_eq!(last["actor"], "local");
    assert_eq!(last["detail"], "no need");
    assert_eq!(world.ask(Method::DELETE, &format!("/v1/jobs/{id}"), None).await.status, 204);
    let stats = world.get("/v1/stats").await.good();
    assert_eq!(stats["jobs"]["deleted"], 1);
}

#[tokio::test]
async fn many_are_enqueued_or_none_and_pages_follow_each_other() {
    let world = World::new().await;
    let jobs: Vec<Value> = (0..25).map(|number| json!({"name": "mail", "payload": number})).collect();
    let enqueued = world.post("/v1/jobs/batch", json!({"jobs": jobs})).await.good();
    assert_eq!(ids(&enqueued).len(), 25);

    let wrong =
        world.post("/v1/jobs/batch", json!({"jobs": [{"name": "mail"}, {"name": "mail", "priority": 11}]})).await;
    assert_eq!(wrong.field(), ("jobs[1].priority", "jobs[1].priority: must be between 0 and 10, not 11"));
    assert_eq!(world.get("/v1/stats").await.good()["jobs"]["queued"], 25, "none of them");

    let (mut seen, mut next) = (Vec::new(), String::new());
    loop {
        let page = world.get(&format!("/v1/jobs?limit=10{next}")).await.good();
        seen.extend(ids(&page));
        match page["next"].as_str() {
            Some(cursor) => next = format!("&after={cursor}"),
            None => break,
        }
    }
    seen.sort();
    assert_eq!(seen, ids(&enqueued));
}

#[tokio::test]
async fn a_request_with_a_key_counts_once() {
    let world = World::new().await;
    let send = |key: &'static str, body: Value| {
        let request = world.client.post(world.url("/v1/jobs/batch")).header("Idempotency-Key", key).json(&body);
        world.send(request)
    };
    let body = json!({"jobs": [{"name": "pay", "payload": 1}, {"name": "pay", "in": "1h"}]});
    let first = send("order 7", body.clone()).await.good();
    assert_eq!(send("order 7", body.clone()).await.good(), first, "the same jobs, the same response");
    assert_eq!(send("order 7", json!({"jobs": []})).await.problem(), (422, "idempotency_key_reused"));
    assert_ne!(send("order 8", body).await.good(), first);
    assert_eq!(world.get("/v1/jobs").await.good()["jobs"].as_array().unwrap().len(), 4);

    let workflow = json!({"name": "ship", "jobs": {"pack": {}, "send": {"after": ["pack"]}}});
    let send = || {
        let request = world.client.post(world.url("/v1/workflows")).header("Idempotency-Key", "ship 7").json(&workflow);
        world.send(request)
    };
    let (one, other) = tokio::join!(send(), send());
    assert_eq!(one.good(), other.good());
    assert_eq!(world.get("/v1/workflows").await.good()["workflows"].as_array().unwrap().len(), 1);
    let empty = world.client.post(world.url("/v1/jobs")).header("Idempotency-Key", "").json(&json!({"name": "a"}));
    assert_eq!(world.send(empty).await.field().0, "Idempotency-Key");
}

#[tokio::test]
async fn errors_name_the_invalid_field() {
    let world = World::new().await;
    for (body, field, detail) in [
        (json!({"name": ""}), "name", "name"),
        (json!({"payload": 1}), "name", "name"),
        (json!({"name": "a", "nmae": 1}), "nmae", "unknown field"),
        (json!({"name": "a", "in": "soon"}), "in", "invalid duration"),
        (json!({"name": "a", "at": "noon"}), "at", "invalid time"),
        (json!({"name": "a", "retry": "often"}), "retry", "invalid retry policy"),
        (json!({"name": "a", "after": ["job_1"]}), "after", "invalid job id"),
        (json!({"name": "a", "after": ["job_00000000000000000000000000000001"]}), "after", "not found or deleted"),
        (json!({"name": "a", "unique": {"on_conflict": ["explode"]}, "key": "k"}), "unique.on_conflict[0]", "explode"),
        (json!(["a"]), "body", "object"),
    ] {
        let answer = world.post("/v1/jobs", body.clone()).await;
        let (found, problem) = answer.field();
        assert_eq!(found, field, "{body}: {problem}");
        assert!(problem.contains(detail), "{body}: {problem}");
    }
    for (path, field) in [
        ("/v1/jobs?status=asleep", "status[0]"),
        ("/v1/jobs?limit=0", "limit"),
        ("/v1/jobs?limit=many", "limit"),
        ("/v1/jobs?colour=red", "colour"),
        ("/v1/jobs?verb=retry", "verb"),
        ("/v1/bulk/cancel?limit=1", "limit"),
        ("/v1/jobs?after=nonsense", "after"),
        ("/v1/jobs?since=yesterday", "since"),
        ("/v1/jobs/job_1", "id"),
        ("/v1/bulk/explode", "verb"),
        ("/v1/reports/stuck?longer_than=1", "longer_than"),
    ] {
        let answer = world.get(path).await;
        assert_eq!(answer.field().0, field, "{path}: {answer:?}");
    }
    let unknown = world.get("/v1/jobs/job_00000000000000000000000000000001").await;
    assert_eq!(unknown.problem(), (404, "not_found"));
    assert_eq!(world.get("/v1/nothing").await.problem(), (404, "not_found"));
    assert_eq!(world.ask(Method::PUT, "/v1/jobs", None).await.problem(), (405, "method_not_allowed"));
    let text = world.client.post(world.url("/v1/jobs")).header("content-type", "text/plain").body("{}");
    assert_eq!(world.send(text).await.problem(), (415, "not_json"));
    let broken =
        world.client.post(world.url("/v1/jobs")).header("content-type", "application/json").body("{\"name\": ");
    assert_eq!(world.send(broken).await.field().0, "name");
}

#[tokio::test]
async fn bulk_actions_are_previewed_and_need_a_filter() {
    let world = World::new().await;
    let job = |index: u32| json!({"name": "mail", "queue": "post", "user": if index < 6 { "ada" } else { "bob" }});
    let mut jobs: Vec<Value> = (0..7).map(job).collect();
    jobs.extend([json!({"name": "mail"}), json!({"name": "film", "queue": "post", "in": "1h"})]);
    world.post("/v1/jobs/batch", json!({"jobs": jobs})).await.good();
    // Counted from counters, or one by one.
    for (filter, count) in [
        ("queue=post", 8),
        ("queue=post&name=mail", 7),
        ("status=queued&queue=post", 7),
        ("status=scheduled", 1),
        ("user=ada", 6),
        ("status=queued&user=bob", 1),
        ("name=none", 0),
    ] {
        let preview = world.get(&format!("/v1/bulk/cancel?{filter}")).await.good();
        let actual = (&preview["count"], preview["sample"].as_array().unwrap().len(), &preview["more"]);
        assert_eq!(actual, (&json!(count), count.min(5), &json!(false)), "{filter}");
    }
    assert_eq!(world.post("/v1/bulk/cancel", json!({})).await.field().0, "status");
    let done = world.post("/v1/bulk/cancel?queue=post", json!({})).await.good();
    assert_eq!(done, json!({"changed": 8, "skipped": 0, "more": false}));
    assert_eq!(world.post("/v1/bulk/retry?status=queued", json!({})).await.field().0, "status");
}

#[tokio::test]
async fn a_list_that_has_not_changed_is_not_sent_again() {
    let world = World::new().await;
    let first = world.get("/v1/jobs").await;
    let tag = first.headers["etag"].to_str().unwrap().to_owned();
    let again = world.send(world.client.get(world.url("/v1/jobs")).header("if-none-match", &tag)).await;
    assert_eq!((again.status.as_u16(), &again.body), (304, &json!("")));
    world.post("/v1/jobs", json!({"name": "mail"})).await.good();
    let changed = world.send(world.client.get(world.url("/v1/jobs")).header("if-none-match", &tag)).await;
    assert_eq!(ids(&changed.good()).len(), 1);
}

#[tokio::test]
async fn a_wait_returns_when_the_job_ends() {
    let world = World::new().await;
    let id = world.post("/v1/jobs", json!({"name": "mail"})).await.good()["id"].as_str().unwrap().to_owned();
    let late = world.get(&format!("/v1/jobs/{id}/wait?timeout=10ms")).await;
    assert_eq!(late.problem(), (408, "timed_out"));
    let path = format!("/v1/jobs/{id}/wait");
    let (waited, ()) = tokio::join!(world.get(&path), async {
        world.post(&format!("/v1/jobs/{id}/cancel"), json!({})).await;
    });
    assert_eq!(waited.good()["status"], "cancelled");
}
