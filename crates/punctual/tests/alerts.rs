//! Alerts, from the condition to the request that a webhook receives.

#![allow(clippy::unwrap_used, clippy::panic)]

#[macro_use]
mod common;

use std::{
    collections::{BTreeMap, VecDeque},
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use common::{TestStore, until};
use hmac::{Hmac, KeyInit, Mac};
use punctual::{
    ALERT_JOB, ALERTS_QUEUE, Alert, AlertKind, AlertState, Alerts, Context, Draft, Failure, Filter, ManualClock,
    ManualWorker, Page, Punctual, Recurring, Status, Webhook, Worker,
    core::{Heartbeat, WorkerId, schedule::MEMORY_OF_ALERTS},
};
use serde_json::{Value, json};
use sha2::Sha256;

const SECRET: &str = "a secret that both sides know";
const HOUR: Duration = Duration::from_secs(3_600);

on_each_engine! {
    a_burst_of_deaths_is_one_signed_request
    a_request_that_is_refused_is_sent_again
    of_several_concurrent_checks_one_raises_the_alert
    an_alert_of_a_queue_without_live_workers_is_raised_repeated_and_resolved
    an_alert_of_a_late_queue_is_raised_and_resolved
    a_paused_queue_raises_no_alert
    a_missed_schedule_raises_an_alert_with_the_tick_that_finds_it
    many_missed_schedules_raise_one_alert
    each_webhook_gets_the_kinds_that_it_wants
    an_alert_job_of_another_client_is_not_sent
    an_alert_that_dies_raises_none
    deaths_between_checks_raise_an_alert_and_deaths_before_the_first_check_do_not
    a_worker_without_free_slots_still_sends_alerts
    the_schedule_that_stores_alerts_is_reserved
}

/// A request that was received.
#[derive(Debug, Clone)]
struct Request {
    path: String,
    headers: BTreeMap<String, String>,
    body: String,
}

impl Request {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The time of the request in its signature.
    fn signed_at(&self) -> i64 {
        let signature = &self.headers["punctual-signature"];
        let (time, mac) = signature.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
        let mut expected = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
        expected.update(format!("{time}.{}", self.body).as_bytes());
        let hex: String = expected.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(mac, hex, "the signature is right");
        time.parse().unwrap()
    }
}

/// A server that records requests and sends the configured responses, or 204 if none is configured.
#[derive(Clone)]
struct Receiver {
    address: String,
    got: Arc<Mutex<Vec<Request>>>,
    answers: Arc<Mutex<VecDeque<&'static str>>>,
}

impl Receiver {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let receiver = Self { address, got: Arc::default(), answers: Arc::default() };
        let own = receiver.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                let mut lines = Vec::new();
                loop {
                    let mut line = String::new();
                    reader.read_line(&mut line).unwrap();
                    if line.trim().is_empty() {
                        break;
                    }
                    lines.push(line.trim().to_owned());
                }
                let header =
                    |line: &String| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
                let headers: BTreeMap<String, String> = lines.iter().skip(1).filter_map(header).collect();
                let mut body = vec![0; headers["content-length"].parse().unwrap()];
                reader.read_exact(&mut body).unwrap();
                let path = lines[0].split(' ').nth(1).unwrap().to_owned();
                own.got.lock().unwrap().push(Request { path, headers, body: String::from_utf8(body).unwrap() });
                let answer = own.answers.lock().unwrap().pop_front().unwrap_or("204 No Content\r\n\r\n");
                let _ = write!(reader.into_inner(), "HTTP/1.1 {answer}");
            }
        });
        receiver
    }

    fn webhook(&self) -> Webhook {
        Webhook::new("ops", format!("http://{}/hook?team=a", self.address), SECRET)
    }

    fn answer(&self, answers: &[&'static str]) {
        self.answers.lock().unwrap().extend(answers);
    }

    fn got(&self) -> Vec<Request> {
        self.got.lock().unwrap().clone()
    }
}

