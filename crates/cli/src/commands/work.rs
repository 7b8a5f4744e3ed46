//! `punctual work`: a worker without API and dashboard.

use anyhow::Result;
use punctual::{RunningWorker, Stats, Supervised};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    args::{Cli, Listen, Work},
    commands::http::{self, WorkerClaims, WorkerStats},
    config::Config,
    exit::Usage,
    format,
    output::print_json,
};

pub(crate) async fn run(cli: &Cli, config: &Config, args: &Work) -> Result<()> {
    if args.supervised {
        return supervised(cli, config, args).await;
    }
    let address = http::bind(args.listen.unwrap_or(Listen(None)))?;
    let punctual = config.connect_to_serve(cli).await?;
    // The server starts first, so that health probes report what is waited for.
    let (stats, claims) = (WorkerStats::default(), WorkerClaims::default());
    let server = http::start_probes(&punctual, address, stats.clone(), claims.clone()).await?;
    if let Some(server) = &server {
        eprintln!("health endpoints: {}", server.url());
    }
    punctual.until_writable().await;
    config.prepare(&punctual).await?;
    // Handle signals before starting jobs, which a signal would otherwise lose.
    let stop_signal = stop_signal()?;
    let worker = config.worker(punctual.clone(), &args.worker)?.start().await?;
    stats.watch(Box::new(worker.watch_stats()));
    claims.watch(Box::new(worker.watch_claims()));
    eprintln!("worker {} is running on {}", worker.id(), punctual.store().info().location);
    let ended = work_until(stop_signal, worker, args.until_empty, cli.json).await;
    http::stop_after(&ended, server).await;
    ended
}

/// Works until the stop signal, until there is nothing left to do if that is asked for, or until the store fails.
async fn work_until(
    stop_signal: impl Future<Output = ()>,
    worker: RunningWorker,
    until_empty: bool,
    json: bool,
) -> Result<()> {
    let empty = async {
        match until_empty {
            true => worker.until_empty().await,
            false => std::future::pending().await,
        }
    };
    tokio::select! {
        () = empty => {}
        () = stop_signal => {}
        error = worker.failed() => {
            worker.stop_now().await;
            return Err(error.into());
        }
    }
    stop(worker, json).await
}

/// A worker process of a supervisor, which has prepared the store and requests the stop.
async fn supervised(cli: &Cli, config: &Config, args: &Work) -> Result<()> {
    let link =
        Supervised::link().map_err(|_| Usage("--supervised is for processes that `serve` and `up` start".into()))?;
    let start = async {
        let punctual = config.connect_to_work(cli).await?;
        let stop_signal = stop_signal()?;
        let worker = config.worker(punctual.clone(), &args.worker)?.start().await?;
        anyhow::Ok((punctual, worker, stop_signal))
    };
    match start.await {
        Ok((punctual, worker, stop_signal)) => {
            link.work(&punctual, worker, stop_signal).await?;
            Ok(())
        }
        Err(error) => {
            link.fail(format!("{error:#}")).await;
            Err(error)
        }
    }
}

/// Completes when the process receives SIGINT or SIGTERM.
pub(crate) fn stop_signal() -> Result<impl Future<Output = ()>> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Drains the worker; a second signal stops it at once.
pub(crate) async fn stop(worker: RunningWorker, json: bool) -> Result<()> {
    let (running, id, again) = (worker.stats().running, worker.id(), stop_signal()?);
    if running > 0 {
        eprintln!("draining: {} jobs are running; interrupt again to end now", format::number(running));
    }
    let stats = tokio::select! {
        stats = worker.stop() => stats,
        () = again => anyhow::bail!("ended before all jobs were settled; their leases will expire"),
    };
    print_done(&id.to_string(), stats, json)
}

/// Prints what was done: a sentence among the messages, or with `--json` a document.
pub(crate) fn print_done(stopped: &str, stats: Stats, json: bool) -> Result<()> {
    let Stats { succeeded, failed, died, .. } = stats;
    if json {
        return print_json(&json!({"stopped": stopped, "succeeded": succeeded, "failed": failed, "died": died}));
    }
    let done = [("succeeded", succeeded), ("failed", failed), ("died", died)];
    let done: Vec<_> = done.iter().map(|(outcome, count)| format!("{} {outcome}", format::number(*count))).collect();
    eprintln!("{stopped} stopped: {}", done.join(", "));
    Ok(())
}
