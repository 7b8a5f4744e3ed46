//! Measures the same work over HTTP and through the library, in the same batches, one after the other.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use punctual::{
    Draft, Punctual,
    core::{ClaimRequest, Settled, Settlement, WorkerId},
};
use punctual_server::Server;
use reqwest::Client;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use crate::{OnProgress, StoreFactory, check, object, payload};

/// Number of concurrent senders.
const SENDERS: usize = 4;
/// Jobs per enqueue.
const BATCH: usize = 1_000;
/// Jobs per claim, and per settle.
const CLAIM: usize = 100;

/// Enqueues and runs the same number of jobs in both ways.
pub(crate) async fn http(
    stores: &StoreFactory,
    jobs: usize,
    on_progress: OnProgress<'_>,
) -> Result<Map<String, Value>> {
    let library = measure(Arc::new(Library(stores.fresh("library").await?)), jobs, on_progress).await?;
    let punctual = stores.fresh("http").await?;
    let server = Server::new(punctual.clone()).start(([127, 0, 0, 1], 0).into()).await?;
    let remote = Remote { client: client()?, url: server.url(), punctual };
    let http = measure(Arc::new(remote), jobs, on_progress).await?;
    server.stop(Duration::from_secs(1)).await;
    Ok(object(json!({
        "enqueue_per_s": http.0.round(),
        "drain_per_s": http.1.round(),
        "library_enqueue_per_s": library.0.round(),
        "library_drain_per_s": library.1.round(),
        "enqueue_batch": BATCH,
        "claim_batch": CLAIM,
        "senders": SENDERS,
    })))
}

/// A client of the server.
pub(crate) fn client() -> Result<Client> {
    // The client requires a provider, although it uses no TLS here.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(Client::builder().build()?)
}

/// A way to access Punctual.
trait Way: Send + Sync + 'static {
    fn punctual(&self) -> &Punctual;
    fn enqueue(&self, first: usize, jobs: usize) -> impl Future<Output = Result<()>> + Send;
    /// Claims jobs and settles them; returns how many.
    fn work(&self, worker: WorkerId) -> impl Future<Output = Result<usize>> + Send;
}

/// Jobs enqueued per second, and jobs executed per second.
async fn measure<W: Way>(way: Arc<W>, jobs: usize, on_progress: OnProgress<'_>) -> Result<(f64, f64)> {
    let (began, next) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    let mut senders = JoinSet::new();
    for _ in 0..SENDERS {
        let (way, next) = (Arc::clone(&way), Arc::clone(&next));
        senders.spawn(async move {
            loop {
                let first = next.fetch_add(BATCH, Ordering::Relaxed);
                if first >= jobs {
                    return Ok(());
                }
                way.enqueue(first, BATCH.min(jobs - first)).await?;
            }
        });
    }
    all(senders).await?;
    let enqueue = jobs as f64 / began.elapsed().as_secs_f64();
    on_progress("drain", 0, jobs as u64);
    let (began, done) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    let mut workers = JoinSet::new();
    for _ in 0..SENDERS {
        let (way, done) = (Arc::clone(&way), Arc::clone(&done));
        workers.spawn(async move {
            let punctual = way.punctual();
            let worker = WorkerId::from_bits(punctual.ids().next(punctual.store().now()));
            while done.load(Ordering::Relaxed) < jobs {
                done.fetch_add(way.work(worker).await?, Ordering::Relaxed);
            }
            Ok(())
        });
    }
    all(workers).await?;
    let drain = jobs as f64 / began.elapsed().as_secs_f64();
    check::all_succeeded(way.punctual(), jobs).await?;
    Ok((enqueue, drain))
}

async fn all(mut tasks: JoinSet<Result<()>>) -> Result<()> {
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

/// The library, in this process.
struct Library(Punctual);

impl Way for Library {
    fn punctual(&self) -> &Punctual {
        &self.0
    }

    async fn enqueue(&self, first: usize, jobs: usize) -> Result<()> {
        self.0.enqueue_all((first..first + jobs).map(|number| Draft::new("noop", &payload(number)))).await?;
        Ok(())
    }

    async fn work(&self, worker: WorkerId) -> Result<usize> {
        let request = ClaimRequest {
            names: vec!["noop".into()],
            wait: Duration::from_millis(100),
            ..ClaimRequest::new(worker, CLAIM, Duration::from_secs(60))
        };
        let claims = self.0.store().claim(request).await?.claims;
        let ends: Vec<_> = claims.iter().map(|claim| Settlement::succeed(claim.attempt_id(), worker, None)).collect();
        let settled = self.0.store().settle(ends).await?;
        ensure!(settled.iter().all(|one| *one == Settled::Done), "a job was taken away: the run is invalid");
        Ok(settled.len())
    }
}

/// The HTTP API of a server.
struct Remote {
    client: Client,
    url: String,
    punctual: Punctual,
}

impl Remote {
    async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let answer = self.client.post(format!("{}{path}", self.url)).json(body).send().await?;
        Ok(answer.error_for_status()?.json().await?)
    }
}

impl Way for Remote {
    fn punctual(&self) -> &Punctual {
        &self.punctual
    }

    async fn enqueue(&self, first: usize, jobs: usize) -> Result<()> {
        let jobs: Vec<Value> =
            (first..first + jobs).map(|number| json!({"name": "noop", "payload": payload(number)})).collect();
        self.post("/v1/jobs/batch", &json!({ "jobs": jobs })).await?;
        Ok(())
    }

    async fn work(&self, worker: WorkerId) -> Result<usize> {
        let request = json!({"worker": worker, "names": ["noop"], "limit": CLAIM, "lease": "60s", "wait": "100ms"});
        let claimed = self.post("/v1/work/claim", &request).await?;
        let jobs = claimed["jobs"].as_array().map(Vec::as_slice).unwrap_or_default();
        if jobs.is_empty() {
            return Ok(0);
        }
        let ends: Vec<Value> =
            jobs.iter().map(|job| json!({"attempt_id": job["attempt_id"], "outcome": "succeeded"})).collect();
        let settled = self.post("/v1/work/settle", &json!({"worker": worker, "jobs": ends})).await?;
        let all = settled["settled"].as_array().is_some_and(|all| all.iter().all(|one| *one == json!(true)));
        ensure!(all, "a job was taken away: the run is invalid");
        Ok(jobs.len())
    }
}
