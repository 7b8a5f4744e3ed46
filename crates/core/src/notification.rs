//! What jobs tell people: a message to a user, or to everybody.

use serde::Serialize;

use crate::{Invalid, JobId, Json, Timestamp, check, limits};

/// A message that somebody is to get.
#[derive(Debug, Clone, PartialEq)]
pub struct NewNotification {
    /// Who; everybody if nobody in particular.
    pub user_id: Option<String>,
    /// What they are told.
    pub message: Json,
    /// The job that tells it, if one does.
    pub job: Option<JobId>,
}

impl NewNotification {
    /// Refuses what breaks a limit, naming the field and the limit.
    pub fn check(&self) -> Result<(), Invalid> {
        if let Some(user) = &self.user_id {
            check::word("user", user, limits::LABEL_MAX_CHARS)?;
        }
        self.message.check("message", limits::NOTIFICATION_MAX_BYTES)
    }
}

/// A message that was stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Notification {
    /// Grows with each one, in the order in which they can be seen: whoever has got one has missed nothing before it,
    /// and goes on from there.
    pub id: u64,
    /// To whom; to everybody if to nobody in particular.
    pub user_id: Option<String>,
    /// What they are told.
    pub message: Json,
    /// The job that tells it, if one does.
    pub job: Option<JobId>,
    /// When it was stored.
    pub created_at: Timestamp,
}

impl Notification {
    /// A message that was stored with that number.
    pub fn new(id: u64, new: NewNotification, created_at: Timestamp) -> Self {
        let NewNotification { user_id, message, job } = new;
        Self { id, user_id, message, job, created_at }
    }

    /// Whether a user is to get it.
    pub fn is_for(&self, user: &str) -> bool {
        self.user_id.as_deref().is_none_or(|own| own == user)
    }
}
