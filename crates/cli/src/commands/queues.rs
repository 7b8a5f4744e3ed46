//! `punctual queues`: what stands in them, paused or not, how many may run, and what their jobs are by default.

use anyhow::Result;
use punctual::{
    Admin, Punctual, Status,
    admin::QueueView,
    core::{JobDefaults, Limits, QueueSettings},
};
use serde_json::json;

use crate::{
    args::{Cli, Queues},
    commands::print_json,
    config::{Config, actor},
    exit::Usage,
    human::{self, BOLD, DIM, status_style},
    line,
    table::{Cell, Table},
};

pub(crate) async fn run(cli: &Cli, config: &Config, args: &Queues) -> Result<()> {
    let punctual = config.connect(cli).await?;
    let admin = punctual.admin(actor());
    match args {
        Queues::List => list(cli, &admin).await,
        Queues::Show { name } => show(cli, &punctual, &admin, name).await,
        Queues::Pause { queues } => {
            for name in named(&admin, queues).await? {
                admin.pause_queue(&name).await?;
                println!("{name} is paused");
            }
            Ok(())
        }
        Queues::Resume { queues } => {
            for name in named(&admin, queues).await? {
                admin.resume_queue(&name).await?;
                println!("{name} goes on");
            }
            Ok(())
        }
        Queues::Defaults { name, defaults } => {
            admin.set_queue_defaults(name, line::defaults(defaults.clone())?).await?;
            let defaults = admin.queue(name).await?.queue.settings.defaults;
            println!("{name}: {}", in_words(&defaults).unwrap_or_else(|| "no defaults".to_owned()));
            Ok(())
        }
        Queues::Limit { name, changes } => {
            admin.change_queue_limits(name, |limits| changes.apply(limits)).await?;
            let limits = admin.queue(name).await?.queue.settings.limits;
            println!("{name}: {}", limits_in_words(&limits).unwrap_or_else(|| "no limits".to_owned()));
            Ok(())
        }
    }
}

/// The queues that were named; a pattern stands for those there are that fit.
async fn named(admin: &Admin, wishes: &[String]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for wish in wishes {
        if !wish.contains(['*', '?']) {
            names.push(wish.clone());
            continue;
        }
        let found = admin.matching_queues(wish).await?;
        if found.is_empty() {
            return Err(Usage(format!("no queue fits `{wish}`; `punctual queues list` shows those there are")).into());
        }
        names.extend(found);
    }
    names.dedup();
    Ok(names)
}

async fn list(cli: &Cli, admin: &Admin) -> Result<()> {
    let queues = admin.queues().await?;
    if cli.json {
        return print_json(&json!({ "queues": queues }));
    }
    if queues.is_empty() {
        anstream::println!("{DIM}no queues; a queue is there once a job stands in it{DIM:#}");
        return Ok(());
    }
    let mut table = Table::new([
        "QUEUE",
        "STATE",
        "WAITING",
        "SCHEDULED",
        "QUEUED",
        "RUNNING",
        "RETRYING",
        "DEAD",
        "WORKERS",
        "LIMITS",
        "DEFAULTS",
    ]);
    for queue in &queues {
        let count = |status: Status| Cell::number(queue.jobs.get(&status).copied().unwrap_or(0));
        table.row([
            Cell::new(queue.name.clone()),
            state(&queue.settings),
            count(Status::Waiting),
            count(Status::Scheduled),
            count(Status::Queued),
            count(Status::Processing),
            count(Status::Retrying),
            count(Status::Dead),
            Cell::number(queue.workers),
            Cell::new(limits_in_words(&queue.settings.limits).unwrap_or_default()),
            Cell::new(in_words(&queue.settings.defaults).unwrap_or_default()),
        ]);
    }
    table.print();
    Ok(())
}

/// A dot and a word, in the colour of the job's state that it is most like.
fn state(settings: &QueueSettings) -> Cell {
    let (word, like) = if settings.paused { ("paused", Status::Cancelled) } else { ("on", Status::Scheduled) };
    Cell::new(format!("● {word}")).style(status_style(like))
}

async fn show(cli: &Cli, punctual: &Punctual, admin: &Admin, name: &str) -> Result<()> {
    let detail = admin.queue(name).await?;
    if cli.json {
        return print_json(&detail);
    }
    let QueueView { settings, jobs, workers, .. } = &detail.queue;
    anstream::println!("{BOLD}{name}{BOLD:#}");
    let mut rows =
        vec![("state", if settings.paused { "paused" } else { "on" }.to_owned()), ("workers", human::number(*workers))];
    rows.extend(jobs.iter().map(|(status, count)| (status.as_str(), human::number(*count))));
    rows.extend(limits_in_words(&settings.limits).map(|limits| ("limits", limits)));
    rows.extend(in_words(&settings.defaults).map(|defaults| ("defaults", defaults)));
    human::facts(rows);
    if detail.events.is_empty() {
        return Ok(());
    }
    anstream::println!("\n{BOLD}Events{BOLD:#}");
    let (now, mut table) = (punctual.store().now(), Table::new(["WHEN", "BY", "WHAT"]));
    for event in detail.events {
        table.row([Cell::new(human::relative(event.at, now)), Cell::new(event.actor), Cell::new(event.what)]);
    }
    table.print();
    Ok(())
}

/// How many jobs of a queue may run.
fn limits_in_words(limits: &Limits) -> Option<String> {
    let keys = match limits.key_concurrency {
        Some(0) => Some("any number a key".to_owned()),
        count => count.map(|count| format!("{count} a key")),
    };
    let mut words: Vec<String> = [
        limits.concurrency.map(|count| format!("{count} at once")),
        limits.rate.map(|rate| rate.to_string()),
        keys,
        limits.key_rate.map(|rate| format!("{rate} a key")),
        limits.fair.then(|| "fair".to_owned()),
    ]
    .into_iter()
    .flatten()
    .collect();
    words.extend(limits.weights.iter().map(|(key, weight)| format!("{key} {weight}×")));
    (!words.is_empty()).then(|| words.join(", "))
}

/// What the jobs of a queue are by default.
fn in_words(defaults: &JobDefaults) -> Option<String> {
    let words: Vec<String> = [
        defaults.priority.map(|priority| format!("priority {priority}")),
        defaults.max_attempts.map(|attempts| format!("{attempts} attempts")),
        defaults.timeout.map(|timeout| format!("timeout {}", human::in_words(timeout))),
        defaults.retry.as_ref().map(|_| "own retry policy".to_owned()),
        defaults.keep_for.map(|keep| format!("kept for {}", human::in_words(keep))),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!words.is_empty()).then(|| words.join(", "))
}
