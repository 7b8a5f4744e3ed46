//! Schedules are put, changed, paused, ended, synchronised, refused.

use std::time::Duration;

use punctual::{
    Context, Error, Misfire, Recurring, Worker,
    admin::Put,
    core::{ScheduleSave, schedule::Unreadable},
};
use punctual_tests::{TestStore, on_each_engine};

use crate::scene::{Scene, at, report};

on_each_engine! {
    a_paused_schedule_makes_nothing_and_makes_up_for_nothing
    a_schedule_ends_and_records_it
    a_schedule_that_cannot_be_evaluated_is_disabled_and_stops_no_other
    a_change_of_times_moves_the_cursor_and_another_change_does_not
    definitions_of_an_owner_are_synchronised_and_others_skipped
    refused_schedules_change_nothing
    a_definition_that_cannot_be_read_stops_no_other_and_is_kept
    a_definition_whose_end_has_passed_does_not_stop_its_program
}

async fn a_paused_schedule_makes_nothing_and_makes_up_for_nothing(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    scene.put(Recurring::new("x", "* * * * *", report()).misfire(Misfire::CatchUpLimited(9))).await;
    scene.admin.pause_schedule("x").await.unwrap();
    scene.set("12:10:30");
    assert_eq!(scene.tick().await, 0);
    // It remains paused when its definition changes.
    let changed = Recurring::new("x", "*/2 * * * *", report());
    assert_eq!(scene.admin.put_schedule(changed).await.unwrap(), Put::Changed);
    assert!(!scene.stored("x").await.enabled);
    scene.admin.resume_schedule("x").await.unwrap();
    let events = scene.admin.schedule("x", 5).await.unwrap().events;
    let actual: Vec<_> = events.iter().map(|event| (event.actor.as_str(), event.action.as_str())).collect();
    assert_eq!(actual, [("ada", "resumed"), ("ada", "changed"), ("ada", "paused"), ("ada", "added")]);
    let resumed = scene.stored("x").await;
    assert_eq!((resumed.next_run_at, resumed.updated_by.as_str()), (Some(at("12:12:00")), "ada"));
    scene.admin.resume_schedule("x").await.unwrap();
    assert_eq!(scene.stored("x").await, resumed, "there was nothing to change");
    scene.set("12:12:00");
    assert_eq!(scene.tick().await, 1);
}

async fn a_schedule_ends_and_records_it(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    let schedule = Recurring::new("x", "* * * * *", report()).starts_at(at("12:05:00")).ends_at(at("12:07:00"));
    scene.put(schedule).await;
    for time in ["12:04:00", "12:05:00", "12:06:00", "12:07:00", "12:08:00"] {
        scene.set(time);
        scene.tick().await;
    }
    assert_eq!(scene.times("x").await, ["12:05:00", "12:06:00"]);
    let ended = scene.admin.schedule("x", 5).await.unwrap();
    assert_eq!(ended.schedule.next_run_at, None);
    assert_eq!(ended.upcoming.len(), 0);
    assert_eq!(ended.jobs.len(), 2);
}

async fn a_schedule_that_cannot_be_evaluated_is_disabled_and_stops_no_other(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    for name in ["a", "b", "c"] {
        scene.put(Recurring::new(name, "* * * * *", report())).await;
    }
    // As if a version had stored it that knew a time zone which no longer exists.
    let mut broken = scene.stored("b").await;
    broken.spec.zone = "Atlantis/Centre".into();
    let save = ScheduleSave { schedule: broken, is_new: false, jobs: Vec::new(), done: None };
    assert_eq!(scene.punctual.store().save_schedules(vec![save]).await.unwrap(), [true]);
    scene.set("12:01:00");
    assert_eq!(scene.tick().await, 2);
    let view = scene.admin.schedule("b", 5).await.unwrap().schedule;
    let problem = "zone: unknown time zone `Atlantis/Centre`: expected UTC, or a name such as Europe/Berlin";
    assert!(!view.enabled);
    assert_eq!(view.problem.as_deref(), Some(problem));
    assert_eq!(view.next_run_at, None);
    assert!(matches!(scene.admin.resume_schedule("b").await, Err(Error::Invalid(_))));
    // A valid definition enables it again.
    assert_eq!(scene.admin.put_schedule(Recurring::new("b", "* * * * *", report())).await.unwrap(), Put::Changed);
    assert!(scene.stored("b").await.enabled);
    scene.set("12:02:00");
    assert_eq!(scene.tick().await, 3);
}

async fn a_change_of_times_moves_the_cursor_and_another_change_does_not(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    scene.put(Recurring::new("x", "* * * * *", report())).await;
    scene.set("12:00:30");
    let put = async |schedule| scene.admin.put_schedule(schedule).await.unwrap();
    assert_eq!(put(Recurring::new("x", "* * * * *", report())).await, Put::Unchanged);
    scene.set("12:01:30");
    assert_eq!(put(Recurring::new("x", "* * * * *", report().priority(9))).await, Put::Changed);
    assert_eq!(scene.stored("x").await.next_run_at, Some(at("12:01:00")), "what was due is still due");
    assert_eq!(scene.tick().await, 1);
    assert_eq!(scene.jobs("x").await[0].priority, 9);
    assert_eq!(put(Recurring::new("x", "@daily", report()).zone("America/New_York")).await, Put::Changed);
    assert_eq!(scene.stored("x").await.next_run_at, "2026-03-02T05:00:00Z".parse().ok());
}

