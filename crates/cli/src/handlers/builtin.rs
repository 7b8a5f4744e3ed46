//! Built-in handlers for tests and demos: `noop`, `echo`, `sleep`, `fail`.

use std::time::Duration;

use punctual::{Context, Failure, HandlerResult, WorkerBuilder};
use serde_json::Value;
use tokio::time::{self, Instant};

use crate::format;

/// Adds the built-in handlers, except those that the configuration replaces.
pub(crate) fn built_in(mut worker: WorkerBuilder, is_replaced: impl Fn(&str) -> bool) -> WorkerBuilder {
    if !is_replaced("noop") {
        worker = worker.handler("noop", |_: Context| async { Ok(None) });
    }
    if !is_replaced("echo") {
        worker = worker.handler("echo", |ctx: Context| async move { Ok(Some(ctx.claim().job.spec.payload.clone())) });
    }
    if !is_replaced("sleep") {
        worker = worker.handler("sleep", sleep);
    }
    if !is_replaced("fail") {
        worker = worker.handler("fail", fail);
    }
    worker
}

fn payload(ctx: &Context) -> Value {
    ctx.claim().job.spec.payload.read().unwrap_or_default()
}

/// Sleeps for `{"ms": 500}` and reports its progress.
async fn sleep(ctx: Context) -> HandlerResult {
    let total = Duration::from_millis(payload(&ctx)["ms"].as_u64().unwrap_or(1_000));
    let (start, signal) = (Instant::now(), ctx.signal());
    ctx.info(format!("sleeping for {}", format::in_words(total)));
    while start.elapsed() < total {
        let step = Duration::from_secs(1).min(total - start.elapsed());
        if signal.run_until_cancelled(time::sleep(step)).await.is_none() {
            return Err(Failure::new("stopped"));
        }
        ctx.progress(100.0 * start.elapsed().as_secs_f32() / total.as_secs_f32(), "asleep");
    }
    Ok(None)
}

/// Fails with `{"message": "…"}`; with `{"times": 2}` only in the first two attempts.
async fn fail(ctx: Context) -> HandlerResult {
    let payload = payload(&ctx);
    let message = payload["message"].as_str().unwrap_or("failed as requested").to_owned();
    if payload["times"].as_u64().is_some_and(|times| u64::from(ctx.attempt()) > times) {
        ctx.info("enough failures, succeeding now");
        return Ok(None);
    }
    ctx.warn("about to fail");
    Err(Failure::new(message))
}
