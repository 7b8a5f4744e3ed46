//! `punctual queues`: counts, pausing, limits and job defaults of queues.

use anyhow::Result;
use punctual::{
    Status, Timestamp,
    admin::{QueueDetail, QueueView},
    core::Limits,
    input::defaults_in_words,
};
use serde_json::json;

use crate::{
    administer::Administer,
    args::{Cli, Queues},
    config::Config,
    exit::NotFound,
    format::{self, BOLD, DIM, status_style},
    output::{Results, print_json, print_result},
    table::{Cell, Table},
    target,
    text::{self, Line},
};

pub(crate) async fn run(cli: &Cli, config: &Config, args: &Queues) -> Result<()> {
    let admin = &*target::administer(cli, config).await?;
    match args {
        Queues::List => list(cli, admin).await,
        Queues::Show { name } => show(cli, admin, name).await,
        Queues::Pause { queues } => set_paused(cli, admin, queues, true).await,
        Queues::Resume { queues } => set_paused(cli, admin, queues, false).await,
        Queues::Defaults { name, defaults } => {
            admin.set_queue_defaults(name, defaults.clone().input()).await?;
            let queue = admin.queue(name).await?.queue;
            let defaults = defaults_in_words(&queue.settings.defaults).unwrap_or_else(|| "no defaults".to_owned());
            print_result(cli.json, &queue, &format!("{name}: {defaults}"))
        }
        Queues::Limit { name, changes } => {
            admin.change_queue_limits(name, changes.changes()).await?;
            let queue = admin.queue(name).await?.queue;
            let limits = limits_in_words(&queue.settings.limits).unwrap_or_else(|| "no limits".to_owned());
            print_result(cli.json, &queue, &format!("{name}: {limits}"))
        }
    }
}

async fn set_paused(cli: &Cli, admin: &dyn Administer, queues: &[String], paused: bool) -> Result<()> {
    let (names, mut results) = (named(admin, queues).await?, Results::new(cli.json, "queues"));
    let done = async {
        for name in names {
            if paused {
                admin.pause_queue(&name).await?
            } else {
                admin.resume_queue(&name).await?
            }
            let state = if paused { "paused" } else { "resumed" };
            results.add(json!({"name": name, "paused": paused}), &format!("{name} {state}"));
        }
        anyhow::Ok(())
    };
    let done = done.await;
    results.end(done)
}

/// The named queues; a pattern is replaced by the existing queues that match it.
async fn named(admin: &dyn Administer, patterns: &[String]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for pattern in patterns {
        if !pattern.contains(['*', '?']) {
            names.push(pattern.clone());
            continue;
        }
        let found = admin.matching_queues(pattern).await?;
        if found.is_empty() {
            return Err(NotFound(format!("no queue matches `{pattern}`; `punctual queues list` lists all")).into());
        }
        names.extend(found);
    }
    names.dedup();
    Ok(names)
}

async fn list(cli: &Cli, admin: &dyn Administer) -> Result<()> {
    let queues = admin.queues().await?;
    if cli.json {
        return print_json(&json!({ "queues": queues }));
    }
    if queues.is_empty() {
        anstream::println!("{DIM}no queues; a queue exists once a job is enqueued in it{DIM:#}");
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
    ])
    .optional(&["DEFAULTS", "LIMITS", "SCHEDULED", "WAITING", "RETRYING", "WORKERS"]);
    for queue in &queues {
        let count = |status: Status| Cell::number(queue.jobs.get(&status).copied().unwrap_or(0));
        table.row([
            Cell::new(queue.name.clone()),
            state(queue),
            count(Status::Waiting),
            count(Status::Scheduled),
            count(Status::Queued),
            count(Status::Processing),
            count(Status::Retrying),
            count(Status::Dead),
            Cell::number(queue.workers),
            Cell::new(limits_in_words(&queue.settings.limits).unwrap_or_default()),
            Cell::new(defaults_in_words(&queue.settings.defaults).unwrap_or_default()),
        ]);
    }
    table.print();
    Ok(())
}

/// The state of a queue: a dot and a word, in the colour of the most similar job status.
pub(crate) fn state(queue: &QueueView) -> Cell {
    let text = state_in_words(queue);
    let like = match text {
        "unreadable" => Status::Dead,
        "paused" => Status::Cancelled,
        _ => Status::Scheduled,
    };
    Cell::new(format!("● {text}")).style(status_style(like))
}

fn state_in_words(queue: &QueueView) -> &'static str {
    match queue {
        QueueView { problem: Some(_), .. } => "unreadable",
        queue if queue.settings.paused => "paused",
        _ => "on",
    }
}

async fn show(cli: &Cli, admin: &dyn Administer, name: &str) -> Result<()> {
    let detail = admin.queue(name).await?;
    if cli.json {
        return print_json(&detail);
    }
    text::print(&history(&detail, admin.now()));
    Ok(())
}

/// The details of a queue, line by line.
pub(crate) fn history(detail: &QueueDetail, now: Timestamp) -> Vec<Line> {
    let QueueView { name, settings, problem, jobs, workers } = &detail.queue;
    let state = state_in_words(&detail.queue).to_owned();
    let mut rows = vec![("state", state), ("workers", format::number(*workers))];
    rows.extend(problem.clone().map(|problem| ("problem", problem)));
    rows.extend(jobs.iter().map(|(status, count)| (status.as_str(), format::number(*count))));
    rows.extend(limits_in_words(&settings.limits).map(|limits| ("limits", limits)));
    rows.extend(defaults_in_words(&settings.defaults).map(|defaults| ("defaults", defaults)));
    let mut lines = vec![Line::new(name.clone(), BOLD)];
    lines.extend(text::facts(rows));
    if detail.events.is_empty() {
        return lines;
    }
    lines.extend([Line::default(), Line::new("Events", BOLD)]);
    let mut table = Table::new(["TIME", "ACTOR", "ACTION"]);
    for event in &detail.events {
        let (actor, what) = (event.actor.clone(), event.action.clone());
        table.row([Cell::new(format::relative(event.at, now)), Cell::new(actor), Cell::new(what)]);
    }
    lines.extend(table.lines());
    lines
}

/// The limits of a queue, as text.
pub(crate) fn limits_in_words(limits: &Limits) -> Option<String> {
    let keys = match limits.key_concurrency {
        Some(0) => Some("no limit per key".to_owned()),
        count => count.map(|count| format!("{count} per key")),
    };
    let mut parts: Vec<String> = [
        limits.concurrency.map(|count| format!("{count} concurrent")),
        limits.rate.map(|rate| rate.to_string()),
        keys,
        limits.key_rate.map(|rate| format!("{rate} per key")),
        limits.fair.then(|| "fair".to_owned()),
    ]
    .into_iter()
    .flatten()
    .collect();
    parts.extend(limits.weights.iter().map(|(key, weight)| format!("{key} {weight}×")));
    (!parts.is_empty()).then(|| parts.join(", "))
}
