//! `punctual jobs show`: a job with its attempts, events and logs.

use anstyle::Style;
use anyhow::Result;
use punctual::{
    JobId, Status, Timestamp,
    admin::{JobDetail, JobView},
    core::{LogLevel, Relative},
};

use crate::{
    administer::Administer,
    args::Cli,
    format::{self, BOLD, DIM, status_style},
    output::print_json,
    table::{Cell, Table},
    text::{self, Line},
};

pub(crate) async fn run(cli: &Cli, admin: &dyn Administer, id: JobId) -> Result<()> {
    let detail = admin.job(id).await?;
    if cli.json {
        return print_json(&detail);
    }
    text::print(&history(&detail, admin.now()));
    Ok(())
}

/// The details of a job, line by line.
pub(crate) fn history(detail: &JobDetail, now: Timestamp) -> Vec<Line> {
    let (job, style) = (&detail.job, status_style(detail.job.status));
    let mut lines = vec![
        Line::new(job.name.clone(), BOLD).with(format!("  {}", job.id), Style::new()),
        Line::new(format!("● {}", sentence(job, now)), style),
        Line::default(),
    ];
    lines.extend(facts(detail));
    lines.extend(attempts(detail));
    lines.extend(events(detail));
    lines.extend(logs(detail));
    lines
}

/// A table with its title.
fn titled(title: &str, table: Table) -> Vec<Line> {
    let mut lines = vec![Line::default(), Line::new(title, BOLD)];
    lines.extend(table.lines());
    lines
}

/// The status of the job, in one sentence.
fn sentence(job: &JobView, now: Timestamp) -> String {
    let tries = match job.attempt {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{count} times"),
    };
    let at = |at: Option<Timestamp>| at.map_or_else(String::new, |at| format!(" {}", format::relative(at, now)));
    match job.status {
        Status::Waiting => {
            format!("Waiting for {} other job{}", job.waiting_on, if job.waiting_on == 1 { "" } else { "s" })
        }
        Status::Scheduled => format!("Scheduled, starts {}", format::relative(job.run_at, now)),
        Status::Queued => format!("Queued, due {}", format::relative(job.run_at, now)),
        Status::Processing => {
            let progress = job.progress.as_ref().map(|progress| format!(", {:.0} % done", progress.percent));
            format!(
                "Running, attempt {} of {}, started{}{}",
                job.attempt,
                job.max_attempts,
                at(job.started_at),
                progress.unwrap_or_default()
            )
        }
        Status::Failed | Status::Retrying => {
            format!("Failed {tries}, next attempt {}", format::relative(job.run_at, now))
        }
        Status::Succeeded => format!("Succeeded{}, attempted {tries}", at(job.finished_at)),
        Status::Dead => {
            let (ago, why) = (at(job.finished_at), job.reason_of_death());
            format!("Dead{ago}, {why}; retry it: punctual jobs retry {}", job.id)
        }
        Status::Cancelled => format!("Cancelled{}", at(job.finished_at)),
        Status::Deleted => format!("Deleted{}", at(Some(job.updated_at))),
    }
}

fn facts(detail: &JobDetail) -> Vec<Line> {
    let job = &detail.job;
    let mut rows: Vec<(&str, String)> = vec![
        ("queue", format!("{}, priority {}", job.queue, job.priority)),
        ("scheduled", format::exact(job.scheduled_at)),
        (
            "attempts",
            format!("{} of {}, {} of {} crashes", job.attempt, job.max_attempts, job.crash_count, job.max_crashes),
        ),
        ("timeout", format::in_words(std::time::Duration::from_millis(job.timeout_ms))),
    ];
    let optional = [
        ("user", job.user_id.clone()),
        ("correlation", job.correlation_id.clone()),
        ("key", job.unique_key.clone()),
        ("tags", (!job.tags.is_empty()).then(|| job.tags.join(", "))),
        ("created by", job.created_by.clone()),
        ("description", job.description.clone()),
        ("occurrence", job.occurrence.as_ref().map(|one| format!("{} of {}", format::exact(one.at), one.schedule))),
        ("workflow", workflow_node(job)),
        ("parents", relatives(&detail.parents)),
        ("on parent failure", (!detail.parents.is_empty()).then(|| job.on_parent_failure.to_string())),
        ("children", relatives(&detail.children)),
        ("copy of", job.rerun_of.map(|id| id.to_string())),
        ("worker", job.worker_id.map(|id| id.to_string())),
        ("metadata", job.metadata.as_ref().map(ToString::to_string)),
        ("payload", Some(job.payload_preview.to_string())),
        ("result", job.result_preview.as_ref().filter(|result| !result.is_null()).map(ToString::to_string)),
        ("error", job.error.as_ref().map(ToString::to_string)),
    ];
    rows.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
    text::facts(rows)
}

/// The job's position in a workflow.
fn workflow_node(job: &JobView) -> Option<String> {
    let workflow = job.workflow_id.or(job.callback_of)?;
    Some(format!("{} of {workflow}", job.node.as_deref().unwrap_or("a job")))
}

/// A few jobs, each with its status.
fn relatives(jobs: &[Relative]) -> Option<String> {
    const SHOWN: usize = 5;
    let one = |job: &Relative| {
        let node = job.node.as_ref().map(|node| format!("{node} ")).unwrap_or_default();
        format!("{node}{} ({})", job.id, job.status)
    };
    let mut lines: Vec<String> = jobs.iter().take(SHOWN).map(one).collect();
    if jobs.len() > SHOWN {
        lines.push("and more".to_owned());
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn attempts(detail: &JobDetail) -> Vec<Line> {
    if detail.attempts.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(["RUN", "ATTEMPT", "STATUS", "STARTED", "DURATION", "ERROR"]);
    for attempt in &detail.attempts {
        let took = attempt.finished_at.map(|end| format::in_words(end.since(attempt.started_at)));
        table.row([
            Cell::number(u64::from(attempt.id.run)),
            Cell::number(u64::from(attempt.attempt)),
            Cell::new(attempt.status.as_str()),
            Cell::new(format::exact(attempt.started_at)),
            Cell::right(took.unwrap_or_default()),
            Cell::new(attempt.error.as_ref().map(ToString::to_string).unwrap_or_default()),
        ]);
    }
    titled("Attempts", table)
}

fn events(detail: &JobDetail) -> Vec<Line> {
    let mut table = Table::new(["TIME", "STATUS", "RUN", "ACTOR", "DETAIL"]);
    for event in &detail.events {
        table.row([
            Cell::new(format::exact(event.at)),
            Cell::status(event.status),
            Cell::right(event.run.map(|run| run.to_string()).unwrap_or_default()),
            Cell::new(event.actor.clone().unwrap_or_default()),
            Cell::new(event.detail.clone().unwrap_or_default()),
        ]);
    }
    titled("Events", table)
}

fn logs(detail: &JobDetail) -> Vec<Line> {
    if detail.logs.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(["TIME", "RUN", "LEVEL", "MESSAGE"]);
    for line in &detail.logs {
        let level = match line.level {
            LogLevel::Warn | LogLevel::Error => Cell::new(line.level.as_str()).style(status_style(Status::Retrying)),
            _ => Cell::new(line.level.as_str()).style(DIM),
        };
        table.row([
            Cell::new(format::exact(line.at)),
            Cell::number(u64::from(line.run)),
            level,
            Cell::new(line.message.clone()),
        ]);
    }
    titled("Logs", table)
}
