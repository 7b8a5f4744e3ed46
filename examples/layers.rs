//! Layers: the tenant of a request is stored with each job and restored around its handler, and executions are
//! measured.
//!
//! `cargo run -p examples --example layers`

use std::time::{Duration, Instant};

use punctual::{Context, HandlerResult, Job, Next, Punctual, Worker};
use serde::{Deserialize, Serialize};

tokio::task_local! {
    /// The tenant for whom the current task works.
    static TENANT: String;
}

#[derive(Serialize, Deserialize, Job)]
struct Invoice {
    order: u32,
}

async fn invoice(job: Invoice, _: Context) -> anyhow::Result<String> {
    let tenant = TENANT.try_with(Clone::clone)?;
    Ok(format!("order {} of {tenant}", job.order))
}

async fn timed(ctx: Context, next: Next) -> HandlerResult {
    let (name, start) = (ctx.claim().job.spec.name.clone(), Instant::now());
    let result = next.run(ctx).await;
    println!("{name}: {:?}", start.elapsed());
    result
}

async fn of_tenant(ctx: Context, next: Next) -> HandlerResult {
    match ctx.claim().job.spec.user_id.clone() {
        Some(tenant) => TENANT.scope(tenant, next.run(ctx)).await,
        None => next.run(ctx).await,
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (_folder, url) = examples::temporary_store()?;
    let punctual = Punctual::connect(&url).await?.layer(|draft, next| match TENANT.try_with(Clone::clone) {
        Ok(tenant) => next.run(draft.user(tenant)),
        Err(_) => next.run(draft),
    });
    let worker = Worker::builder(punctual.clone()).layer(timed).layer(of_tenant).register(invoice).start().await?;

    let job = TENANT.scope("acme".into(), punctual.enqueue(Invoice { order: 7 })).await?;
    let done = punctual.wait(job.id, Duration::from_secs(30)).await?;
    println!("{}: {}", done.status, done.result.as_ref().map(|result| result.as_str()).unwrap_or_default());
    assert_eq!(done.result.map(|result| result.as_str().to_owned()).as_deref(), Some("\"order 7 of acme\""));

    worker.stop().await;
    Ok(())
}
