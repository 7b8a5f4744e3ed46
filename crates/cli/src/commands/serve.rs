//! `punctual serve`: worker processes under one supervisor, for production.

use std::{
    env,
    ffi::OsString,
    io::{self, Write},
    pin::pin,
    process::Stdio,
};

use anyhow::{Context, Result};
use punctual::{Punctual, RunningSupervisor, Supervisor};
use tokio::process::Command;

use crate::{
    args::{Cli, Serve, WorkerArgs},
    commands::{
        bootstrap,
        http::{self, WorkerStats},
        local_workers::LocalWorkers,
        work::stop_signal,
    },
    config::{Config, environment::BOOTSTRAP_TOKEN},
    format::{self, Span},
};

pub(crate) async fn run(cli: &Cli, config: &Config, args: &Serve) -> Result<()> {
    let address = http::bind(args.http.listen)?;
    let punctual = config.connect_to_serve(cli).await?;
    bootstrap::run(&punctual).await?;
    // Handle signals before starting jobs, which a signal would otherwise lose.
    let mut stop_signal = pin!(stop_signal()?);
    // The server starts first, so that health probes report what is waited for.
    let stats = WorkerStats::default();
    let server = http::server(config, &punctual, &args.http, stats.clone());
    let server = http::start(server, address).await?;
    if let Some(server) = &server {
        eprintln!("listening on {}", server.url());
    }
    let make = async || {
        config.prepare(&punctual).await?;
        let workers = match args.workers {
            // Other processes run the jobs; this one runs schedules and reclaims jobs of lost workers.
            0 => LocalWorkers::Worker(config.worker(punctual.clone(), &args.worker)?.upkeep_only().start().await?),
            count => {
                let processes = WorkerProcesses { count, args: &args.worker };
                LocalWorkers::Processes(start(cli, config, &punctual, processes)?)
            }
        };
        stats.watch(workers.watch_stats());
        eprintln!("{} worker processes on {}", args.workers, punctual.store().info().location);
        Ok(workers)
    };
    let ended = match LocalWorkers::start(&punctual, &mut stop_signal, make).await {
        Ok(Some(workers)) => work_until(stop_signal, workers, cli.json).await,
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    http::stop_after(&ended, server).await;
    ended
}

/// Works until the stop signal, or until no worker can continue.
async fn work_until(stop_signal: impl Future<Output = ()>, mut workers: LocalWorkers, json: bool) -> Result<()> {
    let ended = tokio::select! {
        () = stop_signal => Ok(()),
        error = workers.failed() => Err(error),
    };
    workers.end(ended, json).await
}

/// Worker processes to start.
pub(crate) struct WorkerProcesses<'a> {
    pub(crate) count: usize,
    pub(crate) args: &'a WorkerArgs,
}

/// Starts worker processes: this program, with the same settings.
pub(crate) fn start(
    cli: &Cli,
    config: &Config,
    punctual: &Punctual,
    processes: WorkerProcesses<'_>,
) -> Result<RunningSupervisor> {
    // Settings that no process could start with are reported before any is started.
    config.worker(punctual.clone(), processes.args)?.check()?;
    let program = env::current_exe().context("cannot determine the path of this program")?;
    let settings = settings(cli, processes.args);
    let command = move || {
        let mut command = Command::new(&program);
        command.args(["work", "--supervised"]).stdout(Stdio::null());
        for (name, value) in &settings {
            // A flag takes precedence over a file that a variable names; two variables would contradict each other.
            let other = name.strip_suffix("_FILE").map_or_else(|| format!("{name}_FILE"), str::to_owned);
            command.env(name, value).env_remove(other);
        }
        // Only this process needs it.
        command.env_remove(BOOTSTRAP_TOKEN);
        command
    };
    let supervisor = Supervisor::new(punctual.clone(), processes.count, command);
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