async fn definitions_of_an_owner_are_synchronised_and_others_skipped(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    let hourly = |name| Recurring::new(name, "@hourly", report());
    scene.put(hourly("by-hand")).await;
    scene.punctual.sync_schedules("mail", [hourly("of-mail")]).await.unwrap();
    let first = scene.punctual.sync_schedules("billing", ["a", "b", "c"].map(hourly)).await.unwrap();
    assert_eq!((first.added, first.removed.len()), (vec!["a".into(), "b".into(), "c".into()], 0));
    scene.admin.pause_schedule("a").await.unwrap();
    let second = [hourly("a"), hourly("b").zone("Europe/Berlin"), hourly("d"), hourly("by-hand"), hourly("of-mail")];
    let second = scene.punctual.sync_schedules("billing", second).await.unwrap();
    assert_eq!((second.added, second.changed), (vec!["d".into()], vec!["b".into()]));
    assert_eq!((second.removed, second.skipped), (vec!["c".into()], vec!["by-hand".into(), "of-mail".into()]));
    assert!(!scene.stored("a").await.enabled, "an operator paused it");
    assert_eq!(scene.stored("by-hand").await.spec.owner, None);
    let refused = scene.admin.put_schedule(hourly("a")).await.unwrap_err();
    assert_eq!(refused.to_string(), "schedule `a` is defined by billing; change it there");
    // A worker synchronizes its definitions at its start.
    let worker = Worker::builder(scene.punctual.clone())
        .handler("report", |_: Context| async { Ok(None) })
        .schedules("billing", [hourly("e")])
        .start()
        .await
        .unwrap();
    worker.stop().await;
    let names = scene.admin.schedules(None, 10).await.unwrap().schedules;
    assert_eq!(names.into_iter().map(|view| view.name).collect::<Vec<_>>(), ["by-hand", "e", "of-mail"]);
}

async fn refused_schedules_change_nothing(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    let good = Recurring::new("good", "@hourly", report());
    for (bad, problem) in [
        (Recurring::new("", "@hourly", report()), "schedule: must not be empty (schedule )"),
        (Recurring::new("x", "0 24 * * *", report()), "cron: hour `24`"),
        (
            Recurring::new("x", "@hourly", report().priority(11)),
            "priority: must be between 0 and 10, not 11 (schedule x)",
        ),
        (Recurring::new("x", "@hourly", report().delay(Duration::from_secs(1))), "job: has a run time"),
        (
            Recurring::new("x", "@hourly", report()).misfire(Misfire::CatchUpLimited(0)),
            "misfire: must be between 1 and 1000, not 0",
        ),
        (
            Recurring::new("x", "@hourly", report()).jitter(Duration::from_secs(86_401)),
            "jitter: must be between 0s and 1d",
        ),
        (Recurring::new("x", "@hourly", report().unique_key("k")), "unique_key: a finished job keeps its key"),
        (good.clone(), "schedule: `good` is defined twice"),
    ] {
        let refused = scene.punctual.sync_schedules("billing", [good.clone(), bad]).await.unwrap_err().to_string();
        assert!(refused.starts_with(problem), "{refused}");
    }
    assert!(scene.admin.schedules(None, 10).await.unwrap().schedules.is_empty());
    assert!(scene.admin.schedules(None, 0).await.is_err());
    for name in ["", "a\0b"] {
        assert!(matches!(scene.admin.trigger_schedule(name).await, Err(Error::Invalid(_))), "{name:?}");
        assert!(matches!(scene.admin.delete_schedule(name).await, Err(Error::Invalid(_))), "{name:?}");
    }
}

async fn a_definition_that_cannot_be_read_stops_no_other_and_is_kept(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    for name in ["a", "b"] {
        scene.put(Recurring::new(name, "* * * * *", report())).await;
    }
    // As if a later version had stored it.
    let mut strange = scene.stored("a").await;
    let text = r#"{"name": "a", "cron": {"moon": "full"}}"#.to_owned();
    strange.spec.unreadable = Some(Box::new(Unreadable { text: text.clone(), problem: String::new() }));
    let save = ScheduleSave { schedule: strange, is_new: false, jobs: Vec::new(), done: None };
    assert_eq!(scene.punctual.store().save_schedules(vec![save]).await.unwrap(), [true]);
    scene.set("12:01:00");
    assert_eq!(scene.tick().await, 1);
    let stored = scene.stored("a").await;
    assert!(!stored.enabled && stored.problem.unwrap().starts_with("definition: the stored definition cannot be read"));
    assert_eq!(stored.spec.unreadable.unwrap().text, text);
    let events = scene.admin.schedule("a", 5).await.unwrap().events;
    assert!(events[0].actor == "punctual" && events[0].action.starts_with("disabled: definition"), "{events:?}");
    scene.admin.delete_schedule("a").await.unwrap();
}

async fn a_definition_whose_end_has_passed_does_not_stop_its_program(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    let ended = || Recurring::new("x", "* * * * *", report()).ends_at(at("11:00:00"));
    assert_eq!(scene.punctual.sync_schedules("billing", [ended()]).await.unwrap().added, ["x"]);
    assert_eq!(scene.stored("x").await.next_run_at, None);
    assert!(scene.admin.put_schedule(ended()).await.is_err(), "by hand it would be a mistake");
}
