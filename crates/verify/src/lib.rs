//! `punctual verify`: checks whether a database keeps Punctual's guarantees.
//!
//! Two parts, both in schemas, databases or files that are created for the run and dropped afterwards:
//! - `suite`: the conformance suite, each behaviour on an empty store.
//! - `chaos`: worker processes under load that are killed and suspended; a record outside the store is compared with
//!   the store.

mod caught;
mod chaos;
mod jobs;
mod judge;
mod record;
mod report;
mod suite;
mod workers;

use std::{path::PathBuf, time::Duration};

use anyhow::{Result, bail};
use punctual_bench::StoreFactory;

pub use self::{
    report::{FailedBehaviour, FaultCount, Guarantee, Report, Setting},
    workers::work,
};

/// Settings of a verification.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whether to run the conformance suite.
    pub suite: bool,
    /// How long worker processes are killed and suspended.
    pub chaos: Duration,
    /// Seed of the random faults.
    pub seed: u64,
    /// The program to start as a worker process.
    pub program: PathBuf,
}

/// Called with the current phase, the amount done, and the total amount.
pub type OnProgress<'a> = &'a (dyn Fn(&str, u64, u64) + Sync);

/// Verifies the server on which `stores` creates its stores. An error means that it could not be verified; violated
/// guarantees are in the report.
pub async fn verify(stores: &StoreFactory, settings: &Settings, on_progress: OnProgress<'_>) -> Result<Report> {
    let punctual = stores.fresh("check").await?;
    let info = punctual.store().info();
    // Each behaviour ends with these checks: if one fails, all behaviours would fail.
    let checks = punctual.store().check().await?;
    if let Some(wrong) = checks.iter().find(|check| !check.ok) {
        bail!("the server is not in order: {}: {}", wrong.check, wrong.message);
    }
    drop(punctual);
    stores.remove("check").await?;
    let suite = if settings.suite { suite::run(stores, on_progress).await? } else { suite::Suite::default() };
    let chaos = chaos::run(stores, settings, on_progress).await?;
    Ok(Report {
        engine: info.engine.to_owned(),
        version: info.version,
        checks,
        settings: report::settings(&stores.settings),
        behaviours: suite.behaviours,
        failed_behaviours: suite.failed,
        seed: settings.seed,
        chaos_seconds: settings.chaos.as_secs(),
        jobs: chaos.jobs,
        faults: chaos.faults,
        guarantees: chaos.guarantees,
    })
}
