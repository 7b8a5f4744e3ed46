//! Clocks that jump.

use std::time::Duration;

use punctual::Recurring;
use punctual_tests::{TestStore, on_each_engine};

use crate::scene::{Scene, at, report};

on_each_engine! {
    a_clock_that_jumps_makes_no_occurrence_twice
    a_schedule_that_a_wrong_clock_sent_ahead_is_brought_back
    a_lock_that_a_wrong_clock_made_endless_stops_nothing
}

async fn a_clock_that_jumps_makes_no_occurrence_twice(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    scene.put(Recurring::new("x", "* * * * *", report())).await;
    for (time, enqueued) in [("12:01:00", 1), ("12:00:30", 0), ("12:01:30", 0), ("11:00:00", 0), ("12:02:00", 1)] {
        scene.set(time);
        assert_eq!(scene.tick().await, enqueued, "{time}");
    }
    // A clock that moves forward is like a time without workers.
    scene.set("18:00:30");
    assert_eq!(scene.tick().await, 1);
    assert_eq!(scene.times("x").await, ["12:01:00", "12:02:00", "18:00:00"]);
}

async fn a_schedule_that_a_wrong_clock_sent_ahead_is_brought_back(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    scene.put(Recurring::new("x", "* * * * *", report())).await;
    scene.put(Recurring::new("y", "* * * * *", report()).ends_at(at("18:00:00"))).await;
    scene.clock.set("2036-01-01T00:00:00Z".parse().unwrap());
    assert_eq!(scene.tick().await, 2);
    scene.set("12:05:30");
    assert_eq!(scene.tick().await, 0);
    scene.worker.repair_schedules().await.unwrap();
    for name in ["x", "y"] {
        assert_eq!(scene.stored(name).await.next_run_at, Some(at("12:06:00")));
    }
    scene.set("12:06:00");
    assert_eq!(scene.tick().await, 2);
}

async fn a_lock_that_a_wrong_clock_made_endless_stops_nothing(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    scene.put(Recurring::new("x", "* * * * *", report())).await;
    let lock =
        scene.punctual.store().lock("punctual.schedules.tick".into(), "gone".into(), Duration::from_secs(86_400));
    assert!(lock.await.unwrap().is_some());
    scene.set("12:01:05");
    assert_eq!(scene.tick().await, 0, "another process holds the lock");
    scene.set("12:01:11");
    assert_eq!(scene.tick().await, 1, "the lock is free");
}
