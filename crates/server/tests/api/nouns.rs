//! Workflows, schedules, queues, locks, notifications, reports and tokens over HTTP.

use punctual_client::admin::Retention;
use punctual_core::Timestamp;
use reqwest::Method;
use serde_json::json;

use crate::common::World;

#[tokio::test]
async fn workflows() {
    let world = World::new().await;
    let workflow = json!({"name": "ship", "jobs": {"pack": {"queue": "a"}, "send": {"job": "mail", "after": ["pack"]}}, "on_failure": {"name": "cry"}});
    let id = world.post("/v1/workflows", workflow).await.good()["id"].as_str().unwrap().to_owned();
    let shown = world.get(&format!("/v1/workflows/{id}")).await.good();
    assert_eq!((&shown["status"], shown["nodes"].as_array().unwrap().len()), (&json!("running"), 3));
    assert_eq!(world.get("/v1/workflows?limit=1").await.good()["workflows"][0]["id"], json!(id));
    let wait = format!("/v1/workflows/{id}/wait?timeout=1ms");
    assert_eq!(world.get(&wait).await.problem(), (408, "timed_out"));
    assert_eq!(world.post(&format!("/v1/workflows/{id}/cancel"), json!({})).await.good(), json!({"cancelled": 2}));
    assert_eq!(world.get(&wait).await.good()["status"], "cancelled");
    assert_eq!(world.get(&format!("/v1/workflows/{id}/wait?timeout=2m")).await.field().0, "timeout");
    assert_eq!(world.post(&format!("/v1/workflows/{id}/retry"), json!({})).await.good()["renewed"], json!(3));
    let wrong = world.post("/v1/workflows", json!({"name": "x", "jobs": {"a": {"priority": 99}}})).await;
    assert_eq!(wrong.field().0, "priority");
    let circle = world.post("/v1/workflows", json!({"name": "x", "jobs": {"a": {"after": ["a"]}}})).await;
    assert_eq!(circle.field().0, "after");
}

#[tokio::test]
async fn schedules() {
    let world = World::new().await;
    let put = |body| world.ask(Method::PUT, "/v1/schedules/nightly", Some(body));
    let input = json!({"cron": "0 2 * * *", "job": "report", "zone": "Europe/Berlin", "payload": {"all": true}, "misfire": "ignore"});
    assert_eq!(put(input.clone()).await.good(), json!({"put": "added"}));
    assert_eq!(put(input).await.good(), json!({"put": "unchanged"}));
    assert_eq!(put(json!({"cron": "often", "job": "report"})).await.field().0, "cron");
    let shown = world.get("/v1/schedules/nightly").await.good();
    assert_eq!(shown["upcoming"].as_array().unwrap().len(), 10);
    let two = world.get("/v1/schedules/nightly?upcoming=2").await.good();
    assert_eq!(two["upcoming"].as_array().unwrap()[..], shown["upcoming"].as_array().unwrap()[..2]);
    assert_eq!(shown["schedule"]["updated_by"], "local");
    assert_eq!(world.post("/v1/schedules/nightly/pause", json!({})).await.status, 204);
    assert_eq!(world.get("/v1/schedules").await.good()["schedules"][0]["enabled"], false);
    assert_eq!(world.post("/v1/schedules/nightly/resume", json!({})).await.status, 204);
    let job = world.post("/v1/schedules/nightly/trigger", json!({})).await.good()["job"].as_str().unwrap().to_owned();
    assert_eq!(world.get(&format!("/v1/jobs/{job}")).await.good()["job"]["name"], "report");
    let past = "since=2026-03-01T00:00:00Z&until=2026-03-04T00:00:00Z";
    let missing = world.get(&format!("/v1/schedules/nightly/backfill?{past}")).await.good();
    assert_eq!(missing["occurrences"].as_array().unwrap().len(), 3);
    let done = world.post(&format!("/v1/schedules/nightly/backfill?{past}"), json!({})).await.good();
    assert_eq!(done["enqueued"].as_array().unwrap().len(), 3);
    assert_eq!(world.ask(Method::DELETE, "/v1/schedules/nightly", None).await.status, 204);
    assert_eq!(world.get("/v1/schedules/nightly").await.problem(), (404, "not_found"));
}

