//! Messages to users, of which other processes are informed; the other operations are `ops::notifications`.

use punctual_core::{NewNotification, Notification};

use super::core::Core;
use crate::ops::notifications;

pub(crate) async fn notify(store: &Core, messages: &[NewNotification]) -> sqlx::Result<Vec<Notification>> {
    if messages.is_empty() {
        return Ok(Vec::new());
    }
    let stored = match messages {
        [_] => store.edit_one(|edit| notifications::notify(edit, messages)).await?,
        _ => store.edit(|edit| notifications::notify(edit.single(), messages)).await?,
    };
    store.hints.notify_jobs();
    Ok(stored)
}
