//! Notifications: messages from jobs to one user or to all users.

use serde::Serialize;

use crate::{Invalid, JobId, Json, Timestamp, check, limits};

/// A notification that is to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct NewNotification {
    /// The recipient; nothing for all users.
    pub user_id: Option<String>,
    /// The message.
    pub message: Json,
    /// The job that sends it, if any.
    pub job: Option<JobId>,
}

impl NewNotification {
    /// Rejects invalid input; the error names the field and the limit.
    pub fn check(&self) -> Result<(), Invalid> {
        if let Some(user) = &self.user_id {
            check::name("user", user, limits::LABEL_MAX_CHARS)?;
        }
        self.message.check("message", limits::NOTIFICATION_MAX_BYTES)
    }
}

/// A notification.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Notification {
    /// Number of the notification. Numbers increase in the order in which notifications become visible, so a client
    /// that has received one can continue after its number without missing any.
    pub id: u64,
    /// Recipient; null for all users.
    pub user_id: Option<String>,
    /// The message.
    pub message: Json,
    /// Job that sent the notification, if any.
    pub job: Option<JobId>,
    /// Creation time.
    pub created_at: Timestamp,
}

impl Notification {
    /// The stored notification with this number.
    pub fn new(id: u64, new: NewNotification, created_at: Timestamp) -> Self {
        let NewNotification { user_id, message, job } = new;
        Self { id, user_id, message, job, created_at }
    }

    /// Whether the user is a recipient.
    pub fn is_for(&self, user: &str) -> bool {
        self.user_id.as_deref().is_none_or(|own| own == user)
    }
}
