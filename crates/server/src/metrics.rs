//! Metrics in the text format of Prometheus.

use std::{collections::BTreeMap, fmt::Write, sync::Arc};

use axum::{
    extract::{Request, State},
    http::header,
    response::{IntoResponse, Response},
};
use punctual_client::{OperationLatency, admin::is_live};
use punctual_core::{
    AttemptStatus, Filter, Page, Role, Status,
    measure::{Measure, middle},
    store::Metric,
};

use crate::{app::App, auth, counter_cache::Counts, problem::Problem};

/// Upper bounds of the histogram buckets, in seconds.
const BOUNDS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3_600.0];
/// Maximum number of queues whose oldest job is queried.
const QUEUES_MAX: usize = 100;

/// `GET /metrics`.
pub(crate) async fn serve(State(app): State<Arc<App>>, request: Request) -> Response {
    match page(&app, request).await {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response(),
        Err(problem) => problem.into_response(),
    }
}

async fn page(app: &App, request: Request) -> Result<String, Problem> {
    auth::caller(&app.tokens, request.method(), request.headers()).await?.must_have(Role::Read)?;
    let (store, admin, mut page) = (app.punctual.store(), app.punctual.admin("metrics"), Metrics::default());
    let info = store.info();
    page.family("punctual_info", "gauge", "Version of Punctual, and engine of its store.");
    page.value(
        "",
        &[("version", env!("CARGO_PKG_VERSION")), ("engine", info.engine), ("engine_version", &info.version)],
        1.0,
    );
    let queues = admin.queues().await?;
    page.family("punctual_jobs", "gauge", "Jobs by queue and status.");
    for queue in &queues {
        for (status, count) in &queue.jobs {
            page.value("", &[("queue", &queue.name), ("status", status.as_str())], *count as f64);
        }
    }
    page.family("punctual_queue_paused", "gauge", "Whether a queue is paused.");
    for queue in &queues {
        page.value("", &[("queue", &queue.name)], f64::from(u8::from(queue.settings.paused)));
    }
    page.family("punctual_queue_workers", "gauge", "Live workers that serve a queue.");
    for queue in &queues {
        page.value("", &[("queue", &queue.name)], queue.workers as f64);
    }
    let now = store.now();
    page.family("punctual_queue_latency_seconds", "gauge", "How long the oldest queued job of a queue has been due.");
    for queue in
        queues.iter().filter(|queue| queue.jobs.get(&Status::Queued).is_some_and(|count| *count > 0)).take(QUEUES_MAX)
    {
        let filter = Filter { queue: Some(queue.name.clone()), ..Filter::status(Status::Queued) };
        if let Some(oldest) = store.list(filter, Page::first(1)).await?.jobs.first() {
            page.value("", &[("queue", &queue.name)], now.since(oldest.run_at).as_secs_f64());
        }
    }
    let workers = admin.workers().await?;
    let live: Vec<_> = workers.iter().filter(|worker| is_live(worker, now)).collect();
    page.family("punctual_workers", "gauge", "Live workers.");
    page.value("", &[], live.len() as f64);
    page.family("punctual_worker_slots", "gauge", "Jobs that live workers can run concurrently.");
    page.value("", &[], live.iter().map(|worker| f64::from(worker.heartbeat.concurrency)).sum());
    page.family("punctual_worker_slots_used", "gauge", "Jobs that live workers are running.");
    page.value("", &[], live.iter().map(|worker| f64::from(worker.heartbeat.running)).sum());
    page.counts(&app.counter_cache.counts().await?);
    page.metrics(store.metrics().await?);
    page.operations(&app.punctual.operation_latencies());
    page.metrics((app.metrics)());
    Ok(page.0)
}

/// The text of the page while it is written.
#[derive(Default)]
struct Metrics(String, String);

impl Metrics {
    fn family(&mut self, name: &str, kind: &str, about: &str) {
        self.1 = name.to_owned();
        let _ = writeln!(self.0, "# HELP {name} {about}\n# TYPE {name} {kind}");
    }

