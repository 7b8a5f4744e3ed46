//! `punctual serve`: worker processes under one supervisor, for production.

use std::{
    env,
    ffi::OsString,
    io::{self, Write},
    pin::pin,
    process::Stdio,
};

use anyhow::{Context, Result};
use punctual::{Punctual, RunningSupervisor, Stats, Supervisor};
use tokio::process::Command;

use crate::{
    args::{Cli, Serve, WorkerArgs},
    commands::{
        http::{self, CrewStats},
        local_workers::LocalWorkers,
        work::{asked_to_stop, say_done},
    },
    config::Config,
    format::{self, Span},
};

pub(crate) async fn run(cli: &Cli, config: &Config, args: &Serve) -> Result<()> {
    let punctual = config.connect_to_serve(cli).await?;
    // Handle signals before starting jobs, which a signal would otherwise lose.
    let asked_to_stop = asked_to_stop()?;
    // The server starts first, so that health probes report what is waited for.
    let stats = CrewStats::default();
    let server = http::start(&punctual, &args.http, stats.clone()).await?;
    if let Some(server) = &server {
        eprintln!("listening on {}", server.url());
    }
    let ended = work(cli, config, args, &punctual, (stats, asked_to_stop)).await;
    http::stop_after(&ended, server).await;
    ended
}

/// Works until it is asked to stop.
async fn work(
    cli: &Cli,
    config: &Config,
    args: &Serve,
    punctual: &Punctual,
    (stats, asked_to_stop): (CrewStats, impl Future<Output = ()>),
) -> Result<()> {
    let mut asked_to_stop = pin!(asked_to_stop);
    let make = async || {
        config.prepare(punctual).await?;
        Ok(match args.workers {
            // Other processes run the jobs; this one runs schedules and reclaims jobs of lost workers.
            0 => LocalWorkers::Worker(config.worker(punctual.clone(), &args.worker)?.upkeep_only().start().await?),
            workers => LocalWorkers::Processes(start(cli, config, punctual, workers, &args.worker)?),
        })
    };
    let Some(mut workers) = LocalWorkers::start(punctual, &mut asked_to_stop, make).await? else { return Ok(()) };
    stats.watch(workers.watch_stats());
    eprintln!("{} worker processes on {}", args.workers, punctual.store().info().location);
    let ended = tokio::select! {
        () = asked_to_stop => Ok(()),
        error = workers.failed() => Err(error),
    };
    workers.end(ended).await
}

/// Starts worker processes: this program, with the same settings.
pub(crate) fn start(
    cli: &Cli,
    config: &Config,
    punctual: &Punctual,
    workers: usize,
    worker: &WorkerArgs,
) -> Result<RunningSupervisor> {
    // Settings that no process could start with are reported before any is started.
    config.worker(punctual.clone(), worker)?.check()?;
    let program = env::current_exe().context("cannot find out which program this is")?;
    let settings = settings(cli, worker);
    let command = move || {
        let mut command = Command::new(&program);
        command.args(["work", "--supervised"]).envs(settings.iter().cloned()).stdout(Stdio::null());
        command
    };
    let supervisor = Supervisor::new(punctual.clone(), workers, command);
    let write = |line: &str| drop(writeln!(io::BufWriter::new(format::LogWriter::new()), "{line}"));
    Ok(supervisor.on_log_line(write).start()?)
}

/// Passes flags as environment variables: a URL with a password must not be visible in the process list.
fn settings(cli: &Cli, worker: &WorkerArgs) -> Vec<(&'static str, OsString)> {
    let text = |text: &Option<String>| text.as_ref().map(OsString::from);
    let flag = |flag: bool| flag.then(|| OsString::from("true"));
    let span = |span: Option<Span>| span.map(|span| OsString::from(format!("{}ms", span.0.as_millis())));
    // Warnings, unless the variable requests another level.
    let level = env::var_os("PUNCTUAL_LOG").unwrap_or_else(|| "warn".into());
    let settings = [
        ("PUNCTUAL_LOG", Some(level)),
        ("PUNCTUAL_STORE", text(&cli.store)),
        ("PUNCTUAL_DISPATCH", text(&cli.dispatch)),
        ("PUNCTUAL_LOCKS", text(&cli.locks)),
        ("PUNCTUAL_LOCK_JOBS", flag(cli.lock_jobs)),
        ("PUNCTUAL_CONFIG", cli.config.as_ref().map(OsString::from)),
        ("PUNCTUAL_QUEUES", worker.queues.as_ref().map(|queues| OsString::from(queues.join(",")))),
        ("PUNCTUAL_STRICT", flag(worker.strict)),
        ("PUNCTUAL_CONCURRENCY", worker.concurrency.map(|jobs| OsString::from(jobs.to_string()))),
        ("PUNCTUAL_LEASE", span(worker.lease)),
        ("PUNCTUAL_DRAIN_TIMEOUT", span(worker.drain_timeout)),
        ("PUNCTUAL_ALERT_URL", text(&worker.alerts.alert_url)),
        ("PUNCTUAL_ALERT_SECRET_FILE", worker.alerts.alert_secret_file.as_ref().map(OsString::from)),
    ];
    settings.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Stops all processes gracefully; a second signal stops them at once.
pub(crate) async fn stop(supervisor: RunningSupervisor) -> Result<()> {
    let (Stats { running, .. }, again) = (supervisor.stats(), asked_to_stop()?);
    eprintln!("draining: {} jobs are running; interrupt again to end now", format::number(running));
    let stats = supervisor.stop(again).await;
    say_done("all worker processes", stats);
    Ok(())
}
