//! Which conditions raise an alert, and which do not.

use std::time::{Duration, Instant};

use punctual::{AlertKind, AlertState, Alerts, Draft, Recurring, core::schedule::ALERT_STATE_SCHEDULE};
use punctual_tests::{TestStore, on_each_engine};
use serde_json::{Value, json};

use super::{
    receiver::{Receiver, Request},
    scene::{HOUR, Scene, manual},
};

on_each_engine! {
    of_several_concurrent_checks_one_raises_the_alert
    an_alert_of_a_queue_without_live_workers_is_raised_repeated_and_resolved
    an_alert_of_a_late_queue_is_raised_and_resolved
    a_paused_queue_raises_no_alert
    a_missed_schedule_raises_an_alert_with_the_tick_that_finds_it
    many_missed_schedules_raise_one_alert
    deaths_between_checks_raise_an_alert_and_deaths_before_the_first_check_do_not
    the_schedule_that_stores_alerts_is_reserved
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

async fn the_schedule_that_stores_alerts_is_reserved(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    let admin = scene.punctual.admin("ada");
    assert_eq!(admin.schedules(None, 10).await.unwrap().schedules, []);
    let taken = Recurring::new(ALERT_STATE_SCHEDULE, "@daily", Draft::new("report", &()));
    let refused = admin.put_schedule(taken).await.unwrap_err().to_string();
    assert_eq!(refused, "schedule: `punctual.alerts` is reserved");
    scene.clock.advance(1_000 * 24 * HOUR);
    assert_eq!(scene.worker.tick().await.unwrap(), 0, "it never runs");
}
