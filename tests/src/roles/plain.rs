//! A worker, and a process that enqueues.

use std::{future, path::Path, sync::Arc, time::Duration};

use punctual::{Context, Draft, Failure, Punctual, Worker};

use crate::ledger::Ledger;

/// Runs jobs until the process is killed, and records their starts.
pub(super) async fn work(url: &str, ledger: &Path, lease_ms: u64) {
    let ledger = Arc::new(Ledger::open(ledger));
    let held = Arc::clone(&ledger);
    let punctual = Punctual::connect(url).await.unwrap();
    let _worker = Worker::builder(punctual)
        .handler("fast", move |ctx: Context| {
            ledger.write(&format!("{} {}\n", ctx.id(), ctx.claim().job.run));
            async { Ok(None) }
        })
        .handler("node", |ctx: Context| async move {
            // The payload sets how often it fails or crashes before it ends.
            let plan: serde_json::Value = ctx.claim().job.spec.payload.read().unwrap();
            match plan["failures"].as_u64().unwrap() {
                failures if u64::from(ctx.attempt()) <= failures => Err(Failure::new("planned")),
                _ if plan["dies"] == true => Err(Failure::permanent("planned")),
                _ => Ok(None),
            }
        })
        .handler("held", move |ctx: Context| {
            held.write(&format!("{} {}\n", ctx.id(), ctx.claim().job.run));
            future::pending()
        })
        .concurrency(200)
        .lease(Duration::from_millis(lease_ms))
        .start()
        .await
        .unwrap();
    future::pending::<()>().await;
}

/// Enqueues until the process is killed.
pub(super) async fn enqueue(url: &str, ledger: &Path) {
    let ledger = Arc::new(Ledger::open(ledger));
    let punctual = Punctual::connect(url).await.unwrap();
    for _ in 0..16 {
        let (punctual, ledger) = (punctual.clone(), Arc::clone(&ledger));
        tokio::spawn(async move {
            loop {
                let job = punctual.enqueue(Draft::new("fast", &())).await.unwrap();
                ledger.write(&format!("{}\n", job.id));
            }
        });
    }
    future::pending::<()>().await;
}
