//! Measures the cost of a transaction that stays open: PostgreSQL cannot remove rows that were deleted after it began.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use punctual::{
    Punctual,
    postgres::sqlx::{self, Connection},
};
use serde_json::{Map, Value, json};
use tokio::time;

use crate::{OnProgress, Settings, StoreFactory, check, object, throughput};

/// Jobs per second while the transaction is open.
const LOAD: usize = 5_000;
/// Batches per second of this load.
const BATCHES: usize = 10;
/// Number of drains before and after, for the rate without such a transaction.
const FREE_DRAINS: usize = 2;

/// The ratio of the drain rate after a transaction was open for one minute and for five minutes to the rate without it.
pub(crate) async fn held(
    stores: &StoreFactory,
    settings: &Settings,
    jobs: usize,
    on_progress: OnProgress<'_>,
) -> Result<Map<String, Value>> {
    let needs = "`held` needs a server that others work on too: name a postgres: store";
    let mut other = stores.server().await?.context(needs)?;
    let punctual = stores.fresh("held").await?;
    let mut load = Load { punctual: &punctual, concurrency: settings.concurrency, done: 0 };
    let mut free = Vec::new();
    for _ in 0..FREE_DRAINS {
        free.push(load.drain(jobs).await?);
    }
    let mut transaction = other.begin().await?;
    // The transaction has an id and a snapshot: both hold back the horizon of vacuum while it is open.
    sqlx::query("select txid_current()").execute(&mut *transaction).await?;
    sqlx::query("declare held cursor for select * from pg_class").execute(&mut *transaction).await?;
    let opened = Instant::now();
    load.work_until(opened, Duration::from_secs(60), on_progress).await?;
    let after_1m = load.drain(jobs).await?;
    load.work_until(opened, Duration::from_secs(300), on_progress).await?;
    let after_5m = load.drain(jobs).await?;
    transaction.rollback().await?;
    for _ in 0..FREE_DRAINS {
        free.push(load.drain(jobs).await?);
    }
    check::all_succeeded(&punctual, load.done).await?;
    let usual = free.iter().sum::<f64>() / free.len() as f64;
    Ok(object(json!({
        "ratio_1m": after_1m / usual,
        "ratio_5m": after_5m / usual,
        "drain_per_s_free": free.iter().map(|rate| rate.round()).collect::<Vec<_>>(),
        "drain_per_s_1m": after_1m.round(),
        "drain_per_s_5m": after_5m.round(),
        "load_per_s": LOAD,
    })))
}

/// The load of the scenario: jobs that are enqueued and executed.
struct Load<'a> {
    punctual: &'a Punctual,
    concurrency: usize,
    /// Number of jobs executed.
    done: usize,
}

impl Load<'_> {
    /// Enqueues jobs in bulk and drains them; returns jobs per second.
    async fn drain(&mut self, jobs: usize) -> Result<f64> {
        throughput::bulk_enqueue(self.punctual, jobs, &|_, _, _| ()).await?;
        let start = Instant::now();
        let worker = throughput::noop_worker(self.punctual, self.concurrency).await?;
        worker.until_empty().await;
        let rate = jobs as f64 / start.elapsed().as_secs_f64();
        worker.stop().await;
        self.done += jobs;
        Ok(rate)
    }

    /// Applies a steady load until the transaction has been open for a given time.
    async fn work_until(&mut self, opened: Instant, age: Duration, on_progress: OnProgress<'_>) -> Result<()> {
        let worker = throughput::noop_worker(self.punctual, self.concurrency).await?;
        let mut heartbeat = time::interval(Duration::from_secs(1) / BATCHES as u32);
        while opened.elapsed() < age {
            heartbeat.tick().await;
            let to = self.done + LOAD / BATCHES;
            self.punctual.enqueue_all(throughput::batch(self.done, to)).await?;
            self.done = to;
            on_progress("seconds held", opened.elapsed().as_secs(), age.as_secs());
        }
        worker.until_empty().await;
        worker.stop().await;
        Ok(())
    }
}