/// A store, its clock, a manual worker, and the server that receives its alerts.
struct Scene {
    punctual: Punctual,
    clock: ManualClock,
    worker: ManualWorker,
    receiver: Receiver,
    test_store: TestStore,
}

impl Scene {
    async fn new(new_store: fn() -> TestStore) -> Self {
        Self::with(new_store, |receiver| Alerts::new().webhook(receiver.webhook())).await
    }

    async fn with(new_store: fn() -> TestStore, alerts: impl Fn(&Receiver) -> Alerts) -> Self {
        let (test_store, receiver) = (new_store(), Receiver::start());
        let (punctual, clock) = test_store.connect_with_clock().await;
        let worker = manual(&punctual, alerts(&receiver));
        assert_eq!(worker.check_alerts().await.unwrap(), [], "nothing has happened yet");
        Self { punctual, clock, worker, receiver, test_store }
    }

    fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    async fn check(&self) -> Vec<Alert> {
        self.worker.check_alerts().await.unwrap()
    }

    /// Checks for alerts, and returns kind and state of those that were raised.
    async fn states(&self) -> Vec<(AlertKind, AlertState)> {
        self.check().await.iter().map(|alert| (alert.kind, alert.state)).collect()
    }

    async fn enqueue(&self, name: &str, jobs: usize) {
        self.punctual.enqueue_all((0..jobs).map(|number| Draft::new(name, &number).queue("mail"))).await.unwrap();
    }

    async fn run(&self) -> usize {
        self.worker.run_all().await.unwrap().len()
    }

    /// Sends a heartbeat of a worker with a handler for this job name.
    async fn heartbeat(&self, name: &str) {
        let heartbeat = Heartbeat {
            id: WorkerId::from_bits(name.len() as u128),
            host: "elsewhere".into(),
            pid: 1,
            queues: vec!["mail".into()],
            names: vec![name.into()],
            concurrency: 1,
            running: 0,
            registered_by: None,
        };
        self.punctual.store().heartbeat(heartbeat).await.unwrap();
    }

    async fn alert_jobs(&self) -> Vec<punctual::core::Job> {
        let filter = Filter { queue: Some(ALERTS_QUEUE.into()), ..Filter::default() };
        self.punctual.store().list(filter, Page::first(100)).await.unwrap().jobs
    }
}

fn manual(punctual: &Punctual, alerts: Alerts) -> ManualWorker {
    let dies = |_: Context| async { Err(Failure::permanent("no such mailbox")) };
    let worker =
        Worker::builder(punctual.clone()).handler("send", dies).handler("report", |_: Context| async { Ok(None) });
    worker.alerts(alerts).manual().unwrap()
}

async fn a_burst_of_deaths_is_one_signed_request(new_store: fn() -> TestStore) {
    let scene = Scene::with(new_store, |receiver| {
        Alerts::new().webhook(receiver.webhook()).dashboard("https://punctual.example/")
    })
    .await;
    scene.enqueue("send", 7).await;
    assert_eq!(scene.run().await, 7);
    scene.pass(1);
    assert_eq!(scene.states().await, [], "others may follow");
    scene.enqueue("send", 5).await;
    assert_eq!(scene.run().await, 5);
    scene.pass(10);
    assert_eq!(scene.states().await, [(AlertKind::DeadJobs, AlertState::Raised)]);
    scene.pass(10);
    assert_eq!(scene.states().await, [], "it was raised already");
    assert_eq!(scene.run().await, 1);
    let got = scene.receiver.got();
    assert_eq!(got.len(), 1);
    let (request, alert) = (&got[0], got[0].json());
    assert_eq!(request.signed_at(), scene.punctual.store().now().as_micros() / 1_000_000);
    assert_eq!(request.path, "/hook?team=a");
    assert_eq!(request.headers["content-type"], "application/json");
    assert_eq!(request.headers["punctual-id"], alert["id"].as_str().unwrap());
    assert!(alert["id"].as_str().unwrap().starts_with("alr_"), "{alert}");
    let actual = ["kind", "state", "count", "name", "queue", "error", "link"].map(|field| alert[field].clone());
    let link = "https://punctual.example/jobs?status=dead&name=send";
    assert_eq!(json!(actual), json!(["dead_jobs", "raised", 12, "send", "mail", "no such mailbox", link]));
    assert_eq!(alert["jobs"].as_array().unwrap().len(), 5, "some of them: {alert}");
    assert!(alert["text"].as_str().unwrap().starts_with("12 jobs of send died in the last 1"), "{alert}");
    let stored = scene.alert_jobs().await[0].spec.payload.as_str().to_owned();
    assert!(!stored.contains(SECRET) && !stored.contains(&scene.receiver.address), "{stored}");
}

