//! The jobs page: filters, search, and bulk actions.

use std::ops::ControlFlow;

use axum::response::Response;
use maud::{Markup, html};
use punctual_client::admin::{BulkDone, JobView, Overview};
use punctual_core::{Filter, JobId, Page, Status, Verb, WorkflowId, filter::Order, time::in_words};
use serde::{Deserialize, Deserializer};

use super::{
    Answer, components,
    layout::Page as Layout,
    page_context::{PageContext, redirect},
};
use crate::problem::Problem;

const PAGE_JOBS: usize = 50;
/// Maximum number of jobs that one search reads, so that its cost is bounded.
const SEARCH_MAX_JOBS: usize = 1_000;
const SEARCH_PAGE: usize = 500;
/// Maximum number of jobs that one form changes.
const BULK_MAX_JOBS: u64 = 100_000;
/// Statuses of the filter.
const CHOICES: [Status; 9] = [
    Status::Queued,
    Status::Processing,
    Status::Scheduled,
    Status::Retrying,
    Status::Waiting,
    Status::Succeeded,
    Status::Dead,
    Status::Cancelled,
    Status::Deleted,
];

/// The query parameters of the page: a filter, and a bulk action.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct JobListQuery {
    status: Vec<Status>,
    #[serde(deserialize_with = "given")]
    queue: Option<String>,
    #[serde(deserialize_with = "given")]
    name: Option<String>,
    #[serde(deserialize_with = "given")]
    user: Option<String>,
    #[serde(deserialize_with = "given")]
    tag: Option<String>,
    #[serde(deserialize_with = "given")]
    correlation: Option<String>,
    #[serde(deserialize_with = "given")]
    schedule: Option<String>,
    /// Search text, matched against the fields that the list shows.
    #[serde(deserialize_with = "given")]
    q: Option<String>,
    #[serde(deserialize_with = "given")]
    after: Option<String>,
    /// Bulk action to confirm for all jobs that match the filter.
    bulk: Option<Verb>,
    /// Form only: the action, for the selected jobs or for all that match, and whether the user has confirmed it.
    verb: Option<Verb>,
    id: Vec<JobId>,
    all: bool,
    sure: bool,
}

/// Treats an empty form field as absent.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()))
}

impl JobListQuery {
    fn filter(&self) -> Filter {
        Filter {
            statuses: self.status.clone(),
            queue: self.queue.clone(),
            name: self.name.clone(),
            user_id: self.user.clone(),
            correlation_id: self.correlation.clone(),
            tag: self.tag.clone(),
            schedule: self.schedule.clone(),
            since: None,
            until: None,
        }
    }

    /// The URL of the page with the same filter but other statuses and further parameters.
    fn link(&self, statuses: &[Status], more: &[(&str, Option<&str>)]) -> String {
        let mut pairs: Vec<(&str, Option<&str>)> =
            statuses.iter().map(|status| ("status", Some(status.as_str()))).collect();
        pairs.extend([
            ("queue", self.queue.as_deref()),
            ("name", self.name.as_deref()),
            ("user", self.user.as_deref()),
            ("tag", self.tag.as_deref()),
            ("correlation", self.correlation.as_deref()),
            ("schedule", self.schedule.as_deref()),
            ("q", self.q.as_deref()),
        ]);
        pairs.extend(more);
        components::query("/jobs", &pairs)
    }
}

/// The time of a job that the list shows.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Time {
    Created,
    Due,
    Started,
    Finished,
}

impl Time {
    fn of(query: &JobListQuery) -> Self {
        match query.filter().order() {
            _ if query.status == [Status::Processing] => Self::Started,
            Order::Finished => Self::Finished,
            Order::Due => Self::Due,
            Order::Newest => Self::Created,
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Created => "Created",
            Self::Due => "Due",
            Self::Started => "Started",
            Self::Finished => "Finished",
        }
    }
}

