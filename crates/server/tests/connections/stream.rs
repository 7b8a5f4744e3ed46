//! The live stream: what is sent to which subscriber; slow, reconnecting and unauthorized subscribers.

use std::{collections::BTreeSet, time::Duration};

use futures_util::{SinkExt, StreamExt};
use punctual_client::Draft;
use punctual_core::{Role, limits};
use punctual_server::StreamLimits;
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{
        Error, Message,
        client::IntoClientRequest,
        http::{HeaderName, HeaderValue},
        protocol::frame::coding::CloseCode,
    },
};

use crate::common::World;

/// A subscriber.
struct Subscriber(WebSocketStream<TcpStream>);

impl Subscriber {
    async fn new(world: &World, query: &str) -> Self {
        let mut subscriber = Self::with(world, query, &[]).await.unwrap();
        assert_eq!(subscriber.next().await["kind"], "open");
        subscriber
    }

    async fn with(world: &World, query: &str, headers: &[(&'static str, &str)]) -> Result<Self, Error> {
        let socket = TcpSocket::new_v4().unwrap();
        // A small buffer, so that a subscriber that does not read is soon found to be slow.
        socket.set_recv_buffer_size(4 * 1024).unwrap();
        let stream = socket.connect(world.server.address()).await.unwrap();
        let mut request = format!("ws://{}/v1/stream?{query}", world.server.address()).into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        client_async(request, stream).await.map(|(socket, _)| Self(socket))
    }

    /// The next message.
    async fn next(&mut self) -> Value {
        loop {
            match self.0.next().await.expect("the server should say more").unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("not a message: {other:?}"),
            }
        }
    }

    /// The next message that is not a heartbeat.
    async fn next_of(&mut self, kind: &str) -> Value {
        loop {
            let message = self.next().await;
            if message["kind"] != "heartbeat" {
                assert_eq!(message["kind"], kind, "{message}");
                return message;
            }
        }
    }

    /// The next `count` events, each as the job's name and status, and the last cursor.
    async fn events(&mut self, count: usize) -> (Vec<(String, String)>, String) {
        let (mut received, mut cursor) = (Vec::new(), String::new());
        while received.len() < count {
            let message = self.next_of("events").await;
            cursor = message["cursor"].as_str().unwrap().to_owned();
            let text = |event: &Value, field: &str| event[field].as_str().unwrap().to_owned();
            let events = message["events"].as_array().unwrap();
            received.extend(events.iter().map(|event| (text(event, "name"), text(event, "status"))));
        }
        assert_eq!(received.len(), count, "{received:?}");
        (received, cursor)
    }

    /// The close code that the server sends.
    async fn closed(&mut self) -> Option<CloseCode> {
        while let Some(Ok(frame)) = self.0.next().await {
            if let Message::Close(close) = frame {
                return close.map(|close| close.code);
            }
        }
        None
    }
}

/// Status and body of the response that refuses a subscription.
fn refusal(refused: Result<Subscriber, Error>) -> (u16, Value) {
    match refused {
        Err(Error::Http(response)) => {
            let body = response.body().as_deref().map(|body| serde_json::from_slice(body).unwrap_or_default());
            (response.status().as_u16(), body.unwrap_or_default())
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was let in"),
    }
}

async fn enqueue(world: &World, name: &str, change: impl FnOnce(Draft) -> Draft) -> String {
    world.punctual.enqueue(change(Draft::new(name, &json!({"secret": "raw"})))).await.unwrap().id.to_string()
}

fn expected(events: &[(&str, &str)]) -> Vec<(String, String)> {
    events.iter().map(|(name, status)| ((*name).to_owned(), (*status).to_owned())).collect()
}

#[tokio::test]
async fn events_come_by_filter_and_no_others() {
    let world = World::new().await;
    enqueue(&world, "before", |draft| draft).await;
    let mut all = Subscriber::new(&world, "kind=events").await;
    let mut mail = Subscriber::new(&world, "queue=mail").await;
    let mut named = Subscriber::new(&world, "name=report&status=cancelled&status=dead").await;
    let mut ada = Subscriber::new(&world, "user=ada&tag=eu").await;
    let greeting = enqueue(&world, "greet", |draft| draft.queue("mail")).await;
    // Events that were sent already do not reach a subscriber that joins afterwards.
    assert_eq!(mail.events(1).await.0, expected(&[("greet", "queued")]));
    let mut one = Subscriber::new(&world, &format!("job={greeting}")).await;
    let report = enqueue(&world, "report", |draft| draft.user("ada").tag("eu")).await;
    enqueue(&world, "report", |draft| draft.user("ada").tag("us")).await;
    enqueue(&world, "other", |draft| draft.user("bob").tag("eu")).await;
    for id in [&report, &greeting] {
        assert_eq!(world.post(&format!("/v1/jobs/{id}/cancel"), json!({"reason": "so"})).await.status, 204);
    }
    let (received, _) = all.events(6).await;
    assert_eq!(
        received[..4],
        expected(&[("greet", "queued"), ("report", "queued"), ("report", "queued"), ("other", "queued")])
    );
    assert_eq!(mail.events(1).await.0, expected(&[("greet", "cancelled")]));
    assert_eq!(one.events(1).await.0, expected(&[("greet", "cancelled")]));
    assert_eq!(ada.events(2).await.0, expected(&[("report", "queued"), ("report", "cancelled")]));
    let message = named.next_of("events").await;
    let event = &message["events"][0];
    assert_eq!(event["job"], json!(report));
    assert_eq!(event["status"], "cancelled");
    assert_eq!(event["actor"], "local");
    assert_eq!(event["detail"], "so");
    assert_eq!(event["user_id"], "ada");
    assert_eq!(event["tags"], json!(["eu"]));
    assert!(!message.to_string().contains("raw"), "no payload is shown");
    let shown = world.get(&format!("/v1/jobs/{report}/events")).await.good();
    assert_eq!(shown[1]["id"], event["id"], "it is the event that the job has");
}

#[tokio::test]
async fn a_user_receives_own_notifications_and_broadcasts() {
    let world = World::new().await;
    let mut ada = Subscriber::new(&world, "user=ada&kind=notifications&kind=broadcasts").await;
    let mut broadcasts = Subscriber::new(&world, "kind=broadcasts").await;
    let mut only_ada = Subscriber::new(&world, "user=ada&kind=notifications").await;
    world.punctual.notify("bob", &"not yours").await.unwrap();
    world.punctual.notify("ada", &json!({"ready": true})).await.unwrap();
    world.post("/v1/notifications", json!({"message": "all of you"})).await.good();
    world.punctual.notify("ada", &"more").await.unwrap();
    let first = ada.next_of("notification").await;
    assert_eq!((&first["user_id"], &first["message"]), (&json!("ada"), &json!({"ready": true})));
    let second = ada.next_of("broadcast").await;
    assert_eq!((&second["message"], second["id"].as_u64() > first["id"].as_u64()), (&json!("all of you"), true));
    assert_eq!(ada.next_of("notification").await["message"], "more");
    assert_eq!(broadcasts.next_of("broadcast").await["message"], "all of you");
    assert_eq!(only_ada.next_of("notification").await["message"], json!({"ready": true}));
    assert_eq!(only_ada.next_of("notification").await["message"], "more");
    let mut again =
        Subscriber::with(&world, &format!("user=ada&cursor={}", first["cursor"].as_str().unwrap()), &[]).await.unwrap();
    assert_eq!(again.next_of("open").await["cursor"].as_str().unwrap().split('~').next(), Some("2"));
    assert_eq!(again.next_of("broadcast").await["message"], "all of you");
    assert_eq!(again.next_of("notification").await["message"], "more");
    let (status, problem) = refusal(Subscriber::with(&world, "kind=notifications", &[]).await);
    assert_eq!((status, &problem["field"]), (400, &json!("user")));
}

#[tokio::test]
async fn a_subscriber_that_resumes_with_a_cursor_receives_every_event_once() {
    const JOBS: usize = 300;
    let world = World::new().await;
    let mut subscriber = Subscriber::with(&world, "kind=events", &[]).await.unwrap();
    let mut cursor = subscriber.next_of("open").await["cursor"].as_str().unwrap().to_owned();
    drop(subscriber);
    let punctual = world.punctual.clone();
    let enqueues = tokio::spawn(async move {
        for number in 0..JOBS {
            punctual.enqueue(Draft::new(format!("job-{number}"), &())).await.unwrap();
        }
    });
    let mut received = Vec::new();
    while received.len() < JOBS {
        // Receives one message and disconnects again.
        let mut subscriber = Subscriber::with(&world, &format!("kind=events&cursor={cursor}"), &[]).await.unwrap();
        assert_eq!(subscriber.next_of("open").await["cursor"], json!(cursor), "no event was delivered yet");
        for _ in 0..2 {
            let (events, next) = match tokio::time::timeout(Duration::from_secs(20), subscriber.next_of("events")).await
            {
                Ok(message) => (message["events"].clone(), message["cursor"].as_str().unwrap().to_owned()),
                Err(_) => panic!("{} of {JOBS} events arrived", received.len()),
            };
            received.extend(events.as_array().unwrap().iter().map(|event| event["name"].as_str().unwrap().to_owned()));
            cursor = next;
            if received.len() >= JOBS {
                break;
            }
        }
    }
    enqueues.await.unwrap();
    let wanted: Vec<String> = (0..JOBS).map(|number| format!("job-{number}")).collect();
    assert_eq!(received, wanted, "in order, each once");
    for bad in ["x", "7", "1~x", "~1"] {
        let (status, problem) = refusal(Subscriber::with(&world, &format!("cursor={bad}"), &[]).await);
        assert_eq!((status, &problem["field"]), (400, &json!("cursor")), "{bad}");
    }
    // A cursor that is too old causes a missed message, and the stream continues from now.
    let age = limits::CHANGES_MAX_AGE.as_micros() as i64 + 1;
    let old = format!("~1.{}", world.punctual.store().now().as_micros() - age);
    let mut subscriber = Subscriber::with(&world, &format!("kind=events&cursor={old}"), &[]).await.unwrap();
    subscriber.next_of("open").await;
    assert_eq!(subscriber.next_of("missed").await["events"], Value::Null);
    enqueue(&world, "now", |draft| draft).await;
    assert_eq!(subscriber.events(1).await.0, expected(&[("now", "queued")]));
}

#[tokio::test]
async fn a_slow_reader_is_notified_of_missed_events_and_does_not_block_others() {
    const JOBS: usize = 1_000;
    const ROUNDS: usize = 12;
    // However slow the test is, the slow reader is not disconnected.
    let hour = Duration::from_secs(3_600);
    let limits = StreamLimits { behind_max_polls: 1, ping_every: hour, send_timeout: hour, ..StreamLimits::default() };
    let world = World::with(|server| server.stream(limits)).await;
    let mut slow = Subscriber::new(&world, "kind=events").await;
    let mut fast = Subscriber::new(&world, "kind=events&name=mark").await;
    // More than the buffers between the two ends can hold.
    let tags: Vec<String> = (0..20).map(|number| format!("{number:0>60}")).collect();
    for _ in 0..ROUNDS {
        let draft = |_| tags.iter().fold(Draft::new("much", &()), |draft, tag| draft.tag(tag));
        world.punctual.enqueue_all((0..JOBS).map(draft)).await.unwrap();
        enqueue(&world, "mark", |draft| draft).await;
        fast.events(1).await;
    }
    let (mut received, mut missed, mut last) = (0, 0, Value::Null);
    while received + missed < ROUNDS * (JOBS + 1) {
        let message = slow.next().await;
        match message["kind"].as_str().unwrap() {
            "events" => received += message["events"].as_array().unwrap().len(),
            "missed" => {
                missed += message["events"].as_u64().unwrap() as usize;
                assert!(message["since"].is_string() && message["cursor"].is_string(), "{message}");
                last = message["cursor"].clone();
            }
            kind => assert_eq!(kind, "heartbeat"),
        }
    }
    assert!(missed > 0, "it was never slow");
    assert_eq!(received + missed, ROUNDS * (JOBS + 1), "what was missed is counted");
    enqueue(&world, "after", |draft| draft).await;
    assert_eq!(slow.events(1).await.0, expected(&[("after", "queued")]), "events continue from now on");
    // The missed events are still available by the previous cursor.
    let query = format!("kind=events&name=mark&cursor={}", last.as_str().unwrap());
    let mut again = Subscriber::with(&world, &query, &[]).await.unwrap();
    again.next_of("open").await;
    assert!(["events", "missed"].contains(&again.next().await["kind"].as_str().unwrap()));
}

#[tokio::test]
async fn subscribers_without_a_token_or_from_another_site_are_refused() {
    let world = World::new().await;
    let bearer = |secret: &str| format!("Bearer {secret}");
    let foreign = [("origin", "https://evil.example")];
    assert_eq!(refusal(Subscriber::with(&world, "", &foreign).await).0, 403, "an open server is for this machine");
    let reader = world.punctual.admin("test").create_token("reader", [Role::Read], None).await.unwrap();
    let worker = world.token(Role::Work).await;
    // A server may cache tokens for a second, but not that there are none.
    while Subscriber::with(&world, "", &[]).await.is_ok() {}
    assert_eq!(refusal(Subscriber::with(&world, "", &[]).await).0, 401);
    assert_eq!(refusal(Subscriber::with(&world, "", &[("authorization", &bearer("punctual_wrong"))]).await).0, 401);
    assert_eq!(refusal(Subscriber::with(&world, "", &[("authorization", &bearer(&worker))]).await).0, 403);
    let mut subscriber = Subscriber::with(&world, "", &[("authorization", &bearer(&reader.secret))]).await.unwrap();
    subscriber.next_of("open").await;

    let session = world.punctual.admin("test").create_session(&reader.token, Duration::from_secs(60)).await.unwrap();
    let cookie = format!("punctual_session={}", session.secret);
    let own = format!("http://{}", world.server.address());
    let with = async |origin: Option<&str>| {
        let origin = origin.map(|origin| ("origin", origin));
        let headers: Vec<_> = [("cookie", cookie.as_str())].into_iter().chain(origin).collect();
        Subscriber::with(&world, "", &headers).await
    };
    let mut known = with(Some(&own)).await;
    while let Err(Error::Http(response)) = &known {
        assert_eq!(response.status(), 401, "only as long as the session is not known yet");
        known = with(Some(&own)).await;
    }
    known.unwrap().next_of("open").await;
    for other in [Some("https://evil.example"), Some("null"), Some("http://127.0.0.1:1"), None] {
        assert_eq!(refusal(with(other).await).0, 403, "{other:?}");
    }
    let plain = world.send(world.client.get(world.url("/v1/stream")).bearer_auth(&reader.secret)).await;
    assert_eq!(plain.field().0, "Upgrade");
}

#[tokio::test]
async fn subscribers_that_lose_access_do_not_answer_or_send_too_much_are_disconnected() {
    let limits = StreamLimits { ping_every: Duration::from_millis(100), ..StreamLimits::default() };
    let world = World::with(|server| server.stream(limits)).await;
    let mut silent = Subscriber::new(&world, "").await;
    let mut loud = Subscriber::new(&world, "").await;
    loud.0.send(Message::text("hello")).await.unwrap();
    let _ = loud.0.send(Message::text("x".repeat(5_000))).await;
    loud.closed().await;
    // Pings are answered only while the socket is read, so this subscriber reads all the time.
    let mut active = Subscriber::new(&world, "kind=events").await;
    let (job, _) = tokio::join!(enqueue(&world, "mail", |draft| draft.queue("other")), active.events(1));
    for _ in 0..10 {
        let ping = active.0.next().await.unwrap().unwrap();
        assert!(matches!(ping, Message::Ping(_)) || ping.is_text(), "{ping:?}");
    }
    assert_eq!(silent.closed().await, None, "the client is gone");
    let path = format!("/v1/jobs/{job}/cancel");
    let (cancelled, _) = tokio::join!(world.post(&path, json!({})), active.events(1));
    assert_eq!(cancelled.status, 204);
    // Once the first token exists, subscribing needs one.
    let admin = world.punctual.admin("test");
    let (token, closed) = tokio::join!(admin.create_token("reader", [Role::Read], None), active.closed());
    let token = token.unwrap();
    assert_eq!(closed, Some(CloseCode::Policy));
    let headers = [("authorization", &*format!("Bearer {}", token.secret))];
    let mut reader = Subscriber::with(&world, "", &headers).await.unwrap();
    reader.next_of("open").await;
    let (revoked, closed) = tokio::join!(admin.revoke_token(token.token.id, false), reader.closed());
    revoked.unwrap();
    assert_eq!(closed, Some(CloseCode::Policy));
}

#[tokio::test]
async fn sockets_have_a_limit_of_their_own_and_a_server_that_ends_closes_them() {
    let limits = StreamLimits { sockets_max: 3, ..StreamLimits::default() };
    let world = World::with(|server| server.stream(limits).connections_max(2)).await;
    let client = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
    let mut ears = Vec::new();
    for _ in 0..3 {
        ears.push(Subscriber::new(&world, "user=ada").await);
    }
    assert_eq!(
        client.get(world.url("/healthz")).send().await.unwrap().status(),
        200,
        "sockets do not count as connections"
    );
    let (status, problem) = refusal(Subscriber::with(&world, "", &[]).await);
    assert_eq!((status, &problem["code"]), (503, &json!("unavailable")));
    drop(ears.pop());
    // The slot is free once the server has noticed the disconnect.
    let mut fourth = Subscriber::with(&world, "", &[]).await;
    while fourth.is_err() {
        fourth = Subscriber::with(&world, "", &[]).await;
    }
    let World { server, .. } = world;
    let stopped = tokio::spawn(server.stop(Duration::from_secs(30)));
    let mut codes = BTreeSet::new();
    for mut subscriber in ears {
        codes.insert(format!("{:?}", subscriber.closed().await));
    }
    codes.insert(format!("{:?}", fourth.unwrap().closed().await));
    assert_eq!(codes, BTreeSet::from([format!("{:?}", Some(CloseCode::Away))]));
    stopped.await.unwrap();
}
