//! Messages to users, of which other processes are informed; the other operations are `ops::notifications`.

use punctual_core::{NewNotification, Notification};

use super::core::Core;
use crate::ops::{edit::Edit, notifications};

pub(crate) async fn notify(store: &Core, messages: &[NewNotification]) -> sqlx::Result<Vec<Notification>> {
    if messages.is_empty() {
        return Ok(Vec::new());
    }
    let notify = |edit: Edit<'_>| notifications::notify(edit, messages);
    let stored = if messages.len() == 1 { store.edit_one(notify).await? } else { store.edit(notify).await? };
    store.hints.notify_jobs();
    Ok(stored)
}