pub(super) async fn show(context: PageContext, query: JobListQuery) -> Answer {
    if let Some(address) = query.q.as_deref().and_then(address_of) {
        return Ok(redirect(&address));
    }
    let overview = context.admin().overview().await?;
    let found = find(&context, &query).await?;
    let time = Time::of(&query);
    let bulk = match query.bulk {
        Some(verb) if context.may_change() => Some(confirm_all(&context, &query, verb).await?),
        _ => None,
    };
    let content = html! {
        (filters(&query, &overview))
        @if let Some(bulk) = bulk { (bulk) }
        section #jobs data-live {
            @if let Some(seen) = found.searched {
                p.muted { "Searched for “" (query.q.as_deref().unwrap_or_default()) "” in " (components::plural(seen as u64, "job", "jobs"))
                    @if found.more { "; set more filters to search others" } "." }
            }
            @if found.jobs.is_empty() { (empty(&query)) }
            @else {
                form #picked method="post" action="/bulk" {
                    (components::proof(&context))
                    (table(&context, &found.jobs, time, context.may_change()))
                    @if context.may_change() { (toolbar(&query)) }
                }
                nav.pages aria-label="Pages" {
                    @if query.after.is_some() { a href=(query.link(&query.status, &[])) { "First page" } }
                    @if let Some(next) = &found.next { a rel="next" href=(query.link(&query.status, &[("after", Some(next))])) { "Next page" } }
                }
            }
        }
    };
    Ok(context.html(Layout::new("Jobs", "/jobs"), &content))
}

/// The page of the job or workflow with this id.
fn address_of(text: &str) -> Option<String> {
    let job = text.parse::<JobId>().ok().map(|id| format!("/jobs/{id}"));
    job.or_else(|| text.parse::<WorkflowId>().ok().map(|id| format!("/workflows/{id}")))
}

/// The result of a query or search.
struct Found {
    jobs: Vec<JobView>,
    next: Option<String>,
    /// The number of jobs that a search has read; `None` without a search.
    searched: Option<usize>,
    more: bool,
}

async fn find(context: &PageContext, query: &JobListQuery) -> Result<Found, Problem> {
    let Some(q) = &query.q else {
        let page = Page { limit: PAGE_JOBS, after: query.after.clone() };
        let list = context.admin().jobs(query.filter(), page).await?;
        return Ok(Found { jobs: list.jobs, next: list.next, searched: None, more: false });
    };
    let (wanted, mut jobs, mut searched, mut after) = (q.to_lowercase(), Vec::new(), 0, None);
    loop {
        let page = Page { limit: SEARCH_PAGE, after: after.take() };
        let list = context.admin().jobs(query.filter(), page).await?;
        searched += list.jobs.len();
        jobs.extend(list.jobs.into_iter().filter(|job| mentions(job, &wanted)).take(PAGE_JOBS - jobs.len()));
        after = list.next;
        if after.is_none() || searched >= SEARCH_MAX_JOBS || jobs.len() >= PAGE_JOBS {
            return Ok(Found { jobs, next: None, searched: Some(searched), more: after.is_some() });
        }
    }
}

/// Whether any field that the list shows contains the text.
fn mentions(job: &JobView, wanted: &str) -> bool {
    let has = |text: &str| text.to_lowercase().contains(wanted);
    let fields = [
        Some(&job.name),
        Some(&job.queue),
        job.user_id.as_ref(),
        job.correlation_id.as_ref(),
        job.description.as_ref(),
    ];
    fields.into_iter().flatten().any(|field| has(field))
        || job.tags.iter().any(|tag| has(tag))
        || job.error.as_ref().is_some_and(|error| has(&error.message))
        || has(&job.id.to_string())
        || has(&job.payload_preview.to_string())
}

fn filters(query: &JobListQuery, overview: &Overview) -> Markup {
    let fields = [
        ("queue", "Queue", &query.queue, "queue-names"),
        ("name", "Name", &query.name, "job-names"),
        ("user", "User", &query.user, ""),
        ("tag", "Tag", &query.tag, ""),
        ("q", "Search", &query.q, ""),
    ];
    html! {
        nav.chips #chips data-live aria-label="State" {
            a href=(query.link(&[], &[])) aria-current=[query.status.is_empty().then_some("true")] { "all" }
            @for status in CHOICES {
                @let chosen = query.status.contains(&status);
                @let count = overview.jobs.get(&status).copied().unwrap_or(0);
                a href=(query.link(&[status], &[])) aria-current=[chosen.then_some("true")] { (components::status(status)) span.num { (components::number(count)) } }
            }
        }
        form.filters method="get" action="/jobs" {
            @for status in &query.status { input type="hidden" name="status" value=(status); }
            @for (name, label, value, list) in fields {
                label { span { (label) } input type="text" name=(name) value=[value.as_deref()] list=[(!list.is_empty()).then_some(list)] autocomplete="off" spellcheck="false"; }
            }
            @for (name, value) in [("correlation", &query.correlation), ("schedule", &query.schedule)] {
                @if let Some(value) = value { label { span { (name) } input type="text" name=(name) value=(value); } }
            }
            button type="submit" { "Filter" }
            a.quiet href="/jobs" { "Clear" }
            datalist #queue-names { @for name in overview.queues.keys().take(100) { option value=(name) {} } }
            datalist #job-names { @for name in overview.names.keys().take(100) { option value=(name) {} } }
        }
    }
}