#[tokio::test]
async fn queues() {
    let world = World::new().await;
    assert_eq!(world.post("/v1/queues/post/pause", json!({})).await.status, 204);
    let limits = json!({"concurrency": 5, "rate": "10/s"});
    assert_eq!(world.ask(Method::PUT, "/v1/queues/post/limits", Some(limits)).await.status, 204);
    let wrong = world.ask(Method::PUT, "/v1/queues/post/limits", Some(json!({"rate": "fast"}))).await;
    assert_eq!(wrong.field().0, "rate");
    let patch = |changes| world.ask(Method::PATCH, "/v1/queues/post/limits", Some(changes));
    assert_eq!(patch(json!({"concurrency": null, "key_concurrency": 3})).await.status, 204);
    let limits = world.get("/v1/queues/post").await.good()["limits"].clone();
    assert_eq!(limits, json!({"key_concurrency": 3, "rate": "10/1s"}), "an absent limit stays, null removes one");
    assert_eq!(patch(json!({"weights": {"acme": 3}})).await.field().0, "weights");
    assert_eq!(patch(json!({"fair": true, "weights": {"acme": 3}})).await.status, 204);
    assert_eq!(patch(json!({"fair": false})).await.status, 204);
    assert_eq!(world.get("/v1/queues/post").await.good()["limits"], limits, "the weights are removed, too");
    let defaults = json!({"timeout": "5m", "retry": "fixed:10s"});
    assert_eq!(world.ask(Method::PUT, "/v1/queues/post/defaults", Some(defaults)).await.status, 204);
    let shown = world.get("/v1/queues/post").await.good();
    assert_eq!((&shown["paused"], &shown["limits"]["rate"]), (&json!(true), &json!("10/1s")));
    assert_eq!(shown["defaults"]["timeout_ms"], 300_000);
    assert_eq!(shown["events"].as_array().unwrap().len(), 6);
    assert_eq!(shown["events"][0]["actor"], "local");
    assert_eq!(world.post("/v1/queues/post/resume", json!({})).await.status, 204);
    assert_eq!(world.get("/v1/queues").await.good()[0]["paused"], false);
}

#[tokio::test]
async fn locks_and_notifications() {
    let world = World::new().await;
    let lock = world.post("/v1/locks/report/acquire", json!({"owner": "me", "ttl": "1m"})).await.good();
    assert_eq!(lock["lock"]["owner"], "me");
    let other = world.post("/v1/locks/report/acquire", json!({"owner": "you", "ttl": "1m"})).await.good();
    assert_eq!(other, json!({"lock": null}));
    assert_eq!(world.post("/v1/locks/report/acquire", json!({"owner": "me", "ttl": "30d"})).await.field().0, "ttl");
    assert_eq!(world.get("/v1/locks").await.good()[0]["name"], "report");
    assert_eq!(world.post("/v1/locks/report/release", json!({"owner": "you"})).await.good(), json!({"freed": false}));
    assert_eq!(world.ask(Method::DELETE, "/v1/locks/report", None).await.good(), json!({"freed": true}));

    let actual = world.post("/v1/notifications", json!({"user": "ada", "message": {"ready": true}})).await.good();
    world.post("/v1/notifications", json!({"message": "to all"})).await.good();
    let ada = world.get("/v1/notifications?user=ada").await.good();
    assert_eq!(ada["notifications"].as_array().unwrap().len(), 2);
    let later = world.get(&format!("/v1/notifications?user=ada&after={}", actual["id"])).await.good();
    assert_eq!(later["notifications"][0]["message"], "to all");
    assert_eq!(world.get("/v1/notifications?limit=0").await.field().0, "limit");
}

#[tokio::test]
async fn reports() {
    let world = World::new().await;
    world.post("/v1/jobs", json!({"name": "mail", "user": "ada"})).await.good();
    assert_eq!(world.get("/v1/reports/pending").await.good(), json!([{"user_id": "ada", "name": "mail", "count": 1}]));
    assert_eq!(world.get("/v1/reports/failures").await.good(), json!({"by_name": [], "latest": []}));
    assert_eq!(world.get("/v1/reports/stuck?longer_than=10m").await.good(), json!([]));
    assert_eq!(world.get("/v1/reports/success").await.good(), json!([]));
    assert_eq!(world.get("/v1/reports/attempts").await.good(), json!({"succeeded": 0, "failed": 0}));
    assert_eq!(world.get("/v1/reports/durations?since=2026-01-01T00:00:00Z").await.good(), json!([]));
    let wrong = world.get("/v1/reports/success?since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z").await;
    assert_eq!(wrong.field().0, "since");
}

#[tokio::test]
async fn the_server_tells_its_version_and_its_clock_and_runs_retention_if_it_knows_the_periods() {
    let world = World::new().await;
    let about = world.get("/v1/server").await.good();
    assert_eq!(about["version"], env!("CARGO_PKG_VERSION"));
    let now: Timestamp = about["now"].as_str().unwrap().parse().unwrap();
    assert!(now <= world.punctual.store().now());
    let refused = world.post("/v1/cleanup", json!({})).await;
    assert_eq!(refused.problem(), (409, "refused"));
    let world = World::with(|server| server.retention(Retention::default())).await;
    let done = world.post("/v1/cleanup", json!({})).await.good();
    assert_eq!(done, json!({"deleted": 0, "purged": 0, "trimmed": 0}));
}
