//! What an operator does from the picture: the same calls as those of the other commands, by the same actor.

use punctual::Admin;

use super::state::{Action, Said};
use crate::text::shortened;

/// Does it, and says what became of it.
pub(crate) async fn perform(admin: &Admin, action: &Action) -> Said {
    let done = match action {
        Action::Pause(name) => admin.pause_queue(name).await.map(|()| format!("{name} paused")),
        Action::Resume(name) => admin.resume_queue(name).await.map(|()| format!("{name} resumed")),
        Action::Retry(id) => admin.retry(*id).await.map(|()| format!("{} will run again", shortened(&id.to_string()))),
        Action::Cancel(id) => {
            admin.cancel(*id, None).await.map(|()| format!("{} cancelled", shortened(&id.to_string())))
        }
    };
    match done {
        Ok(said) => Said::Done(said),
        Err(error) => Said::Refused(error.to_string()),
    }
}