fn empty(query: &JobListQuery) -> Markup {
    if query.filter() == Filter::default() && query.q.is_none() {
        return components::empty(
            "There are no jobs yet.",
            "Enqueue a job from your program, over HTTP, or with this command:",
            "punctual enqueue echo '{\"hello\": \"world\"}'",
        );
    }
    components::empty("No matching jobs.", "Change or clear the filters.", "")
}

/// A table of jobs.
pub(super) fn table(context: &PageContext, jobs: &[JobView], time: Time, picks: bool) -> Markup {
    html! {
        div.scroll {
            table.rows {
                thead { tr {
                    @if picks { th.pick { input type="checkbox" data-all aria-label="Select all"; } }
                    th { "State" } th { "Name" } th.wide { "Queue" } th.num.wide { "Attempt" }
                    th.num { (time.label()) } th.num.wide { "Duration" } th.wide { "User" } th.wide { "Tags" } th { "Id" }
                } }
                tbody { @for job in jobs { (row(context, job, time, picks)) } }
            }
        }
    }
}

fn row(context: &PageContext, job: &JobView, time: Time, picks: bool) -> Markup {
    let at = match time {
        Time::Created => Some(job.created_at),
        Time::Due => Some(job.run_at),
        Time::Started => job.started_at,
        Time::Finished => job.finished_at,
    };
    let took = job.started_at.map(|started| match job.finished_at {
        Some(finished) => finished.since(started),
        None => context.now.since(started),
    });
    let took = took.filter(|_| matches!(job.status, Status::Processing | Status::Succeeded | Status::Dead));
    html! {
        tr id=(job.id) {
            @if picks { td.pick { input type="checkbox" name="id" value=(job.id) aria-label={ "Select " (job.name) }; } }
            td { (components::status(job.status)) }
            td.main { a href={ "/jobs/" (job.id) } title=[job.description.as_deref()] { (job.name) } @if let Some(progress) = job.progress.as_ref().filter(|_| job.status == Status::Processing) { (components::progress(progress.percent, progress.message.as_deref().unwrap_or("progress"))) } }
            td.wide { a.quiet href={ "/queues/" (components::part(&job.queue)) } { (job.queue) } }
            td.num.wide { @if job.attempt > 0 { (job.attempt) span.muted { " / " (job.max_attempts) } } @else { span.zero { "–" } } }
            td.num { (components::when_some(at, context.now)) }
            td.num.wide { @match took { Some(took) => (in_words(took)), None => span.zero { "–" } } }
            td.wide { @if let Some(user) = &job.user_id { a.quiet href=(components::query("/jobs", &[("user", Some(user))])) { (user) } } }
            td.wide { @for tag in job.tags.iter().take(3) { a.tag href=(components::query("/jobs", &[("tag", Some(tag))])) { (tag) } } }
            td { (components::id(job.id)) }
        }
    }
}

/// The label of an action's button.
const fn label(verb: Verb) -> &'static str {
    match verb {
        Verb::Retry => "Retry",
        Verb::Cancel => "Cancel",
        Verb::RunNow => "Run now",
        Verb::Delete => "Delete",
    }
}

/// The actions for the selected jobs, and for all jobs that match the filter.
fn toolbar(query: &JobListQuery) -> Markup {
    let applies =
        |verb: Verb| query.status.is_empty() || query.status.iter().any(|status| verb.applies_to().contains(status));
    let verbs = || {
        [Verb::Retry, Verb::Cancel, Verb::RunNow, Verb::Delete]
            .map(|verb| (verb, label(verb)))
            .into_iter()
            .filter(|(verb, _)| applies(*verb))
    };
    let narrowed = query.filter() != Filter::default() && query.q.is_none();
    html! {
        div.toolbar {
            span.muted { "Selected:" }
            @for (verb, label) in verbs() { button type="submit" name="verb" value=(verb) data-picked { (label) } }
            @if narrowed {
                span.muted { "All matching jobs, on all pages:" }
                @for (verb, label) in verbs() { a.button href=(query.link(&query.status, &[("bulk", Some(&verb.to_string()))])) { (label) " all…" } }
            }
        }
    }
}