async fn a_request_that_is_refused_is_sent_again(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    scene.receiver.answer(&[
        "500 Internal Server Error\r\nContent-Length: 4\r\n\r\nbusy",
        "302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        "429 Too Many Requests\r\nRetry-After: 1800\r\nContent-Length: 0\r\n\r\n",
    ]);
    scene.enqueue("send", 1).await;
    scene.run().await;
    scene.pass(1);
    scene.check().await;
    scene.pass(10);
    assert_eq!(scene.check().await.len(), 1);
    for seconds in [0, 10, 20] {
        scene.pass(seconds);
        assert_eq!(scene.run().await, 1);
    }
    scene.pass(1_790);
    assert_eq!(scene.run().await, 0, "the receiver requested a delay");
    scene.pass(10);
    assert_eq!(scene.run().await, 1);
    let got = scene.receiver.got();
    let ids: Vec<_> = got.iter().map(|request| request.headers["punctual-id"].clone()).collect();
    assert!(ids.len() == 4 && ids.iter().all(|id| *id == ids[0]), "the same alert: {ids:?}");
    let times: Vec<_> = got.iter().map(|request| request.signed_at() - got[0].signed_at()).collect();
    assert_eq!(times, [0, 10, 30, 1_830], "each request has its own signature");
    let job = &scene.alert_jobs().await[0];
    assert_eq!(job.status, Status::Succeeded);
    let logs = scene.punctual.store().logs(job.id, 10).await.unwrap();
    let logs: Vec<_> = logs.iter().map(|line| line.message.as_str()).collect();
    assert_eq!(logs, ["answered 500: busy", "answered 302", "answered 429", "answered 204"]);
}

async fn of_several_concurrent_checks_one_raises_the_alert(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    let other = scene.test_store.connect_by(&scene.clock).await;
    let others = manual(&other, Alerts::new().webhook(scene.receiver.webhook()));
    for round in 1..=5 {
        scene.enqueue("send", 3).await;
        assert_eq!(scene.run().await, 3);
        for seconds in [1, 60] {
            scene.pass(seconds);
            // The slower one has stored nothing, and finds nothing to report the next time.
            let (one, two) = tokio::join!(scene.check(), others.check_alerts());
            assert_eq!(one.len() + two.unwrap().len(), usize::from(seconds > 1));
        }
        assert_eq!(scene.check().await.len() + others.check_alerts().await.unwrap().len(), 0);
        // With Redis, jobs that another process has stored in its own queue become visible a moment later.
        let deadline = Instant::now() + Duration::from_secs(30);
        while scene.receiver.got().len() < round {
            assert!(Instant::now() < deadline, "alert {round} is not sent");
            scene.run().await;
        }
        assert_eq!(scene.receiver.got().len(), round);
    }
    let counts: Vec<_> = scene.receiver.got().iter().map(|request| request.json()["count"].clone()).collect();
    assert_eq!(counts, [3, 3, 3, 3, 3]);
}

