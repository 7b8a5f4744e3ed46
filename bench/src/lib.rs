//! The benchmark: each scenario has stores of its own, and its result counts only if they pass a check afterwards.
//!
//! Payloads have about 100 bytes, handlers do nothing, the audit trail is on, commits are durable.

mod backlog;
mod check;
mod crash;
mod held;
mod http;
mod latency;
mod limits;
mod programs;
mod rebuild;
mod report;
mod schedules;
mod sockets;
mod sql_server;
mod stores;
mod throughput;
mod usage;

use std::{fmt, str::FromStr};

use anyhow::Result;
use serde_json::{Map, Value, json};

pub use crash::victim;
pub use stores::StoreFactory;

/// The scenarios that can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// Bulk enqueue, then drain.
    Lifecycle,
    /// Concurrent enqueue and work.
    Steady,
    /// Enqueue of single jobs, from 1 and from 64 tasks.
    Single,
    /// Latency on an idle system: from enqueue to the handler's start.
    Pickup,
    /// Jobs at random milliseconds: how late they start.
    Ontime,
    /// Claim rate with many rows queued, or scheduled.
    Backlog,
    /// Drain rate while another transaction stays open.
    Held,
    /// Reports and lists over many finished jobs.
    Report,
    /// Claim rate with limits on queues and keys, relative to that without limits.
    Limits,
    /// Many schedules that are due at the same instant.
    Schedules,
    /// Time from the death of a worker to the start of its jobs elsewhere.
    Crash,
    /// Time to reload all jobs into Redis after it has lost them.
    Rebuild,
    /// Programs as handlers: one process per job, and a pool.
    Programs,
    /// The same work over HTTP and through the library.
    Http,
    /// Many idle subscribers of a server.
    Sockets,
}

impl Scenario {
    /// All scenarios.
    pub const ALL: [Self; 15] = [
        Self::Lifecycle,
        Self::Steady,
        Self::Single,
        Self::Pickup,
        Self::Ontime,
        Self::Backlog,
        Self::Held,
        Self::Report,
        Self::Limits,
        Self::Schedules,
        Self::Crash,
        Self::Rebuild,
        Self::Programs,
        Self::Http,
        Self::Sockets,
    ];

    /// The name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lifecycle => "lifecycle",
            Self::Steady => "steady",
            Self::Single => "single",
            Self::Pickup => "pickup",
            Self::Ontime => "ontime",
            Self::Backlog => "backlog",
            Self::Held => "held",
            Self::Report => "report",
            Self::Limits => "limits",
            Self::Schedules => "schedules",
            Self::Crash => "crash",
            Self::Rebuild => "rebuild",
            Self::Programs => "programs",
            Self::Http => "http",
            Self::Sockets => "sockets",
        }
    }

    const fn default_jobs(self) -> usize {
        match self {
            Self::Lifecycle | Self::Held | Self::Limits | Self::Schedules | Self::Http => 100_000,
            Self::Steady => 10_000_000,
            Self::Single => 20_000,
            Self::Pickup => 1_000,
            Self::Ontime | Self::Sockets => 10_000,
            Self::Backlog | Self::Report => 10_000_000,
            Self::Crash => 10,
            Self::Rebuild => 1_000_000,
            Self::Programs => 1_000,
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Scenario {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<_> = Self::ALL.iter().map(|scenario| scenario.as_str()).collect();
        let known = Self::ALL.into_iter().find(|scenario| scenario.as_str() == text);
        known.ok_or_else(|| format!("unknown scenario {text}: expected {}", names.join(", ")))
    }
}

/// Settings of a measurement.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Number of jobs; by default that of the scenario.
    pub jobs: Option<usize>,
    /// Maximum concurrent jobs.
    pub concurrency: usize,
    /// Duration of `steady`, in seconds.
    pub seconds: u64,
    /// The program to start as a worker process, for `crash`.
    pub program: std::path::PathBuf,
}

/// Called with the current phase, the amount done, and the total amount.
pub type OnProgress<'a> = &'a (dyn Fn(&str, u64, u64) + Sync);

/// Measures a scenario and returns its fields.
pub async fn run(
    scenario: Scenario,
    stores: &StoreFactory,
    settings: &Settings,
    on_progress: OnProgress<'_>,
) -> Result<Map<String, Value>> {
    let jobs = settings.jobs.unwrap_or(scenario.default_jobs());
    let before = usage::Usage::now();
    let mut fields = match scenario {
        Scenario::Lifecycle => throughput::lifecycle(stores, settings, jobs, on_progress).await?,
        Scenario::Steady => throughput::steady(stores, settings, on_progress).await?,
        Scenario::Single => throughput::single(stores, jobs).await?,
        Scenario::Pickup => latency::pickup(stores, jobs, on_progress).await?,
        Scenario::Ontime => latency::ontime(stores, jobs).await?,
        Scenario::Backlog => backlog::backlog(stores, jobs, on_progress).await?,
        Scenario::Held => held::held(stores, settings, jobs, on_progress).await?,
        Scenario::Report => report::report(stores, jobs, on_progress).await?,
        Scenario::Limits => limits::limits(stores, jobs, on_progress).await?,
        Scenario::Schedules => schedules::schedules(stores, settings, jobs, on_progress).await?,
        Scenario::Crash => crash::crash(stores, settings, jobs).await?,
        Scenario::Rebuild => rebuild::rebuild(stores, jobs, on_progress).await?,
        Scenario::Http => http::http(stores, jobs, on_progress).await?,
        Scenario::Sockets => sockets::sockets(stores, settings, jobs, on_progress).await?,
        Scenario::Programs => programs::programs(stores, jobs, on_progress).await?,
    };
    let used = usage::Usage::now();
    let common = object(json!({
        "scenario": scenario.as_str(),
        "jobs": jobs,
        "engine": stores.engine,
        "engine_version": stores.engine_version,
        "punctual_version": env!("CARGO_PKG_VERSION"),
        "concurrency": settings.concurrency,
        "settings": stores.settings,
        "cpu_s": used.cpu_s - before.cpu_s,
        "peak_memory_mib": used.peak_memory_mib,
        "stolen_s": used.stolen_s - before.stolen_s,
    }));
    for (field, value) in common {
        // Fields that the scenario measured itself take precedence: the check after it needs memory of its own.
        fields.entry(field).or_insert(value);
    }
    Ok(fields)
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// A payload of about 100 bytes.
fn payload(number: usize) -> Value {
    json!({"n": number, "pad": "x".repeat(80)})
}

/// The value below which the given share of the sorted samples lies.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1));
    sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
}
