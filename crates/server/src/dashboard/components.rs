//! Elements that pages share, such as times, statuses, ids and numbers, so that they look the same everywhere.

use std::{fmt::Display, time::Duration};

use maud::{Markup, PreEscaped, html};
pub(super) use punctual_core::number::in_thousands as number;
use punctual_core::{Timestamp, time::in_words};
use serde_json::Value;

use super::page_context::PageContext;

/// Levels of a JSON document that are expanded at first.
const OPEN_LEVELS: usize = 2;
/// Maximum number of fields or items shown per level.
const FIELDS_SHOWN: usize = 200;
/// Longer names have a tooltip, since lists may cut them.
const NAME_MAX_CHARS: usize = 20;

/// A status: a dot and its name.
pub(super) fn status(status: impl Display) -> Markup {
    html! { span class={ "state s-" (status) } { i {} (status) } }
}

/// The dot of a status without its name.
pub(super) fn status_dot(class: &str) -> Markup {
    html! { span class={ "state " (class) } { i {} } }
}

/// A count in a table cell, linked to its list; a zero is dimmed and has no link.
pub(super) fn count_cell(count: u64, to: &str) -> Markup {
    html! {
        td.num { @if count == 0 { span.zero { "0" } } @else { a href=(to) { (number(count)) } } }
    }
}

/// A count with its noun in singular or plural.
pub(super) fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", number(count), if count == 1 { one } else { many })
}

/// A number of times: `once`, `twice`, `3 times`.
pub(super) fn times(count: u32) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        more => format!("{more} times"),
    }
}

/// An instant relative to now. The tooltip shows the exact time, with JavaScript in the viewer's time zone.
pub(super) fn when(at: Timestamp, now: Timestamp) -> Markup {
    html! { time datetime=(at) title=(exact(at)) { (relative(at, now)) } }
}

pub(super) fn when_some(at: Option<Timestamp>, now: Timestamp) -> Markup {
    html! { @match at { Some(at) => (when(at, now)), None => span.zero { "–" } } }
}

/// An exact instant, to the second.
pub(super) fn when_exact(at: Timestamp) -> Markup {
    html! { time.exact datetime=(at) title=(exact(at)) { (exact(at)) } }
}

/// An instant relative to now, as text.
pub(super) fn relative(at: Timestamp, now: Timestamp) -> String {
    if at > now { format!("in {}", in_words(at.since(now))) } else { format!("{} ago", in_words(now.since(at))) }
}

/// `2026-03-01 12:00:00.123 UTC`.
pub(super) fn exact(at: Timestamp) -> String {
    let text = at.to_string();
    let (day, time) = text.split_once('T').unwrap_or((&text, ""));
    format!("{day} {} UTC", time.get(..12).unwrap_or(time))
}

pub(super) fn took(duration: Duration) -> Markup {
    html! { span.took { (in_words(duration)) } }
}

/// An id, shortened in the middle; a click copies all of it.
pub(super) fn id(id: impl Display) -> Markup {
    let whole = id.to_string();
    html! { code.id data-copy=(whole) title=(whole) { (shortened(&whole)) } }
}

pub(super) fn shortened(id: &str) -> String {
    let (kind, rest) = id.split_once('_').unwrap_or(("", id));
    match (rest.get(..4), rest.len().checked_sub(6).and_then(|from| rest.get(from..))) {
        (Some(head), Some(tail)) if rest.len() > 12 => format!("{kind}_{head}…{tail}"),
        _ => id.to_owned(),
    }
}

/// A name that users have chosen. It may be written from right to left, and must not reorder the text around it.
pub(super) fn name(text: &str) -> Markup {
    html! { bdi title=[(text.chars().count() > NAME_MAX_CHARS).then_some(text)] { (text) } }
}

/// A part of a page that scrolls by itself. Its label must be unique on the page. It can be focused, since only then
/// the keyboard can scroll it.
pub(super) fn scroll(label: &str, content: &Markup) -> Markup {
    html! { section.scroll tabindex="0" aria-label=(label) { (content) } }
}