async fn an_alert_of_a_queue_without_live_workers_is_raised_repeated_and_resolved(new_store: fn() -> TestStore) {
    let scene =
        Scene::with(new_store, |receiver| Alerts::new().late_after(24 * HOUR).webhook(receiver.webhook())).await;
    scene.enqueue("resize", 3).await;
    scene.punctual.enqueue(Draft::new("later", &()).queue("mail").delay(48 * HOUR)).await.unwrap();
    scene.heartbeat("other").await;
    scene.pass(1);
    assert_eq!(scene.states().await, []);
    scene.pass(30);
    assert_eq!(scene.states().await, [(AlertKind::NoWorkers, AlertState::Raised)]);
    scene.pass(3_599);
    assert_eq!(scene.states().await, []);
    scene.pass(1);
    assert_eq!(scene.states().await, [(AlertKind::NoWorkers, AlertState::Reminder)]);
    scene.heartbeat("resize").await;
    assert_eq!(scene.states().await, [], "it may be gone again in a moment");
    scene.pass(30);
    scene.heartbeat("resize").await;
    assert_eq!(scene.states().await, [(AlertKind::NoWorkers, AlertState::Resolved)]);
    scene.pass(10);
    assert_eq!(scene.states().await, []);
    scene.run().await;
    let got: Vec<Value> = scene.receiver.got().iter().map(Request::json).collect();
    let mut got: Vec<_> = got.iter().map(|alert| json!([alert["state"], alert["queue"], alert["count"]])).collect();
    got.sort_by_key(ToString::to_string);
    assert_eq!(json!(got), json!([["raised", "mail", 3], ["reminder", "mail", 3], ["resolved", "mail", 0]]));
}

async fn an_alert_of_a_late_queue_is_raised_and_resolved(new_store: fn() -> TestStore) {
    let alerts = |receiver: &Receiver| {
        let webhook = receiver.webhook().kinds([AlertKind::Late]);
        Alerts::new().late_after(2 * HOUR).late_after_in("mail", Duration::from_secs(60)).webhook(webhook)
    };
    let scene = Scene::with(new_store, alerts).await;
    scene.punctual.enqueue(Draft::new("report", &()).queue("slow")).await.unwrap();
    let job = Draft::new("report", &()).queue("mail").delay(Duration::from_secs(100));
    let job = scene.punctual.enqueue(job).await.unwrap().id;
    let late = async || {
        let alerts = scene.check().await;
        alerts.into_iter().filter(|alert| alert.kind == AlertKind::Late).collect::<Vec<_>>()
    };
    scene.pass(150);
    assert_eq!(late().await, [], "it is not late yet");
    scene.pass(20);
    assert_eq!(late().await, []);
    scene.pass(30);
    let alerts = late().await;
    assert_eq!(alerts.len(), 1);
    assert_eq!((alerts[0].queue.as_deref(), alerts[0].jobs.as_slice()), (Some("mail"), &[job][..]));
    assert_eq!((alerts[0].lateness_ms, alerts[0].limit_ms), (Some(100_000), Some(60_000)));
    assert!(scene.run().await >= 2);
    assert_eq!(late().await, []);
    scene.pass(30);
    let alerts = late().await;
    assert_eq!(alerts.iter().map(|alert| alert.state).collect::<Vec<_>>(), [AlertState::Resolved]);
    scene.run().await;
    assert_eq!(scene.receiver.got().len(), 2);
}

async fn a_paused_queue_raises_no_alert(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    scene.punctual.admin("ada").pause_queue("mail").await.unwrap();
    scene.enqueue("resize", 1).await;
    for _ in 0..3 {
        scene.pass(1_000);
        assert_eq!(scene.states().await, []);
    }
    scene.punctual.admin("ada").resume_queue("mail").await.unwrap();
    assert_eq!(scene.states().await, []);
    scene.pass(30);
    assert_eq!(scene.states().await.len(), 2, "late, and without a worker");
}

