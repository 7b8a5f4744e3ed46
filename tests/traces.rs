//! Jobs continue the traces in which they are enqueued: real stores, a real worker, and OpenTelemetry's own SDK.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    sync::{Mutex, OnceLock, PoisonError},
    time::Duration,
};

use opentelemetry::{
    Value,
    trace::{SpanKind, Status, TracerProvider},
};
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{SdkTracerProvider, SpanData, SpanExporter},
};
use punctual::{
    Context, Draft, Failure, Punctual, Worker, Workflow,
    admin::Ran,
    trace::{self, Trace},
};
use punctual_tests::{TestStore, on_each_engine, until};
use tracing::{Instrument, Span};
use tracing_subscriber::{filter::LevelFilter, layer::SubscriberExt, util::SubscriberInitExt};

const LONG: Duration = Duration::from_secs(60);

/// Collects the spans that have ended.
#[derive(Debug)]
struct Kept;

static ENDED: Mutex<Vec<SpanData>> = Mutex::new(Vec::new());

impl SpanExporter for Kept {
    async fn export(&self, spans: Vec<SpanData>) -> OTelSdkResult {
        ENDED.lock().unwrap_or_else(PoisonError::into_inner).extend(spans);
        Ok(())
    }
}

/// Starts a span of the caller; returns it with its trace context. All tests of the process share one tracer, since a
/// process has only one.
fn begin(name: &'static str) -> (Span, Trace) {
    static PROVIDER: OnceLock<SdkTracerProvider> = OnceLock::new();
    PROVIDER.get_or_init(|| {
        let provider = SdkTracerProvider::builder().with_simple_exporter(Kept).build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        tracing_subscriber::registry().with(LevelFilter::INFO).with(layer).init();
        provider
    });
    let span = tracing::info_span!("request", name);
    let context = span.in_scope(trace::current).unwrap();
    (span, context)
}

/// Waits until this number of spans with this name have ended in a trace, and returns them.
async fn ended(of: &Trace, name: &str, count: usize) -> Vec<SpanData> {
    let found = || -> Vec<SpanData> {
        let ended = ENDED.lock().unwrap_or_else(PoisonError::into_inner);
        let is_meant = |span: &&SpanData| trace_id(span) == of.parent.trace_id && span.name == name;
        ended.iter().filter(is_meant).cloned().collect()
    };
    until(&format!("{count} times `{name}` in the trace"), async || found().len() >= count).await;
    assert_eq!(found().len(), count, "`{name}` is there too often");
    found()
}

fn trace_id(span: &SpanData) -> u128 {
    u128::from_be_bytes(span.span_context.trace_id().to_bytes())
}

fn span_id(span: &SpanData) -> u64 {
    u64::from_be_bytes(span.span_context.span_id().to_bytes())
}

fn parent(span: &SpanData) -> u64 {
    u64::from_be_bytes(span.parent_span_id.to_bytes())
}

fn attribute(span: &SpanData, key: &str) -> String {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == key);
    found.map(|attribute| attribute.value.as_str().into_owned()).unwrap_or_else(|| panic!("no {key} in {span:?}"))
}

/// Does a part of its work in its own span, fails the first time, and enqueues another job.
async fn charge(ctx: Context) -> punctual::HandlerResult {
    async {}.instrument(tracing::info_span!("charge")).await;
    if ctx.attempt() == 1 {
        return Err(Failure::retry_after(Duration::ZERO, "the card was refused"));
    }
    ctx.punctual().enqueue(Draft::new("receipt", &())).await?;
    Ok(None)
}

async fn worker(punctual: &Punctual) -> punctual::RunningWorker {
    let done = |_: Context| async { Ok(None) };
    let builder = Worker::builder(punctual.clone()).handler("charge", charge).handler("receipt", done);
    builder.handler("pack", done).start().await.unwrap()
}

