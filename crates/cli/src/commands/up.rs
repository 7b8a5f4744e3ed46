//! `punctual up`: everything on one machine, with a live status line.

use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use punctual::{Admin, RunningWorker, Status};
use tokio::time;

use crate::{
    args::{Cli, Up},
    commands::{demo, work},
    config::Config,
    human::{self, BOLD, DIM, status_style},
};

pub(crate) async fn run(cli: &Cli, config: &Config, args: &Up) -> Result<()> {
    let punctual = config.connect(cli).await?;
    config.sync_queues(&punctual).await?;
    config.sync_schedules(&punctual).await?;
    let worker = config.worker(punctual.clone(), &args.worker)?.start().await?;
    let location = punctual.store().info().location;
    anstream::eprintln!("{BOLD}Punctual{BOLD:#} works on {location} {DIM}(Ctrl-C stops it){DIM:#}");
    let mut names = vec!["noop", "echo", "sleep", "fail"];
    names.extend(config.handlers.keys().map(String::as_str));
    anstream::eprintln!(
        "{DIM}handlers: {}; try: punctual enqueue echo '{{\"hello\": \"world\"}}'{DIM:#}",
        names.join(", ")
    );
    if args.demo {
        let jobs = demo::enqueue(&punctual).await?;
        anstream::eprintln!("{DIM}enqueued {jobs} jobs to look at; in a second shell: punctual jobs list{DIM:#}");
    }
    let (line, admin) = (status_line(), punctual.admin(crate::config::actor()));
    human::keep_below_log(&line);
    tokio::select! {
        () = work::asked_to_stop()? => {}
        never = watch(&admin, &worker, &line) => never?,
    }
    line.finish_and_clear();
    work::stop(worker).await
}

fn status_line() -> ProgressBar {
    let line = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
    line.with_style(style)
}

/// Shows how things stand, four times a second.
async fn watch(admin: &Admin, worker: &RunningWorker, line: &ProgressBar) -> Result<()> {
    const PERIOD: Duration = Duration::from_millis(250);
    let (mut last, mut rate) = (worker.stats(), 0.0);
    loop {
        time::sleep(PERIOD).await;
        let stats = worker.stats();
        let ended = |stats: &punctual::Stats| stats.succeeded + stats.failed + stats.died;
        let now = (ended(&stats) - ended(&last)) as f64 / PERIOD.as_secs_f64();
        // Smoothed, so that it can be read.
        rate = 0.7 * rate + 0.3 * now;
        last = stats;
        let overview = admin.overview().await?;
        let shown =
            [Status::Scheduled, Status::Queued, Status::Processing, Status::Retrying, Status::Succeeded, Status::Dead];
        let mut parts = Vec::new();
        for status in shown {
            let (style, count) = (status_style(status), overview.jobs.get(&status).copied().unwrap_or(0));
            parts.push(format!("{style}●{style:#} {status} {}", human::number(count)));
        }
        line.set_message(format!("{}  {rate:.0} jobs/s", parts.join("  ")));
        line.tick();
    }
}
