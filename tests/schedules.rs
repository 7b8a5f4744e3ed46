//! Schedules, from their definition to the jobs that they enqueue.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{collections::BTreeMap, time::Duration};

use punctual::{
    Admin, Context, Draft, Error, Filter, JobId, ManualClock, ManualWorker, Misfire, Overlap, Page, Punctual,
    Recurring, Status, Timestamp, Worker,
    admin::{JobView, Put},
    core::{Schedule, ScheduleSave, schedule::Unreadable},
};
use punctual_tests::{Helper, TestStore, count, helper, on_each_engine, until};

const HELPER: Helper = helper!();

on_each_engine! {
    each_misfire_policy_applies_after_three_hours
    an_occurrence_that_is_late_by_less_than_a_minute_has_not_misfired
    an_unfinished_job_is_handled_by_the_overlap_policy
    an_occurrence_is_enqueued_ahead_and_starts_on_time
    a_handler_knows_which_occurrence_it_is
    a_paused_schedule_makes_nothing_and_makes_up_for_nothing
    a_schedule_ends_and_records_it
    a_schedule_that_cannot_be_evaluated_is_disabled_and_stops_no_other
    a_trigger_runs_at_once_and_leaves_the_times_alone
    a_backfill_enqueues_missing_occurrences_once
    a_clock_that_jumps_makes_no_occurrence_twice
    a_change_of_times_moves_the_cursor_and_another_change_does_not
    definitions_of_an_owner_are_synchronised_and_others_left_alone
    refused_schedules_change_nothing
    a_definition_that_cannot_be_read_stops_no_other_and_is_kept
    a_definition_whose_end_has_passed_does_not_stop_its_program
    one_that_must_wait_for_its_time_does_not_keep_others_from_being_enqueued_ahead
    a_schedule_that_a_wrong_clock_sent_ahead_is_brought_back
    a_lock_that_a_wrong_clock_made_endless_stops_nothing
    more_than_one_transaction_takes_is_caught_up_with_in_parts
    several_thousand_schedules_of_the_same_second_come_in_pages
    three_processes_that_are_killed_make_every_occurrence_once
}

/// A store, its clock, and a manual worker.
struct Scene {
    punctual: Punctual,
    admin: Admin,
    clock: ManualClock,
    worker: ManualWorker,
    _test_store: TestStore,
}

impl Scene {
    async fn new(new_store: fn() -> TestStore) -> Self {
        let test_store = new_store();
        let (punctual, clock) = test_store.connect_with_clock().await;
        let worker =
            Worker::builder(punctual.clone()).handler("report", |_: Context| async { Ok(None) }).manual().unwrap();
        Self { admin: punctual.admin("ada"), punctual, clock, worker, _test_store: test_store }
    }

    fn set(&self, time: &str) {
        self.clock.set(at(time));
    }

    async fn put(&self, schedule: Recurring) {
        assert_eq!(self.admin.put_schedule(schedule).await.unwrap(), Put::Added);
    }

    async fn tick(&self) -> usize {
        self.worker.tick().await.unwrap()
    }

    /// The jobs of a schedule, oldest first.
    async fn jobs(&self, schedule: &str) -> Vec<JobView> {
        let filter = Filter { schedule: Some(schedule.to_owned()), ..Filter::default() };
        let mut jobs = self.admin.jobs(filter, Page::first(1_000)).await.unwrap().jobs;
        jobs.reverse();
        jobs
    }

    /// The scheduled times of the jobs of a schedule.
    async fn times(&self, schedule: &str) -> Vec<String> {
        let jobs = self.jobs(schedule).await;
        jobs.iter().map(|job| job.occurrence.as_ref().unwrap().at.to_string()[11..19].to_owned()).collect()
    }

    async fn stored(&self, name: &str) -> Schedule {
        self.punctual.store().schedule(name.to_owned()).await.unwrap().unwrap()
    }
}

/// A time on the first of March 2026, when the clock of every test starts at noon.
fn at(time: &str) -> Timestamp {
    format!("2026-03-01T{time}Z").parse().unwrap()
}

fn report() -> Draft {
    Draft::new("report", &"all").queue("reports")
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
    assert_eq!((plenty.len(), plenty[0].as_str(), plenty[17].as_str()), (18, "12:10:00", "15:00:00"));
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
    assert_eq!((plain.status, plain.run_at, plain.queue.as_str()), (Status::Scheduled, at("12:01:00"), "reports"));
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
    assert_eq!((ended.schedule.next_run_at, ended.upcoming.len(), ended.jobs.len()), (None, 0, 2));
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
    assert_eq!((view.enabled, view.problem.as_deref(), view.next_run_at), (false, Some(problem), None));
    assert!(matches!(scene.admin.resume_schedule("b").await, Err(Error::Invalid(_))));
    // A valid definition enables it again.
    assert_eq!(scene.admin.put_schedule(Recurring::new("b", "* * * * *", report())).await.unwrap(), Put::Changed);
    assert!(scene.stored("b").await.enabled);
    scene.set("12:02:00");
    assert_eq!(scene.tick().await, 3);
}

