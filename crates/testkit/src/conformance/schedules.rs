//! Schedules and their cursors.

use std::time::Duration;

use punctual_core::{
    Filter, Json, Misfire, NewJob, Overlap, Page, Schedule, ScheduleId, ScheduleSave, ScheduleSpec, Spec, Status,
    Timestamp,
};

use crate::Fixture;

fn schedule(fx: &Fixture, name: &str) -> Schedule {
    let job = Spec::new("report", Json::trusted(r#"{"n": 1}"#));
    Schedule {
        id: ScheduleId::from_bits(fx.worker().to_bits()),
        spec: ScheduleSpec::new(name, "* * * * *", job),
        enabled: true,
        problem: None,
        revision: 0,
        last_run_at: None,
        next_run_at: Some(fx.now().after(Duration::from_secs(60))),
        last_job: None,
        created_at: fx.now(),
        updated_at: fx.now(),
        updated_by: "ada".into(),
    }
}

async fn save(fx: &Fixture, schedule: &Schedule, is_new: bool, jobs: Vec<NewJob>) -> bool {
    let save = ScheduleSave { schedule: schedule.clone(), is_new, jobs, done: None };
    fx.store.save_schedules(vec![save]).await.unwrap() == [true]
}

async fn find(fx: &Fixture, name: &str) -> Schedule {
    fx.store.schedule(name.into()).await.unwrap().unwrap()
}

fn names(schedules: &[Schedule]) -> Vec<&str> {
    schedules.iter().map(|schedule| schedule.spec.name.as_str()).collect()
}

pub async fn a_schedule_is_read_back_as_it_was_saved(fx: &Fixture) {
    let mut job = Spec::new("отчёт", Json::trusted(r#"{"a":  [1, "é\u0000"]}"#));
    (job.queue, job.priority, job.max_attempts) = ("reports".into(), 9, 7);
    (job.timeout, job.keep_for) = (Duration::from_millis(1_234), Some(Duration::from_secs(5)));
    job.options.tags = vec!["vip".into()];
    let spec = ScheduleSpec {
        zone: "Europe/Berlin".into(),
        misfire: Misfire::CatchUpLimited(3),
        overlap: Overlap::CancelPrevious,
        jitter: Duration::from_secs(90),
        starts_at: Some(fx.now()),
        ends_at: Some(Timestamp::MAX),
        description: Some("each night".into()),
        owner: Some("billing".into()),
        ..ScheduleSpec::new("nightly 🌙", "0 30 2 * * MON#2", job)
    };
    let full = Schedule {
        spec,
        enabled: false,
        problem: Some("no such zone".into()),
        last_run_at: Some(fx.now()),
        last_job: Some(fx.new_job(|_| ()).id),
        ..schedule(fx, "x")
    };
    let bare = Schedule { next_run_at: None, ..schedule(fx, "bare") };
    for one in [full, bare] {
        assert!(save(fx, &one, true, Vec::new()).await);
        assert_eq!(find(fx, &one.spec.name).await, Schedule { revision: 1, ..one });
    }
    assert_eq!(fx.store.schedule("other".into()).await.unwrap(), None);
}

pub async fn schedules_are_listed_by_name_in_pages(fx: &Fixture) {
    for name in ["b", "a", "d", "c"] {
        assert!(save(fx, &schedule(fx, name), true, Vec::new()).await);
    }
    assert_eq!(names(&fx.store.schedules(None, 3).await.unwrap()), ["a", "b", "c"]);
    assert_eq!(names(&fx.store.schedules(Some("c".into()), 3).await.unwrap()), ["d"]);
}

pub async fn upcoming_schedules_come_soonest_first_without_those_that_do_not_run(fx: &Fixture) {
    let at = |seconds| Some(fx.now().after(Duration::from_secs(seconds)));
    for (name, enabled, next_run_at) in [
        ("late", true, at(300)),
        ("soon", true, at(60)),
        ("also-soon", true, at(60)),
        ("paused", false, at(1)),
        ("over", true, None),
    ] {
        let one = Schedule { enabled, next_run_at, ..schedule(fx, name) };
        assert!(save(fx, &one, true, Vec::new()).await);
    }
    assert_eq!(names(&fx.store.upcoming(None, Timestamp::MAX, 10).await.unwrap()), ["also-soon", "soon", "late"]);
    assert_eq!(names(&fx.store.upcoming(None, Timestamp::MAX, 1).await.unwrap()), ["also-soon"]);
    let after = at(60).map(|at| (at, "also-soon".to_owned()));
    assert_eq!(names(&fx.store.upcoming(after.clone(), Timestamp::MAX, 10).await.unwrap()), ["soon", "late"]);
    assert_eq!(names(&fx.store.upcoming(after, at(60).unwrap(), 10).await.unwrap()), ["soon"]);
}

pub async fn a_schedule_and_its_jobs_are_stored_together_or_not_at_all(fx: &Fixture) {
    assert!(save(fx, &schedule(fx, "nightly"), true, Vec::new()).await);
    let seen = find(fx, "nightly").await;
    let at = seen.next_run_at.unwrap();
    let job = |second| seen.spec.occurrence(at.after(Duration::from_secs(second)));
    // Two processes have read the same revision; one saves first.
    let moved = Schedule { last_run_at: Some(at), next_run_at: None, ..seen.clone() };
    assert!(save(fx, &moved, false, vec![job(1)]).await);
    assert!(!save(fx, &Schedule { enabled: false, ..seen.clone() }, false, vec![job(2)]).await);
    assert_eq!(find(fx, "nightly").await, Schedule { revision: seen.revision + 1, ..moved });
    assert!(fx.store.get(job(1).id).await.unwrap().is_some());
    assert!(fx.store.get(job(2).id).await.unwrap().is_none());
    // A schedule of this name exists already; one that was removed and created again is a different one.
    assert!(!save(fx, &schedule(fx, "nightly"), true, vec![job(3)]).await);
    assert!(fx.store.remove_schedule("nightly".into(), "ada".into()).await.unwrap());
    assert!(save(fx, &schedule(fx, "nightly"), true, Vec::new()).await);
    assert!(!save(fx, &seen, false, vec![job(4)]).await);
    assert!(fx.store.get(job(3).id).await.unwrap().is_none());
    assert!(fx.store.get(job(4).id).await.unwrap().is_none());
}

pub async fn of_several_schedules_those_are_stored_that_were_not_changed_meanwhile(fx: &Fixture) {
    let saves = ["a", "b", "c"].map(|name| ScheduleSave {
        schedule: schedule(fx, name),
        is_new: true,
        done: None,
        jobs: vec![fx.new_job(|spec| spec.user_id = Some(name.into()))],
    });
    assert!(save(fx, &saves[1].schedule, true, Vec::new()).await);
    assert_eq!(fx.store.save_schedules(saves.to_vec()).await.unwrap(), [true, false, true]);
    for (save, stored) in saves.iter().zip([true, false, true]) {
        assert_eq!(fx.store.get(save.jobs[0].id).await.unwrap().is_some(), stored);
    }
}

pub async fn an_occurrence_is_enqueued_once_and_waits_for_its_time_and_jitter(fx: &Fixture) {
    let spec = ScheduleSpec { jitter: Duration::from_secs(600), ..schedule(fx, "nightly").spec };
    let at = fx.now().after(Duration::from_secs(60));
    let (one, again) = (spec.occurrence(at), spec.occurrence(at));
    assert!(!fx.store.enqueue(vec![one.clone()]).await.unwrap()[0].existing);
    assert!(fx.store.enqueue(vec![again]).await.unwrap()[0].existing);
    let job = fx.job(one.id).await;
    assert_eq!((job.status, job.scheduled_at()), (Status::Scheduled, at));
    assert_eq!(job.run_at, at.after(one.delay.unwrap()));
    assert!(job.run_at > at && job.run_at <= at.after(spec.jitter));
    assert_eq!(job.spec, spec.job_at(at));
    fx.clock.set(job.run_at.before(Duration::from_micros(1)));
    assert!(fx.claim(fx.worker(), 1).await.is_empty());
    fx.clock.set(job.run_at);
    assert_eq!(fx.claim_one(fx.worker()).await.job.id, one.id);
}

pub async fn jobs_are_listed_by_their_schedule_after_its_removal(fx: &Fixture) {
    let (a, b) = (schedule(fx, "a"), schedule(fx, "b"));
    let minute = |number: u64| fx.now().after(Duration::from_secs(60 * number));
    let jobs = |of: &Schedule| (1..=3).map(|number| of.spec.occurrence(minute(number))).collect::<Vec<_>>();
    assert!(save(fx, &a, true, jobs(&a)).await);
    assert!(save(fx, &b, true, jobs(&b)).await);
    assert!(fx.store.remove_schedule("a".into(), "ada".into()).await.unwrap());
    assert!(!fx.store.remove_schedule("a".into(), "ada".into()).await.unwrap());
    let filter = Filter { schedule: Some("a".into()), ..Filter::default() };
    let listed = fx.store.list(filter, Page::first(10)).await.unwrap().jobs;
    let ids: Vec<_> = listed.iter().map(|job| job.id).collect();
    let newest_first: Vec<_> = jobs(&a).iter().rev().map(|job| job.id).collect();
    assert_eq!(ids, newest_first);
}

pub async fn events_of_a_schedule_are_kept_after_its_removal(fx: &Fixture) {
    let mut one = schedule(fx, "a");
    let saved = async |one: &Schedule, what: &str| {
        let save = ScheduleSave {
            schedule: one.clone(),
            is_new: one.revision == 0,
            jobs: Vec::new(),
            done: Some(what.into()),
        };
        fx.store.save_schedules(vec![save]).await.unwrap() == [true]
    };
    assert!(saved(&one, "added").await);
    fx.pass(60);
    (one.revision, one.updated_by) = (1, "bob".into());
    assert!(saved(&one, "paused").await);
    assert!(!saved(&one, "too late").await);
    (one.revision, one.updated_by) = (2, "tick".into());
    assert!(save(fx, &one, false, Vec::new()).await, "what moves by itself is no event");
    assert!(save(fx, &schedule(fx, "b"), true, Vec::new()).await);
    fx.pass(60);
    assert!(fx.store.remove_schedule("a".into(), "eve".into()).await.unwrap());
    let events = fx.store.schedule_events("a".into(), 10).await.unwrap();
    let actual: Vec<_> = events.iter().map(|event| (event.actor.as_str(), event.action.as_str())).collect();
    assert_eq!(actual, [("eve", "removed"), ("bob", "paused"), ("ada", "added")]);
    assert_eq!(events[0].at.since(events[2].at), Duration::from_secs(120));
    assert_eq!(fx.store.schedule_events("a".into(), 1).await.unwrap(), events[..1]);
    assert!(fx.store.schedule_events("b".into(), 10).await.unwrap().is_empty());
}