/// Asks the user to confirm an action on all jobs that match the filter, and shows their number.
async fn confirm_all(context: &PageContext, query: &JobListQuery, verb: Verb) -> Result<Markup, Problem> {
    let preview = context.admin().preview(verb, query.filter()).await?;
    let count =
        format!("{}{}", if preview.more { "more than " } else { "" }, components::plural(preview.count, "job", "jobs"));
    Ok(html! {
        form.question method="post" action="/bulk" role="alertdialog" aria-label="Confirm the action" {
            input type="hidden" name="csrf" value=(context.csrf());
            input type="hidden" name="back" value=(query.link(&query.status, &[]));
            input type="hidden" name="verb" value=(verb);
            input type="hidden" name="all" value="true";
            @for status in &query.status { input type="hidden" name="status" value=(status); }
            @for (name, value) in [("queue", &query.queue), ("name", &query.name), ("user", &query.user), ("tag", &query.tag), ("correlation", &query.correlation), ("schedule", &query.schedule)] {
                @if let Some(value) = value { input type="hidden" name=(name) value=(value); }
            }
            @if preview.count == 0 {
                span { "No matching jobs to " (verb) "." }
            } @else {
                span { strong { (label(verb)) " " (count) "?" } " First jobs: " @for (index, job) in preview.sample.iter().enumerate() { @if index > 0 { ", " } a href={ "/jobs/" (job.id) } { (job.name) } } }
                button.danger type="submit" { "Yes, " (verb) " " (count) }
            }
            a.button href=(query.link(&query.status, &[])) { "No" }
        }
    })
}

/// Asks the user to confirm an action on the selected jobs.
fn confirm_selected(context: &PageContext, bulk: &JobListQuery, verb: Verb) -> Response {
    let count = components::plural(bulk.id.len() as u64, "job", "jobs");
    let back = context.back.as_deref().unwrap_or("/jobs");
    let content = html! {
        form.question method="post" action="/bulk" {
            input type="hidden" name="csrf" value=(context.csrf());
            input type="hidden" name="back" value=(back);
            input type="hidden" name="verb" value=(verb);
            input type="hidden" name="sure" value="true";
            @for id in &bulk.id { input type="hidden" name="id" value=(id); }
            strong { (label(verb)) " " (count) "?" }
            button.danger type="submit" { "Yes, " (verb) " " (count) }
            a.button href=(back) { "No" }
        }
    };
    context.html(Layout::new("Confirm", "/jobs"), &content)
}

pub(super) async fn bulk(context: PageContext, bulk: JobListQuery) -> Answer {
    let verb = bulk.verb.ok_or_else(|| Problem::invalid("verb", "is required"))?;
    let admin = context.admin();
    if bulk.all {
        if bulk.filter() == Filter::default() {
            return Err(Problem::invalid("status", "a bulk action needs a filter"));
        }
        let stop_at_max = |done: BulkDone| match done.changed + done.skipped {
            jobs if jobs >= BULK_MAX_JOBS => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
        let done = admin.bulk(verb, bulk.filter(), stop_at_max).await?;
        let more = if done.more { "; more jobs match" } else { "" };
        let passed = if done.skipped > 0 {
            format!("; {} skipped (state changed meanwhile)", components::number(done.skipped))
        } else {
            String::new()
        };
        return Ok(context
            .done("/jobs", &format!("{}: {}{passed}{more}", verb, components::plural(done.changed, "job", "jobs"))));
    }
    if bulk.id.is_empty() {
        return Ok(context.done("/jobs", "No jobs selected."));
    }
    if !bulk.sure && matches!(verb, Verb::Cancel | Verb::Delete) {
        return Ok(confirm_selected(&context, &bulk, verb));
    }
    let (mut done, mut refused) = (0, Vec::new());
    for id in bulk.id.iter().take(PAGE_JOBS) {
        let answer = match verb {
            Verb::Retry => admin.retry(*id).await,
            Verb::Cancel => admin.cancel(*id, None).await,
            Verb::Delete => admin.delete(*id).await,
            Verb::RunNow => admin.run(*id).await.map(drop),
        };
        match answer {
            Ok(()) => done += 1,
            Err(error) => refused.push(error.to_string()),
        }
    }
    let refusals = refused.first().map(|first| format!("; {} refused: {first}", refused.len())).unwrap_or_default();
    Ok(context.done("/jobs", &format!("{}: {}{refusals}", verb, components::plural(done, "job", "jobs"))))
}
