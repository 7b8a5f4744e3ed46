//! Runs one job: a pipeline with one branch for each way in which it can end.

use std::{any::Any, future, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use punctual_client::{Context, Failure};
use punctual_core::{
    Claim, JobError, Outcome, Retry,
    job::{E_LOST, E_PANIC},
    settle,
    time::in_words,
};
use tokio::time::{self, Instant};
use tracing::{Instrument, Span};

use crate::{
    isolation::Share,
    outbox::Ended,
    registry::{HandlerFuture, HandlerResult, check_result},
    running::{Begun, Execution},
    shared::Shared,
    slot::ExecutionSlot,
    span,
};

/// How far ahead of its scheduled time a job may be claimed: long enough for the claim to be stored under load.
pub(crate) const AHEAD: Duration = Duration::from_millis(50);

/// How much longer than the grace period to wait for the handler of an older execution.
const OLDER_SLACK: Duration = Duration::from_secs(1);

/// How long a job that must run alone blocks the start of others, and how long others may then run.
const ALONE_MAX_WAIT: Duration = Duration::from_secs(10);
const ALONE_SNOOZE: Duration = Duration::from_secs(60);

/// Runs a claimed job and passes its outcome to the settler. The slot is released when the handler has ended.
///
/// The outcome is passed on when the handler has ended or its grace period is over: until then the lease is renewed,
/// and the job counts in its limits. The handler of a cancelled job occupies its slot in a limit until it has ended,
/// but at most until its lease expires; its end is also reported by way of the settler.
pub(crate) async fn execute(shared: Arc<Shared>, claim: Claim, begun: Begun, _slot: ExecutionSlot) {
    let Begun { execution, over_at } = begun;
    let present = Present { shared: Arc::clone(&shared), execution };
    let (execution, timeout, spec) = (&present.execution, claim.job.spec.timeout, &claim.job.spec);
    tracing::debug!(job = %claim.job.id, attempt = %claim.attempt_id(), name = spec.name, queue = spec.queue, "claimed");
    let ctx = Context::new(shared.punctual.clone(), claim, shared.clone());
    let settle_as =
        |outcome| Ended { settlement: settle(ctx.claim(), outcome, fastrand::f64()), completed: ctx.is_completed() };
    // Biased, here and below: most jobs are due at once and end soon, and then the other branches are never set up.
    let start_as = tokio::select! {
        biased;
        start_as = until_startable(&shared, ctx.claim(), execution.older()) => start_as,
        () = execution.lost() => return shared.give_up(execution),
    };
    // Checked only now: an older execution could still start while this one waited for its end.
    let started_before = ctx.claim().job.spec.runs_at_most_once()
        && (execution.older().is_some_and(Execution::is_any_confirmed) || shared.has_started(execution.attempt()));
    let _share = match start_as {
        Ok(share) if !started_before && !shared.releasing.is_cancelled() => share,
        other => {
            let outcome = if started_before {
                interrupted(ctx.claim(), "the job was claimed again after its handler had started")
            } else {
                other.err().unwrap_or(Outcome::Released)
            };
            return if execution.end() {
                shared.outbox.settle(settle_as(outcome)).await
            };
        }
    };
    if ctx.claim().job.needs_confirmation() && !confirmed(&shared, ctx.claim(), execution).await {
        return shared.give_up(execution);
    }
    if shared.is_over(execution, over_at) {
        return shared.give_up(execution);
    }
    tracing::debug!(job = %ctx.id(), attempt = %ctx.claim().attempt_id(), "started");
    let span = span::open(ctx.claim());
    let (mut handler, started) = (start(&shared, ctx.clone(), span.clone()), Instant::now());
    let end = tokio::select! {
        biased;
        // A handler that blocked its thread past its timeout has timed out, too.
        result = &mut handler => {
            WaitEnd::Ended(if started.elapsed() > timeout { Outcome::TimedOut } else { outcome_of(result) })
        }
        () = time::sleep(timeout) => WaitEnd::Cut(Some(Outcome::TimedOut)),
        () = lost(execution, &ctx) => WaitEnd::Cut(None),
        () = shared.releasing.cancelled() => WaitEnd::Cut(Some(interrupted(ctx.claim(), "the worker stopped while the handler ran"))),
    };
    let outcome = match end {
        WaitEnd::Ended(outcome) => Some(outcome),
        WaitEnd::Cut(outcome) => {
            if outcome.is_none() {
                shared.give_up(execution);
            }
            stop(&shared, &ctx, execution, handler).await;
            outcome
        }
    };
    // If another worker took the job, that worker settles it.
    let outcome = outcome.filter(|_| execution.end());
    log_end(&ctx, outcome.as_ref(), started.elapsed());
    span::close(&span, outcome.as_ref());
    if let Some(outcome) = outcome {
        shared.outbox.settle(settle_as(outcome)).await;
    }
}

/// An execution whose handler may exist. On drop, the worker learns that the handler is gone, and so does the store if
/// it had taken the job away.
struct Present {
    shared: Arc<Shared>,
    execution: Execution,
}

impl Drop for Present {
    fn drop(&mut self) {
        self.shared.gone(&self.execution);
    }
}

/// Waits for the scheduled time of a job that was claimed ahead of it, for the end of an older execution, and for its
/// share of the process. Returns the outcome of the job if it cannot start.
async fn until_startable(shared: &Shared, claim: &Claim, older: Option<&Execution>) -> Result<Share, Outcome> {
    if let Some(older) = older
        && time::timeout(shared.config.grace + OLDER_SLACK, older.all_gone()).await.is_err()
    {
        let (job, attempt) = (claim.job.id, claim.attempt_id());
        tracing::warn!(%job, %attempt, older = %older.attempt(), "released a job: its older execution does not end");
        return Err(Outcome::Released);
    }
    until_due(shared, claim).await;
    match shared.isolator.free_share(&claim.job) {
        Some(share) if !shared.isolator.runs_alone(&claim.job) => Ok(share),
        share => until_shared(shared, claim, share).await,
    }
}

/// Waits for a share of the process: another job runs alone, or this job must run alone.
async fn until_shared(shared: &Shared, claim: &Claim, share: Option<Share>) -> Result<Share, Outcome> {
    let max_wait = if shared.isolator.runs_alone(&claim.job) { ALONE_MAX_WAIT } else { Duration::MAX };
    let wait = async {
        let share = match share {
            Some(share) => share,
            None => shared.isolator.share(&claim.job).await,
        };
        if shared.isolator.runs_alone(&claim.job) {
            // Outcomes that are not stored yet would be lost with this process, too.
            shared.outcomes_stored().await;
        }
        share
    };
    tokio::select! {
        share = wait => Ok(share),
        () = shared.releasing.cancelled() => Err(Outcome::Released),
        () = time::sleep(max_wait) => {
            let (job, attempt) = (claim.job.id, claim.attempt_id());
            tracing::warn!(%job, %attempt, "snoozed a job that must run alone after two crashes: other jobs of this worker do not end");
            Err(Outcome::Snoozed { after: ALONE_SNOOZE })
        }
    }
}

/// Asks a handler to stop, and waits until it has ended or its grace period is over. Then it is dropped; what it did
/// after the request has no effect on the outcome.
async fn stop(shared: &Shared, ctx: &Context, execution: &Execution, handler: HandlerFuture) {
    let was_over = execution.is_lease_over();
    if was_over {
        ctx.stop_at_lease_end();
    } else {
        ctx.stop();
    }
    let stop_requested_at = Instant::now();
    tokio::select! {
        biased;
        _ = handler => return,
        () = shared.grace_over() => {}
        () = lease_over(execution), if !was_over => {}
    }
    let (job, attempt, waited) = (ctx.id(), execution.attempt(), stop_requested_at.elapsed());
    let waited_ms = waited.as_millis() as u64;
    tracing::warn!(%job, %attempt, waited_ms, "the handler was still running after its grace period");
    ctx.warn(format!(
        "the handler was still running {} after it was asked to stop; the worker no longer waits for it",
        in_words(waited)
    ));
}

/// Waits until the lease expires of an execution that was asked to stop before.
async fn lease_over(execution: &Execution) {
    // The notification may arrive more than once.
    while !execution.is_lease_over() {
        execution.lost().await;
    }
}

/// Logs one line per execution, with all fields needed to find it.
fn log_end(ctx: &Context, outcome: Option<&Outcome>, lasted: Duration) {
    ctx.end_notes();
    let result = outcome.map_or("lost", Outcome::as_str);
    let (spec, attempt) = (&ctx.claim().job.spec, ctx.claim().attempt_id());
    let duration_ms = lasted.as_secs_f64() * 1_000.0;
    tracing::info!(job = %ctx.id(), %attempt, name = spec.name, queue = spec.queue, duration_ms, result, "executed");
}

/// Waits for the scheduled time of a job that was claimed ahead of it. If more than the maximum is left, the clock was
/// set back, and the job must not wait for that.
async fn until_due(shared: &Shared, claim: &Claim) {
    loop {
        let left = claim.job.run_at.since(shared.store().now());
        if left.is_zero() || left > AHEAD {
            return;
        }
        time::sleep(left).await;
    }
}

/// Records that the handler of a job is about to start; returns whether this worker still holds the job.
async fn confirmed(shared: &Shared, claim: &Claim, execution: &Execution) -> bool {
    tokio::select! {
        confirmed = shared.confirmer.confirm(execution.attempt()) => {
            if confirmed && claim.job.spec.runs_at_most_once() {
                shared.confirm_start(execution);
            }
            confirmed
        }
        () = execution.lost() => false,
    }
}

/// The outcome of a handler that was stopped because its worker stops: another worker takes the job, unless it runs at
/// most once.
fn interrupted(claim: &Claim, reason: &str) -> Outcome {
    if !claim.job.spec.runs_at_most_once() {
        return Outcome::Released;
    }
    let message = format!("{reason}; max_attempts is 1, so the job does not run again");
    Outcome::Failed { fault: JobError::coded(E_LOST, message), retry: Retry::Never }
}

/// Waits until the store takes the job away. A job that its handler completed in a transaction of its own is no longer
/// held after the commit, but the handler may continue.
async fn lost(execution: &Execution, ctx: &Context) {
    execution.lost().await;
    if ctx.is_completed() {
        future::pending::<()>().await;
    }
}

/// How the wait for a handler ended.
enum WaitEnd {
    /// The handler has ended by itself.
    Ended(Outcome),
    /// The handler was asked to stop; with an outcome if this worker still has to settle the job.
    Cut(Option<Outcome>),
}

/// The future of the handler, which catches panics.
fn start(shared: &Shared, ctx: Context, span: Span) -> HandlerFuture {
    let name = ctx.claim().job.spec.name.clone();
    let Some(handler) = shared.registry.find(&name) else {
        return Box::pin(async move { Err(Failure::new(format!("this worker has no handler for {name}"))) });
    };
    run(handler, ctx, span)
}

/// Runs a handler within its span; a panic becomes a failure.
pub(crate) fn run(handler: Arc<dyn crate::Handler>, ctx: Context, span: Span) -> HandlerFuture {
    let caught = async move {
        // Called inside of the future, since the handler may also panic before its first await.
        let work = async move {
            if ctx.claim().job.spec.options.parent_results.wanted(handler.wants_parent_results()) {
                ctx.load_parent_results().await?;
            }
            handler.run(ctx).await
        };
        let caught = AssertUnwindSafe(work).catch_unwind().await;
        caught.unwrap_or_else(|panic| Err(panicked(&*panic)))
    };
    Box::pin(caught.instrument(span))
}

/// The outcome for a handler's result.
pub(crate) fn outcome_of(result: HandlerResult) -> Outcome {
    match result.and_then(check_result) {
        Ok(result) => Outcome::Succeeded { result },
        Err(failure) => failure.into_outcome(),
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let message = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "payload is not a string".to_owned());
    Failure::of(JobError::coded(E_PANIC, format!("the handler panicked: {message}")), Retry::ByPolicy)
}
