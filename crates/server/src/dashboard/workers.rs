//! The workers page and the locks page.

use maud::html;
use punctual_client::admin::is_live;
use punctual_core::time::in_words;

use super::{
    Answer,
    components::{self, ConfirmedAction},
    layout::Page,
    page_context::PageContext,
};
use crate::{api::Named, route::Nothing};

pub(super) async fn show(context: PageContext, _: Nothing) -> Answer {
    let workers = context.admin().workers().await?;
    let list = |names: &[String]| if names.is_empty() { "all".to_owned() } else { names.join(", ") };
    let content = html! {
        section #workers data-live {
            @if workers.is_empty() {
                (components::empty("No workers registered.", "Start a worker in your program, or with this command:", "punctual work"))
            } @else {
                div.scroll { table.rows {
                    thead { tr { th { "State" } th { "Host" } th.num.wide { "Process" } th { "Queues" } th.wide { "Names" } th.num { "Running" } th.num.wide { "Uptime" } th.num { "Last seen" } th { "Id" } } }
                    tbody { @for worker in &workers {
                        @let live = is_live(worker, context.now);
                        tr {
                            td { span class={ "state s-" (if live { "succeeded" } else { "dead" }) } { i {} (if live { "live" } else { "lost" }) } }
                            td.main { (worker.heartbeat.host) }
                            td.num.wide { (worker.heartbeat.pid) }
                            td { (list(&worker.heartbeat.queues)) }
                            td.wide title=(list(&worker.heartbeat.names)) { (components::cut(&list(&worker.heartbeat.names), 60)) }
                            td.num { (worker.heartbeat.running) span.muted { " / " (worker.heartbeat.concurrency) } }
                            td.num.wide { (in_words(context.now.since(worker.started_at))) }
                            td.num { (components::when(worker.seen_at, context.now)) }
                            td { (components::id(worker.heartbeat.id)) }
                        }
                    } }
                } }
            }
        }
    };
    Ok(context.html(Page::new("Workers", "/workers"), &content))
}

pub(super) async fn locks(context: PageContext, _: Nothing) -> Answer {
    let locks = context.admin().locks().await?;
    let content = html! {
        section #locks data-live {
            @if locks.is_empty() {
                (components::empty("No held locks.", "A lock gives one owner at a time exclusive access to a resource. Acquire one over HTTP:", &format!("curl -X POST {}/v1/locks/report/acquire -H 'Content-Type: application/json' -d '{{\"owner\": \"me\", \"ttl\": \"1m\"}}'", context.origin())))
            } @else {
                div.scroll { table.rows {
                    thead { tr { th { "Lock" } th { "Owner" } th.num.wide { "Fence" } th.num { "Expires" } @if context.may_change() { th { span.hidden { "Actions" } } } } }
                    tbody { @for lock in &locks {
                        tr {
                            td.main { (lock.name) }
                            td { code { (components::cut(&lock.owner, 48)) } }
                            td.num.wide { (lock.token) }
                            td.num { (components::when(lock.expires_at, context.now)) }
                            @if context.may_change() { td.num { (components::confirm_button(&context, &ConfirmedAction { action: &format!("/locks/{}/free", components::part(&lock.name)), label: "Free", question: "The owner may still be running.", key: None })) } }
                        }
                    } }
                } }
            }
        }
    };
    Ok(context.html(Page::new("Locks", "/locks"), &content))
}

pub(super) async fn free(context: PageContext, Named { name }: Named) -> Answer {
    let freed = context.admin().unlock(&name).await?;
    Ok(context.done("/locks", &if freed { format!("{name} freed.") } else { format!("{name} was not held.") }))
}
