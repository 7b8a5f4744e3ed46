//! Measures the time from the death of a worker process to the start of its jobs elsewhere.

use std::{
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use punctual::{Context, Draft, Filter, Page, Punctual, Status, Worker};
use serde_json::{Map, Value, json};
use tokio::{sync::mpsc, time};

use crate::{Settings, StoreFactory, object, payload, percentile};

/// Number of jobs that the victim holds when it is killed.
const HELD: usize = 10;

/// A worker process whose handlers never end, for the scenario `crash` to kill.
pub async fn victim(url: &str) -> Result<()> {
    let punctual = Punctual::connect(url).await?;
    let worker = Worker::builder(punctual)
        .handler("noop", |_: Context| async {
            std::future::pending::<()>().await;
            Ok(None)
        })
        .concurrency(HELD)
        .start()
        .await?;
    let _kept = worker;
    std::future::pending::<()>().await;
    Ok(())
}

/// Kills a worker process, and measures until each of its jobs starts in another one; repeated `rounds` times.
pub(crate) async fn crash(stores: &StoreFactory, settings: &Settings, rounds: usize) -> Result<Map<String, Value>> {
    let mut seconds = Vec::new();
    for round in 0..rounds {
        seconds.extend(one(stores, settings, round).await?);
    }
    seconds.sort_by(f64::total_cmp);
    Ok(object(json!({"s_p50": percentile(&seconds, 0.5), "s_max": percentile(&seconds, 1.0), "lease_s": 30})))
}

async fn one(stores: &StoreFactory, settings: &Settings, round: usize) -> Result<Vec<f64>> {
    let url = stores.fresh_url(&format!("crash-{round}")).await?;
    let punctual = Punctual::connect(&url).await?;
    punctual.enqueue_all((0..HELD).map(|number| Draft::new("noop", &payload(number)))).await?;
    let mut victim = Victim(
        Command::new(&settings.program)
            .args(["bench", "crash-victim", "--store", &url])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start a worker process")?,
    );
    loop {
        let held = punctual.store().list(Filter::status(Status::Processing), Page::first(HELD)).await?;
        if held.jobs.len() == HELD {
            break;
        }
        time::sleep(Duration::from_millis(10)).await;
    }
    let (started, mut starts) = mpsc::unbounded_channel();
    let worker = Worker::builder(punctual.clone())
        .handler("noop", move |_: Context| {
            let _ = started.send(Instant::now());
            async { Ok(None) }
        })
        .start()
        .await?;
    victim.0.kill()?;
    victim.0.wait()?;
    let died = Instant::now();
    let mut seconds = Vec::new();
    for _ in 0..HELD {
        let start = starts.recv().await.context("the worker has gone")?;
        seconds.push(start.duration_since(died).as_secs_f64());
    }
    worker.stop().await;
    Ok(seconds)
}

/// Killed when dropped, so that no process is left behind after an error.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
