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
    let list = |names: &[String], empty: &str| if names.is_empty() { empty.to_owned() } else { names.join(", ") };
    let content = html! {
        section #workers data-live {
            @if workers.is_empty() {
                (components::empty("No workers registered.", "Start a worker in your program, or with this command:", "punctual work"))
            } @else {
                section.scroll tabindex="0" aria-label="List of workers" { table.rows {
                    thead { tr { th scope="col" { "State" } th scope="col" { "Host" } th.num.wide scope="col" { "Process" } th scope="col" { "Queues" } th.wide scope="col" { "Names" } th.num scope="col" { "Running" } th.num.wide scope="col" { "Uptime" } th.num scope="col" { "Last seen" } th scope="col" { "Id" } } }
                    tbody { @for worker in &workers {
                        @let live = is_live(worker, context.now);
                        tr {
                            td { span class={ "state s-" (if live { "succeeded" } else { "dead" }) } { i {} (if live { "live" } else { "lost" }) } }
                            td.main { (components::name(&worker.heartbeat.host)) }
                            td.num.wide { (worker.heartbeat.pid) }
                            td { (components::name(&list(&worker.heartbeat.queues, "all"))) }
                            td.wide title=(list(&worker.heartbeat.names, "none")) { bdi { (components::cut(&list(&worker.heartbeat.names, "none"), 60)) } }
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
                section.scroll tabindex="0" aria-label="List of locks" { table.rows {
                    thead { tr { th scope="col" { "Lock" } th scope="col" { "Owner" } th.num.wide scope="col" { "Fence" } th.num scope="col" { "Expires" } @if context.may_change() { th scope="col" { span.hidden { "Actions" } } } } }
                    tbody { @for lock in &locks {
                        tr {
                            td.main { (components::name(&lock.name)) }
                            td { code { (components::name(&lock.owner)) } }
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
