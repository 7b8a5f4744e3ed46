//! The queues page.

use maud::{Markup, html};
use punctual_client::admin::QueueView;
use punctual_core::{Limits, Status};

use super::{Answer, components, layout::Page, page_context::PageContext};
use crate::route::Nothing;

const COLUMNS: [Status; 6] =
    [Status::Queued, Status::Processing, Status::Scheduled, Status::Retrying, Status::Waiting, Status::Dead];

pub(super) async fn show(visit: PageContext, _: Nothing) -> Answer {
    let queues = visit.admin().queues().await?;
    let content = html! { section #queues data-live { (table(&visit, &queues)) } };
    Ok(visit.html(Page::new("Queues", "/queues"), &content))
}

/// A table of queues.
pub(super) fn table(visit: &PageContext, queues: &[QueueView]) -> Markup {
    if queues.is_empty() {
        let how = "A queue exists once a job is enqueued in it, or it is configured:";
        return components::empty("There are no queues yet.", how, "punctual enqueue echo '{}' --queue mail");
    }
    html! {
        div.scroll { table.rows {
            thead { tr {
                th { "Queue" }
                @for status in COLUMNS { th.num.wide[!shown_on_phones(status)] { (title(status)) } }
                th.num.wide { "Workers" } th.wide { "Limits" } @if visit.may_change() { th { span.hidden { "Actions" } } }
            } }
            tbody { @for queue in queues { (row(visit, queue)) } }
        } }
    }
}

const fn shown_on_phones(status: Status) -> bool {
    matches!(status, Status::Queued | Status::Processing | Status::Dead)
}

fn title(status: Status) -> String {
    let word = status.as_str();
    format!("{}{}", word[..1].to_uppercase(), &word[1..])
}

fn row(visit: &PageContext, queue: &QueueView) -> Markup {
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
            @if visit.may_change() { td.num { (switch(visit, queue)) } }
        }
    }
}

/// The button that pauses or resumes a queue.
pub(super) fn switch(visit: &PageContext, queue: &QueueView) -> Markup {
    let path = format!("/queues/{}", components::part(&queue.name));
    if queue.settings.paused {
        return components::button(visit, &format!("{path}/resume"), "Resume", None);
    }
    components::button(visit, &format!("{path}/pause"), "Pause", None)
}

/// A short text of the limits.
pub(super) fn limits_in_words(limits: &Limits) -> Markup {
    let mut words = Vec::new();
    words.extend(limits.concurrency.map(|count| format!("{count} concurrent")));
    words.extend(limits.rate.map(|rate| rate.to_string()));
    words.extend(limits.key_concurrency.map(|count| format!("{count} per key")));
    words.extend(limits.key_rate.map(|rate| format!("{rate} per key")));
    words.extend(limits.fair.then(|| "fair".to_owned()));
    html! { @if words.is_empty() { span.zero { "–" } } @else { (words.join(", ")) } }
}