    fn value(&mut self, suffix: &str, labels: &[(&str, &str)], value: f64) {
        let Self(text, name) = self;
        let _ = write!(text, "{name}{suffix}");
        for (index, (label, value)) in labels.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(text, "{}{label}=\"{value}\"", if index == 0 { '{' } else { ',' });
        }
        let _ = writeln!(text, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// Counters of what jobs have done since the server started.
    fn counts(&mut self, counts: &Counts) {
        let mut attempts: BTreeMap<(&str, &str, AttemptStatus), u64> = BTreeMap::new();
        let mut died: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        let (mut took, mut late): (Durations<'_>, Durations<'_>) = Default::default();
        for ((queue, name, measure, bucket), count) in counts {
            match measure {
                Measure::Ended(status) => {
                    *attempts.entry((queue, name, *status)).or_default() += count;
                    took.entry((queue, name)).or_default().push((*bucket, *count));
                }
                Measure::Died => *died.entry((queue, name)).or_default() += count,
                Measure::Lateness => late.entry((queue, name)).or_default().push((*bucket, *count)),
            }
        }
        self.family(
            "punctual_attempts_total",
            "counter",
            "Attempts that ended, by outcome; lost: the worker's lease expired or its process died.",
        );
        for ((queue, name, status), count) in attempts {
            self.value("", &[("queue", queue), ("name", name), ("outcome", status.as_str())], count as f64);
        }
        self.family("punctual_jobs_died_total", "counter", "Jobs that became dead.");
        for ((queue, name), count) in died {
            self.value("", &[("queue", queue), ("name", name)], count as f64);
        }
        self.histogram("punctual_attempt_duration_seconds", "Duration of attempts.", &took);
        self.histogram(
            "punctual_lateness_seconds",
            "Lateness of attempts: the time from when the job was due to its start.",
            &late,
        );
    }

    fn histogram(&mut self, name: &str, about: &str, durations: &Durations<'_>) {
        self.family(name, "histogram", about);
        for ((queue, name), buckets) in durations {
            let labels = [("queue", *queue), ("name", *name)];
            let total: u64 = buckets.iter().map(|(_, count)| count).sum();
            for bound in BOUNDS {
                let within = buckets.iter().filter(|(bucket, _)| middle(*bucket).as_secs_f64() <= bound);
                let count: u64 = within.map(|(_, count)| count).sum();
                self.value("_bucket", &[labels[0], labels[1], ("le", &bound.to_string())], count as f64);
            }
            self.value("_bucket", &[labels[0], labels[1], ("le", "+Inf")], total as f64);
            let sum: f64 = buckets.iter().map(|(bucket, count)| middle(*bucket).as_secs_f64() * *count as f64).sum();
            self.value("_sum", &labels, sum);
            self.value("_count", &labels, total as f64);
        }
    }

    /// Latencies of the store's operations.
    fn operations(&mut self, latencies: &[OperationLatency]) {
        self.family(
            "punctual_store_operation_seconds",
            "histogram",
            "Latency of the store's operations in this process; claim_wait includes the wait for jobs.",
        );
        for latency in latencies {
            let operation = ("operation", latency.operation);
            for (bound, count) in &latency.buckets {
                self.value("_bucket", &[operation, ("le", &bound.to_string())], *count as f64);
            }
            self.value("_bucket", &[operation, ("le", "+Inf")], latency.count as f64);
            self.value("_sum", &[operation], latency.sum.as_secs_f64());
            self.value("_count", &[operation], latency.count as f64);
        }
        self.family(
            "punctual_store_operation_errors_total",
            "counter",
            "Operations of the store that failed in this process.",
        );
        for latency in latencies {
            self.value("", &[("operation", latency.operation)], latency.errors as f64);
        }
    }

    fn metrics(&mut self, metrics: Vec<Metric>) {
        let mut families: BTreeMap<&str, Vec<&Metric>> = BTreeMap::new();
        for metric in &metrics {
            families.entry(metric.name).or_default().push(metric);
        }
        for (name, metrics) in families {
            self.family(name, if name.ends_with("_total") { "counter" } else { "gauge" }, metrics[0].about);
            for metric in metrics {
                let labels: Vec<(&str, &str)> =
                    metric.labels.iter().map(|(label, value)| (*label, value.as_str())).collect();
                self.value("", &labels, metric.value);
            }
        }
    }
}

/// Histograms of durations by queue and name: bucket and count.
type Durations<'a> = BTreeMap<(&'a str, &'a str), Vec<(u16, u64)>>;
