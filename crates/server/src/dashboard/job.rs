//! The page of a job: status, attempts, events and log.

use std::time::Duration;

use maud::{Markup, PreEscaped, html};
use punctual_client::admin::{JobDetail, JobView, Ran};
use punctual_core::{
    Attempt, Event, JobId, LogLine, Relative, Status, Verb, change, explain::Explanation, time::in_words,
};
use serde::Deserialize;

use super::{
    Answer,
    components::{self, ConfirmedAction},
    layout::Page,
    overview::like,
    page_context::PageContext,
};
use crate::{api::OfJob, problem::Problem};

/// Number of log lines shown at first, from the end.
const LOG_SHOWN: usize = 200;
/// Number of attempts drawn, from the end.
const ATTEMPTS_SHOWN: usize = 50;

pub(super) async fn show(context: PageContext, OfJob { id }: OfJob) -> Answer {
    let detail = context.admin().job(id).await?;
    let job = &detail.job;
    let why = match job.status {
        Status::Waiting | Status::Scheduled | Status::Queued | Status::Retrying => {
            Some(context.admin().explain(id).await?)
        }
        _ => None,
    };
    let content = html! {
        section.history #history data-live {
            p.sentence { (components::status(job.status)) span { (sentence(job, &detail.attempts, context.now)) } }
            @if let Some(progress) = &job.progress { p { (components::progress(progress.percent, "progress")) @if let Some(message) = &progress.message { " " (message) } } }
            @if let Some(why) = &why { (reasons(why)) }
        }
        @if context.may_change() { div.actions #actions data-live { (actions(&context, job).await?) } }
        div.columns {
            div {
                @if let Some(error) = &job.error {
                    section { h2 { "Error" } (fault(error)) }
                }
                section #attempts data-live { h2 { "Attempts" } (attempts(&detail.attempts, context.now)) }
                section #timeline data-live { h2 { "Timeline" } (timeline(&detail.events, context.now)) }
                section #log data-live { h2 { "Log" } (log(&detail.logs)) }
            }
            div {
                section { h2 { "Payload" } (components::document(&job.payload_preview)) p.muted { "Secrets are redacted." } }
                @if let Some(result) = &job.result_preview { section { h2 { "Result" } (components::document(result)) } }
                @if let Some(metadata) = &job.metadata { section { h2 { "Metadata" } (components::document(metadata)) } }
                section #facts data-live { h2 { "Details" } (facts(&context, job)) }
                (family(&detail))
            }
        }
    };
    let mut page = Page::new(&job.name, "/jobs");
    page.heading = Some(html! { h1 { (job.name) } (components::id(job.id)) });
    Ok(context.html(page, &content))
}

/// The job's status, in a sentence.
fn sentence(job: &JobView, attempts: &[Attempt], now: punctual_core::Timestamp) -> String {
    let (attempt, max) = (job.attempt, job.max_attempts);
    let took = || Some(in_words(job.finished_at?.since(job.started_at?)));
    let ago = |at: Option<punctual_core::Timestamp>| at.map_or_else(String::new, |at| components::relative(at, now));
    let failed =
        attempts.iter().filter(|one| like(one.status) == Status::Failed || like(one.status) == Status::Dead).count();
    let after = if failed > 0 {
        format!(" after {}", components::plural(failed as u64, "failed attempt", "failed attempts"))
    } else {
        String::new()
    };
    match job.status {
        Status::Waiting => {
            format!("Waiting for {}.", components::plural(job.waiting_on.into(), "other job", "other jobs"))
        }
        Status::Scheduled => format!("Runs {}.", components::relative(job.run_at, now)),
        Status::Queued => format!("Ready for {}{after}.", in_words(now.since(job.run_at))),
        Status::Processing => format!(
            "Running for {}, attempt {attempt} of {max}.",
            job.started_at.map_or_else(|| "0 s".into(), |at| in_words(now.since(at)))
        ),
        Status::Succeeded => {
            format!("Succeeded {} in {}{after}.", ago(job.finished_at), took().unwrap_or_else(|| "0 s".into()))
        }
        Status::Failed | Status::Retrying => {
            format!("Failed {}, next attempt {}.", components::times(attempt), components::relative(job.run_at, now))
        }
        Status::Dead => format!("Dead {}, {}.", ago(job.finished_at), job.reason_of_death()),
        Status::Cancelled => format!("Cancelled {}.", ago(job.finished_at)),
        Status::Deleted => "Deleted; removed by retention later.".to_owned(),
    }
}

fn reasons(why: &Explanation) -> Markup {
    html! {
        ul.reasons aria-label="Reasons why the job is not running" {
            @for reason in &why.reasons { li { (reason.text) @if let Some(advice) = &reason.advice { " " span.muted { (advice) } } } }
        }
    }
}

