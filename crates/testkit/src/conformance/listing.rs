use std::{collections::BTreeSet, time::Duration};

use punctual_core::{Change, Filter, JobId, Occurrence, Page, Status, StoreError, Verb};

use crate::{
    Fixture,
    fixture::{failure, success},
};

async fn ids(fx: &Fixture, filter: Filter) -> Vec<JobId> {
    let page = fx.store.list(filter, Page::first(100)).await.unwrap();
    page.jobs.into_iter().map(|job| job.id).collect()
}

/// One job of each resting status except waiting and failed, and one that is running.
async fn one_of_each(fx: &Fixture) -> Vec<(Status, JobId)> {
    let mut all = Vec::new();
    for (status, outcome) in [(Status::Succeeded, success()), (Status::Retrying, failure("x"))] {
        let id = fx.enqueue(|_| ()).await;
        let claim = fx.claim_one(fx.worker()).await;
        fx.settle(&claim, outcome).await;
        all.push((status, id));
        fx.pass(1);
    }
    let dead = fx.enqueue(|spec| spec.max_attempts = 1).await;
    let claim = fx.claim_one(fx.worker()).await;
    fx.settle(&claim, failure("x")).await;
    all.push((Status::Dead, dead));
    for (status, verb) in [(Status::Cancelled, Verb::Cancel), (Status::Deleted, Verb::Delete)] {
        fx.pass(1);
        let job = fx.enqueue(|_| ()).await;
        fx.store.change(vec![Change { job, verb, actor: "a".into(), reason: None }]).await.unwrap();
        all.push((status, job));
    }
    all.push((Status::Processing, fx.enqueue(|_| ()).await));
    fx.claim_one(fx.worker()).await;
    all.push((Status::Queued, fx.enqueue(|_| ()).await));
    all.push((Status::Scheduled, fx.enqueue_in(3_600, |_| ()).await));
    all
}

pub async fn lists_come_in_the_order_of_their_kind(fx: &Fixture) {
    let all = one_of_each(fx).await;
    for (status, id) in &all {
        assert_eq!(ids(fx, Filter::status(*status)).await, [*id], "{status}");
        assert_eq!(fx.job(*id).await.status, *status);
    }
    let of = |wanted: &[Status]| Filter { statuses: wanted.to_vec(), ..Filter::default() };
    let id = |status: Status| all.iter().find(|(is, _)| *is == status).unwrap().1;
    use Status::*;
    assert_eq!(ids(fx, of(&[Succeeded, Dead, Cancelled])).await, [id(Cancelled), id(Dead), id(Succeeded)]);
    assert_eq!(
        ids(fx, of(&[Scheduled, Queued, Processing, Retrying])).await,
        [id(Processing), id(Queued), id(Retrying), id(Scheduled)]
    );
    let mut newest: Vec<_> = all.iter().map(|(_, id)| *id).filter(|job| *job != id(Deleted)).collect();
    newest.sort();
    newest.reverse();
    assert_eq!(ids(fx, Filter::default()).await, newest);
}

pub async fn lists_are_paged_without_gaps_or_repeats(fx: &Fixture) {
    for round in 0..3 {
        let queue = ["a", "b", "c"][round].to_owned();
        fx.enqueue_all((0..7).map(|n| fx.new_job(|spec| (spec.queue, spec.priority) = (queue.clone(), n))).collect())
            .await;
        fx.enqueue_all((0..7).map(|n| fx.new_job_in(n + 60, |_| ())).collect()).await;
        fx.pass(1);
    }
    for claim in fx.claim(fx.worker(), 9).await.into_iter().take(6) {
        fx.settle(&claim, success()).await;
    }
    use Status::*;
    let filters: [&[Status]; 7] = [
        &[],
        &[Queued],
        &[Scheduled],
        &[Succeeded],
        &[Queued, Scheduled, Processing],
        &[Succeeded, Dead],
        &[Queued, Succeeded],
    ];
    for statuses in filters {
        let filter = Filter { statuses: statuses.to_vec(), ..Filter::default() };
        let whole = ids(fx, filter.clone()).await;
        for limit in [1, 4, 5] {
            let (mut pages, mut page) = (Vec::new(), Page::first(limit));
            loop {
                let found = fx.store.list(filter.clone(), page.clone()).await.unwrap();
                assert!(found.jobs.len() <= limit);
                pages.extend(found.jobs.into_iter().map(|job| job.id));
                match found.next {
                    Some(next) => page.after = Some(next),
                    None => break,
                }
            }
            assert_eq!(pages, whole, "{statuses:?} by {limit}");
        }
    }
}

