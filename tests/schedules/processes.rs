//! Several processes enqueue the same occurrences.

use std::{collections::BTreeMap, time::Duration};

use punctual::{Draft, Filter, Misfire, Page, Punctual, Recurring, Status, Timestamp};
use punctual_tests::{Helper, TestStore, helper, on_each_engine, until};

on_each_engine! {
    three_processes_that_are_killed_make_every_occurrence_once
}

const HELPER: Helper = helper!();

/// Three processes, one of which is killed and replaced every five seconds, and a thousand schedules that run every
/// second, for half a minute.
async fn three_processes_that_are_killed_make_every_occurrence_once(new_store: fn() -> TestStore) {
    const SCHEDULES: usize = 300;
    const ROUNDS: usize = 4;
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
    for round in 1..=ROUNDS {
        let passed = begin.after(Duration::from_secs(5 * round as u64));
        until("five seconds more of occurrences", async || {
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
    assert!(expected >= 5 * ROUNDS * SCHEDULES, "{expected}");
}

/// The next time of each schedule.
async fn cursors(punctual: &Punctual) -> BTreeMap<String, Timestamp> {
    let schedules = punctual.store().schedules(None, 10_000).await.unwrap();
    schedules.into_iter().map(|schedule| (schedule.spec.name, schedule.next_run_at.unwrap())).collect()
}
