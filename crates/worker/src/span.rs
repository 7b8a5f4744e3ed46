//! The span of an execution: a part of the trace of whoever enqueued the job.

use punctual_client::trace;
use punctual_core::{
    Claim, Outcome, Trace,
    job::{E_LOST, E_TIMEOUT},
};
use tracing::Span;

/// Begins it, named and described as the conventions for messaging say. Nothing, and at no cost, if nobody looks at
/// spans.
pub(crate) fn open(claim: &Claim) -> Span {
    let (job, spec) = (&claim.job, &claim.job.spec);
    let span = tracing::info_span!(
        // Whoever runs the worker has not asked for this job.
        parent: None,
        "job",
        otel.kind = "consumer",
        messaging.message.id = %job.id,
        messaging.destination.name = spec.queue,
        punctual.name = spec.name,
        // Signed, as OpenTelemetry knows numbers; others would become texts.
        punctual.attempt = i64::from(job.attempt),
    );
    if span.is_disabled() {
        return span;
    }
    if let Some(parent) = Trace::of(&spec.options) {
        trace::adopt(&span, &parent);
    }
    trace::name(&span, || format!("process {}", spec.name));
    trace::describe(&span, "messaging.system", "punctual");
    trace::describe(&span, "messaging.operation.name", "process");
    trace::describe(&span, "messaging.operation.type", "process");
    trace::describe(&span, "punctual.attempt_id", claim.attempt_id().to_string());
    span
}

/// Says how it ended; nothing if the job is no longer ours.
pub(crate) fn close(span: &Span, outcome: Option<&Outcome>) {
    if span.is_disabled() {
        return;
    }
    trace::describe(span, "punctual.outcome", outcome.map_or("lost", Outcome::as_str));
    match outcome {
        Some(Outcome::Failed { fault, .. }) => {
            trace::fail(span, fault.code.as_deref().unwrap_or("failed"), &fault.message)
        }
        Some(Outcome::TimedOut) => trace::fail(span, E_TIMEOUT, "the handler ran longer than the job's timeout"),
        Some(Outcome::Lost { .. }) | None => trace::fail(span, E_LOST, "the job was cancelled, or its lease was lost"),
        Some(Outcome::Succeeded { .. } | Outcome::Snoozed { .. } | Outcome::Released) => {}
    }
}