async fn a_missed_schedule_raises_an_alert_with_the_tick_that_finds_it(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    let nightly = Recurring::new("nightly", "0 * * * *", Draft::new("report", &()));
    scene.punctual.admin("ada").put_schedule(nightly).await.unwrap();
    scene.clock.advance(3 * HOUR + Duration::from_secs(300));
    assert_eq!(scene.worker.tick().await.unwrap(), 2, "the occurrence, and the alert");
    assert_eq!(scene.worker.tick().await.unwrap(), 0);
    scene.run().await;
    let got = scene.receiver.got();
    let alert = got[0].json();
    got[0].signed_at();
    assert_eq!(got.len(), 1);
    assert_eq!(json!([alert["kind"], alert["schedule"], alert["count"]]), json!(["missed_schedule", "nightly", 1]));
    assert_eq!(alert["since"], "2026-03-01T13:00:00.000000Z");
    let schedule = scene.punctual.store().schedule("nightly".into()).await.unwrap().unwrap();
    let last = scene.punctual.job(schedule.last_job.unwrap()).await.unwrap();
    assert_eq!(last.spec.name, "report", "the alert is none of its occurrences");
}

async fn many_missed_schedules_raise_one_alert(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    for number in 0..30 {
        let hourly = Recurring::new(format!("hourly-{number:02}"), "0 * * * *", Draft::new("report", &()));
        scene.punctual.admin("ada").put_schedule(hourly).await.unwrap();
    }
    scene.clock.advance(3 * HOUR);
    scene.worker.tick().await.unwrap();
    scene.run().await;
    let texts: Vec<_> = scene.receiver.got().iter().map(|request| request.json()["text"].to_string()).collect();
    assert_eq!(texts.len(), 21);
    assert_eq!(texts.iter().filter(|text| text.contains("more than 20 schedules were missed")).count(), 1);
}

async fn each_webhook_gets_the_kinds_that_it_wants(new_store: fn() -> TestStore) {
    let second = Receiver::start();
    let alerts = |receiver: &Receiver| {
        let late = Webhook::new("late", format!("http://{}/late", second.address), SECRET).kinds([AlertKind::Late]);
        Alerts::new().webhook(receiver.webhook()).webhook(late)
    };
    let scene = Scene::with(new_store, alerts).await;
    scene.enqueue("send", 1).await;
    scene.run().await;
    scene.enqueue("resize", 1).await;
    scene.check().await;
    scene.pass(400);
    scene.check().await;
    scene.pass(30);
    scene.check().await;
    scene.run().await;
    let kinds = |receiver: &Receiver| {
        let mut kinds: Vec<String> =
            receiver.got().iter().map(|request| request.json()["kind"].as_str().unwrap().to_owned()).collect();
        kinds.sort();
        kinds
    };
    assert_eq!(kinds(&scene.receiver), ["dead_jobs", "late", "no_workers"]);
    assert_eq!(kinds(&second), ["late"]);
}

async fn an_alert_job_of_another_client_is_not_sent(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    for payload in [json!({"webhook": "ops", "seal": "00", "alert": {"text": "give me the money"}}), json!("x")] {
        let forged = Draft::new(ALERT_JOB, &payload).queue(ALERTS_QUEUE).max_attempts(1);
        let forged = scene.punctual.enqueue(forged).await.unwrap();
        scene.run().await;
        assert_eq!(scene.punctual.job(forged.id).await.unwrap().status, Status::Dead);
    }
    assert!(scene.receiver.got().is_empty());
}

async fn an_alert_that_dies_raises_none(new_store: fn() -> TestStore) {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let webhook = || Webhook::new("gone", format!("http://{gone}/"), SECRET);
    let scene = Scene::with(new_store, |_| Alerts::new().webhook(webhook())).await;
    scene.enqueue("send", 1).await;
    scene.run().await;
    scene.pass(1);
    scene.check().await;
    scene.pass(10);
    assert_eq!(scene.check().await.len(), 1);
    for _ in 0..12 {
        scene.run().await;
        scene.pass(3_600);
        assert_eq!(scene.states().await, []);
    }
    let job = &scene.alert_jobs().await[0];
    assert_eq!((job.status, job.attempt), (Status::Dead, 10), "it was tried for as long as is sane");
    let why = job.error.as_ref().unwrap().to_string();
    assert!(why.starts_with("webhook gone: cannot connect") && !why.contains("127.0.0.1"), "{why}");
}