async fn an_execution_is_a_part_of_the_enqueuers_trace(new_store: fn() -> TestStore) {
    let test_store = new_store();
    let punctual = test_store.connect().await;
    let (span, request) = begin("checkout");
    let job = punctual.enqueue(Draft::new("charge", &7).queue("money")).instrument(span).await.unwrap();
    let worker = worker(&punctual).await;
    punctual.wait(job.id, LONG).await.unwrap();
    let attempts = ended(&request, "process charge", 2).await;
    for attempt in &attempts {
        assert_eq!(parent(attempt), request.parent.span_id, "each attempt is a child of the span that enqueued");
        assert_eq!(attempt.span_kind, SpanKind::Consumer);
        assert_eq!(attribute(attempt, "messaging.system"), "punctual");
        assert_eq!(attribute(attempt, "messaging.destination.name"), "money");
        assert_eq!(attribute(attempt, "messaging.message.id"), job.id.to_string());
    }
    let [failed, succeeded] = attempts.as_slice() else { panic!("not two") };
    assert_eq!(failed.status, Status::error("the card was refused"));
    assert_eq!(
        (attribute(failed, "error.type"), attribute(failed, "punctual.outcome")),
        ("failed".into(), "failed".into())
    );
    assert_eq!((&succeeded.status, attribute(succeeded, "punctual.outcome")), (&Status::Unset, "succeeded".into()));
    let number =
        |span: &SpanData| span.attributes.iter().find(|a| a.key.as_str() == "punctual.attempt").unwrap().value.clone();
    assert_eq!([number(failed), number(succeeded)], [Value::I64(1), Value::I64(2)]);
    for (own, attempt) in ended(&request, "charge", 2).await.iter().zip(&attempts) {
        assert_eq!(parent(own), span_id(attempt), "what the handler does is a part of its attempt");
    }
    let receipt = &ended(&request, "process receipt", 1).await[0];
    assert_eq!(parent(receipt), span_id(succeeded), "what the handler enqueued is its child");
    worker.stop().await;
}

async fn a_workflows_jobs_are_parts_of_its_submitters_trace(new_store: fn() -> TestStore) {
    let test_store = new_store();
    let punctual = test_store.connect().await;
    let (span, request) = begin("order");
    let mut workflow = Workflow::new("order");
    workflow.job("first", Draft::new("pack", &1));
    workflow.job("second", Draft::new("pack", &2)).after(["first"]);
    workflow.on_complete(Draft::new("receipt", &()));
    punctual.submit(workflow).instrument(span).await.unwrap();
    let worker = worker(&punctual).await;
    for (name, count) in [("process pack", 2), ("process receipt", 1)] {
        for job in ended(&request, name, count).await {
            assert_eq!(parent(&job), request.parent.span_id);
        }
    }
    worker.stop().await;
}

async fn a_job_continues_the_given_trace(new_store: fn() -> TestStore) {
    let test_store = new_store();
    let punctual = test_store.connect().await;
    let (span, request) = begin("given");
    let actual = Trace::read("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", Some("vendor=1")).unwrap();
    let carried = async |id| Trace::of(&punctual.job(id).await.unwrap().spec.options);
    let own = Draft::new("pack", &1).trace(actual.parent.to_string()).trace_state("vendor=1");
    let by_itself = punctual.enqueue(own).instrument(span.clone()).await.unwrap();
    assert_eq!(carried(by_itself.id).await, Some(actual.clone()), "the trace of the job itself takes precedence");
    let continuing = punctual.clone().continuing(Some(actual.clone()));
    let without = continuing.enqueue(Draft::new("pack", &2)).await.unwrap();
    assert_eq!(carried(without.id).await, Some(actual), "without a span, what the connection continues");
    let within = continuing.enqueue(Draft::new("pack", &3)).instrument(span.clone()).await.unwrap();
    assert_eq!(carried(within.id).await, Some(request.clone()), "the current span is nearer");
    let alone = punctual.enqueue(Draft::new("pack", &4)).await.unwrap();
    assert_eq!(carried(alone.id).await, None, "there was no span");
    let worker = worker(&punctual).await;
    for job in [by_itself, within, alone] {
        punctual.wait(job.id, LONG).await.unwrap();
    }
    let Ran::Again(again) = punctual.admin("ada").run(alone.id).instrument(span).await.unwrap() else {
        panic!("ran itself")
    };
    assert_eq!(carried(again).await, Some(request), "a job that runs again belongs to the trace of the request");
    worker.stop().await;
}

on_each_engine! {
    an_execution_is_a_part_of_the_enqueuers_trace
    a_workflows_jobs_are_parts_of_its_submitters_trace
    a_job_continues_the_given_trace
}
