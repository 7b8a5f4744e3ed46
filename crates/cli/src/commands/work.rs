//! `punctual work`: a worker without API and dashboard.

use anyhow::Result;
use punctual::{RunningWorker, Stats, Supervised};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    args::{Cli, Work},
    config::Config,
    exit::Usage,
    format,
};

pub(crate) async fn run(cli: &Cli, config: &Config, args: &Work) -> Result<()> {
    if args.supervised {
        return supervised(cli, config, args).await;
    }
    let punctual = config.connect_to_work(cli).await?;
    config.prepare(&punctual).await?;
    // Handle signals before starting jobs, which a signal would otherwise lose.
    let asked_to_stop = asked_to_stop()?;
    let worker = config.worker(punctual.clone(), &args.worker)?.start().await?;
    eprintln!("{} works on {}", worker.id(), punctual.store().info().location);
    let empty = async {
        match args.until_empty {
            true => worker.until_empty().await,
            false => std::future::pending().await,
        }
    };
    tokio::select! {
        () = empty => {}
        () = asked_to_stop => {}
        error = worker.failed() => {
            worker.stop_now().await;
            return Err(error.into());
        }
    }
    stop(worker).await
}

/// A worker process of a supervisor, which has prepared the store and requests the stop.
async fn supervised(cli: &Cli, config: &Config, args: &Work) -> Result<()> {
    let link =
        Supervised::link().map_err(|_| Usage("--supervised is for processes that `serve` and `up` start".into()))?;
    let start = async {
        let punctual = config.connect_to_work(cli).await?;
        let asked_to_stop = asked_to_stop()?;
        let worker = config.worker(punctual.clone(), &args.worker)?.start().await?;
        anyhow::Ok((punctual, worker, asked_to_stop))
    };
    match start.await {
        Ok((punctual, worker, asked_to_stop)) => {
            link.work(&punctual, worker, asked_to_stop).await?;
            Ok(())
        }
        Err(error) => {
            link.fail(format!("{error:#}")).await;
            Err(error)
        }
    }
}

/// Completes when the process is asked to stop.
pub(crate) fn asked_to_stop() -> Result<impl Future<Output = ()>> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Drains the worker; a second signal stops it at once.
pub(crate) async fn stop(worker: RunningWorker) -> Result<()> {
    let (running, id, again) = (worker.stats().running, worker.id(), asked_to_stop()?);
    if running > 0 {
        eprintln!("draining: {} jobs are running; interrupt again to end now", format::number(running));
    }
    let stats = tokio::select! {
        stats = worker.stop() => stats,
        () = again => anyhow::bail!("ended before all jobs were settled; their leases will run out"),
    };
    say_done(&id.to_string(), stats);
    Ok(())
}

/// Prints what was done.
pub(crate) fn say_done(who: &str, stats: Stats) {
    let done = [("succeeded", stats.succeeded), ("failed", stats.failed), ("died", stats.died)];
    let done: Vec<_> = done.iter().map(|(what, count)| format!("{} {what}", format::number(*count))).collect();
    eprintln!("{who} stopped: {}", done.join(", "));
}
