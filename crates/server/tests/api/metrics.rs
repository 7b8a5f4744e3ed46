//! The metrics page for Prometheus.

use std::{collections::BTreeSet, path::Path};

use punctual_core::{Role, store::Metric};
use serde_json::{Value, json};

use crate::common::World;

const WORKER: &str = "wrk_00000000000000000000000000000001";

async fn run(world: &World, outcomes: &[&str]) {
    let jobs: Vec<Value> = outcomes.iter().map(|_| json!({"name": "mail", "queue": "post \"1\""})).collect();
    world.post("/v1/jobs/batch", json!({"jobs": jobs})).await.good();
    let params = json!({"worker": WORKER, "names": ["mail"], "limit": outcomes.len()});
    let claimed = world.post("/v1/work/claim", params).await.good();
    let end =
        |(job, outcome): (&Value, &&str)| json!({"attempt_id": job["attempt_id"], "outcome": outcome, "retry": false});
    let ends: Vec<Value> = claimed["jobs"].as_array().unwrap().iter().zip(outcomes).map(end).collect();
    world.post("/v1/work/settle", json!({"worker": WORKER, "jobs": ends})).await.good();
}

/// The value of a line of the page.
fn number(page: &Value, line: &str) -> Option<f64> {
    let found = page.as_str().unwrap().lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(' '));
    found.map(|number| number.parse().unwrap())
}

#[tokio::test]
async fn outcomes_of_jobs_are_counted() {
    let metric = || vec![Metric::new("punctual_worker_stale_settles_total", "Late.", 3.0)];
    let world = World::with(|server| server.metrics(metric)).await;
    run(&world, &["succeeded", "succeeded", "failed"]).await;
    world.post("/v1/jobs", json!({"name": "later", "in": "1h"})).await.good();
    world.post("/v1/queues/default/pause", json!({})).await;
    let page = world.get("/metrics").await.good();
    let labels = r#"queue="post \"1\"",name="mail""#;
    for (line, expected) in [
        (format!("punctual_attempts_total{{{labels},outcome=\"succeeded\"}}"), 2.0),
        (format!("punctual_attempts_total{{{labels},outcome=\"failed\"}}"), 1.0),
        (format!("punctual_jobs_died_total{{{labels}}}"), 1.0),
        (format!("punctual_attempt_duration_seconds_count{{{labels}}}"), 3.0),
        (format!("punctual_lateness_seconds_bucket{{{labels},le=\"+Inf\"}}"), 3.0),
        (r#"punctual_jobs{queue="default",status="scheduled"}"#.into(), 1.0),
        (r#"punctual_queue_paused{queue="default"}"#.into(), 1.0),
        ("punctual_worker_stale_settles_total".into(), 3.0),
        (r#"punctual_store_operation_seconds_count{operation="enqueue"}"#.into(), 2.0),
        (r#"punctual_store_operation_seconds_bucket{operation="settle",le="+Inf"}"#.into(), 1.0),
        (r#"punctual_store_operation_errors_total{operation="claim"}"#.into(), 0.0),
    ] {
        assert_eq!(number(&page, &line), Some(expected), "{line} in\n{}", page.as_str().unwrap());
    }

    // Another server counts from its own start.
    let other =
        punctual_server::Server::new(world.punctual.clone()).start("127.0.0.1:0".parse().unwrap()).await.unwrap();
    run(&world, &["succeeded"]).await;
    let page = world.send(world.client.get(format!("{}/metrics", other.url()))).await.good();
    assert_eq!(number(&page, &format!("punctual_attempts_total{{{labels},outcome=\"succeeded\"}}")), Some(1.0));
    assert_eq!(number(&page, &format!("punctual_attempts_total{{{labels},outcome=\"failed\"}}")), Some(0.0));
}

/// The names of metrics in an expression. Our metrics share a prefix, and no label has it.
fn named(expression: &str) -> impl Iterator<Item = &str> {
    let parts = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    parts.filter(|part| part.starts_with("punctual_"))
}

/// All strings under this key, at any depth.
fn texts<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get(key).and_then(Value::as_str));
            fields.values().for_each(|value| texts(value, key, found));
        }
        Value::Array(values) => values.iter().for_each(|value| texts(value, key, found)),
        _ => {}
    }
}

#[tokio::test]
async fn the_grafana_dashboard_uses_only_existing_metrics() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let world = World::new().await;
    let page = world.get("/metrics").await.good();
    let mut given = BTreeSet::new();
    for line in page.as_str().unwrap().lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        let suffixes: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        given.extend(suffixes.iter().map(|suffix| format!("{name}{suffix}")));
    }
    // The metrics of engines and workers are not collected in this process; each of these files lists its names.
    for file in ["worker/src/stats.rs", "redis/src/store.rs", "sql/src/postgres/session.rs"] {
        let source = read(&format!("crates/{file}"));
        let metrics = source.split("Metric::new").skip(1).flat_map(|after| after.split('"').skip(1).step_by(2));
        given.extend(metrics.flat_map(named).map(str::to_owned));
    }
    let dashboard: Value = serde_json::from_str(&read("docs/grafana.json")).unwrap();
    let mut expressions = Vec::new();
    texts(&dashboard, "expr", &mut expressions);
    texts(&dashboard, "definition", &mut expressions);
    let shown: BTreeSet<String> = expressions.into_iter().flat_map(named).map(str::to_owned).collect();
    assert!(shown.len() > 15, "too few for all that is to be shown: {shown:?}");
    assert_eq!(shown.difference(&given).collect::<Vec<_>>(), Vec::<&String>::new(), "of {given:?}");
}

#[tokio::test]
async fn metrics_require_the_role_read() {
    let world = World::new().await;
    let (reader, enqueuer) = (world.token(Role::Read).await, world.token(Role::Enqueue).await);
    assert_eq!(world.get("/metrics").await.problem(), (401, "unauthorized"));
    let ask = |secret: &str| world.send(world.client.get(world.url("/metrics")).bearer_auth(secret));
    assert_eq!(ask(&enqueuer).await.problem(), (403, "forbidden"));
    assert_eq!(ask(&reader).await.status, 200);
}
