//! Runs one job: one visible pipeline, one arm for each way it can end.

use std::{any::Any, future, panic::AssertUnwindSafe, pin::Pin, sync::Arc, time::Duration};

use futures_util::FutureExt;
use punctual_client::{Context, Failure};
use punctual_core::{Claim, Fault, Outcome, Retry, job::E_PANIC, settle};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{self, Instant},
};
use tracing::{Instrument, Span};

use crate::{
    mailbox::Ended,
    registry::{HandlerResult, check_result},
    shared::{Execution, Shared},
    span,
};

/// How long ahead of its time a job may be claimed: long enough for the claim to be stored, whatever else the store does.
pub(crate) const AHEAD: Duration = Duration::from_millis(50);

/// Runs a claimed job and hands its outcome to the settler. The slot is free once the handler has ended.
pub(crate) async fn execute(shared: Arc<Shared>, claim: Claim, execution: Execution, _slot: OwnedSemaphorePermit) {
    let (timeout, spec) = (claim.job.spec.timeout, &claim.job.spec);
    tracing::debug!(job = %claim.job.id, attempt = %claim.attempt_id(), name = spec.name, queue = spec.queue, "claimed");
    let ctx = Context::new(shared.punctual.clone(), claim, shared.mailbox.clone());
    // In this order, here and below: most jobs are due at once and end soon, and nothing else is set up for them then.
    tokio::select! {
        biased;
        () = until_due(&shared, ctx.claim()) => {}
        () = execution.lost() => return shared.give_up(ctx.claim().attempt_id()),
    }
    let settle_as =
        |outcome| Ended { settlement: settle(ctx.claim(), outcome, fastrand::f64()), completed: ctx.is_completed() };
    if shared.releasing.is_cancelled() {
        execution.has_ended();
        return shared.mailbox.settle(settle_as(Outcome::Released)).await;
    }
    tracing::debug!(job = %ctx.id(), attempt = %ctx.claim().attempt_id(), "started");
    let span = span::open(ctx.claim());
    let (mut handler, started) = (start(&shared, ctx.clone(), span.clone()), Instant::now());
    let end = tokio::select! {
        biased;
        // One that kept its thread to itself until after its time is late all the same.
        result = &mut handler => {
            End::Ended(if started.elapsed() > timeout { Outcome::TimedOut } else { outcome_of(result) })
        }
        () = time::sleep(timeout) => End::Cut(Some(Outcome::TimedOut)),
        () = lost(&execution, &ctx) => End::Cut(None),
        () = shared.releasing.cancelled() => End::Cut(Some(Outcome::Released)),
    };
    execution.has_ended();
    log_end(&ctx, &end, started.elapsed());
    span::close(&span, end.outcome());
    match end {
        End::Ended(outcome) => shared.mailbox.settle(settle_as(outcome)).await,
        End::Cut(outcome) => {
            ctx.stop();
            match outcome {
                Some(outcome) => shared.mailbox.settle(settle_as(outcome)).await,
                // Whoever took it from us has settled it, or will.
                None => shared.give_up(ctx.claim().attempt_id()),
            }
            // What the handler still does no longer counts; it gets a moment to put its things away.
            let _ = time::timeout(shared.config.grace, handler).await;
        }
    }
}

/// One line for each execution, with all that is needed to find it.
fn log_end(ctx: &Context, end: &End, lasted: Duration) {
    ctx.end_notes();
    let result = end.outcome().map_or("lost", Outcome::as_str);
    let (spec, attempt) = (&ctx.claim().job.spec, ctx.claim().attempt_id());
    let duration_ms = lasted.as_secs_f64() * 1_000.0;
    tracing::info!(job = %ctx.id(), %attempt, name = spec.name, queue = spec.queue, duration_ms, result, "executed");
}

/// Waits for the time of a job that was claimed ahead of it. If more is left of it than ever was, somebody has set the clock
/// back, and the job is not to wait for that.
async fn until_due(shared: &Shared, claim: &Claim) {
    loop {
        let left = claim.job.run_at.since(shared.store().now());
        if left.is_zero() || left > AHEAD {
            return;
        }
        time::sleep(left).await;
    }
}

/// Waits until the job is taken from its handler. One that was completed in a transaction of the handler's own is nobody's as
/// soon as that has committed, and the handler may have more to do.
async fn lost(execution: &Execution, ctx: &Context) {
    execution.lost().await;
    if ctx.is_completed() {
        future::pending::<()>().await;
    }
}

/// How the wait for a handler ended.
enum End {
    /// The handler came to an end by itself.
    Ended(Outcome),
    /// It was told to stop; with an outcome if the job is still ours to settle.
    Cut(Option<Outcome>),
}

impl End {
    /// What it means for the job, if that is still ours.
    const fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::Ended(outcome) | Self::Cut(Some(outcome)) => Some(outcome),
            Self::Cut(None) => None,
        }
    }
}

type Run = Pin<Box<dyn Future<Output = HandlerResult> + Send>>;

/// The handler under way, with panics caught.
fn start(shared: &Shared, ctx: Context, span: Span) -> Run {
    let name = ctx.claim().job.spec.name.clone();
    let Some(handler) = shared.registry.find(&name) else {
        return Box::pin(async move { Err(Failure::new(format!("this worker has no handler for {name}"))) });
    };
    run(handler, ctx, span)
}

/// Runs a handler within its span; a panic becomes a failure.
pub(crate) fn run(handler: Arc<dyn crate::Handler>, ctx: Context, span: Span) -> Run {
    let caught = async move {
        // The handler is called inside, since it may panic before its first await as well.
        let work = async move {
            if ctx.claim().job.spec.extras.parent_results.wanted(handler.wants_parent_results()) {
                ctx.load_parent_results().await?;
            }
            handler.run(ctx).await
        };
        let caught = AssertUnwindSafe(work).catch_unwind().await;
        caught.unwrap_or_else(|panic| Err(panicked(&*panic)))
    };
    Box::pin(caught.instrument(span))
}

/// What a handler's result means for its job.
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
        .unwrap_or_else(|| "of an unknown kind".to_owned());
    Failure::of(Fault::coded(E_PANIC, format!("the handler panicked: {message}")), Retry::ByPolicy)
}
