//! What tests see of a store, and conditions that they wait for.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use punctual::{Filter, JobId, Page, Punctual, Status};

/// Duration of tests that put a store under random load: `PUNCTUAL_TEST_SECONDS`, or half a minute.
pub fn load_duration() -> Duration {
    let seconds = std::env::var("PUNCTUAL_TEST_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(30))
}

/// Number of jobs with this status.
pub async fn count(punctual: &Punctual, status: Status) -> u64 {
    punctual.admin("test").overview().await.unwrap().jobs[&status]
}

/// The jobs with this status.
pub async fn ids(punctual: &Punctual, status: Status) -> BTreeSet<JobId> {
    let (mut page, mut ids) = (Page::first(1_000), BTreeSet::new());
    loop {
        let found = punctual.store().list(Filter::status(status), page.clone()).await.unwrap();
        ids.extend(found.jobs.iter().map(|job| job.id));
        match found.next {
            Some(next) => page.after = Some(next),
            None => return ids,
        }
    }
}

/// Waits until `done` returns true. Polls often, and fails with a message after five minutes.
pub async fn until<F: Future<Output = bool>>(what: &str, mut done: impl FnMut() -> F) {
    let deadline = Instant::now() + Duration::from_secs(300);
    while !done().await {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until the only worker has checked its leases, which it does before each heartbeat.
pub async fn leases_compared(punctual: &Punctual) {
    for _ in 0..2 {
        let seen_at = async || punctual.admin("test").workers().await.unwrap()[0].seen_at;
        let before = seen_at().await;
        until("a sign of life", async || seen_at().await > before).await;
    }
}
