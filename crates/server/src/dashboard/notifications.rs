//! The notifications page.

use maud::html;
use punctual_core::limits;
use serde::Deserialize;

use super::{Answer, components, layout::Page, page_context::PageContext};

/// Maximum number of notifications that are listed.
const SHOWN: usize = 100;

/// The query parameters of the page: the recipient.
#[derive(Deserialize)]
pub(super) struct NotificationsQuery {
    #[serde(default)]
    user: String,
}

pub(super) async fn show(context: PageContext, NotificationsQuery { user }: NotificationsQuery) -> Answer {
    let store = context.request.punctual().store();
    let recipient = Some(user.clone()).filter(|user| !user.is_empty());
    // The store lists notifications from the oldest on; the page shows the latest.
    let last = store.last_notification().await?;
    let from = last.saturating_sub(limits::PAGE_MAX_NOTIFICATIONS as u64);
    let mut found = store.notifications(recipient, from, limits::PAGE_MAX_NOTIFICATIONS).await?;
    found.reverse();
    found.truncate(SHOWN);
    let content = html! {
        form.filters method="get" action="/notifications" {
            label { span { "User" } input type="text" name="user" value=(user) autocomplete="off" dir="auto"; }
            button type="submit" { "Filter" }
            a.quiet href="/notifications" { "Clear" }
        }
        section #notifications data-live {
            @if found.is_empty() {
                (components::empty("No recent notifications.", "Jobs send notifications to a user or to all users. Send one over HTTP:", &format!("curl -X POST {}/v1/notifications -H 'Content-Type: application/json' -d '{{\"user\": \"ada\", \"message\": \"your film is ready\"}}'", context.origin())))
            } @else {
                section.scroll tabindex="0" aria-label="List of notifications" { table.rows {
                    thead { tr { th scope="col" { "User" } th scope="col" { "Message" } th.wide scope="col" { "Job" } th.num scope="col" { "Sent" } } }
                    tbody { @for one in &found {
                        tr {
                            td.main { @match &one.user_id { Some(user) => a href=(components::query("/notifications", &[("user", Some(user))])) { (components::name(user)) }, None => span.muted { "all users" } } }
                            td { code title=(components::cut(one.message.as_str(), 2_000)) { bdi { (components::cut(one.message.as_str(), 120)) } } }
                            td.wide { @if let Some(job) = one.job { a href={ "/jobs/" (job) } { (components::shortened(&job.to_string())) } } }
                            td.num { (components::when(one.created_at, context.now)) }
                        }
                    } }
                } }
            }
        }
    };
    Ok(context.html(Page::new("Notifications", "/notifications"), &content))
}
