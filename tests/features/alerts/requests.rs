//! The requests by which alerts are sent.

use std::{net::TcpListener, time::Duration};

use punctual::{
    ALERT_JOB, ALERTS_QUEUE, AlertKind, AlertState, Alerts, Context, Draft, Failure, Status, Webhook, Worker,
    core::schedule::ALERT_STATE_SCHEDULE,
};
use punctual_tests::{TestStore, on_each_engine, until};
use serde_json::json;

use super::{
    receiver::{Receiver, SECRET},
    scene::{HOUR, Scene},
};

on_each_engine! {
    a_burst_of_deaths_is_one_signed_request
    a_request_that_is_refused_is_sent_again
    each_webhook_gets_the_kinds_that_it_wants
    an_alert_job_of_another_client_is_not_sent
    an_alert_that_dies_raises_none
    a_worker_without_free_slots_still_sends_alerts
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
    until("the first check", async || punctual.store().schedule(ALERT_STATE_SCHEDULE.into()).await.unwrap().is_some())
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