async fn a_trigger_runs_at_once_and_leaves_the_times_alone(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    scene.put(Recurring::new("x", "@hourly", report()).overlap(Overlap::Skip)).await;
    scene.admin.pause_schedule("x").await.unwrap();
    let id = scene.admin.trigger_schedule("x").await.unwrap();
    let job = scene.admin.job(id).await.unwrap().job;
    assert_eq!(
        (job.status, job.created_by.as_deref(), job.occurrence.unwrap().at),
        (Status::Queued, Some("ada"), at("12:00:00"))
    );
    let stored = scene.stored("x").await;
    assert_eq!((stored.next_run_at, stored.last_run_at, stored.last_job), (Some(at("13:00:00")), None, Some(id)));
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

async fn definitions_of_an_owner_are_synchronised_and_others_left_alone(new_store: fn() -> TestStore) {
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
    assert_eq!((second.removed, second.left_alone), (vec!["c".into()], vec!["by-hand".into(), "of-mail".into()]));
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

async fn more_than_one_transaction_takes_is_caught_up_with_in_parts(new_store: fn() -> TestStore) {
    let scene = Scene::new(new_store).await;
    let large = Draft::new("report", &"x".repeat(1_000_000));
    scene.put(Recurring::new("x", "* * * * *", large).misfire(Misfire::CatchUpLimited(40))).await;
    scene.set("14:00:30");
    assert_eq!((scene.tick().await, scene.tick().await), (40, 0));
    assert_eq!(scene.stored("x").await.revision, 4, "when it was put, and for 16, 16 and 8 jobs");
    let times = scene.times("x").await;
    assert_eq!((times.len(), times[0].as_str(), times[39].as_str()), (40, "13:21:00", "14:00:00"));
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

/// Three processes, one of which is killed and replaced every ten seconds, and a thousand schedules that run every
/// second, for a minute.
async fn three_processes_that_are_killed_make_every_occurrence_once(new_store: fn() -> TestStore) {
    const SCHEDULES: usize = 1_000;
    let test_store = new_store();
    let punctual = test_store.connect().await;
    // No occurrence is skipped, however slow the machine is.
    let every_second = (0..SCHEDULES).map(|number| {
        let schedule = Recurring::new(format!("s{number:04}"), "* * * * * *", Draft::new("fast", &()));
        schedule.misfire(Misfire::CatchUpLimited(1_000))
    });
    punctual.sync_schedules("test", every_second).await.unwrap();
    let store = punctual.store();
    let first: BTreeMap<String, Timestamp> = cursors(&punctual).await;
    let begin = store.now();
    let mut workers: Vec<_> = (0..3).map(|_| HELPER.start_worker(&test_store, 5_000)).collect();
    for round in 1..=6u64 {
        let passed = begin.after(Duration::from_secs(10 * round));
        until("ten seconds more of occurrences", async || {
            store.upcoming(None, Timestamp::MAX, 1).await.unwrap()[0].next_run_at.unwrap() > passed
        })
        .await;
        workers.remove(0).kill();
        workers.push(HELPER.start_worker(&test_store, 5_000));
    }
    drop(workers);
    let last = cursors(&punctual).await;
    let mut jobs: BTreeMap<(String, Timestamp), usize> = BTreeMap::new();
    let (filter, mut page) = (Filter { statuses: Status::ALL.to_vec(), ..Filter::default() }, Page::first(1_000));
    loop {
        let found = store.list(filter.clone(), page.clone()).await.unwrap();
        for job in found.jobs {
            let occurrence = job.spec.options.occurrence.unwrap();
            *jobs.entry((occurrence.schedule, occurrence.at)).or_default() += 1;
        }
        let Some(next) = found.next else { break };
        page.after = Some(next);
    }
    let mut expected = 0;
    for (name, first) in first {
        let mut second = first;
        while second < last[&name] {
            assert_eq!(jobs.get(&(name.clone(), second)), Some(&1), "{name} at {second}");
            expected += 1;
            second = second.after(Duration::from_secs(1));
        }
    }
    assert_eq!(jobs.len(), expected, "there is no other");
    assert!(expected >= 60 * SCHEDULES, "{expected}");
}

/// The next time of each schedule.
async fn cursors(punctual: &Punctual) -> BTreeMap<String, Timestamp> {
    let schedules = punctual.store().schedules(None, 10_000).await.unwrap();
    schedules.into_iter().map(|schedule| (schedule.spec.name, schedule.next_run_at.unwrap())).collect()
}
