//! A small, varied demo load, so that every page of the dashboard has content.

use std::time::Duration;

use anyhow::Result;
use punctual::{
    Draft, Punctual, Recurring, RetryPolicy, Workflow,
    core::{Json, NewNotification},
};
use serde_json::json;

use crate::config::actor;

/// Enqueues jobs that succeed, retry, die, wait and run slowly, alone, in workflows and by schedules; returns their
/// number.
pub(crate) async fn enqueue(punctual: &Punctual) -> Result<usize> {
    let jobs = jobs();
    let count = punctual.enqueue_all(jobs).await?.len();
    for workflow in [nightly(), import()] {
        punctual.submit(workflow).await?;
    }
    let admin = punctual.admin(actor());
    for schedule in schedules() {
        admin.put_schedule(schedule).await?;
    }
    admin.change_queue_limits("mail", |limits| limits.concurrency = Some(4)).await?;
    for (user, text) in [(Some("ada"), "your film is ready"), (None, "there is a new version tonight")] {
        let message = Json::of(&json!({ "text": text }))?;
        punctual.send_notification(NewNotification { user_id: user.map(str::to_owned), message, job: None }).await?;
    }
    Ok(count)
}

fn soon(seconds: u64) -> RetryPolicy {
    RetryPolicy::fixed(Duration::from_secs(seconds))
}

fn jobs() -> Vec<Draft> {
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
    jobs
}

/// A workflow that succeeds, slowly enough to be watched.
fn nightly() -> Workflow {
    let sleep = |ms: u64| Draft::new("sleep", &json!({ "ms": ms })).queue("media");
    let mut workflow = Workflow::new("nightly");
    workflow.job("extract", sleep(2_000));
    workflow.job("resize", sleep(6_000)).after(["extract"]);
    workflow.job("index", sleep(9_000)).after(["extract"]);
    workflow.job("thumbnails", sleep(4_000)).after(["resize"]);
    workflow.job("publish", Draft::new("echo", &json!({"pages": 12}))).after(["thumbnails", "index"]);
    workflow.on_complete(Draft::new("noop", &json!({})));
    workflow
}

/// A workflow of which a part fails.
fn import() -> Workflow {
    let mut workflow = Workflow::new("import");
    workflow.job("download", Draft::new("echo", &json!({"rows": 1_000})));
    let broken = Draft::new("fail", &json!({"message": "row 17 has no price"})).max_attempts(1);
    workflow.job("check", broken).after(["download"]);
    workflow.job("store", Draft::new("noop", &json!({}))).after(["check"]);
    workflow
}

fn schedules() -> [Recurring; 2] {
    let report = Draft::new("echo", &json!({"report": "sales"})).queue("bulk");
    let pulse = Draft::new("noop", &json!({})).queue("bulk");
    [
        Recurring::new("sales-report", "0 7 * * 1-5", report)
            .zone("Europe/Berlin")
            .description("for those who come in early"),
        Recurring::new("pulse", "* * * * *", pulse).description("every minute, for demonstration"),
    ]
}
