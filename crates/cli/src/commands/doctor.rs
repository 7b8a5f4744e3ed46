//! `punctual doctor`: reports problems, and what to do about them.

use std::{collections::BTreeSet, process::ExitCode};

use anyhow::Result;
use punctual::{
    Punctual, Status,
    admin::{Access, is_live},
    core::{Count, Diagnostic, limits, schedule::MISFIRE_GRACE},
};
use serde_json::json;

use crate::{
    args::Cli,
    commands::config::problems,
    config::{Config, environment::Environment, settings::Settings},
    exit,
    format::{BOLD, status_style},
    output::print_json,
};

pub(crate) async fn run(cli: &Cli, config: &Config) -> Result<ExitCode> {
    let punctual = config.connect(cli).await?;
    let mut diagnostics = punctual.store().check().await.map_err(punctual::Error::from)?;
    diagnostics.push(unserved(&punctual).await?);
    diagnostics.push(vanished(&punctual).await?);
    diagnostics.push(schedules(&punctual).await?);
    diagnostics.push(access(&punctual).await?);
    diagnostics.push(configuration(cli));
    let well = diagnostics.iter().all(|diagnostic| diagnostic.ok);
    if cli.json {
        print_json(&json!({"ok": well, "diagnostics": diagnostics}))?;
    } else {
        anstream::println!("{BOLD}{}{BOLD:#}", punctual.store().info().location);
        diagnostics.iter().for_each(print);
    }
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

fn print(diagnostic: &Diagnostic) {
    let style = status_style(if diagnostic.ok { Status::Succeeded } else { Status::Dead });
    let mark = if diagnostic.ok { "✓" } else { "✗" };
    anstream::println!("{style}{mark}{style:#} {:<12} {}", diagnostic.check, diagnostic.message);
}

/// Queued jobs without a live worker that has a handler for them.
async fn unserved(punctual: &Punctual) -> Result<Diagnostic> {
    let now = punctual.store().now();
    let workers = punctual.store().workers().await.map_err(punctual::Error::from)?;
    let live: Vec<_> = workers.iter().filter(|worker| is_live(worker, now)).collect();
    let served = |count: &Count| live.iter().any(|worker| worker.runs(&count.queue, &count.name));
    let counts = punctual.store().counts().await.map_err(punctual::Error::from)?;
    let waiting = counts.iter().filter(|count| count.status == Status::Queued && !served(count));
    let lanes: BTreeSet<_> = waiting.map(|count| format!("`{}` in queue `{}`", count.name, count.queue)).collect();
    let ok = lanes.is_empty();
    let message = if ok {
        format!("{} live workers, every queued job has a handler", live.len())
    } else {
        format!(
            "no live worker has a handler for {}; start one that does",
            lanes.into_iter().collect::<Vec<_>>().join(", ")
        )
    };
    Ok(Diagnostic { check: "workers".into(), ok, message })
}

/// Schedules that are disabled by a problem, or overdue because no worker enqueues their jobs.
async fn schedules(punctual: &Punctual) -> Result<Diagnostic> {
    let (admin, mut after, mut broken, mut all) = (punctual.admin("doctor"), None, Vec::new(), 0);
    loop {
        let page = admin.schedules(after.take(), limits::PAGE_MAX_SCHEDULES).await?;
        all += page.schedules.len();
        let wrong = page.schedules.into_iter().filter_map(|schedule| Some((schedule.name, schedule.problem?)));
        broken.extend(wrong.map(|(name, problem)| format!("{name} is disabled: {problem}")));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let past = punctual.store().now().before(MISFIRE_GRACE);
    let overdue = punctual.store().upcoming(None, past, 1).await.map_err(punctual::Error::from)?;
    let message = match (broken.is_empty(), overdue.first()) {
        (false, _) => broken.join("; "),
        (true, Some(schedule)) => format!("{} is overdue; start a worker", schedule.spec.name),
        (true, None) => format!("{all} schedules, none broken or overdue"),
    };
    Ok(Diagnostic { check: "schedules".into(), ok: broken.is_empty() && overdue.is_empty(), message })
}

/// Whether servers on loopback addresses answer without a token.
async fn access(punctual: &Punctual) -> Result<Diagnostic> {
    let access = punctual.admin("doctor").access().await?;
    let message = match access {
        Access::Open => "open: no token was created yet, or the store was opened since; servers on loopback addresses accept requests without one".to_owned(),
        Access::Closed { tokens: 0 } => "closed, but no token is valid; create one with `punctual tokens create`, or open the store with `punctual tokens open`".to_owned(),
        Access::Closed { tokens } => format!("closed: {tokens} valid tokens"),
    };
    Ok(Diagnostic { check: "access".into(), ok: access != Access::Closed { tokens: 0 }, message })
}

/// What is wrong with the configuration on this machine.
fn configuration(cli: &Cli) -> Diagnostic {
    let environment = Environment::of_process();
    let settings = Settings::load(cli.config.as_deref(), &environment);
    let problems = problems(cli, &settings, &environment);
    let ok = problems.is_empty();
    let message = if ok { "the file and the environment are valid".to_owned() } else { problems.join("; ") };
    Diagnostic { check: "config".into(), ok, message }
}

/// Jobs whose lease has expired and that were not returned to the queue.
async fn vanished(punctual: &Punctual) -> Result<Diagnostic> {
    let expired = punctual.store().expired(1_000).await.map_err(punctual::Error::from)?.len();
    let ok = expired == 0;
    let message = if ok {
        "no expired leases".to_owned()
    } else {
        format!("{expired} expired leases; any live worker returns their jobs to the queue within a second")
    };
    Ok(Diagnostic { check: "leases".into(), ok, message })
}
