//! `punctual queues`: what stands in them, paused or not, and what their jobs are by default.

use anyhow::Result;
use punctual::{
    Admin, Punctual, Status,
    admin::QueueView,
    core::{JobDefaults, QueueSettings},
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

/// What the jobs of a queue are by default.
fn in_words(defaults: &JobDefaults) -> Option<String> {
    let words: Vec<String> = [
        defaults.priority.map(|priority| format!("priority {priority}")),
        defaults.max_attempts.map(|attempts| format!("{attempts} attempts")),
        defaults.timeout.map(|timeout| format!("timeout {}", human::duration(timeout))),
        defaults.retry.as_ref().map(|_| "own retry policy".to_owned()),
        defaults.keep_for.map(|keep| format!("kept for {}", human::duration(keep))),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!words.is_empty()).then(|| words.join(", "))
}