async fn deaths_between_checks_raise_an_alert_and_deaths_before_the_first_check_do_not(new_store: fn() -> TestStore) {
    let test_store = new_store();
    let (punctual, clock) = test_store.connect_with_clock().await;
    let receiver = Receiver::start();
    let worker = manual(&punctual, Alerts::new().webhook(receiver.webhook()));
    let die = async || {
        punctual.enqueue(Draft::new("send", &())).await.unwrap();
        assert_eq!(worker.run_all().await.unwrap().len(), 1);
    };
    die().await;
    clock.advance(HOUR);
    assert_eq!(worker.check_alerts().await.unwrap(), []);
    die().await;
    clock.advance(5 * HOUR);
    die().await;
    // Another process starts.
    let worker = manual(&test_store.connect_by(&clock).await, Alerts::new().webhook(receiver.webhook()));
    worker.check_alerts().await.unwrap();
    clock.advance(Duration::from_secs(10));
    let alerts = worker.check_alerts().await.unwrap();
    assert_eq!(alerts.iter().map(|alert| alert.count).collect::<Vec<_>>(), [2]);
}

async fn a_worker_without_free_slots_still_sends_alerts(new_store: fn() -> TestStore) {
    let (test_store, receiver) = (new_store(), Receiver::start());
    let punctual = test_store.connect().await;
    let alerts = Alerts::new()
        .check_interval(Duration::from_millis(100))
        .gather(Duration::ZERO)
        .hold(Duration::ZERO)
        .late_after(Duration::from_millis(200));
    let start = async || {
        Worker::builder(punctual.clone())
            .handler("hang", |ctx: Context| async move {
                ctx.signal().cancelled().await;
                Ok(None)
            })
            .handler("send", |_: Context| async { Err(Failure::permanent("no such mailbox")) })
            .queues(["mail"])
            .concurrency(1)
            .drain_timeout(Duration::ZERO)
            .alerts(alerts.clone().webhook(receiver.webhook()))
            .start()
            .await
            .unwrap()
    };
    let workers = [start().await, start().await];
    until("the first check", async || punctual.store().schedule(MEMORY_OF_ALERTS.into()).await.unwrap().is_some())
        .await;
    let dead = punctual.enqueue(Draft::new("send", &()).queue("mail")).await.unwrap();
    punctual.wait(dead.id, HOUR).await.unwrap();
    punctual.enqueue_all((0..4).map(|_| Draft::new("hang", &()).queue("mail"))).await.unwrap();
    let kinds = || {
        let mut kinds: Vec<_> = receiver.got().iter().map(|request| request.json()["kind"].to_string()).collect();
        kinds.sort();
        // On a slow machine, the first job may have been late, too.
        kinds.dedup();
        kinds
    };
    until("both alerts", async || kinds().len() >= 2).await;
    assert_eq!(kinds(), [r#""dead_jobs""#, r#""late""#]);
    assert!(receiver.got().iter().all(|request| request.signed_at() > 0));
    for worker in workers {
        worker.stop().await;
    }
}

async fn the_schedule_that_stores_alerts_is_reserved(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    let admin = scene.punctual.admin("ada");
    assert_eq!(admin.schedules(None, 10).await.unwrap().schedules, []);
    let taken = Recurring::new(MEMORY_OF_ALERTS, "@daily", Draft::new("report", &()));
    let refused = admin.put_schedule(taken).await.unwrap_err().to_string();
    assert_eq!(refused, "schedule: `punctual.alerts` is reserved");
    scene.clock.advance(1_000 * 24 * HOUR);
    assert_eq!(scene.worker.tick().await.unwrap(), 0, "it never runs");
}
