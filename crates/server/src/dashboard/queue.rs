//! The page of a queue: its jobs, its settings, and who changed them.

use std::{convert::identity as same, num::ParseIntError, str::FromStr, time::Duration};

use maud::{Markup, html};
use punctual_client::{
    admin::QueueDetail,
    input::{DefaultsInput, defaults_in_words, policy_in_words},
};
use punctual_core::{
    Filter, Limits, Page as JobPage, QueueSettings, Rate, Status,
    time::{Span, in_words},
};
use serde::Deserialize;

use super::{
    Answer, components, jobs,
    layout::Page,
    overview::{charts, ranges},
    page_context::PageContext,
    queues,
};
use crate::{api::Named, history::Range, problem::Problem};

/// Number of next jobs that are listed.
const NEXT_SHOWN: usize = 10;
const TILES: [Status; 7] = [
    Status::Queued,
    Status::Processing,
    Status::Scheduled,
    Status::Retrying,
    Status::Waiting,
    Status::Succeeded,
    Status::Dead,
];

/// The query parameters of the page: the queue, and the period of the charts.
#[derive(Deserialize)]
pub(super) struct QueueQuery {
    name: String,
    #[serde(default)]
    range: Range,
}

pub(super) async fn show(context: PageContext, QueueQuery { name, range }: QueueQuery) -> Answer {
    let admin = context.admin();
    let detail = admin.queue(&name).await?;
    if is_unknown(&detail) {
        return Err(Problem::not_found(format!("queue `{name}` not found: it has no jobs and no settings")));
    }
    let filter = Filter { queue: Some(name.clone()), ..Filter::status(Status::Queued) };
    let next = admin.jobs(filter, JobPage::first(NEXT_SHOWN)).await?.jobs;
    let oldest = next.iter().map(|job| job.run_at).min();
    let path = format!("/queues/{}", components::part(&name));
    let content = html! {
        section.tiles #tiles data-live aria-label="Jobs by state" {
            @for status in TILES {
                @let count = detail.queue.jobs.get(&status).copied().unwrap_or(0);
                a.tile.none[count == 0] href=(components::query("/jobs", &[("status", Some(status.as_str())), ("queue", Some(&name))])) {
                    (components::status(status)) strong { (components::number(count)) }
                }
            }
            a.tile href="/workers" { span.state { i {} "workers" } strong { (components::number(detail.queue.workers)) } }
        }
        section.charts #charts data-live aria-label="Charts" { (charts(&context, range, Some(&name)).await?) }
        section #next data-live {
            h2 { "Ready" @if let Some(oldest) = oldest { span.muted { "oldest for " (in_words(context.now.since(oldest))) } } }
            @if next.is_empty() { p.muted { "No queued jobs." } } @else { (components::scroll("Ready jobs", &jobs::table(&context, &next, jobs::Time::Due, false))) }
        }
        div.columns.even {
            section { h2 { "Limits" } (limits(&context, &detail, &path)) }
            section { h2 { "Job defaults" } (defaults(&context, &detail, &path)) }
        }
        section { h2 { "History" } (events(&context, &detail)) }
    };
    let mut page = Page::new(&name, "/queues");
    page.heading =
        Some(html! { h1 { (components::name(&name)) } @if detail.queue.settings.paused { span.badge { "paused" } } });
    page.tools =
        html! { (ranges(&path, range)) @if context.may_change() { (queues::switch(&context, &detail.queue)) } };
    Ok(context.html(page, &content))
}

/// Whether a queue has never been configured and has no jobs.
fn is_unknown(detail: &QueueDetail) -> bool {
    let QueueDetail { queue, events } = detail;
    queue.jobs.is_empty() && events.is_empty() && queue.settings == QueueSettings::default()
}

fn limits(context: &PageContext, detail: &QueueDetail, path: &str) -> Markup {
    let limits = &detail.queue.settings.limits;
    if !context.may_change() {
        return html! { p { (queues::limits_in_words(limits)) } };
    }
    let count = |count: Option<u32>| count.map(|count| count.to_string());
    let rate = |rate: Option<Rate>| rate.map(|rate| rate.to_string());
    let fields = [
        ("concurrency", "Concurrency", count(limits.concurrency), "no limit"),
        ("rate", "Rate", rate(limits.rate), "100/1m"),
        ("key_concurrency", "Concurrency per key", count(limits.key_concurrency), "1"),
        ("key_rate", "Rate per key", rate(limits.key_rate), "10/1s"),
    ];
    html! {
        form.fields method="post" action={ (path) "/limits" } {
            (components::proof(context))
            (inputs(fields))
            label.check { input type="checkbox" name="fair" value="true" checked[limits.fair]; span { "Share fairly between keys" } }
            button type="submit" { "Save" }
            p.muted { "Apply across all workers, from the next claim on. An empty field means no limit." }
        }
    }
}

