//! Changes of schedules that no operator makes: by the program that defines them, and by Punctual itself.

use std::sync::Arc;

use punctual::{
    Context, Draft, Punctual, Recurring, Timestamp, Worker,
    core::{ManualClock, Schedule, ScheduleSave},
};
use punctual_testkit::{FaultyStore, When};
use punctual_tests::{TestStore, on_each_engine};

on_each_engine! {
    a_schedule_that_is_disabled_or_corrected_says_when_and_by_whom
    a_definition_that_the_store_refuses_removes_no_other
}

fn minutely(name: &str) -> Recurring {
    Recurring::new(name, "* * * * *", Draft::new("report", &()))
}

async fn stored(punctual: &Punctual, name: &str) -> Schedule {
    punctual.store().schedule(name.to_owned()).await.unwrap().unwrap()
}

/// Sets the clock to a time of the first of March 2026, when it starts at noon.
fn set(clock: &ManualClock, time: &str) -> Timestamp {
    let at: Timestamp = format!("2026-03-01T{time}Z").parse().unwrap();
    clock.set(at);
    at
}

async fn a_schedule_that_is_disabled_or_corrected_says_when_and_by_whom(new_store: fn() -> TestStore) {
    let test_store = new_store();
    let (punctual, clock) = test_store.connect_with_clock().await;
    let report = |_: Context| async { Ok(None) };
    let worker = Worker::builder(punctual.clone()).handler("report", report).manual().unwrap();
    let noon = set(&clock, "12:00:00");
    for name in ["broken", "ahead", "sound"] {
        punctual.admin("ada").put_schedule(minutely(name)).await.unwrap();
    }
    let mut broken = stored(&punctual, "broken").await;
    broken.spec.zone = "Atlantis/Centre".into();
    let mut ahead = stored(&punctual, "ahead").await;
    ahead.next_run_at = Some("2036-01-01T00:00:00Z".parse().unwrap());
    let save = |schedule| ScheduleSave { schedule, is_new: false, jobs: Vec::new(), done: None };
    assert_eq!(punctual.store().save_schedules(vec![save(broken), save(ahead)]).await.unwrap(), [true, true]);
    let later = set(&clock, "12:01:00");
    assert_eq!(worker.tick().await.unwrap(), 1);
    worker.repair_schedules().await.unwrap();
    let changed = async |name: &str| {
        let schedule = stored(&punctual, name).await;
        (schedule.updated_at, schedule.updated_by)
    };
    assert_eq!(changed("broken").await, (later, "punctual".to_owned()));
    assert_eq!(changed("ahead").await, (later, "punctual".to_owned()));
    // An occurrence is no change.
    assert_eq!(changed("sound").await, (noon, "ada".to_owned()));
    assert_eq!(stored(&punctual, "sound").await.last_run_at, Some(later));
}

async fn a_definition_that_the_store_refuses_removes_no_other(new_store: fn() -> TestStore) {
    let test_store = new_store();
    let punctual = test_store.connect().await;
    punctual.sync_schedules("billing", [minutely("old")]).await.unwrap();
    let faulty = FaultyStore::new(punctual.store().clone());
    faulty.fail_next("save_schedules", When::Before);
    let behind = Punctual::new(Arc::new(faulty));
    behind.sync_schedules("billing", [minutely("new")]).await.unwrap_err();
    assert!(punctual.store().schedule("new".to_owned()).await.unwrap().is_none());
    assert_eq!(stored(&punctual, "old").await.spec.owner.as_deref(), Some("billing"));
    let synced = behind.sync_schedules("billing", [minutely("new")]).await.unwrap();
    assert_eq!((synced.added, synced.removed), (vec!["new".to_owned()], vec!["old".to_owned()]));
}