/// The buttons of the actions; an action that is not possible is disabled and gives the reason.
async fn actions(context: &PageContext, view: &JobView) -> Result<Markup, Problem> {
    let job = context.request.punctual().job(view.id).await?;
    let to = |verb: &str| format!("/jobs/{}/{verb}", view.id);
    let refusal =
        |verb: Verb| change::apply(verb, &mut job.clone(), context.now).err().map(|refused| refused.to_string());
    let again = matches!(job.status, Status::Succeeded | Status::Cancelled | Status::Deleted);
    Ok(html! {
        @match refusal(Verb::Retry) {
            _ if job.status == Status::Queued => (components::disabled("Retry", "the job is already queued")),
            None => (components::button(context, &to("retry"), "Retry", Some("r"))),
            Some(why) => (components::disabled("Retry", &why)),
        }
        @if again { (components::button(context, &to("run"), "Run again", None)) }
        @else { @match refusal(Verb::RunNow) {
            _ if job.status == Status::Queued => (components::disabled("Run now", "the job is already queued")),
            None => (components::button(context, &to("run"), "Run now", None)),
            Some(why) => (components::disabled("Run now", &why)),
        } }
        @match refusal(Verb::Cancel) {
            _ if job.status == Status::Cancelled => (components::disabled("Cancel", "the job is already cancelled")),
            None => (components::confirm_button(context, &ConfirmedAction { action: &to("cancel"), label: "Cancel", question: "If the job is running, its handler is asked to stop.", key: Some("c") })),
            Some(why) => (components::disabled("Cancel", &why)),
        }
        @match refusal(Verb::Delete) {
            _ if job.status == Status::Deleted => (components::disabled("Delete", "the job is already deleted")),
            None => (components::confirm_button(context, &ConfirmedAction { action: &to("delete"), label: "Delete", question: "The job is hidden now and removed by retention later.", key: None })),
            Some(why) => (components::disabled("Delete", &why)),
        }
    })
}

/// An error: the first line of its message, then the rest.
fn fault(error: &punctual_core::JobError) -> Markup {
    let (first, rest) = error.message.split_once('\n').unwrap_or((&error.message, ""));
    html! {
        div.fault {
            @if let Some(code) = &error.code { code { (code) } " " }
            strong { (first) }
            @if !rest.is_empty() { pre { (rest) } }
        }
    }
}

/// The attempts, with their durations drawn to scale.
fn attempts(attempts: &[Attempt], now: punctual_core::Timestamp) -> Markup {
    let shown = &attempts[attempts.len().saturating_sub(ATTEMPTS_SHOWN)..];
    let Some(begin) = shown.iter().map(|attempt| attempt.started_at).min() else {
        return html! { p.muted { "Not started yet." } };
    };
    let end = shown.iter().map(|attempt| attempt.finished_at.unwrap_or(now)).max().unwrap_or(now);
    let whole = end.since(begin).max(Duration::from_micros(1)).as_secs_f64();
    let bar = |attempt: &Attempt| {
        let from = attempt.started_at.since(begin).as_secs_f64() / whole * 100.0;
        let width = attempt.finished_at.unwrap_or(now).since(attempt.started_at).as_secs_f64() / whole * 100.0;
        let (from, width) = (from.min(99.0), width.clamp(1.0, 100.0));
        PreEscaped(format!(
            r#"<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="s-{}" x="{from:.2}" y="1" width="{width:.2}" height="6" rx="1"/></svg>"#,
            like(attempt.status)
        ))
    };
    html! {
        div.scroll { table.rows.attempts {
            thead { tr { th.num { "#" } th { "Outcome" } th.span { "Timeline" } th.num { "Duration" } th.num { "Started" } th.wide { "Worker" } } }
            tbody { @for attempt in shown.iter().rev() {
                tr {
                    td.num { (attempt.attempt) }
                    td { span class={ "state s-" (like(attempt.status)) } { i {} (attempt.status.as_str().replace('_', " ")) } }
                    td.span { (bar(attempt)) }
                    td.num { (in_words(attempt.finished_at.unwrap_or(now).since(attempt.started_at))) }
                    td.num { (components::when(attempt.started_at, now)) }
                    td.wide { (components::id(attempt.worker_id)) }
                }
                @if let Some(error) = &attempt.error { tr.sub { td {} td colspan="5" { (error.message.lines().next().unwrap_or_default()) } } }
            } }
        } }
        @if attempts.len() > shown.len() { p.muted { "and " (attempts.len() - shown.len()) " earlier attempts" } }
    }
}

fn timeline(events: &[Event], now: punctual_core::Timestamp) -> Markup {
    html! {
        ol.timeline {
            @for (index, event) in events.iter().enumerate().rev() {
                li {
                    (components::status(event.status))
                    span.detail {
                        @if let Some(detail) = &event.detail { (detail) }
                        @if let Some(actor) = &event.actor { " " span.muted { "by " (actor) } }
                    }
                    @if index > 0 { span.gap { "+" (in_words(event.at.since(events[index - 1].at))) } }
                    (components::when(event.at, now))
                }
            }
        }
    }
}

