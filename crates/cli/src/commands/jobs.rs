//! `punctual jobs`: lists jobs, and acts on one or many.

use std::io::{IsTerminal, Write};

use anyhow::{Context as _, Result};
use punctual::{
    Filter, JobId, Page, Verb,
    admin::{BulkDone, JobView, Preview, Ran},
    core::limits,
};
use serde_json::json;

use crate::{
    administer::Administer,
    args::{Cli, Jobs, ListJobs, Selection},
    commands::show,
    config::Config,
    exit::Usage,
    format::{self, DIM},
    output::{Results, print_json, progress_bar},
    table::{Cell, Table},
    target,
};

pub(crate) async fn run(cli: &Cli, config: &Config, args: &Jobs) -> Result<()> {
    let admin = &*target::administer(cli, config).await?;
    match args {
        Jobs::List(args) => list(cli, admin, args).await,
        Jobs::Show { id } => show::run(cli, admin, *id).await,
        Jobs::Explain { id } => explain(cli, admin, *id).await,
        Jobs::Retry(selection) => act(cli, admin, Verb::Retry, selection).await,
        Jobs::Cancel(selection) => act(cli, admin, Verb::Cancel, selection).await,
        Jobs::Delete(selection) => act(cli, admin, Verb::Delete, selection).await,
        Jobs::Run(selection) => act(cli, admin, Verb::RunNow, selection).await,
    }
}

/// Prints why a job is not running: one line per reason, with the advice below it.
async fn explain(cli: &Cli, admin: &dyn Administer, id: JobId) -> Result<()> {
    let explanation = admin.explain(id).await?;
    if cli.json {
        return print_json(&explanation);
    }
    let style = format::status_style(explanation.status);
    anstream::println!("{id}  {style}● {}{style:#}", explanation.status);
    for reason in explanation.reasons {
        println!("\n{}", reason.text);
        if let Some(advice) = reason.advice {
            anstream::println!("{DIM}→ {advice}{DIM:#}");
        }
    }
    Ok(())
}

/// Lists jobs. A page of the store may be short although more jobs follow; pages are read until the list is full.
async fn list(cli: &Cli, admin: &dyn Administer, args: &ListJobs) -> Result<()> {
    let (wanted, filter) = (args.limit, args.filter.filter(admin.now()));
    let mut page = Page { limit: wanted.min(limits::PAGE_MAX_JOBS), after: args.after.clone() };
    let mut jobs = Vec::new();
    let next = loop {
        let found = admin.jobs(filter.clone(), page.clone()).await?;
        jobs.extend(found.jobs);
        page.limit = (wanted - jobs.len()).min(limits::PAGE_MAX_JOBS);
        match found.next {
            Some(next) if jobs.len() < wanted => page.after = Some(next),
            next => break next,
        }
    };
    if cli.json {
        return print_json(&json!({"jobs": jobs, "next": next}));
    }
    if jobs.is_empty() {
        anstream::println!(
            "{DIM}no matching jobs; enqueue one with: punctual enqueue echo '{{\"hello\": \"world\"}}'{DIM:#}"
        );
        return Ok(());
    }
    print_jobs(&jobs, admin.now());
    if let Some(next) = next {
        anstream::println!("{DIM}more: punctual jobs list --after {next}{DIM:#}");
    }
    Ok(())
}

/// Prints jobs as a table.
pub(crate) fn print_jobs(jobs: &[JobView], now: punctual::Timestamp) {
    let mut table = Table::new(["ID", "NAME", "QUEUE", "STATUS", "PRIORITY", "ATTEMPT", "TIME", "NOTE"])
        .optional(&["PRIORITY", "ATTEMPT", "NOTE", "QUEUE"]);
    for job in jobs {
        let when = job.finished_at.or(job.started_at).unwrap_or(job.run_at);
        let when = if job.status.is_timed() { job.run_at } else { when };
        let note = job.error.as_ref().map(|fault| fault.message.as_str()).or(job.description.as_deref()).unwrap_or("");
        table.row([
            Cell::new(job.id.to_string()),
            Cell::new(job.name.clone()),
            Cell::new(job.queue.clone()),
            Cell::status(job.status),
            Cell::number(u64::from(job.priority)),
            Cell::right(format!("{}/{}", job.attempt, job.max_attempts)),
            Cell::right(format::relative(when, now)),
            Cell::new(note.chars().take(48).collect::<String>()).style(DIM),
        ]);
    }
    table.print();
}

