//! The queues page.

use maud::{Markup, html};
use punctual_client::admin::QueueView;
use punctual_core::{Limits, Status, queue::fits};
use serde::Deserialize;

use super::{Answer, components, layout::Page, page_context::PageContext};

const PAGE_QUEUES: usize = 50;
const COLUMNS: [Status; 6] =
    [Status::Queued, Status::Processing, Status::Scheduled, Status::Retrying, Status::Waiting, Status::Dead];

/// The query parameters of the page: a filter, and the cursor.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct QueuesQuery {
    /// A part of the name, or a pattern with `*` and `?`.
    name: String,
    /// The last queue of the previous page.
    after: Option<String>,
}

impl QueuesQuery {
    fn matches(&self, queue: &QueueView) -> bool {
        let wanted = self.name.trim();
        if wanted.contains(['*', '?']) { fits(wanted, &queue.name) } else { queue.name.contains(wanted) }
    }

    /// The URL of the page with the same filter.
    fn link(&self, after: Option<&str>) -> String {
        components::query("/queues", &[("name", Some(self.name.trim())), ("after", after)])
    }
}

pub(super) async fn show(context: PageContext, query: QueuesQuery) -> Answer {
    let mut queues = context.admin().queues().await?;
    let is_new = queues.is_empty();
    queues.retain(|queue| query.matches(queue) && query.after.as_ref().is_none_or(|after| queue.name > *after));
    let next = queues.get(PAGE_QUEUES).and(queues.get(PAGE_QUEUES - 1)).map(|last| query.link(Some(&last.name)));
    let first = query.after.is_some().then(|| query.link(None));
    queues.truncate(PAGE_QUEUES);
    let content = html! {
        form.filters method="get" action="/queues" {
            label { span { "Name" } input type="text" name="name" value=(query.name) placeholder="mail or mail-*" autocomplete="off" spellcheck="false" dir="auto"; }
            button type="submit" { "Filter" }
            a.quiet href="/queues" { "Clear" }
        }
        section #queues data-live {
            @if queues.is_empty() && !is_new { (components::empty("No matching queues.", "Change or clear the filter.", "")) }
            @else { (table(&context, &queues)) }
            (components::pages(first.as_deref(), next.as_deref()))
        }
    };
    Ok(context.html(Page::new("Queues", "/queues"), &content))
}

/// A table of queues.
pub(super) fn table(context: &PageContext, queues: &[QueueView]) -> Markup {
    if queues.is_empty() {
        let advice = "A queue is created when a job is enqueued in it:";
        return components::empty("There are no queues yet.", advice, "punctual enqueue echo '{}' --queue mail");
    }
    html! {
        section.scroll tabindex="0" aria-label="List of queues" { table.rows {
            thead { tr {
                th scope="col" { "Queue" }
                @for status in COLUMNS { th.num.wide[!shown_on_phones(status)] scope="col" { (title(status)) } }
                th.num.wide scope="col" { "Workers" } th.wide scope="col" { "Limits" } @if context.may_change() { th scope="col" { span.hidden { "Actions" } } }
            } }
            tbody { @for queue in queues { (row(context, queue)) } }
        } }
    }
}

const fn shown_on_phones(status: Status) -> bool {
    matches!(status, Status::Queued | Status::Processing | Status::Dead)
}

fn title(status: Status) -> String {
    let name = status.as_str();
    format!("{}{}", name[..1].to_uppercase(), &name[1..])
}

fn row(context: &PageContext, queue: &QueueView) -> Markup {
    let path = format!("/queues/{}", components::part(&queue.name));
    html! {
        tr {
            td.main { a href=(path) { (components::name(&queue.name)) } @if queue.settings.paused { span.badge { "paused" } } }
            @for status in COLUMNS {
                @let count = queue.jobs.get(&status).copied().unwrap_or(0);
                @let to = components::query("/jobs", &[("status", Some(status.as_str())), ("queue", Some(&queue.name))]);
                td.num.wide[!shown_on_phones(status)] { @if count == 0 { span.zero { "0" } } @else { a href=(to) class={ "s-" (status) } { (components::number(count)) } } }
            }
            td.num.wide { @if queue.workers == 0 { span.zero { "0" } } @else { (components::number(queue.workers)) } }
            td.wide { (limits_in_words(&queue.settings.limits)) }
            @if context.may_change() { td.num { (switch(context, queue)) } }
        }
    }
}

/// The button that pauses or resumes a queue.
pub(super) fn switch(context: &PageContext, queue: &QueueView) -> Markup {
    let path = format!("/queues/{}", components::part(&queue.name));
    if queue.settings.paused {
        return components::button(context, &format!("{path}/resume"), "Resume", None);
    }
    components::button(context, &format!("{path}/pause"), "Pause", None)
}

/// A short text of the limits.
pub(super) fn limits_in_words(limits: &Limits) -> Markup {
    let mut parts = Vec::new();
    parts.extend(limits.concurrency.map(|count| format!("{count} concurrent")));
    parts.extend(limits.rate.map(|rate| rate.to_string()));
    parts.extend(limits.key_concurrency.map(|count| format!("{count} per key")));
    parts.extend(limits.key_rate.map(|rate| format!("{rate} per key")));
    parts.extend(limits.fair.then(|| "fair".to_owned()));
    html! { @if parts.is_empty() { span.zero { "–" } } @else { (parts.join(", ")) } }
}