fn log(lines: &[LogLine]) -> Markup {
    let shown = &lines[lines.len().saturating_sub(LOG_SHOWN)..];
    html! {
        @if lines.is_empty() { p.muted { "No log lines." } }
        @else {
            @if lines.len() > shown.len() { p.muted { "The last " (shown.len()) " of " (lines.len()) " lines." } }
            ol.log { @for line in shown { li class={ "l-" (line.level.as_str()) } { (components::when_exact(line.at)) span.level { (line.level.as_str()) } span { (line.message) } } } }
        }
    }
}

fn facts(context: &PageContext, job: &JobView) -> Markup {
    let text = |text: &str| html! { (text) };
    let mut rows = vec![
        ("Queue", html! { a href={ "/queues/" (components::part(&job.queue)) } { (job.queue) } }),
        ("Priority", html! { (job.priority) }),
        (
            "Attempts",
            html! { (job.attempt) " of " (job.max_attempts) @if job.crash_count > 0 { ", crash " (job.crash_count) " of " (job.max_crashes) } },
        ),
        ("Timeout", components::took(Duration::from_millis(job.timeout_ms))),
        (
            "Created",
            html! { (components::when(job.created_at, context.now)) @if let Some(by) = &job.created_by { " by " (by) } },
        ),
        ("Due", components::when(job.run_at, context.now)),
    ];
    rows.extend(job.worker_id.map(|worker| ("Worker", components::id(worker))));
    rows.extend(job.lease_until.map(|until| ("Lease", components::when(until, context.now))));
    rows.extend(
        job.user_id
            .as_deref()
            .map(|user| ("User", html! { a href=(components::query("/jobs", &[("user", Some(user))])) { (user) } })),
    );
    rows.extend(job.correlation_id.as_deref().map(|id| {
        ("Correlation", html! { a href=(components::query("/jobs", &[("correlation", Some(id))])) { (id) } })
    }));
    rows.extend(job.unique_key.as_deref().map(|key| ("Unique key", text(key))));
    rows.extend(job.concurrency_key.as_deref().map(|key| ("Concurrency key", text(key))));
    rows.extend(job.workflow_id.map(|id| {
        ("Workflow", html! { a href={ "/workflows/" (id) } { (job.node.as_deref().unwrap_or("unnamed node")) } })
    }));
    rows.extend(job.occurrence.as_ref().map(|one| {
        ("Schedule", html! { a href={ "/schedules/" (components::part(&one.schedule)) } { (one.schedule) } })
    }));
    rows.extend(
        job.rerun_of
            .map(|id| ("Copy of", html! { a href={ "/jobs/" (id) } { (components::shortened(&id.to_string())) } })),
    );
    rows.extend(job.trace.as_deref().map(|trace| ("Trace", html! { code { (trace) } })));
    rows.extend(job.description.as_deref().map(|description| ("Description", text(description))));
    if !job.tags.is_empty() {
        rows.push((
            "Tags",
            html! { @for tag in &job.tags { a.tag href=(components::query("/jobs", &[("tag", Some(tag))])) { (tag) } } },
        ));
    }
    components::facts(rows)
}

fn family(detail: &JobDetail) -> Markup {
    let list = |title: &str, relatives: &[Relative]| {
        html! {
            @if !relatives.is_empty() {
                section { h2 { (title) } ul.family { @for one in relatives { li { (components::status(one.status)) a href={ "/jobs/" (one.id) } { (one.node.as_deref().map_or_else(|| components::shortened(&one.id.to_string()), str::to_owned)) } } } } }
            }
        }
    };
    html! { (list("Parents", &detail.parents)) (list("Children", &detail.children)) }
}

/// The form of an action on a job.
#[derive(Deserialize)]
pub(super) struct JobActionForm {
    id: JobId,
    verb: Verb,
}

pub(super) async fn act(context: PageContext, JobActionForm { id, verb }: JobActionForm) -> Answer {
    let admin = context.admin();
    let message = match verb {
        Verb::Retry => admin.retry(id).await.map(|()| "Job retried.".to_owned())?,
        Verb::Cancel => admin.cancel(id, None).await.map(|()| "Job cancelled.".to_owned())?,
        Verb::Delete => admin.delete(id).await.map(|()| "Job deleted.".to_owned())?,
        Verb::RunNow => match admin.run(id).await? {
            Ran::Itself => "Job started.".to_owned(),
            Ran::Again(new) => {
                let context = PageContext { back: None, ..context };
                return Ok(context.done(&format!("/jobs/{new}"), "Enqueued a copy of the job."));
            }
        },
    };
    Ok(context.done(&format!("/jobs/{id}"), &message))
}
