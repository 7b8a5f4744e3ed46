//! Performs actions from the screen, with the same calls and the same actor as the other commands.

use super::state::{Action, StatusLine};
use crate::{administer::Administer, text::shortened};

/// Performs an action and returns the message to show.
pub(crate) async fn perform(admin: &dyn Administer, action: &Action) -> StatusLine {
    let done = match action {
        Action::Pause(name) => admin.pause_queue(name).await.map(|()| format!("{name} paused")),
        Action::Resume(name) => admin.resume_queue(name).await.map(|()| format!("{name} resumed")),
        Action::Retry(id) => admin.retry(*id).await.map(|()| format!("{} will run again", shortened(&id.to_string()))),
        Action::Cancel(id) => {
            admin.cancel(*id, None).await.map(|()| format!("{} cancelled", shortened(&id.to_string())))
        }
    };
    match done {
        Ok(message) => StatusLine::Done(message),
        Err(error) => StatusLine::Refused(error.to_string()),
    }
}
