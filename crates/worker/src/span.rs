//! The span of an execution: it continues the trace in which the job was enqueued.

use punctual_client::trace;
use punctual_core::{
    Claim, Outcome, Trace,
    job::{E_LOST, E_TIMEOUT},
};
use tracing::Span;

/// Starts the span, with the name and attributes of the conventions for messaging. Does nothing, at no cost, if spans
/// are not collected.
pub(crate) fn open(claim: &Claim) -> Span {
    let (job, spec) = (&claim.job, &claim.job.spec);
    let span = tracing::info_span!(
        // The current span of the worker is not the parent of the job's span.
        parent: None,
        "job",
        otel.kind = "consumer",
        messaging.message.id = %job.id,
        messaging.destination.name = spec.queue,
        punctual.name = spec.name,
        // Signed, since OpenTelemetry numbers are signed; unsigned values would become strings.
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

/// Records the outcome; `None` if this worker no longer holds the job.
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