fn defaults(context: &PageContext, detail: &QueueDetail, path: &str) -> Markup {
    let defaults = &detail.queue.settings.defaults;
    if !context.may_change() {
        return html! { p { (defaults_in_words(defaults).unwrap_or_else(|| "None.".to_owned())) } };
    }
    let span = |span: Option<Duration>| span.map(|span| Span(span).to_string());
    let fields = [
        ("priority", "Priority", defaults.priority.map(|priority| priority.to_string()), "5"),
        ("max_attempts", "Maximum attempts", defaults.max_attempts.map(|attempts| attempts.to_string()), "10"),
        ("timeout", "Timeout per attempt", span(defaults.timeout), "5m"),
        ("retry", "Retry", defaults.retry.as_ref().map(policy_in_words), "exponential:5s"),
        ("keep_for", "Retention when finished", span(defaults.keep_for), "7d"),
    ];
    html! {
        form.fields method="post" action={ (path) "/defaults" } {
            (components::proof(context))
            (inputs(fields))
            button type="submit" { "Save" }
            p.muted { "Apply to new jobs that do not set the option themselves. An empty field means the built-in default." }
        }
    }
}

/// The fields of a form: the name, the label, the value and an example of each.
fn inputs<const N: usize>(fields: [(&str, &str, Option<String>, &str); N]) -> Markup {
    html! {
        @for (name, label, value, example) in fields {
            label { span { (label) } input type="text" name=(name) value=[value] placeholder=(example) autocomplete="off"; }
        }
    }
}

fn events(context: &PageContext, detail: &QueueDetail) -> Markup {
    html! {
        @if detail.events.is_empty() { p.muted { "No changes yet." } }
        @else { ul.events { @for event in &detail.events { li { (event.action) " " span.muted { "by " (components::name(&event.actor)) } " " (components::when(event.at, context.now)) } } } }
    }
}

pub(super) async fn pause(context: PageContext, Named { name }: Named) -> Answer {
    context.admin().pause_queue(&name).await?;
    Ok(context.done("/queues", &format!("{name} paused; running jobs finish.")))
}

pub(super) async fn resume(context: PageContext, Named { name }: Named) -> Answer {
    context.admin().resume_queue(&name).await?;
    Ok(context.done("/queues", &format!("{name} resumed.")))
}

/// The limits form; an empty field means no limit.
#[derive(Deserialize)]
pub(super) struct LimitsForm {
    name: String,
    #[serde(default)]
    concurrency: String,
    #[serde(default)]
    rate: String,
    #[serde(default)]
    key_concurrency: String,
    #[serde(default)]
    key_rate: String,
    #[serde(default)]
    fair: bool,
}

/// Parses a field of a form; `None` if it is empty.
fn typed<T: FromStr>(
    field: &'static str,
    text: &str,
    problem: impl Fn(T::Err) -> String,
) -> Result<Option<T>, Problem> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|error| Problem::invalid(field, problem(error)))
}

fn count_of<T: FromStr<Err = ParseIntError>>(field: &'static str, text: &str) -> Result<Option<T>, Problem> {
    typed(field, text, |_| format!("invalid number `{}`: expected a whole number within range", text.trim()))
}

pub(super) async fn set_limits(context: PageContext, form: LimitsForm) -> Answer {
    let (concurrency, rate) = (count_of("concurrency", &form.concurrency)?, typed("rate", &form.rate, same)?);
    let key_concurrency = count_of("key_concurrency", &form.key_concurrency)?;
    let key_rate = typed("key_rate", &form.key_rate, same)?;
    let change = |known: &mut Limits| {
        (known.concurrency, known.rate) = (concurrency, rate);
        (known.key_concurrency, known.key_rate, known.fair) = (key_concurrency, key_rate, form.fair);
        if !form.fair {
            known.weights.clear();
        }
    };
    context.admin().change_queue_limits(&form.name, change).await?;
    Ok(context.done(&format!("/queues/{}", components::part(&form.name)), "Limits saved."))
}

/// The defaults form; an empty field means Punctual's own default.
#[derive(Deserialize)]
pub(super) struct DefaultsForm {
    name: String,
    #[serde(default)]
    priority: String,
    #[serde(default)]
    max_attempts: String,
    #[serde(default)]
    timeout: String,
    #[serde(default)]
    retry: String,
    #[serde(default)]
    keep_for: String,
}

pub(super) async fn set_defaults(context: PageContext, form: DefaultsForm) -> Answer {
    let known = context.admin().queue(&form.name).await?.queue.settings.defaults.retry;
    let retry = typed("retry", &form.retry, |never| match never {})?;
    let is_known = known.as_ref().is_some_and(|known| Some(policy_in_words(known)) == retry);
    let input = DefaultsInput {
        priority: count_of("priority", &form.priority)?,
        max_attempts: count_of("max_attempts", &form.max_attempts)?,
        timeout: typed("timeout", &form.timeout, same)?,
        retry: retry.filter(|_| !is_known),
        keep_for: typed("keep_for", &form.keep_for, same)?,
    };
    let mut defaults = input.defaults()?;
    if is_known {
        // The policy may have a maximum delay of its own, which the form cannot express.
        defaults.retry = known;
    }
    context.admin().set_queue_defaults(&form.name, defaults).await?;
    Ok(context.done(&format!("/queues/{}", components::part(&form.name)), "Defaults saved."))
}
