//! Requests that are refused, and whether their connections stay open or close as clients expect.

use std::time::Duration;

use punctual_client::Draft;
use punctual_core::{Error, Role, Status};
use reqwest::{Method, header::LOCATION, redirect::Policy};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time,
};

use crate::common::World;

/// A generous timeout for slow machines; no test measures it.
const LONG: Duration = Duration::from_secs(60);

/// Sends a request, optionally closes the sending side, and reads until the server closes the connection or the
/// expected text has arrived.
async fn exchange(world: &World, request: &str, half_close: bool, until: &str) -> String {
    let mut stream = TcpStream::connect(world.server.address()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    if half_close {
        stream.shutdown().await.unwrap();
    }
    let (mut response, mut part) = (String::new(), [0; 4_096]);
    let reading = async {
        while !response.contains(until) {
            let count = stream.read(&mut part).await.unwrap();
            if count == 0 {
                break;
            }
            response.push_str(&String::from_utf8_lossy(&part[..count]));
        }
    };
    time::timeout(LONG, reading).await.expect("an answer");
    response
}

#[tokio::test]
async fn a_request_that_is_refused_before_its_body_is_read_leaves_its_connection_in_order() {
    let world = World::new().await;
    world.token(Role::Read).await;
    let head = "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let next = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let body = json!({"name": "x", "payload": "y".repeat(10_000)}).to_string();
    let both = format!("{head}Content-Length: {}\r\n\r\n{body}{next}", body.len());
    let response = exchange(&world, &both, false, "ok\n").await;
    assert!(response.starts_with("HTTP/1.1 401"), "{response}");
    assert!(
        response.contains("HTTP/1.1 200") && response.ends_with("ok\n"),
        "the next request is answered: {response}"
    );
    // A body that is too large to be drained, or that is not sent before the server requests it.
    for rest in ["Content-Length: 1000000\r\n\r\nbegin", "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n"] {
        let response = exchange(&world, &format!("{head}{rest}"), false, "}").await;
        assert!(response.starts_with("HTTP/1.1 401"), "{response}");
        assert!(response.to_lowercase().contains("\r\nconnection: close\r\n"), "{response}");
    }
}

#[tokio::test]
async fn a_client_that_has_closed_its_sending_side_is_answered() {
    let world = World::new().await;
    let get = "GET /v1/stats HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert!(exchange(&world, get, true, "no such text").await.starts_with("HTTP/1.1 200"));
    // The client waits for a job but may be dead: no job is sent to it.
    let params = json!({"worker": format!("wrk_{:032x}", 7), "names": ["x"], "limit": 1, "wait": "60s"}).to_string();
    let head = "POST /v1/work/claim HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let claim = format!("{head}Content-Length: {}\r\n\r\n{params}", params.len());
    let response = exchange(&world, &claim, true, "no such text").await;
    assert!(response.starts_with("HTTP/1.1 200") && response.ends_with(r#"{"jobs":[]}"#), "{response}");
    let job = world.punctual.enqueue(Draft::new("x", &())).await.unwrap().id;
    assert_eq!(world.punctual.job(job).await.unwrap().status, Status::Queued);
}

#[tokio::test]
async fn the_login_page_takes_little_and_leads_to_pages_of_this_server_only() {
    let world = World::new().await;
    let token = world.token(Role::Read).await;
    let client = reqwest::Client::builder().redirect(Policy::none()).build().unwrap();
    let log_in = |body: String| {
        let kind = "application/x-www-form-urlencoded";
        client.post(world.url("/login")).header("content-type", kind).body(body).send()
    };
    assert_eq!(log_in(format!("token={}", "x".repeat(9_000))).await.unwrap().status(), 413);
    for (to, leads_to) in [
        ("%2Fjobs%3Fstatus%3Ddead", "/jobs?status=dead"),
        ("%2F%09%2Fevil.example", "/"),
        ("%2F%2Fevil.example", "/"),
        ("%2F%5Cevil.example", "/"),
        ("https%3A%2F%2Fevil.example", "/"),
    ] {
        let response = log_in(format!("token={token}&to={to}")).await.unwrap();
        assert_eq!(
            (response.status().as_u16(), response.headers()[LOCATION].to_str().unwrap()),
            (303, leads_to),
            "{to}"
        );
    }
}

#[tokio::test]
async fn limits_are_cleared_only_by_an_explicit_body() {
    let world = World::new().await;
    let limits = async || world.get("/v1/queues/mail").await.good()["limits"].clone();
    let put = |body: Option<Value>| world.ask(Method::PUT, "/v1/queues/mail/limits", body);
    assert_eq!(put(Some(json!({"concurrency": 3}))).await.status, 204);
    let refused = put(None).await;
    assert_eq!(refused.field(), ("body", "body: must not be empty; expected a JSON object, {} to clear the settings"));
    assert_eq!(limits().await, json!({"concurrency": 3}));
    assert_eq!(put(Some(json!({}))).await.status, 204);
    assert_eq!(limits().await, json!({}));
}

#[tokio::test]
async fn one_request_waits_a_minute_at_most() {
    let world = World::new().await;
    let job = world.punctual.enqueue(Draft::new("x", &())).await.unwrap().id;
    let refused = world.get(&format!("/v1/jobs/{job}/wait?timeout=366d")).await;
    assert_eq!(refused.field(), ("timeout", "timeout: must be at most 60 s; to wait longer, repeat the request"));
    assert_eq!(world.get(&format!("/v1/jobs/{job}/wait?timeout=1ms")).await.problem(), (408, "timed_out"));
}

#[tokio::test]
async fn json_that_not_every_parser_accepts_is_refused() {
    let world = World::new().await;
    for (payload, problem) in [(r#""\ud800""#, "half of a surrogate pair"), ("[1e400]", "1e400 is out of range")] {
        let body = format!(r#"{{"name": "x", "payload": {payload}}}"#);
        let request = world.client.post(world.url("/v1/jobs")).header("content-type", "application/json").body(body);
        let refused = world.send(request).await;
        assert!(refused.field().0 == "payload" && refused.field().1.contains(problem), "{refused:?}");
    }
}

#[tokio::test]
async fn the_locks_of_punctual_itself_are_reserved() {
    let world = World::new().await;
    let work = world.token(Role::Work).await;
    for (verb, body) in [("acquire", json!({"owner": "me", "ttl": "30s"})), ("release", json!({"owner": "me"}))] {
        for name in ["punctual.retention", "Punctual.upkeep"] {
            let request = world.client.post(world.url(&format!("/v1/locks/{name}/{verb}"))).bearer_auth(&work);
            let refused = world.send(request.json(&body)).await;
            assert!(refused.field().0 == "lock" && refused.field().1.contains("is reserved"), "{refused:?}");
        }
    }
    let refused = world.punctual.lock("punctual.schedules.tick", Duration::from_secs(1)).await;
    assert!(matches!(refused, Err(Error::Invalid(invalid)) if invalid.field == "lock"));
}

#[tokio::test]
async fn a_worker_is_deregistered_by_the_token_that_registered_it_or_by_an_admin() {
    let world = World::new().await;
    let (own, other) = (world.token(Role::Work).await, world.token(Role::Work).await);
    let admin = world.token(Role::Admin).await;
    let worker = |number: u32| format!("wrk_{number:032x}");
    let post = |path: &'static str, secret: &str, body: Value| {
        world.send(world.client.post(world.url(path)).bearer_auth(secret).json(&body))
    };
    for number in [1, 2] {
        let heartbeat = json!({"worker": worker(number), "host": "far", "names": ["x"], "concurrency": 1});
        assert_eq!(post("/v1/work/heartbeat", &own, heartbeat).await.status, 204);
        let leaving = json!({"worker": worker(number)});
        assert_eq!(post("/v1/work/deregister", &other, leaving.clone()).await.problem(), (403, "forbidden"));
        let may = if number == 1 { &own } else { &admin };
        assert_eq!(post("/v1/work/deregister", may, leaving.clone()).await.good(), json!({"jobs": 0}));
        assert_eq!(post("/v1/work/deregister", &own, leaving).await.good(), json!({"jobs": 0}), "it has left");
    }
    assert!(world.punctual.store().workers().await.unwrap().is_empty());
}
