//! The queues page.

use maud::{Markup, html};
use punctual_client::admin::QueueView;
use punctual_core::{Limits, Status};

use super::{Answer, components, layout::Page, page_context::PageContext};
use crate::route::Nothing;

const COLUMNS: [Status; 6] =
    [Status::Queued, Status::Processing, Status::Scheduled, Status::Retrying, Status::Waiting, Status::Dead];

pub(super) async fn show(context: PageContext, _: Nothing) -> Answer {
    let queues = context.admin().queues().await?;
    let content = html! { section #queues data-live { (table(&context, &queues)) } };
    Ok(context.html(Page::new("Queues", "/queues"), &content))
}

/// A table of queues.
pub(super) fn table(context: &PageContext, queues: &[QueueView]) -> Markup {
    if queues.is_empty() {
        let advice = "A queue is created when a job is enqueued in it:";
        return components::empty("There are no queues yet.", advice, "punctual enqueue echo '{}' --queue mail");
    }
    html! {
        div.scroll { table.rows {
            thead { tr {
                th { "Queue" }
                @for status in COLUMNS { th.num.wide[!shown_on_phones(status)] { (title(status)) } }
                th.num.wide { "Workers" } th.wide { "Limits" } @if context.may_change() { th { span.hidden { "Actions" } } }
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
            td.main { a href=(path) { (queue.name) } @if queue.settings.paused { span.badge { "paused" } } }
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
