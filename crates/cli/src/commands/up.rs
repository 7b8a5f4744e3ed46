//! `punctual up`: everything on one machine, with a live status line.

use std::{convert::Infallible, pin::pin, time::Duration};

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use punctual::{Admin, Punctual, Stats, Status};
use punctual_server::RunningServer;
use tokio::time;

use crate::{
    args::{Cli, Up},
    commands::{
        bootstrap, demo,
        http::{self, WorkerStats},
        local_workers::LocalWorkers,
        serve::{self, WorkerProcesses},
        work,
    },
    config::Config,
    format::{self, BOLD, DIM, status_style},
};

pub(crate) async fn run(cli: &Cli, config: &Config, args: &Up) -> Result<()> {
    let address = http::bind(args.http.listen)?;
    let punctual = config.connect_to_serve(cli).await?;
    bootstrap::run(&punctual).await?;
    // Handle signals before starting jobs, which a signal would otherwise lose.
    let mut stop_signal = pin!(work::stop_signal()?);
    // The server starts first, so that health probes report what is waited for.
    let stats = WorkerStats::default();
    let server = http::server(config, &punctual, &args.http, stats.clone());
    let server = http::start(server, address).await?;
    let make = async || {
        config.prepare(&punctual).await?;
        let workers = match args.workers {
            None => LocalWorkers::Worker(config.worker(punctual.clone(), &args.worker)?.start().await?),
            Some(count) => {
                let processes = WorkerProcesses { count, args: &args.worker };
                LocalWorkers::Processes(serve::start(cli, config, &punctual, processes)?)
            }
        };
        stats.watch(workers.watch_stats());
        greet(config, &punctual, server.as_ref());
        if args.demo {
            let jobs = demo::enqueue(&punctual).await?;
            anstream::eprintln!("{DIM}enqueued {jobs} jobs; see them in a second shell: punctual jobs list{DIM:#}");
        }
        Ok(workers)
    };
    let ended = match LocalWorkers::start(&punctual, &mut stop_signal, make).await {
        Ok(Some(workers)) => show_until(stop_signal, workers, &punctual, cli.json).await,
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    http::stop_after(&ended, server).await;
    ended
}

/// Works and shows the status line until the stop signal.
async fn show_until(
    stop_signal: impl Future<Output = ()>,
    mut workers: LocalWorkers,
    punctual: &Punctual,
    json: bool,
) -> Result<()> {
    let (line, admin) = (status_line(), punctual.admin(crate::config::actor()));
    format::keep_below_log(&line);
    let stats = workers.watch_stats();
    let ended = tokio::select! {
        () = stop_signal => Ok(()),
        never = watch(&admin, stats, &line) => match never {},
        error = workers.failed() => Err(error),
    };
    line.finish_and_clear();
    workers.end(ended, json).await
}

fn greet(config: &Config, punctual: &Punctual, server: Option<&RunningServer>) {
    let location = punctual.store().info().location;
    anstream::eprintln!("{BOLD}Punctual{BOLD:#} is running on {location} {DIM}(Ctrl-C stops it){DIM:#}");
    if let Some(server) = server {
        anstream::eprintln!("{DIM}dashboard and API:{DIM:#} {BOLD}{}{BOLD:#}", server.url());
    }
    let mut names = vec!["noop", "echo", "sleep", "fail"];
    names.extend(config.handler_names());
    anstream::eprintln!(
        "{DIM}handlers: {}; try: punctual enqueue echo '{{\"hello\": \"world\"}}'{DIM:#}",
        names.join(", ")
    );
}

fn status_line() -> ProgressBar {
    let line = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
    line.with_style(style)
}

/// Updates the status line four times per second.
async fn watch(admin: &Admin, stats_now: impl Fn() -> Stats, line: &ProgressBar) -> Infallible {
    const PERIOD: Duration = Duration::from_millis(250);
    let (mut last, mut rate) = (stats_now(), 0.0);
    loop {
        time::sleep(PERIOD).await;
        let stats = stats_now();
        let ended = |stats: &Stats| stats.succeeded + stats.failed + stats.died;
        let now = ended(&stats).saturating_sub(ended(&last)) as f64 / PERIOD.as_secs_f64();
        // Smoothed, so that it is readable.
        rate = 0.7 * rate + 0.3 * now;
        last = stats;
        let overview = match admin.overview().await {
            Ok(overview) => overview,
            // The workers continue, so the status line does too.
            Err(error) => {
                line.set_message(format!("{error}"));
                line.tick();
                continue;
            }
        };
        let shown =
            [Status::Scheduled, Status::Queued, Status::Processing, Status::Retrying, Status::Succeeded, Status::Dead];
        let mut parts = Vec::new();
        for status in shown {
            let (style, count) = (status_style(status), overview.jobs.get(&status).copied().unwrap_or(0));
            parts.push(format!("{style}●{style:#} {status} {}", format::number(count)));
        }
        line.set_message(format!("{}  {rate:.0} jobs/s", parts.join("  ")));
        line.tick();
    }
}
