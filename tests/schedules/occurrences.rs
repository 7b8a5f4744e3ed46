//! Which occurrences become jobs, and when.

use std::time::Duration;

use punctual::{Context, Draft, Error, JobId, Misfire, Overlap, Recurring, Status, Worker};
use punctual_tests::{TestStore, count, on_each_engine};

use crate::scene::{Scene, at, report};

on_each_engine! {
    each_misfire_policy_applies_after_three_hours
    an_occurrence_that_is_late_by_less_than_a_minute_has_not_misfired
    an_unfinished_job_is_handled_by_the_overlap_policy
    an_occurrence_is_enqueued_ahead_and_starts_on_time
    a_handler_knows_which_occurrence_it_is
    a_trigger_runs_at_once_and_leaves_the_times_alone
    a_backfill_enqueues_missing_occurrences_once
    one_that_must_wait_for_its_time_does_not_keep_others_from_being_enqueued_ahead
    more_than_one_transaction_takes_is_caught_up_with_in_parts
    several_thousand_schedules_of_the_same_second_come_in_pages
}

async fn each_misfire_policy_applies_after_three_hours(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    for (name, misfire) in [
        ("once", Misfire::RunOnce),
        ("limited", Misfire::CatchUpLimited(5)),
        ("plenty", Misfire::CatchUpLimited(1_000)),
        ("ignore", Misfire::Ignore),
    ] {
        scene.put(Recurring::new(name, "*/10 * * * *", report()).misfire(misfire)).await;
    }
    scene.set("15:05:30");
    assert_eq!(scene.tick().await, 1 + 5 + 18);
    assert_eq!(scene.times("once").await, ["15:00:00"]);
    assert_eq!(scene.times("limited").await, ["14:20:00", "14:30:00", "14:40:00", "14:50:00", "15:00:00"]);
    let plenty = scene.times("plenty").await;
    assert_eq!(plenty.len(), 18);
    assert_eq!(plenty[0].as_str(), "12:10:00");
    assert_eq!(plenty[17].as_str(), "15:00:00");
    assert!(scene.times("ignore").await.is_empty());
    // From here on all schedules are on time again.
    scene.set("15:10:00");
    assert_eq!(scene.tick().await, 4);
    for name in ["once", "limited", "plenty", "ignore"] {
        assert_eq!(scene.times(name).await.last().unwrap(), "15:10:00");
        assert_eq!(scene.stored(name).await.next_run_at, Some(at("15:20:00")));
    }
    assert_eq!(scene.tick().await, 0);
}

async fn an_occurrence_that_is_late_by_less_than_a_minute_has_not_misfired(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    scene.put(Recurring::new("steady", "*/10 * * * * *", report()).misfire(Misfire::Ignore)).await;
    scene.set("12:01:09.500");
    assert_eq!(scene.tick().await, 7, "sixty seconds of them, and one that is due within a second");
    assert_eq!(scene.times("steady").await.first().unwrap(), "12:00:10");
    scene.set("12:02:20.000001");
    assert_eq!(scene.tick().await, 0, "a microsecond too late");
    assert_eq!(scene.stored("steady").await.next_run_at, Some(at("12:02:30")));
}

async fn an_unfinished_job_is_handled_by_the_overlap_policy(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    for (name, overlap) in [("allow", Overlap::Allow), ("skip", Overlap::Skip), ("cancel", Overlap::CancelPrevious)] {
        scene.put(Recurring::new(name, "* * * * *", report()).overlap(overlap)).await;
    }
    let statuses = async |name| scene.jobs(name).await.into_iter().map(|job| job.status).collect::<Vec<Status>>();
    scene.set("12:01:00");
    assert_eq!(scene.tick().await, 3);
    // The first jobs are unfinished.
    scene.set("12:02:00");
    assert_eq!(scene.tick().await, 2);
    assert_eq!(statuses("allow").await, [Status::Queued, Status::Queued]);
    assert_eq!(statuses("skip").await, [Status::Queued]);
    assert_eq!(statuses("cancel").await, [Status::Cancelled, Status::Queued]);
    let cancelled = scene.admin.job(scene.jobs("cancel").await[0].id).await.unwrap();
    assert_eq!(cancelled.events.last().unwrap().actor.as_deref(), Some("schedule cancel"));
    // All jobs are finished.
    assert_eq!(scene.worker.run_all().await.unwrap().len(), 4);
    scene.set("12:03:00");
    assert_eq!(scene.tick().await, 3);
    assert_eq!(scene.times("skip").await, ["12:01:00", "12:03:00"]);
    assert_eq!(statuses("cancel").await, [Status::Cancelled, Status::Succeeded, Status::Queued]);
}

async fn an_occurrence_is_enqueued_ahead_and_starts_on_time(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    scene.put(Recurring::new("plain", "* * * * *", report())).await;
    scene.put(Recurring::new("spread", "* * * * *", report()).jitter(Duration::from_secs(3_600))).await;
    scene.set("12:00:58.999999");
    assert_eq!(scene.tick().await, 0);
    scene.set("12:00:59");
    assert_eq!(scene.tick().await, 2);
    let (plain, spread) = (scene.jobs("plain").await.remove(0), scene.jobs("spread").await.remove(0));
    assert_eq!(plain.status, Status::Scheduled);
    assert_eq!(plain.run_at, at("12:01:00"));
    assert_eq!(plain.queue.as_str(), "reports");
    assert_eq!(spread.scheduled_at, at("12:01:00"));
    assert!(spread.run_at > at("12:01:00") && spread.run_at <= at("13:01:00"));
    assert!(scene.worker.run_all().await.unwrap().is_empty());
    scene.set("12:01:00");
    let ran: Vec<JobId> = scene.worker.run_all().await.unwrap().into_iter().map(|ran| ran.id).collect();
    assert_eq!(ran, [plain.id]);
}

