//! All operations at the same time, as fast as possible.

use std::time::Duration;

use punctual::{
    Context, Draft, Failure, Filter, OnParentFailure, Overlap, Page, Punctual, Recurring, Status, Unique, Worker,
    Workflow,
    admin::Retention,
    core::{Limits, Rate, RetentionPolicy},
};

/// Finished jobs are removed at once.
const NOTHING_KEPT: RetentionPolicy =
    RetentionPolicy { succeeded: Duration::ZERO, dead: Duration::ZERO, cancelled: Duration::ZERO };

/// Runs jobs while it creates, changes and removes jobs, schedules and workflows.
pub(super) async fn run(url: &str) {
    let punctual = Punctual::connect(url).await.unwrap();
    let worker = Worker::builder(punctual.clone())
        .handler("x", |ctx: Context| async move {
            if fastrand::u8(..) < 50 {
                Err(Failure::new("as it happens"))
            } else {
                Ok(Some(ctx.claim().job.spec.payload.clone()))
            }
        })
        .concurrency(50)
        .retention(Some(Retention { keep: NOTHING_KEPT, ..Retention::default() }))
        .start()
        .await
        .unwrap();
    let end = tokio::time::Instant::now() + crate::load_duration();
    let enqueue = until_then(end, || enqueue_mixed(&punctual));
    let operate = until_then(end, || operate(&punctual));
    let schedule = until_then(end, || schedule(&punctual));
    let flow = until_then(end, || flow(&punctual));
    let upkeep = until_then(end, || upkeep(&punctual));
    tokio::join!(enqueue, operate, schedule, flow, upkeep);
    worker.stop().await;
}

async fn until_then<F: Future<Output = ()>>(end: tokio::time::Instant, mut work: impl FnMut() -> F) {
    while tokio::time::Instant::now() < end {
        work().await;
    }
}

/// Enqueues jobs for now, for soon and for other days, with and without both kinds of keys and users.
async fn enqueue_mixed(punctual: &Punctual) {
    let draft = |number: u32| {
        let draft = Draft::new("x", &number).queue(format!("q{}", number % 3)).priority((number % 2) as u8);
        let draft = if number.is_multiple_of(5) { draft.concurrency_key(format!("c{}", number % 7)) } else { draft };
        match number % 8 {
            0 => draft.delay(Duration::from_millis(u64::from(number % 500))),
            1 => draft.delay(Duration::from_secs(86_400 * u64::from(number % 40))),
            2 => draft.unique_key(format!("k{}", number % 50)),
            3 => draft.user("ada").tag("t"),
            4 => draft.keep_for(Duration::ZERO),
            5 => {
                let unique = Unique::key(format!("k{}", number % 50)).until_started().replace_payload().debounce();
                draft.delay(Duration::from_millis(u64::from(number % 500))).unique(unique)
            }
            _ => draft,
        }
    };
    let drafts: Vec<Draft> = (0..fastrand::usize(1..60)).map(|_| draft(fastrand::u32(..))).collect();
    punctual.enqueue_all(drafts).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// Lists some jobs and changes each of them.
async fn operate(punctual: &Punctual) {
    let admin = punctual.admin("operator");
    let statuses = [Status::Queued, Status::Scheduled, Status::Dead, Status::Processing, Status::Waiting];
    let status = statuses[fastrand::usize(..statuses.len())];
    let page = punctual.store().list(Filter::status(status), Page::first(20)).await.unwrap();
    for job in page.jobs {
        // A job whose status has changed meanwhile refuses the change.
        let _ = match fastrand::u8(..4) {
            0 => admin.cancel(job.id, None).await,
            1 => admin.retry(job.id).await,
            2 => admin.delete(job.id).await,
            _ => admin.run(job.id).await.map(drop),
        };
    }
}

/// Creates schedules that run every second, changes, triggers, backfills and deletes them. The workers tick.
async fn schedule(punctual: &Punctual) {
    let (admin, number) = (punctual.admin("scheduler"), fastrand::u32(..20));
    let name = format!("s{number}");
    let overlap = [Overlap::Allow, Overlap::Skip, Overlap::CancelPrevious][number as usize % 3];
    let job = Draft::new("x", &number).priority(fastrand::u8(..3));
    // A schedule that another process has deleted meanwhile is not found.
    let _ = match fastrand::u8(..8) {
        0 => admin.pause_schedule(&name).await,
        1 => admin.resume_schedule(&name).await,
        2 => admin.trigger_schedule(&name).await.map(drop),
        3 => {
            let now = punctual.store().now();
            admin.backfill_schedule(&name, now.before(Duration::from_secs(5)), now).await.map(drop)
        }
        4 => admin.delete_schedule(&name).await,
        _ => admin.put_schedule(Recurring::new(name, "* * * * * *", job).overlap(overlap)).await.map(drop),
    };
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// Submits, cancels and retries workflows, enqueues jobs with existing jobs as parents, pauses queues for a moment, and
/// limits them.
async fn flow(punctual: &Punctual) {
    let admin = punctual.admin("flow");
    let policy = || OnParentFailure::ALL[fastrand::usize(..4)];
    match fastrand::u8(..7) {
        0 => {
            let statuses = [Status::Queued, Status::Processing, Status::Waiting, Status::Dead, Status::Scheduled];
            let status = statuses[fastrand::usize(..statuses.len())];
            let page = punctual.store().list(Filter::status(status), Page::first(10)).await.unwrap();
            let draft = |_| Draft::new("x", &0).after(page.jobs.iter().map(|job| job.id)).on_parent_failure(policy());
            // One of the parents may have been removed meanwhile.
            let _ = punctual.enqueue_all((0..5).map(draft)).await;
        }
        1 => {
            for view in admin.workflows(None, 5).await.unwrap().workflows {
                let id = view.workflow.id;
                let _ = if fastrand::bool() {
                    admin.cancel_workflow(id, None).await.map(drop)
                } else {
                    admin.retry_workflow(id).await.map(drop)
                };
            }
        }
        2 => {
            admin.pause_queue("q0").await.unwrap();
            admin.resume_queue("q0").await.unwrap();
        }
        3 => {
            let rate = Rate { count: fastrand::u32(1..50), period: Duration::from_millis(fastrand::u64(1..500)) };
            let limits = Limits {
                concurrency: fastrand::bool().then(|| fastrand::u32(1..60)),
                rate: fastrand::bool().then_some(rate),
                key_concurrency: fastrand::bool().then(|| fastrand::u32(0..4)),
                key_rate: fastrand::bool().then_some(rate),
                fair: fastrand::bool(),
                ..Limits::default()
            };
            admin.set_queue_limits(["q1", "q2"][fastrand::usize(..2)], limits).await.unwrap();
        }
        _ => {
            let mut workflow = Workflow::new("mixed");
            for number in 0..fastrand::usize(1..12) {
                let parents: Vec<String> =
                    (0..number).filter(|_| fastrand::u8(..3) == 0).map(|parent| parent.to_string()).collect();
                workflow.job(number.to_string(), Draft::new("x", &number)).after(parents).on_parent_failure(policy());
            }
            workflow.on_complete(Draft::new("x", &0));
            punctual.submit(workflow).await.unwrap();
        }
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
}

async fn upkeep(punctual: &Punctual) {
    let store = punctual.store();
    store.expire(NOTHING_KEPT, 500).await.unwrap();
    store.purge(Duration::ZERO, 500).await.unwrap();
    store.prune(Duration::from_secs(5), 1_000).await.unwrap();
    store.promote(100).await.unwrap();
    store.maintain().await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
}
