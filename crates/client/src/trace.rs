//! Traces: the current one, and spans that continue another one. Without the feature `otel`, these functions do
//! nothing.

pub use punctual_core::trace::{Trace, TraceParent};
use tracing::Span;

/// The position in the current trace: the current span of `tracing`, or else of OpenTelemetry. `None`, at no cost, if
/// there is no current span.
pub fn current() -> Option<Trace> {
    bridge::current()
}

/// Sets the parent of a span that has not started yet; the parent may be in another process.
pub fn adopt(span: &Span, parent: &Trace) {
    if !span.is_disabled() {
        bridge::adopt(span, parent);
    }
}

/// Sets the name of a span in traces; logs use its name in the source.
pub fn name(span: &Span, name: impl FnOnce() -> String) {
    if !span.is_disabled() {
        bridge::name(span, name());
    }
}

/// Sets an attribute of a span that appears in traces but not in logs.
pub fn describe(span: &Span, key: &'static str, value: impl Into<String>) {
    if !span.is_disabled() {
        bridge::describe(span, key, value.into());
    }
}

/// Marks a span as failed, with the kind of the error and its message.
pub fn fail(span: &Span, kind: &str, why: &str) {
    if !span.is_disabled() {
        bridge::describe(span, "error.type", kind.to_owned());
        bridge::fail(span, why.to_owned());
    }
}

#[cfg(feature = "otel")]
mod bridge {
    use opentelemetry::{
        Context,
        trace::{SpanContext, SpanId, Status, TraceContextExt, TraceFlags, TraceId, TraceState},
    };
    use tracing::Span;
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    use super::{Trace, TraceParent};

    pub(super) fn current() -> Option<Trace> {
        let of = |context: &Context| to_trace(context.span().span_context());
        of(&Span::current().context()).or_else(|| Context::map_current(of))
    }

    pub(super) fn adopt(span: &Span, parent: &Trace) {
        let remote = to_context(parent);
        // This fails if the span is not exported, in which case no parent is needed.
        let _ = span.set_parent(Context::new().with_remote_span_context(remote));
    }

    pub(super) fn name(span: &Span, name: String) {
        span.context().span().update_name(name);
    }

    pub(super) fn describe(span: &Span, key: &'static str, value: String) {
        span.set_attribute(key, value);
    }

    pub(super) fn fail(span: &Span, why: String) {
        span.set_status(Status::error(why));
    }

    fn to_trace(span: &SpanContext) -> Option<Trace> {
        let parent = span.is_valid().then(|| TraceParent {
            trace_id: u128::from_be_bytes(span.trace_id().to_bytes()),
            span_id: u64::from_be_bytes(span.span_id().to_bytes()),
            flags: span.trace_flags().to_u8(),
        })?;
        let state = span.trace_state().header();
        Some(Trace { parent, state: (!state.is_empty()).then_some(state) })
    }

    fn to_context(trace: &Trace) -> SpanContext {
        let TraceParent { trace_id, span_id, flags } = trace.parent;
        let state = trace.state.as_deref().and_then(|state| state.parse::<TraceState>().ok()).unwrap_or_default();
        SpanContext::new(TraceId::from(trace_id), SpanId::from(span_id), TraceFlags::new(flags), true, state)
    }
}

#[cfg(not(feature = "otel"))]
mod bridge {
    use tracing::Span;

    use super::Trace;

    pub(super) const fn current() -> Option<Trace> {
        None
    }

    pub(super) const fn adopt(_: &Span, _: &Trace) {}

    pub(super) fn name(_: &Span, _: String) {}

    pub(super) fn describe(_: &Span, _: &'static str, _: String) {}

    pub(super) fn fail(_: &Span, _: String) {}
}