async fn a_handler_knows_which_occurrence_it_is(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    let worker = Worker::builder(scene.punctual.clone())
        .handler(
            "report",
            |ctx: Context| async move { Ok(Some(punctual::Json::of(ctx.occurrence().unwrap()).unwrap())) },
        )
        .manual()
        .unwrap();
    scene.put(Recurring::new("nightly", "@hourly", report())).await;
    scene.set("15:30:00");
    assert_eq!((scene.tick().await, worker.run_all().await.unwrap().len()), (1, 1));
    let result = scene.jobs("nightly").await[0].result_preview.clone().unwrap();
    assert_eq!((&result["schedule"], &result["at"]), (&"nightly".into(), &"2026-03-01T15:00:00.000000Z".into()));
}

async fn a_trigger_runs_at_once_and_leaves_the_times_alone(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    scene.put(Recurring::new("x", "@hourly", report()).overlap(Overlap::Skip)).await;
    scene.admin.pause_schedule("x").await.unwrap();
    let id = scene.admin.trigger_schedule("x").await.unwrap();
    let job = scene.admin.job(id).await.unwrap().job;
    assert_eq!(job.status, Status::Queued);
    assert_eq!(job.created_by.as_deref(), Some("ada"));
    assert_eq!(job.occurrence.unwrap().at, at("12:00:00"));
    let stored = scene.stored("x").await;
    assert_eq!(stored.next_run_at, Some(at("13:00:00")));
    assert_eq!(stored.last_run_at, None);
    assert_eq!(stored.last_job, Some(id));
    // The triggered job counts as the previous occurrence.
    scene.admin.resume_schedule("x").await.unwrap();
    scene.set("13:00:00");
    assert_eq!(scene.tick().await, 0);
    assert!(matches!(scene.admin.trigger_schedule("y").await, Err(Error::NoSchedule(_))));
}

async fn a_backfill_enqueues_missing_occurrences_once(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    scene.put(Recurring::new("x", "@hourly", report()).jitter(Duration::from_secs(60))).await;
    scene.set("13:00:00");
    assert_eq!(scene.tick().await, 1);
    let (since, until) = (at("09:00:00"), at("13:00:00.000001"));
    assert_eq!(scene.admin.preview_backfill("x", since, at("11:00:00")).await.unwrap().len(), 2);
    let filled = scene.admin.backfill_schedule("x", since, until).await.unwrap_err();
    assert!(filled.to_string().starts_with("until: 2026-03-01T13:00:00.000001Z is not past"), "{filled}");
    scene.set("13:30:00");
    let filled = scene.admin.backfill_schedule("x", since, until).await.unwrap();
    assert_eq!((filled.enqueued.len(), filled.existing), (4, 1));
    let again = scene.admin.backfill_schedule("x", since, until).await.unwrap();
    assert_eq!((again.enqueued.len(), again.existing), (0, 5));
    assert_eq!(scene.times("x").await, ["09:00:00", "10:00:00", "11:00:00", "12:00:00", "13:00:00"]);
    let too_many =
        scene.admin.backfill_schedule("x", at("00:00:00").before(Duration::from_secs(60 * 86_400 * 366)), until).await;
    assert!(too_many.unwrap_err().to_string().contains("more than 10000 occurrences"));
}

async fn one_that_must_wait_for_its_time_does_not_keep_others_from_being_enqueued_ahead(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    scene.put(Recurring::new("a", "* * * * *", report()).overlap(Overlap::Skip)).await;
    scene.put(Recurring::new("b", "* * * * *", report())).await;
    scene.set("12:00:59.500");
    assert_eq!(scene.tick().await, 1);
    assert_eq!(scene.times("b").await, ["12:01:00"]);
    scene.set("12:01:00");
    assert_eq!(scene.tick().await, 1);
    assert_eq!(scene.times("a").await, ["12:01:00"]);
}

async fn more_than_one_transaction_takes_is_caught_up_with_in_parts(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    let large = Draft::new("report", &"x".repeat(1_000_000));
    scene.put(Recurring::new("x", "* * * * *", large).misfire(Misfire::CatchUpLimited(40))).await;
    scene.set("14:00:30");
    assert_eq!((scene.tick().await, scene.tick().await), (40, 0));
    assert_eq!(scene.stored("x").await.revision, 4, "when it was put, and for 16, 16 and 8 jobs");
    let times = scene.times("x").await;
    assert_eq!(times.len(), 40);
    assert_eq!(times[0].as_str(), "13:21:00");
    assert_eq!(times[39].as_str(), "14:00:00");
}

async fn several_thousand_schedules_of_the_same_second_come_in_pages(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    let schedules = (0..2_100).map(|number| Recurring::new(format!("s{number:04}"), "@hourly", report()));
    scene.punctual.sync_schedules("test", schedules).await.unwrap();
    scene.set("13:00:00");
    assert_eq!(scene.tick().await, 2_100);
    assert_eq!(scene.tick().await, 0);
    assert_eq!(count(&scene.punctual, Status::Queued).await, 2_100);
}
