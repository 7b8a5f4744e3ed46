//! A small varied load, so that there is something to see.

use std::time::Duration;

use anyhow::Result;
use punctual::{Draft, Punctual, RetryPolicy};
use serde_json::json;

/// Enqueues jobs that succeed, fail and recover, die, wait, and take their time; says how many.
pub(crate) async fn enqueue(punctual: &Punctual) -> Result<usize> {
    let mut jobs = Vec::new();
    let users = ["ada", "grace", "edsger"];
    for number in 0..30u64 {
        let user = users[number as usize % users.len()];
        jobs.push(Draft::new("noop", &json!({"n": number})).queue("bulk").priority((number % 11) as u8).user(user));
        jobs.push(
            Draft::new("echo", &json!({"order": number, "api_key": "k-123"})).queue("mail").tag("demo").user(user),
        );
    }
    for number in 0..10u64 {
        let sleep = Draft::new("sleep", &json!({"ms": 500 + 700 * number}));
        jobs.push(sleep.queue("media").description("takes its time").correlation_id(format!("film-{number}")));
        jobs.push(Draft::new("echo", &json!({"tick": number})).delay(Duration::from_secs(3 * number + 2)));
    }
    let soon = |seconds| RetryPolicy::fixed(Duration::from_secs(seconds));
    for number in 0..4u64 {
        let recovers = json!({"message": "connection reset", "times": 1 + number % 2});
        jobs.push(Draft::new("fail", &recovers).queue("mail").retry(soon(2 + number)).tag("flaky"));
    }
    for number in 0..3u64 {
        let dies = json!({"message": format!("no such account: {number}")});
        jobs.push(
            Draft::new("fail", &dies).queue("payments").retry(soon(1)).max_attempts(2 + number as u32).priority(9),
        );
    }
    Ok(punctual.enqueue_all(jobs).await?.len())
}
