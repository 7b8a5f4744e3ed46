//! The workers page and the locks page.

use maud::html;
use punctual_client::admin::is_live;
use punctual_core::time::in_words;

use super::{Answer, components, layout::Page, page_context::PageContext};
use crate::{api::Named, route::Nothing};

pub(super) async fn show(visit: PageContext, _: Nothing) -> Answer {
    let workers = visit.admin().workers().await?;
    let words = |words: &[String], all: &str| if words.is_empty() { all.to_owned() } else { words.join(", ") };
    let content = html! {
        section #workers data-live {
            @if workers.is_empty() {
                (components::empty("No workers registered.", "A worker is your program with handlers, or this command with its own:", "punctual work"))
            } @else {
                div.scroll { table.rows {
                    thead { tr { th { "State" } th { "Host" } th.num.wide { "Process" } th { "Queues" } th.wide { "Names" } th.num { "Running" } th.num.wide { "Up for" } th.num { "Seen" } th { "Id" } } }
                    tbody { @for worker in &workers {
                        @let live = is_live(worker, visit.now);
                        tr {
                            td { span class={ "state s-" (if live { "succeeded" } else { "dead" }) } { i {} (if live { "live" } else { "lost" }) } }
                            td.main { (worker.heartbeat.host) }
                            td.num.wide { (worker.heartbeat.pid) }
                            td { (words(&worker.heartbeat.queues, "all")) }
                            td.wide title=(words(&worker.heartbeat.names, "all")) { (components::cut(&words(&worker.heartbeat.names, "all"), 60)) }
                            td.num { (worker.heartbeat.running) span.muted { " / " (worker.heartbeat.concurrency) } }
                            td.num.wide { (in_words(visit.now.since(worker.started_at))) }
                            td.num { (components::when(worker.seen_at, visit.now)) }
                            td { (components::id(worker.heartbeat.id)) }
                        }
                    } }
                } }
            }
        }
    };
    Ok(visit.html(Page::new("Workers", "/workers"), &content))
}

pub(super) async fn locks(visit: PageContext, _: Nothing) -> Answer {
    let locks = visit.admin().locks().await?;
    let content = html! {
        section #locks data-live {
            @if locks.is_empty() {
                (components::empty("No held locks.", "Locks give one owner at a time exclusive access to a resource; over HTTP:", &format!("curl -X POST {}/v1/locks/report/acquire -H 'Content-Type: application/json' -d '{{\"owner\": \"me\", \"ttl\": \"1m\"}}'", visit.origin())))
            } @else {
                div.scroll { table.rows {
                    thead { tr { th { "Lock" } th { "Owner" } th.num.wide { "Fence" } th.num { "Runs out" } @if visit.may_change() { th { span.hidden { "Actions" } } } } }
                    tbody { @for lock in &locks {
                        tr {
                            td.main { (lock.name) }
                            td { code { (components::cut(&lock.owner, 48)) } }
                            td.num.wide { (lock.token) }
                            td.num { (components::when(lock.expires_at, visit.now)) }
                            @if visit.may_change() { td.num { (components::asking(&visit, &format!("/locks/{}/free", components::part(&lock.name)), "Free", "Its owner may still be running.", None)) } }
                        }
                    } }
                } }
            }
        }
    };
    Ok(visit.html(Page::new("Locks", "/locks"), &content))
}

pub(super) async fn free(visit: PageContext, Named { name }: Named) -> Answer {
    let freed = visit.admin().unlock(&name).await?;
    Ok(visit.done("/locks", &if freed { format!("{name} is free.") } else { format!("{name} was free already.") }))
}
