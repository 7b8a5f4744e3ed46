//! Notifies open pages of changes by server-sent events; the pages then fetch their content again.

use std::convert::Infallible;

use axum::response::{
    IntoResponse,
    sse::{Event, KeepAlive, Sse},
};
use futures_util::stream;

use super::{Answer, page_context::PageContext};
use crate::route::Nothing;

pub(super) async fn stream(context: PageContext, _: Nothing) -> Answer {
    let (changes, stopping) = (context.app().history.changes(), context.app().stopping.clone());
    let events = stream::unfold((changes, stopping), |(mut changes, stopping)| async move {
        tokio::select! {
            changed = changes.changed() => changed.ok()?,
            () = stopping.cancelled() => return None,
        }
        let number = *changes.borrow_and_update();
        Some((Ok::<_, Infallible>(Event::default().event("change").data(number.to_string())), (changes, stopping)))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
}