/// Links to the first and to the next page of a list.
pub(super) fn pages(first: Option<&str>, next: Option<&str>) -> Markup {
    html! {
        @if first.is_some() || next.is_some() {
            nav.pages aria-label="Pagination" {
                @if let Some(to) = first { a href=(to) { "First page" } }
                @if let Some(to) = next { a rel="next" href=(to) { "Next page" } }
            }
        }
    }
}

/// A text, truncated if it is long.
pub(super) fn cut(text: &str, max_chars: usize) -> String {
    if text.chars().count() <= max_chars {
        return text.to_owned();
    }
    text.chars().take(max_chars.saturating_sub(1)).chain(['…']).collect()
}

/// A URL with its query, without empty parameters.
pub(super) fn query(path: &str, pairs: &[(&str, Option<&str>)]) -> String {
    let given = pairs.iter().filter_map(|(name, value)| Some((*name, value.filter(|value| !value.is_empty())?)));
    let mut text = form_urlencoded::Serializer::new(String::new());
    text.extend_pairs(given);
    let text = text.finish();
    if text.is_empty() { path.to_owned() } else { format!("{path}?{text}") }
}

/// Encodes one segment of a path.
pub(super) fn part(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

/// The hidden fields of every form: the CSRF token, and the page to return to.
pub(super) fn proof(context: &PageContext) -> Markup {
    html! {
        input type="hidden" name="csrf" value=(context.csrf());
        input type="hidden" name="back" value=(context.at);
    }
}

/// A button that acts without confirmation.
pub(super) fn button(context: &PageContext, to: &str, label: &str, key: Option<&str>) -> Markup {
    html! {
        form.inline method="post" action=(to) { (proof(context)) button type="submit" data-key=[key] { (label) } }
    }
}

/// An action that the user has to confirm.
pub(super) struct ConfirmedAction<'a> {
    /// The URL of the form's action.
    pub(super) action: &'a str,
    /// The label of the button.
    pub(super) label: &'a str,
    /// The text beside the button that confirms.
    pub(super) question: &'a str,
    /// The keyboard shortcut.
    pub(super) key: Option<&'a str>,
}

/// A button that asks for confirmation, in place.
pub(super) fn confirm_button(context: &PageContext, action: &ConfirmedAction<'_>) -> Markup {
    let ConfirmedAction { action, label, question, key } = *action;
    html! {
        details.confirm {
            summary.button data-key=[key] { (label) "…" }
            form method="post" action=(action) {
                (proof(context))
                span { (question) }
                button.danger type="submit" { (label) }
            }
        }
    }
}

/// A disabled button; its tooltip gives the reason.
pub(super) fn disabled(label: &str, why: &str) -> Markup {
    html! { button type="button" disabled title=(why) aria-label={ (label) ": " (why) } { (label) } }
}

/// The empty state of a page: a title, and how to create the first item.
pub(super) fn empty(title: &str, advice: &str, command: &str) -> Markup {
    html! {
        div.empty {
            p.what { (title) }
            p.muted { (advice) }
            @if !command.is_empty() { pre data-copy=(command) title="Copy" { (command) } }
        }
    }
}

/// A progress bar.
pub(super) fn progress(percent: f32, label: &str) -> Markup {
    let percent = percent.clamp(0.0, 100.0);
    html! { progress value=(format!("{percent:.1}")) max="100" aria-label=(label) title=(label) { (format!("{percent:.0} %")) } }
}

/// Tabs between views of a page.
pub(super) fn tabs<'a>(label: &str, choices: impl IntoIterator<Item = (String, &'a str, bool)>) -> Markup {
    html! {
        nav.tabs aria-label=(label) {
            @for (to, text, chosen) in choices { a href=(to) aria-current=[chosen.then_some("true")] { (text) } }
        }
    }
}

/// Names and values, one row each.
pub(super) fn facts(rows: Vec<(&str, Markup)>) -> Markup {
    html! { dl.facts { @for (name, value) in rows { div { dt { (name) } dd { (value) } } } } }
}