pub async fn a_page_finds_jobs_that_are_far_between(fx: &Fixture) {
    // Scheduled jobs, queued ones, and some that have ended: one of fifty belongs to another user.
    for (user, delay, ends) in [("ada", 60, false), ("eve", 0, false), ("joe", 0, true)] {
        let of = |n| Some(if n % 50 == 0 { user } else { "bob" }.to_owned());
        let jobs = (0..100).map(|n| fx.new_job_in(delay, |spec| spec.user_id = of(n)));
        let jobs = fx.enqueue_all(jobs.collect()).await;
        if ends {
            let cancel = |job: &JobId| Change { job: *job, verb: Verb::Cancel, actor: "a".into(), reason: None };
            fx.store.change(jobs.iter().map(cancel).collect()).await.unwrap();
        }
        for statuses in [vec![fx.job(jobs[0]).await.status], vec![]] {
            let filter = Filter { statuses, user_id: Some(user.into()), ..Filter::default() };
            let page = fx.store.list(filter.clone(), Page::first(3)).await.unwrap();
            let found: BTreeSet<_> = page.jobs.into_iter().map(|job| job.id).collect();
            assert_eq!(found, BTreeSet::from([jobs[0], jobs[50]]), "{filter:?}");
        }
    }
}

pub async fn a_tag_that_is_named_twice_finds_its_job_once(fx: &Fixture) {
    let job = fx.enqueue(|spec| spec.options.tags = ["vip", "VIP", "vip"].map(str::to_owned).to_vec()).await;
    for tag in ["vip", "VIP"] {
        assert_eq!(ids(fx, Filter { tag: Some(tag.to_owned()), ..Filter::default() }).await, [job]);
    }
}

pub async fn lists_filter_by_every_field(fx: &Fixture) {
    let wanted = fx
        .enqueue(|spec| {
            (spec.queue, spec.name) = ("mail".into(), "send".into());
            (spec.user_id, spec.correlation_id) = (Some("ada".into()), Some("order-1".into()));
            spec.options.tags = vec!["vip".into(), "eu".into()];
            spec.options.occurrence = Some(Occurrence { schedule: "nightly".into(), at: fx.now() });
        })
        .await;
    fx.enqueue_all((0..5).map(|_| fx.new_job(|_| ())).collect()).await;
    let text = |text: &str| Some(text.to_owned());
    let filters = [
        Filter { queue: text("mail"), ..Filter::default() },
        Filter { name: text("send"), ..Filter::default() },
        Filter { user_id: text("ada"), ..Filter::default() },
        Filter { correlation_id: text("order-1"), ..Filter::default() },
        Filter { tag: text("eu"), ..Filter::default() },
        Filter { schedule: text("nightly"), ..Filter::default() },
    ];
    for statuses in [vec![], vec![Status::Queued], vec![Status::Queued, Status::Dead]] {
        for filter in &filters {
            let filter = Filter { statuses: statuses.clone(), ..filter.clone() };
            assert_eq!(ids(fx, filter.clone()).await, [wanted], "{filter:?}");
        }
        let all = Filter {
            statuses: statuses.clone(),
            queue: text("mail"),
            name: text("send"),
            user_id: text("ada"),
            correlation_id: text("order-1"),
            tag: text("vip"),
            schedule: text("nightly"),
            since: Some(fx.now()),
            until: Some(fx.now().after(Duration::from_micros(1))),
        };
        assert_eq!(ids(fx, all.clone()).await, [wanted]);
        assert!(ids(fx, Filter { until: Some(fx.now()), ..all.clone() }).await.is_empty());
        let later = Some(fx.now().after(Duration::from_micros(1)));
        assert!(ids(fx, Filter { since: later, until: None, ..all.clone() }).await.is_empty());
        assert!(ids(fx, Filter { tag: text("us"), ..all.clone() }).await.is_empty());
        assert!(ids(fx, Filter { schedule: text("daily"), ..all }).await.is_empty());
    }
    for claim in fx.claim(fx.worker(), 10).await {
        fx.settle(&claim, success()).await;
    }
    for filter in filters {
        let filter = Filter { statuses: vec![Status::Succeeded], ..filter };
        assert_eq!(ids(fx, filter.clone()).await, [wanted], "{filter:?}");
    }
}

pub async fn a_foreign_cursor_is_refused(fx: &Fixture) {
    fx.enqueue(|_| ()).await;
    for status in [None, Some(Status::Queued), Some(Status::Dead)] {
        let filter = status.map_or_else(Filter::default, Filter::status);
        let page = Page { limit: 1, after: Some("'nonsense\0".into()) };
        let refused = fx.store.list(filter, page).await.unwrap_err();
        assert!(matches!(refused, StoreError::BadCursor(_)), "{refused}");
    }
}

pub async fn deleted_jobs_are_listed_only_on_request(fx: &Fixture) {
    let job = fx.enqueue(|_| ()).await;
    fx.store.change(vec![Change { job, verb: Verb::Delete, actor: "a".into(), reason: None }]).await.unwrap();
    assert!(ids(fx, Filter::default()).await.is_empty());
    assert_eq!(ids(fx, Filter::status(Status::Deleted)).await, [job]);
}