async fn act(cli: &Cli, admin: &dyn Administer, verb: Verb, selection: &Selection) -> Result<()> {
    let filter = selection.filter.filter(admin.now());
    match (selection.ids.is_empty(), filter == Filter::default()) {
        (true, true) => Err(Usage(format!("name the jobs to {verb}, or a filter such as --status or --name")).into()),
        (true, false) => act_on_many(cli, admin, BulkChange { verb, filter }, selection).await,
        (false, true) => act_on_each(cli, admin, verb, selection).await,
        (false, false) => Err(Usage("name jobs or a filter, not both".into()).into()),
    }
}

/// Acts on every job, even after an error; the first error decides the exit code.
async fn act_on_each(cli: &Cli, admin: &dyn Administer, verb: Verb, selection: &Selection) -> Result<()> {
    let (mut results, mut first_error) = (Results::new(cli.json, "jobs"), None);
    for id in &selection.ids {
        let result = match verb {
            Verb::Retry => admin.retry(*id).await.map(|()| "will run again".to_owned()),
            Verb::Cancel => admin.cancel(*id, selection.reason.clone()).await.map(|()| "cancelled".to_owned()),
            Verb::Delete => admin.delete(*id).await.map(|()| "deleted".to_owned()),
            Verb::RunNow => admin.run(*id).await.map(|ran| match ran {
                Ran::Itself => "will run now".to_owned(),
                Ran::Again(new) => format!("enqueued again as {new}"),
            }),
        };
        match result {
            Ok(action) => results.add(json!({"id": id, "done": action}), &format!("{id} {action}")),
            Err(error) => {
                if cli.json {
                    results.add(json!({"id": id, "error": error.to_string()}), "");
                } else if first_error.is_some() {
                    eprintln!("{error}");
                }
                first_error = first_error.or(Some(error));
            }
        }
    }
    results.end(first_error.map_or(Ok(()), Err))
}

/// A change of all jobs that match a filter.
struct BulkChange {
    verb: Verb,
    filter: Filter,
}

async fn act_on_many(cli: &Cli, admin: &dyn Administer, change: BulkChange, selection: &Selection) -> Result<()> {
    let BulkChange { verb, filter } = change;
    let preview = admin.preview(verb, filter.clone()).await?;
    if selection.dry_run {
        return if cli.json { print_json(&preview) } else { print_preview(&preview, verb, admin.now()) };
    }
    if preview.count > 0 && !selection.yes {
        confirm(cli, &preview, verb, admin.now())?;
    }
    let bar = progress_bar(cli.json);
    bar.set_length(preview.count);
    bar.set_message(verb.to_string());
    let mut show = |done: BulkDone| bar.set_position(done.changed + done.skipped);
    let done = admin.bulk(verb, filter, &mut show).await?;
    bar.finish_and_clear();
    if cli.json {
        return print_json(&done);
    }
    println!(
        "{} jobs changed, {} skipped (state changed meanwhile)",
        format::number(done.changed),
        format::number(done.skipped)
    );
    Ok(())
}

fn print_preview(preview: &Preview, verb: Verb, now: punctual::Timestamp) -> Result<()> {
    print_jobs(&preview.sample, now);
    let more = if preview.more { "at least " } else { "" };
    println!("{verb} would change {more}{} jobs", format::number(preview.count));
    Ok(())
}

/// Asks for confirmation on a terminal; scripts must pass `--yes`.
fn confirm(cli: &Cli, preview: &Preview, verb: Verb, now: punctual::Timestamp) -> Result<()> {
    if cli.json || !std::io::stdin().is_terminal() {
        let count = format::number(preview.count);
        return Err(Usage(format!(
            "{verb} would change {count} jobs; confirm with --yes, or show them with --dry-run"
        ))
        .into());
    }
    print_preview(preview, verb, now)?;
    print!("continue? [y/N] ");
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).context("cannot read the answer")?;
    if answer.trim().eq_ignore_ascii_case("y") { Ok(()) } else { Err(Usage("nothing was changed".into()).into()) }
}