/// A JSON document with collapsible levels.
pub(super) fn document(label: &str, value: &Value) -> Markup {
    html! { section.json tabindex="0" aria-label=(label) { (level(value, 0)) } }
}

fn level(value: &Value, depth: usize) -> Markup {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let rows: Vec<(String, &Value)> = fields.iter().map(|(name, value)| (name.clone(), value)).collect();
            fold(&rows, "{", "}", depth)
        }
        Value::Array(items) if !items.is_empty() => {
            let rows: Vec<(String, &Value)> =
                items.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect();
            fold(&rows, "[", "]", depth)
        }
        Value::String(text) => html! { bdi.string { (text) } },
        other => html! { span.literal { (other.to_string()) } },
    }
}

fn fold(rows: &[(String, &Value)], open: &str, close: &str, depth: usize) -> Markup {
    let left = rows.len().saturating_sub(FIELDS_SHOWN);
    html! {
        details open[depth < OPEN_LEVELS] {
            summary { (open) span.muted { (rows.len()) } (close) }
            ul {
                @for (name, value) in rows.iter().take(FIELDS_SHOWN) { li { span.field { bdi { (name) } } (level(value, depth + 1)) } }
                @if left > 0 { li.muted { "and " (left) " more" } }
            }
        }
    }
}

/// An icon, drawn as a stroke in 16 by 16 units.
pub(super) fn icon(name: &str) -> Markup {
    let path = match name {
        "overview" => "M2 9l3-4 3 3 3-6 3 5M2 14h12",
        "jobs" => "M6 4h8M6 8h8M6 12h8M2 4h.5M2 8h.5M2 12h.5",
        "workflows" => "M4 3v4a3 3 0 003 3h5M10 7l3 3-3 3M4 3v10",
        "schedules" => "M8 2a6 6 0 110 12A6 6 0 018 2zM8 5v3l2.5 1.5",
        "queues" => "M2 5l6-3 6 3-6 3zM2 8.5l6 3 6-3M2 12l6 3 6-3",
        "workers" => {
            "M4 4h8v8H4zM6.5 6.5h3v3h-3zM6 1.5V4M10 1.5V4M6 12v2.5M10 12v2.5M1.5 6H4M1.5 10H4M12 6h2.5M12 10h2.5"
        }
        "locks" => "M3.5 7h9v7h-9zM5.5 7V5a2.5 2.5 0 015 0v2",
        "reports" => "M3 14V8M8 14V3M13 14v-4",
        "notifications" => "M4 11V7a4 4 0 018 0v4l1 1.5H3zM6.5 14.5h3",
        "search" => "M7 2.5a4.5 4.5 0 110 9 4.5 4.5 0 010-9zM10.5 10.5l3.5 3.5",
        "api" => "M5 4L1.5 8 5 12M11 4l3.5 4-3.5 4M9 3l-2 10",
        _ => "",
    };
    PreEscaped(format!(r#"<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d="{path}"/></svg>"#))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_keep_their_kind_and_both_ends() {
        assert_eq!(shortened("job_019ca950a6d670009341f19525ab0624"), "job_019c…ab0624");
        assert_eq!(shortened("short"), "short");
    }

    #[test]
    fn queries_omit_empty_parameters_and_escape_the_rest() {
        assert_eq!(query("/jobs", &[("name", Some("")), ("queue", None)]), "/jobs");
        assert_eq!(query("/jobs", &[("name", Some("a&b=c")), ("tag", Some("x y"))]), "/jobs?name=a%26b%3Dc&tag=x+y");
        assert_eq!(part("a/b c?"), "a%2Fb%20c%3F");
    }

    #[test]
    fn documents_are_escaped() {
        let drawn =
            document("Payload", &serde_json::json!({"<b>": ["<script>alert(1)</script>", null, 1.5]})).into_string();
        assert!(!drawn.contains("<script>") && !drawn.contains("<b>"), "{drawn}");
        assert!(drawn.contains("&lt;script&gt;") && drawn.contains("null") && drawn.contains("1.5"));
    }
}
